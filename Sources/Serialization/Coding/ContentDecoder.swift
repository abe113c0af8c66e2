// A coded body, decoded as it arrives (RFC 9110, 8.4), under a limit on what it comes to.
//
// Two codings are two streams: what the outer one gives goes in small blocks through the inner one, so that nothing but
// the end result is ever held whole. The decoder costs what `memoryBytes` says and frees it when it goes.
// How it is tested: Tests/SerializationTests/{ContentDecoder,ContentBomb}Tests.swift, Tests/Fuzz/Codings.

import Bytes

/// How far a `ContentDecoder` came.
public enum DecodeProgress: Equatable, Sendable {
  /// All that has come is decoded.
  case needsMore
  /// The body comes to more than the limit, or to far more between its two codings.
  case exceedsLimit
  /// Offsets count coded bytes, of two codings those that the faulty one was read from. They are exact for gzip and
  /// deflate; for zstd they are where the block at fault begins, for br the last multiple of 1024 before it.
  case fault(ContentFault)
}

/// Decodes one body.
public struct ContentDecoder: ~Copyable {
  /// Bytes between two codings at a time.
  static let blockBytes = 16 << 10
  /// Between two codings there may be this many times the bytes that came out so far, and this many bytes more. What is
  /// coded is hardly ever longer than what it stands for, and a block that a decoder waits for is 128 KiB at most; but
  /// 100 bytes can be blown up to megabytes of empty members, which stand for nothing and take 40 ns a byte.
  static let betweenFactor = 2
  static let betweenAllowance = 256 << 10

  private var outer: CodedStream
  private var inner: CodedStream?
  private var verdict: DecodeProgress?

  /// `codings` in the order in which they were applied, as `ContentEncoding` reads them: one or two.
  public init(_ codings: [ContentCoding]) {
    precondition((1...ContentEncoding.mostCodings).contains(codings.count), "one or two codings")
    outer = CodedStream(codings[codings.count - 1])
    inner = codings.count == 2 ? CodedStream(codings[0]) : nil
  }

  /// Decodes the next piece of the body, of any size, and appends to `out`. No more than `limit` bytes are appended by
  /// all calls together; it is the same in each of them, and below 2 GiB. What a body that is refused has left in `out`
  /// means nothing. Every call behind a refusal says the same again.
  public mutating func decode(_ input: Span<UInt8>, into out: inout ByteBuffer, limit: Int) -> DecodeProgress {
    if let verdict { return verdict }
    let progress =
      inner == nil
      ? outer.decode(input, into: &out, limit: limit) : decodeTwice(input, into: &out, limit: limit)
    if progress != .needsMore { verdict = progress }
    return progress
  }

  /// The fault of a body that ends here: one that is cut off. A body without any byte is no valid coding of anything,
  /// but servers send it where there is no content, browsers take it, and whoever reads it reads nothing: it has none.
  public func finish() -> ContentFault? {
    switch verdict {
    case .fault(let fault): return fault
    case .exceedsLimit:
      return ContentFault("expected no more than the limit, found more", offset: outer.consumedBytes)
    case .needsMore, nil: break
    }
    if let fault = outer.finish() { return fault }
    guard let fault = inner?.finish() else { return nil }
    return within(fault)
  }

  /// Most memory in bytes that the decoder of such a body holds between two calls, `out` not counted. Windows are as
  /// large as a body says, but only what was decoded is ever written to them. For one that exceeds the limit br fills a
  /// window of up to 16 MiB before it stops: it is to be freed at once.
  public static func memoryBytes(for codings: [ContentCoding], limit: Int) -> Int {
    guard let last = codings.last else { return 0 }
    if codings.count == 1 { return CodedStream.memoryBytes(last, limit: limit) }
    return CodedStream.memoryBytes(last, limit: mostBetween(limit)) + blockBytes
      + memoryBytes(for: Array(codings.dropLast()), limit: limit)
  }

  private mutating func decodeTwice(
    _ input: Span<UInt8>, into out: inout ByteBuffer, limit: Int
  ) -> DecodeProgress {
    var block = ByteBuffer()
    var at = 0
    while true {
      // Blocks end at the same bytes however the body is cut, and so does what is seen between them.
      let room = Self.blockBytes - outer.decodedBytes % Self.blockBytes
      let progress = outer.decode(input, from: &at, into: &block, room: room)
      // What came before a fault is judged first, as it is where the pieces are small.
      switch inner?.decode(block.bytes, into: &out, limit: limit) {
      case .fault(let fault): return .fault(within(fault))
      case .exceedsLimit: return .exceedsLimit
      case .needsMore, nil: block.removeAll()
      }
      let isAtBlockEnd = outer.decodedBytes % Self.blockBytes == 0
      if isAtBlockEnd, outer.decodedBytes > Self.mostBetween(inner?.decodedBytes ?? 0) { return .exceedsLimit }
      switch progress {
      case .wantsRoom: continue
      case .wantsInput: return .needsMore
      case .fault(let fault): return .fault(fault)
      }
    }
  }

  private static func mostBetween(_ decoded: Int) -> Int { betweenFactor * decoded + betweenAllowance }

  private func within(_ fault: ContentFault) -> ContentFault {
    ContentFault("within \(outer.coding): \(fault.reason)", offset: fault.offset)
  }
}

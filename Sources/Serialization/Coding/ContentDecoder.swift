// Decodes a coded body as it arrives (RFC 9110, 8.4), with a limit on the result.
//
// Two codings are two streams. The output of the outer one passes through the inner one in small blocks, so only the
// end result is ever complete in memory. `memoryBytes` gives the cost of a decoder, which is freed with it. How it is
// tested: Tests/SerializationTests/{ContentDecoder,ContentBomb}Tests.swift, Tests/Fuzz/Codings.

import Bytes

/// The progress of a `ContentDecoder`.
public enum DecodeProgress: Equatable, Sendable {
  /// Everything that has arrived is decoded.
  case needsMore
  /// The body exceeds the limit, or has far more than that between its two codings.
  case exceedsLimit
  /// Offsets count coded bytes; with two codings, those of the input of the faulty one. They are exact for gzip and
  /// deflate. For zstd they are the beginning of the faulty block, for br the last multiple of 1024 before the fault.
  case fault(ContentFault)
}

/// Decodes one body.
public struct ContentDecoder: ~Copyable {
  /// Bytes between two codings at a time.
  static let blockBytes = 16 << 10
  /// Between two codings there may be this many times the bytes that have come out, plus the allowance. Coded data is
  /// hardly ever longer than what it decodes to, and a decoder waits for a block of at most 128 KiB. But 100 bytes can
  /// expand to megabytes of empty members, which decode to nothing and cost 40 ns per byte.
  static let betweenFactor = 2
  static let betweenAllowance = 256 << 10

  private var outer: CodedStream
  private var inner: CodedStream?
  private var verdict: DecodeProgress?

  /// `codings` in the order in which they were applied, as `ContentEncoding` returns them: one or two.
  public init(_ codings: [ContentCoding]) {
    precondition((1...ContentEncoding.mostCodings).contains(codings.count), "one or two codings")
    outer = CodedStream(codings[codings.count - 1])
    inner = codings.count == 2 ? CodedStream(codings[0]) : nil
  }

  /// Decodes the next piece of the body, of any size, and appends the result to `out`. All calls together append at
  /// most `limit` bytes; `limit` must be the same in each call and below 2 GiB. If the body is refused, the contents of
  /// `out` mean nothing, and all further calls return the same result.
  public mutating func decode(_ input: Span<UInt8>, into out: inout ByteBuffer, limit: Int) -> DecodeProgress {
    if let verdict { return verdict }
    let progress =
      inner == nil
      ? outer.decode(input, into: &out, limit: limit) : decodeTwice(input, into: &out, limit: limit)
    if progress != .needsMore { verdict = progress }
    return progress
  }

  /// The fault of a body that ends here, if it is incomplete. An empty body is not valid in any coding, but it has no
  /// fault: servers send it when there is no content, browsers accept it, and there is nothing to decode.
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

  /// The most memory, in bytes, that a decoder for such a body needs between two calls, without `out`. A body
  /// determines the size of its windows, but only decoded bytes are ever written to them. If a body exceeds the limit,
  /// br fills a window of up to 16 MiB before it stops; such a decoder must be freed at once.
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
      // Blocks end at the same bytes however the input is divided, so the check between the codings sees the same data.
      let room = Self.blockBytes - outer.decodedBytes % Self.blockBytes
      let progress = outer.decode(input, from: &at, into: &block, room: room)
      // The bytes before a fault are judged first, as with small pieces.
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

// Decodes one coding of a body as its bytes arrive: gzip, deflate, brotli or zstd, with one state machine.
//
// A body is a sequence of members. gzip may have several (RFC 1952, 2.2), zstd several frames including skippable ones
// (RFC 8878, 3); deflate and brotli have one. The library decodes a member and reports its end. What may follow it is
// decided here.
//
// The first bytes of a member are passed one by one, for three reasons. They decide whether deflate is wrapped. A body
// in a different coding is found at its first wrong byte. And zstd must not use its shortcut for a frame that it sees
// as a whole: that ignores the limit on the window, and accepts a frame even if the rest of a header only resembles
// one. How it is tested: Tests/SerializationTests/ContentDecoderTests.swift, Tests/Fuzz/Codings.

import Bytes
import CCodings

/// The decoder of one coding. Owns the library's memory.
@safe
struct CodedStream: ~Copyable {
  enum Progress: Equatable {
    /// All input is consumed and all of its output is written.
    case wantsInput
    /// The room is full; there may be more output without further input.
    case wantsRoom
    case fault(ContentFault)
  }

  /// The least room that the library gets, in bytes, if that much is left. With this much, the cost of the call itself
  /// does not matter.
  private static let leastRoom = 4 << 10
  private static let gzipSignature: [UInt8] = [0x1f, 0x8b, 0x08]
  private static let zstdSignature: [UInt8] = [0x28, 0xb5, 0x2f, 0xfd]
  /// After a first byte from 0x50 to 0x5f.
  private static let skippableSignature: [UInt8] = [0x50, 0x2a, 0x4d, 0x18]

  let coding: ContentCoding
  private let decoder: OpaquePointer
  /// Coded bytes consumed.
  private(set) var consumedBytes = 0
  private(set) var decodedBytes = 0
  /// Of the current member; 0 between two.
  private var memberBytes = 0
  private var wholeMembers = 0
  private var firstByte: UInt8 = 0
  /// The last step filled its room, so the library may have more output.
  private var mayHoldOutput = false

  init(_ coding: ContentCoding) {
    self.coding = coding
    guard let decoder = unsafe ccodings_decoder_create(Self.format(coding)) else {
      fatalError("out of memory for a decoder of \(coding)")
    }
    unsafe self.decoder = unsafe decoder
  }

  deinit { unsafe ccodings_decoder_destroy(decoder) }

  static func format(_ coding: ContentCoding) -> ccodings_format {
    switch coding {
    case .gzip: CCODINGS_GZIP
    case .deflate: CCODINGS_ZLIB
    case .br: CCODINGS_BROTLI
    case .zstd: CCODINGS_ZSTD
    }
  }

  /// Decodes `input` from `at` on and appends at most `room` bytes to `out`.
  mutating func decode(
    _ input: Span<UInt8>, from at: inout Int, into out: inout ByteBuffer, room: Int
  ) -> Progress {
    var room = room
    while at < input.count || mayHoldOutput {
      if room <= 0 { return .wantsRoom }
      var end = input.count
      if at < end, memberBytes < openingBytes {
        if let fault = judgeOpening(input[at]) { return .fault(fault) }
        end = at + 1
      }
      let step = advance(input.extracting(at..<end), into: &out, room: room)
      switch step.outcome {
      case CCODINGS_WANTS_ROOM: mayHoldOutput = true
      case CCODINGS_WANTS_INPUT:
        // No library leaves input while it has room. If one did, this would loop for ever.
        if step.consumed == 0 && step.written == 0 && at < end { return .fault(fault(CCODINGS_DAMAGED)) }
        mayHoldOutput = false
      case CCODINGS_ENDED:
        mayHoldOutput = false
        memberBytes = 0
        wholeMembers += 1
      default: return .fault(fault(step.outcome))
      }
      at += step.consumed
      room -= step.written
    }
    return .wantsInput
  }

  /// The same, where `out` receives all decoded bytes, at most `limit`.
  mutating func decode(_ input: Span<UInt8>, into out: inout ByteBuffer, limit: Int) -> DecodeProgress {
    var at = 0
    var progress = decode(input, from: &at, into: &out, room: limit - decodedBytes)
    if progress == .wantsRoom {
      // The limit is reached. What is left may be only a checksum: is there one more byte?
      var beyond = ByteBuffer()
      progress = decode(input, from: &at, into: &beyond, room: 1)
      if !beyond.isEmpty { return .exceedsLimit }
    }
    switch progress {
    case .wantsInput: return .needsMore
    case .wantsRoom: return .exceedsLimit
    case .fault(let fault): return .fault(fault)
    }
  }

  /// The fault of a body that ends here. An empty body has none: see `ContentDecoder.finish`.
  func finish() -> ContentFault? {
    if memberBytes == 0 { return nil }
    return ContentFault("expected more of the \(coding) data, found its end", offset: consumedBytes)
  }

  private mutating func advance(_ input: Span<UInt8>, into out: inout ByteBuffer, room: Int) -> ccodings_step {
    out.reserve(min(room, Self.leastRoom))
    var step = ccodings_step()
    let decoder = unsafe self.decoder
    _ = unsafe out.fillTail { tail in
      unsafe input.withUnsafeBufferPointer { input in
        unsafe step = ccodings_decode(
          decoder, input.baseAddress, input.count, tail.baseAddress, min(tail.count, room))
      }
      return step.written
    }
    consumedBytes += step.consumed
    memberBytes += step.consumed
    decodedBytes += step.written
    return step
  }

  // MARK: The beginning of a member

  /// How many bytes at the beginning of a member are passed one by one: a signature, and the longest header of zstd.
  private var openingBytes: Int {
    switch coding {
    case .gzip: 3
    case .deflate: 2
    case .br: 1
    case .zstd: 18
    }
  }

  private mutating func judgeOpening(_ byte: UInt8) -> ContentFault? {
    if memberBytes == 0 { firstByte = byte }
    switch coding {
    case .gzip: return expect(Self.gzipSignature, byte)
    case .zstd:
      return expect(firstByte & 0xf0 == 0x50 ? Self.skippableSignature : Self.zstdSignature, byte)
    case .br: return expectOnlyMember()
    case .deflate:
      if let fault = expectOnlyMember() { return fault }
      if memberBytes == 1, !Self.isWrapper(firstByte, byte) {
        unsafe ccodings_decoder_restart_raw(decoder, firstByte)
      }
      return nil
    }
  }

  private func expectOnlyMember() -> ContentFault? {
    if memberBytes > 0 || wholeMembers == 0 { return nil }
    return ContentFault("expected the end of the body behind the \(coding) data, found more", offset: consumedBytes)
  }

  private func expect(_ signature: [UInt8], _ byte: UInt8) -> ContentFault? {
    if memberBytes >= signature.count || signature[memberBytes] == byte { return nil }
    if memberBytes == 0 && coding == .zstd && byte & 0xf0 == 0x50 { return nil }
    let expected = "\(coding) data, which begins with \(Self.shown(signature))"
    let alternative = wholeMembers > 0 && memberBytes == 0 ? "the end of the body or more " : ""
    return ContentFault(
      "expected \(alternative)\(expected), found \(Self.shown([byte])) as byte \(memberBytes + 1)",
      offset: consumedBytes)
  }

  /// Two digits for each byte.
  private static func shown(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 0x10 ? "0" : "") + String($0, radix: 16) }.joined(separator: " ")
  }

  /// Whether deflate is wrapped (RFC 1950, 2.2): method 8, a window of at most 32 KiB, and the check bits. An encoder
  /// without the wrapper never begins like this: the bytes would be a stored block with bits set that it writes as
  /// zeros.
  private static func isWrapper(_ first: UInt8, _ second: UInt8) -> Bool {
    first & 0x0f == 8 && first >> 4 <= 7 && (Int(first) << 8 | Int(second)) % 31 == 0
  }

  // MARK: What the library finds

  private func fault(_ outcome: ccodings_outcome) -> ContentFault {
    let place = Int(unsafe ccodings_fault_offset(decoder))
    let member = consumedBytes - memberBytes
    switch outcome {
    case CCODINGS_WRONG_CHECKSUM:
      return ContentFault("expected the checksum of what the \(coding) data holds, found another", offset: place)
    case CCODINGS_WRONG_LENGTH:
      return ContentFault("expected the length of what the \(coding) data holds, found another", offset: place)
    case CCODINGS_NEEDS_DICTIONARY:
      return ContentFault("expected \(coding) data without a dictionary, found some that needs one", offset: member)
    case CCODINGS_LARGE_WINDOW:
      let most = Self.largestWindow(coding)
      return ContentFault("expected a \(coding) window of at most \(most) bytes, found a larger one", offset: member)
    case CCODINGS_NO_MEMORY: fatalError("out of memory for a decoder of \(coding)")
    default: return ContentFault("expected \(coding) data, found what is none", offset: place)
    }
  }

  // MARK: Memory

  /// The most memory of a decoder besides its window, in bytes. zlib needs 11 KiB. zstd needs 486 KiB, which is two of
  /// its blocks. br needs 3 MiB if a body has the most prefix codes possible, and usually 26 KiB.
  private static func bytesBesideWindow(_ coding: ContentCoding) -> Int {
    switch coding {
    case .gzip, .deflate: 16 << 10
    case .br: 3 << 20
    case .zstd: 512 << 10
    }
  }

  private static func largestWindow(_ coding: ContentCoding) -> Int {
    switch coding {
    case .gzip, .deflate: 32 << 10
    case .br: 1 << Int(CCODINGS_BROTLI_WINDOW_BITS)
    case .zstd: 1 << Int(CCODINGS_ZSTD_WINDOW_BITS)
    }
  }

  static func memoryBytes(_ coding: ContentCoding, limit: Int) -> Int {
    bytesBesideWindow(coding) + min(largestWindow(coding), limit)
  }
}

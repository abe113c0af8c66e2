// Coded bodies: what is decoded, in whatever pieces it comes, and everything that is refused.

import Bytes
import Serialization
import TestSupport
import Testing

/// What a coded body came to.
enum DecodedContent: Equatable, CustomStringConvertible {
  case content([UInt8])
  case exceedsLimit
  case refused(ContentFault)

  var description: String {
    switch self {
    case .content(let bytes): "\(bytes.count) bytes, '\(shown(bytes))'"
    case .exceedsLimit: "exceeds the limit"
    case .refused(let fault): "refused: \(fault.sentence)"
    }
  }

  /// Kind of the outcome, where only that has to agree.
  var isContent: Bool {
    if case .content = self { return true }
    return false
  }
}

/// Feeds the pieces one after the other and says that the body ends.
func decode(
  _ pieces: [[UInt8]], _ codings: [ContentCoding], limit: Int = 64 << 10, _ memory: GuardedMemory
) -> DecodedContent {
  var decoder = ContentDecoder(codings)
  var out = ByteBuffer()
  for piece in pieces {
    let progress = memory.lend(piece) { decoder.decode($0, into: &out, limit: limit) }
    precondition(out.count <= limit, "more than the limit")
    switch progress {
    case .needsMore: continue
    case .exceedsLimit: return .exceedsLimit
    case .fault(let fault): return .refused(fault)
    }
  }
  if let fault = decoder.finish() { return .refused(fault) }
  return .content(out.array)
}

func encoded(_ body: [UInt8], as codings: [ContentCoding]) -> [UInt8] {
  var out = ByteBuffer()
  ContentEncoder.encode(body.span, as: codings, to: &out)
  return out.array
}

@Suite struct ContentDecoderTests {
  struct Body: Sendable, CustomTestStringConvertible {
    let sentence: String
    let coding: ContentCoding
    let bytes: [UInt8]
    var content = CodedSamples.plain
    /// Lengths at which the body, cut there, is one as well.
    var ends: Set<Int> = []

    var testDescription: String { sentence }
  }

  private typealias Samples = CodedSamples

  /// A frame that is skipped (RFC 8878, 3.1.2).
  static let skippable = hexadecimal("5a2a4d1805000000") + octets("aside")

  static let accepted: [Body] = [
    Body(sentence: "gzip of a file, with its name", coding: .gzip, bytes: Samples.gzip),
    Body(sentence: "gzip from a pipe", coding: .gzip, bytes: Samples.gzipFast),
    Body(sentence: "gzip with every field a header may have", coding: .gzip, bytes: Samples.gzipFields),
    Body(sentence: "gzip of nothing", coding: .gzip, bytes: Samples.gzipEmpty, content: []),
    Body(
      sentence: "gzip of two members", coding: .gzip, bytes: Samples.gzip + Samples.gzipFast,
      content: Samples.plain + Samples.plain, ends: [Samples.gzip.count]),
    Body(
      sentence: "gzip with empty members around one", coding: .gzip,
      bytes: Samples.gzipEmpty + Samples.gzip + Samples.gzipEmpty,
      ends: [20, 20 + Samples.gzip.count]),
    Body(sentence: "zlib", coding: .deflate, bytes: Samples.zlib),
    Body(sentence: "zlib, stored", coding: .deflate, bytes: Samples.zlibStored),
    Body(sentence: "zlib with a small window", coding: .deflate, bytes: Samples.zlibSmallWindow),
    Body(sentence: "zlib of nothing", coding: .deflate, bytes: Samples.zlibEmpty, content: []),
    Body(sentence: "deflate without a wrapper, fixed codes", coding: .deflate, bytes: Samples.rawFixed),
    Body(
      sentence: "deflate without a wrapper, dynamic codes", coding: .deflate, bytes: Samples.rawDynamic,
      content: Samples.plainFortyTimes),
    Body(sentence: "deflate without a wrapper, stored", coding: .deflate, bytes: Samples.rawStored),
    Body(sentence: "deflate without a wrapper, flushed in the middle", coding: .deflate, bytes: Samples.rawFlushed),
    Body(sentence: "deflate without a wrapper, of nothing", coding: .deflate, bytes: Samples.rawEmpty, content: []),
    Body(sentence: "brotli at its best", coding: .br, bytes: Samples.brotli),
    Body(sentence: "brotli at its fastest", coding: .br, bytes: Samples.brotliFast),
    Body(sentence: "brotli with the widest window", coding: .br, bytes: Samples.brotliWideWindow),
    Body(sentence: "brotli of nothing", coding: .br, bytes: Samples.brotliEmpty, content: []),
    Body(sentence: "zstd from a pipe, with a checksum", coding: .zstd, bytes: Samples.zstd),
    Body(sentence: "zstd with the size of the content", coding: .zstd, bytes: Samples.zstdSized),
    Body(sentence: "zstd without a checksum", coding: .zstd, bytes: Samples.zstdUnchecked),
    Body(
      sentence: "zstd of much in little", coding: .zstd, bytes: Samples.zstdRepeated,
      content: Samples.plainFortyTimes),
    Body(sentence: "zstd of nothing", coding: .zstd, bytes: Samples.zstdEmpty, content: []),
    Body(
      sentence: "zstd of two frames", coding: .zstd, bytes: Samples.zstd + Samples.zstdSized,
      content: Samples.plain + Samples.plain, ends: [Samples.zstd.count]),
    Body(
      sentence: "zstd with frames to skip around one", coding: .zstd, bytes: skippable + Samples.zstd + skippable,
      ends: [skippable.count, skippable.count + Samples.zstd.count]),
    Body(sentence: "zstd with nothing but a frame to skip", coding: .zstd, bytes: skippable, content: []),
    Body(
      // Behind the signature come a header and blocks that read as one, which zstd itself takes for one if cut there.
      sentence: "zstd with what looks like a frame to skip", coding: .zstd,
      bytes: hexadecimal("28b52ffd 502a4d18 08000000 08000062 5bca0061"),
      content: [0, 0x62] + [UInt8](repeating: 0x61, count: 6475)),
    Body(
      sentence: "zstd with an empty frame to skip", coding: .zstd, bytes: hexadecimal("502a4d1800000000"), content: []),
  ]

  @Test(arguments: accepted)
  func isDecoded(body: Body) {
    let memory = GuardedMemory()
    for split in Split.usual {
      let outcome = decode(split.pieces(body.bytes), [body.coding], memory)
      #expect(outcome == .content(body.content), "\(split)")
    }
  }

  @Test(arguments: accepted)
  func isRefusedWhereItIsCutOff(body: Body) {
    let memory = GuardedMemory()
    for count in 1..<body.bytes.count where !body.ends.contains(count) {
      let part = Array(body.bytes.prefix(count))
      let fault = ContentFault("expected more of the \(body.coding) data, found its end", offset: count)
      #expect(decode([part], [body.coding], memory) == .refused(fault), "the first \(count) bytes")
      #expect(decode(Split.bytewise.pieces(part), [body.coding], memory) == .refused(fault), "\(count), bytewise")
    }
    for count in body.ends {
      #expect(decode([Array(body.bytes.prefix(count))], [body.coding], memory).isContent, "the first \(count) bytes")
    }
  }

  /// What no member begins with.
  @Test(arguments: accepted)
  func isRefusedWithMoreBehindIt(body: Body) {
    let memory = GuardedMemory()
    for tail in ["\0", "\n", "x", "HTTP/1.1 200 OK\r\n", "\u{ff}\u{ff}"] {
      let bytes = body.bytes + octets(tail)
      for split in Split.usual.prefix(6) {
        guard case .refused(let fault) = decode(split.pieces(bytes), [body.coding], memory) else {
          Issue.record("\(shown(octets(tail))) is passed over, \(split)")
          continue
        }
        #expect(fault.offset == body.bytes.count, "\(split)")
        #expect(fault.reason.contains("the end of the body"), "\(split)")
      }
    }
    if body.coding == .deflate || body.coding == .br {
      #expect(!decode([body.bytes + body.bytes], [body.coding], memory).isContent)
    }
  }

  /// With a checksum no damage passes for content; without one it is at least judged alike in any pieces.
  @Test(arguments: accepted)
  func damageIsJudgedAlikeInAnyPieces(body: Body) {
    let memory = GuardedMemory()
    let isChecked = body.bytes != Samples.zstdSized && (body.coding == .gzip || body.bytes == Samples.zstd)
    for place in body.bytes.indices {
      for bit in stride(from: place % 3, to: 8, by: 3) {
        var bytes = body.bytes
        bytes[place] ^= 1 << bit
        let whole = decode([bytes], [body.coding], memory)
        if isChecked, case .content(let content) = whole { #expect(content == body.content, "byte \(place)") }
        for split in [Split.bytewise, .random(seed: UInt64(place), longest: 9)] {
          let pieces = decode(split.pieces(bytes), [body.coding], memory)
          #expect(whole == pieces, "bit \(bit) of byte \(place), \(split)")
        }
      }
    }
  }

  // MARK: Refused

  struct Refusal: Sendable, CustomTestStringConvertible {
    let sentence: String
    let coding: ContentCoding
    let bytes: [UInt8]
    let reason: String
    let offset: Int

    var testDescription: String { sentence }
  }

  private static func changed(_ bytes: [UInt8], at place: Int) -> [UInt8] {
    var bytes = bytes
    bytes[place < 0 ? bytes.count + place : place] ^= 0x40
    return bytes
  }

  private static let gzipBeginning = "gzip data, which begins with 1f 8b 08"
  private static let zstdBeginning = "zstd data, which begins with 28 b5 2f fd"
  private static let wideWindow = "expected a zstd window of at most 8388608 bytes, found a larger one"
  private static let anyDictionary = "data without a dictionary, found some that needs one"

  static let refused: [Refusal] = [
    Refusal(
      sentence: "a text that is said to be gzip", coding: .gzip, bytes: octets("<html>"),
      reason: "expected \(gzipBeginning), found 3c as byte 1", offset: 0),
    Refusal(
      sentence: "zlib that is said to be gzip", coding: .gzip, bytes: Samples.zlib,
      reason: "expected \(gzipBeginning), found 78 as byte 1", offset: 0),
    Refusal(
      sentence: "a signature of gzip whose second byte is another", coding: .gzip, bytes: hexadecimal("1f9d08"),
      reason: "expected \(gzipBeginning), found 9d as byte 2", offset: 1),
    Refusal(
      sentence: "gzip of another method", coding: .gzip, bytes: changed(Samples.gzip, at: 2),
      reason: "expected \(gzipBeginning), found 48 as byte 3", offset: 2),
    Refusal(
      sentence: "gzip with flags that are reserved", coding: .gzip, bytes: changed(Samples.gzip, at: 3),
      reason: "expected gzip data, found what is none", offset: 4),
    Refusal(
      sentence: "gzip whose header has a wrong checksum", coding: .gzip, bytes: changed(Samples.gzipFields, at: 17),
      reason: "expected gzip data, found what is none", offset: 31),
    Refusal(
      sentence: "gzip with a wrong checksum", coding: .gzip, bytes: changed(Samples.gzip, at: -5),
      reason: "expected the checksum of what the gzip data holds, found another", offset: Samples.gzip.count - 4),
    Refusal(
      sentence: "gzip with a wrong length", coding: .gzip, bytes: changed(Samples.gzip, at: -4),
      reason: "expected the length of what the gzip data holds, found another", offset: Samples.gzip.count),
    Refusal(
      sentence: "gzip padded with zeros", coding: .gzip, bytes: Samples.gzip + [0, 0, 0],
      reason: "expected the end of the body or more \(gzipBeginning), found 00 as byte 1",
      offset: Samples.gzip.count),
    Refusal(
      sentence: "gzip with half a signature behind it", coding: .gzip, bytes: Samples.gzip + hexadecimal("1f8b"),
      reason: "expected more of the gzip data, found its end", offset: Samples.gzip.count + 2),
    Refusal(
      sentence: "gzip with a second member of another kind", coding: .gzip, bytes: Samples.gzip + hexadecimal("1f00"),
      reason: "expected \(gzipBeginning), found 00 as byte 2", offset: Samples.gzip.count + 1),
    Refusal(
      sentence: "zlib with a wrong checksum", coding: .deflate, bytes: changed(Samples.zlib, at: -1),
      reason: "expected the checksum of what the deflate data holds, found another", offset: Samples.zlib.count),
    Refusal(
      sentence: "zlib with a dictionary", coding: .deflate, bytes: Samples.zlibDictionary,
      reason: "expected deflate \(anyDictionary)", offset: 0),
    Refusal(
      sentence: "zlib behind zlib", coding: .deflate, bytes: Samples.zlib + Samples.zlib,
      reason: "expected the end of the body behind the deflate data, found more", offset: Samples.zlib.count),
    Refusal(
      sentence: "gzip that is said to be deflate", coding: .deflate, bytes: Samples.gzip,
      reason: "expected deflate data, found what is none", offset: 1),
    Refusal(
      sentence: "a distance to before the beginning", coding: .deflate, bytes: hexadecimal("03020000"),
      reason: "expected deflate data, found what is none", offset: 2),
    Refusal(
      sentence: "brotli with a large window, which is no coding of HTTP", coding: .br, bytes: Samples.brotliLarge,
      reason: "expected a br window of at most 16777216 bytes, found a larger one", offset: 0),
    Refusal(
      sentence: "brotli behind brotli", coding: .br, bytes: Samples.brotliEmpty + Samples.brotli,
      reason: "expected the end of the body behind the br data, found more", offset: 1),
    Refusal(
      sentence: "gzip that is said to be zstd", coding: .zstd, bytes: Samples.gzip,
      reason: "expected \(zstdBeginning), found 1f as byte 1", offset: 0),
    Refusal(
      sentence: "zstd of version 0.7", coding: .zstd, bytes: hexadecimal("27b52ffd") + Samples.zstd.dropFirst(4),
      reason: "expected \(zstdBeginning), found 27 as byte 1", offset: 0),
    Refusal(
      sentence: "a signature of zstd whose last byte is another", coding: .zstd, bytes: hexadecimal("28b52ffc"),
      reason: "expected \(zstdBeginning), found fc as byte 4", offset: 3),
    Refusal(
      sentence: "a frame to skip that begins wrong", coding: .zstd, bytes: hexadecimal("5fb52ffd"),
      reason: "expected zstd data, which begins with 50 2a 4d 18, found b5 as byte 2", offset: 1),
    Refusal(
      sentence: "zstd with a wrong checksum", coding: .zstd, bytes: changed(Samples.zstd, at: -1),
      reason: "expected the checksum of what the zstd data holds, found another", offset: Samples.zstd.count - 4),
    Refusal(
      sentence: "zstd padded with zeros", coding: .zstd, bytes: Samples.zstd + [0],
      reason: "expected the end of the body or more \(zstdBeginning), found 00 as byte 1",
      offset: Samples.zstd.count),
    Refusal(
      sentence: "zstd with a dictionary", coding: .zstd, bytes: hexadecimal("28b52ffd 01 58 07 010000"),
      reason: "expected zstd \(anyDictionary)", offset: 0),
    Refusal(
      sentence: "zstd with a window of 16 MiB", coding: .zstd, bytes: Samples.zstdLong, reason: wideWindow, offset: 0),
    Refusal(
      sentence: "zstd with a window one step above 8 MiB", coding: .zstd, bytes: hexadecimal("28b52ffd 00 69 010000"),
      reason: wideWindow, offset: 0),
    Refusal(
      sentence: "zstd with the largest window there is", coding: .zstd, bytes: hexadecimal("28b52ffd 00 ff 010000"),
      reason: wideWindow, offset: 0),
    Refusal(
      sentence: "an empty frame of zstd with a huge window", coding: .zstd,
      bytes: hexadecimal("28b52ffd 80 b0 00000000 010000"), reason: wideWindow, offset: 0),
    Refusal(
      sentence: "a single segment of zstd of more than 8 MiB", coding: .zstd,
      bytes: hexadecimal("28b52ffd a0 01008000 010000"), reason: wideWindow, offset: 0),
    Refusal(
      sentence: "zstd with less than the size that it gives", coding: .zstd,
      bytes: Samples.zstdSized.prefix(5) + hexadecimal("6a") + Samples.zstdSized.dropFirst(6),
      reason: "expected zstd data, found what is none", offset: 9),
  ]

  @Test(arguments: refused)
  func isRefused(body: Refusal) {
    let memory = GuardedMemory()
    let expected = DecodedContent.refused(ContentFault(body.reason, offset: body.offset))
    for split in Split.usual {
      #expect(decode(split.pieces(body.bytes), [body.coding], memory) == expected, "\(split)")
    }
  }

  @Test func theLargestWindowOfZstdIsTaken() {
    let memory = GuardedMemory()
    #expect(decode([hexadecimal("28b52ffd 00 68 010000")], [.zstd], memory) == .content([]))
    // A single segment of 8 MiB: 64 blocks that repeat one byte 131072 times.
    let block = hexadecimal("02 00 10 61")
    let blocks = Array([[UInt8]](repeating: block, count: 63).joined()) + hexadecimal("03 00 10 61")
    let outcome = decode([hexadecimal("28b52ffd a0 00008000") + blocks], [.zstd], limit: 8 << 20, memory)
    #expect(outcome == .content([UInt8](repeating: 0x61, count: 8 << 20)))
  }

  // MARK: Nothing at all

  @Test(arguments: ContentCoding.allCases)
  func aBodyWithoutAnyByteIsEmpty(coding: ContentCoding) {
    let memory = GuardedMemory()
    #expect(decode([], [coding], memory) == .content([]))
    // Of two codings nothing can be left by the outer one, too.
    for outer in ContentCoding.allCases {
      #expect(decode([], [coding, outer], memory) == .content([]))
      #expect(decode([encoded([], as: [outer])], [coding, outer], memory) == .content([]))
    }
  }

  @Test(arguments: ContentCoding.allCases)
  func emptyPiecesChangeNothing(coding: ContentCoding) {
    let memory = GuardedMemory()
    let bytes = encoded(CodedSamples.plain, as: [coding])
    let pieces = bytes.flatMap { [[], [$0]] } + Array(repeating: [], count: 40)
    #expect(decode(pieces, [coding], memory) == .content(CodedSamples.plain))
    #expect(decode(pieces, [coding], limit: CodedSamples.plain.count, memory) == .content(CodedSamples.plain))
    #expect(decode(pieces, [coding], limit: CodedSamples.plain.count - 1, memory) == .exceedsLimit)
  }

  // MARK: Two codings

  static let pairs = ContentCoding.allCases.flatMap { first in ContentCoding.allCases.map { [first, $0] } }

  @Test(arguments: pairs)
  func twoCodingsAreTakenOffInOrder(codings: [ContentCoding]) {
    let memory = GuardedMemory()
    // More than the block between the two, and not easily made small.
    var generator = SeededGenerator(seed: 5)
    let plain = CodedSamples.plainFortyTimes + (0..<20_000).map { _ in UInt8.random(in: 0...255, using: &generator) }
    let bytes = encoded(encoded(plain, as: [codings[0]]), as: [codings[1]])
    #expect(bytes == encoded(plain, as: codings))
    for split in [Split.whole, .bytewise, .random(seed: 1, longest: 3000)] {
      #expect(decode(split.pieces(bytes), codings, limit: plain.count, memory) == .content(plain), "\(split)")
      #expect(decode(split.pieces(bytes), codings, limit: plain.count - 1, memory) == .exceedsLimit, "\(split)")
    }
    for count in stride(from: 1, to: bytes.count, by: 997) {
      #expect(!decode([Array(bytes.prefix(count))], codings, limit: plain.count, memory).isContent)
    }
    #expect(!decode([bytes + [0]], codings, limit: plain.count, memory).isContent)
  }

  @Test func theFaultOfTheInnerCodingCountsWhatTheOuterOneGave() {
    let memory = GuardedMemory()
    let damaged = Self.changed(CodedSamples.gzip, at: -5)
    let reason = "within br: expected the checksum of what the gzip data holds, found another"
    let expected = DecodedContent.refused(ContentFault(reason, offset: damaged.count - 4))
    for split in Split.usual {
      #expect(decode(split.pieces(encoded(damaged, as: [.br])), [.gzip, .br], memory) == expected, "\(split)")
    }
    let cut = encoded(Array(CodedSamples.gzip.prefix(40)), as: [.br])
    let end = ContentFault("within br: expected more of the gzip data, found its end", offset: 40)
    #expect(decode([cut], [.gzip, .br], memory) == .refused(end))
  }

  // MARK: Behind the verdict

  @Test func aRefusalStays() {
    var decoder = ContentDecoder([.gzip])
    var out = ByteBuffer()
    let (text, gzip) = (octets("x"), CodedSamples.gzip)
    let first = decoder.decode(text.span, into: &out, limit: 1000)
    let second = decoder.decode(gzip.span, into: &out, limit: 1000)
    #expect(first != .needsMore)
    #expect(second == first)
    #expect(decoder.finish().map(DecodeProgress.fault) == first)
    #expect(out.array == [])
  }

  @Test func aBodyBeyondTheLimitIsNeverWhole() {
    var decoder = ContentDecoder([.gzip])
    var out = ByteBuffer()
    let gzip = CodedSamples.gzip
    let first = decoder.decode(gzip.span, into: &out, limit: 10)
    let second = decoder.decode(gzip.span, into: &out, limit: 10)
    #expect(first == .exceedsLimit)
    #expect(second == .exceedsLimit)
    #expect(decoder.finish() != nil)
    #expect(out.array == Array(CodedSamples.plain.prefix(10)))
  }

  @Test func whatIsThereAlreadyStays() {
    var decoder = ContentDecoder([.zstd])
    var out = ByteBuffer()
    out.append("before ")
    let zstd = CodedSamples.zstd
    let progress = decoder.decode(zstd.span, into: &out, limit: CodedSamples.plain.count)
    #expect(progress == .needsMore)
    #expect(decoder.finish() == nil)
    #expect(out.array == octets("before ") + CodedSamples.plain)
  }
}

// Bodies that are encoded: they come back as they were, and are what other decoders know.

import Bytes
import Serialization
import TestSupport
import Testing

@Suite struct ContentEncoderTests {
  static let bodies: [(sentence: String, bytes: [UInt8])] = {
    var generator = SeededGenerator(seed: 9)
    return [
      ("nothing", []),
      ("one byte", [0x7b]),
      ("a text", CodedSamples.plain),
      ("a text many times", CodedSamples.plainFortyTimes),
      ("zeros", [UInt8](repeating: 0, count: 300_000)),
      ("what cannot be made smaller", (0..<200_000).map { _ in UInt8.random(in: 0...255, using: &generator) }),
    ]
  }()

  static let codings =
    ContentCoding.allCases.map { [$0] }
    + ContentCoding.allCases.flatMap { first in ContentCoding.allCases.map { [first, $0] } }

  @Test(arguments: codings)
  func whatIsEncodedComesBack(codings: [ContentCoding]) {
    let memory = GuardedMemory(capacity: 1 << 20)
    for body in Self.bodies {
      let bytes = encoded(body.bytes, as: codings)
      let outcome = decode([bytes], codings, limit: body.bytes.count, memory)
      #expect(outcome == .content(body.bytes), "\(body.sentence)")
    }
  }

  @Test func noCodingIsACopy() {
    #expect(encoded(CodedSamples.plain, as: []) == CodedSamples.plain)
  }

  @Test func itIsAppended() {
    var out = ByteBuffer()
    out.append("before ")
    let plain = CodedSamples.plain
    ContentEncoder.encode(plain.span, as: [.gzip, .br], to: &out)
    #expect(Array(out.array.prefix(7)) == octets("before "))
    #expect(Array(out.array.dropFirst(7)) == encoded(CodedSamples.plain, as: [.gzip, .br]))
  }

  @Test func deflateIsWrapped() {
    // RFC 1950: a window of 32 KiB, the fastest level.
    #expect(Array(encoded(CodedSamples.plain, as: [.deflate]).prefix(2)) == [0x78, 0x01])
  }

  @Test(arguments: ContentCoding.allCases)
  func aTextBecomesMuchShorter(coding: ContentCoding) {
    #expect(encoded(CodedSamples.plainFortyTimes, as: [coding]).count < CodedSamples.plainFortyTimes.count / 20)
  }

  /// More than 8 MiB, the largest window that there may be.
  @Test func aBodyLongerThanTheWindowOfZstdComesBack() {
    let body = Array([[UInt8]](repeating: CodedSamples.plainFortyTimes, count: 2000).joined())
    let outcome = decode([encoded(body, as: [.zstd])], [.zstd], limit: body.count, GuardedMemory())
    #expect(outcome == .content(body))
  }
}

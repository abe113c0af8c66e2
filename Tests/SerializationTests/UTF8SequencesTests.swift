// UTF-8 against the standard library, and the search by words against one byte by byte.

import TestSupport
import Testing

@testable import Serialization

@Suite struct UTF8SequencesTests {
  /// Every lead with bytes behind it from every edge of every range.
  @Test func sequencesAreThoseOfTheStandardLibrary() {
    let memory = GuardedMemory(capacity: 4096)
    let edges: [UInt8] = [0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff]
    for lead in 0x80...0xff as ClosedRange<UInt8> {
      for second in edges {
        for third in edges {
          for bytes in [[lead], [lead, second], [lead, second, third], [lead, second, third, 0x80]] {
            let isValid = String(validating: bytes, as: UTF8.self) != nil
            let found = memory.lend(bytes) { $0.firstNotUTF8() }
            if (found == nil) != isValid { Issue.record("\(shown(bytes))") }
          }
        }
      }
    }
  }

  @Test func everyScalarIsASequence() {
    for value in 0x80...0x10ffff as ClosedRange<UInt32> where value % 7 == 0 || value < 0x11000 {
      guard let scalar = Unicode.Scalar(value) else { continue }
      let bytes = Array(scalar.utf8)
      if bytes.span.sequenceLength(at: 0) != bytes.count { Issue.record("U+\(String(value, radix: 16))") }
    }
  }

  @Test func randomBytesAreJudgedAsByTheStandardLibrary() {
    let memory = GuardedMemory(capacity: 4096)
    var generator = SeededGenerator(seed: 5)
    let pieces = ["a", "0123456789", "é", "漢", "😀", "\u{7ff}", "\u{800}", "\u{ffff}", "\u{10000}"].map {
      Array($0.utf8)
    }
    var valid = 0
    for _ in 0..<5000 {
      var bytes = (0..<Int.random(in: 0...12, using: &generator)).flatMap { _ in
        pieces.randomElement(using: &generator)!
      }
      if Bool.random(using: &generator), !bytes.isEmpty {
        bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
      }
      let isValid = String(validating: bytes, as: UTF8.self) != nil
      if isValid { valid += 1 }
      #expect(memory.lend(bytes) { JSONWriting.isUTF8($0) } == isValid, "\(shown(bytes))")
    }
    #expect(valid > 1000 && valid < 4500)
  }

  @Test func theFirstByteThatStandsOutIsFound() {
    let memory = GuardedMemory(capacity: 4096)
    var generator = SeededGenerator(seed: 6)
    let telling = octets("\"\\\u{0}\u{1f}\u{20}\u{21}\u{23}\u{5b}\u{5d}\u{7f}\u{80}\u{a2}\u{dc}\u{ff}")
    for _ in 0..<5000 {
      var bytes = [UInt8](repeating: 0x61, count: Int.random(in: 0...40, using: &generator))
      for _ in 0..<Int.random(in: 0...4, using: &generator) where !bytes.isEmpty {
        bytes[Int.random(in: 0..<bytes.count, using: &generator)] = telling.randomElement(using: &generator)!
      }
      let from = Int.random(in: 0...bytes.count, using: &generator)
      let notPlain = bytes[from...].firstIndex { $0 < 0x20 || $0 >= 0x80 || $0 == 0x22 || $0 == 0x5c }
      let notASCII = bytes[from...].firstIndex { $0 >= 0x80 }
      memory.lend(bytes) { span in
        #expect(span.firstNotPlain(from: from) == notPlain ?? bytes.count, "\(shown(bytes)) from \(from)")
        #expect(span.firstNotASCII(from: from) == notASCII ?? bytes.count, "\(shown(bytes)) from \(from)")
      }
    }
  }
}

// The short names of exchanges: how they are written, and that none is handed out twice.

import Bytes
import Testing

@testable import Session

@Suite struct ReferenceTests {
  private static func text(_ value: UInt32) -> String {
    var buffer = ByteBuffer()
    Reference(value: value).write(to: &buffer)
    return buffer.bytes.string
  }

  @Test(
    arguments: [
      (0, "000000"), (1, "000001"), (31, "00000Z"), (32, "000010"), (0x3fff_ffff, "ZZZZZZ"),
      (0x2000_0000, "G00000"),
      (0b00001_00010_00011_00100_00101_00110, "123456"),
    ] as [(UInt32, String)]) func isWritten(value: UInt32, expected: String)
  {
    #expect(Self.text(value) == expected)
  }

  @Test func everyDigitIsOneThatIsNotMistakenForAnother() {
    let digits = (0..<32).map { Self.text($0).suffix(1) }.joined()
    #expect(digits == "0123456789ABCDEFGHJKMNPQRSTVWXYZ")
  }

  @Test(arguments: [1, 2, 3, 4, 7, 16]) func theSourcesOfAllLoopsNeverMeet(count: Int) {
    var seen: Set<UInt32> = []
    var handed = 0
    for index in 0..<count {
      var source = ReferenceSource(seed: 0x1234_5678_9abc_def0, index: index, of: count)
      for _ in 0..<60_000 / count {
        let reference = source.take()
        #expect(reference.value < 1 << 30)
        seen.insert(reference.value)
        handed += 1
      }
    }
    #expect(seen.count == handed)
  }

  @Test(arguments: [1, 2, 3, 4, 5, 6]) func neighboursDifferInEveryDigit(count: Int) {
    var source = ReferenceSource(seed: 99, index: 0, of: count)
    var before = Array(Self.text(source.take().value).utf8)
    for _ in 0..<5000 {
      let after = Array(Self.text(source.take().value).utf8)
      #expect(zip(before, after).allSatisfy { $0 != $1 })
      before = after
    }
  }
}

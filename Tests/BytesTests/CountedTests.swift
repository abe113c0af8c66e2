// A number and its noun, in the singular and in the plural.

import Bytes
import Testing

@Suite struct CountedTests {
  @Test(arguments: [(0, "0 rules"), (1, "1 rule"), (2, "2 rules"), (-1, "-1 rules")])
  func numbersAndTheirNouns(number: Int, text: String) {
    #expect(String.counted(number, "rule") == text)
  }

  @Test func aNounWithAPluralOfItsOwn() {
    #expect(String.counted(UInt8(1), "tunnel waits", plural: "tunnels wait") == "1 tunnel waits")
    #expect(String.counted(Int64(3), "tunnel waits", plural: "tunnels wait") == "3 tunnels wait")
  }

  @Test(
    arguments: [
      (-5, "0 s"), (0, "0 s"), (59, "59 s"), (60, "1 min"), (3_599, "59 min"), (3_600, "1 h 0 min"),
      (90_000, "1 d 1 h"),
    ] as [(Int64, String)])
  func durationsAreShort(seconds: Int64, text: String) { #expect(String.duration(seconds: seconds) == text) }
}

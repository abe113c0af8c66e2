// A number and its noun, in the singular and in the plural.

import Bytes
import Testing

@Suite struct CountedTests {
  @Test(arguments: [(0, "0 rules"), (1, "1 rule"), (2, "2 rules"), (-1, "-1 rules")])
  func numbersAndTheirNouns(number: Int, text: String) {
    #expect(String.counted(number, "rule") == text)
  }

  @Test func aNounWithAPluralOfItsOwn() {
    #expect(String.counted(UInt8(1), "tunnel waits", "tunnels wait") == "1 tunnel waits")
    #expect(String.counted(Int64(3), "tunnel waits", "tunnels wait") == "3 tunnels wait")
  }
}

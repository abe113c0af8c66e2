// What the sessions of a loop share: the proxy's own name, and the date.

import Bytes
import TestSupport
import Testing

@testable import Session

@Suite struct WorkspaceTests {
  private static func workspace() -> Workspace {
    Workspace(
      name: "edge-1", mark: ViaMark(random: 0x3bc7312937), references: ReferenceSource(seed: 0, index: 0, of: 1))
  }

  @Test func theProxyNamesItselfWithItsMark() {
    let workspace = Self.workspace()
    #expect(workspace.via == octets("edge-1 (7F3K2A9Q)"))
    #expect(workspace.name == octets("edge-1"))
  }

  /// Forty bits of the number are told, each of them.
  @Test func aMarkIsEightDigits() {
    #expect(ViaMark(random: 0).text == octets("00000000"))
    #expect(ViaMark(random: .max).text == octets("ZZZZZZZZ"))
    #expect(Set((0..<40).map { ViaMark(random: 1 << $0).text }).count == 40)
    #expect(ViaMark(random: 1 << 40).text == octets("00000000"))
  }

  @Test func theDateFollowsTheClock() {
    var workspace = Self.workspace()
    for (milliseconds, date) in [
      (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"), (784_111_777_999, "Sun, 06 Nov 1994 08:49:37 GMT"),
      (784_111_778_000, "Sun, 06 Nov 1994 08:49:38 GMT"), (784_111_776_500, "Sun, 06 Nov 1994 08:49:36 GMT"),
    ] as [(Int64, String)] {
      workspace.setWallClock(milliseconds: milliseconds)
      #expect(workspace.date.bytes.string == date)
      #expect(workspace.wallMilliseconds == milliseconds)
    }
  }
}

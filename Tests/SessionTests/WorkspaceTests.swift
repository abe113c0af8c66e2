// What the sessions of a loop share: the proxy's own name, and the date.

import Bytes
import TestSupport
import Testing

@testable import Session

@Suite struct WorkspaceTests {
  private static func workspace() -> Workspace {
    Workspace(
      name: "edge-1", listenAddress: "[::1]:3128", references: ReferenceSource(seed: 0, index: 0, of: 1))
  }

  @Test func theProxyNamesItselfWithItsAddress() {
    let workspace = Self.workspace()
    #expect(workspace.via == octets("edge-1 ([::1]:3128)"))
    #expect(workspace.name == octets("edge-1"))
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

// One process has a file; what is none is refused.

import Testing

@testable import Transport

@Suite struct ClaimedFileTests {
  @Test func aFileIsClaimedOnce() throws {
    let path = "/tmp/sallyport-claim-\(Process.random)"
    defer { _ = Files.remove(path) }
    do {
      let claim = try ClaimedFile(path: path, mode: 0o640)
      #expect(Files.mode(path) == 0o640)
      #expect(throws: ClaimFault.held) { _ = try ClaimedFile(path: path, mode: 0o640) }
      withExtendedLifetime(claim) {}
    }
    #expect(throws: Never.self) { _ = try ClaimedFile(path: path, mode: 0o600) }
  }

  @Test func whatIsNoFileIsRefused() throws {
    #expect(throws: ClaimFault.notRegular) { _ = try ClaimedFile(path: "/tmp", mode: 0o640) }
    #expect(throws: ClaimFault.notRegular) { _ = try ClaimedFile(path: "/dev/null", mode: 0o640) }
    #expect(throws: ClaimFault.self) { _ = try ClaimedFile(path: "/nowhere/at/all", mode: 0o640) }
    #expect("\(ClaimFault.held)" == "another process has it open")
  }
}

// What systemd's status line says of the daemon.

import Testing

@testable import Server

@Suite struct ServiceStatusTests {
  private static func started(_ rules: Int = 12) -> ServiceStatus {
    ServiceStatus(addresses: ["127.0.0.1:3128", "[::1]:3128"], rules: rules, at: "2026-11-20 20:00:00")
  }

  @Test(arguments: [(0, "0 rules"), (1, "1 rule"), (12, "12 rules")])
  func addressesAndRules(_ count: Int, _ rules: String) {
    #expect(Self.started(count).text == "127.0.0.1:3128, [::1]:3128; \(rules)")
  }

  @Test func aReload() {
    var status = Self.started()
    status.reloaded(rules: 1, at: "2026-11-20 21:00:01")
    #expect(status.text == "127.0.0.1:3128, [::1]:3128; 1 rule; reloaded 2026-11-20 21:00:01")
  }

  @Test func aFailedReloadSaysWhyAndWhichPolicyHolds() {
    var status = Self.started()
    status.reloaded(rules: 3, at: "2026-11-20 21:00:00")
    status.reloadFailed("a.toml:3:1: error: unknown key 'hots'", at: "2026-11-20 22:00:00")
    let failed = "reload failed 2026-11-20 22:00:00: a.toml:3:1: error: unknown key 'hots'; still the policy of "
    #expect(status.text == failed + "2026-11-20 21:00:00; 127.0.0.1:3128, [::1]:3128; 3 rules")
    status.reloaded(rules: 4, at: "2026-11-20 23:00:00")
    #expect(status.text == "127.0.0.1:3128, [::1]:3128; 4 rules; reloaded 2026-11-20 23:00:00")
  }

  @Test func aFaultCannotSayAnythingElseToSystemd() {
    var status = Self.started()
    status.reloadFailed("x\nMAINPID=1\r\u{7f}", at: "now")
    #expect(status.text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f })
  }

  @Test func aLongFaultIsCut() {
    var status = Self.started()
    status.reloadFailed(String(repeating: "é", count: 10_000), at: "now")
    #expect(status.text.count < ServiceStatus.longestFaultCharacters + 150)
    #expect(status.text.contains("é…; still the policy of"))
  }

  @Test(arguments: [
    (Int64(0), "stopping at once"), (1, "stopping: requests under way have 1 s"),
    (30_000, "stopping: requests under way have 30 s"),
  ])
  func stopping(_ milliseconds: Int64, _ text: String) {
    #expect(ServiceStatus.stopping(milliseconds: milliseconds) == text)
  }

  @Test func drained() {
    var status = Self.started()
    let before = status.text
    status.drain()
    #expect(status.text == "drained, refuses all requests; \(before)")
  }
}

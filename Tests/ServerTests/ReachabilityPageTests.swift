// What the admin API says of the network, for programs and for people.

import Reachability
import Testing

@testable import Server

@Suite struct ReachabilityPageTests {
  private static let report = ReachabilityReport(
    status: .wired,
    ipv4: ReachabilityReport.Path(status: .wired, interface: "eth0", gateway: "10.0.0.1"),
    ipv6: ReachabilityReport.Path(status: .notReachable),
    interfaces: [
      .init(name: "eth0", kind: .wired, isUp: true, hasCarrier: true, addresses: ["10.0.0.2"]),
      .init(name: "wlan0", kind: .wifi, isUp: true, hasCarrier: false, addresses: []),
      .init(name: "ppp0", kind: .wwan, isUp: false, hasCarrier: false, addresses: []),
    ],
    routes: [
      .init(name: "office", via: "http://proxy.office.example:3128", deadForMilliseconds: nil),
      .init(name: "b", via: "direct", deadForMilliseconds: 1001, unusable: "there is no interface eth9"),
    ],
    waiting: 1,
    destination: .init(
      host: "example.com", status: .wired,
      addresses: [.init(address: "10.0.0.9", status: .wired, interface: "eth0", source: "10.0.0.2")]))

  @Test func programsGetTheNamesOfTheManual() {
    #expect(
      AdminResources.reachability(Self.report).text
        == #"{"status": "wired", "ipv4": {"status": "wired", "interface": "eth0", "gateway": "10.0.0.1"}, "#
        + #""ipv6": {"status": "not-reachable", "interface": null, "gateway": null}, "#
        + #""interfaces": [{"name": "eth0", "kind": "wired", "up": true, "carrier": true, "addresses": ["10.0.0.2"]}, "#
        + #"{"name": "wlan0", "kind": "wifi", "up": true, "carrier": false, "addresses": []}, "#
        + #"{"name": "ppp0", "kind": "wwan", "up": false, "carrier": false, "addresses": []}], "#
        + #""routes": [{"name": "office", "via": "http://proxy.office.example:3128", "dead_for_ms": null, "unusable": null}, "#
        + #"{"name": "b", "via": "direct", "dead_for_ms": 1001, "unusable": "there is no interface eth9"}], "waiting": 1, "#
        + #""destination": {"host": "example.com", "status": "wired", "error": null, "addresses": "#
        + #"[{"address": "10.0.0.9", "status": "wired", "interface": "eth0", "source": "10.0.0.2"}]}}"#)
  }

  @Test func withoutAHostThereIsNoDestination() {
    var report = Self.report
    report.destination = nil
    #expect(!AdminResources.reachability(report).text.contains("destination"))
  }

  @Test func peopleGetAPage() {
    #expect(
      ReachabilityPage.text(Self.report) == """
        machine      wired
        IPv4         wired by eth0, gateway 10.0.0.1
        IPv6         not-reachable
        waiting      1 request

        interfaces:
          eth0   wired  up  10.0.0.2
          wlan0  wifi  up, no carrier
          ppp0   wwan  down

        routes:
          office  http://proxy.office.example:3128
          b       direct  passed over for 2 s  not usable: there is no interface eth9

        example.com: wired
          10.0.0.9  wired by eth0 from 10.0.0.2

        """)
  }

  @Test(
    arguments: [
      (ReachabilityStatus.wired, nil, true), (.unknown, nil, true), (.notReachable, nil, false),
      (.unknown, "It does not exist.", false),
    ] as [(ReachabilityStatus, String?, Bool)])
  func whetherADestinationCanBeReached(_ status: ReachabilityStatus, _ error: String?, _ isReachable: Bool) {
    #expect(ReachabilityReport.Destination(host: "a", status: status, error: error).isReachable == isReachable)
  }
}

// What has changed, in words.

import Bytes
import Testing

@testable import Reachability

@Suite struct NetworkChangesTests {
  /// eth0 and wlan0, with an address each, and both default routes by eth0.
  private static var before: NetworkState {
    var state = NetworkState(
      [loopback, up(2, "eth0"), up(3, "wlan0")], addresses: [(2, "10.0.0.2"), (2, "2001:db8::2"), (3, "10.0.1.2")])
    state.kinds = [1: .wired, 2: .wired, 3: .wifi]
    state.ipv4.answer = .by(interface: 2, source: "10.0.0.2", gateway: "10.0.0.1")
    state.ipv6.answer = .by(interface: 2, source: "2001:db8::2", gateway: "fe80::1")
    return state
  }

  struct Row: Sendable, CustomTestStringConvertible {
    let reasons: String
    let after: NetworkState

    init(_ reasons: String, _ change: (inout NetworkState) -> Void) {
      self.reasons = reasons
      var state = before
      change(&state)
      after = state
    }

    var testDescription: String { reasons.isEmpty ? "nothing" : reasons }
  }

  static let rows = [
    Row("") { _ in },
    Row("link eth0 down; default route of IPv4 by wlan0, was eth0; address 10.0.0.2 of eth0 gone") {
      _ = $0.apply(.link(down(2, "eth0")))
      _ = $0.apply(.addressGone(index: 2, "10.0.0.2", network: "10.0.0.2/32"))
      $0.ipv4.answer = .by(interface: 3, source: "10.0.1.2", gateway: "10.0.1.1")
    },
    Row("link eth0 without carrier") { _ = $0.apply(.link(without(2, "eth0"))) },
    Row(
      "link eth0 gone; default route of IPv4 none, was eth0; default route of IPv6 none, was eth0; "
        + "address 10.0.0.2 of eth0 gone; address 2001:db8::2 of eth0 gone"
    ) {
      _ = $0.apply(.linkGone(index: 2))
      $0.ipv4.answer = .unreachable(error: 101)
      $0.ipv6.answer = .unreachable(error: 113)
    },
    Row("link wwan0 new, down") { _ = $0.apply(.link(down(4, "wwan0"))) },
    Row("link wwan0 new, up; address 10.0.2.2 of wwan0 new") {
      _ = $0.apply(.link(up(4, "wwan0")))
      $0.kinds[4] = .wwan
      _ = $0.apply(.address(index: 4, "10.0.2.2", network: "10.0.2.0/24", isTentative: false))
    },
    Row("link lan0, was eth0; lan0 is unknown, was wired") { _ = $0.apply(.link(up(2, "lan0"))) },
    Row("link lan0, was eth0, down") {
      _ = $0.apply(.link(down(2, "lan0")))
      $0.kinds[2] = .wired
    },
    Row("link eth0 changed") {
      _ = $0.apply(
        .link(Link(index: 2, name: "eth0", hardwareType: 5, isUp: true, hasCarrier: true, isLoopback: false)))
      $0.kinds[2] = .wired
    },
    Row("default route of IPv4 by gateway 10.0.0.254, was 10.0.0.1") {
      $0.ipv4.answer = .by(interface: 2, source: "10.0.0.2", gateway: "10.0.0.254")
    },
    Row("default route of IPv4 by gateway none, was 10.0.0.1") {
      $0.ipv4.answer = .by(interface: 2, source: "10.0.0.2", gateway: nil)
    },
    Row("default route of IPv6 from 2001:db8::3, was 2001:db8::2") {
      $0.ipv6.answer = .by(interface: 2, source: "2001:db8::3", gateway: "fe80::1")
    },
    Row("default route of IPv4 by interface 9, was eth0") {
      $0.ipv4.answer = .by(interface: 9, source: "10.0.0.2", gateway: nil)
    },
    Row("default route of IPv4 unknown, was eth0") { $0.ipv4.answer = .unknown },
    Row("wlan0 is wwan, was wifi") { $0.kinds[3] = .wwan },
    Row("address 10.0.1.2 of wlan0 gone; address 10.0.1.3 of wlan0 new; address fe80::3 of wlan0 new") {
      _ = $0.apply(.addressGone(index: 3, "10.0.1.2", network: "10.0.1.2/32"))
      _ = $0.apply(.address(index: 3, "fe80::3", network: nil, isTentative: false))
      _ = $0.apply(.address(index: 3, "10.0.1.3", network: "10.0.1.0/24", isTentative: false))
    },
    Row("link ?[0m? new, up") { _ = $0.apply(.link(up(4, "\u{1b}[0m\u{202e}"))) },
  ]

  @Test(arguments: rows) func isSaid(row: Row) {
    let reasons = row.after.reasons(since: Self.before)
    #expect(reasons == row.reasons)
    // Whatever makes states differ is said.
    #expect(reasons.isEmpty == (row.after == Self.before))
  }

  /// There and back again: the way back is said too.
  @Test(arguments: rows) func theWayBackIsSaidToo(row: Row) {
    #expect(Self.before.reasons(since: row.after).isEmpty == row.reasons.isEmpty)
  }

  @Test func aFirstStateIsSaid() {
    #expect(
      Self.before.reasons(since: NetworkState()).hasPrefix(
        "link lo new, up; link eth0 new, up; link wlan0 new, up; default route of IPv4 by eth0, was unknown; "))
  }

  @Test func onlyTheNumberOfTheErrorIsNoReason() {
    var state = Self.before
    state.ipv4.answer = .unreachable(error: 101)
    var other = state
    other.ipv4.answer = .unreachable(error: 113)
    #expect(other.reasons(since: state) == "")
  }

  @Test(arguments: [1, 2, 7, 8, 9, 10, 11, 12, 50, 5000]) func whatIsLongIsCut(count: Int) {
    var state = Self.before
    for number in 0..<count {
      let address = IPAddress(ipv4: 0xac10_0000 + UInt32(number))
      _ = state.apply(.address(index: 3, address, network: nil, isTentative: false))
    }
    let reasons = state.reasons(since: Self.before)
    #expect(reasons.utf8.count <= NetworkState.longestReasonsBytes)
    let parts = reasons.split(separator: ";").map { String($0.drop { $0 == " " }) }
    let named = parts.filter { $0.hasPrefix("address 172.16.") && $0.hasSuffix(" of wlan0 new") }.count
    #expect(parts.last == (named == count ? parts.last : "and \(count - named) more"))
    #expect(named >= min(count, 7))
    #expect(parts.count == named + (named == count ? 0 : 1))
  }
}

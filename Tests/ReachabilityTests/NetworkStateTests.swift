// What is known of the network, as messages come in.

import Bytes
import Testing

@testable import Reachability

@Suite struct NetworkStateTests {
  // MARK: Messages

  @Test func aLinkThatIsToldOfAgainIsNoChange() {
    let known = Known()
    #expect(known.apply(.link(up(2, "wlan0"))))
    let before = known.state
    for _ in 0..<10 { #expect(!known.apply(.link(up(2, "wlan0")))) }
    #expect(known.state == before)
    #expect(known.apply(.link(without(2, "wlan0"))))
    #expect(known.state != before)
    #expect(known.apply(.link(up(2, "wlan0"))))
    #expect(known.state == before)
  }

  @Test func anAddressThatIsRefreshedIsNoChange() {
    let known = Known([up(2, "eth0")])
    #expect(known.apply(.address(index: 2, "2001:db8::2", network: nil, isTentative: false)))
    let before = known.state
    #expect(!known.apply(.address(index: 2, "2001:db8::2", network: nil, isTentative: false)))
    #expect(known.state == before)
    #expect(known.addresses == [2: ["2001:db8::2"]])
  }

  @Test func aTentativeAddressCannotBeUsed() {
    let known = Known([up(2, "eth0")])
    #expect(!known.apply(.address(index: 2, "2001:db8::2", network: nil, isTentative: true)))
    #expect(known.addresses.isEmpty)
    #expect(known.apply(.address(index: 2, "2001:db8::2", network: nil, isTentative: false)))
    #expect(known.state.hasAddress("2001:db8::2"))
    // The link was away: detection begins anew.
    #expect(known.apply(.address(index: 2, "2001:db8::2", network: nil, isTentative: true)))
    #expect(!known.state.hasAddress("2001:db8::2"))
    #expect(known.addresses.isEmpty)
  }

  @Test func anAddressInTwoNetworksStaysUntilItIsGoneFromBoth() {
    let known = Known([up(2, "eth0")])
    #expect(known.apply(.address(index: 2, "10.0.0.2", network: "10.0.0.0/24", isTentative: false)))
    #expect(!known.apply(.address(index: 2, "10.0.0.2", network: "10.0.0.0/16", isTentative: false)))
    #expect(!known.apply(.addressGone(index: 2, "10.0.0.2", network: "10.0.0.0/24")))
    #expect(known.state.hasAddress("10.0.0.2"))
    #expect(known.apply(.addressGone(index: 2, "10.0.0.2", network: "10.0.0.0/16")))
    #expect(!known.state.hasAddress("10.0.0.2"))
    #expect(known.state == NetworkState([up(2, "eth0")]))
    #expect(!known.apply(.addressGone(index: 2, "10.0.0.2", network: "10.0.0.0/16")))
  }

  @Test func aLinkThatGoesTakesAllAlong() {
    let known = Known([up(2, "eth0"), up(3, "wlan0")], addresses: [(2, "10.0.0.2"), (3, "10.0.1.2")])
    known.kinds = [2: .wired, 3: .wifi]
    #expect(known.apply(.linkGone(index: 2)))
    var other = NetworkState([up(3, "wlan0")], addresses: [(3, "10.0.1.2")])
    other.kinds = [3: .wifi]
    #expect(known.state == other)
    #expect(!known.apply(.linkGone(index: 2)))
    // It comes back with the address in one network: what it had before is not remembered.
    #expect(known.apply(.link(up(2, "eth0"))))
    #expect(known.apply(.address(index: 2, "10.0.0.2", network: "10.0.0.0/16", isTentative: false)))
    #expect(known.apply(.addressGone(index: 2, "10.0.0.2", network: "10.0.0.0/16")))
  }

  @Test func addressesOfALinkThatWasNeverToldOfGoWithIt() {
    let known = Known()
    #expect(known.apply(.address(index: 9, "10.0.0.2", network: "10.0.0.0/24", isTentative: false)))
    #expect(!known.state.hasAddress("10.0.0.2"))
    #expect(known.apply(.linkGone(index: 9)))
    #expect(known.state == NetworkState())
  }

  @Test func routesAreAlwaysAChange() {
    let known = Known()
    #expect(known.apply(.routesChanged))
    #expect(known.apply(.routesChanged))
    #expect(known.state == NetworkState())
  }

  @Test(arguments: [.done(sequence: 1), .failed(error: 1, sequence: 1), .overrun(sequence: 0)] as [RouteMessage])
  func endsAndErrorsAreNoChange(message: RouteMessage) {
    let known = Known()
    #expect(!known.apply(message))
    #expect(known.state == NetworkState())
  }

  @Test func whatWasCapturedMakesAState() {
    let known = Known()
    for message in news(CapturedNews.links) { _ = known.apply(message) }
    for message in news(CapturedNews.addresses) { _ = known.apply(message) }
    #expect(known.links.mapValues(\.name) == [1: "lo", 4: "br0", 5: "wwan0"])
    #expect(known.addresses == [1: ["127.0.0.1", "::1"]])
  }

  // MARK: Kinds

  @Test func kindsAreLookedUpOnceALink() {
    var state = NetworkState([up(5, "wlan0"), up(2, "eth0")])
    #expect(state.linksWithoutKind.map(\.name) == ["eth0", "wlan0"])
    state.kinds = [2: .wired, 5: .wifi]
    #expect(state.linksWithoutKind.isEmpty)
    _ = state.apply(.link(without(5, "wlan0")))
    #expect(state.linksWithoutKind.isEmpty)
    _ = state.apply(.link(up(5, "wwan0")))
    #expect(state.linksWithoutKind.map(\.name) == ["wwan0"])
    state.kinds[5] = .wwan
    _ = state.apply(
      .link(Link(index: 5, name: "wwan0", hardwareType: 519, isUp: true, hasCarrier: true, isLoopback: false)))
    #expect(state.linksWithoutKind.map(\.name) == ["wwan0"])
  }

  // MARK: Status

  private static func by(_ interface: Int32) -> RouteAnswer { .by(interface: interface, source: nil, gateway: nil) }

  private var whole: NetworkState {
    var state = NetworkState([
      loopback, up(2, "eth0"), up(3, "wlan0"), down(4, "eth1"), without(5, "eth2"), up(6, "tun0"),
    ])
    state.kinds = [1: .unknown, 2: .wired, 3: .wifi, 4: .wired, 5: .wired]
    return state
  }

  static let statuses: [(String, RouteAnswer, ReachabilityStatus)] = [
    ("by a link that is up", by(2), .wired), ("by another", by(3), .wifi),
    ("by a link that is down", by(4), .notReachable), ("by a link without carrier", by(5), .notReachable),
    ("by the loopback, whatever its kind", by(1), .wired), ("by a link of no kind", by(6), .unknown),
    ("by a link that nobody has told of", by(7), .unknown),
    ("unreachable", .unreachable(error: 101), .notReachable), ("not asked", .unknown, .unknown),
  ]

  @Test(arguments: statuses) func theStatusIsThatOfTheLink(
    name: String, answer: RouteAnswer, status: ReachabilityStatus
  ) {
    #expect(whole.status(of: answer) == status)
  }

  @Test func theLoopbackThatIsDownReachesNothing() {
    var state = NetworkState()
    _ = state.apply(
      .link(Link(index: 1, name: "lo", hardwareType: 772, isUp: false, hasCarrier: false, isLoopback: true)))
    #expect(state.status(of: Self.by(1)) == .notReachable)
  }

  static let machines: [(RouteAnswer, RouteAnswer, ReachabilityStatus)] = [
    (.unknown, .unknown, .unknown), (by(2), by(3), .wired), (by(3), .unreachable(error: 101), .wifi),
    (.unreachable(error: 101), by(3), .wifi), (by(4), by(3), .wifi), (by(5), by(2), .wired),
    (.unreachable(error: 101), .unreachable(error: 101), .notReachable), (by(6), by(2), .unknown),
    (.unknown, by(2), .unknown), (.unreachable(error: 101), .unknown, .unknown),
  ]

  @Test(arguments: machines) func theMachineIsReachedAsItsDefaultRouteIs(
    ipv4: RouteAnswer, ipv6: RouteAnswer, status: ReachabilityStatus
  ) {
    var state = whole
    state.ipv4 = DefaultRoute(ipv4)
    state.ipv6 = DefaultRoute(ipv6)
    #expect(state.status == status)
    #expect(state.ipv4.answer == ipv4 && state.ipv4.status == state.status(of: ipv4))
    #expect(state.ipv6.answer == ipv6 && state.ipv6.status == state.status(of: ipv6))
  }

  @Test func aDefaultRouteThatMovesIsAChange() {
    var state = whole
    let before = state
    state.ipv4.answer = Self.by(3)
    #expect(state != before)
    #expect(state.ipv4.status == .wifi)
    state.ipv4.answer = .unknown
    #expect(state == before)
    state.ipv6.answer = Self.by(3)
    #expect(state != before)
    // The link under it goes: the route is still there, until it is asked for anew, and its status is not.
    _ = state.apply(.link(without(3, "wlan0")))
    #expect(state.ipv6.status == .notReachable)
  }

  // MARK: Addresses

  static let addresses: [(IPAddress, Bool)] = [
    ("10.0.0.2", true), ("::ffff:10.0.0.2", true), ("10.0.0.3", false), ("2001:db8::2", true), ("10.0.1.2", false),
    ("10.0.2.2", true), ("127.0.0.1", true), ("127.9.9.9", true), ("::1", true), ("::ffff:127.0.0.1", true),
    ("64:ff9b::7f00:1", false), ("::", false), ("0.0.0.0", false),
  ]

  @Test(arguments: addresses) func anAddressIsThereWhileItsLinkIsUp(address: IPAddress, isThere: Bool) {
    let state = NetworkState(
      [up(2, "eth0"), down(3, "eth1"), without(4, "eth2")],
      addresses: [(2, "10.0.0.2"), (2, "2001:db8::2"), (3, "10.0.1.2"), (4, "10.0.2.2")])
    #expect(state.hasAddress(address) == isThere)
  }

  @Test func anAddressOnTwoLinksIsThereWhileOneIsUp() {
    var state = NetworkState([up(2, "eth0"), up(3, "eth1")], addresses: [(2, "fe80::1"), (3, "fe80::1")])
    _ = state.apply(.link(down(2, "eth0")))
    #expect(state.hasAddress("fe80::1"))
    _ = state.apply(.linkGone(index: 3))
    #expect(!state.hasAddress("fe80::1"))
  }
}

// MARK: Links and states of the tests

/// A state in a place of its own, for `#expect` takes nothing that changes a variable.
@dynamicMemberLookup
final class Known {
  var state: NetworkState

  init(_ links: [Link] = [], addresses: [(Int32, IPAddress)] = []) {
    state = NetworkState(links, addresses: addresses)
  }

  func apply(_ message: RouteMessage) -> Bool { state.apply(message) }

  subscript<Value>(dynamicMember path: WritableKeyPath<NetworkState, Value>) -> Value {
    get { state[keyPath: path] }
    set { state[keyPath: path] = newValue }
  }

  subscript<Value>(dynamicMember path: KeyPath<NetworkState, Value>) -> Value { state[keyPath: path] }
}

let loopback = Link(index: 1, name: "lo", hardwareType: 772, isUp: true, hasCarrier: true, isLoopback: true)

func up(_ index: Int32, _ name: String) -> Link {
  Link(index: index, name: name, hardwareType: 1, isUp: true, hasCarrier: true, isLoopback: false)
}

func without(_ index: Int32, _ name: String) -> Link {
  Link(index: index, name: name, hardwareType: 1, isUp: true, hasCarrier: false, isLoopback: false)
}

func down(_ index: Int32, _ name: String) -> Link {
  Link(index: index, name: name, hardwareType: 1, isUp: false, hasCarrier: false, isLoopback: false)
}

extension NetworkState {
  init(_ links: [Link], addresses: [(Int32, IPAddress)] = []) {
    self.init()
    for link in links { _ = apply(.link(link)) }
    for (index, address) in addresses {
      let network = address.isIPv4 ? AddressBlock(address: address, length: 32) : nil
      _ = apply(.address(index: index, address, network: network, isTentative: false))
    }
  }
}

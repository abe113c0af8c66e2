// What rtnetlink tells: messages of a real kernel, and messages made by hand that no kernel sends.

import Bytes
import TestSupport
import Testing

@testable import Reachability

@Suite struct RouteMessagesTests {
  private let memory = GuardedMemory()

  static let wlan0 = Link(
    index: 3, name: "wlan0", hardwareType: 1, isUp: true, hasCarrier: true, isLoopback: false)
  static let without = Link(
    index: 3, name: "wlan0", hardwareType: 1, isUp: true, hasCarrier: false, isLoopback: false)

  struct Row: Sendable, CustomTestStringConvertible {
    let name: String
    let bytes: [UInt8]
    let news: [RouteMessage]

    init(_ name: String, _ bytes: [UInt8], _ news: [RouteMessage]) {
      self.name = name
      self.bytes = bytes
      self.news = news
    }

    var testDescription: String { name }
  }

  // MARK: What a kernel tells

  static let captured = [
    Row("a link comes up", CapturedNews.linkUp, [.link(without), .link(wlan0)]),
    Row("a link loses its carrier", CapturedNews.carrierLost, [.link(without)]),
    Row("a link is deleted", CapturedNews.linkDeleted, [.linkGone(index: 3)]),
    Row("a port leaves its bridge, and is a link still", CapturedNews.portLeftBridge, []),
    Row(
      "an address is added", CapturedNews.addressAdded,
      [.address(index: 3, "10.0.0.2", network: "10.0.0.0/24", isTentative: false)]),
    Row(
      "an address with a peer is added: not the peer's", CapturedNews.addressWithPeer,
      [.address(index: 3, "10.9.0.1", network: "10.9.0.2/32", isTentative: false)]),
    Row(
      "an IPv6 address is looked for on the link", CapturedNews.addressTentative,
      [.address(index: 3, "2001:db8::2", network: nil, isTentative: true)]),
    Row(
      "nobody else has it", CapturedNews.addressDetected,
      [.address(index: 3, "2001:db8::2", network: nil, isTentative: false)]),
    Row(
      "its lifetime is set anew", CapturedNews.addressRefreshed,
      [.address(index: 3, "2001:db8::2", network: nil, isTentative: false)]),
    Row(
      "an IPv6 address with a peer is added", CapturedNews.addressOfIPv6WithPeer,
      [.address(index: 3, "fd00::1", network: nil, isTentative: false)]),
    Row(
      "an address is deleted", CapturedNews.addressDeleted,
      [.addressGone(index: 3, "10.0.0.2", network: "10.0.0.0/24")]),
    Row("a route is added", CapturedNews.routeAdded, [.routesChanged]),
    Row("a route of IPv6 is added", CapturedNews.routeOfIPv6, [.routesChanged]),
    Row("a default route is added", CapturedNews.defaultRouteAdded, [.routesChanged]),
    Row("a default route is deleted", CapturedNews.defaultRouteDeleted, [.routesChanged]),
    Row("a rule is added", CapturedNews.ruleAdded, [.routesChanged]),
    Row("a rule is deleted", CapturedNews.ruleDeleted, [.routesChanged]),
    Row("a next hop is added", CapturedNews.nextHopAdded, [.routesChanged]),
    Row(
      "a dump of links", CapturedNews.links,
      [
        .link(Link(index: 1, name: "lo", hardwareType: 772, isUp: true, hasCarrier: true, isLoopback: true)),
        .link(Link(index: 4, name: "br0", hardwareType: 1, isUp: false, hasCarrier: false, isLoopback: false)),
        .link(
          Link(index: 5, name: "wwan0", hardwareType: 65534, isUp: false, hasCarrier: false, isLoopback: false)),
      ]),
    Row("its end", CapturedNews.endOfLinks, [.done(sequence: 5)]),
    Row(
      "a dump of addresses with its end", CapturedNews.addresses,
      [
        .address(index: 1, "127.0.0.1", network: "127.0.0.0/8", isTentative: false),
        .address(index: 1, "::1", network: nil, isTentative: false), .done(sequence: 6),
      ]),
    Row(
      "two datagrams in one", CapturedNews.addressDeleted + CapturedNews.ruleAdded,
      [.addressGone(index: 3, "10.0.0.2", network: "10.0.0.0/24"), .routesChanged]),
    Row("a route to one destination, which nobody put into a table", CapturedRoute.byGateway, []),
  ]

  @Test(arguments: captured) func isRead(row: Row) {
    #expect(news(row.bytes) == row.news)
  }

  /// A datagram that is cut short says what is whole in it, and that there was more.
  @Test(arguments: captured) func isReadAsFarAsItIsThere(row: Row) {
    for count in 0..<row.bytes.count {
      let read = memory.lend(row.bytes.prefix(count)) { news($0) }
      let whole = read.filter { $0 != .overrun(sequence: 0) }
      #expect(row.news.starts(with: whole), "\(count) bytes: \(read)")
      #expect(read.count - whole.count <= 1)
      if count % 4 != 0 { #expect(read.last == .overrun(sequence: 0), "\(count) bytes: \(read)") }
    }
  }

  /// Bytes that chance has changed are read in bounds, and never as more messages than there is room for.
  @Test(arguments: captured) func isReadWithAnyByteChanged(row: Row) {
    var generator = SeededGenerator(seed: UInt64(row.bytes.count))
    for position in row.bytes.indices {
      var bytes = row.bytes
      bytes[position] = UInt8.random(in: 0...255, using: &generator)
      let read = memory.lend(bytes) { news($0) }
      #expect(read.count <= 2 * (bytes.count / 16) + 1)
    }
  }

  // MARK: Made by hand

  static let eth0 = Link(index: 3, name: "eth0", hardwareType: 1, isUp: true, hasCarrier: true, isLoopback: false)

  static func link(isUp: Bool, hasCarrier: Bool) -> RouteMessage {
    .link(
      Link(index: 3, name: "eth0", hardwareType: 1, isUp: isUp, hasCarrier: hasCarrier, isLoopback: false))
  }

  static let links = [
    Row("up and running", linkMessage(), [.link(eth0)]),
    Row("down", linkMessage(flags: 0x1002), [link(isUp: false, hasCarrier: false)]),
    Row("up, the lower layer down", linkMessage(flags: 0x1003), [link(isUp: true, hasCarrier: false)]),
    Row(
      "the lower layer up, dormant: wifi before its keys", linkMessage(flags: 0x31003),
      [link(isUp: true, hasCarrier: false)]),
    Row(
      "running of an old time, the lower layer down", linkMessage(flags: 0x1043),
      [link(isUp: true, hasCarrier: false)]),
    Row(
      "an event of a wireless driver: flags, a name and nothing else that counts",
      linkMessage(attribute(3, Array("eth0\0".utf8)) + attribute(11, [1, 2, 3])), [.link(eth0)]),
    Row("a name without its NUL", linkMessage(attribute(3, Array("eth0".utf8))), [.link(eth0)]),
    Row(
      "a name of fifteen bytes", linkMessage(attribute(3, Array("abcdefghijklmno\0".utf8))),
      [
        .link(
          Link(
            index: 3, name: "abcdefghijklmno", hardwareType: 1, isUp: true, hasCarrier: true, isLoopback: false))
      ]),
    Row("a name of sixteen bytes", linkMessage(attribute(3, Array("abcdefghijklmnop".utf8))), []),
    Row("a name that is too long behind its NUL", linkMessage(attribute(3, Array("eth0\0abcdefghijkl".utf8))), []),
    Row("an empty name", linkMessage(attribute(3, [0])), []),
    Row("no name", linkMessage([]), []),
    Row("index 0", linkMessage(index: 0), []),
    Row("a negative index", linkMessage(index: -1), []),
    Row("a port of a bridge", linkMessage(family: 7), []),
    Row("an attribute behind the name that is too long", linkMessage(attribute(3, [65, 0]) + [9, 0, 1, 0]), []),
    Row("an attribute of length 0", linkMessage(attribute(3, [65, 0]) + [0, 0, 1, 0]), []),
    Row("half an attribute", linkMessage(attribute(3, [65, 0]) + [8, 0]), []),
    Row("half a header", message(16, [0, 0, 1, 0, 3, 0, 0, 0]), []),
    Row("a deleted port of a bridge", message(17, [7] + [UInt8](repeating: 0, count: 3) + host(Int32(3))), []),
    Row("a deleted link without the rest", message(17, [0, 0, 1, 0]), []),
  ]

  private static let v6: [UInt8] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]

  private static func v6Address(_ flags: UInt8, _ more: [UInt8] = []) -> [UInt8] {
    addressMessage(family: 10, length: 64, flags: flags, attribute(1, v6) + more)
  }

  private static func v6News(isTentative: Bool) -> [RouteMessage] {
    [.address(index: 3, "2001:db8::2", network: nil, isTentative: isTentative)]
  }

  static let addresses = [
    Row("tentative", v6Address(0x40), v6News(isTentative: true)),
    Row("optimistic: it may be used at once", v6Address(0x44), v6News(isTentative: false)),
    Row("somebody else has it", v6Address(0x08), v6News(isTentative: true)),
    Row("somebody else has it, optimistic", v6Address(0x0c), v6News(isTentative: true)),
    Row("deprecated: for connections that are there", v6Address(0x20), v6News(isTentative: false)),
    Row(
      "the flags of the attribute count", v6Address(0, attribute(8, host(UInt32(0x140)))), v6News(isTentative: true)),
    Row("flags of three bytes do not", v6Address(0, attribute(8, [0x40, 0, 0])), v6News(isTentative: false)),
    Row(
      "no length of a prefix", addressMessage(length: 0),
      [.address(index: 3, "10.0.0.2", network: "0.0.0.0/0", isTentative: false)]),
    Row(
      "a whole prefix", addressMessage(length: 32),
      [.address(index: 3, "10.0.0.2", network: "10.0.0.2/32", isTentative: false)]),
    Row("a prefix that is too long", addressMessage(length: 33), []),
    Row("the longest prefix that fits into a byte", addressMessage(length: 255), []),
    Row("no address", addressMessage([]), []),
    Row("an address of three bytes", addressMessage(attribute(2, [10, 0, 0])), []),
    Row("an IPv6 address in IPv4", addressMessage(attribute(2, v6)), []),
    Row("an IPv4 address in IPv6", addressMessage(family: 10, attribute(1, [10, 0, 0, 2])), []),
    Row("another family", addressMessage(family: 9), []),
    Row("index 0", addressMessage(index: 0), []),
    Row("an attribute that is too long behind it", addressMessage(attribute(2, [10, 0, 0, 2]) + [9, 0, 1, 0]), []),
    Row("half a header", message(20, [2, 24, 0, 0]), []),
    Row(
      "gone", addressMessage(type: 21), [.addressGone(index: 3, "10.0.0.2", network: "10.0.0.0/24")]),
  ]

  static let others = [
    Row("a route", routeMessage([]), [.routesChanged]),
    Row("a route that went", routeMessage(type: 25, []), [.routesChanged]),
    Row("a route to one destination", routeMessage(flags: 0x200, []), []),
    Row("half a route", message(24, [2, 0, 0, 0, 0, 0, 0, 1]), []),
    Row("a next hop that went", message(105, []), [.routesChanged]),
    Row("a neighbour", message(28, [UInt8](repeating: 0, count: 12)), []),
    Row("the end", message(3, host(Int32(0))), [.done(sequence: 7)]),
    Row("the end with the length of what was dumped", message(3, host(Int32(40))), [.done(sequence: 7)]),
    Row("the end without anything", message(3, []), [.done(sequence: 7)]),
    Row("the end with an error", message(3, host(Int32(-12))), [.failed(error: 12, sequence: 7)]),
    Row("an error", message(2, sequence: 9, host(Int32(-16))), [.failed(error: 16, sequence: 9)]),
    Row("an acknowledgement", message(2, host(Int32(0))), []),
    Row("an error that is none", message(2, host(Int32(16))), []),
    Row("the least number as an error", message(2, host(Int32.min)), []),
    Row("half an error", message(2, [1, 2]), []),
    Row("lost by the kernel", message(4, []), [.overrun(sequence: 7)]),
    Row(
      "changed during the dump", message(16, flags: 0x12, sequence: 5, []) + message(3, flags: 0x12, sequence: 5, []),
      [.overrun(sequence: 5), .overrun(sequence: 5), .done(sequence: 5)]),
    Row("nothing to be done", message(1, [1, 2, 3]), []),
    Row("a type that nobody knows", message(0xffff, [1, 2, 3]), []),
    Row("an empty datagram", [], []),
    Row("less than a header", [16, 0, 0], [.overrun(sequence: 0)]),
    Row(
      "a message of length 0", routeMessage([]) + message(24, length: 0, []), [.routesChanged, .overrun(sequence: 0)]),
  ]

  @Test(arguments: links + addresses + others) func isReadByHand(row: Row) {
    #expect(memory.lend(row.bytes) { news($0) } == row.news)
  }
}

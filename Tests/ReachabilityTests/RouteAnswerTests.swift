// Answers to RTM_GETROUTE: of a real kernel, and made by hand.

import Bytes
import TestSupport
import Testing

@testable import Reachability

@Suite struct RouteAnswerTests {
  private let memory = GuardedMemory()

  struct Row: Sendable, CustomTestStringConvertible {
    let name: String
    let bytes: [UInt8]
    let interface: Int32?
    let answer: RouteAnswer?

    init(_ name: String, _ bytes: [UInt8], by interface: Int32? = nil, _ answer: RouteAnswer?) {
      self.name = name
      self.bytes = bytes
      self.interface = interface
      self.answer = answer
    }

    var testDescription: String { name }

    func read(_ datagram: Span<UInt8>) -> RouteAnswer? {
      RouteAnswer.read(datagram, sequence: 7, interface: interface)
    }
  }

  private static func by(
    _ interface: Int32, source: IPAddress? = nil, gateway: IPAddress? = nil
  ) -> RouteAnswer {
    .by(interface: interface, source: source, gateway: gateway)
  }

  // MARK: Of a kernel

  static let captured = [
    Row("no route", CapturedRoute.none, .unreachable(error: 101)),
    Row("no route, by A", CapturedRoute.noneByInterface, by: 7, .unreachable(error: 113)),
    Row("no route of IPv6", CapturedRoute.noneOfIPv6, .unreachable(error: 101)),
    Row("no route of IPv6, by A", CapturedRoute.noneOfIPv6ByInterface, by: 7, .unreachable(error: 101)),
    Row("an interface that is not there", CapturedRoute.noInterface, by: 999, .unreachable(error: 19)),
    Row("an own address", CapturedRoute.ownAddress, by(1, source: "10.0.0.2")),
    Row("an own address, by A", CapturedRoute.ownAddressByInterface, by: 7, by(1, source: "10.0.0.2")),
    Row("an own address of IPv6", CapturedRoute.ownAddressOfIPv6, by(1, source: "2001:db8::2")),
    Row("the loopback", CapturedRoute.loopback, by(1, source: "127.0.0.1")),
    Row("on the link", CapturedRoute.onLink, by(7, source: "10.0.0.2")),
    Row("on the link, by A", CapturedRoute.onLinkByInterface, by: 7, by(7, source: "10.0.0.2")),
    Row("on the link of A, by B", CapturedRoute.onAnotherLink, by: 9, .unreachable(error: 113)),
    Row("all on the link", CapturedRoute.broadcast, .unreachable(error: 101)),
    Row("a group of IPv6", CapturedRoute.multicastOfIPv6, by: 7, .unreachable(error: 101)),
    Row("by a gateway", CapturedRoute.byGateway, by(7, source: "10.0.0.2", gateway: "10.0.0.1")),
    Row("by a gateway, by A", CapturedRoute.byGatewayAndInterface, by: 7, by(7, gateway: "10.0.0.1")),
    Row("by a gateway of A, by B", CapturedRoute.byAnotherInterface, by: 9, .unreachable(error: 113)),
    Row(
      "by a gateway of IPv6", CapturedRoute.byGatewayOfIPv6,
      by(7, source: "2001:db8::2", gateway: "2001:db8::1")),
    Row(
      "by a gateway of IPv6, by A", CapturedRoute.byGatewayOfIPv6AndInterface, by: 7,
      by(7, source: "2001:db8::2", gateway: "2001:db8::1")),
    Row(
      "by a gateway of IPv6 of A, by B", CapturedRoute.byAnotherInterfaceOfIPv6, by: 9, .unreachable(error: 101)),
    Row("two hops, by A", CapturedRoute.byTheFirst, by: 7, by(7, gateway: "10.0.0.1")),
    Row("two hops, by B", CapturedRoute.byTheSecond, by: 9, by(9, gateway: "10.0.1.1")),
    Row("two hops, by C, had the kernel answered it", CapturedRoute.byTheFirst, by: 8, .unreachable(error: 113)),
    Row("two hops, by any", CapturedRoute.byTheFirst, by(7, gateway: "10.0.0.1")),
    Row(
      "two hops of IPv6, by A", CapturedRoute.byTheFirstOfIPv6, by: 7,
      by(7, source: "2001:db8::2", gateway: "2001:db8::1")),
    Row(
      "two hops, by B, which has no carrier", CapturedRoute.byTheSecondWithoutCarrier, by: 9, .unreachable(error: 113)),
    Row(
      "by a gateway of the other family", CapturedRoute.byGatewayOfAnotherFamily,
      by(7, source: "10.0.0.2", gateway: "2001:db8::1")),
    Row(
      "by a gateway of the other family, by A", CapturedRoute.byGatewayOfAnotherFamilyAndInterface, by: 7,
      by(7, gateway: "2001:db8::1")),
    Row(
      "two hops, one of the other family, by A", CapturedRoute.byTheFirstOfAnotherFamily, by: 7,
      by(7, gateway: "2001:db8::1")),
    Row("unreachable", CapturedRoute.unreachable, .unreachable(error: 113)),
    Row("unreachable, IPv6", CapturedRoute.unreachableOfIPv6, .unreachable(error: 113)),
    Row("blackhole", CapturedRoute.blackhole, .unreachable(error: 22)),
    Row("blackhole, IPv6", CapturedRoute.blackholeOfIPv6, .unreachable(error: 22)),
    Row("prohibit", CapturedRoute.prohibit, .unreachable(error: 13)),
    Row("prohibit, IPv6", CapturedRoute.prohibitOfIPv6, .unreachable(error: 13)),
    Row("an answer among news", CapturedNews.ruleAdded + CapturedRoute.none, .unreachable(error: 101)),
    Row("news", CapturedNews.routeAdded, nil),
  ]

  @Test(arguments: captured) func isRead(row: Row) {
    #expect(row.read(row.bytes.span) == row.answer)
  }

  @Test(arguments: captured) func isNoAnswerToAnotherQuestion(row: Row) {
    #expect(RouteAnswer.read(row.bytes.span, sequence: 8, interface: row.interface) == nil)
  }

  /// What is cut off anywhere is no answer.
  @Test(arguments: captured) func isNoAnswerUnlessWhole(row: Row) {
    for count in 0..<row.bytes.count {
      #expect(memory.lend(row.bytes.prefix(count)) { row.read($0) } == nil, "\(count) bytes")
    }
  }

  // MARK: Made by hand

  private static let oif = attribute(4, host(Int32(7)))

  private static func hop(_ interface: Int32, flags: UInt8 = 0, length: UInt16? = nil, _ more: [UInt8]) -> [UInt8] {
    host(length ?? UInt16(8 + more.count)) + [flags, 0] + host(interface) + more
  }

  private static func hops(_ hops: [UInt8]...) -> [UInt8] { routeMessage(attribute(9, hops.flatMap(\.self))) }

  private static func cacheInformation(_ error: Int32) -> [UInt8] {
    attribute(12, host(UInt32(0)) + host(UInt32(0)) + host(error) + [UInt8](repeating: 0, count: 20))
  }

  private static let gateway1 = attribute(5, [10, 0, 0, 1])
  private static let gateway2 = attribute(5, [10, 0, 1, 1])

  static let kinds: [(UInt8, RouteAnswer)] = [
    (0, .unknown), (1, by(7)), (2, by(1)), (3, .unreachable(error: 101)), (4, by(7)), (5, .unreachable(error: 101)),
    (6, .unreachable(error: 22)), (7, .unreachable(error: 113)), (8, .unreachable(error: 13)),
    (9, .unreachable(error: 101)), (10, .unknown), (255, .unknown),
  ]

  @Test(arguments: kinds) func theTypeOfTheRouteDecides(kind: UInt8, answer: RouteAnswer) {
    #expect(RouteAnswer.read(routeMessage(kind: kind, Self.oif).span, sequence: 7, interface: nil) == answer)
  }

  static let errors: [(Int32, RouteAnswer?)] = [
    (0, nil), (-13, .unreachable(error: 13)), (-19, .unreachable(error: 19)), (-22, .unreachable(error: 22)),
    (-100, .unreachable(error: 100)), (-101, .unreachable(error: 101)), (-113, .unreachable(error: 113)),
    (-1, .unknown), (-12, .unknown), (-105, .unknown), (101, .unknown), (Int32.min, .unknown),
  ]

  @Test(arguments: errors) func theErrorDecides(code: Int32, answer: RouteAnswer?) {
    #expect(RouteAnswer.read(message(2, host(code)).span, sequence: 7, interface: nil) == answer)
  }

  static let byHand = [
    Row(
      "the entry that IPv6 falls back to: unreachable, and it bears the error",
      routeMessage(family: 10, kind: 7, attribute(4, host(Int32(1))) + cacheInformation(-101)),
      .unreachable(error: 101)),
    Row(
      "a route of a good type that bears an error", routeMessage(family: 10, oif + cacheInformation(-113)),
      .unreachable(error: 113)),
    Row(
      "an own address that bears an error", routeMessage(kind: 2, oif + cacheInformation(-113)),
      .unreachable(error: 113)),
    Row("the least number as an error", routeMessage(oif + cacheInformation(.min)), .unreachable(error: .max)),
    Row("no error", routeMessage(oif + cacheInformation(0)), by(7)),
    Row("cache information that is too short for an error", routeMessage(oif + attribute(12, [1, 1, 1, 1])), by(7)),
    Row("another interface than the one asked for", routeMessage(oif), by: 8, .unreachable(error: 113)),
    Row("no interface", routeMessage([]), .unknown),
    Row("interface 0", routeMessage(attribute(4, host(Int32(0)))), .unknown),
    Row("half an interface", routeMessage(attribute(4, [7, 0])), .unknown),
    Row("no interface, though one was asked for", routeMessage([]), by: 7, .unknown),
    Row("an own address without an interface", routeMessage(kind: 2, []), by(1)),
    Row("another family", routeMessage(family: 28, oif), .unknown),
    Row("half a header", message(24, [2, 32, 0, 0]), .unknown),
    Row("half an error", message(2, [1]), .unknown),
    Row("an attribute of length 3", routeMessage(oif + [3, 0, 5, 0]), .unknown),
    Row("an attribute that reaches beyond the message", routeMessage(oif + [9, 0, 5, 0]), .unknown),
    Row("a gateway of three bytes is none", routeMessage(oif + attribute(5, [10, 0, 0])), by(7)),
    Row("a gateway without its family", routeMessage(oif + attribute(18, [2])), by(7)),
    Row("a gateway of another family than it says", routeMessage(oif + attribute(18, [10, 0, 1, 2, 3, 4])), by(7)),
    Row("a gateway of a family that nobody knows", routeMessage(oif + attribute(18, [28, 1, 1, 2, 3, 4])), by(7)),
    Row(
      "of repeated attributes the last counts, as to the kernel",
      routeMessage(oif + attribute(4, host(Int32(9))) + gateway1 + gateway2), by(9, gateway: "10.0.1.1")),
    Row("the first hop is dead", hops(hop(7, flags: 1, gateway1), hop(9, gateway2)), by(9, gateway: "10.0.1.1")),
    Row(
      "the first hop has no carrier", hops(hop(7, flags: 16, gateway1), hop(9, gateway2)), by(9, gateway: "10.0.1.1")),
    Row("all hops are dead", hops(hop(7, flags: 1, gateway1), hop(9, flags: 33, gateway2)), .unreachable(error: 113)),
    Row("the hop asked for is dead", hops(hop(7, flags: 1, []), hop(9, [])), by: 7, .unreachable(error: 113)),
    Row("hops that only offload", hops(hop(7, flags: 8, gateway1)), by(7, gateway: "10.0.0.1")),
    Row("no hops", hops(), .unreachable(error: 113)),
    Row("no hops, but an interface", routeMessage(oif + attribute(9, [])), .unreachable(error: 113)),
    Row("a hop of length 0", hops(hop(7, gateway1), hop(9, length: 0, gateway2)), .unknown),
    Row("a hop of length 7", hops(hop(7, length: 7, [])), .unknown),
    Row("a hop of length 65535", hops(hop(7, length: 65535, [])), .unknown),
    Row("a hop that ends within its gateway", hops(hop(7, length: 10, gateway1)), .unknown),
    Row(
      "a hop that swallows the next, which looks like an attribute of no meaning",
      hops(hop(7, length: 24, gateway1), hop(9, [])), by(7, gateway: "10.0.0.1")),
    Row("half a hop", hops(hop(7, gateway1), [16, 0, 0, 0]), .unknown),
    Row("a hop by interface 0", hops(hop(0, gateway1)), .unknown),
    Row("hops in a hop mean nothing", hops(hop(7, attribute(9, hop(9, gateway2)))), by(7)),
    Row("an acknowledgement before the answer", message(2, host(Int32(0))) + routeMessage(oif), by(7)),
    Row("an answer to another before it", routeMessage(sequence: 6, []) + routeMessage(oif), by(7)),
    Row("another type", message(20, []), nil),
    Row("nothing", [], nil),
  ]

  @Test(arguments: byHand) func isReadByHand(row: Row) {
    #expect(memory.lend(row.bytes) { row.read($0) } == row.answer)
  }

  @Test(arguments: captured + byHand) func isReadWithAnyByteChanged(row: Row) {
    var generator = SeededGenerator(seed: UInt64(row.bytes.count))
    for position in row.bytes.indices {
      var bytes = row.bytes
      bytes[position] = UInt8.random(in: 0...255, using: &generator)
      if case .by(let interface, source: _, gateway: _)? = memory.lend(bytes, { row.read($0) }) {
        #expect(interface == row.interface ?? interface || interface == Link.loopbackIndex)
      }
    }
  }
}

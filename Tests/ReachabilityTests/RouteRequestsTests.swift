// What is asked of rtnetlink, byte by byte; that a kernel understands it is in KernelTests.

import Bytes
import TestSupport
import Testing

@testable import Reachability

@Suite struct RouteRequestsTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let name: String
    let bytes: [UInt8]
    let expected: [UInt8]

    init(_ name: String, _ bytes: [UInt8], _ expected: [UInt8]) {
      self.name = name
      self.bytes = bytes
      self.expected = expected
    }

    var testDescription: String { name }
  }

  private static func request(_ type: UInt16, _ flags: UInt16, _ payload: [UInt8]) -> [UInt8] {
    message(type, flags: flags, sequence: 0x0102_0304, payload)
  }

  static let rows = [
    Row(
      "links without their counters", RouteRequests.dumpLinks(sequence: 0x0102_0304),
      request(18, 0x301, [UInt8](repeating: 0, count: 16) + attribute(29, host(UInt32(8))))),
    Row(
      "addresses", RouteRequests.dumpAddresses(sequence: 0x0102_0304),
      request(22, 0x301, [UInt8](repeating: 0, count: 8))),
    Row(
      "a route of IPv4", RouteRequests.route(to: "198.41.0.4", interface: nil, sequence: 0x0102_0304),
      request(
        26, 1, [2, 32, 0, 0, 0, 0, 0, 0] + host(UInt32(0)) + attribute(1, [198, 41, 0, 4]))),
    Row(
      "a route of IPv4 by an interface: the entry of the table",
      RouteRequests.route(to: "198.41.0.4", interface: 3, sequence: 0x0102_0304),
      request(
        26, 1,
        [2, 32, 0, 0, 0, 0, 0, 0] + host(UInt32(0x2000)) + attribute(1, [198, 41, 0, 4])
          + attribute(4, host(Int32(3))))),
    Row(
      "a mapped address is IPv4", RouteRequests.route(to: "::ffff:198.41.0.4", interface: nil, sequence: 0x0102_0304),
      RouteRequests.route(to: "198.41.0.4", interface: nil, sequence: 0x0102_0304)),
    Row(
      "a route of IPv6 by an interface",
      RouteRequests.route(to: "2001:db8::a:b", interface: 0x7fff_ffff, sequence: 0x0102_0304),
      request(
        26, 1,
        [10, 128, 0, 0, 0, 0, 0, 0] + host(UInt32(0))
          + attribute(1, [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa, 0, 0xb])
          + attribute(4, host(Int32.max)))),
  ]

  @Test(arguments: rows) func isWritten(row: Row) {
    #expect(row.bytes == row.expected)
  }

  @Test func aRequestIsAppended() {
    var buffer = ByteBuffer()
    buffer.append("before")
    RouteRequests.write(routeTo: "10.0.0.9", interface: 3, sequence: 1, to: &buffer)
    #expect(buffer.array == Array("before".utf8) + RouteRequests.route(to: "10.0.0.9", interface: 3, sequence: 1))
  }

  /// RTNLGRP_LINK, _IPV4_IFADDR, _IPV6_IFADDR, _IPV4_ROUTE, _IPV6_ROUTE, _IPV4_RULE, _IPV6_RULE and _NEXTHOP of
  /// linux/rtnetlink.h.
  @Test func theGroupsAreThose() {
    #expect(RouteRequests.groups == [1, 5, 9, 7, 11, 8, 19])
    #expect(RouteRequests.nextHopGroup == 32)
  }
}

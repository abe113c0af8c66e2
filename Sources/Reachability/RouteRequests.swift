// What is asked of rtnetlink: the groups to join, dumps, and the route to one address. All of it needs no privilege.

import Bytes

public enum RouteRequests {
  /// Multicast groups to join, as numbers for NETLINK_ADD_MEMBERSHIP (RTNLGRP_…): links, IPv4 and IPv6 addresses,
  /// routes, rules.
  public static let groups: [UInt32] = [1, 5, 9, 7, 11, 8, 19]

  /// The group of next hops. A kernel before 5.3 has none of them, and refuses the group.
  public static let nextHopGroup: UInt32 = 32

  public static func dumpLinks(sequence: UInt32) -> [UInt8] {
    var buffer = ByteBuffer()
    Netlink.writeHeader(
      type: RouteType.getLinks, flags: Netlink.request | Netlink.dump, sequence: sequence,
      payload: Link.headerBytes + 8, to: &buffer)
    buffer.append(zeros: Link.headerBytes)
    // Counters are a third of the answer, and nobody reads them.
    buffer.append(host: UInt16(8))
    buffer.append(host: extendedMask)
    buffer.append(host: withoutCounters)
    return buffer.bytes.array
  }

  public static func dumpAddresses(sequence: UInt32) -> [UInt8] {
    var buffer = ByteBuffer()
    Netlink.writeHeader(
      type: RouteType.getAddresses, flags: Netlink.request | Netlink.dump, sequence: sequence, payload: 8, to: &buffer)
    buffer.append(zeros: 8)
    return buffer.bytes.array
  }

  /// Asks how packets to an address would leave, see `RouteAnswer`. `interface`: index of the one that they must leave
  /// by.
  public static func route(to address: IPAddress, interface: Int32?, sequence: UInt32) -> [UInt8] {
    var buffer = ByteBuffer()
    write(routeTo: address, interface: interface, sequence: sequence, to: &buffer)
    return buffer.bytes.array
  }

  /// Appends what `route(to:interface:sequence:)` gives.
  ///
  /// With an interface, IPv4 takes for granted that everything is on its link, and answers so where no route leads
  /// there at all. Asked for the entry of the table instead (RTM_F_FIB_MATCH), it answers EHOSTUNREACH. IPv6 is strict
  /// by itself, and without that flag it names the source address too.
  public static func write(
    routeTo address: IPAddress, interface: Int32?, sequence: UInt32, to buffer: inout ByteBuffer
  ) {
    let address = address.unmapped
    let attributes = 4 + address.byteCount + (interface == nil ? 0 : 8)
    Netlink.writeHeader(
      type: RouteType.getRoute, flags: Netlink.request, sequence: sequence,
      payload: RouteHeader.byteCount + attributes, to: &buffer)
    buffer.append(AddressFamily.of(address))
    buffer.append(UInt8(address.width))
    buffer.append(zeros: 6)
    buffer.append(host: address.isIPv4 && interface != nil ? RouteHeader.asksForEntry : 0)
    buffer.append(host: UInt16(4 + address.byteCount))
    buffer.append(host: RouteAttribute.destination)
    address.writeBytes(to: &buffer)
    guard let interface else { return }
    buffer.append(host: UInt16(8))
    buffer.append(host: RouteAttribute.outputInterface)
    buffer.append(host: UInt32(bitPattern: interface))
  }

  /// IFLA_EXT_MASK, and RTEXT_FILTER_SKIP_STATS in it.
  private static let extendedMask: UInt16 = 29
  private static let withoutCounters: UInt32 = 0x8
}

/// Attributes of messages about routes (RTA_…).
enum RouteAttribute {
  static let destination: UInt16 = 1
  static let outputInterface: UInt16 = 4
  static let gateway: UInt16 = 5
  static let preferredSource: UInt16 = 7
  static let multipath: UInt16 = 9
  static let cacheInformation: UInt16 = 12
  static let via: UInt16 = 18
}

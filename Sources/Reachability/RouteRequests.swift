// The requests to rtnetlink: the groups to join, dumps, and the route to one address. None of them needs a privilege.

import Bytes

public enum RouteRequests {
  /// Multicast groups to join, as numbers for NETLINK_ADD_MEMBERSHIP (RTNLGRP_…): links, IPv4 and IPv6 addresses,
  /// routes, rules.
  public static let groups: [UInt32] = [1, 5, 9, 7, 11, 8, 19]

  /// The group of next hops. A kernel before 5.3 has no next hops, and refuses the group.
  public static let nextHopGroup: UInt32 = 32

  public static func dumpLinks(sequence: UInt32) -> [UInt8] {
    var buffer = ByteBuffer()
    Netlink.writeHeader(
      type: RouteType.getLinks, flags: Netlink.request | Netlink.dump, sequence: sequence,
      payload: Link.headerBytes + 8, to: &buffer)
    buffer.append(zeros: Link.headerBytes)
    // Counters are a third of the answer and are not used.
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

  /// Asks how packets to an address would leave, see `RouteAnswer`. `interface`: the index of the interface that they
  /// must leave by.
  public static func route(to address: IPAddress, interface: Int32?, sequence: UInt32) -> [UInt8] {
    var buffer = ByteBuffer()
    write(routeTo: address, interface: interface, sequence: sequence, to: &buffer)
    return buffer.bytes.array
  }

  /// Appends the request of `route(to:interface:sequence:)`.
  ///
  /// With an interface, IPv4 assumes that everything is on its link, and answers so even if no route leads there. If
  /// asked for the entry of the table instead (RTM_F_FIB_MATCH), it answers EHOSTUNREACH. IPv6 is strict anyway, and
  /// without that flag it also reports the source address.
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

// The messages of rtnetlink: in the multicast groups as changes happen, and in the answers to dumps (rtnetlink(7)).
//
// One thing is not reported: if an IPv4 route vanishes because its link or its address does, there is only the message
// about the link or address. So every change of a link, address, route or rule is a reason to ask for the default
// routes again.
//
// The socket that receives changes should not be the one that asks for single routes, because an answer to RTM_GETROUTE
// looks like a new route.

import Bytes

/// The contents of the multicast groups and dumps.
public enum RouteMessage: Equatable, Sendable {
  /// A link that is new, has changed, or is reported again.
  case link(Link)
  case linkGone(index: Int32)
  /// An address of this machine. A link may have the same IPv4 address in several networks, and each comes and goes
  /// separately. With IPv6 this is impossible, and the network is nil. A tentative address is not usable yet, or never,
  /// because duplicate address detection (RFC 4862, 5.4) has not ended or has failed.
  case address(index: Int32, IPAddress, network: AddressBlock?, isTentative: Bool)
  case addressGone(index: Int32, IPAddress, network: AddressBlock?)
  /// A route, a rule of policy routing or a next hop has been added, removed or changed.
  case routesChanged
  /// The end of the answer to a dump.
  case done(sequence: UInt32)
  /// An error as a positive errno: the request with this sequence has failed.
  case failed(error: Int32, sequence: UInt32)
  /// The reports are incomplete. Either things changed during the dump with this sequence, which must be requested
  /// again, or, with sequence 0, a datagram was cut short. The rest of the dump may still be used, and its end is
  /// reported too.
  case overrun(sequence: UInt32)
}

public enum RouteMessages {
  /// Calls `visit` for each item of `datagram`, in order. Items that do not concern reachability are skipped, and so
  /// are malformed messages.
  public static func read(_ datagram: Span<UInt8>, _ visit: (RouteMessage) -> Void) {
    var messages = NetlinkMessages()
    while let message = messages.next(datagram) {
      if message.flags & Netlink.dumpInterrupted != 0 { visit(.overrun(sequence: message.sequence)) }
      if let said = said(message, datagram) { visit(said) }
    }
    if messages.isMalformed { visit(.overrun(sequence: 0)) }
  }

  private static func said(_ message: NetlinkMessage, _ datagram: Span<UInt8>) -> RouteMessage? {
    switch message.type {
    case RouteType.newLink: Link(datagram, message.payload).map { .link($0) }
    case RouteType.goneLink: Link.index(datagram, message.payload).map { .linkGone(index: $0) }
    case RouteType.newAddress, RouteType.goneAddress:
      AssignedAddress(datagram, message.payload)?.message(isGone: message.type == RouteType.goneAddress)
    case RouteType.newRoute, RouteType.goneRoute: isOfTable(message.payload, datagram) ? .routesChanged : nil
    case RouteType.newRule, RouteType.goneRule, RouteType.newNextHop, RouteType.goneNextHop: .routesChanged
    case Netlink.done: ended(message, datagram)
    case Netlink.error: failure(message, datagram)
    case Netlink.overrun: .overrun(sequence: message.sequence)
    default: nil
    }
  }

  /// A dump may end with an error in place of a length (netlink_dump_done).
  private static func ended(_ message: NetlinkMessage, _ datagram: Span<UInt8>) -> RouteMessage {
    failure(message, datagram) ?? .done(sequence: message.sequence)
  }

  /// Error 0 is an acknowledgement.
  private static func failure(_ message: NetlinkMessage, _ datagram: Span<UInt8>) -> RouteMessage? {
    guard let error = Netlink.errorNumber(message, datagram), error > 0 else { return nil }
    return .failed(error: error, sequence: message.sequence)
  }

  /// Whether a route is in a table and is not a copy for a single destination (RTM_F_CLONED).
  private static func isOfTable(_ payload: Range<Int>, _ datagram: Span<UInt8>) -> Bool {
    guard payload.count >= RouteHeader.byteCount else { return false }
    return datagram.hostUInt32(at: payload.lowerBound + RouteHeader.flagsOffset) & RouteHeader.isCloned == 0
  }
}

/// The message types of rtnetlink (RTM_…).
enum RouteType {
  static let newLink: UInt16 = 16
  static let goneLink: UInt16 = 17
  static let getLinks: UInt16 = 18
  static let newAddress: UInt16 = 20
  static let goneAddress: UInt16 = 21
  static let getAddresses: UInt16 = 22
  static let newRoute: UInt16 = 24
  static let goneRoute: UInt16 = 25
  static let getRoute: UInt16 = 26
  static let newRule: UInt16 = 32
  static let goneRule: UInt16 = 33
  static let newNextHop: UInt16 = 104
  static let goneNextHop: UInt16 = 105
}

/// The fixed part of a message about a route (struct rtmsg).
enum RouteHeader {
  static let byteCount = 12
  static let typeOffset = 7
  static let flagsOffset = 8
  // Flags (RTM_F_…).
  static let isCloned: UInt32 = 0x200
  static let asksForEntry: UInt32 = 0x2000
}

/// The contents of RTM_NEWADDR and RTM_DELADDR (struct ifaddrmsg).
private struct AssignedAddress {
  private static let headerBytes = 8
  // Flags (IFA_F_…).
  private static let optimistic: UInt32 = 0x04
  private static let detectionFailed: UInt32 = 0x08
  private static let tentative: UInt32 = 0x40
  // Attributes (IFA_…).
  private static let addressAttribute: UInt16 = 1
  private static let localAttribute: UInt16 = 2
  private static let flagsAttribute: UInt16 = 8

  let index: Int32
  let address: IPAddress
  let network: AddressBlock?
  let isTentative: Bool

  init?(_ datagram: Span<UInt8>, _ payload: Range<Int>) {
    guard payload.count >= Self.headerBytes else { return nil }
    let family = datagram[payload.lowerBound]
    let length = Int(datagram[payload.lowerBound + 1])
    // Flags that do not fit into the header are in an attribute, together with those that do.
    var flags = UInt32(datagram[payload.lowerBound + 2])
    var prefix: IPAddress? = nil
    var local: IPAddress? = nil
    var attributes = NetlinkAttributes(payload.lowerBound + Self.headerBytes..<payload.upperBound)
    while let attribute = attributes.next(datagram) {
      switch attribute.type {
      case Self.addressAttribute: prefix = IPAddress(datagram, attribute.value, family: family)
      case Self.localAttribute: local = IPAddress(datagram, attribute.value, family: family)
      case Self.flagsAttribute where attribute.value.count == 4:
        flags = datagram.hostUInt32(at: attribute.value.lowerBound)
      default: break
      }
    }
    index = datagram.hostInt32(at: payload.lowerBound + 4)
    // If there is a peer, the plain address is the peer's.
    guard !attributes.isMalformed, index > 0, let own = local ?? prefix, length <= own.width else { return nil }
    address = own
    network = own.isIPv4 ? Self.network(of: prefix ?? own, length: length) : nil
    // An optimistic address may be used at once (RFC 4429).
    isTentative =
      flags & Self.detectionFailed != 0 || (flags & Self.tentative != 0 && flags & Self.optimistic == 0)
  }

  func message(isGone: Bool) -> RouteMessage {
    isGone
      ? .addressGone(index: index, address, network: network)
      : .address(index: index, address, network: network, isTentative: isTentative)
  }

  private static func network(of address: IPAddress, length: Int) -> AddressBlock? {
    let mask: UInt64 = length == 0 ? 0 : ~0 << UInt64(32 - length)
    return AddressBlock(address: IPAddress(ipv4: UInt32(truncatingIfNeeded: address.low & mask)), length: length)
  }
}

// The answer to RTM_GETROUTE, as requested by `RouteRequests`.
//
// The kernel has several ways to report that there is no way: an error (ENETUNREACH without a route, EHOSTUNREACH,
// EACCES and EINVAL for routes of the types unreachable, prohibit and blackhole, ENODEV for an interface that is gone),
// a route of such a type, or a route with an error, like the entry that IPv6 falls back to. Seen with Linux 6.18.

import Bytes

/// How packets to an address leave.
public enum RouteAnswer: Equatable, Sendable {
  /// `source` and `gateway` are nil if the kernel does not report them. A destination on the link has no gateway, and
  /// the IPv4 answer for a given interface has no source. The gateway of an IPv4 route may be an IPv6 address
  /// (RFC 5549).
  case by(interface: Int32, source: IPAddress?, gateway: IPAddress?)
  /// As a positive errno.
  case unreachable(error: Int32)
  /// Not asked yet, or the kernel could not answer.
  case unknown

  /// The answer to the request with this sequence and this interface; nil if `datagram` has none.
  public static func read(_ datagram: Span<UInt8>, sequence: UInt32, interface: Int32?) -> RouteAnswer? {
    var messages = NetlinkMessages()
    while let message = messages.next(datagram) {
      if message.sequence != sequence { continue }
      if message.type == RouteType.newRoute { return route(datagram, message.payload, interface: interface) }
      if message.type == Netlink.error, let answer = refusal(message, datagram) { return answer }
    }
    return nil
  }

  /// nil for an acknowledgement.
  private static func refusal(_ message: NetlinkMessage, _ datagram: Span<UInt8>) -> RouteAnswer? {
    guard let error = Netlink.errorNumber(message, datagram) else { return .unknown }
    if error == 0 { return nil }
    return RouteError.noWay.contains(error) ? .unreachable(error: error) : .unknown
  }

  private static func route(_ datagram: Span<UInt8>, _ payload: Range<Int>, interface: Int32?) -> RouteAnswer {
    guard payload.count >= RouteHeader.byteCount else { return .unknown }
    let family = datagram[payload.lowerBound]
    guard family == AddressFamily.ipv4 || family == AddressFamily.ipv6 else { return .unknown }
    guard
      let entry = RouteEntry(
        datagram, payload.lowerBound + RouteHeader.byteCount..<payload.upperBound, family: family, interface: interface)
    else { return .unknown }
    if entry.error != 0 { return .unreachable(error: entry.error) }
    switch RouteKind(rawValue: datagram[payload.lowerBound + RouteHeader.typeOffset]) {
    case .unicast, .anycast: return entry.answer(interface)
    // An address of this machine, on whichever interface: packets to it leave by the loopback.
    case .local: return .by(interface: Link.loopbackIndex, source: entry.source, gateway: nil)
    case .blackhole: return .unreachable(error: RouteError.invalid)
    case .prohibit: return .unreachable(error: RouteError.accessDenied)
    case .unreachable: return .unreachable(error: RouteError.hostUnreachable)
    // TCP connects to one host, so connect(2) rejects broadcast and multicast.
    case .broadcast, .multicast, .throwing: return .unreachable(error: RouteError.networkUnreachable)
    case nil: return .unknown
    }
  }
}

/// Types of routes (RTN_…).
private enum RouteKind: UInt8 {
  case unicast = 1
  case local, broadcast, anycast, multicast, blackhole, unreachable, prohibit
  case throwing
}

/// Error numbers (errno(3)). They are the same for Linux on all machines that Swift supports.
enum RouteError {
  static let accessDenied: Int32 = 13
  static let noDevice: Int32 = 19
  static let invalid: Int32 = 22
  static let networkDown: Int32 = 100
  static let networkUnreachable: Int32 = 101
  static let hostUnreachable: Int32 = 113

  /// The errors that mean that there is no way. Any other means that the request has failed.
  static let noWay: Set<Int32> = [
    accessDenied, noDevice, invalid, networkDown, networkUnreachable, hostUnreachable,
  ]
}

/// The attributes of a route.
private struct RouteEntry {
  private var outputInterface: Int32? = nil
  private var gateway: IPAddress? = nil
  private(set) var source: IPAddress? = nil
  /// As a positive errno.
  private(set) var error: Int32 = 0
  private var hop: NextHop? = nil
  private var hasSeveralHops = false

  /// nil if it is malformed. Of several hops, keeps the one by `interface`; without an interface, the first that is
  /// alive.
  init?(_ datagram: Span<UInt8>, _ range: Range<Int>, family: UInt8, interface: Int32?) {
    var attributes = NetlinkAttributes(range)
    while let attribute = attributes.next(datagram) {
      switch attribute.type {
      case RouteAttribute.outputInterface where attribute.value.count == 4:
        outputInterface = datagram.hostInt32(at: attribute.value.lowerBound)
      case RouteAttribute.preferredSource:
        source = IPAddress(datagram, attribute.value, family: family)
      case RouteAttribute.gateway, RouteAttribute.via:
        gateway = Self.gateway(datagram, attribute, family: family)
      case RouteAttribute.cacheInformation where attribute.value.count >= Self.errorOffset + 4:
        let code = datagram.hostInt32(at: attribute.value.lowerBound + Self.errorOffset)
        error = Int32(clamping: code.magnitude)
      case RouteAttribute.multipath:
        hasSeveralHops = true
        guard Self.walk(datagram, attribute.value, family: family, interface: interface, found: &hop) else {
          return nil
        }
      default: break
      }
    }
    if attributes.isMalformed { return nil }
  }

  func answer(_ interface: Int32?) -> RouteAnswer {
    if hasSeveralHops {
      guard let hop else { return .unreachable(error: RouteError.hostUnreachable) }
      return .by(interface: hop.interface, source: source, gateway: hop.gateway)
    }
    guard let outputInterface, outputInterface > 0 else { return .unknown }
    if let interface, interface != outputInterface { return .unreachable(error: RouteError.hostUnreachable) }
    return .by(interface: outputInterface, source: source, gateway: gateway)
  }

  /// The position of rta_error in struct rta_cacheinfo.
  private static let errorOffset = 8

  /// RTA_GATEWAY is an address of the route's family. RTA_VIA (struct rtvia) is one of another family, which comes
  /// before it.
  private static func gateway(
    _ datagram: Span<UInt8>, _ attribute: NetlinkAttributes.Attribute, family: UInt8
  ) -> IPAddress? {
    let value = attribute.value
    if attribute.type == RouteAttribute.gateway { return IPAddress(datagram, value, family: family) }
    guard value.count > 2 else { return nil }
    let own = UInt8(truncatingIfNeeded: datagram.hostUInt16(at: value.lowerBound))
    return IPAddress(datagram, value.lowerBound + 2..<value.upperBound, family: own)
  }

  private struct NextHop {
    /// struct rtnexthop.
    static let headerBytes = 8
    /// Flags of unusable hops (RTNH_F_DEAD, RTNH_F_LINKDOWN, RTNH_F_UNRESOLVED).
    static let isUseless: UInt8 = 0x01 | 0x10 | 0x20

    let interface: Int32
    var gateway: IPAddress? = nil
  }

  /// Walks through the hops of RTA_MULTIPATH; false if they are malformed.
  private static func walk(
    _ datagram: Span<UInt8>, _ range: Range<Int>, family: UInt8, interface: Int32?, found: inout NextHop?
  ) -> Bool {
    var position = range.lowerBound
    while position < range.upperBound {
      let rest = range.upperBound - position
      guard rest >= NextHop.headerBytes else { return false }
      let length = Int(datagram.hostUInt16(at: position))
      guard length >= NextHop.headerBytes, length <= rest else { return false }
      var hop = NextHop(interface: datagram.hostInt32(at: position + 4))
      var attributes = NetlinkAttributes(position + NextHop.headerBytes..<position + length)
      while let attribute = attributes.next(datagram) {
        if attribute.type == RouteAttribute.gateway || attribute.type == RouteAttribute.via {
          hop.gateway = gateway(datagram, attribute, family: family)
        }
      }
      if attributes.isMalformed || hop.interface <= 0 { return false }
      let isAlive = datagram[position + 2] & NextHop.isUseless == 0
      if found == nil, isAlive, interface == nil || interface == hop.interface { found = hop }
      position += min(rest, (length + 3) & ~3)
    }
    return true
  }
}

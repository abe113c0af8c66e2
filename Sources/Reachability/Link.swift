// A network interface as RTM_NEWLINK tells of it (rtnetlink(7); Documentation/networking/operstates.rst).

import Bytes

/// What is to know of a link to say whether something can leave by it.
public struct Link: Equatable, Sendable {
  public let index: Int32
  /// At most 15 bytes (IFNAMSIZ). Anything but white space, slashes and colons may stand in it.
  public let name: String
  /// ARPHRD_…, see `InterfaceKind`.
  public let hardwareType: UInt16
  /// Whether an operator wants it up (IFF_UP).
  public let isUp: Bool
  /// Whether bits get through: the lower layer is up (IFF_LOWER_UP), and the operational state of RFC 2863 is "up", or
  /// "unknown" as with links that keep none, such as loopback and tunnels (IFF_RUNNING says either). The other states,
  /// "down", "lower layer down", "not present" and "testing", are no carrier, and "dormant" is none either: a wifi link
  /// is in it until its keys are agreed upon. The flags are read and not the attribute with the state, which the
  /// messages of wireless drivers go without.
  public let hasCarrier: Bool
  public let isLoopback: Bool

  public init(
    index: Int32, name: String, hardwareType: UInt16, isUp: Bool, hasCarrier: Bool, isLoopback: Bool
  ) {
    self.index = index
    self.name = name
    self.hardwareType = hardwareType
    self.isUp = isUp
    self.hasCarrier = hasCarrier
    self.isLoopback = isLoopback
  }

  /// Whether packets can leave by it.
  public var isUsable: Bool { isUp && hasCarrier }

  /// Index of the loopback interface, the same in every network namespace (LOOPBACK_IFINDEX).
  public static let loopbackIndex: Int32 = 1
}

extension Link {
  /// struct ifinfomsg.
  static let headerBytes = 16
  /// Longest name in bytes, with its final NUL (IFNAMSIZ).
  private static let longestName = 16

  // Flags (IFF_…).
  private static let up: UInt32 = 0x1
  private static let loopback: UInt32 = 0x8
  private static let running: UInt32 = 0x40
  private static let lowerUp: UInt32 = 0x10000
  /// IFLA_IFNAME.
  private static let nameAttribute: UInt16 = 3

  /// The index that a message speaks of; nil where it does not speak of the link itself. Bridges tell of ports that
  /// join and leave them in messages of the same types under their own family: a port that leaves is no link that goes.
  static func index(_ datagram: Span<UInt8>, _ payload: Range<Int>) -> Int32? {
    guard payload.count >= headerBytes, datagram[payload.lowerBound] == AddressFamily.unspecified else { return nil }
    let index = datagram.hostInt32(at: payload.lowerBound + 4)
    return index > 0 ? index : nil
  }

  /// Reads RTM_NEWLINK; nil where it is malformed or speaks of something else.
  init?(_ datagram: Span<UInt8>, _ payload: Range<Int>) {
    guard let index = Self.index(datagram, payload) else { return nil }
    let flags = datagram.hostUInt32(at: payload.lowerBound + 8)
    var name = 0..<0
    var attributes = NetlinkAttributes(payload.lowerBound + Self.headerBytes..<payload.upperBound)
    while let attribute = attributes.next(datagram) {
      if attribute.type == Self.nameAttribute { name = attribute.value }
    }
    guard !attributes.isMalformed, name.count <= Self.longestName else { return nil }
    let text = datagram.extracting(name)
    let length = text.firstIndex(of: 0) ?? text.count
    guard length > 0, length < Self.longestName else { return nil }
    self.init(
      index: index, name: text.extracting(0..<length).string,
      hardwareType: datagram.hostUInt16(at: payload.lowerBound + 2), isUp: flags & Self.up != 0,
      hasCarrier: flags & Self.lowerUp != 0 && flags & Self.running != 0,
      isLoopback: flags & Self.loopback != 0)
  }
}

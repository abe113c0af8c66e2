// A network interface, as RTM_NEWLINK reports it (rtnetlink(7); Documentation/networking/operstates.rst).

import Bytes

/// The properties of a link that decide whether packets can leave by it.
public struct Link: Equatable, Sendable {
  public let index: Int32
  /// At most 15 bytes (IFNAMSIZ), with any characters except white space, slashes and colons.
  public let name: String
  /// ARPHRD_…, see `InterfaceKind`.
  public let hardwareType: UInt16
  /// Whether an operator wants it up (IFF_UP).
  public let isUp: Bool
  /// Whether data gets through. The lower layer must be up (IFF_LOWER_UP). The operational state of RFC 2863 must be
  /// "up", or "unknown" as with links that have none, such as loopback and tunnels; IFF_RUNNING covers both. The states
  /// "down", "lower layer down", "not present" and "testing" mean no carrier. So does "dormant": a wifi link is dormant
  /// until its keys are agreed upon. The flags are read and not the attribute with the state, because the messages of
  /// wireless drivers lack that.
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

  /// The index of the loopback interface, the same in every network namespace (LOOPBACK_IFINDEX).
  public static let loopbackIndex: Int32 = 1
}

extension Link {
  /// struct ifinfomsg.
  static let headerBytes = 16
  /// The longest name in bytes, with its final NUL (IFNAMSIZ).
  private static let longestName = 16

  // Flags (IFF_…).
  private static let up: UInt32 = 0x1
  private static let loopback: UInt32 = 0x8
  private static let running: UInt32 = 0x40
  private static let lowerUp: UInt32 = 0x10000
  /// IFLA_IFNAME.
  private static let nameAttribute: UInt16 = 3

  /// The index in a message; nil if the message is not about the link itself. Bridges report ports that join and leave
  /// them in messages of the same types, under their own family. A port that leaves a bridge is not a link that goes
  /// away.
  static func index(_ datagram: Span<UInt8>, _ payload: Range<Int>) -> Int32? {
    guard payload.count >= headerBytes, datagram[payload.lowerBound] == AddressFamily.unspecified else { return nil }
    let index = datagram.hostInt32(at: payload.lowerBound + 4)
    return index > 0 ? index : nil
  }

  /// Reads RTM_NEWLINK; nil if it is malformed or about something else.
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

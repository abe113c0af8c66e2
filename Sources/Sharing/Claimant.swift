// Who a connection counts for, where a limit is shared out among clients. Tests: SharesTests.

import Bytes

/// A client as the limits know it: the user where the kernel says who it is, else its address.
public enum Claimant: Hashable, Sendable {
  case user(UInt32)
  case address(IPAddress)

  /// The daemon itself, where it asks for something: (uid_t)-1 is no user (setreuid(2)).
  public static let daemon = Claimant.user(.max)

  /// A client that is known by its address alone. One IPv6 host has at least a /64 of addresses (RFC 4291, 2.5.1), and
  /// would be as many clients as it likes if each of them counted.
  public init(_ address: IPAddress) {
    let plain = address.mappedIPv4 ?? address
    self = .address(plain.isIPv4 ? plain : IPAddress(ipv6High: plain.high, low: 0))
  }
}

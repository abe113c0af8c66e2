// The client that a connection counts for, where clients share a limit. Tests: SharesTests.

import Bytes

/// A client as limits see it: the user if the kernel identifies it, otherwise its address.
public enum Claimant: Hashable, Sendable {
  case user(UInt32)
  case address(IPAddress)

  /// The daemon itself, for its own requests: (uid_t)-1 is no user (setreuid(2)).
  public static let daemon = Claimant.user(.max)

  /// A client known only by its address. One IPv6 host has at least a /64 of addresses (RFC 4291, 2.5.1), and could
  /// pose as any number of clients if each of them counted.
  public init(_ address: IPAddress) {
    let plain = address.mappedIPv4 ?? address
    self = .address(plain.isIPv4 ? plain : IPAddress(ipv6High: plain.high, low: 0))
  }
}

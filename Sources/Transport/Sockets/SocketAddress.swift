// The address that a socket is bound or connected to.

import CLinux

/// An IPv4 or IPv6 address with a port. IPv4 is the low 32 bits of `low`.
public struct SocketAddress: Hashable, Sendable {
  public let high: UInt64
  public let low: UInt64
  public let port: UInt16
  public let isIPv4: Bool

  public init(high: UInt64, low: UInt64, port: UInt16, isIPv4: Bool) {
    self.high = high
    self.low = low
    self.port = port
    self.isIPv4 = isIPv4
  }

  init(_ raw: cl_address) {
    self.init(high: raw.high, low: raw.low, port: raw.port, isIPv4: raw.is_ipv4)
  }

  /// `0.0.0.0` or `::`: for a listener, all addresses of this machine.
  var isEveryAddress: Bool { high == 0 && low == 0 }

  var raw: cl_address { cl_address(high: high, low: low, port: port, is_ipv4: isIPv4) }
}

// Netlink messages made by hand, in the byte order of this host.

import Bytes

@testable import Reachability

/// Hexadecimal digits, in as many lines as they like.
func hexadecimal(_ text: String) -> [UInt8] {
  let digits = text.utf8.compactMap(\.hexadecimalValue)
  return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

func host(_ value: UInt16) -> [UInt8] { withUnsafeBytes(of: value) { Array($0) } }
func host(_ value: UInt32) -> [UInt8] { withUnsafeBytes(of: value) { Array($0) } }
func host(_ value: Int32) -> [UInt8] { withUnsafeBytes(of: value) { Array($0) } }

/// A message with its header and padding. `length` is what it says of itself, where that is not the truth.
func message(
  _ type: UInt16, flags: UInt16 = 0, sequence: UInt32 = 7, length: UInt32? = nil, _ payload: [UInt8]
) -> [UInt8] {
  host(length ?? UInt32(16 + payload.count)) + host(type) + host(flags) + host(sequence) + host(UInt32(0))
    + padded(payload)
}

/// An attribute with its header and padding.
func attribute(_ type: UInt16, length: UInt16? = nil, _ value: [UInt8]) -> [UInt8] {
  host(length ?? UInt16(4 + value.count)) + host(type) + padded(value)
}

private func padded(_ bytes: [UInt8]) -> [UInt8] {
  bytes + [UInt8](repeating: 0, count: (4 - bytes.count % 4) % 4)
}

/// RTM_NEWLINK.
func linkMessage(
  family: UInt8 = 0, hardwareType: UInt16 = 1, index: Int32 = 3, flags: UInt32 = 0x11043,
  _ attributes: [UInt8] = attribute(3, Array("eth0\0".utf8))
) -> [UInt8] {
  message(16, [family, 0] + host(hardwareType) + host(index) + host(flags) + host(UInt32(0)) + attributes)
}

/// RTM_NEWADDR, or another type.
func addressMessage(
  type: UInt16 = 20, family: UInt8 = 2, length: UInt8 = 24, flags: UInt8 = 0, index: Int32 = 3,
  _ attributes: [UInt8] = attribute(2, [10, 0, 0, 2])
) -> [UInt8] {
  message(type, [family, length, flags, 0] + host(index) + attributes)
}

/// RTM_NEWROUTE as the answer to sequence 7, or another type.
func routeMessage(
  type: UInt16 = 24, sequence: UInt32 = 7, family: UInt8 = 2, kind: UInt8 = 1, flags: UInt32 = 0,
  _ attributes: [UInt8]
) -> [UInt8] {
  message(type, sequence: sequence, [family, 32, 0, 0, 254, 0, 0, kind] + host(flags) + attributes)
}

/// What `RouteMessages` reads in `bytes`.
func news(_ bytes: [UInt8]) -> [RouteMessage] { news(bytes.span) }

func news(_ bytes: Span<UInt8>) -> [RouteMessage] {
  var result: [RouteMessage] = []
  RouteMessages.read(bytes) { result.append($0) }
  return result
}

extension IPAddress: ExpressibleByStringLiteral {
  public init(stringLiteral text: String) {
    guard let address = IPAddress(text) else { fatalError("no address: \(text)") }
    self = address
  }
}

extension AddressBlock: ExpressibleByStringLiteral {
  public init(stringLiteral text: String) {
    guard let block = AddressBlock(text) else { fatalError("no block: \(text)") }
    self = block
  }
}

// The memory layout of netlink (RFC 3549, 2.3; include/uapi/linux/netlink.h): messages in a datagram, attributes in a
// message. Integers in the headers are in the host's byte order, lengths include their own header, and each item begins
// at a multiple of four.
//
// Both walks allocate nothing and always end: every step advances by at least a header, and the first impossible length
// ends the walk. The receiver must only accept datagrams from the kernel (port 0 in the sender's address), because any
// program may send to a netlink socket whose port it knows.
//
// Tested in ReachabilityTests, fuzzed as RouteMessages and SocketDiagnosis.

import Bytes

/// The header of one message (struct nlmsghdr), and the range of its payload in the datagram.
public struct NetlinkMessage: Equatable, Sendable {
  public let type: UInt16
  /// NLM_F_…
  public let flags: UInt16
  /// The sequence of the request that is answered, or that caused the change.
  public let sequence: UInt32
  public let payload: Range<Int>

  static let headerBytes = 16
}

/// Walks through the messages of a datagram. Every step must pass the same datagram.
public struct NetlinkMessages: Sendable {
  /// A size in bytes that no datagram of the kernel exceeds: dumps come in parts of at most 32 KiB (af_netlink.c,
  /// netlink_dump), and a report of a link takes less than 2 KiB.
  public static let longestDatagramBytes = 32 << 10

  private var position = 0
  /// Whether the walk ended at an impossible length: what follows is lost.
  public private(set) var isMalformed = false

  public init() {}

  public mutating func next(_ datagram: Span<UInt8>) -> NetlinkMessage? {
    guard !isMalformed, position < datagram.count else { return nil }
    let begin = position
    let rest = datagram.count - begin
    guard rest >= NetlinkMessage.headerBytes else { return stop() }
    let length = Int(datagram.hostUInt32(at: begin))
    guard length >= NetlinkMessage.headerBytes, length <= rest else { return stop() }
    position = begin + min(rest, length.roundedUpToFour)
    return NetlinkMessage(
      type: datagram.hostUInt16(at: begin + 4), flags: datagram.hostUInt16(at: begin + 6),
      sequence: datagram.hostUInt32(at: begin + 8),
      payload: begin + NetlinkMessage.headerBytes..<begin + length)
  }

  private mutating func stop() -> NetlinkMessage? {
    isMalformed = true
    return nil
  }
}

/// Walks through attributes (struct nlattr), of a message or nested in another attribute.
struct NetlinkAttributes {
  struct Attribute: Equatable {
    /// Without the bits for the form of the value (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
    let type: UInt16
    let value: Range<Int>
  }

  private static let headerBytes = 4
  private static let typeMask: UInt16 = 0x3fff

  private var position: Int
  private let end: Int
  private(set) var isMalformed = false

  /// `range` is within the datagram that is passed at every step.
  init(_ range: Range<Int>) {
    position = range.lowerBound
    end = range.upperBound
  }

  mutating func next(_ bytes: Span<UInt8>) -> Attribute? {
    guard !isMalformed, position < end else { return nil }
    let begin = position
    let rest = end - begin
    guard rest >= Self.headerBytes else { return stop() }
    let length = Int(bytes.hostUInt16(at: begin))
    guard length >= Self.headerBytes, length <= rest else { return stop() }
    position = begin + min(rest, length.roundedUpToFour)
    return Attribute(
      type: bytes.hostUInt16(at: begin + 2) & Self.typeMask, value: begin + Self.headerBytes..<begin + length)
  }

  private mutating func stop() -> Attribute? {
    isMalformed = true
    return nil
  }
}

/// Types and flags of every netlink family.
enum Netlink {
  // Types (NLMSG_…).
  static let error: UInt16 = 2
  static let done: UInt16 = 3
  static let overrun: UInt16 = 4
  // Flags (NLM_F_…).
  static let request: UInt16 = 0x01
  static let dumpInterrupted: UInt16 = 0x10
  static let dump: UInt16 = 0x300

  /// Appends the header of a message whose payload has `payload` bytes. Port 0: the kernel knows where to send the
  /// answer.
  static func writeHeader(
    type: UInt16, flags: UInt16, sequence: UInt32, payload: Int, to buffer: inout ByteBuffer
  ) {
    buffer.append(host: UInt32(NetlinkMessage.headerBytes + payload))
    buffer.append(host: type)
    buffer.append(host: flags)
    buffer.append(host: sequence)
    buffer.append(host: UInt32(0))
  }

  /// The error in an NLMSG_ERROR or NLMSG_DONE as a positive errno; 0 for none, nil if no errno can be read.
  static func errorNumber(_ message: NetlinkMessage, _ datagram: Span<UInt8>) -> Int32? {
    guard message.payload.count >= 4 else { return nil }
    let code = datagram.hostInt32(at: message.payload.lowerBound)
    return code <= 0 && code >= -longestErrorNumber ? -code : nil
  }

  /// MAX_ERRNO of the kernel (include/linux/err.h).
  private static let longestErrorNumber: Int32 = 4095
}

// MARK: Integers

extension Int {
  /// NLMSG_ALIGN and NLA_ALIGN.
  fileprivate var roundedUpToFour: Int { (self + 3) & ~3 }
}

extension Span where Element == UInt8 {
  func hostUInt16(at index: Int) -> UInt16 {
    UInt16(littleEndian: UInt16(self[index]) | UInt16(self[index + 1]) << 8)
  }

  func hostUInt32(at index: Int) -> UInt32 {
    UInt32(littleEndian: littleEndianUInt32(at: index))
  }

  func hostInt32(at index: Int) -> Int32 { Int32(bitPattern: hostUInt32(at: index)) }

  func hostUInt64(at index: Int) -> UInt64 {
    UInt64(
      littleEndian: UInt64(littleEndianUInt32(at: index)) | UInt64(littleEndianUInt32(at: index + 4)) << 32)
  }

  func networkUInt16(at index: Int) -> UInt16 { UInt16(self[index]) << 8 | UInt16(self[index + 1]) }

  func networkUInt32(at index: Int) -> UInt32 { littleEndianUInt32(at: index).byteSwapped }

  func networkUInt64(at index: Int) -> UInt64 {
    UInt64(networkUInt32(at: index)) << 32 | UInt64(networkUInt32(at: index + 4))
  }

  /// The bytes as a little-endian number, on any host.
  private func littleEndianUInt32(at index: Int) -> UInt32 {
    UInt32(self[index]) | UInt32(self[index + 1]) << 8 | UInt32(self[index + 2]) << 16 | UInt32(self[index + 3]) << 24
  }
}

extension ByteBuffer {
  mutating func append(host value: UInt16) {
    // The bytes as in the memory of this host.
    let value = UInt16(littleEndian: value)
    append(UInt8(truncatingIfNeeded: value))
    append(UInt8(truncatingIfNeeded: value >> 8))
  }

  mutating func append(host value: UInt32) {
    var value = UInt32(littleEndian: value)
    for _ in 0..<4 {
      append(UInt8(truncatingIfNeeded: value))
      value >>= 8
    }
  }

  mutating func append(network value: UInt16) {
    append(UInt8(truncatingIfNeeded: value >> 8))
    append(UInt8(truncatingIfNeeded: value))
  }

  mutating func append(network value: UInt32) {
    append(network: UInt16(truncatingIfNeeded: value >> 16))
    append(network: UInt16(truncatingIfNeeded: value))
  }

  mutating func append(network value: UInt64) {
    append(network: UInt32(truncatingIfNeeded: value >> 32))
    append(network: UInt32(truncatingIfNeeded: value))
  }

  mutating func append(zeros count: Int) {
    for _ in 0..<count { append(0) }
  }
}

// MARK: Addresses

/// The kernel's numbers of address families.
enum AddressFamily {
  static let unspecified: UInt8 = 0
  static let ipv4: UInt8 = 2
  static let ipv6: UInt8 = 10

  static func of(_ address: IPAddress) -> UInt8 { address.isIPv4 ? ipv4 : ipv6 }
}

extension IPAddress {
  /// The number of bytes of an address of this family.
  var byteCount: Int { width / 8 }

  /// Reads an address in network byte order; nil if `range` does not have the length for the family.
  init?(_ bytes: Span<UInt8>, _ range: Range<Int>, family: UInt8) {
    switch (family, range.count) {
    case (AddressFamily.ipv4, 4): self.init(ipv4: bytes.networkUInt32(at: range.lowerBound))
    case (AddressFamily.ipv6, 16):
      self.init(
        ipv6High: bytes.networkUInt64(at: range.lowerBound), low: bytes.networkUInt64(at: range.lowerBound + 8))
    default: return nil
    }
  }

  /// Appends the address in network byte order, four bytes or sixteen.
  func writeBytes(to buffer: inout ByteBuffer) {
    if isIPv4 { return buffer.append(network: UInt32(truncatingIfNeeded: low)) }
    buffer.append(network: high)
    buffer.append(network: low)
  }

  /// The IPv4 address if this is a mapped one: the kernel treats both as the same.
  public var unmapped: IPAddress { mappedIPv4 ?? self }
}

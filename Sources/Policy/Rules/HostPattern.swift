// Hosts as requests name them, and the patterns of rules.
//
// A host value is always canonical: lower case, no trailing dot, A-labels, and an address if the text is one. Numbers
// that are not dotted quads (`0x7f.1`, `2130706433`) are refused, because resolvers read them as addresses that no rule
// has checked.

import Bytes

/// Why a host is refused.
public enum HostFault: Error, Equatable, Sendable {
  case empty
  case tooLong
  case badLabel
  case badCharacter
  case badAddress
  case numberLike

  /// What was expected, for the text of an error.
  public var expectation: String {
    switch self {
    case .empty: "a host name, but the host is empty"
    case .tooLong: "a host name of at most 253 bytes"
    case .badLabel: "labels of 1 to 63 letters, digits, '-' or '_' between dots"
    case .badCharacter: "letters, digits, '-', '_' and dots in a host name (other scripts as A-labels, xn--…)"
    case .badAddress: "an IPv6 address between brackets"
    case .numberLike:
      "a host name or a dotted quad of four decimal numbers; this is a number that some resolvers read as an address"
    }
  }
}

/// The host of a request in canonical form, in storage that is reused for each request of a loop.
public struct CanonicalHost: Hashable, Sendable {
  /// Longest name in bytes (RFC 1035, 2.3.4, without the root's dot).
  public static let longestName = 253

  /// Lower-case bytes of the name, or of the address without brackets in its canonical text.
  public private(set) var bytes: [UInt8] = []
  /// Set if the host is a literal address.
  public private(set) var address: IPAddress? = nil

  /// The bytes in an array of their own. An array made from a whole slice shares its storage, and would force a new
  /// allocation for the next request's host.
  public var copiedBytes: [UInt8] { bytes.map { $0 } }

  public init() { bytes.reserveCapacity(256) }

  /// A host that has already been read: `canonical` is its former `bytes`.
  public init(canonical: [UInt8], address: IPAddress?) {
    bytes = canonical
    self.address = address
  }

  /// Reads the host of an authority: a name, a dotted quad, or an IPv6 address in brackets.
  public mutating func set(_ text: Span<UInt8>) -> HostFault? {
    bytes.removeAll(keepingCapacity: true)
    address = nil
    guard text.count > 0 else { return .empty }
    if text[0] == 0x5b {
      guard text.count > 2, text[text.count - 1] == 0x5d,
        let address = IPAddress.parseIPv6(text.extracting(1..<text.count - 1))
      else { return .badAddress }
      setAddress(address)
      return nil
    }
    var count = text.count
    if text[count - 1] == 0x2e { count -= 1 }
    guard count > 0 else { return .empty }
    guard count <= Self.longestName else { return .tooLong }
    var label = 0
    var labelStart = 0
    for index in 0..<count {
      let byte = text[index]
      if byte == 0x2e {
        if label == 0 || label > 63 { return .badLabel }
        label = 0
        labelStart = index + 1
      } else if byte.isASCIILetter || byte.isASCIIDigit || byte == 0x2d || byte == 0x5f {
        label += 1
      } else {
        return .badCharacter
      }
    }
    let name = text.extracting(0..<count)
    unsafe name.withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
    if name.hasUppercase { for index in bytes.indices { bytes[index] = bytes[index].asciiLowercased } }
    if label == 0 || label > 63 { return .badLabel }
    // A numeric last label makes the host an address or invalid (WHATWG URL, "ends in a number").
    let last = text.extracting(labelStart..<count)
    if Self.isNumber(last) {
      guard let address = IPAddress.parseIPv4(text.extracting(0..<count)) else { return .numberLike }
      setAddress(address)
    }
    return nil
  }

  private static func isNumber(_ label: Span<UInt8>) -> Bool {
    if label.count >= 2, label[0] == 0x30, label[1] | 0x20 == 0x78 {
      for index in 2..<label.count where label[index].hexadecimalValue == nil { return false }
      return true
    }
    for index in 0..<label.count where !label[index].isASCIIDigit { return false }
    return true
  }

  private mutating func setAddress(_ address: IPAddress) {
    self.address = address
    bytes.removeAll(keepingCapacity: true)
    address.write { bytes.append($0) }
  }
}

/// The meaning of an entry in a rule's `hosts`.
public enum HostPattern: Hashable, Sendable {
  /// `*`: any host.
  case any
  /// `a.example`: that name. The name is canonical.
  case name(String)
  /// `*.a.example`: exactly one more label.
  case oneLabelBelow(String)
  /// `**.a.example`: the name itself and every name below it.
  case atOrBelow(String)
  /// A literal address or a CIDR block, for destinations that are literal addresses. An IPv4-mapped address counts both
  /// as itself and as its IPv4 address, so `[::ffff:10.0.0.1]` does not bypass a rule about `10.0.0.0/8`.
  case block(AddressBlock)

  public func matches(_ host: CanonicalHost) -> Bool {
    switch self {
    case .any: return true
    case .block(let block):
      guard let address = host.address else { return false }
      return block.contains(address) || (address.mappedIPv4.map(block.contains) ?? false)
    case .name(let name): return host.address == nil && host.bytes.elementsEqual(name.utf8)
    case .oneLabelBelow(let name):
      guard host.address == nil, Self.isBelow(host.bytes, name) else { return false }
      return !host.bytes.dropLast(name.utf8.count + 1).contains(0x2e)
    case .atOrBelow(let name):
      return host.address == nil && (host.bytes.elementsEqual(name.utf8) || Self.isBelow(host.bytes, name))
    }
  }

  private static func isBelow(_ host: [UInt8], _ name: String) -> Bool {
    let suffix = name.utf8
    guard host.count > suffix.count + 1, host[host.count - suffix.count - 1] == 0x2e else { return false }
    return host.suffix(suffix.count).elementsEqual(suffix)
  }
}

extension HostPattern: CustomStringConvertible {
  public var description: String {
    switch self {
    case .any: "*"
    case .name(let name): name
    case .oneLabelBelow(let name): "*.\(name)"
    case .atOrBelow(let name): "**.\(name)"
    case .block(let block): block.length == block.address.width ? "\(block.address)" : "\(block)"
    }
  }
}

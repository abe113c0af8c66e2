// The sets of addresses for `deny_addresses`: classes, blocks, and the addresses of this machine.
//
// Blocks come from the file. The machine's own addresses change while the daemon runs. So a set only records that they
// are included, and the caller provides them. Tests: AddressSetTests.

/// The addresses of this machine at one moment.
public struct OwnAddresses: Hashable, Sendable {
  /// nil: the kernel does not list them.
  private let addresses: Set<IPAddress>?

  public static let unknown = OwnAddresses(addresses: nil)

  private init(addresses: Set<IPAddress>?) { self.addresses = addresses }

  /// Loopback addresses may be omitted.
  public init(_ addresses: Set<IPAddress>) { self.init(addresses: addresses) }

  /// Whether a connection to `address` ends at this machine; nil if that is not known.
  public func contains(_ address: IPAddress) -> Bool? {
    if address.anyReading({ $0.isLoopback || $0.isUnspecified || addresses?.contains($0) ?? false }) { return true }
    return addresses == nil ? nil : false
  }
}

/// Why an address belongs to a set.
public enum AddressMatch: Hashable, Sendable {
  case block(AddressBlock)
  /// It is an address of this machine.
  case own
  /// It may be one: the kernel does not list them.
  case possiblyOwn
}

extension AddressMatch: CustomStringConvertible {
  /// The entry as the file could have it.
  public var description: String {
    switch self {
    case .block(let block): block.description
    case .own, .possiblyOwn: AddressSet.ownName
    }
  }

  /// What follows the address in a message.
  public var sentence: String {
    switch self {
    case .block(let block): "is in \(block), which deny_addresses lists"
    case .own: "is an address of this machine, which deny_addresses lists"
    case .possiblyOwn:
      "may be an address of this machine, which deny_addresses lists: the kernel does not say which addresses those are"
    }
  }
}

/// The addresses in `deny_addresses`: named classes and blocks.
public struct AddressSet: Hashable, Sendable {
  /// The machine's own addresses, on any interface.
  public static let ownName = "self"

  /// The names that `deny_addresses` accepts, with the blocks of each (IANA special-purpose registries).
  public static let named: [(name: String, blocks: [String])] = [
    ("link-local", ["169.254.0.0/16", "fe80::/10"]),
    ("multicast", ["224.0.0.0/4", "255.255.255.255/32", "ff00::/8"]),
    ("unspecified", ["0.0.0.0/8", "::/128"]),
    ("loopback", loopback),
    ("private", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"]),
    ("cgnat", ["100.64.0.0/10"]),
    (ownName, loopback),
  ]

  // On Linux, a connection to 0.0.0.0 or :: reaches the machine itself.
  private static let loopback = ["127.0.0.0/8", "::1/128", "0.0.0.0/32", "::/128"]
  /// A service of this machine can be reached at each of its addresses, so denying loopback denies them all.
  private static let namesOfOwn: Set<String> = ["loopback", ownName]

  public private(set) var blocks: [AddressBlock] = []
  /// Whether it includes the machine's own addresses.
  public private(set) var includesOwn = false

  public init() {}

  /// Adds a named class or a block; false if `text` is neither.
  public mutating func insert(_ text: String) -> Bool {
    if let known = Self.named.first(where: { $0.name == text }) {
      blocks += known.blocks.compactMap { AddressBlock($0) }
      if Self.namesOfOwn.contains(text) { includesOwn = true }
      return true
    }
    guard let block = AddressBlock(text) else { return false }
    blocks.append(block.unmapped)
    return true
  }

  /// The block that contains `address`, or an IPv4 address embedded in it.
  public func firstBlock(containing address: IPAddress) -> AddressBlock? {
    var found: AddressBlock? = nil
    let isFound = address.anyReading { reading in
      found = blocks.first { $0.contains(reading) }
      return found != nil
    }
    return isFound ? found : nil
  }

  /// Why `address` belongs to the set; nil if it does not. `isOwn` returns whether it is an address of this machine,
  /// nil if that is not known. It is only called if the set includes those addresses.
  public func match(_ address: IPAddress, isOwn: (IPAddress) -> Bool?) -> AddressMatch? {
    if let block = firstBlock(containing: address) { return .block(block) }
    guard includesOwn else { return nil }
    switch isOwn(address) {
    case true?: return .own
    case false?: return nil
    case nil: return .possiblyOwn
    }
  }
}

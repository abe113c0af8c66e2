// What an authority may sign for (name constraints, RFC 5280, 4.2.1.10). They limit the damage of a stolen key: clients
// reject its leaves for any other name.

import COpenSSL

public enum NameSubtree: Hashable, Sendable, CustomStringConvertible {
  /// A DNS name and every name below it; lower case, A-labels, no trailing dot. Empty: every name.
  case name(String)
  /// 4 or 16 bytes; the first `prefixLength` bits count.
  case addresses([UInt8], prefixLength: Int)
  /// A kind of name by which no server is addressed.
  case other

  /// `example.com`, `10.0.0.0/8`.
  public var description: String {
    switch self {
    case .name(let name): name.isEmpty ? "every name" : printable(Array(name.utf8))
    case .addresses(let bytes, let length): "\(addressText(bytes) ?? "")/\(length)"
    case .other: "names of another kind"
    }
  }

  /// `permitted` as the DER of NameConstraints. A kind of name without a constraint is unrestricted (RFC 5280,
  /// 4.2.1.10), so a kind with nothing permitted is excluded as a whole.
  static func constraints(_ permitted: [NameSubtree]) -> [UInt8] {
    let hasNames = permitted.contains { if case .name = $0 { true } else { false } }
    let hasAddresses = permitted.contains { if case .addresses = $0 { true } else { false } }
    var excluded: [NameSubtree] = hasNames ? [] : [.name("")]
    if !hasAddresses { excluded += [4, 16].map { .addresses([UInt8](repeating: 0, count: $0), prefixLength: 0) } }
    func subtrees(_ tag: UInt8, _ list: [NameSubtree]) -> [UInt8] {
      list.isEmpty ? [] : DER.element(tag, list.flatMap { DER.element(DER.sequence, $0.generalName) })
    }
    return DER.element(DER.sequence, subtrees(0xa0, permitted) + subtrees(0xa1, excluded))
  }

  private var generalName: [UInt8] {
    switch self {
    case .name(let name): DER.element(0x82, Array(name.utf8))
    case .addresses(let address, let length): DER.element(0x87, address + Self.mask(length, bytes: address.count))
    case .other: []
    }
  }

  private static func mask(_ length: Int, bytes: Int) -> [UInt8] {
    (0..<bytes).map { index in ~UInt8(truncatingIfNeeded: 0xff >> min(8, max(0, length - 8 * index))) }
  }

  static func list(of constraints: UnsafeMutablePointer<NAME_CONSTRAINTS>?, excluded: Bool) -> [NameSubtree] {
    guard let constraints else { return [] }
    var found: [NameSubtree] = []
    while true {
      var bytes: UnsafePointer<UInt8>? = nil
      var count: Int32 = 0
      let kind = cossl_subtree(constraints, excluded, Int32(found.count), &bytes, &count)
      if kind < 0 { return found }
      found.append(NameSubtree(kind, UnsafeBufferPointer(start: bytes, count: Int(count))))
    }
  }

  private init(_ kind: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
    switch kind {
    case GEN_DNS: self = .name(String(decoding: bytes, as: UTF8.self))
    case GEN_IPADD where bytes.count == 8 || bytes.count == 32:
      let half = bytes.count / 2
      let length = bytes[half...].reduce(0) { $0 + $1.nonzeroBitCount }
      self = .addresses(Array(bytes[..<half]), prefixLength: length)
    default: self = .other
    }
  }
}

// The names in subjectAltName and in name constraints (RFC 5280, 4.2.1.6 and 4.2.1.10): the kind of each, and whether
// it is well formed.

import Bytes

/// One name as encoded. Valid while its certificate lives.
struct GeneralName {
  enum Kind: UInt8 {
    case other = 0xa0
    case mail = 0x81
    case domain = 0x82
    case x400 = 0xa3
    case directory = 0xa4
    case ediParty = 0xa5
    case resource = 0x86
    case address = 0x87
    case registered = 0x88

    /// For a message.
    var words: String {
      switch self {
      case .other: "otherName"
      case .mail: "rfc822Name"
      case .domain: "dNSName"
      case .x400: "x400Address"
      case .directory: "directoryName"
      case .ediParty: "ediPartyName"
      case .resource: "uniformResourceIdentifier"
      case .address: "iPAddress"
      case .registered: "registeredID"
      }
    }
  }

  let tag: UInt8
  let content: UnsafeBufferPointer<UInt8>

  init(_ element: DERElement) {
    tag = element.tag
    content = element.content
  }

  /// nil: not an existing kind.
  var kind: Kind? { Kind(rawValue: tag) }

  /// For a message: `dNSName '*.example.com'`.
  var description: String {
    let words = kind?.words ?? "a name of an unknown kind"
    switch kind {
    case .domain, .mail, .resource: return "\(words) \(quotable(printable(content)))"
    case .address: return "\(words) \(addressText(Array(content)) ?? "of \(content.count) octets")"
    default: return words
    }
  }

  /// Whether a name of a certificate has the form that its kind requires. Kinds that are not implemented always pass.
  var isWellFormed: Bool {
    switch kind {
    case .domain: HostSyntax.isName(content, allowsWildcard: true)
    case .address: content.count == 4 || content.count == 16
    case .mail: HostSyntax.isMailbox(content)
    case .resource: HostSyntax.namesHost(resource: content)
    case .directory: DERReader.sequence(content) != nil
    case nil: false
    default: true
    }
  }

  /// Whether the base of a subtree has the form that its kind requires.
  var isWellFormedBase: Bool {
    switch kind {
    // "Adding zero or more labels to the left-hand side": a leading period would be an empty label.
    case .domain: content.isEmpty || HostSyntax.isName(content, allowsWildcard: false)
    case .address: (content.count == 8 || content.count == 32) && hasPrefixMask
    case .mail: content.contains(0x40) ? HostSyntax.isMailbox(content) : HostSyntax.isHostOrDomain(content)
    case .resource: HostSyntax.isHostOrDomain(content)
    case .directory: DERReader.sequence(content) != nil
    case nil: false
    default: true
    }
  }

  /// Ones, then zeros.
  private var hasPrefixMask: Bool {
    var hasEnded = false
    for octet in content[(content.count / 2)...] {
      if hasEnded ? octet != 0 : (~octet & (~octet &+ 1)) != 0 { return false }
      hasEnded = hasEnded || octet != 0xff
    }
    return true
  }
}

/// The forms of host names.
enum HostSyntax {
  /// RFC 1035, 2.3.4.
  private static let longestLabel = 63
  private static let longestName = 253

  /// Labels of letters, digits, hyphens and underscores. Underscores are not allowed in host names but occur in
  /// certificates. If `allowsWildcard`, "*." may come first.
  static func isName(_ bytes: some RandomAccessCollection<UInt8>, allowsWildcard: Bool) -> Bool {
    var bytes = bytes[...]
    if allowsWildcard, bytes.starts(with: [0x2a, 0x2e]) { bytes = bytes.dropFirst(2) }
    guard !bytes.isEmpty, bytes.count <= longestName else { return false }
    var label = 0
    for byte in bytes {
      if byte == 0x2e {
        if label == 0 { return false }
        label = 0
      } else {
        guard byte.isASCIILetter || byte.isASCIIDigit || byte == 0x2d || byte == 0x5f else { return false }
        label += 1
        if label > longestLabel { return false }
      }
    }
    return label > 0
  }

  /// `host.example.com`, or `.example.com` for every host below it.
  static func isHostOrDomain(_ bytes: some RandomAccessCollection<UInt8>) -> Bool {
    isName(bytes.first == 0x2e ? bytes.dropFirst() : bytes[...], allowsWildcard: false)
  }

  /// `local-part@host`, with one @.
  static func isMailbox(_ bytes: some RandomAccessCollection<UInt8>) -> Bool {
    let parts = bytes.split(separator: 0x40, omittingEmptySubsequences: false)
    return parts.count == 2 && !parts[0].isEmpty && parts[0].allSatisfy { (0x21...0x7e).contains($0) }
      && isName(parts[1], allowsWildcard: false)
  }

  /// Whether a URI has a host that is a name. Constraints only apply to such URIs (RFC 5280, 4.2.1.10).
  static func namesHost(resource bytes: some RandomAccessCollection<UInt8>) -> Bool {
    guard let colon = bytes.firstIndex(of: 0x3a) else { return false }
    let rest = bytes[colon...].dropFirst()
    guard rest.starts(with: [0x2f, 0x2f]) else { return false }
    var host = rest.dropFirst(2).prefix { $0 != 0x2f && $0 != 0x3f && $0 != 0x23 }
    if let at = host.lastIndex(of: 0x40) { host = host[at...].dropFirst() }
    host = host.prefix { $0 != 0x3a }
    // The last label of an address is a number; that of a domain never is.
    let last = host.split(separator: 0x2e).last ?? host
    return isName(host, allowsWildcard: false) && !last.allSatisfy(\.isASCIIDigit)
  }
}

// The namespace prefixes in force in an XML document (Namespaces in XML 1.0, third edition).
//
// A name is checked where its element begins. Namespaces are numbered, so the length of a namespace name only costs
// time at its declaration. The default namespace is not stored: no check depends on it. Tests: XMLNamespacesTests.

import Bytes

struct XMLNamespaces {
  /// The most prefixes in force at one place. Office documents declare the most, about forty. Each name is compared
  /// with all of them.
  static let mostPrefixes = 256

  private struct Binding {
    let prefix: [UInt8]
    let namespace: Int
    let depth: Int
  }

  private struct ExpandedName: Hashable {
    let namespace: Int
    let local: [UInt8]
  }

  private static let xml = Array("http://www.w3.org/XML/1998/namespace".utf8)
  private static let xmlns = Array("http://www.w3.org/2000/xmlns/".utf8)

  private var bindings = [Binding(prefix: Array("xml".utf8), namespace: 0, depth: 0)]
  private var numbers: [[UInt8]: Int] = [xml: 0]
  /// Two prefixes stand for the same namespace somewhere: only then can attributes with different names be the same
  /// one.
  private var hasSynonyms = false

  /// Reads the declarations of a start tag and checks its names. Returns what is wrong with them, or nil.
  mutating func enter(_ name: Span<UInt8>, _ attributes: XMLAttributes, depth: Int) -> String? {
    var prefixed = 0
    for index in 0..<attributes.count {
      let attribute = attributes.name(index)
      guard let colon = attribute.firstIndex(of: UInt8(ascii: ":")) else {
        if attribute.equals(0..<attribute.count, "xmlns"), isReserved(attributes.value(index).array) {
          return "expected another default namespace than a reserved one"
        }
        continue
      }
      if let reason = faultOfName(attribute, colon) { return reason }
      if attribute.equals(0..<colon, "xmlns") {
        let prefix = attribute.extracting(colon + 1..<attribute.count)
        if let reason = declare(prefix, attributes.value(index).array, depth: depth) { return reason }
      } else {
        prefixed += 1
      }
    }
    if let colon = name.firstIndex(of: UInt8(ascii: ":")) {
      if let reason = faultOfName(name, colon) { return reason }
      if namespace(of: name, colon) == nil { return unbound(name, colon) }
    }
    return prefixed == 0 ? nil : faultOfPrefixed(attributes)
  }

  /// Forgets the declarations of the element at `depth`.
  mutating func leave(depth: Int) {
    while let last = bindings.last, last.depth == depth { bindings.removeLast() }
  }

  // MARK: Declarations

  private mutating func declare(_ prefix: Span<UInt8>, _ name: [UInt8], depth: Int) -> String? {
    if prefix.equals(0..<prefix.count, "xml") {
      return name == Self.xml ? nil : "expected the prefix 'xml' to keep its namespace"
    }
    if prefix.equals(0..<prefix.count, "xmlns") { return "expected no declaration of the prefix 'xmlns'" }
    if name.isEmpty { return "expected a namespace for the prefix '\(FaultWords.quoted(prefix))', found an empty one" }
    if isReserved(name) {
      return "expected another namespace than a reserved one for the prefix '\(FaultWords.quoted(prefix))'"
    }
    guard bindings.count < Self.mostPrefixes else {
      return "expected at most \(Self.mostPrefixes) prefixes, found more"
    }
    let number = numbers[name] ?? numbers.count
    if number == numbers.count { numbers[name] = number }
    if bindings.contains(where: { $0.namespace == number }) { hasSynonyms = true }
    bindings.append(Binding(prefix: prefix.array, namespace: number, depth: depth))
    return nil
  }

  private func isReserved(_ name: [UInt8]) -> Bool { name == Self.xml || name == Self.xmlns }

  // MARK: Names

  /// The number of the namespace for the prefix before `colon`.
  private func namespace(of name: Span<UInt8>, _ colon: Int) -> Int? {
    let prefix = name.extracting(0..<colon)
    return bindings.last { prefix.equals($0.prefix.span) }?.namespace
  }

  private func unbound(_ name: Span<UInt8>, _ colon: Int) -> String {
    "expected a declared prefix, found '\(FaultWords.quoted(name.extracting(0..<colon)))'"
  }

  private func faultOfPrefixed(_ attributes: XMLAttributes) -> String? {
    var seen: Set<ExpandedName> = []
    for index in 0..<attributes.count {
      let name = attributes.name(index)
      guard let colon = name.firstIndex(of: UInt8(ascii: ":")), !name.equals(0..<colon, "xmlns") else { continue }
      guard let namespace = namespace(of: name, colon) else { return unbound(name, colon) }
      guard hasSynonyms else { continue }
      let local = name.extracting(colon + 1..<name.count)
      guard seen.insert(ExpandedName(namespace: namespace, local: local.array)).inserted else {
        return "expected each attribute once, found '\(FaultWords.quoted(local))' twice in one namespace"
      }
    }
    return nil
  }

  /// A prefix, one colon and a local part (production 7). Expat has checked that their characters are allowed in names.
  private func faultOfName(_ name: Span<UInt8>, _ colon: Int) -> String? {
    let local = name.extracting(colon + 1..<name.count)
    guard colon > 0, isNameStart(local), local.firstIndex(of: UInt8(ascii: ":")) == nil else {
      return "expected a name with a prefix and a local part, found '\(FaultWords.quoted(name))'"
    }
    return nil
  }

  /// Whether the first character may begin a name (XML 1.0, production 4).
  private func isNameStart(_ name: Span<UInt8>) -> Bool {
    guard name.count > 0 else { return false }
    if name[0] < 0x80 { return name[0].isASCIILetter || name[0] == UInt8(ascii: "_") }
    let length = name[0] < 0xe0 ? 2 : name[0] < 0xf0 ? 3 : 4
    guard name.count >= length else { return false }
    var scalar = UInt32(name[0]) & (0x7f >> UInt32(length))
    for index in 1..<length { scalar = scalar << 6 | UInt32(name[index] & 0x3f) }
    // Of the non-ASCII characters that a name may contain, only these may not begin one.
    switch scalar {
    case 0xb7, 0x300...0x36f, 0x203f...0x2040: return false
    default: return true
    }
  }
}

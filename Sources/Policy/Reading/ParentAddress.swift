// `via` of a route → the parent proxy that it names, with advice on common mistakes: passwords in the URL, paths, hosts
// without a scheme. Tests: ParentAddressTests.

import Bytes

/// Where a parent proxy listens, and its protocol.
struct ParentAddress: Hashable, Sendable {
  let kind: Route.Parent.Kind
  let host: CanonicalHost
  let port: UInt16
}

/// Why a text does not name a parent, with a suggestion. Contains no password.
struct ParentAddressFault: Error, Hashable, Sendable, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}

extension Route.Parent.Kind {
  /// The default port of the scheme (RFC 9110, 4.2; socks5: 1080, as registered for "socks"), not one of the many ports
  /// of proxies: a URL means the same here as elsewhere.
  public var defaultPort: UInt16 {
    switch self {
    case .http: Scheme.http.defaultPort
    case .https: Scheme.https.defaultPort
    case .socks5: 1080
    }
  }
}

extension ParentAddress {
  static let expectation =
    "expected \"direct\", or a parent proxy as http://, https:// or socks5:// and its host and port"

  /// Reads `http://proxy.example:3128`. The name may be in any script; a final "/" is allowed.
  init(_ text: String) throws(ParentAddressFault) {
    // Checked before anything is quoted: the text before "@" most likely contains a password.
    if text.utf8.contains(0x40) {
      throw ParentAddressFault(
        "a user name and a password do not stand in the URL; put them into 'credentials', where the password is a secret"
      )
    }
    guard let (scheme, rest) = Self.splitScheme(text) else { throw Self.withoutScheme(text) }
    guard let kind = Route.Parent.Kind(rawValue: scheme.lowercased()) else {
      throw Self.unknownScheme(scheme, rest, of: text)
    }
    let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let path = rest[authority.endIndex...]
    guard path.isEmpty || path == "/" else {
      throw ParentAddressFault("\(text.quoted) has a path, and a proxy has none; write '\(scheme)://\(authority)'")
    }
    let (name, port) = try Self.split(authority, of: text)
    self.kind = kind
    host = try Self.host(name, of: text)
    self.port = try port.map { text throws(ParentAddressFault) in try Self.port(text) } ?? kind.defaultPort
  }

  // MARK: The scheme

  private static func splitScheme(_ text: String) -> (scheme: String, rest: Substring)? {
    guard let colon = text.firstIndex(of: ":"), text[colon...].hasPrefix("://") else { return nil }
    return (String(text[..<colon]), text[colon...].dropFirst(3))
  }

  private static func withoutScheme(_ text: String) -> ParentAddressFault {
    let message = "\(expectation), found \(text.quoted)"
    if let nearest = Suggestion.nearest(to: text, among: [Route.direct.name]) {
      return ParentAddressFault("\(message); did you mean '\(nearest)'?")
    }
    let meant = "http://\(text)"
    guard (try? ParentAddress(meant)) != nil else { return ParentAddressFault(message) }
    return ParentAddressFault("\(message); did you mean '\(meant)'?")
  }

  private static func unknownScheme(_ scheme: String, _ rest: Substring, of text: String) -> ParentAddressFault {
    let message = "\(expectation), found \(text.quoted)"
    let schemes = Route.Parent.Kind.allCases.map(\.rawValue)
    guard let nearest = Suggestion.nearest(to: scheme, among: schemes) else { return ParentAddressFault(message) }
    return ParentAddressFault("\(message); did you mean '\(nearest)://\(rest)'?")
  }

  // MARK: Host and port

  private static func split(
    _ authority: Substring, of text: String
  ) throws(ParentAddressFault) -> (host: Substring, port: Substring?) {
    let isBracketed = authority.hasPrefix("[")
    guard
      let end = isBracketed ? authority.firstIndex(of: "]").map(authority.index(after:)) : authority.firstIndex(of: ":")
    else { return (authority, nil) }
    let rest = authority[end...]
    guard rest.isEmpty || rest.hasPrefix(":") else { return (authority, nil) }
    if !isBracketed, rest.dropFirst().contains(":") {
      throw ParentAddressFault(
        "expected an IPv6 address between brackets, as in 'http://[2001:db8::1]:3128', found \(text.quoted)")
    }
    return (authority[..<end], rest.isEmpty ? nil : rest.dropFirst())
  }

  private static func host(_ name: Substring, of text: String) throws(ParentAddressFault) -> CanonicalHost {
    if name.isEmpty { throw ParentAddressFault("\(text.quoted) names no host") }
    let ascii: String
    switch InternationalName.asciiForm(of: String(name)) {
    case .success(let form): ascii = form
    case .failure(let fault):
      throw ParentAddressFault("\(String(name).quoted) is no internationalized host name: \(fault)")
    }
    var host = CanonicalHost()
    if let fault = host.set(Array(ascii.utf8).span) {
      throw ParentAddressFault("expected \(fault.expectation), found \(text.quoted)")
    }
    return host
  }

  private static func port(_ text: Substring) throws(ParentAddressFault) -> UInt16 {
    guard let number = Int(text), String(number) == text, Bounds.ports.contains(number) else {
      throw ParentAddressFault(
        "expected a port from \(Bounds.ports.lowerBound) to \(Bounds.ports.upperBound), found \(String(text).quoted)")
    }
    return UInt16(number)
  }
}

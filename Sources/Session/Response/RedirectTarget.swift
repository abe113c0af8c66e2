// Where a reference in Location or Refresh leads, as far as all clients read it alike.
//
// RFC 3986 defines one reading, the URL standard another, and older clients have their own. Browsers take a backslash
// for a slash and ignore a tab; `https:/x` leads to the host `x` or to the path `/x`. A check of only one reading could
// be bypassed with clients that use another. So a reference counts as leading to a host only if it has a single
// reading. Tests: RedirectTargetTests.

import Bytes
import HTTP1
import Policy

/// What a reference leads to.
enum RedirectTarget: Equatable {
  /// A path, a query or a fragment: the same host, with the scheme that the program used.
  case samePlace
  /// `//host/…`: another host, with the scheme that the program used.
  case networkPath
  /// `scheme://…`; `place` nil: user information, or a host or port that not all clients read alike.
  case absolute(scheme: String, place: Place?)
  /// Clients differ in how they read it.
  case unclear

  struct Place: Equatable {
    /// In lower case.
    let host: [UInt8]
    /// nil: the default of the scheme.
    let port: UInt16?
  }

  /// Reads a reference from a field value, without surrounding blanks.
  static func read(_ bytes: Span<UInt8>) -> RedirectTarget {
    let isPlain = isPlain(bytes)
    if let colon = endOfScheme(bytes) {
      guard colon + 2 < bytes.count, bytes[colon + 1] == 0x2f, bytes[colon + 2] == 0x2f else { return .unclear }
      let name = bytes.extracting(0..<colon).array.map(\.asciiLowercased)
      let scheme = String(decoding: name, as: UTF8.self)
      guard isPlain else { return .absolute(scheme: scheme, place: nil) }
      return .absolute(scheme: scheme, place: place(bytes, from: colon + 3))
    }
    guard isPlain else { return .unclear }
    if bytes.count > 1, bytes[0] == 0x2f, bytes[1] == 0x2f { return .networkPath }
    for index in 0..<bytes.count {
      switch bytes[index] {
      // RFC 3986, 4.2: no colon in the first segment, and brackets only around an address.
      case 0x3a, 0x5b, 0x5d: return .unclear
      case 0x2f, 0x3f, 0x23: return hasBrackets(bytes) ? .unclear : .samePlace
      default: break
      }
    }
    return .samePlace
  }

  /// Reads the value of Refresh, which no RFC describes: `5`, `5; url=/x`, `5;URL='/x'`. Clients differ on any other
  /// form.
  static func read(refresh value: Span<UInt8>) -> RedirectTarget {
    var at = 0
    while at < value.count, value[at].isASCIIDigit || value[at] == 0x2e && at > 0 { at += 1 }
    if at == 0 { return .unclear }
    skipBlanks(value, &at)
    if at == value.count { return .samePlace }
    guard value[at] == 0x3b || value[at] == 0x2c else { return .unclear }
    at += 1
    skipBlanks(value, &at)
    guard at + 3 <= value.count, value.equals(at..<at + 3, ignoringCase: "url") else { return .unclear }
    at += 3
    skipBlanks(value, &at)
    guard at < value.count, value[at] == 0x3d else { return .unclear }
    at += 1
    skipBlanks(value, &at)
    var end = value.count
    if at < end, value[at] == 0x22 || value[at] == 0x27 {
      guard end - at > 1, value[end - 1] == value[at] else { return .unclear }
      at += 1
      end -= 1
    }
    for index in at..<end where value[index] == 0x22 || value[index] == 0x27 { return .unclear }
    return read(value.extracting(at..<end))
  }

  // MARK: Characters

  private static func skipBlanks(_ bytes: Span<UInt8>, _ at: inout Int) {
    while at < bytes.count, bytes[at].isBlank { at += 1 }
  }

  /// Whether it consists only of characters of RFC 3986, with two digits after each `%`, and at most one `#`.
  private static func isPlain(_ bytes: Span<UInt8>) -> Bool {
    var fragments = 0
    for index in 0..<bytes.count {
      switch bytes[index] {
      case 0x25:
        guard index + 2 < bytes.count, bytes[index + 1].hexadecimalValue != nil,
          bytes[index + 2].hexadecimalValue != nil
        else { return false }
      case 0x23: fragments += 1
      // ! $ & ' ( ) * + , - . / 0-9 : ; = ? @ A-Z [ ] _ a-z ~
      case 0x21, 0x24, 0x26...0x3b, 0x3d, 0x3f...0x5b, 0x5d, 0x5f, 0x61...0x7a, 0x7e: break
      default: return false
      }
    }
    return fragments <= 1
  }

  private static func hasBrackets(_ bytes: Span<UInt8>) -> Bool {
    for index in 0..<bytes.count where bytes[index] == 0x5b || bytes[index] == 0x5d { return true }
    return false
  }

  /// Position of the colon after a scheme (RFC 3986, 3.1); nil: it does not begin with a scheme.
  private static func endOfScheme(_ bytes: Span<UInt8>) -> Int? {
    for index in 0..<bytes.count {
      let byte = bytes[index]
      if byte.isASCIILetter { continue }
      if index > 0, byte == 0x3a { return index }
      guard index > 0, byte.isASCIIDigit || byte == 0x2b || byte == 0x2d || byte == 0x2e else { return nil }
    }
    return nil
  }

  private static func place(_ bytes: Span<UInt8>, from begin: Int) -> Place? {
    var end = begin
    while end < bytes.count, ![0x2f, 0x3f, 0x23].contains(bytes[end]) { end += 1 }
    // `http://a?@b/`: some clients have looked for the host up to the slash.
    var slash = begin
    while slash < bytes.count, bytes[slash] != 0x2f {
      if bytes[slash] == 0x40 { return nil }
      slash += 1
    }
    for index in end..<bytes.count where bytes[index] == 0x5b || bytes[index] == 0x5d { return nil }
    guard case .success(let parts) = HostAndPort.read(bytes, begin..<end) else { return nil }
    // A port that begins with 0 is decimal to some clients and octal to others.
    if parts.port != nil, bytes[parts.host.upperBound + 1] == 0x30 { return nil }
    return Place(host: bytes.extracting(parts.host).array.map(\.asciiLowercased), port: parts.port)
  }
}

/// The URL that a request was sent to, as far as redirects are checked against it.
struct SentURL: Equatable {
  let scheme: Scheme
  /// In lower case.
  let host: [UInt8]
  let port: UInt16
  /// The scheme that the program used, and with which it resolves relative references: http if the rule upgrades.
  let programScheme: Scheme

  /// Whether `redirects` allows a redirect to `target`.
  func mayLead(to target: RedirectTarget, by redirects: Redirects) -> Bool {
    switch redirects {
    case .pass: true
    case .deny: false
    case .sameHost: staysOnHost(target)
    case .sameScheme: staysWithScheme(target)
    }
  }

  private func staysOnHost(_ target: RedirectTarget) -> Bool {
    switch target {
    case .samePlace: true
    case .networkPath, .unclear: false
    case .absolute(let name, let place): place.map { isSame(Scheme(rawValue: name), $0) } ?? false
    }
  }

  private func staysWithScheme(_ target: RedirectTarget) -> Bool {
    switch target {
    case .samePlace: true
    // After an upgraded request the program reads `//host` as http.
    case .networkPath: programScheme == scheme
    case .absolute(let name, _): Scheme(rawValue: name) == scheme
    case .unclear: false
    }
  }

  private func isSame(_ other: Scheme?, _ place: RedirectTarget.Place) -> Bool {
    guard let other, place.host == host else { return false }
    let otherPort = place.port ?? other.defaultPort
    if other == scheme { return otherPort == port }
    // The scheme may change from http to https if both ports are the defaults; never the other way.
    return other == .https && port == Scheme.http.defaultPort && otherPort == Scheme.https.defaultPort
  }

  /// What `redirects` expects, for a sentence.
  func expectation(of redirects: Redirects) -> String {
    let expected =
      switch redirects {
      case .pass: "any redirect"
      case .sameHost: "a redirect within \(scheme.rawValue)://\(String(decoding: host, as: UTF8.self)):\(port)"
      case .sameScheme: "a redirect to \(scheme.rawValue)"
      case .deny: "no redirect"
      }
    return "\(expected) (redirects = \"\(redirects.rawValue)\")"
  }
}

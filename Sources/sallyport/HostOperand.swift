// HOST[:PORT] on a command line.

import Bytes
import Policy
import Security

/// A server that a command names.
struct HostOperand {
  /// Canonical: lower case, A-labels, no trailing dot; an address without brackets.
  let host: String
  let identity: ReferenceIdentity
  let port: UInt16

  /// `example.com`, `example.com:8443`, `192.0.2.1`, `[2001:db8::1]:443`, `2001:db8::1`.
  init(_ text: String, defaultPort: UInt16) throws {
    let (host, port) = Self.split(text)
    (self.host, identity) = try Self.read(host, of: text)
    guard let port else {
      self.port = defaultPort
      return
    }
    guard let number = UInt16(port), number > 0, String(number) == port else {
      throw UsageError(message: "expected a port from 1 to 65535, found '\(port)'")
    }
    self.port = number
  }

  /// A name or an address, as the identity that a certificate must have.
  static func read(_ host: some StringProtocol, of text: String) throws -> (host: String, identity: ReferenceIdentity) {
    let bare = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : String(host)
    if let address = IPAddress(bare) { return ("\(address)", .address(address.octets)) }
    if text.contains("/") { throw UsageError(message: "expected HOST or HOST:PORT, found '\(text)'") }
    var canonical = CanonicalHost()
    switch InternationalName.asciiForm(of: bare) {
    case .failure(let fault): throw UsageError(message: "'\(text)' is no host name: \(fault)")
    case .success(let ascii):
      if let fault = canonical.set(Array(ascii.utf8).span) {
        throw UsageError(message: "expected \(fault.expectation), found '\(text)'")
      }
    }
    let name = String(decoding: canonical.bytes, as: UTF8.self)
    return (name, .name(name))
  }

  /// An IPv6 address without brackets has no port.
  private static func split(_ text: String) -> (host: Substring, port: String?) {
    if text.hasPrefix("["), let bracket = text.lastIndex(of: "]") {
      let rest = text[text.index(after: bracket)...]
      return rest.hasPrefix(":") ? (text[...bracket], String(rest.dropFirst())) : (text[...], nil)
    }
    guard let colon = text.lastIndex(of: ":"), text.firstIndex(of: ":") == colon else { return (text[...], nil) }
    return (text[..<colon], String(text[text.index(after: colon)...]))
  }
}

extension IPAddress {
  /// 4 or 16 bytes, in network order.
  var octets: [UInt8] {
    let all = [high, low].flatMap { half in
      stride(from: UInt64(56), through: 0, by: -8).map { UInt8(truncatingIfNeeded: half >> $0) }
    }
    return isIPv4 ? Array(all.suffix(4)) : all
  }
}

// `upgrades` of a rule: the protocols that a request may ask for with Upgrade (RFC 9110, 7.8). Tests: UpgradeListTests.

import Bytes

/// Protocols, such as `websocket` or `irc/6.9`. Empty: none.
public struct UpgradeList: Hashable, Sendable, CustomStringConvertible {
  /// As written in the file.
  public let protocols: [String]
  /// In lower case.
  private let names: [[UInt8]]

  public init(_ protocols: [String]) {
    self.protocols = protocols
    names = protocols.map { $0.utf8.map(\.asciiLowercased) }
  }

  public var description: String { protocols.isEmpty ? "none" : protocols.joined(separator: ", ") }

  /// Whether `name`, a protocol in Upgrade, is listed. Case is ignored, and so is the version unless the list gives
  /// one.
  public func allows(_ name: Span<UInt8>) -> Bool {
    let version = name.firstIndex(of: 0x2f) ?? name.count
    for listed in names {
      if name.equals(0..<(listed.contains(0x2f) ? name.count : version), ignoringCase: listed.span) { return true }
    }
    return false
  }

  /// Whether a protocol is HTTP in another guise (h2, h2c, h3, SPDY, and TLS, which contains it).
  public static func isHTTP(_ name: Span<UInt8>) -> Bool {
    func begins(_ text: StaticString) -> Bool {
      name.count >= text.utf8CodeUnitCount && name.equals(0..<text.utf8CodeUnitCount, ignoringCase: text)
    }
    return begins("h2") || begins("h3") || begins("hq") || begins("http") || begins("spdy") || begins("tls")
  }

  /// A token, with or without a version (RFC 9110, 7.8).
  static func isProtocol(_ text: String) -> Bool {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    return parts.count <= 2 && parts.allSatisfy { FieldSyntax.isToken(String($0)) }
  }
}

extension UpgradeList {
  /// An empty list forbids every protocol.
  static func read(_ setting: Setting, by reading: ConfigurationReading) -> UpgradeList? {
    guard let texts = reading.strings(setting) else { return nil }
    for (text, element) in texts {
      if !UpgradeList.isProtocol(text) {
        reading.error(element, "expected a protocol such as \"websocket\" (RFC 9110, 7.8), found \(text.quoted)")
      } else if UpgradeList.isHTTP(Array(text.utf8).span) {
        reading.warning(
          element, "\(text.quoted) is HTTP itself, which is never upgraded to: requests inside would pass the rules by")
      }
    }
    reading.warnOfRepetition(texts.map { ($0.text.lowercased(), $0.setting) }) { $0.quoted }
    return UpgradeList(texts.map(\.text))
  }
}

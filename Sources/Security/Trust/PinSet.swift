// Pins: the keys or certificates that a chain must contain, whoever vouches for it (RFC 7469; AFSecurityPolicy). A pin
// is always canonical: in whatever notation it was written, it is 32 bytes. Tests: PublicKeyPinTests.

import Bytes

/// AFNetworking's AFSSLPinningMode.
public enum SSLPinningMode: String, Sendable, CaseIterable {
  case none
  case publicKey = "public-key"
  case certificate
}

/// SHA-256 of a SubjectPublicKeyInfo (RFC 7469, 2.4).
public struct PublicKeyPin: Hashable, Sendable, CustomStringConvertible {
  public static let byteCount = 32

  /// 32 bytes.
  public let bytes: [UInt8]

  public init(bytes: [UInt8]) {
    precondition(bytes.count == Self.byteCount, "a pin is a SHA-256 digest")
    self.bytes = bytes
  }

  /// `sha256/…` in base64 (OkHttp), `sha256//…` (curl), or 64 hexadecimal digits, optionally with colons between bytes.
  /// nil if the text is none of these.
  public static func parse(_ text: String) -> PublicKeyPin? {
    let prefix = "sha256/"
    let bytes =
      if text.hasPrefix(prefix) { base64(Array(text.utf8.dropFirst(prefix.utf8.count))) } else {
        digits(Array(text.utf8))
      }
    guard let bytes, bytes.count == byteCount else { return nil }
    return PublicKeyPin(bytes: bytes)
  }

  /// `sha256/` and base64.
  public var description: String { "sha256/" + Base64.text(bytes) }

  /// The slash is also a base64 digit. The length decides whether it is curl's second slash or the first digit of a
  /// digest.
  private static func base64(_ text: [UInt8]) -> [UInt8]? {
    let length = (byteCount + 2) / 3 * 4
    return text.count == length + 1 && text[0] == 0x2f ? Base64.decode(Array(text.dropFirst())) : Base64.decode(text)
  }

  /// Two digits per byte; colons between all bytes, or between none.
  private static func digits(_ text: [UInt8]) -> [UInt8]? {
    let step = text.count == 3 * byteCount - 1 ? 3 : 2
    guard step == 3 || text.count == 2 * byteCount else { return nil }
    var bytes: [UInt8] = []
    for begin in stride(from: 0, to: text.count, by: step) {
      guard let high = text[begin].hexadecimalValue, let low = text[begin + 1].hexadecimalValue else { return nil }
      if step == 3, begin + 2 < text.count, text[begin + 2] != 0x3a { return nil }
      bytes.append(high << 4 | low)
    }
    return bytes
  }
}

/// [pins.NAME]
public struct PinSet: Hashable, Sendable {
  public let name: String
  public var mode = SSLPinningMode.publicKey
  /// The pinned keys of `spki`.
  public var keys: [PublicKeyPin] = []
  /// The pinned certificates of `certificates`; in public-key mode, the key of each is pinned.
  public var certificates: [Certificate] = []
  /// When the set expires, in seconds since 1970; nil: never.
  public var expires: Int64? = nil
  /// on_expiry = "fail"; if false, an expired set acts like one with `enforce` false.
  public var failsOnExpiry = true
  /// false: report only.
  public var enforce = true

  public init(name: String) { self.name = name }

  /// Whether the set requires anything: a mode other than "none".
  public var isPinning: Bool { mode != .none }

  public func isExpired(at seconds: Int64) -> Bool { expires.map { seconds >= $0 } ?? false }
}

// The answer to a Digest challenge (RFC 7616, 3.4; RFC 2069, 2.4 if there is no qop). Nothing here does I/O; random
// bytes come from the caller. Tests: DigestAnswerTests, with the examples of both RFCs.

import Bytes
import COpenSSL

/// The user name and password for a challenge. Never printed.
public struct DigestCredentials: Hashable, Sendable {
  public let username: [UInt8]
  public let password: [UInt8]

  public init(username: [UInt8], password: [UInt8]) {
    self.username = username
    self.password = password
  }
}

/// A nonce in use: its challenge, and how often it has been used.
public struct DigestNonce: Sendable {
  public private(set) var challenge: DigestChallenge
  private var count: UInt32 = 0
  /// The client nonce from which the key of a session was made.
  private var sessionNonce: [UInt8]? = nil

  public init(_ challenge: DigestChallenge) { self.challenge = challenge }

  /// Whether it can be used once more: the count has eight digits.
  public var isUsable: Bool { count < .max }

  /// The next nonce, as given by Authentication-Info (RFC 7616, 3.5).
  mutating func replace(with nonce: [UInt8]) {
    challenge.nonce = nonce
    count = 0
    sessionNonce = nil
  }

  /// The value of Authorization or Proxy-Authorization, a secret. `target`: as in the request line. `clientNonce`:
  /// random, for this answer only. nil: OpenSSL cannot compute the hash.
  public mutating func answer(
    method: [UInt8], target: [UInt8], _ credentials: DigestCredentials, clientNonce: [UInt8]
  ) -> [UInt8]? {
    count += 1
    let ofSession = challenge.algorithm.isOfSession
    // The key of a session uses the client nonce of the first answer for as long as the server's nonce lasts.
    let clientNonce = ofSession ? sessionNonce ?? clientNonce : clientNonce
    sessionNonce = ofSession ? clientNonce : nil
    let hash = challenge.algorithm.hash
    let counted = Self.hexadecimal(count)
    guard var key = hash.text([credentials.username, challenge.realm, credentials.password]),
      let subject = hash.text([method, target]), let hashedUser = hash.text([credentials.username, challenge.realm])
    else { return nil }
    if ofSession {
      guard let ofSession = hash.text([key, challenge.nonce, clientNonce]) else { return nil }
      key = ofSession
    }
    let parts =
      challenge.hasQuality
      ? [key, challenge.nonce, counted, clientNonce, Array("auth".utf8), subject] : [key, challenge.nonce, subject]
    guard let response = hash.text(parts) else { return nil }

    var text = Array("Digest ".utf8) + user(credentials.username, hashed: hashedUser)
    func add(_ name: String, quoted value: [UInt8]) { text += Array(", \(name)=".utf8) + Self.quoted(value) }
    func add(_ name: String, _ value: [UInt8]) { text += Array(", \(name)=".utf8) + value }
    add("realm", quoted: challenge.realm)
    add("nonce", quoted: challenge.nonce)
    add("uri", quoted: target)
    add("response", quoted: response)
    if let name = challenge.algorithmName { add("algorithm", name) }
    if challenge.hasQuality || ofSession { add("cnonce", quoted: clientNonce) }
    if challenge.hasQuality {
      add("qop", Array("auth".utf8))
      add("nc", counted)
    }
    if let opaque = challenge.opaque { add("opaque", quoted: opaque) }
    if challenge.hashesUser { add("userhash", Array("true".utf8)) }
    return text
  }

  /// RFC 7616, 3.4.4: hashed if the server asks for it, and an extended value if the name is not ASCII.
  private func user(_ name: [UInt8], hashed: [UInt8]) -> [UInt8] {
    if challenge.hashesUser { return Array("username=".utf8) + Self.quoted(hashed) }
    if challenge.takesUTF8, name.contains(where: { $0 >= 0x80 }) {
      return Array("username*=UTF-8''".utf8) + name.flatMap(Self.percentEncoded)
    }
    return Array("username=".utf8) + Self.quoted(name)
  }

  /// RFC 8187, 3.2.1: attr-char is not encoded.
  private static func percentEncoded(_ byte: UInt8) -> [UInt8] {
    let isPlain = byte.isASCIILetter || byte.isASCIIDigit || Array("!#$&+-.^_`|~".utf8).contains(byte)
    return isPlain ? [byte] : byte.percentEncoded
  }

  private static func quoted(_ value: [UInt8]) -> [UInt8] {
    [0x22] + value.flatMap { $0 == 0x22 || $0 == 0x5c ? [0x5c, $0] : [$0] } + [0x22]
  }

  private static func hexadecimal(_ count: UInt32) -> [UInt8] {
    let text = String(count, radix: 16)
    return Array((String(repeating: "0", count: 8 - text.utf8.count) + text).utf8)
  }
}

extension DigestAlgorithm.Hash {
  /// The hash of the parts, joined by colons, as lower-case hexadecimal digits.
  func text(_ parts: [[UInt8]]) -> [UInt8]? {
    let text = Array(parts.joined(separator: [0x3a]))
    let algorithm =
      switch self {
      case .md5: EVP_md5()
      case .sha256: EVP_sha256()
      case .sha512Part: EVP_sha512_256()
      }
    var size: UInt32 = 0
    var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
    guard EVP_Digest(text, text.count, &digest, &size, algorithm, nil) == 1 else { return nil }
    return Array(digest.prefix(Int(size)).hexadecimal.utf8)
  }
}

// The challenge of the Digest scheme (RFC 7616, 3.3), and the choice among several. Tests: DigestChallengeTests.

import Bytes

/// A server's challenge that Digest can answer.
public struct DigestChallenge: Equatable, Sendable {
  public let realm: [UInt8]
  public internal(set) var nonce: [UInt8]
  public let opaque: [UInt8]?
  public let algorithm: DigestAlgorithm
  /// The name as received; nil: the server gave none, so the answer has none (RFC 2069).
  let algorithmName: [UInt8]?
  /// Whether qop=auth is used; false: the challenge has no qop, as in RFC 2069.
  let hasQuality: Bool
  /// The previous answer was right except for its nonce.
  public let isStale: Bool
  /// The server wants the user name as a hash.
  let hashesUser: Bool
  /// charset=UTF-8
  let takesUTF8: Bool

  /// The longest accepted nonce or opaque, in bytes: both are sent with every request and must fit into a head.
  static let longestValue = 4096

  /// The best challenge in `lines`, by the strongest algorithm; otherwise why there is none.
  public static func choose(_ lines: [[UInt8]]) -> Result<DigestChallenge, DigestFault> {
    var best: DigestChallenge? = nil
    var fault: DigestFault? = nil
    var schemes: [String] = []
    for challenge in lines.flatMap(AuthenticationChallenge.read) {
      if !schemes.contains(challenge.scheme) { schemes.append(challenge.scheme) }
      guard challenge.scheme == "digest" else { continue }
      switch read(challenge) {
      case .failure(let seen): fault = fault ?? seen
      case .success(let found): if best.map({ found.isStronger(than: $0) }) ?? true { best = found }
      }
    }
    if let best { return .success(best) }
    return .failure(fault ?? .notOffered(schemes))
  }

  private func isStronger(than other: DigestChallenge) -> Bool {
    if algorithm.strength != other.algorithm.strength { return algorithm.strength > other.algorithm.strength }
    return hasQuality && !other.hasQuality
  }

  private static func read(_ challenge: AuthenticationChallenge) -> Result<DigestChallenge, DigestFault> {
    guard let realm = challenge["realm"], let nonce = challenge["nonce"], realm.count <= longestValue,
      nonce.count <= longestValue, challenge["opaque"]?.count ?? 0 <= longestValue
    else { return .failure(.incomplete) }
    let name = challenge["algorithm"]
    guard let algorithm = DigestAlgorithm(name) else { return .failure(.algorithm(printable(name ?? []))) }
    var hasQuality = false
    if let qualities = challenge["qop"] {
      let offered = qualities.split(separator: 0x2c).map { word(Array($0)) }
      hasQuality = offered.contains("auth")
      if !hasQuality { return .failure(offered.contains("auth-int") ? .onlyIntegrity : .quality(printable(qualities))) }
    }
    return .success(
      DigestChallenge(
        realm: realm, nonce: nonce, opaque: challenge["opaque"], algorithm: algorithm, algorithmName: name,
        hasQuality: hasQuality, isStale: challenge["stale"].map(word) == "true",
        hashesUser: challenge["userhash"].map(word) == "true", takesUTF8: challenge["charset"].map(word) == "utf-8"))
  }

  private static func word(_ bytes: [UInt8]) -> String {
    String(decoding: bytes.filter { !$0.isBlank }.map(\.asciiLowercased), as: UTF8.self)
  }
}

/// Why no challenge can be answered.
public enum DigestFault: Error, Equatable, Sendable {
  /// The schemes that were offered, in lower case.
  case notOffered([String])
  /// No realm or nonce, or one that is too long.
  case incomplete
  case algorithm(String)
  /// Only qop=auth-int: the body would have to be hashed before its first byte is sent.
  case onlyIntegrity
  case quality(String)

  /// What was seen, in words.
  public var text: String {
    switch self {
    case .notOffered([]): "no challenge that can be read came with it"
    case .notOffered(let schemes): "it offers \(schemes.prefix(8).joined(separator: ", ")), not Digest"
    case .incomplete: "its Digest challenge has no realm or no nonce, or one that is too long"
    case .algorithm(let name): "its Digest algorithm '\(name.prefix(40))' is not known"
    case .onlyIntegrity: "it offers Digest with qop=auth-int alone, which is not supported"
    case .quality(let name): "its Digest qop '\(name.prefix(40))' is not known"
    }
  }
}

/// The hash, and whether the key is for a session.
public struct DigestAlgorithm: Equatable, Sendable {
  public enum Hash: Sendable { case md5, sha256, sha512Part }

  public let hash: Hash
  public let isOfSession: Bool

  /// nil: unknown. Without a name it is MD5 (RFC 7616, 3.3).
  init?(_ name: [UInt8]?) {
    switch name.map({ String(decoding: $0.map(\.asciiLowercased), as: UTF8.self) }) {
    case nil, "md5": (hash, isOfSession) = (.md5, false)
    case "md5-sess": (hash, isOfSession) = (.md5, true)
    case "sha-256": (hash, isOfSession) = (.sha256, false)
    case "sha-256-sess": (hash, isOfSession) = (.sha256, true)
    case "sha-512-256": (hash, isOfSession) = (.sha512Part, false)
    case "sha-512-256-sess": (hash, isOfSession) = (.sha512Part, true)
    default: return nil
    }
  }

  var strength: Int {
    switch hash {
    case .md5: 0
    case .sha256: 1
    case .sha512Part: 2
    }
  }
}

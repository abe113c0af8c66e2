// A stored answer and its key.

import Bytes
import HTTP1

/// What two requests must have in common to share an answer: the URL as sent to the origin, the rule with what it adds,
/// and the owner.
public struct CacheKey: Hashable, Sendable {
  /// The longest URL, in bytes, whose answer is stored. Longer URLs carry data and are hardly ever requested twice.
  public static let longestURL = 4096

  public let bytes: [UInt8]
  /// The same for every key of one URL, whoever the owner is. The seed is new in each process, so no client can choose
  /// URLs that collide.
  public let urlHash: Int
  /// Of the whole key. A stored answer is looked up several times, so the key is hashed once.
  private let hash: Int

  /// `url`: as sent, with what the rule adds. `rule`: see `Rule.cacheIdentity`. `owner`: empty if all clients share the
  /// answer.
  public init(url: [UInt8], rule: [UInt8], owner: String) {
    // NUL does not occur in a line of a head or in the name of a user or unit.
    self.init(bytes: url + [0] + rule + [0] + Array(owner.utf8))
  }

  /// From the bytes of a stored key.
  public init(bytes: [UInt8]) {
    self.bytes = bytes
    var hasher = Hasher()
    let urlEnd = bytes.firstIndex(of: 0) ?? bytes.count
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: $0[..<urlEnd])) }
    let ofURL = hasher
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: $0[urlEnd...])) }
    urlHash = ofURL.finalize()
    hash = hasher.finalize()
  }

  public static func == (left: CacheKey, right: CacheKey) -> Bool {
    left.hash == right.hash && left.bytes == right.bytes
  }

  public func hash(into hasher: inout Hasher) { hasher.combine(hash) }

  public var url: [UInt8] { Array(bytes.prefix { $0 != 0 }) }

  /// The key of another URL for the same rule and owner.
  public func with(url: [UInt8]) -> CacheKey { CacheKey(bytes: url + bytes.drop { $0 != 0 }) }

  /// Whether both keys are for the same URL.
  public func hasURL(of other: CacheKey) -> Bool {
    bytes.prefix { $0 != 0 } == other.bytes.prefix { $0 != 0 }
  }
}

extension CacheKey {
  /// The keys that an unsafe request for this URL invalidates: itself, and the URLs of the same origin that the answer
  /// names (RFC 9111, 4.4).
  public func invalidated(by fields: MessageFields) -> [CacheKey] {
    var keys = [self]
    for name: StaticString in ["location", "content-location"] {
      guard let reference = fields.only(name), let named = Self.resolve(reference, against: url) else { continue }
      keys.append(with(url: named))
    }
    return keys
  }

  /// Resolves a reference within the origin of `url` (RFC 3986, 5.2); nil if it leads to another origin.
  static func resolve(_ reference: [UInt8], against url: [UInt8]) -> [UInt8]? {
    let text = String(decoding: url, as: UTF8.self)
    guard let scheme = text.firstRange(of: "://") else { return nil }
    let originEnd = text[scheme.upperBound...].firstIndex { "/?#".contains($0) } ?? text.endIndex
    let origin = text[..<originEnd]
    let rest = text[originEnd...]
    let path = rest.prefix { $0 != "?" && $0 != "#" }
    let named = String(decoding: reference, as: UTF8.self).prefix { $0 != "#" }
    if named.isEmpty { return url }
    if named.hasPrefix("//") {
      let whole = "\(text[..<scheme.lowerBound]):\(named)"
      return whole.lowercased().hasPrefix(origin.lowercased() + "/") ? Array(whole.utf8) : nil
    }
    if named.firstRange(of: "://") != nil {
      guard named.lowercased().hasPrefix(origin.lowercased()) else { return nil }
      let behind = named.dropFirst(origin.count)
      guard behind.isEmpty || behind.hasPrefix("/") || behind.hasPrefix("?") else { return nil }
      return Array((origin + (behind.hasPrefix("/") ? "" : "/") + behind).utf8)
    }
    if named.hasPrefix("/") { return Array((origin + withoutDots(named)).utf8) }
    if named.hasPrefix("?") { return Array((origin + (path.isEmpty ? "/" : path) + named).utf8) }
    let directory = path.lastIndex(of: "/").map { path[...$0] } ?? "/"
    return Array((origin + withoutDots(directory + named)).utf8)
  }

  /// RFC 3986, 5.2.4.
  private static func withoutDots(_ target: Substring) -> String {
    let path = target.prefix { $0 != "?" }
    var kept: [Substring] = []
    let segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
    for (index, segment) in segments.enumerated() {
      let isLast = index == segments.count - 1
      if segment == ".." { _ = kept.popLast() }
      if segment == "." || segment == ".." {
        if isLast { kept.append("") }
      } else {
        kept.append(segment)
      }
    }
    return "/" + kept.joined(separator: "/") + target[path.endIndex...]
  }
}

/// A stored answer. When an origin freshens the head, a new object with the same content replaces it.
public final class StoredAnswer: Sendable {
  public let key: CacheKey
  /// As the client requested it.
  public let url: [UInt8]
  public let host: String
  /// The rule under which it was stored.
  public let rule: String
  public let head: StoredHead
  public let content: Content
  /// Which part of the representation the content is; nil if it is the whole.
  public let part: StoredPart?
  /// The number of its file; nil if it has none.
  public let file: UInt64?

  public init(
    key: CacheKey, url: [UInt8], host: String, rule: String, _ head: StoredHead, _ content: Content,
    part: StoredPart? = nil, file: UInt64? = nil
  ) {
    self.part = part
    self.file = file
    self.key = key
    self.url = url
    self.host = host
    self.rule = rule
    self.head = head
    self.content = content
  }

  public func freshened(_ head: StoredHead) -> StoredAnswer {
    StoredAnswer(key: key, url: url, host: host, rule: rule, head, content, part: part, file: file)
  }

  /// Memory besides the content, in bytes: the head, the URL and the key, and what the tables need.
  public var overheadBytes: Int { head.fields.text.count + url.count + key.bytes.count + Self.bookkeepingBytes }

  /// Objects, arrays and table entries, measured with 100,000 small answers.
  static let bookkeepingBytes = 1024
}

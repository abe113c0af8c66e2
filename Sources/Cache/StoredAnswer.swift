// A stored answer, and the key under which it is found.

import Bytes
import HTTP1

/// What a request must have in common with another to get its answer: the URL as it leaves, the rule with what that adds, and whose
/// it is.
public struct CacheKey: Hashable, Sendable {
  /// Longest URL in bytes of which an answer is stored: longer ones carry data, and are hardly asked for twice.
  public static let longestURL = 4096

  public let bytes: [UInt8]
  /// The same for every key of one URL, whoever's answer it is. Seeded anew by each process: no client can choose URLs that collide.
  public let urlHash: Int
  /// Of all of it. A key is looked up several times for an answer that is stored, so it is hashed once.
  private let hash: Int

  /// `url`: as it leaves, with what the rule adds. `rule`: see `Rule.cacheIdentity`. `owner`: empty where all share it.
  public init(url: [UInt8], rule: [UInt8], owner: String) {
    // No line of a head holds NUL, and no name of a user or unit.
    self.init(bytes: url + [0] + rule + [0] + Array(owner.utf8))
  }

  /// As it was kept.
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

  /// Whether both are of one URL.
  public func hasURL(of other: CacheKey) -> Bool {
    bytes.prefix { $0 != 0 } == other.bytes.prefix { $0 != 0 }
  }
}

extension CacheKey {
  /// What an unsafe request for it makes invalid: itself, and what the answer names of the same origin (RFC 9111, 4.4).
  public func invalidated(by fields: MessageFields) -> [CacheKey] {
    var keys = [self]
    guard let end = bytes.firstIndex(of: 0) else { return keys }
    let url = Array(bytes[..<end])
    for name: StaticString in ["location", "content-location"] {
      guard let reference = fields.only(name), let named = Self.resolve(reference, against: url) else { continue }
      keys.append(CacheKey(bytes: named + bytes[end...]))
    }
    return keys
  }

  /// A reference to the same origin as `url` (RFC 3986, 5.2); nil: it is of another, or of none.
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

/// An answer that is stored. One whose head an origin has freshened is another, over the same content.
public final class StoredAnswer: Sendable {
  public let key: CacheKey
  /// As the program asked for it.
  public let url: [UInt8]
  public let host: String
  /// The rule that it was stored by.
  public let rule: String
  public let head: StoredHead
  public let content: Content
  /// What of the representation the content is; nil: all of it.
  public let part: StoredPart?
  /// The number of its file; nil: it has none.
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

  /// What it takes in memory besides its content, in bytes: its head and what it is found by.
  public var overheadBytes: Int { head.fields.text.count + url.count + key.bytes.count + Self.bookkeepingBytes }

  /// Objects, arrays and places in tables, measured with 100,000 small answers.
  static let bookkeepingBytes = 1024
}

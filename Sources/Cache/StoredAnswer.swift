// A stored answer and its key.

import Bytes
import HTTP1

/// What two requests must have in common to share an answer: the URL as sent to the origin, the rule with what it adds,
/// and the owner.
public struct CacheKey: Hashable, Sendable {
  /// The longest URL, in bytes, whose answer is stored. Longer URLs carry data and are hardly ever requested twice.
  public static let longestURL = 4096

  /// `http://a/b SOH ?key=1 NUL rule NUL owner`; what the rule adds to the URL is set off, if it adds anything.
  public let bytes: [UInt8]
  /// The same for every key of one resource, whoever the owner is and whatever rules add to its URL. The seed is new in
  /// each process, so no client can choose URLs that collide.
  public let resourceHash: Int
  /// Of the whole key. A stored answer is looked up several times, so the key is hashed once.
  private let hash: Int

  /// `url`: as sent; its last `added` bytes are the rule's. `rule`: see `Rule.cacheIdentity`. `owner`: empty if all
  /// clients share the answer.
  public init(url: [UInt8], added: Int = 0, rule: [UInt8], owner: String) {
    // Neither occurs in the line of a request, and NUL not in the name of a user or unit.
    let own = added > 0 ? url.dropLast(added) + [Self.separator] + url.suffix(added) : url
    self.init(bytes: own + [0] + rule + [0] + Array(owner.utf8))
  }

  private static let separator: UInt8 = 1

  /// From the bytes of a stored key.
  public init(bytes: [UInt8]) {
    self.bytes = bytes
    var hasher = Hasher()
    let end = bytes.firstIndex { $0 <= Self.separator } ?? bytes.count
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: $0[..<end])) }
    let ofResource = hasher
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: $0[end...])) }
    resourceHash = ofResource.finalize()
    hash = hasher.finalize()
  }

  public static func == (left: CacheKey, right: CacheKey) -> Bool {
    left.hash == right.hash && left.bytes == right.bytes
  }

  public func hash(into hasher: inout Hasher) { hasher.combine(hash) }

  public var url: [UInt8] { bytes.prefix { $0 != 0 }.filter { $0 != Self.separator } }

  /// The URL without what the rule adds.
  private var resource: ArraySlice<UInt8> { bytes.prefix { $0 > Self.separator } }
  private var added: ArraySlice<UInt8> { bytes.prefix { $0 != 0 }.dropFirst(resource.count).dropFirst() }

  /// The key of another URL, to which the rule may have added the same, for the same rule and owner.
  private func with(url: [UInt8]) -> CacheKey {
    let bare = !added.isEmpty && url.suffix(added.count) == added ? url.dropLast(added.count) : url[...]
    return CacheKey(bytes: Array(bare) + Array(bytes.drop { $0 != 0 }))
  }

  /// Whether both keys are for the same URL, but for what rules add to it.
  public func isOfSameResource(as other: CacheKey) -> Bool { resource == other.resource }
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
    guard let (origin, rest) = split(text) else { return nil }
    let path = rest.prefix { $0 != "?" && $0 != "#" }
    let named = String(decoding: reference, as: UTF8.self).prefix { $0 != "#" }
    if named.isEmpty { return url }
    if named.hasPrefix("//") {
      return resolve(Array("\(origin.prefix { $0 != ":" }):\(named)".utf8), against: url)
    }
    if let (other, behind) = split(String(named)) {
      return other == origin ? Array((origin + withoutDots(behind.hasPrefix("/") ? behind : "/" + behind)).utf8) : nil
    }
    if named.hasPrefix("/") { return Array((origin + withoutDots(named)).utf8) }
    if named.hasPrefix("?") { return Array((origin + (path.isEmpty ? "/" : path) + named).utf8) }
    let directory = path.lastIndex(of: "/").map { path[...$0] } ?? "/"
    return Array((origin + withoutDots(directory + named)).utf8)
  }

  /// Scheme and authority in lower case and without the port that the scheme has anyway, and the rest; nil: the
  /// reference is relative.
  private static func split(_ url: String) -> (origin: String, rest: Substring)? {
    guard let scheme = url.firstRange(of: "://"), !url[..<scheme.lowerBound].contains(where: { "/?#".contains($0) })
    else { return nil }
    let end = url[scheme.upperBound...].firstIndex { "/?#".contains($0) } ?? url.endIndex
    var origin = url[..<end].lowercased()
    for (name, port) in [("http://", ":80"), ("https://", ":443")]
    where origin.hasPrefix(name) && origin.hasSuffix(port) { origin.removeLast(port.count) }
    return (origin, url[end...])
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

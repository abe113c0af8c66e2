// A stored answer, and the key under which it is found.

import Bytes
import HTTP1

/// What a request must have in common with another to get its answer: the URL as it leaves, the policy's own credentials, and
/// whose it is.
public struct CacheKey: Hashable, Sendable {
  /// Longest URL in bytes of which an answer is stored: longer ones carry data, and are hardly asked for twice.
  public static let longestURL = 4096

  let bytes: [UInt8]

  /// `url`: as it leaves, with what the rule adds. `credentials`: the field line of the policy's own, or none. `owner`: empty where
  /// all share it.
  public init(url: [UInt8], credentials: [UInt8], owner: String) {
    // No line of a head holds NUL, and no name of a user or unit.
    bytes = url + [0] + credentials + [0] + Array(owner.utf8)
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

  public init(key: CacheKey, url: [UInt8], host: String, rule: String, _ head: StoredHead, _ content: Content) {
    self.key = key
    self.url = url
    self.host = host
    self.rule = rule
    self.head = head
    self.content = content
  }

  public func freshened(_ head: StoredHead) -> StoredAnswer {
    StoredAnswer(key: key, url: url, host: host, rule: rule, head, content)
  }

  /// What it takes in memory besides its content, in bytes: its head and what it is found by.
  public var overheadBytes: Int { head.fields.text.count + url.count + key.bytes.count + Self.bookkeepingBytes }

  /// Objects, arrays and places in tables, measured with 100,000 small answers.
  static let bookkeepingBytes = 1024
}

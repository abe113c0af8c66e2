// A request as the cache sees it: what it asks for, of whom, and which stored answers it accepts. Tests: ReuseTests.

import Bytes
import HTTP1
import Policy

/// What a request asks of a cache.
public struct CacheRequest: Sendable {
  public enum Method: Sendable, Equatable {
    case get, head
    /// Neither answered from the store nor stored: OPTIONS, TRACE.
    case safe
    /// Invalidates what is stored for its URL (RFC 9111, 4.4).
    case unsafe
  }

  public let method: Method
  /// As sent to the origin, without the hop-by-hop fields.
  public let fields: MessageFields
  public let directives: CacheDirectives
  /// The rule's settings for the cache.
  public let rule: CacheRule
  public let policy: CachePolicy
  /// The client sent credentials of its own (RFC 9111, 3.5).
  public let isAuthorized: Bool

  /// `isAuthorized`: whether an Authorization in `fields` is the client's and not the policy's.
  public init(
    _ method: KnownMethod, _ fields: MessageFields, isAuthorized: Bool, rule: CacheRule = CacheRule(),
    policy: CachePolicy = .useProtocol
  ) {
    self.fields = fields
    self.isAuthorized = isAuthorized
    self.rule = rule
    self.policy = policy
    self.method =
      switch method {
      case .get: .get
      case .head: .head
      case .options, .trace: .safe
      case .connect, .delete, .post, .put, .other: .unsafe
      }
    var directives = CacheDirectives(fields)
    // RFC 9111, 5.4: for clients that do not know Cache-Control.
    if !fields.contains("cache-control") {
      fields.forEachElement("pragma") { element in
        if element.equals(0..<element.count, ignoringCase: "no-cache") { directives.noCache = true }
      }
    }
    self.directives = directives
  }

  /// Whether it may be answered from the store and its answer stored.
  public var isCacheable: Bool {
    (method == .get || method == .head) && !directives.noStore && !fields.contains("if-match")
      && !fields.contains("if-unmodified-since")
  }

  /// Whether it may be answered, where the origin fails, by what the origin has not confirmed.
  var mayUseUnconfirmed: Bool {
    policy != .reloadIgnoringCache && policy != .reloadRevalidating && !directives.noCache
  }

  /// Whether it only asks if something has changed, or for a part.
  public var isConditional: Bool { fields.contains("if-none-match") || fields.contains("if-modified-since") }
  public var isForPart: Bool { fields.contains("range") }
}

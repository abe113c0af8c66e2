// The part of `explain` about stored responses: whether the rule stores them, for whom, and when one is used.
// `sallyport cache show URL` reports what is stored now. Tests: CachingTests.

import Bytes

/// How the response to a request is stored and used.
public struct CacheExplanation: Sendable {
  /// nil: nothing is stored.
  public let rule: CacheRule?
  public let policy: CachePolicy
  /// A download that is cut short is continued.
  public let resumes: Bool
  /// RFC 9111: only responses to GET are stored; HEAD is answered from them.
  public let method: String

  var isUsed: Bool { method == "GET" || method == "HEAD" }
}

extension CacheExplanation {
  /// nil if nothing is stored, and nothing has to be.
  init?(by policy: Policy, of decision: Decision, method: String) {
    let rule = policy.cache(of: decision)
    let request = policy.request(of: decision)
    if rule == nil, request.cachePolicy != .returnCacheDontLoad { return nil }
    self.init(rule: rule, policy: request.cachePolicy, resumes: request.resumesDownloads, method: method)
  }
}

extension CacheExplanation {
  var lines: [String] { texts.map { "  \($0)" } }

  private var texts: [String] {
    guard let rule else { return ["cache: nothing is stored, and \"\(policy.rawValue)\" asks no origin: 504"] }
    if !isUsed {
      let effect = policy == .returnCacheDontLoad ? "is refused (504), because no origin is asked" : "is passed on"
      return ["cache: \(method) \(effect); what is stored for its URL is dropped where it changes something"]
    }
    var lines = ["cache: \(policy.phrase), for \(rule.share.phrase)"]
    lines.append(
      "fresh: \(rule.freshFor.map { "for \(Self.text($0)), instead of the origin's word" } ?? "as the origin says")")
    if let time = rule.staleIfError { lines.append("on error: a stored answer up to \(Self.text(time)) stale") }
    if rule.offline > 0 { lines.append("offline: a stored answer up to \(Self.text(rule.offline)) old") }
    if resumes {
      lines.append("broken off: the rest of a download is asked for where the origin has a strong validator")
    }
    lines.append("equal requests: \(rule.collapse.phrase)")
    return lines
  }

  private static func text(_ seconds: Int64) -> String { Quantity.duration.text(seconds * 1000) }

  var json: [(String, JSONText)] {
    [
      (
        "cache",
        .object([
          ("policy", .string(policy.rawValue)), ("stores", .boolean(rule != nil)),
          ("share", rule.map { .string($0.share.rawValue) } ?? .null),
          ("fresh_for_s", rule?.freshFor.map { .number(Int($0)) } ?? .null),
          ("stale_if_error_s", rule?.staleIfError.map { .number(Int($0)) } ?? .null),
          ("offline_s", rule.map { .number(Int($0.offline)) } ?? .null),
          ("resume", .boolean(rule != nil && resumes)),
          ("collapse", rule.map { .string($0.collapse.rawValue) } ?? .null),
        ])
      )
    ]
  }
}

extension CachePolicy {
  fileprivate var phrase: String {
    switch self {
    case .useProtocol: "answers are stored and used as RFC 9111 has it"
    case .reloadIgnoringCache: "answers are stored, and the origin is asked each time"
    case .returnCacheElseLoad: "a stored answer is used however old; else the origin is asked"
    case .returnCacheDontLoad: "a stored answer is used however old; else 504, and no origin is asked"
    case .reloadRevalidating: "a stored answer is used once the origin has said that it holds"
    }
  }
}

extension CacheRule.Share {
  fileprivate var phrase: String {
    switch self {
    case .machine: "every program of the machine"
    case .user: "programs of the same user"
    case .unit: "programs of the same unit"
    }
  }
}

extension CacheRule.Collapse {
  fileprivate var phrase: String {
    switch self {
    case .auto: "share a fetch where its answer can be stored"
    case .always: "wait for one another"
    case .never: "are fetched each"
    }
  }
}

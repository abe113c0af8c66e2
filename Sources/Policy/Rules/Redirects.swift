// `redirects` of a rule: what an answer may lead the program to. The answer is judged in Session (RedirectTarget), since only
// there it is known where the request went. Tests: RedirectsTests.

/// Where redirects of a rule may lead.
public enum Redirects: String, Sendable, CaseIterable {
  /// Anywhere: the program's next request is decided like any other.
  case pass
  /// To the host and port that were asked, by the same scheme; from http on port 80 to https on port 443 as well.
  case sameHost = "same-host"
  /// To any host, by the scheme that the request left by.
  case sameScheme = "same-scheme"
  /// Nowhere.
  case deny
}

extension Redirects {
  /// What `explain` says of it.
  var text: String {
    switch self {
    case .pass: "pass"
    case .sameHost: "same-host: one that leads to another host or port, or from https to http, is answered 502"
    case .sameScheme: "same-scheme: one that leads to another scheme is answered 502"
    case .deny: "deny: every one is answered 502"
    }
  }
}

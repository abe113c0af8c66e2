// `redirects` of a rule: where a response may lead the program. Session checks the response (RedirectTarget), because
// only there is it known where the request went. Tests: RedirectsTests.

/// Where redirects of a rule may lead.
public enum Redirects: String, Sendable, CaseIterable {
  /// Anywhere: the program's next request is decided like any other.
  case pass
  /// To the same host and port with the same scheme; also from http on port 80 to https on port 443.
  case sameHost = "same-host"
  /// To any host, with the scheme that the request was sent with.
  case sameScheme = "same-scheme"
  /// Nowhere.
  case deny
}

extension Redirects {
  /// The description in `explain`.
  var text: String {
    switch self {
    case .pass: "pass"
    case .sameHost: "same-host: one that leads to another host or port, or from https to http, is answered 502"
    case .sameScheme: "same-scheme: one that leads to another scheme is answered 502"
    case .deny: "deny: every one is answered 502"
    }
  }
}

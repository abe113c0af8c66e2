// [[expect]]: a request and its expected outcome. `sallyport test` checks it, and so does the daemon before it adopts a
// policy.
//
// `Forecast` computes the outcome. The request is explained only if the outcome differs, so a failure includes its
// reasons. Tests: ExpectationTests, test_expect.py.

import Bytes
import Reachability

/// A request with its expected outcome.
public struct Expectation: Sendable {
  /// What is expected of a header field when the request is sent.
  public enum FieldWish: Hashable, Sendable {
    case value([UInt8])
    /// It is sent, with any value.
    case present
    /// It is not sent, even if the program sends one.
    case absent
  }

  public enum Wish: Hashable, Sendable {
    case verdict(Decision.Verdict)
    /// The rule that decides; nil: no rule does.
    case rule(String?)
    /// How the tunnel of the request is treated.
    case connect(ConnectTreatment)
    /// The route that is tried first.
    case firstRoute(String)
    /// All routes, in the order in which they are tried.
    case routes([String])
    case field(name: String, FieldWish)
  }

  /// An expected result, and its location in the file.
  struct PlacedWish: Sendable {
    let wish: Wish
    let location: SourceLocation
    let excerpt: Excerpt?
  }

  /// Location of [[expect]].
  public let location: SourceLocation
  public let name: String?
  public let request: NamedRequest
  /// Method and URL as in the file.
  public let requestText: String
  public let asker: Asker
  /// Sent directly, without CONNECT.
  public let isAbsolute: Bool
  let wishes: [PlacedWish]

  /// `GET https://index.example/simple/x/ by user ci`
  public var title: String {
    var words = [requestText]
    if let client = asker.sender.client {
      if let user = client.user ?? (client.userID == LocalClient.noUser ? nil : "\(client.userID)") {
        words.append("by user \(user)")
      }
      if let unit = client.unit { words.append("in unit \(unit)") }
    }
    if let address = asker.sender.address { words.append("from \(address)") }
    if let name = asker.sender.proxyUser { words.append("as proxy user \(name)") }
    if let program = asker.sender.program { words.append("by \(program)") }
    if let link = asker.link { words.append("on a \(link.rawValue) link") }
    if isAbsolute { words.append("without CONNECT") }
    return words.joined(separator: " ").printable
  }
}

/// The result of checking an expectation.
public enum ExpectationOutcome: Sendable {
  case holds
  case fails(FailedExpectation)
  /// It is about a value from a secret, which this user may not read.
  case unread(field: String)
}

/// An expectation that fails.
public struct FailedExpectation: Sendable {
  /// A difference, in the words of the file: `verdict = "allow"`, and `"deny"`.
  public struct Shortfall: Sendable {
    public let expected: String
    public let seen: String
    let location: SourceLocation
    let excerpt: Excerpt?

    public var sentence: String { "expected \(expected), seen \(seen)" }
  }

  public let expectation: Expectation
  /// At least one.
  public let shortfalls: [Shortfall]
  /// Which rule decides, and why the expected one does not.
  public let reasons: [String]

  /// Located at the first difference.
  public var diagnostic: Diagnostic {
    let text = shortfalls.map(\.sentence).joined(separator: "; ")
    return Diagnostic(
      .error, at: shortfalls[0].location,
      "expectation failed: \(expectation.title): \(text): \(reasons.joined(separator: "; "))",
      excerpt: shortfalls[0].excerpt)
  }

  /// Location and request, expected and seen, and why; ends with a newline.
  public var description: String {
    let name = expectation.name.map { " (\($0))" } ?? ""
    let lines =
      ["\(expectation.location): \(expectation.title)\(name)"]
      + (shortfalls.map(\.sentence) + reasons).map { "  \($0)" }
    return lines.map(\.printable).joined(separator: "\n") + "\n"
  }

  public var json: JSONText {
    .object([
      ("file", .string(expectation.location.file)), ("line", .number(expectation.location.line)),
      ("name", expectation.name.map(JSONText.string) ?? .null), ("request", .string(expectation.title)),
      (
        "failures",
        .array(shortfalls.map { .object([("expected", .string($0.expected)), ("seen", .string($0.seen))]) })
      ),
      ("why", .array(reasons.map(JSONText.string))),
    ])
  }
}

/// Every expectation of a policy with its outcome, in the order of the files.
public struct ExpectationReport: Sendable {
  /// Each with what came of it.
  public let results: [(expectation: Expectation, outcome: ExpectationOutcome)]

  /// `own`: returns the addresses of the machine; called once, and only if an address can matter.
  public init(on policy: Policy, own: () -> OwnAddresses) {
    let expectations = policy.expectations
    let asksForAddress =
      expectations.contains { $0.request.host.address != nil }
      || !expectations.isEmpty && policy.rules.contains { $0.target?.host.address != nil }
    let addresses = asksForAddress ? own() : .unknown
    results = expectations.map { ($0, ExpectationOutcome(of: $0, by: policy, own: addresses)) }
  }

  /// Those that fail.
  public var failures: [FailedExpectation] {
    results.compactMap { if case .fails(let failure) = $0.outcome { failure } else { nil } }
  }
}

extension ExpectationOutcome {
  init(of expectation: Expectation, by policy: Policy, own: OwnAddresses = .unknown) {
    self = ExpectationCheck(expectation, policy, own: own).outcome
  }
}

/// The check of one expectation.
private struct ExpectationCheck {
  let expectation: Expectation
  let policy: Policy
  let own: OwnAddresses
  let forecast: Forecast

  init(_ expectation: Expectation, _ policy: Policy, own: OwnAddresses) {
    self.expectation = expectation
    self.policy = policy
    self.own = own
    forecast = Forecast(
      by: policy, of: expectation.request, expectation.asker, absolute: expectation.isAbsolute, own: own)
  }

  var outcome: ExpectationOutcome {
    var shortfalls: [FailedExpectation.Shortfall] = []
    for placed in expectation.wishes {
      switch seen(placed.wish) {
      case .asWished: continue
      case .unread(let field): return .unread(field: field)
      case .other(let seen):
        shortfalls.append(
          FailedExpectation.Shortfall(
            expected: placed.wish.text, seen: seen, location: placed.location, excerpt: placed.excerpt))
      }
    }
    if shortfalls.isEmpty { return .holds }
    return .fails(FailedExpectation(expectation: expectation, shortfalls: shortfalls, reasons: reasons))
  }

  /// The result for one expected value.
  private enum Sight {
    case asWished
    case other(String)
    case unread(String)

    init(_ isAsWished: Bool, _ seen: @autoclosure () -> String) { self = isAsWished ? .asWished : .other(seen()) }
  }

  private func seen(_ wish: Expectation.Wish) -> Sight {
    let decision = forecast.last.decision
    switch wish {
    case .verdict(let verdict):
      return Sight(forecast.verdict == verdict, "\"\(forecast.verdict.rawValue)\"")
    case .rule(let name):
      let seen = decision.rule.map { policy.rules[$0].name }
      return Sight(seen == name, seen.map { "\"\($0)\"" } ?? "no rule")
    case .connect(let connect):
      // A tunnel to a denied address does not open, whatever its rule says.
      let seen = forecast.tunnel.map { $0.isAllowed ? $0.connect ?? .deny : .deny }
      return Sight(seen == connect, seen.map { "\"\($0.rawValue)\"" } ?? "no tunnel")
    case .firstRoute(let name):
      guard forecast.last.isAllowed else { return .other("nothing leaves") }
      let names = Route.names(of: decision, by: policy, on: expectation.asker.link)
      return Sight(names.first == name, names.isEmpty ? "no route that holds" : Self.list(names))
    case .routes(let wished):
      guard forecast.last.isAllowed else { return .other("nothing leaves") }
      let names = Route.names(of: decision, by: policy, on: expectation.asker.link)
      return Sight(names == wished, Self.list(names))
    case .field(let name, let wish): return seen(name, wish)
    }
  }

  private static func list(_ names: [String]) -> String {
    "[\(names.map { "\"\($0)\"" }.joined(separator: ", "))]"
  }

  private func seen(_ name: String, _ wish: Expectation.FieldWish) -> Sight {
    guard forecast.last.isAllowed else { return Sight(wish == .absent, "nothing leaves") }
    guard forecast.request != nil else {
      let connect = forecast.tunnel?.connect?.rawValue ?? ""
      return .other("a tunnel that the proxy does not read (connect = \"\(connect)\")")
    }
    let edits = policy.request(of: forecast.last.decision)
    let lower = name.utf8.map { $0.asciiLowercased }
    let isDigest = edits.digest != nil && name.lowercased() == "authorization"
    guard let line = (edits.fields.set + edits.fields.defaults).first(where: { $0.name == lower }) else {
      let isRemoved = edits.fields.removed.contains(lower) || !edits.cookies && name.lowercased() == "cookie"
      switch wish {
      case .absent where isRemoved && !isDigest: return .asWished
      case .present where isDigest: return .asWished
      default:
        return .other(
          isDigest
            ? "what answers the origin's challenge" : isRemoved ? "it is removed" : "it leaves as the program sends it")
      }
    }
    switch wish {
    case .present: return .asWished
    case .absent: return .other("it leaves")
    case .value(let value):
      if line.isWithheld { return .unread(name) }
      return Sight(
        line.value.elementsEqual(value), Explanation.Field(line).value?.inTOML ?? "another value (hidden)")
    }
  }

  // MARK: Why

  /// Most rules that are examined in search of the expected one.
  private static let mostPassedOver = 10_000

  private var reasons: [String] {
    let isInside = expectation.request.needsTunnel(absolute: expectation.isAbsolute)
    let asked = isInside && forecast.request == nil ? expectation.request.tunnel : expectation.request
    let explanation = Explanation(
      by: policy, of: asked, expectation.asker, own: own, atMost: Self.mostPassedOver)
    var reasons = [explanation.verdictLine] + explanation.refusalLines
    if forecast.last.refusesRawPath {
      reasons.append("the path has bytes above 0x7f, and the rule has no encode_path = true")
    }
    if isInside, forecast.request == nil, forecast.verdict == .allow {
      reasons.append(
        "programs reach it by CONNECT, and the requests in that tunnel are not read "
          + "(connect = \"\(forecast.tunnel?.connect?.rawValue ?? "")\")")
    }
    for case .rule(let name?) in expectation.wishes.map(\.wish) {
      reasons += whyNot(name, explanation)
    }
    return reasons
  }

  /// Why the expected rule does not decide.
  private func whyNot(_ name: String, _ explanation: Explanation) -> [String] {
    if let passed = explanation.passedOver.first(where: { $0.rule == name }) {
      return ["rule '\(name)' (\(passed.location)) does not match: \(passed.text)"]
    }
    let rules = policy.rules
    guard let number = rules.firstIndex(where: { $0.name == name }), let deciding = forecast.last.decision.rule,
      number > deciding
    else { return [] }
    return ["rule '\(name)' (\(rules[number].location)) comes after it"]
  }
}

extension Expectation.Wish {
  /// As in the file.
  var text: String {
    switch self {
    case .verdict(let verdict): "verdict = \"\(verdict.rawValue)\""
    case .rule(let name): "rule = \(name.map { "\"\($0)\"" } ?? "false")"
    case .connect(let connect): "connect = \"\(connect.rawValue)\""
    case .firstRoute(let name): "route = \"\(name)\""
    case .routes(let names): "route = [\(names.map { "\"\($0)\"" }.joined(separator: ", "))]"
    case .field(let name, .value(let value)):
      "header \(name) = \(SecretWords.covers(name) ? "(value hidden)" : value.span.string.inTOML)"
    case .field(let name, .present): "header \(name) = true"
    case .field(let name, .absent): "header \(name) = false"
    }
  }
}

// The part of `explain` about the routes to a destination, in the order in which they are tried. It shows only whether
// there are credentials. Tests: RouteExplanationTests.

import Bytes
import Reachability
import Security

/// The routes that a rule lists.
public struct RouteExplanation: Sendable {
  /// In the order in which they are tried.
  public let routes: [Route]
  /// The anchors for routes that have none of their own.
  public let trust: TrustSource
  /// What the chains to those are checked against.
  public let trustProfile: TrustProfile
}

extension RouteExplanation {
  /// nil if denied, and if no routes are listed.
  init?(by policy: Policy, of decision: Decision) {
    guard decision.verdict != .deny, let rule = decision.rule, !policy.rules[rule].routes.isEmpty else { return nil }
    self.init(
      routes: policy.rules[rule].routes, trust: policy.configuration.trust,
      trustProfile: policy.configuration.trustProfile ?? policy.configuration.trust.profile)
  }
}

extension RouteExplanation {
  /// What a parent's certificate is checked against; nil for a parent without one. No rule waives it: otherwise the
  /// operator's own proxy, not the destination, would go unchecked.
  private func security(of route: Route) -> SecurityExplanation? {
    guard route.parent?.kind == .https else { return nil }
    return SecurityExplanation(
      treatment: nil, upgradedPort: nil, policy: route.security, trust: trust, trustProfile: trustProfile,
      isEnforced: true)
  }

  /// `wired, wifi or wwan`
  static func alternatives(_ links: [ReachabilityStatus]) -> String { links.map(\.rawValue).alternatives }
}

extension Route {
  /// The routes for a request of the decision, without those whose `when` does not hold on `link`.
  static func names(of decision: Decision, by policy: Policy, on link: ReachabilityStatus?) -> [String] {
    let routes = decision.rule.map { policy.rules[$0].routes } ?? []
    if routes.isEmpty { return [Route.direct.name] }
    return routes.filter { route in
      link.map { route.links.isEmpty || route.links.contains($0) } ?? true
    }.map(\.name)
  }
}

// MARK: As text

extension RouteExplanation {
  var lines: [String] {
    var lines: [String] = []
    for route in routes {
      lines.append("  route \(route.name): \(Self.text(route))")
      lines += (security(of: route)?.termLines ?? []).map { "    \($0)" }
    }
    return lines + endLines
  }

  private static func text(_ route: Route) -> String {
    var parts = [route.parent == nil ? "straight to the destination" : "by \(route.via)"]
    if let credentials = route.parent?.credentials {
      parts.append("with credentials" + (credentials.scheme == .basic ? "" : " (\(credentials.scheme.rawValue))"))
    }
    if let narrowed = narrowedProtocols(of: route) {
      parts.append("offered \(narrowed.map(\.rawValue).joined(separator: ", "))")
    }
    if !route.links.isEmpty { parts.append("where it is reached by \(alternatives(route.links))") }
    if let interface = route.interface { parts.append("from the interface \(interface)") }
    if let wait = route.waitMilliseconds {
      parts.append("while it cannot be reached, requests are held for up to \(Quantity.duration.text(wait))")
    }
    return parts.joined(separator: "; ")
  }

  /// What an https parent is offered, if that is not everything.
  private static func narrowedProtocols(of route: Route) -> [HTTPProtocol]? {
    guard let parent = route.parent, parent.kind == .https, parent.protocols != HTTPProtocol.allCases else {
      return nil
    }
    return parent.protocols
  }

  private var endLines: [String] {
    let goesStraight = routes.contains { $0.parent == nil }
    var lines = ["  where no route can be used: refused\(goesStraight ? "" : ", because nothing goes straight")"]
    if routes.contains(where: { $0.parent != nil }) {
      lines.append("  a parent gets names as they are: deny_addresses then holds for addresses in the URL only")
    }
    return lines
  }
}

// MARK: As JSON

extension RouteExplanation {
  /// Members of the object that shows what will be done. `security` is null if there is no TLS to a parent.
  var json: [(String, JSONText)] { [("routes", .array(routes.map(json)))] }

  private func json(of route: Route) -> JSONText {
    .object([
      ("name", .string(route.name)), ("via", .string(route.via)),
      ("credentials", .boolean(route.parent?.credentials != nil)),
      (
        "protocols",
        route.parent?.kind == .https
          ? .array((route.parent?.protocols ?? []).map { .string($0.rawValue) }) : .null
      ),
      ("when", .array(route.links.map { .string($0.rawValue) })),
      ("interface", route.interface.map(JSONText.string) ?? .null),
      ("wait_ms", route.waitMilliseconds.map { .number(Int($0)) } ?? .null),
      ("security", security(of: route)?.policyJSON ?? .null),
    ])
  }
}

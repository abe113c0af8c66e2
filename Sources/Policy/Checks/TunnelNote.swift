// The note at the beginning of `explain` for an https URL: the settings for the request have no effect, because
// programs reach https through a tunnel, and it is not intercepted. Tests: test_check_tunnels.py.

extension Explanation {
  /// The note for a request that reaches its host through `tunnel`; nil if the tunnel is intercepted, or nothing would
  /// be done with the request.
  public func note(through tunnel: Explanation) -> String? {
    guard let treatment = tunnel.security?.treatment ?? (tunnel.decision.verdict == .deny ? .deny : nil) else {
      return nil
    }
    switch treatment {
    case .intercept: return nil
    case .deny:
      guard decision.verdict == .allow, let rule, rule !== tunnel.rule else { return nil }
      return "Rule '\(rule.name)' (\(rule.location)) allows the request, but programs reach https through a tunnel, "
        + "which is denied. Set connect = \"intercept\" in rule '\(rule.name)'."
    case .tunnel, .verify:
      guard let rule, decision.verdict == .deny || rule.speaksOfRequests else { return nil }
      let what =
        decision.verdict == .deny
        ? "Rule '\(rule.name)' (\(rule.location)) denies the request"
        : "What rule '\(rule.name)' (\(rule.location)) says of requests"
      let decider = tunnel.rule.map { $0 === rule ? "this rule leaves" : "rule '\($0.name)' (\($0.location)) leaves" }
      let line = "connect = \"intercept\""
      let advice = tunnel.rule.map { "Set \(line) in rule '\($0.name)'." } ?? "Add a rule for this host with \(line)."
      return what + (decision.verdict == .deny ? ", which" : "") + " has no effect on https: programs reach it through "
        + "tunnels, and \(decider ?? "no rule opens") \(decider == nil ? "them" : "them closed"). \(advice)"
    }
  }
}

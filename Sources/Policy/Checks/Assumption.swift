// What a question to `explain` leaves open: who asks, and the link that carries the default route. If a rule depends on
// it, the answer reports that it was assumed to be unknown. Tests: RouteExplanationTests.

extension Explanation {
  /// A fact that was not given and was assumed to be unknown, although the answer may depend on it.
  public struct Assumption: Hashable, Sendable {
    /// A rule that depends on it, and whose other conditions hold.
    public struct Asking: Hashable, Sendable {
      public let rule: String
      public let location: SourceLocation
    }

    /// The command option that supplies it.
    public let option: SenderOption
    public let rules: [Asking]
  }
}

extension Asker {
  /// `rules`: those that were examined, including the one that decides. `holds`: whether all conditions of a rule hold
  /// for such an asker.
  func assumptions(of rules: ArraySlice<Rule>, holds: (Rule, Asker) -> Bool) -> [Explanation.Assumption] {
    var asking: [SenderOption: [Explanation.Assumption.Asking]] = [:]
    for rule in rules {
      let open = rule.conditions.all.filter { !type(of: $0).isSaid(by: self) }
      if open.isEmpty { continue }
      var fitting = self
      for condition in open { condition.fit(&fitting) }
      guard holds(rule, fitting) else { continue }
      let one = Explanation.Assumption.Asking(rule: rule.name, location: rule.location)
      for option in open.compactMap({ type(of: $0).option }) { asking[option, default: []].append(one) }
    }
    return SenderOption.allCases.compactMap { option in
      asking[option].map { Explanation.Assumption(option: option, rules: $0) }
    }
  }
}

extension Explanation.Assumption {
  var text: String {
    let taken = option == .when ? "of a link that is \"unknown\"" : "of a \(option.rawValue) that is not known"
    let names = rules.map { "'\($0.rule)' (\($0.location))" }.abridged
    return "asked without --\(option.rawValue), as \(taken): of another the answer may differ, because "
      + (rules.count == 1 ? "rule \(names) asks for it" : "rules \(names) ask for it")
  }

  var json: JSONText {
    .object([("option", .string(option.rawValue)), ("rules", .array(rules.map { .string($0.rule) }))])
  }
}

// What a question to `explain` leaves open: who asks, and by what link the machine leaves. Where a rule asks for it, the
// answer says that it was taken for unknown. Tests: RouteExplanationTests.

extension Explanation {
  /// Something that was not said and was taken for unknown, and for which the answer might be another.
  public struct Assumption: Hashable, Sendable {
    /// A rule that asks for it, and whose other conditions hold.
    public struct Asking: Hashable, Sendable {
      public let rule: String
      public let location: SourceLocation
    }

    /// The option of the command by which it is said.
    public let option: SenderOption
    public let rules: [Asking]
  }
}

extension Asker {
  /// `rules`: those that were looked at, the one that decides included. `holds`: whether all conditions of a rule do, for
  /// such an asker.
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
    let names = Rule.list(rules.map { "'\($0.rule)' (\($0.location))" })
    return "asked without --\(option.rawValue), as \(taken): of another the answer may differ, for "
      + (rules.count == 1 ? "rule \(names) asks for it" : "rules \(names) ask for it")
  }

  var json: JSONText {
    .object([("option", .string(option.rawValue)), ("rules", .array(rules.map { .string($0.rule) }))])
  }
}

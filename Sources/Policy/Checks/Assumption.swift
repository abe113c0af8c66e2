// What a question to `explain` leaves open: who asks, and by what link the machine leaves. Where a rule asks for it, the
// answer says that it was taken for unknown. Tests: RouteExplanationTests.

import Reachability

extension Explanation {
  /// Something that was not said and was taken for unknown, and for which the answer might be another.
  public struct Assumption: Hashable, Sendable {
    /// The options of the command by which it is said.
    public enum Subject: String, Sendable, CaseIterable { case user, unit, when }

    /// A rule that asks for it, and whose other conditions hold.
    public struct Asking: Hashable, Sendable {
      public let rule: String
      public let location: SourceLocation
    }

    public let subject: Subject
    public let rules: [Asking]
  }
}

/// What was said of the client and the link.
struct OpenQuestion {
  let client: LocalClient?
  let link: ReachabilityStatus?

  /// `rules`: those that were looked at, the one that decides included. `holds`: whether all conditions of a rule do, for
  /// this client and link.
  func assumptions(
    of rules: ArraySlice<Rule>, holds: (Rule, LocalClient?, ReachabilityStatus) -> Bool
  ) -> [Explanation.Assumption] {
    var asking: [Explanation.Assumption.Subject: [Explanation.Assumption.Asking]] = [:]
    for rule in rules {
      let subjects = openSubjects(rule.conditions)
      guard !subjects.isEmpty, holds(rule, fittingClient(rule.conditions), fittingLink(rule.conditions)) else {
        continue
      }
      let one = Explanation.Assumption.Asking(rule: rule.name, location: rule.location)
      for subject in subjects { asking[subject, default: []].append(one) }
    }
    return Explanation.Assumption.Subject.allCases.compactMap { subject in
      asking[subject].map { Explanation.Assumption(subject: subject, rules: $0) }
    }
  }

  /// What the conditions ask for and nobody has said.
  private func openSubjects(_ conditions: Rule.Conditions) -> [Explanation.Assumption.Subject] {
    var subjects: [Explanation.Assumption.Subject] = []
    if conditions.users != nil, !isUserKnown { subjects.append(.user) }
    if !conditions.units.isEmpty, !isUnitKnown { subjects.append(.unit) }
    if !conditions.links.isEmpty, link == nil { subjects.append(.when) }
    return subjects
  }

  private var isUserKnown: Bool { client.map { $0.userID != LocalClient.noUser } ?? false }
  private var isUnitKnown: Bool { client.map { !$0.cgroup.isEmpty } ?? false }

  /// The client with what is not known of it as the conditions ask for.
  private func fittingClient(_ conditions: Rule.Conditions) -> LocalClient {
    let anyone = conditions.users?.first ?? LocalClient.noUser
    return LocalClient(
      userID: isUserKnown ? client?.userID ?? anyone : anyone, user: nil,
      cgroup: isUnitKnown ? client?.cgroup ?? [] : conditions.units)
  }

  private func fittingLink(_ conditions: Rule.Conditions) -> ReachabilityStatus {
    link ?? conditions.links.first ?? .unknown
  }
}

extension Explanation.Assumption {
  var text: String {
    let taken = subject == .when ? "of a link that is \"unknown\"" : "of a \(subject.rawValue) that is not known"
    let names = Rule.list(rules.map { "'\($0.rule)' (\($0.location))" })
    return "asked without --\(subject.rawValue), as \(taken): of another the answer may differ, for "
      + (rules.count == 1 ? "rule \(names) asks for it" : "rules \(names) ask for it")
  }

  var json: JSONText {
    .object([("option", .string(subject.rawValue)), ("rules", .array(rules.map { .string($0.rule) }))])
  }
}

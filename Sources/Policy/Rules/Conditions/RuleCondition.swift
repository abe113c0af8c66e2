// What a rule asks of a request before it decides it. Each condition is a value, in a file of its own: how it is read, when it
// holds, which other it covers, and how it is told. A new one is such a file, and its line in `Rule.Conditions.kinds`.
//
// Tests: ClientConditionTests, RuleReadingTests, PolicyTests, ShadowedRulesTests.

import Bytes
import Reachability

/// What a condition is about.
enum ConditionSubject: Sendable {
  /// Where the request goes. Known of tunnels too.
  case destination
  /// Who asks, and by what link the machine leaves. Known of tunnels too.
  case sender
  /// What is asked for. Nothing of it is known where a tunnel is asked for.
  case request
}

/// What has to be looked up of the client for a condition.
struct SenderFacts: OptionSet, Sendable {
  let rawValue: UInt8

  static let client = SenderFacts(rawValue: 1)
  static let program = SenderFacts(rawValue: 2)
}

/// What conditions go by beside the facts of the request: set once for a request, and for each rule.
struct ConditionContext {
  /// nil: the index of rules has looked at it.
  let host: CanonicalHost?
  /// The readings of the path.
  let paths: PathReadings
  /// The rule refuses what it matches, or has it wait. So it matches whatever may be meant by it, and any other rule only what
  /// is: nobody must gain by what cannot be known.
  var isStrict = false
  /// The rule names users too.
  var namesUsers = false

  init(host: CanonicalHost?, paths: PathReadings) {
    self.host = host
    self.paths = paths
  }
}

/// The conditions of a rule and what it does, where rules are compared.
struct ComparedConditions {
  let conditions: Rule.Conditions
  /// As `ConditionContext.isStrict` is for a request.
  let isStrict: Bool
}

protocol RuleCondition: Sendable {
  /// The key, what it takes, and a sentence.
  static var setting: KnownSetting { get }
  static var subject: ConditionSubject { get }
  static var asksFor: SenderFacts { get }

  /// What the file says; nil: nothing of it can be understood, and an error has been reported.
  static func read(_ setting: Setting, by reading: ConfigurationReading) -> Self?

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool

  /// Whether it holds for every request for which all conditions of `narrow` do. `wide`: the rule that it stands in.
  func covers(_ narrow: ComparedConditions, in wide: ComparedConditions) -> Bool
  /// Whether it holds for no request for which all of `other` do. false where nobody can say.
  func isApart(from other: Rule.Conditions) -> Bool

  /// What it asks for, in words.
  var expected: String { get }
  /// The same of a request, in words.
  static func seen(_ request: SeenRequest) -> String

  /// The option of `explain` by which it is told what this asks for; nil: the URL says it.
  static var option: SenderOption? { get }
  /// Whether `asker` says it.
  static func isSaid(by asker: Asker) -> Bool
  /// Makes `asker` one for whom it holds.
  func fit(_ asker: inout Asker)

  /// Adds what it can tell apart to the requests by which policies are compared.
  func addWitnesses(to dimensions: inout WitnessDimensions)
}

extension RuleCondition {
  static var key: String { setting.name }
  static var asksFor: SenderFacts { [] }
  static var option: SenderOption? { nil }
  static func isSaid(by asker: Asker) -> Bool { true }
  func isApart(from other: Rule.Conditions) -> Bool { false }
  func fit(_ asker: inout Asker) {}
}

/// What `explain` has to be told about who asks, by the names of its options.
public enum SenderOption: String, Sendable, CaseIterable {
  case client, user, unit, program, when
  case proxyUser = "proxy-user"
}

/// A request as `explain` sees it.
struct SeenRequest {
  let method: String
  let scheme: Scheme
  let host: CanonicalHost
  let port: UInt16
  let path: String
  let asker: Asker
}

// MARK: The conditions of a rule

extension Rule {
  /// All have to hold. None: the rule is for every request.
  public struct Conditions: Sendable {
    /// Every kind there is, in the order in which they are asked and `explain` names the first that does not hold: what a
    /// tunnel is asked about too comes first.
    static let kinds: [any RuleCondition.Type] = [
      HostCondition.self, PortCondition.self, SchemeCondition.self, LinkCondition.self, ClientCondition.self,
      ProxyUserCondition.self, UserCondition.self, UnitCondition.self, ProgramCondition.self, MethodCondition.self,
      PathsCondition.self,
    ]

    /// In the order of `kinds`, each kind once at most.
    private(set) var all: [any RuleCondition] = []

    public init() {}

    static func kind(_ key: String) -> (any RuleCondition.Type)? { kinds.first { $0.key == key } }

    mutating func set(_ condition: any RuleCondition) {
      remove(type(of: condition))
      let place = Self.place(type(of: condition))
      all.insert(condition, at: all.firstIndex { Self.place(type(of: $0)) > place } ?? all.endIndex)
    }

    private mutating func remove(_ kind: any RuleCondition.Type) { all.removeAll { type(of: $0) == kind } }

    private static func place(_ kind: any RuleCondition.Type) -> Int {
      kinds.firstIndex { $0 == kind } ?? kinds.endIndex
    }

    /// nil: the rule does not ask.
    subscript<Condition: RuleCondition>(_ kind: Condition.Type) -> Condition? {
      get {
        for case let condition as Condition in all { return condition }
        return nil
      }
      set { if let newValue { set(newValue) } else { remove(kind) } }
    }

    /// Whether it speaks of requests, of which nothing is known when a tunnel is asked for.
    var areAboutRequests: Bool { all.contains { type(of: $0).subject == .request } }
    var asksFor: SenderFacts { all.reduce([]) { $0.union(type(of: $1).asksFor) } }

    /// Whether all of `narrow` meet these, of what `subject` names.
    static func cover(
      _ wide: ComparedConditions, _ narrow: ComparedConditions, _ subjects: Set<ConditionSubject>
    ) -> Bool {
      wide.conditions.all.allSatisfy { condition in
        !subjects.contains(type(of: condition).subject) || condition.covers(narrow, in: wide)
      }
    }

    /// Whether no request meets both.
    func isApart(from other: Self) -> Bool {
      all.contains { $0.isApart(from: other) } || other.all.contains { $0.isApart(from: self) }
    }
  }
}

extension Rule {
  /// The words of `explain` where a rule of requests is asked about a tunnel.
  static let requestsOnly = "requests only"

  /// The first condition that does not hold.
  enum Failure {
    case condition(any RuleCondition)
    /// A tunnel is asked for, and the rule has conditions on requests and no `connect`.
    case requestsOnly
  }

  /// nil: all hold.
  @inline(__always)
  func firstFailure(_ facts: borrowing RequestFacts, _ context: inout ConditionContext) -> Failure? {
    if conditions.all.isEmpty { return nil }
    context.isStrict = isStrict || enforce && facts.isTunnel && connect == .deny
    context.namesUsers = namesUsers
    for condition in conditions.all {
      if facts.isTunnel, type(of: condition).subject == .request { return connect == nil ? .requestsOnly : nil }
      if !condition.holds(facts, context) { return .condition(condition) }
    }
    return nil
  }
}

/// Whether every element of one list is in another; a list that is empty stands for any.
func isCovered<Element: Equatable>(_ narrow: [Element], by wide: [Element]) -> Bool {
  !narrow.isEmpty && narrow.allSatisfy(wide.contains)
}

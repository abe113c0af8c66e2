// The conditions of a rule. Each kind is a value in its own file, which defines how it is read, when it holds, which
// others it covers, and how it is described. To add one, write such a file and list it in `Rule.Conditions.kinds`.
//
// Tests: ClientConditionTests, RuleReadingTests, PolicyTests, ShadowedRulesTests.

import Bytes
import Reachability

/// What a condition is about.
enum ConditionSubject: Sendable {
  /// Where the request goes. Also known for tunnels.
  case destination
  /// Who sends it, and the link that carries the default route. Also known for tunnels.
  case sender
  /// What the request asks for. Unknown when a tunnel is requested.
  case request
}

/// What must be looked up about the client for a condition.
struct SenderFacts: OptionSet, Sendable {
  let rawValue: UInt8

  static let client = SenderFacts(rawValue: 1)
  static let program = SenderFacts(rawValue: 2)
}

/// The context of a condition beside the facts of the request: set once per request, and for each rule.
struct ConditionContext {
  /// nil: the rule index has already checked it.
  let host: CanonicalHost?
  /// The readings of the path.
  let paths: PathReadings
  /// The rule refuses what it matches, or makes it wait. In doubt, such a rule matches and any other rule does not:
  /// uncertainty must not help a client.
  var isStrict = false
  /// The rule also names users.
  var namesUsers = false

  init(host: CanonicalHost?, paths: PathReadings) {
    self.host = host
    self.paths = paths
  }
}

/// The conditions and the action of a rule, for comparing rules.
struct ComparedConditions {
  let conditions: Rule.Conditions
  /// Like `ConditionContext.isStrict`, for a rule.
  let isStrict: Bool
}

protocol RuleCondition: Sendable {
  /// The key, the type of its value, and a sentence about it.
  static var setting: KnownSetting { get }
  static var subject: ConditionSubject { get }
  static var asksFor: SenderFacts { get }

  /// Reads the setting; nil: nothing in it is usable, and an error has been reported.
  static func read(_ setting: Setting, by reading: ConfigurationReading) -> Self?

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool

  /// Whether it holds for every request that meets all conditions of `narrow`. `wide`: the rule that it belongs to.
  func covers(_ narrow: ComparedConditions, in wide: ComparedConditions) -> Bool
  /// Whether it holds for no request that meets all of `other`. false if that is unknown.
  func isApart(from other: Rule.Conditions) -> Bool

  /// What it requires, in words.
  var expected: String { get }
  /// The corresponding fact of a request, in words.
  static func seen(_ request: SeenRequest) -> String

  /// The `explain` option that supplies the fact; nil: the URL contains it.
  static var option: SenderOption? { get }
  /// Whether `asker` supplies the fact.
  static func isSaid(by asker: Asker) -> Bool
  /// Changes `asker` so that the condition holds.
  func fit(_ asker: inout Asker)

  /// Adds values that this condition distinguishes to the requests that compare policies.
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

/// A condition that lists what it allows.
protocol ListCondition: RuleCondition {
  associatedtype Value: Equatable
  var values: [Value] { get }
}

extension ListCondition {
  func covers(_ narrow: ComparedConditions, in wide: ComparedConditions) -> Bool { listsAll(of: narrow) }

  /// Whether it lists every value that `narrow` does; a rule without this condition takes any value.
  func listsAll(of narrow: ComparedConditions) -> Bool {
    let others = narrow.conditions.values(of: Self.self)
    return !others.isEmpty && others.allSatisfy(values.contains)
  }
}

/// What `explain` needs to know about the sender, by option name.
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
  /// All must hold. None: the rule applies to every request.
  public struct Conditions: Sendable {
    /// Every kind, in the order in which conditions are evaluated and `explain` names the first that fails. Conditions
    /// that also apply to tunnels come first.
    static let kinds: [any RuleCondition.Type] = [
      HostCondition.self, PortCondition.self, SchemeCondition.self, LinkCondition.self, UntilCondition.self,
      ClientCondition.self, ProxyUserCondition.self, UserCondition.self, UnitCondition.self, ProgramCondition.self,
      MethodCondition.self, PathsCondition.self,
    ]

    /// In the order of `kinds`, each kind at most once.
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

    /// nil: the rule has no such condition.
    subscript<Condition: RuleCondition>(_ kind: Condition.Type) -> Condition? {
      get {
        for case let condition as Condition in all { return condition }
        return nil
      }
      set { if let newValue { set(newValue) } else { remove(kind) } }
    }

    /// What a condition lists; empty: the rule has no such condition, so any value fits.
    func values<Condition: ListCondition>(of kind: Condition.Type) -> [Condition.Value] { self[kind]?.values ?? [] }

    /// Patterns of hosts; empty: any host.
    public var hosts: [HostPattern] {
      get { values(of: HostCondition.self) }
      set { self[HostCondition.self] = newValue.isEmpty ? nil : HostCondition(hosts: newValue) }
    }

    /// Patterns for the paths of programs; empty: any.
    public var programs: [String] { values(of: ProgramCondition.self) }

    /// Whether it holds for some requests of the scheme.
    func allow(_ scheme: Scheme) -> Bool {
      let schemes = values(of: SchemeCondition.self)
      return schemes.isEmpty || schemes.contains(scheme)
    }

    /// Whether a condition is about requests. Those facts are unknown when a tunnel is requested.
    var areAboutRequests: Bool { all.contains { type(of: $0).subject == .request } }
    var asksFor: SenderFacts { all.reduce([]) { $0.union(type(of: $1).asksFor) } }

    /// Whether every request that meets `narrow` meets the conditions of `wide` on `subjects`.
    static func cover(
      _ wide: ComparedConditions, over narrow: ComparedConditions, in subjects: Set<ConditionSubject>
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
  /// `explain` uses these words when a rule about requests meets a tunnel.
  static let requestsOnly = "requests only"

  /// The first condition that does not hold.
  enum Failure {
    case condition(any RuleCondition)
    /// A tunnel is requested, and the rule has conditions on requests but no `connect`.
    case requestsOnly
  }

  /// nil: all hold.
  @inline(__always)
  func firstFailure(_ facts: borrowing RequestFacts, _ context: inout ConditionContext) -> Failure? {
    if conditions.all.isEmpty { return nil }
    context.isStrict = isStrict || enforce && facts.isTunnel && connect == .deny
    context.namesUsers = namesUsers
    for condition in conditions.all {
      if facts.isTunnel, type(of: condition).subject == .request {
        if connect == nil { return .requestsOnly }
        // Whatever else the rule asks still counts, wherever it stands in `kinds`.
        continue
      }
      if !condition.holds(facts, context) { return .condition(condition) }
    }
    return nil
  }
}

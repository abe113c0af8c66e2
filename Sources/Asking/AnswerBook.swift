// What operators have answered for a time: a bounded list of temporary rules, numbered as they come. Those that are over go when
// the list is looked at. Without I/O; time is handed in. Tests: AnswerBookTests.

import Policy

public struct AnswerBook: Sendable {
  /// Rules at once. Those that hold for one question alone, because it was answered once, make way first.
  public static let mostRules = 1024

  private var rules: [TemporaryRule]
  /// Numbers of those that are remembered answers of "once".
  private var remembered: Set<Int> = []
  private var nextID: Int

  public init(_ rules: [TemporaryRule] = []) {
    self.rules = rules
    nextID = (rules.map(\.id).max() ?? 0) + 1
  }

  public func all(at wall: Int64) -> [TemporaryRule] { rules.filter { $0.until > wall } }

  /// false: there are as many as may be. `make` gets the number of the rule.
  public mutating func add(isRemembered: Bool, at wall: Int64, _ make: (Int) -> TemporaryRule?) -> TemporaryRule? {
    rules.removeAll { $0.until <= wall }
    guard let rule = make(nextID) else { return nil }
    if rules.count >= Self.mostRules {
      guard let oldest = rules.firstIndex(where: { remembered.contains($0.id) }) else { return nil }
      remembered.remove(rules[oldest].id)
      rules.remove(at: oldest)
    }
    nextID += 1
    if isRemembered { remembered.insert(rule.id) }
    // The newer answer to the same question takes the place of the older.
    rules.removeAll { $0.isAbout(rule) }
    rules.append(rule)
    return rule
  }

  /// The rule that ends now; nil: there is none of this number.
  public mutating func revoke(_ id: Int, at wall: Int64) -> TemporaryRule? {
    rules.removeAll { $0.until <= wall }
    guard let place = rules.firstIndex(where: { $0.id == id }) else { return nil }
    remembered.remove(id)
    return rules.remove(at: place)
  }
}

extension TemporaryRule {
  /// Whether both speak of the same requests of the same clients.
  fileprivate func isAbout(_ other: TemporaryRule) -> Bool {
    host == other.host && port == other.port && method == other.method && path == other.path
      && userID == other.userID && unit == other.unit && client == other.client
  }
}

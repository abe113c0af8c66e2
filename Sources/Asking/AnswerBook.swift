// The temporary answers of operators: a bounded list of temporary rules, numbered as they come. Expired rules are
// removed when the list is read. No I/O; the caller passes the time. Tests: AnswerBookTests.

import Policy

public struct AnswerBook: Sendable {
  /// The most rules at once. Rules that were only added because one question was answered once are removed first.
  public static let mostRules = 1024

  private var rules: [TemporaryRule]
  private var next: Int

  public init(_ content: TemporaryRuleFile.Content = TemporaryRuleFile.Content()) {
    rules = content.rules
    next = content.next
  }

  public func all(at wall: Int64) -> [TemporaryRule] { rules.filter { $0.until > wall } }
  public func content(at wall: Int64) -> TemporaryRuleFile.Content {
    TemporaryRuleFile.Content(rules: all(at: wall), next: next)
  }

  /// nil: the list is full. `make` gets the number of the rule.
  public mutating func add(isRemembered: Bool, at wall: Int64, _ make: (Int) -> TemporaryRule?) -> TemporaryRule? {
    rules.removeAll { $0.until <= wall }
    guard var rule = make(next) else { return nil }
    rule.isRemembered = isRemembered
    // A newer answer to the same question replaces the older one.
    rules.removeAll { $0.isAbout(rule) }
    if rules.count >= Self.mostRules {
      guard let oldest = rules.firstIndex(where: \.isRemembered) else { return nil }
      rules.remove(at: oldest)
    }
    next &+= 1
    rules.append(rule)
    return rule
  }

  /// Adds rules from another file, with new numbers, but none about requests that a rule in force is about.
  public mutating func take(_ content: TemporaryRuleFile.Content, at wall: Int64) {
    rules.removeAll { $0.until <= wall }
    for var rule in content.rules where rules.count < Self.mostRules {
      if rules.contains(where: { $0.isAbout(rule) }) { continue }
      rule.id = next
      next &+= 1
      rules.append(rule)
    }
  }

  /// The rule that ends now; nil: no rule has this number.
  public mutating func revoke(_ id: Int, at wall: Int64) -> TemporaryRule? {
    rules.removeAll { $0.until <= wall }
    guard let place = rules.firstIndex(where: { $0.id == id }) else { return nil }
    return rules.remove(at: place)
  }
}

extension TemporaryRule {
  /// Whether both are about the same requests of the same clients.
  fileprivate func isAbout(_ other: TemporaryRule) -> Bool {
    host == other.host && scheme == other.scheme && port == other.port && method == other.method && path == other.path
      && userID == other.userID && unit == other.unit && client == other.client
  }
}

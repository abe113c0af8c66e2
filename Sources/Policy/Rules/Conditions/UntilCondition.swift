// `until`: when the rule ends. After that it matches nothing, and the rules behind it decide.

struct UntilCondition: RuleCondition {
  static let setting = KnownSetting(
    "until", .date, sentence: "When the rule ends: a date, or a date and time, without quotes.")
  static let subject = ConditionSubject.sender

  /// Seconds since 1970.
  let end: Int64

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> UntilCondition? {
    guard case .dateTime(let text) = setting.value.content, let end = CalendarDate.end(of: text) else {
      reading.expected("a date, or a date and time such as 2027-06-01T12:00:00Z, without quotes", setting)
      return nil
    }
    if let notice = ExpiryNotice.words(end, on: text, now: reading.files.now) {
      reading.warning(setting, "the rule \(notice)\(end <= reading.files.now ? ": it matches nothing" : "")")
    }
    return UntilCondition(end: end)
  }

  /// Without a time, the rule is in force: `[[expect]]` asks about rules, not about a moment. A daemon that is
  /// restarted after the end of a rule still starts.
  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    facts.wall == 0 || facts.wall < end * 1000
  }

  func covers(_ narrow: ComparedConditions, in wide: ComparedConditions) -> Bool {
    narrow.conditions[Self.self].map { $0.end <= end } ?? false
  }

  var expected: String { "before \(CalendarDate.timeText(end))" }
  static func seen(_ request: SeenRequest) -> String { CalendarDate.timeText(request.asker.wall / 1000) }

  /// Policies are compared at one moment.
  func addWitnesses(to dimensions: inout WitnessDimensions) {}
}

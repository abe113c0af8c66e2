// `schemes`: http, https. The scheme of a tunnel is https.

struct SchemeCondition: RuleCondition {
  static let setting = KnownSetting(
    "schemes", .list(.word(Scheme.allCases.map(\.rawValue))), "Schemes; a tunnel counts as https.")
  static let subject = ConditionSubject.destination

  let schemes: [Scheme]

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> SchemeCondition? {
    let schemes = reading.elements(setting, of: "strings").compactMap { element in
      reading.choice(element, Scheme.self).map { (value: $0, setting: element) }
    }
    reading.warnOfRepetition(schemes) { $0.rawValue.quoted }
    return SchemeCondition(schemes: schemes.map(\.value))
  }

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    schemes.contains(facts.scheme)
  }

  func covers(_ narrow: ComparedConditions, in wide: ComparedConditions) -> Bool {
    isCovered(narrow.conditions.schemes, by: schemes)
  }

  var expected: String { Rule.list(schemes.map(\.rawValue)) }
  static func seen(_ request: SeenRequest) -> String { request.scheme.rawValue }

  /// Both schemes are already tried for every host.
  func addWitnesses(to dimensions: inout WitnessDimensions) {}
}

extension Rule.Conditions {
  /// Empty: any scheme.
  public var schemes: [Scheme] {
    get { self[SchemeCondition.self]?.schemes ?? [] }
    set { self[SchemeCondition.self] = newValue.isEmpty ? nil : SchemeCondition(schemes: newValue) }
  }
}

// `schemes`: http, https. The scheme of a tunnel is https.

struct SchemeCondition: ListCondition {
  static let setting = KnownSetting(
    "schemes", .list(.word(Scheme.allCases.map(\.rawValue))), sentence: "Schemes; a tunnel counts as https.")
  static let subject = ConditionSubject.destination

  let schemes: [Scheme]
  var values: [Scheme] { schemes }

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

  var expected: String { schemes.map(\.rawValue).abridged }
  static func seen(_ request: SeenRequest) -> String { request.scheme.rawValue }

  /// Both schemes are already tried for every host.
  func addWitnesses(to dimensions: inout WitnessDimensions) {}
}

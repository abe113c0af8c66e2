// `when`: the kind of link that carries the machine's default route at the moment.

import Reachability

struct LinkCondition: ListCondition {
  static let setting = KnownSetting(
    "when", .list(.word(ReachabilityStatus.allCases.map(\.rawValue))),
    sentence: "The kind of link that carries the machine's default route at the moment.")
  static let subject = ConditionSubject.sender

  let links: [ReachabilityStatus]
  var values: [ReachabilityStatus] { links }

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> LinkCondition? {
    LinkCondition(links: links(setting, by: reading))
  }

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    links.contains(facts.link)
  }

  func isApart(from other: Rule.Conditions) -> Bool {
    let others = other.values(of: Self.self)
    return !others.isEmpty && !links.contains(where: others.contains)
  }

  var expected: String { links.map(\.rawValue).abridged }
  static func seen(_ request: SeenRequest) -> String { (request.asker.link ?? .unknown).rawValue }

  static let option: SenderOption? = .when
  static func isSaid(by asker: Asker) -> Bool { asker.link != nil }
  func fit(_ asker: inout Asker) { asker.link = links.first }
  func addWitnesses(to dimensions: inout WitnessDimensions) { dimensions.links = ReachabilityStatus.allCases }
}

extension LinkCondition {
  /// The kinds of link that a condition names. `possible`: those that can occur.
  static func links(
    _ setting: Setting, of possible: [ReachabilityStatus] = ReachabilityStatus.allCases,
    by reading: ConfigurationReading
  ) -> [ReachabilityStatus] {
    let links = reading.elements(setting, of: "strings").compactMap { element in
      reading.choice(element, ReachabilityStatus.self).map { (value: $0, setting: element) }
    }
    reading.warnOfRepetition(links) { $0.rawValue.quoted }
    let values = links.map(\.value)
    if possible.allSatisfy(values.contains) { reading.warning(setting, "every kind is listed, so this always holds") }
    return values
  }
}

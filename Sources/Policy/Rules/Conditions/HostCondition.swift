// `hosts`: names, and patterns of names and addresses. `RuleIndex` finds the rules of a request's host.

import Bytes

struct HostCondition: ListCondition {
  static let setting = KnownSetting(
    "hosts", .list(.text), sentence: "Names such as \"*.a.example\" or \"**.a.example\", addresses and CIDR blocks.")
  static let subject = ConditionSubject.destination

  let hosts: [HostPattern]
  var values: [HostPattern] { hosts }

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> HostCondition? {
    let hosts = reading.elements(setting, of: "host patterns").compactMap {
      element -> (value: HostPattern, setting: Setting)? in
      guard let text = reading.string(element) else { return nil }
      switch HostPattern.parse(text) {
      case .success(let pattern): return (pattern, element)
      case .failure(let fault):
        reading.error(element, fault.description)
        return nil
      }
    }
    reading.warnOfRepetition(hosts) { $0.description.quoted }
    if hosts.count > 1, let all = hosts.first(where: { $0.value == .any }) {
      reading.warning(all.setting, "'*' matches any host, so the other patterns have no effect")
    }
    return HostCondition(hosts: hosts.map(\.value))
  }

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    guard let host = context.host else { return true }
    return hosts.contains { $0.matches(host) }
  }

  func covers(_ narrow: ComparedConditions, in wide: ComparedConditions) -> Bool {
    CoveredHosts(hosts).covers(narrow.conditions.hosts)
  }

  var expected: String { hosts.map(\.description).abridged }
  static func seen(_ request: SeenRequest) -> String { request.host.bytes.span.string }

  /// Comparison requests are generated per host already (`WitnessHosts`).
  func addWitnesses(to dimensions: inout WitnessDimensions) {}
}

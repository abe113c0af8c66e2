// `ports`: ports of the destination.

struct PortCondition: ListCondition {
  static let setting = KnownSetting("ports", .list(.integer(1...65535)), sentence: "Ports of the destination.")
  static let subject = ConditionSubject.destination

  let ports: [UInt16]
  var values: [UInt16] { ports }

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> PortCondition? {
    let ports = reading.elements(setting, of: "integers").compactMap { element in
      reading.integer(element, in: Bounds.ports).map { (value: UInt16($0), setting: element) }
    }
    reading.warnOfRepetition(ports) { "\($0)" }
    return PortCondition(ports: ports.map(\.value))
  }

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    ports.contains(facts.port)
  }

  var expected: String { ports.map { "\($0)" }.abridged }
  static func seen(_ request: SeenRequest) -> String { "\(request.port)" }
  func addWitnesses(to dimensions: inout WitnessDimensions) { dimensions.add(ports: ports) }
}

// `units`: systemd units that the client runs in, or slices that contain those units.

struct UnitCondition: ListCondition {
  static let setting = KnownSetting(
    "units", .list(.text), sentence: "systemd units that the client runs in, or slices that contain them.")
  static let subject = ConditionSubject.sender
  static let asksFor = SenderFacts.client

  /// One of them must be a component of the client's cgroup path.
  let units: [String]
  var values: [String] { units }

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> UnitCondition? {
    let units = reading.elements(setting, of: "names of systemd units").compactMap {
      element -> (value: String, setting: Setting)? in
      guard let name = reading.string(element) else { return nil }
      if let fault = UnitName.fault(name) {
        reading.error(element, fault)
        return nil
      }
      return (name, element)
    }
    reading.warnOfRepetition(units) { $0.quoted }
    return UnitCondition(units: units.map(\.value))
  }

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    facts.sender.client?.belongs(
      toOneOf: units, countsOwn: context.namesUsers, strictly: context.isStrict) ?? false
  }

  /// A client needs to match only one element, so a list covers another only if it contains it. With users, units count
  /// that do not count without them (`LocalClient.belongs`).
  func covers(_ narrow: ComparedConditions, in wide: ComparedConditions) -> Bool {
    listsAll(of: narrow)
      && (wide.conditions[UserCondition.self] != nil || narrow.conditions[UserCondition.self] == nil)
  }

  var expected: String { units.abridged }

  static func seen(_ request: SeenRequest) -> String {
    request.asker.sender.client?.unit ?? "a client whose unit is not known"
  }

  static let option: SenderOption? = .unit
  static func isSaid(by asker: Asker) -> Bool { asker.sender.client.map { !$0.cgroup.isEmpty } ?? false }

  func fit(_ asker: inout Asker) {
    asker.sender.client = LocalClient(
      userID: asker.sender.client?.userID ?? LocalClient.noUser, user: nil, cgroup: units)
  }

  func addWitnesses(to dimensions: inout WitnessDimensions) { dimensions.add(units: units) }
}

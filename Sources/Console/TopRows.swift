// The rows of each view: its columns and their contents. Tests: TopRowsTests.

/// A screen of `sallyport top`.
public enum TopView: Int, CaseIterable, Sendable {
  case traffic, connections, rules, refusals, questions

  var title: String {
    switch self {
    case .traffic: "Traffic"
    case .connections: "Connections"
    case .rules: "Rules"
    case .refusals: "Refusals"
    case .questions: "Questions"
    }
  }

  /// The resources that it needs. What is not shown is not requested.
  public var resources: [TopResource] {
    switch self {
    case .traffic: [.status, .asks, .connections, .decisions]
    case .connections: [.status, .asks, .connections]
    case .rules: [.status, .asks, .rules]
    case .refusals: [.status, .asks, .refusals]
    case .questions: [.status, .asks]
    }
  }

  var columns: [TopColumn] {
    switch self {
    case .traffic:
      [
        TopColumn("WHO", 10, weight: 3), TopColumn("PROGRAM", 9, weight: 2), TopColumn("HOST", 17, weight: 5),
        TopColumn("RULE", 10, weight: 2), TopColumn("OPEN", 5, isNumber: true),
        TopColumn("REQ/S", 6, isNumber: true), TopColumn("BYTES/S", 10, isNumber: true),
        TopColumn("LAST", 4, isNumber: true),
      ]
    case .connections:
      [
        TopColumn("REF", 6), TopColumn("WHO", 9, weight: 3), TopColumn("PROGRAM", 8, weight: 2),
        TopColumn("HOST", 14, weight: 5), TopColumn("STATE", 7), TopColumn("RULE", 6, weight: 2),
        TopColumn("BYTES/S", 10, isNumber: true), TopColumn("BYTES", 8, isNumber: true),
        TopColumn("AGE", 4, isNumber: true),
      ]
    case .rules:
      [
        TopColumn("RULE", 18, weight: 3), TopColumn("ACTION", 7), TopColumn("HITS/S", 7, isNumber: true),
        TopColumn("TOTAL", 9, isNumber: true), TopColumn("REFUSED", 8, isNumber: true),
        TopColumn("FAILED", 7, isNumber: true), TopColumn("LAST", 5, isNumber: true),
        TopColumn("PLACE", 12, weight: 2),
      ]
    case .refusals:
      [
        TopColumn("TIME UTC", 9), TopColumn("REF", 6), TopColumn("WHO", 9, weight: 2),
        TopColumn("METHOD", 7), TopColumn("HOST", 16, weight: 4), TopColumn("REASON", 16, weight: 2),
        TopColumn("RULE", 11, weight: 2),
      ]
    case .questions:
      [
        TopColumn("REF", 6), TopColumn("STATE", 7), TopColumn("WHO", 9, weight: 2), TopColumn("PROGRAM", 8, weight: 1),
        TopColumn("METHOD", 7), TopColumn("URL", 21, weight: 5), TopColumn("N", 3, isNumber: true),
        TopColumn("SINCE", 6, isNumber: true), TopColumn("LEFT", 5, isNumber: true),
      ]
    }
  }

  /// The initial sort order of a view; numbers begin with the largest.
  var usualSort: TopSort {
    switch self {
    case .traffic: TopSort(column: 5, isDescending: true)
    case .connections: TopSort(column: 6, isDescending: true)
    case .rules: TopSort(column: 2, isDescending: true)
    case .refusals: TopSort(column: 0, isDescending: true)
    case .questions: TopSort(column: 7, isDescending: true)
    }
  }

  /// The column that decides between rows that are equal in the sorted one; the larger comes first.
  var secondColumn: Int {
    switch self {
    case .traffic: 7
    case .connections: 7
    case .rules: 3
    case .refusals: 0
    case .questions: 7
    }
  }
}

struct TopColumn: Equatable, Sendable {
  let title: String
  let least: Int
  /// Its share of the remaining columns.
  let weight: Int
  let isNumber: Bool

  init(_ title: String, _ least: Int, weight: Int = 0, isNumber: Bool = false) {
    self.title = title
    self.least = least
    self.weight = weight
    self.isNumber = isNumber
  }
}

struct TopSort: Equatable, Sendable {
  var column: Int
  var isDescending: Bool
}

struct TopCell: Equatable, Sendable {
  let text: String
  /// The sort key; nil: its text.
  var key: Double? = nil

  static func order(_ one: TopCell, _ other: TopCell) -> Int {
    if let a = one.key, let b = other.key { return a < b ? -1 : a > b ? 1 : 0 }
    return one.text < other.text ? -1 : one.text > other.text ? 1 : 0
  }
}

struct TopRow: Equatable, Sendable {
  /// The same in the next answer for the same thing, so the selection stays with it.
  let id: String
  let cells: [TopCell]
  /// The reference of the exchange for the daemon.
  var reference: String? = nil
  /// The number of a temporary permission.
  var permission: Int64? = nil
  /// What the API reports about it.
  var facts = JSONValue.null
  var isAlarming = false
}

enum TopRows {
  static func of(_ view: TopView, _ data: TopData) -> [TopRow] {
    switch view {
    case .traffic: traffic(data)
    case .connections: connections(data)
    case .rules: rules(data)
    case .refusals: refusals(data)
    case .questions: questions(data)
    }
  }

  private static func traffic(_ data: TopData) -> [TopRow] {
    data.traffic.entries.map { key, entry in
      let mark = entry.isEstimate ? "~" : ""
      return TopRow(
        id: [key.who, key.program, key.host, key.rule].joined(separator: "\n"),
        cells: [
          TopCell(text: key.who), TopCell(text: key.program), TopCell(text: key.host), TopCell(text: key.rule),
          TopCell(text: entry.open == 0 ? "-" : "\(entry.open)", key: Double(entry.open)),
          TopCell(text: mark + Figures.rate(entry.requestsPerSecond), key: entry.requestsPerSecond),
          TopCell(text: mark + Figures.size(entry.bytesPerSecond), key: entry.bytesPerSecond),
          moment(entry.last, data),
        ], reference: entry.reference, facts: entry.connection)
    }
  }

  private static func connections(_ data: TopData) -> [TopRow] {
    data.connections.map { connection in
      let reference = connection["ref"].text
      let rate = reference.flatMap { data.byteRates[$0] } ?? 0
      let bytes = TopData.bytes(connection)
      let age = connection["age_ms"].whole
      return TopRow(
        id: connection["client"].text.map { "\($0) \(reference ?? "")" } ?? "",
        cells: [
          TopCell(text: reference ?? "-"), TopCell(text: TopData.who(connection)),
          TopCell(text: TopData.program(connection)), TopCell(text: TopData.host(connection)),
          TopCell(text: connection["state"].text ?? "-"), TopCell(text: connection["rule"].text ?? "-"),
          TopCell(text: Figures.size(rate), key: rate), TopCell(text: Figures.size(bytes), key: bytes),
          TopCell(text: age.map(Figures.age) ?? "-", key: Double(age ?? -1)),
        ], reference: reference, facts: connection)
    }
  }

  private static func rules(_ data: TopData) -> [TopRow] {
    data.rules.enumerated().map { index, rule in
      let rate = index < data.ruleRates.count ? data.ruleRates[index] : 0
      let hits = rule["hits"].whole ?? 0
      let refused = TopData.refusals(in: rule["failed"])
      let failed = rule["failed"].members.reduce(0) { $0 + ($1.value.number ?? 0) } - refused
      let action = rule["action"].text ?? "-"
      return TopRow(
        id: TopData.name(rule),
        cells: [
          TopCell(text: TopData.name(rule)),
          TopCell(text: rule["enforce"] == .boolean(false) ? "(\(action))" : action),
          TopCell(text: Figures.rate(rate), key: rate), TopCell(text: Figures.count(hits), key: Double(hits)),
          TopCell(text: Figures.count(Int64(refused)), key: refused),
          TopCell(text: Figures.count(Int64(failed)), key: failed), moment(Figures.moment(rule["last"].text), data),
          TopCell(text: rule["location"].text.map(place) ?? "-"),
        ], facts: rule)
    }
  }

  private static func refusals(_ data: TopData) -> [TopRow] {
    data.refusals.map { refusal in
      let reference = refusal["ref"].text
      let began = Figures.moment(refusal["time"].text) ?? 0
      return TopRow(
        id: reference ?? "",
        cells: [
          TopCell(
            text: Figures.timeOfDay(refusal["time"].text ?? ""),
            key: Double(began + refusal["total_ms"].wholePart)),
          TopCell(text: reference ?? "-"), TopCell(text: TopData.who(refusal)),
          TopCell(text: refusal["method"].text ?? "-"),
          TopCell(text: TopData.host(ofTarget: refusal["target"].text ?? "")), TopCell(text: reason(refusal)),
          TopCell(text: refusal["rule"].text ?? "-"),
        ], reference: reference, facts: refusal)
    }
  }

  /// Why it was refused: by the decision of the policy, or by something later.
  private static func reason(_ refusal: JSONValue) -> String {
    let outcome = refusal["outcome"].text
    if outcome == "denied" || outcome == nil { return refusal["reason"].text ?? outcome ?? "-" }
    return outcome ?? "-"
  }

  private static func questions(_ data: TopData) -> [TopRow] {
    let waiting = data.questions.map { ask in
      let reference = ask["ref"].text
      let count = ask["waiting"].whole ?? 1
      return TopRow(
        id: reference ?? "",
        cells: [
          TopCell(text: reference ?? "-"), TopCell(text: "waits"), TopCell(text: TopData.who(ask)),
          TopCell(text: TopData.program(ask)), TopCell(text: ask["method"].text ?? "-"),
          TopCell(text: ask["url"].text ?? ask["host"].text ?? "-"), TopCell(text: "\(count)", key: Double(count)),
          moment(Figures.moment(ask["since"].text), data, newestFirst: false), remaining(ask, data),
        ], reference: reference, facts: ask, isAlarming: true)
    }
    let permissions = data.asks["temporary"].elements.map { permission in
      let number = permission["id"].whole
      let port = permission["port"].whole.map { ":\($0)" } ?? ""
      return TopRow(
        id: number.map { "#\($0)" } ?? "",
        cells: [
          TopCell(text: number.map { "#\($0)" } ?? "-"), TopCell(text: permission["verdict"].text ?? "-"),
          TopCell(text: TopData.who(permission)), TopCell(text: "-"), TopCell(text: permission["method"].text ?? "-"),
          TopCell(text: (permission["host"].text ?? "-") + port + (permission["path"].text ?? "")),
          TopCell(text: "-", key: 0), moment(Figures.moment(permission["since"].text), data, newestFirst: false),
          remaining(permission, data),
        ], permission: number, facts: permission)
    }
    return waiting + permissions
  }

  /// How long ago it was. `newestFirst`: newer moments sort higher.
  private static func moment(_ wall: Int64?, _ data: TopData, newestFirst: Bool = true) -> TopCell {
    guard let wall, wall > 0 else { return TopCell(text: "-", key: -.infinity) }
    return TopCell(text: Figures.age(max(0, data.now.wall - wall)), key: Double(newestFirst ? wall : -wall))
  }

  private static func remaining(_ value: JSONValue, _ data: TopData) -> TopCell {
    guard let until = Figures.moment(value["until"].text) else { return TopCell(text: "-", key: .infinity) }
    return TopCell(text: Figures.age(max(0, until - data.now.wall)), key: Double(until))
  }

  /// `sallyport:12` from `/etc/sallyport/sallyport.toml:12`: people look for the line.
  private static func place(_ location: String) -> String {
    let file = location.split(separator: "/").last.map(String.init) ?? location
    guard let suffix = file.firstRange(of: ".toml:") else { return file }
    return file[..<suffix.lowerBound] + ":" + file[suffix.upperBound...]
  }
}

// The model as lines of cells: two summary lines, the views, a table or a page, and the keys. The terminal only draws
// them. Tests: TopScreenTests.

import Bytes

/// How a part of a line is drawn. Nothing depends on colour alone: each style also has an attribute.
public enum TopStyle: Int32, Sendable {
  case plain, bold, selected, title, alarm, faint
}

public struct TopSpan: Equatable, Sendable {
  public let text: String
  public let style: TopStyle

  init(_ text: String, _ style: TopStyle = .plain) {
    self.text = text
    self.style = style
  }
}

/// A line exactly as wide as the terminal. A screen has as many as the terminal.
public typealias TopLine = [TopSpan]

enum TopScreen {
  /// Lines above the rows and below them.
  static let headLines = 4
  static let footLines = 1
  /// A smaller terminal is not readable.
  static let leastColumns = 40
  static let leastLines = 8

  static func rows(lines: Int) -> Int { max(1, lines - headLines - footLines) }
  static func pageLines(lines: Int) -> Int { max(1, lines - 2 - footLines - 1) }

  static let help = """
    1 to 5, Tab      traffic, connections, rules, refusals, questions
    up, down, j, k   choose a row; PgUp, PgDn, Home, End
    Enter            more on the row: why a request was decided so, where a
                     rule stands, what a connection does
    /                show only rows that hold a text, in any column; Esc: all
    s, < and >       sort by another column
    r                reverse the order
    c                cancel the selected connection, after a question
    a  A  d          in Questions: allow once, allow for an hour, deny
    x                in Questions: take a temporary answer back
    p                pause, and go on
    q                quit

    REQ/S and BYTES/S are means of the last interval. ~ marks an estimate:
    more requests ended than were looked at. An action in brackets, (deny),
    is of a rule that is not enforced.
    """
}

extension TopModel {
  /// The contents of the terminal.
  public var screen: [TopLine] {
    guard columns >= TopScreen.leastColumns, lines >= TopScreen.leastLines else {
      let line = [TopSpan(glyphs.fit("needs \(TopScreen.leastColumns)x\(TopScreen.leastLines)", columns), .bold)]
      return [line] + Array(repeating: [TopSpan(glyphs.fit("", columns))], count: max(0, lines - 1))
    }
    var screen = [firstLine, secondLine]
    if case .page(let title, let text, let top) = mode {
      screen.append([TopSpan(glyphs.fit(title, columns), .title)])
      let page = glyphs.wrap(text, columns).dropFirst(top).prefix(lines - screen.count - TopScreen.footLines)
      screen += page.map { [TopSpan(glyphs.fit($0, columns))] }
    } else {
      screen.append(tabs)
      screen += table
    }
    while screen.count < lines - TopScreen.footLines { screen.append([TopSpan(glyphs.fit("", columns))]) }
    return screen + [footer]
  }

  // MARK: Head

  private var firstLine: TopLine {
    let status = data.status
    if let fault { return spans([("sallyport: trying again; \(fault)", .alarm)], between: "") }
    guard status != .null else { return spans([("sallyport: asking the daemon", .bold)], between: "") }
    var parts: [(String, TopStyle)] = [
      ("sallyport \(status["version"].text ?? "")", .bold),
      ("up \(String.duration(seconds: status["uptime_seconds"].whole ?? 0))", .plain),
      (status["reachability"].text ?? "unknown", status["reachability"].text == "not-reachable" ? .alarm : .plain),
    ]
    if isPaused { parts.insert(("PAUSED", .alarm), at: 0) }
    if status["draining"].truth { parts.append(("draining", .alarm)) }
    let policy = status["policy"]
    let loaded = Figures.moment(policy["loaded"].text).map { " read \(Figures.age(max(0, data.now.wall - $0))) ago" }
    parts.append(("\(String.counted(policy["rules"].whole ?? 0, "rule"))\(loaded ?? "")", .plain))
    if policy["failure"] != .null { parts.append(("reload failed", .alarm)) }
    let warnings = status["warnings"].elements.count
    if warnings > 0 { parts.append((String.counted(Int64(warnings), "warning"), .alarm)) }
    let waiting = status["waiting"].whole ?? 0
    if waiting > 0 { parts.append(("\(waiting) wait for the network", .alarm)) }
    return spans(parts)
  }

  private var secondLine: TopLine {
    let status = data.status
    guard status != .null else { return spans([]) }
    let connections = status["connections"]
    var parts: [(String, TopStyle)] = []
    let questions = data.questions.count
    if questions > 0 { parts.append((String.counted(Int64(questions), "QUESTION"), .alarm)) }
    parts += [
      (String.counted(connections["clients"].whole ?? 0, "client"), .plain),
      (String.counted(connections["tunnels"].whole ?? 0, "tunnel"), .plain),
      ("\(Figures.rate(data.rates.requests)) req/s", .bold),
      ("\(Figures.rate(data.rates.refusals)) refused/s", data.rates.refusals > 0 ? .alarm : .plain),
      ("\(Figures.size(data.rates.bytes))/s", .plain),
    ]
    if let ratio = cacheRatio { parts.append(("cache \(ratio) %", .plain)) }
    return spans(parts)
  }

  /// The percentage of all requests involving the cache that it answered.
  private var cacheRatio: Int? {
    let requests = data.status["cache"]["results"].members
    let all = requests.reduce(0) { $0 + ($1.value.number ?? 0) }
    guard all > 0 else { return nil }
    let served = requests.reduce(0) { Self.served.contains($1.name) ? $0 + ($1.value.number ?? 0) : $0 }
    return Int(served * 100 / all)
  }

  /// Cache results for which the origin sent no content.
  private static let served: Set<String> = ["hit", "stale", "offline", "revalidated", "collapsed"]

  private var tabs: TopLine {
    let parts = TopView.allCases.map { view -> (String, TopStyle) in
      let count = view == .questions && !data.questions.isEmpty ? " (\(data.questions.count))" : ""
      let style: TopStyle = view == self.view ? .selected : count.isEmpty ? .plain : .alarm
      return (" \(view.rawValue + 1) \(view.title)\(count) ", style)
    }
    return spans(parts, between: "")
  }

  /// The parts on one line, as far as they fit.
  private func spans(_ parts: [(String, TopStyle)], between gap: String = "  ") -> TopLine {
    var line: TopLine = []
    var room = columns
    for (text, style) in parts {
      let before = line.isEmpty ? "" : gap
      if room <= before.utf8.count { break }
      room -= before.utf8.count
      if !before.isEmpty { line.append(TopSpan(before)) }
      let width = min(room, glyphs.columns(glyphs.safe(text)))
      line.append(TopSpan(glyphs.fit(text, width), style))
      room -= width
    }
    line.append(TopSpan(String(repeating: " ", count: room)))
    return line
  }

  // MARK: Table

  private var table: [TopLine] {
    let shown = view.columns
    let widths = Self.widths(of: shown, columns)
    func line(_ cells: [String], _ style: TopStyle) -> TopLine {
      let text = shown.indices.filter { widths[$0] > 0 }
        .map { glyphs.fit(cells[$0], widths[$0], isRight: shown[$0].isNumber) }.joined(separator: " ")
      return [TopSpan(text + String(repeating: " ", count: max(0, columns - glyphs.columns(text))), style)]
    }
    let titles = shown.enumerated().map { index, column in
      index == place.sort.column ? column.title + (place.sort.isDescending ? "v" : "^") : column.title
    }
    var lines = [line(titles, .title)]
    let page = TopScreen.rows(lines: self.lines)
    for index in place.top..<max(place.top, min(rows.count, place.top + page)) {
      let row = rows[index]
      lines.append(line(row.cells.map(\.text), index == place.index ? .selected : row.isAlarming ? .bold : .plain))
    }
    if rows.isEmpty { lines.append([TopSpan(glyphs.fit(emptiness, columns), .faint)]) }
    return lines
  }

  /// Why there are no rows.
  private var emptiness: String {
    if data.status == .null { return "" }
    if view == .questions, data.hasNoAsks { return "this daemon asks no questions: it is older than 'ask'" }
    if !place.filter.isEmpty { return "no row holds '\(place.filter)'; Esc shows all" }
    return switch view {
    case .traffic: "no traffic yet"
    case .connections: "no connections"
    case .rules: "the policy has no rules"
    case .refusals: "nothing was refused lately"
    case .questions: "no question waits"
    }
  }

  /// The width of each column; 0: it is left out. Columns with a weight get what remains.
  static func widths(of shown: [TopColumn], _ columns: Int) -> [Int] {
    var widths = shown.map { max($0.least, $0.isNumber ? $0.title.utf8.count : 0) }
    func total() -> Int { widths.reduce(-1) { $1 > 0 ? $0 + $1 + 1 : $0 } }
    // The rows stay readable: the last columns are left out.
    var last = shown.count - 1
    while total() > columns, last > 0 {
      widths[last] = 0
      last -= 1
    }
    let spare = columns - total()
    let weight = shown.indices.reduce(0) { widths[$1] > 0 ? $0 + shown[$1].weight : $0 }
    guard spare > 0, weight > 0 else { return widths }
    var given = 0
    for index in shown.indices where widths[index] > 0 {
      let part = spare * shown[index].weight / weight
      widths[index] += part
      given += part
    }
    if let first = shown.indices.first(where: { shown[$0].weight > 0 }) { widths[first] += spare - given }
    return widths
  }

  // MARK: Foot

  private var footer: TopLine {
    switch mode {
    case .confirm(_, let question): return spans([(question, .alarm)], between: "")
    case .filter: return spans([("filter: \(place.filter)_", .bold), ("Enter keeps it, Esc shows all", .faint)])
    case .page: return spans([("up and down scroll, any other key goes back", .faint)], between: "")
    case .table:
      if let message { return spans([(message, .bold)], between: "") }
      var keys = "? help  / filter  s sort  r reverse  Enter more  p pause  q quit"
      if view == .connections { keys = "c cancel  " + keys }
      if view == .questions { keys = "a once  A an hour  d deny  x revoke  ? help  q quit" }
      let filter: [(String, TopStyle)] = place.filter.isEmpty ? [] : [("[\(place.filter)]", .bold)]
      return spans(filter + [(keys, .faint)])
    }
  }
}

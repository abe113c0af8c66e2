// The state of `sallyport top`: answers of the daemon, keys and the size of the terminal come in; lines and actions go
// out. It reads no clock and writes nowhere. TopScreen makes the lines. Tests: TopModelTests.

public enum TopKey: Equatable, Sendable {
  case character(Unicode.Scalar)
  case up, down, left, right, pageUp, pageDown, home, end
  case enter, escape, backspace, tab, backTab
}

/// The effect of a key beyond the screen.
public enum TopAction: Equatable, Sendable {
  case quit
  /// Request what the view needs at once.
  case refresh
  case ask(TopRequest)
}

/// A request to the daemon by the person at the keyboard.
public struct TopRequest: Equatable, Sendable {
  public enum Purpose: Equatable, Sendable {
    /// The answer is a page with this title.
    case page(String)
    /// The answer is a line.
    case act
  }

  public let method: String
  public let path: String
  public let purpose: Purpose
}

public struct TopModel: Sendable {
  /// The current meaning of keys.
  enum Mode: Equatable, Sendable {
    case table
    /// A filter is being typed.
    case filter
    /// A request and what it will do; `y` sends it.
    case confirm(TopRequest, question: String)
    case page(title: String, text: String, top: Int)
  }

  /// What a view remembers while another one is shown.
  struct Place: Equatable, Sendable {
    var sort: TopSort
    var filter = ""
    /// The selected row, by position and by id.
    var index = 0
    var id: String? = nil
    /// The selection stays with its row. Otherwise it stays at its position, so the first row is always the busiest.
    var follows = false
    /// Another row than the one that was chosen is selected, because that one is gone or has moved: what is pressed now
    /// may have been meant for it.
    var hasSlipped = false
    /// The first row that is shown.
    var top = 0
  }

  /// The most characters of a filter.
  static let longestFilter = 60

  let glyphs: Glyphs
  var data = TopData()
  public private(set) var view = TopView.traffic
  var mode = Mode.table
  public private(set) var isPaused = false
  /// Why the daemon cannot be reached; nil: it can.
  private(set) var fault: String? = nil
  /// The result of the last action.
  private(set) var message: String? = nil
  private(set) var rows: [TopRow] = []
  private(set) var columns = 80
  private(set) var lines = 24
  private var places = TopView.allCases.map { Place(sort: $0.usualSort) }

  public init(_ glyphs: Glyphs) { self.glyphs = glyphs }

  var place: Place {
    get { places[view.rawValue] }
    set { places[view.rawValue] = newValue }
  }

  var selected: TopRow? { rows.indices.contains(place.index) ? rows[place.index] : nil }

  // MARK: What comes in

  public mutating func resize(columns: Int, lines: Int) {
    self.columns = columns
    self.lines = lines
    settle()
  }

  /// An answer to a regular request.
  public mutating func take(_ resource: TopResource, status: Int, content: [UInt8], at moment: TopMoment) {
    fault = nil
    if resource == .asks, status == 404 { return data.noteNoAsks() }
    guard status == 200, let value = JSONValue(content) else {
      message = "\(resource.path): \(Self.detail(status, content))"
      return
    }
    data.take(resource, value, at: moment)
    if resource == view.resources.last || resource == .asks { rebuild() }
  }

  /// An answer to a request by a person.
  public mutating func take(_ request: TopRequest, status: Int, content: [UInt8]) {
    fault = nil
    let text = String(decoding: content, as: UTF8.self)
    guard status == 200 else {
      message = Self.detail(status, content)
      return
    }
    switch request.purpose {
    case .page(let title): mode = .page(title: title, text: text, top: 0)
    case .act: message = text.split(separator: "\n").first.map(String.init) ?? "done"
    }
  }

  /// The daemon is gone; the last data is shown until it is back.
  public mutating func lose(_ reason: String) { fault = reason }

  /// The daemon is back, perhaps as another process.
  public mutating func regain() {
    if fault == nil { return }
    fault = nil
    data.forget()
    rebuild()
  }

  /// The text of a refusal.
  private static func detail(_ status: Int, _ content: [UInt8]) -> String {
    if let detail = JSONValue(content)?["detail"].text { return detail }
    let line = String(decoding: content, as: UTF8.self).split(separator: "\n").first.map(String.init)
    return line ?? "the daemon answered \(status)"
  }

  // MARK: Rows

  private mutating func rebuild() {
    var rows = TopRows.of(view, data)
    let filter = place.filter.lowercased()
    if !filter.isEmpty { rows = rows.filter { $0.cells.contains { $0.text.lowercased().contains(filter) } } }
    let sort = place.sort
    let second = view.secondColumn
    rows.sort { one, other in
      let order = TopCell.order(one.cells[sort.column], other.cells[sort.column])
      if order != 0 { return sort.isDescending ? order > 0 : order < 0 }
      let next = TopCell.order(one.cells[second], other.cells[second])
      return next != 0 ? next > 0 : one.id < other.id
    }
    self.rows = rows
    let chosen = place.id
    if place.follows, let index = rows.firstIndex(where: { $0.id == place.id }) { place.index = index }
    settle()
    if let chosen, place.id != nil, place.id != chosen { place.hasSlipped = true }
  }

  /// The same for what a person asked to see: the selection is what they look at then.
  private mutating func rebuildAsAsked() {
    rebuild()
    place.hasSlipped = false
  }

  /// Keeps the selection among the rows and on the screen.
  private mutating func settle() {
    place.index = max(0, min(place.index, rows.count - 1))
    // Where nothing is left, the choice is remembered: what comes next is another row.
    if let id = selected?.id { place.id = id }
    let page = TopScreen.rows(lines: lines)
    if place.index < place.top { place.top = place.index }
    if place.index >= place.top + page { place.top = place.index - page + 1 }
    place.top = max(0, min(place.top, rows.count - page))
  }

  private mutating func move(to index: Int) -> TopAction? {
    place.follows = index > 0
    place.hasSlipped = false
    place.index = index
    settle()
    return nil
  }

  // MARK: Keys

  public mutating func press(_ key: TopKey) -> TopAction? {
    message = nil
    switch mode {
    case .table: return pressInTable(key)
    case .filter: return pressInFilter(key)
    case .confirm(let request, _):
      mode = .table
      if key == .character("y") || key == .character("Y") { return .ask(request) }
      message = "nothing was done"
      return nil
    case .page(let title, let text, let top): return pressInPage(key, title: title, text: text, top: top)
    }
  }

  private mutating func pressInTable(_ key: TopKey) -> TopAction? {
    let page = TopScreen.rows(lines: lines)
    switch key {
    case .up: return move(to: place.index - 1)
    case .down: return move(to: place.index + 1)
    case .pageUp: return move(to: place.index - page)
    case .pageDown: return move(to: place.index + page)
    case .home: return move(to: 0)
    case .end: return move(to: rows.count - 1)
    case .tab: return show(TopView(rawValue: (view.rawValue + 1) % TopView.allCases.count))
    case .backTab:
      let count = TopView.allCases.count
      return show(TopView(rawValue: (view.rawValue + count - 1) % count))
    case .left: return sort(by: -1)
    case .right: return sort(by: 1)
    case .enter: return drillDown()
    case .escape:
      place.filter = ""
      rebuildAsAsked()
      return nil
    case .backspace: return nil
    case .character(let character): return press(character)
    }
  }

  private mutating func press(_ character: Unicode.Scalar) -> TopAction? {
    switch character {
    case "q", "Q", "\u{3}": return .quit
    case "1"..."5": return show(TopView(rawValue: Int(character.value) - 0x31))
    case "/":
      mode = .filter
      return nil
    case "s", ">": return sort(by: 1)
    case "<": return sort(by: -1)
    case "r":
      place.sort.isDescending.toggle()
      rebuild()
      return nil
    case "p":
      isPaused.toggle()
      return isPaused ? nil : .refresh
    case "?", "h":
      mode = .page(title: "Keys", text: TopScreen.help, top: 0)
      return nil
    case "c": return cancel()
    case "a": return answer("allow", "")
    case "A": return answer("allow", "&for=1h")
    case "d": return answer("deny", "")
    case "x": return revoke()
    case "j": return move(to: place.index + 1)
    case "k": return move(to: place.index - 1)
    default:
      message = "no such key; ? shows them"
      return nil
    }
  }

  private mutating func pressInFilter(_ key: TopKey) -> TopAction? {
    switch key {
    case .enter: mode = .table
    case .escape:
      mode = .table
      place.filter = ""
    case .backspace: if !place.filter.isEmpty { place.filter.unicodeScalars.removeLast() }
    case .character(let character):
      if place.filter.unicodeScalars.count < Self.longestFilter, character.value >= 0x20, character.value != 0x7f {
        place.filter.unicodeScalars.append(character)
      }
    default: break
    }
    rebuildAsAsked()
    return nil
  }

  private mutating func pressInPage(_ key: TopKey, title: String, text: String, top: Int) -> TopAction? {
    let page = TopScreen.pageLines(lines: lines)
    let most = max(0, glyphs.wrap(text, columns).count - page)
    func scroll(to line: Int) -> Mode { .page(title: title, text: text, top: max(0, min(line, most))) }
    switch key {
    case .up, .character("k"): mode = scroll(to: top - 1)
    case .down, .character("j"): mode = scroll(to: top + 1)
    case .pageUp: mode = scroll(to: top - page)
    case .pageDown, .character(" "): mode = scroll(to: top + page)
    case .home: mode = scroll(to: 0)
    case .end: mode = scroll(to: most)
    case .character("\u{3}"): return .quit
    default: mode = .table
    }
    return nil
  }

  private mutating func show(_ view: TopView?) -> TopAction? {
    guard let view else { return nil }
    self.view = view
    rebuildAsAsked()
    return .refresh
  }

  private mutating func sort(by step: Int) -> TopAction? {
    let count = view.columns.count
    let column = (place.sort.column + step + count) % count
    place.sort = TopSort(column: column, isDescending: view.columns[column].isNumber)
    rebuildAsAsked()
    return nil
  }

  // MARK: What is done to the selected row

  private mutating func drillDown() -> TopAction? {
    guard let row = selected else { return nil }
    switch view {
    case .traffic, .refusals:
      // The daemon has no decision in its memory yet for what is under way.
      guard let reference = row.reference else { return showFacts(of: row, "Under way") }
      return .ask(
        TopRequest(method: "GET", path: "/v1/decisions/\(Self.word(reference))", purpose: .page("Request \(reference)"))
      )
    case .connections: return showFacts(of: row, "Connection")
    case .rules: return showFacts(of: row, "Rule \(row.id)")
    case .questions: return showFacts(of: row, row.permission == nil ? "Question \(row.id)" : "Permission \(row.id)")
    }
  }

  private mutating func showFacts(of row: TopRow, _ title: String) -> TopAction? {
    let members = row.facts.members
    let width = members.map { $0.name.utf8.count }.max() ?? 0
    let text = members.map { member in
      let padding = String(repeating: " ", count: width - member.name.utf8.count + 2)
      return member.name + padding + (member.value == .null ? "-" : member.value.plain.printableLine)
    }
    mode = .page(title: title, text: text.joined(separator: "\n"), top: 0)
    return nil
  }

  private mutating func cancel() -> TopAction? {
    guard view == .connections, let row = selected, let reference = row.reference else {
      message =
        view == .connections
        ? "nothing is under way in this connection" : "choose what to cancel among the connections (2)"
      return nil
    }
    let host = row.facts["host"].text ?? "?"
    mode = .confirm(
      TopRequest(method: "POST", path: "/v1/cancel?ref=\(Self.word(reference))", purpose: .act),
      question: "cancel \(reference), \(TopData.who(row.facts)) to \(host)? y/n")
    return nil
  }

  private mutating func answer(_ verdict: String, _ more: String) -> TopAction? {
    guard view == .questions, let row = selected, row.permission == nil, let reference = row.reference else {
      message = view == .questions ? "no question is selected" : "questions are answered in their view (5)"
      return nil
    }
    return act(
      TopRequest(method: "POST", path: "/v1/\(verdict)?ref=\(Self.word(reference))\(more)", purpose: .act),
      "\(verdict) \(reference), \(TopData.who(row.facts)) to \(row.facts["host"].text ?? "?")")
  }

  /// Does what was pressed for the selected row, and asks first if that may have been another one.
  private mutating func act(_ request: TopRequest, _ what: String) -> TopAction? {
    if !place.hasSlipped { return .ask(request) }
    place.hasSlipped = false
    mode = .confirm(request, question: "the rows have moved: \(what)? y/n")
    return nil
  }

  private mutating func revoke() -> TopAction? {
    guard view == .questions, let number = selected?.permission else {
      message = "choose a temporary answer among the questions (5)"
      return nil
    }
    return act(TopRequest(method: "POST", path: "/v1/revoke?id=\(number)", purpose: .act), "revoke answer \(number)")
  }

  /// A reference is letters and digits; nothing else may get into a path.
  private static func word(_ reference: String) -> String {
    reference.filter { $0.isASCII && ($0.isLetter || $0.isNumber) }
  }
}

extension String {
  /// The text in one line.
  fileprivate var printableLine: String { split(separator: "\n").joined(separator: " ") }
}

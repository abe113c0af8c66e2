// sallyport log: past decisions, from the history file. It does not ask a daemon. Tests: test_history.py.

import Bytes
import History
import Policy
import Server
import Transport

nonisolated func logCommand(_ arguments: Arguments) throws -> Int32 {
  try arguments.refuseOperands()
  let options = HistoryOptions(arguments)
  let form = try OutputForm(arguments)
  let limit = try options.number("limit", atLeast: 0)
  let groupings = try arguments.values["by"].map(readGroupings)
  let selection = try options.selection()
  let reader = try options.open()
  if let groupings {
    var counts = HistoryCounts(by: groupings)
    try reader.forEach(selection) { record, kind in
      counts.count(record, kind)
      return true
    }
    CountsOutput(counts, form, limit: limit).write()
  } else {
    try ExchangesOutput(form).write(reader, selection, limit: limit)
  }
  return 0
}

private nonisolated func readGroupings(_ text: String) throws -> [HistoryGrouping] {
  try text.split(separator: ",", omittingEmptySubsequences: false).map { name in
    if let grouping = HistoryGrouping(String(name)) { return grouping }
    let nearest = nearestWord(to: String(name), among: HistoryGrouping.names).map { "; did you mean '\($0)'?" } ?? ""
    throw UsageError(
      message:
        "'--by': expected \(Arguments.alternatives(HistoryGrouping.names)) between commas, found '\(name)'\(nearest)")
  }
}

/// The format of the output.
enum OutputForm {
  case table, json, csv

  init(_ arguments: Arguments) throws {
    let flags = arguments.flags
    if flags.contains("json"), flags.contains("csv") {
      throw UsageError(message: "'--json' and '--csv' are two forms; expected one of them")
    }
    self = flags.contains("json") ? .json : flags.contains("csv") ? .csv : .table
  }
}

/// Cells as a line of RFC 4180, ended by a line feed.
nonisolated func csvLine(_ cells: [String]) -> String {
  cells.map { cell in
    let text = cell.printable
    return text.contains(where: { ",\"".contains($0) })
      ? "\"" + text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\"" : text
  }.joined(separator: ",") + "\n"
}

// MARK: One line an exchange

private struct ExchangesOutput {
  /// The number of lines of a table without --limit: a few screens, so a query without bounds is answered at once.
  private static let usualLimit = 200
  /// How many lines are formatted and written together. Their column widths are computed once.
  private static let linesAtOnce = 500

  let form: OutputForm
  private let words = HistoryWord.allCases.filter { ![.scheme, .host, .port, .method, .owners].contains($0) }

  init(_ form: OutputForm) { self.form = form }

  /// The newest last. `limit`: how many of the newest; 0: all.
  func write(_ reader: HistoryReader, _ selection: HistorySelection, limit: Int?) throws {
    let most = limit ?? (form == .table ? Self.usualLimit : 0)
    var lines = Lines(form)
    begin(&lines)
    guard most > 0 else {
      try reader.forEach(selection) { record, kind in
        add(record, kind, lines: &lines)
        return true
      }
      return lines.flush()
    }
    var newest: [(HistoryRecord, HistoryKind)] = []
    var hasMore = false
    try reader.forEach(selection, newestFirst: true) { record, kind in
      hasMore = newest.count == most
      if !hasMore { newest.append((record, kind)) }
      return !hasMore
    }
    for (record, kind) in newest.reversed() { add(record, kind, lines: &lines) }
    lines.flush()
    if newest.isEmpty, form == .table { Output.complain("sallyport: nothing that was recorded matches\n") }
    if hasMore, limit == nil {
      Output.complain("sallyport: these are the newest \(most); --limit N shows more, --limit 0 all\n")
    }
  }

  private func begin(_ lines: inout Lines) {
    if form == .csv {
      lines.add(
        csvLine(
          ["time", "ref", "method", "target", "host", "port", "path", "status", "bytes_in", "bytes_out", "total_ms"]
            + words.map(\.rawValue)))
    }
  }

  private func add(_ record: HistoryRecord, _ kind: HistoryKind, lines: inout Lines) {
    switch form {
    case .table: lines.add(cells(record, kind))
    case .json: lines.add(json(record, kind))
    case .csv:
      lines.add(
        csvLine(
          [
            time(record), record.referenceText, kind[.method] ?? "", kind.origin + record.path, kind[.host] ?? "",
            kind[.port] ?? "", record.path, "\(record.status)", "\(record.bytesIn)", "\(record.bytesOut)",
            total(record),
          ] + words.map { kind[$0] ?? "" }))
    }
  }

  /// `2026-11-24T02:31:46.123Z`
  private func time(_ record: HistoryRecord) -> String {
    let fraction = "\(1000 + record.begunWall % 1000)".dropFirst()
    return HistoryMoment.text(record.begunWall).split(separator: " ").joined(separator: "T") + ".\(fraction)Z"
  }

  /// `12.345`
  private func total(_ record: HistoryRecord) -> String {
    var text = ByteBuffer()
    text.append(thousandths: UInt64(max(0, record.totalMicroseconds)))
    return text.bytes.string
  }

  private func cells(_ record: HistoryRecord, _ kind: HistoryKind) -> [String] {
    [
      HistoryMoment.text(record.begunWall), record.referenceText, kind[.user] ?? kind[.uid] ?? kind[.client] ?? "-",
      record.status == 0 ? "-" : "\(record.status)", kind[.decision] ?? "-", kind[.rule] ?? HistorySelection.noRule,
      kind[.outcome] ?? "", "\(total(record)) ms", kind[.method] ?? "-", kind.origin + record.path,
    ]
  }

  private func json(_ record: HistoryRecord, _ kind: HistoryKind) -> String {
    var members: [(String, JSONText)] = [("time", .string(time(record))), ("ref", .string(record.referenceText))]
    func add(_ word: HistoryWord) {
      guard let text = kind[word] else { return }
      let number = word == .port || word == .uid ? Int(text) : nil
      members.append((word.rawValue, number.map { .number($0) } ?? .string(text)))
    }
    add(.method)
    members.append(("target", .string(kind.origin + record.path)))
    for word in [HistoryWord.scheme, .host, .port] { add(word) }
    if !record.path.isEmpty { members.append(("path", .string(record.path))) }
    if record.status > 0 { members.append(("status", .number(Int(record.status)))) }
    for word in words { add(word) }
    members += [
      ("bytes_in", .number(Int(record.bytesIn))), ("bytes_out", .number(Int(record.bytesOut))),
      ("total_ms", .real(Double(record.totalMicroseconds) / 1000)),
    ]
    return JSONText.object(members).text + "\n"
  }

  /// Lines to be written.
  private struct Lines {
    private var text = ""
    private var count = 0
    private var table = TextTable(
      ["TIME (UTC)", "REF", "USER", "STATUS", "DECISION", "RULE", "OUTCOME", "TOTAL", "METHOD", "TARGET"].map {
        TextTable.Column(title: $0, isNumber: $0 == "STATUS" || $0 == "TOTAL")
      }, width: Terminal.columns)
    private var hasHead = false
    private let isTable: Bool

    init(_ form: OutputForm) { isTable = form == .table }

    mutating func add(_ line: String) {
      text += line
      count += 1
      if count >= linesAtOnce { flush() }
    }

    mutating func add(_ cells: [String]) {
      table.add(cells)
      if table.count >= linesAtOnce { flush() }
    }

    mutating func flush() {
      if isTable, table.count > 0 {
        text += table.take(hasHead: !hasHead)
        hasHead = true
      }
      Output.answer(text)
      text = ""
      count = 0
    }
  }
}

// MARK: Counts

private struct CountsOutput {
  let counts: HistoryCounts
  let form: OutputForm
  let groups: [HistoryCounts.Group]

  init(_ counts: HistoryCounts, _ form: OutputForm, limit: Int?) {
    self.counts = counts
    self.form = form
    let sorted = counts.sorted
    groups = limit.map { $0 > 0 ? Array(sorted.prefix($0)) : sorted } ?? sorted
  }

  func write() {
    let names = counts.groupings.map(\.name)
    switch form {
    case .table:
      var table = TextTable(
        ["COUNT", "REFUSED", "IN", "OUT", "LAST (UTC)"].map { .init(title: $0, isNumber: $0 != "LAST (UTC)") }
          + names.map { .init(title: $0.uppercased()) }, width: Terminal.columns)
      for group in groups {
        table.add(
          [
            "\(group.count)", "\(group.denied)", ByteCount.text(group.bytesIn), ByteCount.text(group.bytesOut),
            HistoryMoment.text(group.last),
          ] + group.key.map { $0.isEmpty ? "-" : $0 })
      }
      Output.answer(table.take(hasHead: table.count > 0))
    case .json:
      Output.answer(
        groups.map { group in
          let words = zip(names, group.key).map { ($0, $1.isEmpty ? JSONText.null : .string($1)) }
          return JSONText.object(
            words + [
              ("count", .number(Int(group.count))), ("refused", .number(Int(group.denied))),
              ("bytes_in", .number(Int(group.bytesIn))), ("bytes_out", .number(Int(group.bytesOut))),
              ("last", .string(moment(group.last))),
            ]
          ).text + "\n"
        }.joined())
    case .csv:
      var text = csvLine(names + ["count", "refused", "bytes_in", "bytes_out", "last"])
      for group in groups {
        text += csvLine(
          group.key + [
            "\(group.count)", "\(group.denied)", "\(group.bytesIn)", "\(group.bytesOut)", moment(group.last),
          ])
      }
      Output.answer(text)
    }
  }

  private func moment(_ wall: Int64) -> String {
    HistoryMoment.text(wall).split(separator: " ").joined(separator: "T") + "Z"
  }
}

/// Bytes in a form for people.
enum ByteCount {
  /// `1.5 MiB`
  static func text(_ bytes: Int64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB"]
    if bytes < 1024 { return "\(bytes) B" }
    var unit = 0
    var tenths = bytes * 10 / 1024
    while tenths >= 10_240, unit < units.count - 1 {
      tenths /= 1024
      unit += 1
    }
    return "\(tenths / 10).\(tenths % 10) \(units[unit])"
  }
}

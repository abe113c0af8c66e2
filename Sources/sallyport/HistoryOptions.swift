// The options of log, learn and replay to find the history and to select exchanges. Tests: test_history.py.

import History
import Policy
import Server
import Transport

struct HistoryOptions {
  let arguments: Arguments
  let now = Clock.wall

  init(_ arguments: Arguments) { self.arguments = arguments }

  struct Fault: Error, CustomStringConvertible {
    let description: String
  }

  /// --file, or else the path in the configuration.
  func open() throws -> HistoryReader {
    if let file = arguments.values["file"] { return try HistoryReader(path: file) }
    return try HistoryReader(path: configuredFile("config"))
  }

  /// The history file in the configuration whose path is the value of `option`.
  func configuredFile(_ option: String) throws -> String {
    let named = ConfigurationFile.path(arguments.values[option])
    // A mistake elsewhere in the configuration does not hide the history.
    let result = ConfigurationFile.load(named, secrets: .unneeded)
    if let history = result.history { return history.file }
    guard let named else {
      throw Fault(
        description: "there is no \(ConfigurationFile.standard), which would name the history; give --file PATH")
    }
    if result.configurationFiles == 0, let error = result.diagnostics.first { throw Fault(description: "\(error)") }
    throw Fault(
      description:
        "\(named) has no [history], so nothing is recorded: add the table and reload, or give --file PATH")
  }

  func selection() throws -> HistorySelection {
    var selection = HistorySelection()
    selection.users = arguments.lists["user"] ?? []
    selection.units = arguments.lists["unit"] ?? []
    selection.programs = arguments.lists["program"] ?? []
    selection.rules = arguments.lists["rule"] ?? []
    selection.hosts = try (arguments.lists["host"] ?? []).map(host)
    selection.isDeniedOnly = arguments.flags.contains("denied")
    if let slow = arguments.values["slow"] {
      guard let milliseconds = Quantity.milliseconds(slow) else {
        throw UsageError(message: "'--slow': expected a duration such as 1s, found '\(slow)'")
      }
      selection.leastMilliseconds = milliseconds
    }
    if let since = arguments.values["since"] { selection.since = try moment(since, "since") }
    if let until = arguments.values["until"] { selection.until = try moment(until, "until") }
    guard selection.since < selection.until else {
      throw UsageError(message: "'--since' is not before '--until'")
    }
    return selection
  }

  private func moment(_ text: String, _ option: String) throws -> Int64 {
    if let moment = HistoryMoment.parse(text, now: now) { return moment }
    throw UsageError(message: "'--\(option)': expected \(HistoryMoment.expectation), found '\(text)'")
  }

  private func host(_ text: String) throws -> HostPattern {
    switch HostPattern.parse(text) {
    case .success(let pattern): return pattern
    case .failure(let fault): throw UsageError(message: "'--host': \(fault)")
    }
  }

  func number(_ option: String, atLeast least: Int) throws -> Int? {
    guard let text = arguments.values[option] else { return nil }
    guard let number = Int(text), number >= least else {
      throw UsageError(message: "'--\(option)': expected a number from \(least), found '\(text)'")
    }
    return number
  }
}

// Options and operands of a command line, read according to the description of the command.

import Policy

/// What followed the name of a command. Options may be before, between and after the operands.
struct Arguments {
  /// The last value of each option that was given with one.
  private(set) var values: [String: String] = [:]
  /// Every value of the options that may be repeated, in order.
  private(set) var lists: [String: [String]] = [:]
  private(set) var flags: Set<String> = []
  private(set) var operands: [String] = []

  /// `--name value`, `--name=value`, `-n value` or `--name`, as the command defines them; `--` ends the options.
  init(_ arguments: [String], of command: Command) throws {
    var rest = arguments[...]
    while let argument = rest.popFirst() {
      if argument == "--" {
        operands += rest
        break
      }
      guard argument.hasPrefix("-"), argument != "-" else {
        operands.append(argument)
        continue
      }
      let (option, inline) = try Self.option(argument, of: command)
      guard option.value != nil else {
        if inline != nil { throw UsageError("'\(option.title)' takes no value, found '\(argument)'", command) }
        flags.insert(option.name)
        continue
      }
      guard let value = inline ?? rest.popFirst() else {
        throw UsageError("'\(option.title)' needs a value: \(option.usage)", command)
      }
      if !option.choices.isEmpty, !option.repeats, !option.choices.contains(value) {
        throw UsageError(Self.noChoice(value, option), command)
      }
      values[option.name] = value
      lists[option.name, default: []].append(value)
    }
    // A request for help is answered whatever else is wrong.
    if !flags.contains(CommandTable.help.name) { try refuseRivals(command) }
  }

  private static func option(_ argument: String, of command: Command) throws -> (CommandOption, inline: String?) {
    if argument.hasPrefix("--") {
      let parts = argument.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      if let option = command.option(named: String(parts[0])) {
        return (option, parts.count == 2 ? String(parts[1]) : nil)
      }
    } else if let letter = argument.dropFirst().first, let option = command.option(lettered: letter) {
      let value = argument.dropFirst(2)
      if value.isEmpty { return (option, nil) }
      if option.value != nil { return (option, String(value)) }
    }
    throw UsageError(unknown(argument, of: command), command)
  }

  private static func unknown(_ argument: String, of command: Command) -> String {
    let word = String(argument.drop { $0 == "-" }.prefix { $0 != "=" })
    let names = command.options.map(\.name)
    let nearest = Suggestion.nearest(to: word, among: names).map { "; did you mean '--\($0)'?" }
    return "unknown option '\(argument)' of '\(command.name)'"
      + (nearest ?? "; expected \(alternatives(names.map { "--\($0)" }))")
  }

  private static func noChoice(_ value: String, _ option: CommandOption) -> String {
    let question = Suggestion.question(value, among: option.choices)
    return "'\(option.title)' takes \(alternatives(option.choices)), not '\(value)'\(question)"
  }

  /// `a, b or c`
  static func alternatives(_ words: [String]) -> String { words.alternatives }

  private func refuseRivals(_ command: Command) throws {
    var given: [String: CommandOption] = [:]
    for option in command.options where values[option.name] != nil || flags.contains(option.name) {
      guard let group = option.group else { continue }
      if let other = given[group] {
        throw UsageError("'\(other.title)' and '\(option.title)' both name \(group); expected one of them", command)
      }
      given[group] = option
    }
  }

  /// Rejects more operands than a command accepts.
  func refuseOperands(after most: Int = 0) throws {
    if operands.count > most { throw UsageError(message: "unexpected '\(operands[most])'") }
  }
}

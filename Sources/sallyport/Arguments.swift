// Options and operands of a command line.

/// What followed the name of a command. Options may stand before, between and behind the operands.
struct Arguments {
  private(set) var values: [String: String] = [:]
  private(set) var flags: Set<String> = []
  private(set) var operands: [String] = []

  /// `--name value` or `--name=value` for the names in `valued`, `--name` for those in `flags`; `--` ends the options.
  init(_ arguments: [String], valued: Set<String> = [], flags known: Set<String> = []) throws {
    var rest = arguments[...]
    while let argument = rest.popFirst() {
      if argument == "--" {
        operands += rest
        return
      }
      guard argument.hasPrefix("--") else {
        operands.append(argument)
        continue
      }
      let parts = argument.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      let name = String(parts[0])
      if valued.contains(name) {
        guard let value = parts.count == 2 ? String(parts[1]) : rest.popFirst() else {
          throw UsageError(message: "'--\(name)' needs a value")
        }
        values[name] = value
      } else if known.contains(name), parts.count == 1 {
        flags.insert(name)
      } else {
        throw UsageError(message: "unknown option '\(argument)'")
      }
    }
  }

  /// Refuses operands where a command takes none.
  func refuseOperands() throws {
    if let first = operands.first { throw UsageError(message: "unexpected '\(first)'") }
  }
}

// The description of a command: its name, its options, its forms, and its help. Parsing, help, suggestions and
// `help --json` all use it, and the manual and the completions are tested against `help --json`. The commands:
// CommandTable.

import Policy

/// An option of a command.
struct CommandOption: Sendable {
  /// Without its dashes: `config`.
  let name: String
  /// `c` for `-c FILE`.
  var letter: Character? = nil
  /// The placeholder for the value in the usage: `FILE`. nil: it has no value.
  var value: String? = nil
  /// The accepted values, if they are a known list of words.
  var choices: [String] = []
  /// It may be given more than once.
  var repeats = false
  /// At most one of the options with the same word here may be given.
  var group: String? = nil
  let summary: String

  var title: String { "--\(name)" }

  /// `--config FILE`, `--json`, `--permit NAME …`
  var usage: String { title + (value.map { " \($0)" } ?? "") + (repeats ? " …" : "") }
}

/// One form of a command.
struct CommandForm: Sendable {
  /// `METHOD URL`, `[HOST]`; empty if there are none.
  var operands = ""
  let options: [CommandOption]
}

/// A command of the program.
struct Command: Sendable {
  /// `check`, or two words: `ca init`.
  let name: String
  /// One line, for the list of commands.
  let summary: String
  let forms: [CommandForm]
  /// The description, in lines of at most 100 columns, without a final newline.
  let text: String
  let run: @Sendable (Arguments) throws -> Int32

  /// Every option of any form, each once, in the order of the forms. All commands have `help`.
  var options: [CommandOption] {
    var seen: Set<String> = []
    return (forms.flatMap(\.options) + [CommandTable.help]).filter { seen.insert($0.name).inserted }
  }

  func option(named name: String) -> CommandOption? { options.first { $0.name == name } }

  func option(lettered letter: Character) -> CommandOption? { options.first { $0.letter == letter } }
}

// MARK: Help

extension Command {
  /// The columns of the text that `--help` prints.
  private static let columns = 100
  /// The columns for the names of options, before their descriptions.
  private static let optionColumns = 24

  var help: String { usage + "\n" + text + "\n\n" + Self.list(options) }

  /// `usage: sallyport check [--config FILE] …`, one or more lines for each form.
  var usage: String {
    let lines = forms.enumerated().map { index, form in
      wrapped((index == 0 ? "usage: " : "       ") + "sallyport \(name)", form)
    }
    return lines.joined()
  }

  /// The options of a group are together in one pair of brackets, at the place of the first:
  /// `[--config FILE | --socket PATH]`.
  private func wrapped(_ beginning: String, _ form: CommandForm) -> String {
    var groups: [(group: String?, words: [String])] = []
    for option in form.options {
      if let group = option.group, let index = groups.firstIndex(where: { $0.group == group }) {
        groups[index].words.append(option.usage)
      } else {
        groups.append((option.group, [option.usage]))
      }
    }
    var words = groups.map { "[\($0.words.joined(separator: " | "))]" }
    if !form.operands.isEmpty { words.append(form.operands) }
    let indentation = String(repeating: " ", count: beginning.count)
    var text = ""
    var line = beginning
    for word in words {
      if line.count + 1 + word.count > Self.columns, line != indentation {
        text += line + "\n"
        line = indentation
      }
      line += " " + word
    }
    return text + line + "\n"
  }

  /// A line or two for each option.
  static func list(_ options: [CommandOption]) -> String {
    let lines = options.map { option in
      let names = (option.letter.map { "-\($0), " } ?? "    ") + option.usage
      let gap = optionColumns - names.count
      let separator =
        gap >= 2 ? String(repeating: " ", count: gap) : "\n" + String(repeating: " ", count: optionColumns + 2)
      return "  \(names)\(separator)\(option.summary)\n"
    }
    return "options:\n" + lines.joined()
  }

  var json: JSONText {
    .object([
      ("name", .string(name)), ("summary", .string(summary)),
      ("operands", .strings(forms.map(\.operands))),
      (
        "options",
        .array(
          options.map { option in
            .object([
              ("name", .string(option.title)), ("letter", option.letter.map { .string("-\($0)") } ?? .null),
              ("value", option.value.map { .string($0) } ?? .null), ("choices", .strings(option.choices)),
              ("repeats", .boolean(option.repeats)), ("summary", .string(option.summary)),
            ])
          })
      ),
    ])
  }
}

// sallyport help, sallyport COMMAND --help, sallyport schema and sallyport version.

import Policy

nonisolated let version = "0.1.0"

nonisolated func printVersion(_ arguments: Arguments) throws -> Int32 {
  try arguments.refuseOperands()
  Output.answer("sallyport \(version)\n")
  return 0
}

nonisolated func printHelp(_ arguments: Arguments) throws -> Int32 {
  if arguments.flags.contains("json") {
    try arguments.refuseOperands()
    Output.answer(JSONText.array(CommandTable.all.map(\.json)).text + "\n")
    return 0
  }
  try arguments.refuseOperands(after: 2)
  guard !arguments.operands.isEmpty else {
    Output.answer(Help.overview)
    return 0
  }
  let topic = arguments.operands.joined(separator: " ")
  guard let text = Help.text(of: topic) ?? Settings.help(topic) else {
    throw UsageError(message: Help.unknown(topic, or: Settings.topics))
  }
  Output.answer(text)
  return 0
}

nonisolated func printSchema(_ arguments: Arguments) throws -> Int32 {
  try arguments.refuseOperands()
  Output.answer(Settings.jsonSchema + "\n")
  return 0
}

enum Help {
  /// The possible first words of a command line: commands, and the first words of two-word commands.
  private static var firstWords: [(name: String, summary: String)] {
    var words: [(String, String)] = []
    for command in CommandTable.all {
      let first = String(command.name.prefix { $0 != " " })
      if first == command.name {
        words.append((first, command.summary))
      } else if words.last?.0 != first, let family = CommandTable.families.first(where: { $0.name == first }) {
        words.append((first, family.summary))
      }
    }
    return words
  }

  static var names: [String] { firstWords.map(\.name) }

  static func text(of topic: String) -> String? {
    if let command = CommandTable.command(named: topic) { return command.help }
    guard let family = CommandTable.families.first(where: { $0.name == topic }) else { return nil }
    let parts = CommandTable.parts(of: topic)
    let usages = parts.enumerated().map { index, part in
      index == 0 ? part.usage : "       " + part.usage.dropFirst("usage: ".count)
    }
    var seen: Set<String> = []
    let options = parts.flatMap(\.options).filter { seen.insert($0.name).inserted }
    return usages.joined() + "\n" + family.text + "\n\n" + Command.list(options)
  }

  static var overview: String {
    let width = (names.map(\.count).max() ?? 0) + 2
    let lines = firstWords.map { name, summary in
      "  \(name)\(String(repeating: " ", count: width - name.count))\(summary)\n"
    }
    return """
      sallyport: a local HTTP forward proxy with one policy for every program of the machine

      usage: sallyport COMMAND [OPTIONS]

      \(lines.joined())
      More on a command: sallyport COMMAND --help

      The configuration is /etc/sallyport/sallyport.toml, or the file that --config (-c) names. Without
      either, sallyport is a plain forward proxy on 127.0.0.1:3128 and [::1]:3128.

      Exit status: 0 done, 1 the answer is no or it failed, 2 wrong usage; of explain, 3 denied; of
      test, 3 an expectation failed.

      """
  }

  /// `unknown command 'chekc'; did you mean 'check'?`
  static func unknown(_ name: String) -> String {
    "unknown command '\(name)'" + didYouMean(nearest(name))
  }

  /// The same for a word that may also be a key of the configuration.
  static func unknown(_ name: String, or keys: [String]) -> String {
    "'\(name)' is neither a command nor a key of the configuration"
      + didYouMean(nearest(name) ?? suggestion(name, keys))
  }

  private static func didYouMean(_ word: String?) -> String { word.map { "; did you mean '\($0)'?" } ?? "" }

  private static func nearest(_ name: String) -> String? {
    let family = name.prefix { $0 != " " }
    guard name.contains(" ") else { return suggestion(name, names) }
    return suggestion(name, CommandTable.parts(of: String(family)).map(\.name))
  }

  private static func suggestion(_ word: String, _ candidates: [String]) -> String? {
    nearestWord(to: word, among: candidates)
  }
}

// The program: finds the command for the arguments, and the exit status of the command.
//
// 0 done, 1 the answer is no or it failed, 2 wrong usage, 3 denied (explain), or an expectation failed (test).

import Bytes
import Policy
import Transport

@main
struct Program {
  // Only `main` is on the main actor, so it hands over at once.
  static func main() {
    // No file of its own may take their numbers, and be written to.
    Files.fillStandardDescriptors()
    Files.exit(Output.checked(dispatch(Array(CommandLine.arguments.dropFirst()))))
  }
}

/// Why the arguments are not a valid command.
struct UsageError: Error {
  let message: String
  /// The command whose help says more; nil: the program's.
  var command: String? = nil

  init(message: String) { self.message = message }

  init(_ message: String, _ command: Command) {
    self.message = message
    self.command = command.name
  }
}

/// Where a command writes its output.
enum Output {
  private static let fault = Locked<SystemError?>(nil)

  static func answer(_ text: String) { answer(bytes: Array(text.utf8)) }
  static func answer(bytes: [UInt8]) {
    if case .failure(let error) = Files.writeAll(bytes, to: 1) { fault.withLock { $0 = error } }
  }

  /// Part of the answer could not be written. A command that streams ends then.
  static var hasFailed: Bool { fault.withLock { $0 != nil } }

  /// The exit status after `status`, if not all of the answer could be written. Whoever closes the other end of a pipe
  /// wants no more.
  static func checked(_ status: Int32) -> Int32 {
    guard let error = fault.withLock({ $0 }), !error.isBrokenPipe else { return status }
    complain("sallyport: cannot write to standard output: \(error)\n")
    return status == 0 ? 1 : status
  }

  static func complain(_ text: String) { Files.write(text, to: 2) }
}

/// The known word that is probably meant; nil if none is similar.
nonisolated func nearestWord(to word: String, among candidates: [String]) -> String? {
  Suggestion.nearest(to: word, among: candidates)
}

nonisolated func dispatch(_ arguments: [String]) -> Int32 {
  var name: String? = nil
  do {
    let (command, rest) = try find(arguments)
    guard let command else {
      Output.answer(rest.first.flatMap(Help.text) ?? Help.overview)
      return 0
    }
    name = command.name
    return try run(command, rest)
  } catch let error as UsageError {
    let topic = error.command ?? name
    Output.complain("sallyport: \(error.message)\(consequence(of: name))\n")
    Output.complain("Try 'sallyport \(topic.map { "\($0) --help" } ?? "--help")'.\n")
    return 2
  } catch {
    Output.complain("sallyport: \(error)\(consequence(of: name))\n")
    return 1
  }
}

/// What a command has printed in spite of the error.
private nonisolated func consequence(of name: String?) -> String {
  name == "env" ? "\nsallyport: the variables name \(ProxyVariables.refusal), which refuses every connection" : ""
}

/// The command and the arguments after its name. No command: help, on the arguments or on everything.
private nonisolated func find(_ arguments: [String]) throws -> (Command?, [String]) {
  guard let first = arguments.first else {
    throw UsageError(message: "a command was expected, such as 'run', 'check' or 'explain'")
  }
  let rest = Array(arguments.dropFirst())
  if isHelp(first) { return (nil, []) }
  if ["--version", "-V"].contains(first) { return (CommandTable.command(named: "version"), rest) }
  if let command = CommandTable.command(named: first) { return (command, rest) }
  let parts = CommandTable.parts(of: first)
  guard let family = CommandTable.families.first(where: { $0.name == first }) else {
    throw UsageError(message: Help.unknown(first))
  }
  // Options may also come before the second word.
  if let index = rest.firstIndex(where: { word in parts.contains { $0.name == "\(first) \(word)" } }),
    let command = CommandTable.command(named: "\(first) \(rest[index])")
  {
    return (command, Array(rest[..<index] + rest[(index + 1)...]))
  }
  if rest.contains(where: isHelp) { return (nil, [family.name]) }
  let words = parts.map { String($0.name.dropFirst(first.count + 1)) }
  let seen = rest.first { !$0.hasPrefix("-") }
  let nearest = seen.flatMap { nearestWord(to: $0, among: words) }.map { "; did you mean '\(first) \($0)'?" } ?? ""
  throw UsageError(
    message: "'\(first)' takes \(Arguments.alternatives(words))" + (seen.map { ", not '\($0)'" } ?? "") + nearest)
}

private nonisolated func isHelp(_ word: String) -> Bool { word == "--help" || word == "-h" }

private nonisolated func run(_ command: Command, _ rest: [String]) throws -> Int32 {
  // If `env` fails, a shell that evaluates its output must still not bypass the proxy.
  if command.name == "env" { return try failingClosed(rest, command) }
  return try execute(command, rest)
}

nonisolated func execute(_ command: Command, _ rest: [String]) throws -> Int32 {
  let arguments = try Arguments(rest, of: command)
  if arguments.flags.contains(CommandTable.help.name) {
    Output.answer(command.help)
    return 0
  }
  return try command.run(arguments)
}

// The program: arguments to a command, a command to an exit status.
//
// 0 done, 1 the answer is no or it failed, 2 wrong usage.

import Transport

@main
struct Program {
  // `main` is on the main actor, which nothing else is: it hands over at once.
  static func main() { Files.exit(dispatch(Array(CommandLine.arguments.dropFirst()))) }
}

/// Why the arguments make no command.
struct UsageError: Error {
  let message: String
}

/// Where a command writes what it has to say.
enum Output {
  static func answer(_ text: String) { Files.write(text, to: 1) }
  static func answer(bytes: [UInt8]) { Files.write(bytes, to: 1) }
  static func complain(_ text: String) { Files.write(text, to: 2) }
}

nonisolated func dispatch(_ arguments: [String]) -> Int32 {
  do {
    guard let name = arguments.first else { throw UsageError(message: "a command was expected") }
    let rest = Array(arguments.dropFirst())
    switch name {
    case "run": return try runCommand(rest)
    case "check": return try checkCommand(rest)
    case "explain": return try explainCommand(rest)
    case "pin": return try pinCommand(rest)
    case "ca": return try authorityCommand(rest)
    case "env": return try environmentCommand(rest)
    case "version", "--version", "-V": return try versionCommand(rest)
    case "help", "--help", "-h": return try helpCommand(rest)
    case "status": return try statusCommand(rest)
    case "reload": return try reloadCommand(rest)
    case "events": return try eventsCommand(rest)
    case "reachability": return try reachabilityCommand(rest)
    default:
      throw UsageError(message: "unknown command '\(name)'")
    }
  } catch let error as UsageError {
    Output.complain("sallyport: \(error.message)\nTry 'sallyport help'.\n")
    return 2
  } catch {
    Output.complain("sallyport: \(error)\n")
    return 1
  }
}

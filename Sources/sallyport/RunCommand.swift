// sallyport run: the daemon.

import Policy
import Server
import Transport

nonisolated func runCommand(_ arguments: [String]) throws -> Int32 {
  let options = try Arguments(arguments, valued: ["config"])
  try options.refuseOperands()
  // Before any thread: they inherit which signals are blocked.
  let signals = Signals()
  let named = options.values["config"]
  guard let policy = ConfigurationFile.loadOrComplain(named) else {
    Output.complain("sallyport: not started, for the configuration has errors\n")
    return 1
  }
  let log = LogWriter(output: 2, format: lineFormat(policy.configuration.log.format))
  log.setLevel(policy.configuration.log.level)
  let settings = DaemonSettings(policy: policy, log: log) { log in
    let result = ConfigurationFile.load(named)
    for diagnostic in result.diagnostics {
      log.event(diagnostic.severity == .error ? .error : .warning, diagnostic.sentence)
    }
    return result.policy
  }
  do throws(StartFailure) {
    let daemon = try Daemon(settings, signals: signals)
    let rules = policy.rules.count
    Output.answer(
      "sallyport: listening on \(daemon.addresses.joined(separator: ", ")) (\(rules) \(rules == 1 ? "rule" : "rules"))\n"
    )
    daemon.run()
    return 0
  } catch {
    log.flush()
    Output.complain("sallyport: \(error)\n")
    return 1
  }
}

private func lineFormat(_ format: LogSettings.Format) -> LineFormat {
  switch format {
  case .text: .text
  case .json, .journal: .json
  case .auto: Files.isTerminal(2) ? .text : .json
  }
}

// sallyport run: the daemon.

import Bytes
import Policy
import Security
import Server
import Transport

nonisolated func runCommand(_ options: Arguments) throws -> Int32 {
  try options.refuseOperands()
  // Before any thread starts: threads inherit the blocked signals, and share the environment with the list of inherited
  // sockets.
  let signals = Signals()
  let inherited: InheritedSockets
  do throws(StartFailure) {
    inherited = try InheritedSockets.take()
  } catch {
    Output.complain("sallyport: \(error)\n")
    return 1
  }
  // A reload reads the same file. If it is gone by then, that is an error; the built-in defaults are not used.
  let named = ConfigurationFile.path(options.values["config"])
  let read = ConfigurationFile.load(named)
  guard let policy = read.policy else {
    for diagnostic in read.diagnostics { Output.complain("\(diagnostic)\n") }
    Output.complain("sallyport: not started: the configuration has errors\n")
    return 1
  }
  let report = ExpectationReport(on: policy, own: MachineAddresses.read)
  guard report.failures.isEmpty else {
    for failure in report.failures { Output.complain("\(failure.diagnostic)\n") }
    Output.complain("sallyport: not started: \(report.failureSummary)\n")
    return 1
  }
  let authority: Authority?
  var warnings: [String] = []
  switch LocalAuthority(of: policy).load(warn: { warnings.append($0) }) {
  case .success(let loaded): authority = loaded
  case .failure(let fault):
    Output.complain("sallyport: not started: a rule intercepts and \(fault)\n")
    return 1
  }
  let log = LogWriter(output: 2, format: lineFormat(policy.configuration.log.format))
  log.setLevel(policy.configuration.log.level)
  for warning in read.diagnostics {
    // The line with its caret is for people. A program that reads a log expects one form.
    if log.format == .text { Output.complain("\(warning)\n") } else { log.event(.warning, warning.sentence) }
  }
  for warning in warnings { log.event(.warning, warning) }
  let loaded = LoadedPolicy(policy: policy, authority: authority)
  let settings = DaemonSettings(loaded, version: version, log: log, inherited: inherited) { log in
    let result = ConfigurationFile.load(named)
    for diagnostic in result.diagnostics {
      log.event(diagnostic.severity == .error ? .error : .warning, diagnostic.sentence)
    }
    guard let policy = result.policy else {
      return .failure(ReloadFault(result.diagnostics.filter { $0.severity == .error }.map(\.sentence)))
    }
    let report = ExpectationReport(on: policy, own: MachineAddresses.read)
    let failures = report.failures.map(\.diagnostic.sentence)
    guard failures.isEmpty else {
      for failure in failures { log.event(.error, failure) }
      return .failure(ReloadFault(failures, summary: report.failureSummary))
    }
    var warnings = result.diagnostics.map(\.sentence)
    let authority = LocalAuthority(of: policy).load { warning in
      log.event(.warning, warning)
      warnings.append(warning)
    }
    switch authority {
    case .success(let authority):
      return .success(LoadedPolicy(policy: policy, authority: authority, warnings: warnings))
    case .failure(let fault):
      log.event(.error, "a rule intercepts and \(fault)")
      return .failure(ReloadFault(["a rule intercepts and \(fault)"]))
    }
  }
  do throws(StartFailure) {
    let daemon = try Daemon(settings, signals: signals)
    let rules = policy.rules.count
    Output.answer(
      "sallyport: listening on \(daemon.addresses.joined(separator: ", ")) (\(String.counted(rules, "rule")))\n"
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
  case .json: .json
  case .journal: .journal
  case .auto: SystemJournal.reads(2) ? .journal : Files.isTerminal(2) ? .text : .json
  }
}

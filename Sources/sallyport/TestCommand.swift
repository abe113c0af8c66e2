// sallyport test: whether the requests of [[expect]] are decided as the configuration expects. Tests: test_expect.py.

import Bytes
import Policy
import Server

/// The exit status if an expectation fails; 1 is for a configuration with errors.
private let failedStatus: Int32 = 3

nonisolated func testCommand(_ options: Arguments) throws -> Int32 {
  let path = try options.configurationOperand()
  guard let policy = ConfigurationFile.loadToLook(ConfigurationFile.path(path)) else { return 1 }
  let report = ExpectationReport(on: policy, own: MachineAddresses.read)
  var failures: [FailedExpectation] = []
  var unread: [Expectation] = []
  for (expectation, outcome) in report.results {
    switch outcome {
    case .holds: continue
    case .fails(let failure): failures.append(failure)
    case .unread(let field):
      unread.append(expectation)
      Output.complain("\(expectation.unreadNote(field))\n")
    }
  }
  if options.flags.contains("json") {
    Output.answer(
      JSONText.object([
        ("expectations", .number(report.results.count)), ("failed", .number(failures.count)),
        ("unchecked", .array(unread.map { .string("\($0.location)") })),
        ("failures", .array(failures.map(\.json))),
      ]).text + "\n")
  } else {
    for failure in failures { Output.answer(failure.description) }
    Output.answer(
      "\(failures.isEmpty ? held(report.results.count, unread.count) : report.failureSummary)\n")
  }
  return failures.isEmpty ? 0 : failedStatus
}

private func held(_ count: Int, _ unread: Int) -> String {
  if count == 0 { return "no expectations: the configuration has no [[expect]]" }
  if unread > 0 { return "\(count - unread) of \(count) expectations hold, \(unread) not checked" }
  return .counted(count, "expectation holds", plural: "expectations hold")
}

extension Expectation {
  fileprivate func unreadNote(_ field: String) -> Diagnostic {
    Diagnostic(
      .note, at: location,
      "not checked: the value of \(field) comes from a secret that is not readable by you; the service checks it")
  }
}

extension ExpectationReport {
  /// `2 of 9 expectations failed`
  var failureSummary: String {
    results.count == 1 ? "the expectation failed" : "\(failures.count) of \(results.count) expectations failed"
  }

  /// For `check`: errors, because the daemon accepts no policy whose expectations fail.
  var diagnostics: [Diagnostic] {
    results.compactMap { expectation, outcome in
      switch outcome {
      case .holds: nil
      case .fails(let failure): failure.diagnostic
      case .unread(let field): expectation.unreadNote(field)
      }
    }
  }
}

// sallyport check: all diagnostics of the configuration, in one pass.

import Bytes
import Policy
import Server
import Transport

nonisolated func checkCommand(_ options: Arguments) throws -> Int32 {
  let path = ConfigurationFile.path(try options.configurationOperand())
  let result = ConfigurationFile.load(path, secrets: .inspected)
  let diagnostics = result.diagnostics + (result.policy.map(diagnostics) ?? [])
  let errors = diagnostics.filter { $0.severity == .error }.count
  let warnings = diagnostics.filter { $0.severity == .warning }.count
  if options.flags.contains("json") {
    Output.answer(Diagnostic.json(diagnostics))
  } else {
    for diagnostic in diagnostics { Output.answer("\(diagnostic)\n") }
    Output.answer(summary(path, result, errors: errors, warnings: warnings))
  }
  return errors > 0 || (warnings > 0 && options.flags.contains("strict")) ? 1 : 0
}

private func summary(_ path: String?, _ result: LoadResult, errors: Int, warnings: Int) -> String {
  let files =
    path == nil
    ? "built-in defaults"
    : result.configurationFiles == 0 ? "nothing read" : String.counted(result.configurationFiles, "file")
  let rules = result.policy.map { ", " + String.counted($0.rules.count, "rule") } ?? ""
  return "\(files)\(rules): \(String.counted(errors, "error")), \(String.counted(warnings, "warning"))\n"
}

/// What only this machine shows about a policy: its authority, its addresses and its files.
private func diagnostics(of policy: Policy) -> [Diagnostic] {
  let authority = LocalAuthority(of: policy)
  return authority.diagnostics
    + (authority.certificate?.permitDiagnostics(of: policy.rules) ?? [])
    + ExpectationReport(on: policy, own: MachineAddresses.read).diagnostics
    + policy.rules.flatMap(programDiagnostics)
}

/// Programs that are named by a link: the kernel reports the file itself, so such a rule never matches.
private func programDiagnostics(of rule: Rule) -> [Diagnostic] {
  rule.conditions.programs.compactMap { path in
    guard !path.contains("*"), let real = Files.realPath(path), real != path else { return nil }
    return Diagnostic(
      .warning, at: rule.location,
      "\(path) is a link, and no client is known by it: expected the path of the file itself, \(real)")
  }
}

extension Arguments {
  /// The configuration given by FILE or --config; nil if neither is given.
  func configurationOperand() throws -> String? {
    try refuseOperands(after: 1)
    if let named = values["config"], let operand = operands.first {
      throw UsageError(
        message: "'--config \(named)' and '\(operand)' both name the configuration; expected one of them")
    }
    return operands.first ?? values["config"]
  }
}

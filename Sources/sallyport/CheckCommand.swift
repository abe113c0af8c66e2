// sallyport check: every diagnostic of the configuration, in one pass.

import Policy

nonisolated func checkCommand(_ arguments: [String]) throws -> Int32 {
  let options = try Arguments(arguments, valued: ["config"], flags: ["strict", "json"])
  try options.refuseOperands()
  let path = ConfigurationFile.path(options.values["config"])
  let result = ConfigurationFile.load(path)
  let diagnostics = result.diagnostics + [result.policy?.authorityDiagnostic()].compactMap { $0 }
  let errors = diagnostics.filter { $0.severity == .error }.count
  let warnings = diagnostics.count - errors
  if options.flags.contains("json") {
    Output.answer(Diagnostic.json(diagnostics))
  } else {
    for diagnostic in diagnostics { Output.answer("\(diagnostic)\n") }
    Output.answer(summary(path, result, errors: errors, warnings: warnings))
  }
  return errors > 0 || (warnings > 0 && options.flags.contains("strict")) ? 1 : 0
}

private func summary(_ path: String?, _ result: LoadResult, errors: Int, warnings: Int) -> String {
  func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }
  let files =
    path == nil
    ? "built-in defaults" : result.configurationFiles == 0 ? "nothing read" : count(result.configurationFiles, "file")
  let rules = result.policy.map { ", " + count($0.rules.count, "rule") } ?? ""
  return "\(files)\(rules): \(count(errors, "error")), \(count(warnings, "warning"))\n"
}

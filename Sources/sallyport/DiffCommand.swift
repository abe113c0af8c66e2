// sallyport diff OLD NEW: what two configurations decide differently. Tests: test_diff.py.

import Policy
import Server
import Transport

nonisolated func diffCommand(_ options: Arguments) throws -> Int32 {
  try options.refuseOperands(after: 2)
  guard options.operands.count == 2 else {
    throw UsageError(message: "two configurations were expected: the one before and the one after")
  }
  // Both are read, and their errors printed, before either ends the command.
  let policies = options.operands.map { ConfigurationFile.loadToLook($0) }
  guard let old = policies[0], let new = policies[1] else { return 1 }
  let comparison = PolicyComparison(old, new, own: MachineAddresses.read(), wall: Clock.wall)
  Output.answer(options.flags.contains("json") ? comparison.json : comparison.description)
  return comparison.count(.newlyDenied) > 0 ? 1 : 0
}

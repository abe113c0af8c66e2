// sallyport cancel, flush: operations on the current activity of the running daemon, over its admin socket.

nonisolated func cancelCommand(_ arguments: Arguments) throws -> Int32 {
  var parts = ["host", "rule", "user"].compactMap { name in
    arguments.values[name].map { "\(name)=\(AdminOptions.encoded($0))" }
  }
  if let reference = arguments.operands.first { parts.insert("ref=\(AdminOptions.encoded(reference))", at: 0) }
  try arguments.refuseOperands(after: 1)
  if parts.isEmpty { throw UsageError(message: "expected a REF, or --host, --rule or --user") }
  return try AdminOptions(arguments).pass(on: "POST", "/v1/cancel?" + parts.joined(separator: "&"))
}

nonisolated func flushCommand(_ arguments: Arguments) throws -> Int32 {
  try arguments.refuseOperands()
  return try AdminOptions(arguments).pass(on: "POST", "/v1/flush")
}

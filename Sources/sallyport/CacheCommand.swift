// sallyport cache status, list, show and purge: the stored answers of the running daemon, over its admin socket.

import Policy

nonisolated func cacheStatus(_ arguments: Arguments) throws -> Int32 {
  try arguments.refuseOperands()
  return try AdminOptions(arguments).pass(on: "GET", "/v1/cache")
}

nonisolated func cacheList(_ arguments: Arguments) throws -> Int32 {
  try arguments.refuseOperands()
  return try AdminOptions(arguments).pass(on: "GET", "/v1/cache/answers" + query(arguments, ["host", "rule"]))
}

nonisolated func cacheShow(_ arguments: Arguments) throws -> Int32 {
  guard let url = arguments.operands.first else { throw UsageError(message: "expected a URL") }
  try arguments.refuseOperands(after: 1)
  return try AdminOptions(arguments).pass(on: "GET", "/v1/cache?url=\(AdminOptions.encoded(url))")
}

nonisolated func cachePurge(_ arguments: Arguments) throws -> Int32 {
  let selecting = ["host", "rule", "older"].filter { arguments.values[$0] != nil }
  let isAll = arguments.flags.contains("all")
  let ways = (arguments.operands.isEmpty ? 0 : 1) + (selecting.isEmpty ? 0 : 1) + (isAll ? 1 : 0)
  guard ways == 1 else {
    throw UsageError(message: "expected URLs, or --host, --rule and --older, or --all")
  }
  let options = AdminOptions(arguments)
  if isAll { return try options.pass(on: "POST", "/v1/cache/purge?all=yes") }
  if arguments.operands.isEmpty {
    return try options.pass(on: "POST", "/v1/cache/purge" + query(arguments, ["host", "rule", "older"]))
  }
  var status: Int32 = 0
  for url in arguments.operands {
    status = max(status, try options.pass(on: "POST", "/v1/cache/purge?url=\(AdminOptions.encoded(url))"))
  }
  return status
}

private nonisolated func query(_ arguments: Arguments, _ names: [String]) throws -> String {
  let parts = try names.compactMap { name -> String? in
    guard let value = arguments.values[name] else { return nil }
    return "\(name)=\(AdminOptions.encoded(name == "older" ? try seconds(value) : value))"
  }
  return parts.isEmpty ? "" : "?" + parts.joined(separator: "&")
}

/// `7d` in seconds.
private nonisolated func seconds(_ text: String) throws -> String {
  guard let milliseconds = Quantity.milliseconds(text) else {
    throw UsageError(message: "--older: expected a duration such as 7d, found '\(text)'")
  }
  return "\(milliseconds / 1000)"
}

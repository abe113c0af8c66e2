// sallyport reachability [HOST] [--watch]: by which kind of link the machine or a host is reached, as the daemon sees
// it.
//
// A watch first subscribes to changes and then asks for the current state, so no change between the two is lost. The
// daemon does not watch hosts: with a host, the command asks again after each change of the network.

import Transport

nonisolated func reachabilityCommand(_ arguments: Arguments) throws -> Int32 {
  let options = AdminOptions(arguments)
  try arguments.refuseOperands(after: 1)
  let host = try options.arguments.operands.first.map { try HostOperand.read($0, of: $0).host }
  let path = "/v1/reachability" + (host.map { "?host=\(AdminOptions.encoded($0))" } ?? "")
  guard options.arguments.flags.contains("watch") else { return try options.pass(on: "GET", path) }
  return try ReachabilityWatch(options: options, host: host, path: path).run()
}

private struct ReachabilityWatch {
  let options: AdminOptions
  let host: String?
  let path: String

  /// Until the daemon ends or a signal interrupts it.
  func run() throws -> Int32 {
    guard var changes = try options.open("GET", "/v1/events?kind=reachability") else { return 1 }
    defer { changes.close() }
    guard let head = changes.readHead(), head.status == 200 else {
      Output.complain("sallyport: the daemon does not tell of changes: \(changes.takeText())\n")
      return 1
    }
    var outcome = try options.pass(on: "GET", path)
    while !Output.hasFailed, let line = changes.readLine() {
      guard let change = change(line) else { continue }
      guard let host else {
        Output.answer("\(change)\n")
        continue
      }
      guard let (state, isReachable) = try ask(host) else { return 1 }
      Output.answer(options.wantsJSON ? "\(state)\n" : "\(state)  (\(change))\n")
      outcome = isReachable ? 0 : 1
    }
    return outcome
  }

  /// The change that a line of the stream reports; nil for other lines.
  private func change(_ line: String) -> String? {
    let mark = options.wantsJSON ? "data: " : "reachability "
    guard line.hasPrefix(mark) else { return nil }
    return String(line.dropFirst(mark.count).drop { $0 == " " })
  }

  /// One line with the current state of the host, and whether it can be reached.
  private func ask(_ host: String) throws -> (state: String, isReachable: Bool)? {
    guard var exchange = try options.open("GET", path) else { return nil }
    defer { exchange.close() }
    guard let head = exchange.readHead(), head.status == 200 else {
      Output.complain("sallyport: the daemon does not tell of \(host): \(exchange.takeText())\n")
      return nil
    }
    while let line = exchange.readLine() {
      if options.wantsJSON || line.hasPrefix("\(host): ") { return (line, !head.saysNo) }
    }
    return nil
  }
}

// sallyport asks, allow, deny: the questions that wait for an operator in the running daemon, and the answers.
// Tests: test_ask.py.
//
// A permanent answer is a rule in a file of the operator. The command writes it, not the daemon, so the rights of the
// calling user are needed. The daemon reads the file like any other.

import Bytes
import Policy
import Transport

nonisolated func asksCommand(_ arguments: Arguments) throws -> Int32 {
  try arguments.refuseOperands()
  let options = AdminOptions(arguments)
  if let id = arguments.values["revoke"] {
    guard Int(id) != nil else { throw UsageError(message: "expected the number of a temporary rule, found '\(id)'") }
    return try options.pass(on: "POST", "/v1/revoke?id=\(id)")
  }
  guard arguments.flags.contains("watch") else { return try options.pass(on: "GET", "/v1/asks") }
  // A question that comes meanwhile is shown twice rather than not at all.
  return try options.passEvents("/v1/events?kind=ask,answer") { try options.pass(on: "GET", "/v1/asks") }
}

nonisolated func allowCommand(_ arguments: Arguments) throws -> Int32 { try answer(.allow, arguments) }
nonisolated func denyCommand(_ arguments: Arguments) throws -> Int32 { try answer(.deny, arguments) }

/// What is answered: a question, or a host that no client has asked for.
private enum Answered {
  case reference(String)
  case host(String)

  /// Six characters without a dot are a reference. A host that reads as one must be written with a dot at its end.
  init(_ operand: String) {
    self = Reference(operand) == nil ? .host(operand) : .reference(operand)
  }
}

private nonisolated func answer(_ action: RuleAction, _ arguments: Arguments) throws -> Int32 {
  try arguments.refuseOperands(after: 1)
  guard let operand = arguments.operands.first else {
    throw UsageError(message: "expected the REF of a question, as 'sallyport asks' shows it, or a HOST")
  }
  let answered = Answered(operand)
  let isLasting = arguments.flags.contains("always")
  if arguments.values["write"] != nil, !isLasting { throw UsageError(message: "--write goes with --always") }
  if case .host(let host) = answered, case .failure(let fault) = HostPattern.parse(host) {
    throw UsageError(message: fault.description)
  }
  if case .host = answered, !isLasting, arguments.values["for"] == nil {
    throw UsageError(message: "expected --for TIME or --always beside the host '\(operand)'")
  }
  if case .reference = answered {
    for name in ["user", "unit", "port"] where arguments.values[name] != nil {
      throw UsageError(message: "--\(name) goes with a HOST; the question \(operand) is about one client already")
    }
  }
  if isLasting { return try answerForGood(answered, action, arguments: arguments) }
  var parts: [String] = []
  switch answered {
  case .reference(let text): parts.append("ref=\(AdminOptions.encoded(text))")
  case .host(let text): parts.append("host=\(AdminOptions.encoded(text))")
  }
  for name in ["for", "user", "unit", "port"] {
    if let value = arguments.values[name] { parts.append("\(name)=\(AdminOptions.encoded(value))") }
  }
  return try AdminOptions(arguments).pass(on: "POST", "/v1/\(action.rawValue)?" + parts.joined(separator: "&"))
}

// MARK: --always

private nonisolated func answerForGood(_ answered: Answered, _ action: RuleAction, arguments: Arguments) throws
  -> Int32
{
  let options = AdminOptions(arguments)
  let rule: String
  switch answered {
  case .reference(let reference):
    let path = "/v1/rule?ref=\(AdminOptions.encoded(reference))&verdict=\(action.rawValue)"
    guard let text = try options.text(of: path) else { return 1 }
    rule = text
  case .host(let host): rule = try ruleText(host, action, arguments: arguments).text
  }
  let file = try AnswerFile(arguments)
  let asker = Asker(try readSender(arguments), wall: Clock.wall)
  let written = try file.add(rule) { earlier, policy, added in
    if case .host(let host) = answered,
      let obstacle = whatDecides(host, instead: action, policy, asker: asker, port: arguments.values["port"])
    {
      return .rule(obstacle)
    }
    // Of a program of this machine.
    let address = IPAddress("127.0.0.1")
    let rule = AddedRule(added, in: policy, address: address)
    if action == .deny {
      return rule?.allowance.map { .rule("rule '\($0.name)' lets some of it pass before it") }
    }
    if case .reference = answered, let decider = rule?.decider {
      return .rule("rule '\(decider.name)' decides it before")
    }
    let loss: LostSettings? =
      switch answered {
      case .reference: rule?.loss(since: earlier)
      case .host(let host):
        LostSettings(ofAny: examples(of: host, arguments.values["port"]), asker, from: earlier, in: policy)
      }
    guard let loss, !loss.names.isEmpty else { return nil }
    return .loss(
      "rule '\(loss.rule.name)', which asks about it, has settings that the new rule would not have: "
        + loss.names.joined(separator: ", "))
  }
  Output.answer(written.isEmpty ? "" : "\(file.path):\n\(written)")
  let status = try options.pass(on: "POST", "/v1/reload")
  guard status == 0, case .reference(let reference) = answered else { return status }
  // The waiting requests began under the previous policy.
  let question = "/v1/\(action.rawValue)?ref=\(AdminOptions.encoded(reference))&for=1s"
  return try options.isThere(reference) ? options.pass(on: "POST", question) : 0
}

/// The rule that decides requests for the host otherwise than was asked for; nil: none does.
private nonisolated func whatDecides(
  _ host: String, instead action: RuleAction, _ policy: Policy, asker: Asker, port: String?
) -> String? {
  var obstacles: [String] = []
  for request in examples(of: host, port) {
    let found = Explanation(by: policy, of: request, asker)
    let isDone = (found.decision.verdict == .allow) == (action == .allow)
    // Who denies a host wants all of it denied; who allows one wants what can be had.
    if isDone, action == .allow { return nil }
    if !isDone, let rule = found.rule { obstacles.append("rule '\(rule.name)' decides \(found.request) before it") }
  }
  return obstacles.first
}

/// A request and a tunnel to the host, or to one of those that a pattern stands for.
private nonisolated func examples(of host: String, _ port: String?) -> [NamedRequest] {
  let rest = host.split(separator: "*", omittingEmptySubsequences: true).last ?? ".example"
  let example = host.hasPrefix("*") ? "any\(rest)" : host
  let port = port.map { ":\($0)" } ?? ""
  let tunnel = "\(example)\(port.isEmpty ? ":443" : port)"
  return [("GET", "http://\(example)\(port)/"), ("CONNECT", tunnel)].compactMap { method, url in
    if case .success(let request) = NamedRequest.read(method: method, url: url) { request } else { nil }
  }
}

private nonisolated func ruleText(_ host: String, _ action: RuleAction, arguments: Arguments) throws -> RuleText {
  var rule = RuleText(
    name: RuleText.plainName([action.rawValue, arguments.values["user"], host].compactMap { $0 }), hosts: [host])
  rule.action = action
  if let user = arguments.values["user"] { rule.users = [Int(user) == nil ? JSONText.string(user).text : user] }
  if let unit = arguments.values["unit"] { rule.units = [unit] }
  if let text = arguments.values["port"] {
    guard let port = UInt16(text), port > 0 else {
      throw UsageError(message: "expected a port from 1 to 65535, found '\(text)'")
    }
    rule.ports = [port]
  }
  return rule
}

/// Why a rule is not added.
private enum Obstacle {
  /// A rule before it takes its effect.
  case rule(String)
  /// Settings of the rule that asks would no longer apply.
  case loss(String)

  func sentence(_ path: String) -> String {
    switch self {
    case .rule(let why):
      "the rule would not have its effect, so \(path) is as it was: \(why). Put it before that one"
    case .loss(let why):
      "\(path) is as it was: \(why). Allow it for a time with --for, which keeps them, or write the rule with them"
    }
  }
}

/// The file for permanent answers. The configuration must include it.
private struct AnswerFile {
  static let usualName = "policy.d/90-answers.toml"
  private static let heading = """
    # Rules that 'sallyport allow --always' and 'sallyport deny --always' added. Change them as you like.

    """

  struct Fault: Error, CustomStringConvertible {
    let description: String
  }

  let path: String
  private let configuration: String
  private let named: String?

  init(_ arguments: Arguments) throws {
    named = arguments.values["config"]
    guard let configuration = ConfigurationFile.path(named) else {
      throw Fault(
        description: "there is no configuration that could include a rule; expected \(ConfigurationFile.standard), or "
          + "--config FILE")
    }
    self.configuration = configuration
    if let path = arguments.values["write"] {
      self.path = path
    } else {
      let directory = configuration.split(separator: "/", omittingEmptySubsequences: false).dropLast()
      path = (directory + [Self.usualName[...]]).joined(separator: "/")
    }
  }

  /// Adds the rule. If the configuration is then broken, or does not read the file, everything is restored. Returns the
  /// text as it is in the file.
  /// `obstacle`: what keeps the rule of this name from its effect, in the second configuration, which has it.
  func add(_ rule: String, obstacle: (Policy, Policy, String) -> Obstacle?) throws -> String {
    let before = ConfigurationFile.load(named, secrets: .inspected)
    guard let policy = before.policy else {
      throw Fault(description: "\(configuration) has errors, so no rule is added; 'sallyport check' prints them")
    }
    var old: [UInt8]? = nil
    if !Files.isAbsent(path) {
      switch Files.read(path, limit: PolicyLoader.largestFileBytes) {
      case .success(let bytes): old = bytes
      case .failure(let error): throw Fault(description: "cannot read \(path): \(error)")
      }
    }
    let text = Self.named(rule, apartFrom: Set(policy.rules.map(\.name)))
    var new = old ?? Array(Self.heading.utf8)
    if let last = new.last, last != 0x0a { new.append(0x0a) }
    new += Array(("\n" + text).utf8)
    if case .failure(let error) = Files.replace(path, new, mode: Files.mode(path) ?? 0o644) {
      throw Fault(description: "cannot write \(path): \(error); --always takes the right to write there")
    }
    let after = ConfigurationFile.load(named, secrets: .inspected)
    if after.policy == nil || after.policy?.rules.count != policy.rules.count + 1 {
      try restore(old)
      let errors = after.policy == nil ? after.diagnostics.map { "\n\($0)" }.joined() : ""
      throw Fault(
        description: after.policy == nil
          ? "with this rule the configuration has errors, so \(path) is as it was:\(errors)"
          : "\(configuration) does not include \(path), so it is as it was; add it to 'include', or name another file "
            + "with --write")
    }
    let news = after.diagnostics.filter { found in !before.diagnostics.contains { "\($0)" == "\(found)" } }
    let names = Set(policy.rules.map(\.name))
    let added = after.policy?.rules.first { !names.contains($0.name) }?.name ?? ""
    let neverMatches = news.first { $0.message.hasPrefix("rule '\(added)' can never match") }?.message
    if let next = after.policy, let obstacle = neverMatches.map(Obstacle.rule) ?? obstacle(policy, next, added) {
      try restore(old)
      throw Fault(description: obstacle.sentence(path) + ":\n\n" + text)
    }
    for diagnostic in news { Output.complain("\(diagnostic)\n") }
    return text
  }

  private func restore(_ old: [UInt8]?) throws {
    let result = old.map { Files.replace(path, $0, mode: Files.mode(path) ?? 0o644) } ?? Files.remove(path)
    if case .failure(let error) = result { throw Fault(description: "cannot restore \(path): \(error)") }
  }

  /// A name that no rule has.
  private static func named(_ rule: String, apartFrom names: Set<String>) -> String {
    var lines = rule.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    guard let place = lines.firstIndex(where: { $0.hasPrefix("name ") }),
      let begin = lines[place].firstIndex(of: "\""), let end = lines[place].lastIndex(of: "\""), begin < end
    else { return rule }
    let name = String(lines[place][lines[place].index(after: begin)..<end])
    var free = name
    var number = 2
    while names.contains(free) {
      free = "\(name)-\(number)"
      number += 1
    }
    lines[place] = lines[place][...begin] + free + "\""
    return lines.joined(separator: "\n")
  }
}

extension AdminOptions {
  /// Whether the question is still waiting.
  fileprivate func isThere(_ reference: String) throws -> Bool {
    guard let asks = try text(of: "/v1/asks") else { return false }
    return asks.split(separator: "\n").contains { $0.hasPrefix(reference.uppercased() + " ") }
  }
}

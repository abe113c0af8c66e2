// sallyport replay: what another configuration would have decided in the past. Tests: test_replay.py.

import Transport
import History
import Policy
import Server

nonisolated func replayCommand(_ arguments: Arguments) throws -> Int32 {
  try arguments.refuseOperands()
  guard let configuration = arguments.values["config"] else {
    throw UsageError(message: "expected --config FILE: the configuration to try")
  }
  let options = HistoryOptions(arguments)
  let selection = try options.selection()
  let reader = try HistoryReader(path: historyFile(of: configuration, options))
  guard let policy = ConfigurationFile.loadOrComplain(configuration, secrets: .inspected) else { return 1 }
  let requests = try options.requests(reader, selection)
  let own = MachineAddresses.read()
  var judge = HistoryJudge(policy, wall: Clock.wall) { own.contains($0) }
  let replay = HistoryReplay(requests.all, by: &judge)
  Output.answer(arguments.flags.contains("json") ? replay.json.text + "\n" : replay.text)
  return replay.newlyDenied > 0 ? 1 : 0
}

/// A draft may have no [history]. Then the history of the installed configuration is used.
private nonisolated func historyFile(of configuration: String, _ options: HistoryOptions) throws -> String {
  if let file = options.arguments.values["file"] { return file }
  if let history = ConfigurationFile.load(configuration, secrets: .unneeded).history { return history.file }
  if let history = ConfigurationFile.load(nil, secrets: .unneeded).history { return history.file }
  throw HistoryOptions.Fault(
    description: "neither \(configuration) nor \(ConfigurationFile.standard) has a [history]; give --file PATH")
}

extension HistoryOptions {
  func requests(_ reader: HistoryReader, _ selection: HistorySelection) throws -> HistoryRequests {
    var requests = HistoryRequests()
    try reader.forEach(selection) { record, kind in
      requests.add(record, kind)
      return true
    }
    return requests
  }
}

extension HistoryReplay {
  /// How many requests of a group are shown.
  private static var mostShown: Int { 5 }

  fileprivate var text: String {
    let asked = newlyAsked > 0 ? "newly asked \(newlyAsked), " : ""
    var text = "newly denied \(newlyDenied), \(asked)newly allowed \(newlyAllowed), of \(total)\n"
    if inexact > 0 {
      text +=
        "\(inexact) depend on what is not recorded, and are decided the strict way: who the client was, the end of a "
      text += "long path, or the address of a name\n"
    }
    if unasked > 0 { text += "\(unasked) name no host that a policy can be asked about\n" }
    for group in groups {
      text +=
        "\n\(Self.words(group.change)) by \(Self.decider(group)): \(group.count), last \(HistoryMoment.text(group.last)) UTC\n"
      text += "  \(Self.who(group)); before: \(group.ruleBefore.map { "rule '\($0)'" } ?? "no rule")\n"
      for request in group.requests.prefix(Self.mostShown) { text += "  \(request.count)  \(request.text.printable)\n" }
      let more = group.requests.count - Self.mostShown
      if more > 0 { text += "  and \(more) more\n" }
    }
    return text
  }

  private static func words(_ change: Change) -> String {
    switch change {
    case .denied: "newly denied"
    case .asked: "newly asked about"
    case .allowed: "newly allowed"
    }
  }

  private static func decider(_ group: Group) -> String {
    let rule = group.rule.map { "rule '\($0)' (\(group.place ?? ""))" } ?? "the default, as no rule matches"
    return group.reason == .addressDenied ? "deny_addresses under \(rule)" : rule
  }

  private static func who(_ group: Group) -> String {
    let user = group.user ?? group.client ?? "unknown client"
    return (user + (group.unit.map { ", \($0)" } ?? "")).printable
  }

  fileprivate var json: JSONText {
    func text(_ value: String?) -> JSONText { value.map { .string($0) } ?? .null }
    let list = groups.map { group in
      JSONText.object([
        ("change", .string(group.change.rawValue)), ("rule", text(group.rule)), ("place", text(group.place)),
        ("reason", .string(group.reason.rawValue)), ("rule_before", text(group.ruleBefore)),
        ("user", text(group.user)), ("unit", text(group.unit)), ("client", text(group.client)),
        ("count", .number(group.count)), ("last", .string(HistoryMoment.text(group.last).replacingSpace + "Z")),
        (
          "requests",
          .array(
            group.requests.prefix(Self.mostListed).map {
              .object([("request", .string($0.text)), ("count", .number($0.count))])
            })
        ),
      ])
    }
    return .object([
      ("total", .number(total)), ("newly_denied", .number(newlyDenied)),
      ("newly_asked", .number(newlyAsked)), ("newly_allowed", .number(newlyAllowed)),
      ("inexact", .number(inexact)),
      ("unasked", .number(unasked)), ("groups", .array(list)),
    ])
  }

  /// The same for the document, which a program reads.
  private static var mostListed: Int { 1000 }
}

extension String {
  /// `2026-11-24T02:31:46`
  var replacingSpace: String { split(separator: " ").joined(separator: "T") }
}

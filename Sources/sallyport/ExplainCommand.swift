// sallyport explain: which rule decides a request, why the others do not, and what will happen. For an https URL it
// explains the tunnel, because programs ask a proxy for one. If the tunnel is intercepted, it also explains the request
// inside.

import Bytes
import Console
import Policy
import Reachability
import Server
import Transport

nonisolated func explainCommand(_ options: Arguments) throws -> Int32 {
  guard let first = options.operands.first else {
    throw UsageError(message: "a URL, METHOD and URL, or the reference of a recent request was expected")
  }
  if options.operands.count == 1, !first.contains("://") {
    try refuseWhatIsNoReference(first)
    for name in SenderOption.allCases.map(\.rawValue) where options.values[name] != nil {
      throw UsageError(message: "'--\(name)' belongs to METHOD and URL; of a reference it is known")
    }
    return try explainReference(first, options, denied: deniedStatus)
  }
  try options.refuseOperands(after: 2)
  let named = options.operands.count == 1 ? ["GET", first] : options.operands
  let request = try readRequest(method: named[0], url: named[1])
  let asker = Asker(
    try readSender(options), link: try options.values["when"].map(readLink), wall: Clock.wall)
  guard let policy = ConfigurationFile.loadOrComplain(options.values["config"], secrets: .inspected) else { return 1 }
  let isInside = request.isHTTPS && !request.isTunnel && !options.flags.contains("absolute")
  if isInside {
    Output.complain("sallyport: programs reach https:// through CONNECT, which is what is explained\n")
  }
  var outer = explanation(of: isInside ? request.tunnel : request, asker, by: policy)
  var inner = isInside ? explanation(of: request, asker, by: policy) : nil
  if let inner { sayWhatDiffers(outer, inner) }
  if let inside = inner, outer.security?.treatment != .intercept {
    outer.note = inside.note(through: outer)
    inner = nil
  }
  if let note = LocalAuthority(of: policy).certificate?.permitNote(on: outer, request.host) { outer.note = note }
  let isRefused = request.isRawPath && (inner.map(\.refusesRawPath) ?? (!outer.isTunnel && outer.refusesRawPath))
  if isRefused {
    outer.note =
      "The path has bytes above 0x7f. A program that sends them as they are is refused (400), as the rule has no "
      + "encode_path = true; one that percent-encodes them, as browsers do, gets what follows."
  }
  let temporary = temporaryVerdict(inner ?? outer, asker, options: options, at: policy.configuration.admin.socket)
  if options.flags.contains("json") {
    Output.answer(outer.json(inside: inner, temporary: temporary?.json))
  } else {
    Output.answer(outer.description)
    if let inner { Output.answer("\ninside the tunnel:\n\n\(inner.description)") }
  }
  if let temporary {
    Output.complain("sallyport: in the running proxy \(temporary.sentence)")
    // An address that is denied stays so after a yes.
    let isBlocked = isRefused || outer.address?.block != nil || inner?.address?.block != nil
    if let denies = temporary.denies { return denies || isBlocked ? deniedStatus : 0 }
  }
  if lacksCredentials(asker, policy) { return deniedStatus }
  return !isRefused && outer.isYes && inner?.isYes != false ? 0 : deniedStatus
}

/// Says what the proxy asks of clients before any rule. Returns whether this one is refused for it.
private func lacksCredentials(_ asker: Asker, _ policy: Policy) -> Bool {
  let credentials = policy.configuration.proxy.credentials
  if credentials.isEmpty { return false }
  guard let name = asker.sender.proxyUser else {
    Output.complain("sallyport: clients have to show 'credentials' of [proxy]: without them they get 407\n")
    return false
  }
  if credentials == [.withheld] || credentials.contains(where: { $0.user == name }) { return false }
  Output.complain("sallyport: 'credentials' in [proxy] has no '\(name)': such a client gets 407\n")
  return true
}

/// What operators have allowed or denied for a time. This takes precedence over the explanation.
private struct TemporaryVerdict {
  /// As the daemon says it, with a line end.
  let sentence: String
  /// nil: it is for a client elsewhere, and may not be about this one.
  let denies: Bool?

  var json: JSONText {
    .object([
      ("decision", denies.map { .string(($0 ? Decision.Verdict.deny : .allow).rawValue) } ?? .null),
      ("detail", .string(sentence.split(separator: "\n").joined(separator: " "))),
    ])
  }
}

/// nil: no daemon with this configuration is running, or no operator has said anything.
private func temporaryVerdict(
  _ explanation: Explanation, _ asker: Asker, options: Arguments, at socket: String
) -> TemporaryVerdict? {
  var parts: [String]
  let words = explanation.request.split(separator: " ", maxSplits: 1).map(String.init)
  guard words.count == 2 else { return nil }
  parts = ["method=\(AdminOptions.encoded(words[0]))", "url=\(AdminOptions.encoded(words[1]))"]
  if let client = asker.sender.client, client.userID != LocalClient.noUser { parts.append("uid=\(client.userID)") }
  if let unit = asker.sender.client?.unit { parts.append("unit=\(AdminOptions.encoded(unit))") }
  let path = "/v1/temporary?" + parts.joined(separator: "&")
  guard let text = AdminOptions(options).quietText(of: path, at: socket), !text.isEmpty else { return nil }
  let object = AdminOptions(options).quietText(of: path, at: socket, accepting: "application/json")
  guard let rule = object.flatMap({ JSONValue(Array($0.utf8)) }) else {
    return TemporaryVerdict(sentence: text, denies: true)
  }
  return TemporaryVerdict(sentence: text, denies: rule["client"] == .null ? rule["verdict"].text != "allow" : nil)
}

/// The exit status if the policy denies; 1 means a failure.
private let deniedStatus: Int32 = 3

/// A single operand that is not a URL is a reference, unless it looks like something else that people type.
private func refuseWhatIsNoReference(_ text: String) throws {
  guard text.contains(where: { ".:/[".contains($0) }) else { return }
  let parts = text.split(separator: ":")
  if parts.count == 2, !text.contains("/"), UInt16(parts[1]) != nil {
    throw UsageError(
      message: "'\(text)' is neither a URL nor a reference; did you mean 'CONNECT \(text)' or 'http://\(text)/'?")
  }
  let path = text.hasPrefix("/") ? "HOST\(text)" : text
  throw UsageError(
    message: "'\(text)' is neither a URL nor a reference; did you mean 'https://\(path)' or 'http://\(path)'?")
}

/// BusyBox wget, axel and older axios send `GET https://…` in absolute-form, without CONNECT. A rule with methods or
/// paths may decide that differently.
private func sayWhatDiffers(_ tunnel: Explanation, _ request: Explanation) {
  guard tunnel.verdict != request.verdict || tunnel.rule?.name != request.rule?.name else { return }
  let rule = request.rule.map { "rule '\($0.name)'" } ?? "no rule"
  Output.complain(
    "sallyport: a request that a program sends as it is, without CONNECT, is \(request.verdict.participle) by \(rule); --absolute explains that\n"
  )
}

extension Explanation {
  /// Whether a request that the rule allows is refused because of bytes above 0x7F in its path.
  fileprivate var refusesRawPath: Bool { decision.verdict != .deny && !encodesPath }
  /// With what is known of the address.
  fileprivate var verdict: Decision.Verdict { address?.block == nil ? decision.verdict : .deny }
  fileprivate var isYes: Bool { verdict == .allow }
}

private func explanation(of request: NamedRequest, _ asker: Asker, by policy: Policy) -> Explanation {
  Explanation(
    by: policy, of: request, asker, own: request.host.address == nil ? .unknown : MachineAddresses.read())
}

// MARK: Who asks

func readSender(_ options: Arguments) throws -> Sender {
  var sender = Sender(
    client: try readClient(options), proxyUser: options.values["proxy-user"], program: options.values["program"])
  if let text = options.values["client"] {
    guard let address = IPAddress(text) else {
      throw UsageError(message: "'--client': expected an address, found '\(text)'")
    }
    sender.address = address
  }
  sender.nameClientOfProgram()
  return sender
}

/// A client as the daemon would see it. The user or the unit may be left open.
private func readClient(_ options: Arguments) throws -> LocalClient? {
  let unit = options.values["unit"]
  if let fault = unit.flatMap(UnitName.fault) { throw UsageError(message: "'--unit': \(fault)") }
  guard let user = options.values["user"] else {
    return unit.map { LocalClient(userID: LocalClient.noUser, user: nil, cgroup: [$0]) }
  }
  let number = try userNumber(user)
  return client(number, user: String(number) == user ? nil : user, unit: unit)
}

/// A user of this machine, given by name or number as `--user`.
nonisolated func userNumber(_ user: String) throws -> UInt32 {
  if let number = UInt32(user), String(number) == user, number != LocalClient.noUser { return number }
  switch Users.number(of: user) {
  case .success(let number?): return number
  case .success(nil): throw UsageError(message: "'--user': there is no user named '\(user)'")
  case .failure(let fault): throw UsageError(message: "'--user': cannot look up the user '\(user)': \(fault)")
  }
}

/// As the daemon would see it, including the owner of a subordinate user.
private func client(_ number: UInt32, user: String?, unit: String?) -> LocalClient {
  let owners = SubordinateUsers.read().ownerNumbers(of: number)
  return LocalClient(
    userID: number, user: user, owners: owners ?? [], cgroup: unit.map { [$0] } ?? [], isUserInDoubt: owners == nil)
}

private func readLink(_ text: String) throws -> ReachabilityStatus {
  if let link = ReachabilityStatus(rawValue: text) { return link }
  let words = ReachabilityStatus.allCases.map(\.rawValue).joined(separator: ", ")
  throw UsageError(message: "'--when': expected one of \(words), found '\(text)'")
}

// MARK: The request

/// Reads method and URL with the daemon's own parser, so both interpret them the same way.
private func readRequest(method: String, url: String) throws -> NamedRequest {
  switch NamedRequest.read(method: method, url: url) {
  case .success(let request): return request
  case .failure(let fault): throw UsageError(message: fault.sentence)
  }
}

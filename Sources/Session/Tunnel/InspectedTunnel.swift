// A tunnel of connect = "verify" within a session, or the beginning of a plain one: acts on the results of its
// inspection.
//
// The 200 has been sent by then. So a refusal closes the tunnel, with an alert if the client speaks TLS, and the access
// line shows why.

import Bytes
import Policy
import Security
import TLSWire

/// An object, so that other sessions pay one word for it.
final class InspectedTunnel {
  var inspection: TunnelInspection
  /// The beginning of a plain tunnel, until it is known to be TLS; nil in a verified one.
  var beginning: TunnelBeginning? = nil
  /// Whether the tunnel is plain: only names are checked.
  let isPlain: Bool
  /// Since when bytes of the client have been held; nil: none are.
  var heldSince: Int64? = nil
  /// The client sends no more than what is held.
  var clientSaidAll = false
  var presented: PresentedCertificates? = nil
  /// The server's last bytes are on their way.
  var endsAfterForward = false

  init(_ inspection: TunnelInspection) {
    self.inspection = inspection
    isPlain = false
  }

  init(_ beginning: TunnelBeginning, serverNames: [[UInt8]]) {
    self.beginning = beginning
    inspection = TunnelInspection(serverNames: serverNames, for: .name)
    isPlain = true
  }
}

extension Exchange {
  /// Whether bytes of the tunnel have to be inspected before they are moved.
  public var isInspecting: Bool { tunnel.inspected != nil }

  /// Whether bytes of the upstream have to be inspected before they are moved. Not while the client of a plain tunnel
  /// is silent: a server may speak first.
  public var looksAtUpstreamBytes: Bool {
    guard let inspected = tunnel.inspected else { return false }
    return inspected.beginning?.opening.requiresHello ?? true
  }

  /// The certificates that the server presented, for `.judge`.
  public var presentedCertificates: PresentedCertificates? { tunnel.inspected?.presented }

  /// A tunnel to the host in `workspace.decisions` must be verified.
  mutating func prepareInspection(_ workspace: borrowing Workspace) {
    upstream.way.insert(.isVerified)
    let isAddress = workspace.decisions.host.address != nil
    let wantsStaple = security.settings.revocation == .staple
    tunnel.inspected = InspectedTunnel(
      TunnelInspection(
        serverNames: isAddress ? [probedName].compactMap { $0 } : serverNames(workspace), allowsNone: isAddress,
        for: .certificates(wantsStaple: wantsStaple)))
  }

  /// A tunnel to the host in `workspace.decisions` is plain: its beginning is checked if the policy asks for it.
  mutating func prepareBeginning(_ decision: Decision, _ workspace: inout Workspace) {
    var opening = policy.opening(of: decision, port: upstream.port, &workspace.decisions)
    if workspace.temporary.deniesRequests(
      to: workspace.decisions.host, port: upstream.port, of: sender, wall: workspace.wallMilliseconds)
    {
      opening.refusesRequests = true
    }
    if opening.isFree { return }
    tunnel.inspected = InspectedTunnel(TunnelBeginning(opening), serverNames: serverNames(workspace))
  }

  /// A hello must contain one of these names; none if the CONNECT is to an address.
  private func serverNames(_ workspace: borrowing Workspace) -> [[UInt8]] {
    if workspace.decisions.host.address != nil { return [] }
    return [workspace.decisions.host.copiedBytes] + [probedName].compactMap { $0 }
  }

  /// `server_name` of the policy.
  private var probedName: [UInt8]? { security.settings.serverName.map { Array($0.utf8) } }

  /// How long bytes of a plain tunnel may be held.
  var helloDeadline: Int64? {
    guard let inspected = tunnel.inspected, inspected.isPlain else { return nil }
    return inspected.heldSince.map { $0 + timeouts.tlsHandshakeMilliseconds }
  }

  /// The client has closed its sending direction. The server presents the held bytes once more, and they pass or are
  /// refused; false: nothing is held that could wait for more.
  public mutating func clientSaidAll() -> Bool {
    guard phase == .tunnel, let inspected = tunnel.inspected, inspected.isPlain else { return false }
    inspected.clientSaidAll = true
    return true
  }

  mutating func inspect(
    client bytes: Span<UInt8>, _ inspected: InspectedTunnel, now: Int64, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) -> Step {
    var step = ClientStep.hold
    switch inspected.beginning?.read(bytes, isLast: inspected.clientSaidAll) {
    case .incomplete: break
    case .other:
      tunnel.inspected = nil
      return Step(consumed: 0, action: .forward(count: bytes.count))
    case .refused(let fault): step = .refuse(fault)
    case .tls, nil:
      inspected.beginning = nil
      step = inspected.inspection.clientReceived(bytes)
    }
    if step == .hold, inspected.clientSaidAll, !bytes.isEmpty, let fault = inspected.inspection.clientEnded() {
      step = .refuse(fault)
    }
    switch step {
    case .hold:
      if inspected.heldSince == nil, !bytes.isEmpty { inspected.heldSince = now }
      return Step(consumed: 0, action: .read)
    case .forward(let count):
      inspected.heldSince = nil
      if inspected.isPlain, inspected.inspection.hello?.serverName != nil { record.assurance = .sni }
      return Step(consumed: 0, action: .forward(count: count))
    case .refuse(let fault):
      if !enforces { return letPass(fault, bytes) }
      record.bytesIn &+= UInt64(bytes.count)
      return Step(consumed: bytes.count, action: refuseTunnel(fault, &workspace, &outputs))
    }
  }

  mutating func inspect(
    upstream bytes: Span<UInt8>, _ inspected: InspectedTunnel, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    if let beginning = inspected.beginning { return pass(upstream: bytes, beginning, &workspace, &outputs) }
    let step = inspected.inspection.upstreamReceived(bytes)
    // As on the proxy's own connections, a rule that is not enforced lowers no version and allows no other cipher.
    if let fault = versionFault(inspected.inspection.version) ?? cipherFault(inspected.inspection.cipherSuite) {
      return Step(consumed: bytes.count, action: refuseTunnel(fault, &workspace, &outputs))
    }
    switch step {
    case .hold: return Step(consumed: 0, action: .read)
    case .pass:
      if let step = doubtName(inspected.inspection.hello, bytes, &workspace, &outputs) { return step }
      if inspected.inspection.isComplete { tunnel.inspected = nil }
      return bytes.isEmpty ? Step(consumed: 0, action: .read) : Step(consumed: 0, action: .forward(count: bytes.count))
    case .evaluate(let presented):
      inspected.presented = presented
      return Step(consumed: 0, action: .judge)
    case .resumed:
      // No certificate is visible: the probe's result has to do, as with TLS 1.3.
      if let step = doubtName(inspected.inspection.hello, bytes, &workspace, &outputs) { return step }
      inspected.inspection.accept()
      tunnel.inspected = nil
      return Step(consumed: 0, action: .forward(count: bytes.count))
    case .passThenClose(let count):
      if count > 0 {
        inspected.endsAfterForward = true
        return Step(consumed: 0, action: .forward(count: count))
      }
      return Step(consumed: bytes.count, action: endOfTunnel(.done))
    case .refuse(let fault):
      if !enforces { return letPass(fault, bytes) }
      return Step(consumed: bytes.count, action: refuseTunnel(fault, &workspace, &outputs))
    }
  }

  /// The client has sent nothing readable yet. A TLS server waits for it.
  private mutating func pass(
    upstream bytes: Span<UInt8>, _ beginning: TunnelBeginning, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    if bytes.isEmpty { return Step(consumed: 0, action: .read) }
    if beginning.opening.requiresHello {
      let fault = TunnelFault.server(.spokeFirst)
      if !enforces { return letPass(fault, bytes) }
      return Step(consumed: bytes.count, action: refuseTunnel(fault, &workspace, &outputs))
    }
    return Step(consumed: 0, action: .forward(count: bytes.count))
  }

  private func versionFault(_ seen: ProtocolVersion?) -> TunnelFault? {
    guard let seen else { return nil }
    let settings = security.settings
    if seen >= ProtocolVersion(settings.minimumVersion) && seen <= ProtocolVersion(settings.maximumVersion) {
      return nil
    }
    let expected =
      settings.minimumVersion == settings.maximumVersion
      ? settings.minimumVersion.rawValue
      : "\(settings.minimumVersion.rawValue) to \(settings.maximumVersion.rawValue)"
    return .versionNotAllowed(seen: seen.description, expected: expected)
  }

  private func cipherFault(_ seen: UInt16?) -> TunnelFault? {
    guard let seen, let allowed = security.settings.ciphers, !allowed.numbers.contains(seen) else { return nil }
    let digits = String(seen, radix: 16, uppercase: true)
    return .cipherNotAllowed(
      seen: "0x" + String(repeating: "0", count: 4 - digits.count) + digits, expected: allowed.text)
  }

  /// The probe asked for `server_name`. A client that used another accepted name, or none in a CONNECT to an address,
  /// may get another certificate, and no one has seen that.
  private func unprobedName(_ hello: ClientHello?) -> TunnelFault? {
    guard upstream.way.contains(.isVerified), let name = security.settings.serverName, let hello,
      !name.utf8.elementsEqual(hello.serverName ?? [])
    else { return nil }
    guard let seen = hello.serverName else { return .missingServerName(expected: name) }
    return .otherServerName(seen: seen.span.string, expected: name)
  }

  /// The certificate is hidden. If `hello` does not ask for the name whose certificate was checked, it may be another:
  /// the step refuses it. nil: the name was asked for, or the rule is not enforced.
  private mutating func doubtName(
    _ hello: ClientHello?, _ bytes: Span<UInt8>, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step? {
    guard let fault = unprobedName(hello) else { return nil }
    if enforces { return Step(consumed: bytes.count, action: refuseTunnel(fault, &workspace, &outputs)) }
    record.assurance = .sni
    return nil
  }

  /// Whether the client asked for an OCSP response: a server does not staple one unasked.
  public var clientAsksForStaple: Bool { tunnel.inspected?.inspection.hello?.asksForStaple ?? false }

  /// The certificates in the tunnel have been checked against the policy; `refusal` nil: they satisfy it.
  public mutating func tunnelJudged(
    _ refusal: Problem?, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    guard let inspected = tunnel.inspected else { preconditionFailure("a verdict that nobody asked for") }
    if let refusal, enforces {
      tunnel.inspected = nil
      sayAlert(.badCertificate, &workspace, &outputs)
      record.outcome = .tunnelRefused(refusal.kind)
      record.finding = Finding(refusal)
      return .end(Ending(client: .linger, keepsUpstream: false))
    }
    inspected.inspection.accept()
    tunnel.inspected = nil
    // A policy that checks no certificate has seen only the name. If the client does not ask for an OCSP response, only
    // the probe has seen one.
    let sawAll = security.settings.revocation != .staple || inspected.inspection.hello?.asksForStaple ?? false
    if refusal == nil, record.assurance != .sni, sawAll { record.assurance = .exact }
    return .read
  }

  mutating func refuseTunnel(
    _ fault: TunnelFault, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    tunnel.inspected = nil
    record.outcome = .tunnelFault(fault)
    record.finding = Finding(fault)
    switch fault {
    case .client, .clearRequest: break
    case .server, .versionNotAllowed, .cipherNotAllowed: sayAlert(.handshakeFailure, &workspace, &outputs)
    case .missingServerName, .unexpectedServerName, .otherServerName, .changedServerName:
      sayAlert(.unrecognizedName, &workspace, &outputs)
    }
    return .end(Ending(client: .linger, keepsUpstream: false))
  }

  /// The client's first bytes are still undecided, and no more arrive.
  mutating func heldTooLong() -> Action {
    if enforces { return endOfTunnel(.stalled) }
    tunnel.inspected = nil
    record.outcome = .tunnelFaultReported(.client(.truncated))
    record.finding = Finding(.client(.truncated))
    return .read
  }

  /// An unenforced rule: bytes pass from here on, and the refusal that would have happened is logged.
  private mutating func letPass(_ fault: TunnelFault, _ bytes: Span<UInt8>) -> Step {
    tunnel.inspected = nil
    record.assurance = Assurance.none
    record.outcome = .tunnelFaultReported(fault)
    record.finding = Finding(fault)
    return bytes.isEmpty ? Step(consumed: 0, action: .read) : Step(consumed: 0, action: .forward(count: bytes.count))
  }

  /// TLS alerts (RFC 8446, 6.2) that show the client why its tunnel ends.
  private enum Alert: UInt8 { case handshakeFailure = 40, badCertificate = 42, unrecognizedName = 112 }

  /// One record: alert, the version that every client reads, length two: fatal, and the description.
  private mutating func sayAlert(_ alert: Alert, _ workspace: inout Workspace, _ outputs: inout Outputs) {
    workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
    outputs.toClient.append([21, 3, 3, 0, 2, 2, alert.rawValue])
    record.bytesOut &+= 7
  }
}

extension ProtocolVersion {
  init(_ version: TLSVersion) {
    switch version {
    case .tls10: self = .tls10
    case .tls11: self = .tls11
    case .tls12: self = .tls12
    case .tls13: self = .tls13
    }
  }
}

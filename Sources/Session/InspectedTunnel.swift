// A tunnel of connect = "verify" within a session: what its inspection says, done.
//
// The 200 has gone out by then, so that a refusal is a closed tunnel, with an alert where the client speaks TLS, and the
// access line says why.

import Bytes
import Policy
import Security

/// An object, so that sessions of other kinds pay one word for it.
final class InspectedTunnel {
  var inspection: TunnelInspection
  var presented: PresentedCertificates? = nil
  /// The server's last words are on their way.
  var endsAfterForward = false

  init(_ inspection: TunnelInspection) { self.inspection = inspection }
}

extension Session {
  /// Whether bytes of the tunnel have to be seen before they are moved.
  public var isInspecting: Bool { inspected != nil }

  /// What the server showed, for `.judge`.
  public var presentedCertificates: PresentedCertificates? { inspected?.presented }

  /// A tunnel to the host in `workspace.decisions` is to be verified.
  mutating func prepareInspection(_ workspace: borrowing Workspace) {
    flags.insert(.verifiesTunnel)
    var names: [[UInt8]] = []
    if workspace.decisions.host.address == nil {
      names.append(workspace.decisions.host.copiedBytes)
      if let name = security.settings.serverName { names.append(Array(name.utf8)) }
    }
    inspected = InspectedTunnel(
      TunnelInspection(serverNames: names, wantsStaple: security.settings.revocation == .staple))
  }

  mutating func inspect(
    client bytes: Span<UInt8>, _ inspected: InspectedTunnel, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    switch inspected.inspection.clientReceived(bytes) {
    case .hold: return Step(consumed: 0, action: .read)
    case .forward(let count): return Step(consumed: 0, action: .forward(count: count))
    case .refuse(let fault):
      if !enforces { return letPass(fault, bytes) }
      record.bytesIn &+= UInt64(bytes.count)
      return Step(consumed: bytes.count, action: refuseTunnel(fault, &workspace, &outputs))
    }
  }

  mutating func inspect(
    upstream bytes: Span<UInt8>, _ inspected: InspectedTunnel, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    let step = inspected.inspection.upstreamReceived(bytes)
    if let fault = versionFault(inspected.inspection.version) {
      if !enforces { return letPass(fault, bytes) }
      return Step(consumed: bytes.count, action: refuseTunnel(fault, &workspace, &outputs))
    }
    switch step {
    case .hold: return Step(consumed: 0, action: .read)
    case .pass:
      noteName(inspected.inspection.hello)
      if inspected.inspection.isComplete { self.inspected = nil }
      return bytes.isEmpty ? Step(consumed: 0, action: .read) : Step(consumed: 0, action: .forward(count: bytes.count))
    case .evaluate(let presented):
      inspected.presented = presented
      return Step(consumed: 0, action: .judge)
    case .resumed:
      // No certificate is shown: what the probe saw has to do, as under TLS 1.3.
      noteName(inspected.inspection.hello)
      inspected.inspection.accept()
      self.inspected = nil
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

  /// The probe asked for one name. A client that was let pass with the other of two, or with none where the CONNECT was
  /// to an address, may have met another certificate.
  private mutating func noteName(_ hello: ClientHello?) {
    guard let name = security.settings.serverName, let hello else { return }
    if !name.utf8.elementsEqual(hello.serverName ?? []) { record.assurance = .sni }
  }

  /// Whether the client asked for an OCSP answer: a server staples none unasked.
  public var clientAsksForStaple: Bool { inspected?.inspection.hello?.asksForStaple ?? false }

  /// The certificates in the tunnel have been held against the policy; `refusal` nil: they satisfy it.
  public mutating func tunnelJudged(
    _ refusal: Problem.Kind?, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    guard let inspected else { preconditionFailure("a verdict that nobody asked for") }
    if let refusal, enforces {
      self.inspected = nil
      sayAlert(.badCertificate, &workspace, &outputs)
      record.outcome = .tunnelRefused(refusal)
      return .end(Ending(client: .linger, keepsUpstream: false))
    }
    inspected.inspection.accept()
    self.inspected = nil
    // A policy that looks at no certificate has seen nothing more than the name. An OCSP answer that the client does not ask
    // for was seen by the probe alone.
    let sawAll = security.settings.revocation != .staple || inspected.inspection.hello?.asksForStaple ?? false
    if refusal == nil, record.assurance != .sni, sawAll { record.assurance = .exact }
    return .read
  }

  mutating func refuseTunnel(
    _ fault: TunnelFault, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    inspected = nil
    record.outcome = .tunnelFault(fault)
    switch fault {
    case .client: break
    case .server, .versionNotAllowed: sayAlert(.handshakeFailure, &workspace, &outputs)
    case .missingServerName, .unexpectedServerName, .otherServerName, .changedServerName:
      sayAlert(.unrecognizedName, &workspace, &outputs)
    }
    return .end(Ending(client: .linger, keepsUpstream: false))
  }

  /// A rule that is not enforced: bytes go through from here, and it is said what would have been refused.
  private mutating func letPass(_ fault: TunnelFault, _ bytes: Span<UInt8>) -> Step {
    inspected = nil
    record.assurance = Assurance.none
    record.outcome = .tunnelFaultReported(fault)
    return bytes.isEmpty ? Step(consumed: 0, action: .read) : Step(consumed: 0, action: .forward(count: bytes.count))
  }

  /// Alerts of TLS (RFC 8446, 6.2) by which a client learns why its tunnel ends.
  private enum Alert: UInt8 { case handshakeFailure = 40, badCertificate = 42, unrecognizedName = 112 }

  /// One record: alert, the version that every client reads, two bytes: fatal, and what.
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

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
      names.append(Array(workspace.decisions.host.bytes[...]))
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
      return Step(consumed: bytes.count, action: refuseTunnel(fault, &workspace, &outputs))
    }
  }

  mutating func inspect(
    upstream bytes: Span<UInt8>, _ inspected: InspectedTunnel, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    switch inspected.inspection.upstreamReceived(bytes) {
    case .hold: return Step(consumed: 0, action: .read)
    case .pass:
      if inspected.inspection.isComplete { self.inspected = nil }
      return bytes.isEmpty ? Step(consumed: 0, action: .read) : Step(consumed: 0, action: .forward(count: bytes.count))
    case .evaluate(let presented):
      inspected.presented = presented
      return Step(consumed: 0, action: .judge)
    case .resumed:
      // No certificate is shown: what the probe saw has to do, as under TLS 1.3.
      inspected.inspection.accept()
      self.inspected = nil
      return Step(consumed: 0, action: .forward(count: bytes.count))
    case .passThenClose(let count):
      if count > 0 { return Step(consumed: 0, action: .forward(count: count)) }
      return Step(consumed: bytes.count, action: endOfTunnel(.done))
    case .refuse(let fault):
      if !enforces { return letPass(fault, bytes) }
      return Step(consumed: bytes.count, action: refuseTunnel(fault, &workspace, &outputs))
    }
  }

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
    // A policy that looks at no certificate has seen nothing more than the name.
    if refusal == nil, record.assurance != .sni { record.assurance = .exact }
    return .read
  }

  mutating func refuseTunnel(
    _ fault: TunnelFault, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    inspected = nil
    record.outcome = .tunnelFault(fault)
    switch fault {
    case .client: break
    case .server: sayAlert(.handshakeFailure, &workspace, &outputs)
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

// connect = "verify": before a tunnel is granted the proxy makes a handshake of its own with the very address that the
// tunnel will use, and holds what it is shown against the rule's security policy.
//
// A good verdict is remembered for a while, and tunnels that ask at the same time share one probe. A bad one is not: the
// next client finds out whether the server has been mended. A probe never resumes a session, for it is there to see the
// certificate.

import Policy
import Security
import Session
import Transport

/// What a verdict holds for.
struct ProbeKey: Hashable {
  let host: [UInt8]
  let port: UInt16
  let address: SocketAddress
  /// What a parent leads to is not what is there without it.
  let route: String
  let security: ObjectIdentifier
}

/// The probes of one loop: verdicts, and what is under way.
struct TunnelProbes {
  /// How long a good verdict is relied on, in milliseconds: five minutes, by which a certificate that is replaced by one
  /// that the policy refuses may be noticed late where TLS 1.3 hides it.
  static let verdictMilliseconds: Int64 = 300_000
  /// Verdicts that are remembered: more hosts than a machine talks to in five minutes.
  static let mostVerdicts = 4096

  private struct Verdict {
    let security: OriginSecurity
    let at: Int64
  }

  private var verdicts: [ProbeKey: Verdict] = [:]
  private var running: [ProbeKey: TunnelProbe] = [:]

  func isTrusted(_ key: ProbeKey, now: Int64, seconds: Int64) -> Bool {
    guard let verdict = verdicts[key] else { return false }
    return now - verdict.at < Self.verdictMilliseconds && verdict.security.mayRely(at: seconds)
  }

  func running(_ key: ProbeKey) -> TunnelProbe? { running[key] }

  mutating func begin(_ probe: TunnelProbe) { running[probe.key] = probe }

  /// `isTrusted`: the policy has nothing to say against what was shown. Whatever it has is said of each tunnel anew.
  mutating func end(_ probe: TunnelProbe, isTrusted: Bool, now: Int64) {
    running[probe.key] = nil
    guard isTrusted else {
      verdicts[probe.key] = nil
      return
    }
    if verdicts.count >= Self.mostVerdicts { drop(olderThan: now - Self.verdictMilliseconds) }
    if verdicts.count >= Self.mostVerdicts { verdicts.removeAll() }
    verdicts[probe.key] = Verdict(security: probe.security, at: now)
  }

  mutating func removeAll(where isGone: (OriginSecurity) -> Bool) {
    verdicts = verdicts.filter { !isGone($0.value.security) }
  }

  private mutating func drop(olderThan moment: Int64) { verdicts = verdicts.filter { $0.value.at > moment } }
}

/// One probe under way, and who waits for it.
final class TunnelProbe {
  let key: ProbeKey
  let security: OriginSecurity
  private let destination: Destination
  private let handshakeMilliseconds: Int64
  private var waiters: [Connector] = []
  private var line: Line? = nil
  private var handshake: OriginHandshake? = nil
  private var due: Int64 = .max

  init(_ key: ProbeKey, _ security: OriginSecurity, _ destination: Destination, handshakeMilliseconds: Int64) {
    self.key = key
    self.security = security
    self.destination = destination
    self.handshakeMilliseconds = handshakeMilliseconds
  }

  /// Begins for its first waiter, over the connection that it has made: a server that takes one connection at a time would
  /// never come to the probe while that one was open. The outcome may come before this returns.
  func start(for connector: Connector, over line: Line, _ worker: Worker) {
    waiters = [connector]
    self.line = line
    worker.probes.begin(self)
    worker.reoccupy(line.slot, .probe(self))
    due = worker.now + handshakeMilliseconds
    worker.timers.set(line.slot, due)
    // What a parent has said already is the server's, which in TLS never speaks first.
    guard line.early.isEmpty else {
      return end(.failed(UpstreamFailure(.tlsFailed, "\(place) spoke before the TLS handshake of the probe.")), worker)
    }
    handshake = OriginHandshake.begin(line.stream, to: destination, security, isProbe: true, resuming: nil, worker)
    if handshake == nil {
      return end(.failed(UpstreamFailure(.tlsFailed, "\(place): no TLS connection could be made.")), worker)
    }
    proceed(worker)
  }

  func join(_ connector: Connector) { waiters.append(connector) }

  /// A waiter that has left; with the last one the probe ends.
  func abandon(_ connector: Connector, _ worker: Worker) {
    waiters.removeAll { $0 === connector }
    if waiters.isEmpty, line != nil { end(.abandoned, worker) }
  }

  /// The network is another: a probe from an address that is gone will hear nothing more.
  func networkChanged(_ worker: Worker) {
    guard let line, worker.hasLost(line.stream.descriptor) else { return }
    end(.failed(UpstreamFailure(.connectionFailed, "\(place): the address it was probed from is gone.")), worker)
  }

  func ready(_ worker: Worker) { proceed(worker) }

  func timerFired(_ worker: Worker) {
    // The timer of whoever had the slot before, taken from the wheel in the same turn.
    if worker.now < due { return }
    end(
      .failed(
        UpstreamFailure(
          .tlsTimeout, "\(place) did not finish the TLS handshake of the probe within \(handshakeMilliseconds) ms.")),
      worker)
  }

  private var place: String { "\(destination.name) port \(destination.port)" }

  private func proceed(_ worker: Worker) {
    guard let handshake, let line else { return }
    switch handshake.proceed() {
    case .wants(let wanted): worker.update(line.stream.descriptor, &line.interest, wanted, line.slot)
    case .failed(let failure): end(.failed(failure), worker)
    case .done:
      handshake.stream.shutdownWrite()
      end(.seen(report: handshake.report, isForgiven: handshake.isForgiven), worker)
    }
  }

  /// What a probe came to.
  enum Outcome {
    case failed(UpstreamFailure)
    /// `report`: what the policy would have refused, were it enforced.
    case seen(report: TrustFailure?, isForgiven: Bool)
    case abandoned
  }

  private func end(_ outcome: Outcome, _ worker: Worker) {
    line?.close(worker)
    line = nil
    handshake = nil
    var isTrusted = false
    if case .seen(nil, _) = outcome { isTrusted = worker.live.contains(security) }
    worker.probes.end(self, isTrusted: isTrusted, now: worker.now)
    let waiting = waiters
    waiters = []
    for connector in waiting { connector.probed(outcome, worker) }
  }
}

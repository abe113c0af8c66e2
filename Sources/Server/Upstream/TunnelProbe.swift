// connect = "verify": before a tunnel is granted, the proxy makes its own handshake with the very address that the
// tunnel will use, and checks the certificate against the rule's security policy.
//
// The result is remembered and shared as `ProbeMemory` says. A probe never resumes a session, because it has to see the
// certificate.

import Policy
import Security
import Session
import Transport
import Upstream

/// The scope of a probe's verdict.
struct ProbeKey: Hashable {
  let origin: OriginKey
  let address: SocketAddress
  /// Through a parent, the same address may be another server.
  let route: Route
}

/// One probe in progress, and its waiters.
final class TunnelProbe {
  let key: ProbeKey
  private var security: OriginSecurity { key.origin.security }
  private let destination: Destination
  private let handshakeMilliseconds: Int64
  private var waiters: [Connector] = []
  private var line: Line? = nil
  private var handshake: OriginHandshake? = nil
  private var due: Int64 = .max

  init(_ key: ProbeKey, _ destination: Destination, handshakeMilliseconds: Int64) {
    self.key = key
    self.destination = destination
    self.handshakeMilliseconds = handshakeMilliseconds
  }

  /// Begins for its first waiter, over that connector's connection: a server that accepts one connection at a time
  /// would never get to the probe while that one was open. The outcome may come before this returns.
  func start(for connector: Connector, over line: Line, _ worker: Worker) {
    waiters = [connector]
    self.line = line
    worker.upstreams.probes.begin(self, for: key)
    worker.reoccupy(line.slot, .probe(self))
    due = worker.now + handshakeMilliseconds
    worker.timers.set(line.slot, due)
    // What a parent has already passed on is from the server, and in TLS the server never speaks first.
    guard line.early.isEmpty else {
      return end(.failed(UpstreamFailure(.tlsFailed, "\(place) spoke before the TLS handshake of the probe.")), worker)
    }
    handshake = OriginHandshake.begin(line.stream, to: destination, security, offering: [], resuming: nil, on: worker)
    if handshake == nil {
      return end(.failed(UpstreamFailure(.tlsFailed, "\(place): no TLS connection could be made.")), worker)
    }
    proceed(worker)
  }

  func join(_ connector: Connector) { waiters.append(connector) }

  /// A waiter has left; with the last one the probe ends.
  func abandon(_ connector: Connector, _ worker: Worker) {
    waiters.removeAll { $0 === connector }
    if waiters.isEmpty, line != nil { end(.abandoned, worker) }
  }

  /// The network has changed: a probe from an address that is gone will receive nothing more.
  func networkChanged(_ worker: Worker) {
    guard let line, worker.network.hasLost(line.stream.descriptor) else { return }
    end(.failed(UpstreamFailure(.connectionFailed, "\(place): the address it was probed from is gone.")), worker)
  }

  func ready(_ worker: Worker) { proceed(worker) }

  func timerFired(_ worker: Worker) {
    // This timer belonged to the previous occupant of the slot; it was taken from the wheel in the same turn.
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
    case .wants(let wanted): worker.watch(line.stream, &line.interest, wanted: wanted, slot: line.slot)
    case .failed(let failure): end(.failed(failure), worker)
    case .done:
      handshake.stream.shutdownWrite()
      end(.seen(report: handshake.report, isForgiven: handshake.isForgiven), worker)
    }
  }

  /// The outcome of a probe.
  enum Outcome {
    case failed(UpstreamFailure)
    /// `report`: what the policy would have refused if it were enforced.
    case seen(report: TrustFailure?, isForgiven: Bool)
    case abandoned
  }

  private func end(_ outcome: Outcome, _ worker: Worker) {
    line?.close(worker)
    line = nil
    handshake = nil
    var isTrusted = false
    if case .seen(nil, _) = outcome { isTrusted = worker.live.contains(security) }
    worker.upstreams.probes.end(key, isTrusted: isTrusted, now: worker.now)
    let waiting = waiters
    waiters = []
    for connector in waiting { connector.probed(outcome, worker) }
  }
}

// What a conversation knows about who answers at the other end, and how it judges certificates that are visible in a
// tunnel.

import Bytes
import Policy
import Security
import Session
import Transport

extension Conversation {
  func assurance(of upstream: Upstream) -> Assurance? {
    if session.exchange.verifiesTunnel {
      return tunnelSecurity.looksAtCertificates && !session.exchange.record.isForgiven ? .probe : .sni
    }
    // After the parent, a request in absolute-form is in the clear, however the parent was reached.
    if upstream.way.parent != nil { return nil }
    return upstream.destination.security.map { $0.looksAtCertificates && !upstream.isForgiven ? .exact : .none }
  }

  var tunnelSecurity: OriginSecurity { live.security(session.exchange.security, enforces: session.exchange.enforces) }

  /// Judges the certificates in the tunnel itself, which are visible up to TLS 1.2.
  func judgeTunnel(_ worker: Worker) {
    guard let presented = session.exchange.presentedCertificates, let destination else { return }
    let security = tunnelSecurity
    let policy = session.exchange.clientAsksForStaple ? security.policy : security.policyWithoutStaple
    let verdict = PresentedChain.decode(presented.certificates, stapledResponse: presented.stapledResponse)
      .flatMap { chain in
        policy.evaluate(
          chain, for: destination.identity(policy), systemAnchors: security.anchors, at: worker.seconds)
      }
    var refusal: Problem? = nil
    switch verdict {
    case .success(let success):
      worker.shared.notePins(
        success, policy, at: "\(destination.name) port \(destination.port)", seconds: worker.seconds)
      if let found = success.report {
        report(Problem.Kind(found.kind), Finding(found, of: destination.name), isForgiven: false, worker)
      }
    case .failure(let failure):
      refusal = UpstreamFailure(failure, of: destination.name).problem
      if security.enforces {
        worker.shared.log.event(
          .warning, "\(tag) \(failure.kind): the certificate in the tunnel to \(destination.name): \(failure.detail)")
      } else {
        report(Problem.Kind(failure.kind), Finding(failure, of: destination.name), isForgiven: true, worker)
      }
    }
    perform(session.exchange.tunnelJudged(refusal, &worker.workspace, &outputs), worker)
  }
}

// What is known about who answers at the other end of an exchange, and how certificates that are visible in a tunnel
// are judged.

import Bytes
import Policy
import Security
import Session
import TLSWire
import Transport

extension Exchange {
  /// The security policy for the destination; nil without TLS.
  func originSecurity(_ live: LivePolicy) -> OriginSecurity? {
    usesTLS ? live.security(ruling.security, enforces: ruling.enforces) : nil
  }

  /// That for TLS inside its tunnel.
  func tunnelSecurity(_ live: LivePolicy) -> OriginSecurity {
    live.security(ruling.security, enforces: ruling.enforces)
  }

  func assurance(of upstream: Upstream, _ live: LivePolicy) -> Assurance? {
    if verifiesTunnel {
      return tunnelSecurity(live).looksAtCertificates && !record.found.isForgiven ? .probe : .sni
    }
    // After the parent, a request in absolute-form is in the clear, however the parent was reached.
    if upstream.way.parent != nil { return nil }
    return upstream.destination.security.map { $0.looksAtCertificates && !upstream.isForgiven ? .exact : .none }
  }

  /// Judges the certificates in the tunnel itself, which are visible up to TLS 1.2. nil: they pass.
  mutating func judge(
    _ presented: PresentedCertificates, of destination: Destination, by security: OriginSecurity, _ worker: Worker
  ) -> Problem? {
    let policy = clientAsksForStaple ? security.policy : security.policyWithoutStaple
    let verdict = PresentedChain.decode(presented.certificates, stapledResponse: presented.stapledResponse)
      .flatMap { chain in
        policy.evaluate(
          chain, for: destination.identity(policy), systemAnchors: security.anchors, at: worker.seconds)
      }
    switch verdict {
    case .success(let success):
      worker.shared.notePins(
        success, policy, at: "\(destination.name) port \(destination.port)", seconds: worker.seconds)
      if let found = success.report {
        report(Problem.Kind(found.kind), Finding(found, of: destination.name), isForgiven: false, on: worker)
      }
      return nil
    case .failure(let failure):
      if security.enforces {
        worker.shared.log.event(
          .warning, "\(tag) \(failure.kind): the certificate in the tunnel to \(destination.name): \(failure.detail)")
      } else {
        report(Problem.Kind(failure.kind), Finding(failure, of: destination.name), isForgiven: true, on: worker)
      }
      return UpstreamFailure(failure, of: destination.name).problem
    }
  }
}

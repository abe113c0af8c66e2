// One TLS handshake with an origin, and the security policy's verdict on the chain that it shows.

import Bytes
import Policy
import Security
import Session
import Transport

/// What a security policy would have refused about the certificate of a connection if it or its pins were enforced.
struct CertificateReport {
  let kind: Problem.Kind
  let finding: Finding
  /// The policy refuses the certificate; otherwise only its pins would have. A parent's is never forgiven: what a route
  /// demands is enforced.
  let isForgiven: Bool
  /// The certificate is that of a parent.
  let isOfParent: Bool

  /// nil: the handshake has nothing to report. `name`: whose certificate it is, for people.
  init?(_ handshake: OriginHandshake, of name: String, isParent: Bool) {
    guard let failure = handshake.report else { return nil }
    kind = Problem.Kind(failure.kind)
    finding = Finding(failure, of: name)
    isForgiven = handshake.isForgiven
    isOfParent = isParent
  }
}

extension Upstream {
  /// `tls`: its own handshake, if it has just had one.
  func noteReport(of tls: OriginHandshake?, over line: Line) {
    let own = destination.isParent ? nil : tls.flatMap { CertificateReport($0, of: destination.name, isParent: false) }
    report = own ?? line.report
  }
}

final class OriginHandshake {
  enum Progress {
    case done
    case wants(Interest)
    case failed(UpstreamFailure)
  }

  /// What the judge found, shared with the closure that OpenSSL calls. If the closure referred to the handshake, the
  /// handshake would keep itself alive.
  private final class Finding {
    var failure: TrustFailure? = nil
    var report: TrustFailure? = nil
    var isForgiven = false
  }

  let stream: TLSStream
  private let finding: Finding
  private let place: String

  private init(_ stream: TLSStream, _ finding: Finding, place: String) {
    self.stream = stream
    self.finding = finding
    self.place = place
  }

  /// What a policy that only reports would have refused.
  var report: TrustFailure? { finding.report }
  /// Whether the policy refuses what it was shown but its rule does not enforce it.
  var isForgiven: Bool { finding.isForgiven }

  /// `protocols`: empty if nothing will be asked of the server.
  static func begin(
    _ bytes: ByteStream, to destination: Destination, _ security: OriginSecurity, offering protocols: [HTTPProtocol],
    resuming session: TLSSession?, on worker: Worker
  ) -> OriginHandshake? {
    let finding = Finding()
    let identity = destination.identity(security.policy)
    let seconds = worker.seconds
    let shared = worker.shared
    let place = "\(destination.name) port \(destination.port)"
    let stream = TLSStream.client(
      security.context, over: bytes, serverName: identity.serverName, protocols: protocols, resuming: session,
      now: worker.now
    ) { certificates, status in
      let chain = PresentedChain(retaining: certificates, stapledResponse: status)
      let verdict = security.policy.evaluate(
        chain, for: identity, systemAnchors: security.anchors, at: seconds)
      switch verdict {
      case .success(let success):
        finding.report = success.report
        shared.notePins(success, security.policy, at: place, seconds: seconds)
        return true
      case .failure(let failure) where !security.enforces:
        finding.report = failure
        finding.isForgiven = true
        return true
      case .failure(let failure):
        finding.failure = failure
        return false
      }
    }
    return stream.map { OriginHandshake($0, finding, place: place) }
  }

  func proceed() -> Progress {
    switch stream.handshake() {
    case .done: .done
    case .wantsRead: .wants(.read)
    case .wantsWrite: .wants(.write)
    case .failed(let failure): .failed(explain(failure))
    }
  }

  private func explain(_ failure: TLSFailure) -> UpstreamFailure {
    if let refusal = finding.failure { return UpstreamFailure(refusal, of: place) }
    switch failure.kind {
    case .alert(let number):
      return UpstreamFailure(.tlsAlert, "\(place) answered the TLS handshake with alert \(number) (\(failure.text)).")
    case .closed: return UpstreamFailure(.tlsFailed, "\(place): \(failure.text).")
    case .refusedByJudge: return UpstreamFailure(.certificateUntrusted, "\(place): \(failure.text).")
    case .protocolError:
      return UpstreamFailure(.tlsFailed, "The TLS handshake with \(place) failed: \(failure.text).")
    }
  }
}

extension UpstreamFailure {
  init(_ failure: TrustFailure, of place: String) {
    self.init(Problem.Kind(failure.kind), "\(place): \(failure.detail)", difference: failure.difference)
  }
}

extension Finding {
  convenience init(_ failure: TrustFailure, of place: String) {
    self.init("\(place): \(failure.detail)", failure.difference)
  }
}

extension Problem.Kind {
  init(_ kind: TrustFailure.Kind) {
    switch kind {
    case .untrusted: self = .certificateUntrusted
    case .expired: self = .certificateExpired
    case .notYetValid: self = .certificateNotYetValid
    case .nameMismatch: self = .certificateNameMismatch
    case .pinMismatch: self = .pinMismatch
    case .pinsExpired: self = .pinsExpired
    case .revoked: self = .certificateRevoked
    case .revocationUnknown: self = .revocationUnknown
    }
  }
}

extension ReferenceIdentity {
  /// The name for SNI (RFC 6066, 3): nil for an address.
  var serverName: String? {
    if case .name(let name) = self { return name }
    return nil
  }
}

extension Destination {
  /// The name or address that a certificate must be for.
  func identity(_ policy: SecurityPolicy) -> ReferenceIdentity {
    if let name = policy.settings.serverName { return .name(name) }
    guard let literal else { return .name(name) }
    return .address(literal.octets)
  }
}

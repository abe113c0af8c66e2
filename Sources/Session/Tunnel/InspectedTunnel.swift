// A tunnel of connect = "verify" within a session, or the beginning of a plain one: what becomes of bytes that are
// inspected before they move.
//
// The 200 has been sent by then. So a refusal closes the tunnel, with an alert if the client speaks TLS, and the access
// line shows why.

import Bytes
import Policy
import Security
import TLSWire

/// An object, so that other sessions pay one word for it.
final class InspectedTunnel {
  /// What becomes of the bytes at hand.
  enum Verdict {
    /// They wait for more.
    case hold
    /// The next `count` of them pass.
    case forward(count: Int)
    /// All of them pass, and nothing more is inspected.
    case release
    /// They wait until `presented` has been judged.
    case judge
    /// They do not pass: the server has said its last.
    case end
    case refuse(TunnelFault)
    /// Under an unenforced rule: they pass, nothing more is inspected, and the fault is logged.
    case report(TunnelFault)
  }

  private var inspection: TunnelInspection
  /// The beginning of a plain tunnel, until it is known to be TLS; nil in a verified one.
  private var beginning: TunnelBeginning? = nil
  /// Whether the tunnel is plain: only names are checked.
  let isPlain: Bool
  /// What the certificates are judged by.
  private let security: SecurityPolicy
  private let enforces: Bool
  /// Since when bytes of the client have been held; nil: none are.
  private(set) var heldSince: Int64? = nil
  /// The client sends no more than what is held.
  private var clientSaidAll = false
  /// The certificates that the server presented, for `.judge`.
  private(set) var presented: PresentedCertificates? = nil
  /// The server's last bytes are on their way.
  private(set) var endsAfterForward = false
  /// Of the destination only the name in the client's hello is known.
  private(set) var isKnownByName = false

  /// A tunnel to `host` that must be verified.
  init(verifying host: borrowing CanonicalHost, by ruling: Ruling) {
    (security, enforces, isPlain) = (ruling.security, ruling.enforces, false)
    let isAddress = host.address != nil
    inspection = TunnelInspection(
      serverNames: isAddress ? Self.probedName(security) : Self.serverNames(host, security), allowsNone: isAddress,
      for: .certificates(wantsStaple: security.settings.revocation == .staple))
  }

  /// A plain tunnel to `host`, whose beginning is checked.
  init(_ opening: TunnelOpening, to host: borrowing CanonicalHost, by ruling: Ruling) {
    (security, enforces, isPlain) = (ruling.security, ruling.enforces, true)
    beginning = TunnelBeginning(opening)
    inspection = TunnelInspection(serverNames: Self.serverNames(host, security), for: .name)
  }

  /// A hello must contain one of these names; none if the CONNECT is to an address.
  private static func serverNames(_ host: borrowing CanonicalHost, _ security: SecurityPolicy) -> [[UInt8]] {
    host.address != nil ? [] : [host.copiedBytes] + probedName(security)
  }

  /// `server_name` of the policy.
  private static func probedName(_ security: SecurityPolicy) -> [[UInt8]] {
    security.settings.serverName.map { [Array($0.utf8)] } ?? []
  }

  /// Whether bytes of the upstream have to be inspected before they are moved. Not while the client of a plain tunnel
  /// is silent: a server may speak first.
  var looksAtUpstreamBytes: Bool { beginning?.opening.requiresHello ?? true }

  /// Whether the client asked for an OCSP response: a server does not staple one unasked.
  var clientAsksForStaple: Bool { inspection.hello?.asksForStaple ?? false }

  // MARK: Bytes

  func clientReceived(_ bytes: Span<UInt8>, now: Int64) -> Verdict {
    var step = ClientStep.hold
    switch beginning?.read(bytes, isLast: clientSaidAll) {
    case .incomplete: break
    case .other: return .release
    case .refused(let fault): step = .refuse(fault)
    case .tls, nil:
      beginning = nil
      step = inspection.clientReceived(bytes)
    }
    if step == .hold, clientSaidAll, !bytes.isEmpty, let fault = inspection.clientEnded() { step = .refuse(fault) }
    switch step {
    case .hold:
      if heldSince == nil, !bytes.isEmpty { heldSince = now }
      return .hold
    case .forward(let count):
      heldSince = nil
      if isPlain, inspection.hello?.serverName != nil { isKnownByName = true }
      return .forward(count: count)
    case .refuse(let fault): return refusal(fault)
    }
  }

  func upstreamReceived(_ bytes: Span<UInt8>) -> Verdict {
    if let beginning {
      // The client has sent nothing readable yet. A TLS server waits for it.
      if bytes.isEmpty { return .hold }
      return beginning.opening.requiresHello ? refusal(.server(.spokeFirst)) : .forward(count: bytes.count)
    }
    let step = inspection.upstreamReceived(bytes)
    // As on the proxy's own connections, a rule that is not enforced lowers no version and allows no other cipher.
    if let fault = versionFault(inspection.version) ?? cipherFault(inspection.cipherSuite) { return .refuse(fault) }
    switch step {
    case .hold: return .hold
    case .pass: return doubtName() ?? (inspection.isComplete ? .release : .forward(count: bytes.count))
    case .evaluate(let presented):
      self.presented = presented
      return .judge
    case .resumed:
      // No certificate is visible: the probe's result has to do, as with TLS 1.3.
      if let refusal = doubtName() { return refusal }
      inspection.accept()
      return .release
    case .passThenClose(let count):
      if count == 0 { return .end }
      endsAfterForward = true
      return .forward(count: count)
    case .refuse(let fault): return refusal(fault)
    }
  }

  /// The client has closed its sending direction. The server presents the held bytes once more, and they pass or are
  /// refused; false: nothing is held that could wait for more.
  func takesLastBytes() -> Bool {
    if isPlain { clientSaidAll = true }
    return isPlain
  }

  /// The client has closed its sending direction, and nothing of it is held. Returns what is missing.
  func clientEnded() -> TunnelFault? { beginning == nil ? inspection.clientEnded() : nil }

  func upstreamEnded() -> TunnelFault? { inspection.upstreamEnded() }

  /// The certificates satisfy the policy, or the rule is not enforced. Returns whether all that the policy asks for was
  /// seen on this very connection: if the client does not ask for an OCSP response, only the probe has seen one.
  func accept() -> Bool {
    inspection.accept()
    return security.settings.revocation != .staple || clientAsksForStaple
  }

  // MARK: Faults

  private func refusal(_ fault: TunnelFault) -> Verdict { enforces ? .refuse(fault) : .report(fault) }

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

  /// The certificate is hidden. If the hello does not ask for the name whose certificate was checked, it may be
  /// another: it is refused. nil: the name was asked for, or the rule is not enforced.
  private func doubtName() -> Verdict? {
    guard let fault = unprobedName(inspection.hello) else { return nil }
    if enforces { return .refuse(fault) }
    isKnownByName = true
    return nil
  }

  /// The probe asked for `server_name`. A client that used another accepted name, or none in a CONNECT to an address,
  /// may get another certificate, and no one has seen that.
  private func unprobedName(_ hello: ClientHello?) -> TunnelFault? {
    guard !isPlain, let name = security.settings.serverName, let hello, !name.utf8.elementsEqual(hello.serverName ?? [])
    else { return nil }
    guard let seen = hello.serverName else { return .missingServerName(expected: name) }
    return .otherServerName(seen: seen.span.string, expected: name)
  }
}

/// TLS alerts (RFC 8446, 6.2) that show the client why its tunnel ends.
enum TunnelAlert: UInt8 {
  case handshakeFailure = 40
  case badCertificate = 42
  case unrecognizedName = 112

  /// nil: the client does not speak TLS, or not well enough to be told.
  init?(_ fault: TunnelFault) {
    switch fault {
    case .client, .clearRequest: return nil
    case .server, .versionNotAllowed, .cipherNotAllowed: self = .handshakeFailure
    case .missingServerName, .unexpectedServerName, .otherServerName, .changedServerName: self = .unrecognizedName
    }
  }

  /// One record: alert, the version that every client reads, length two: fatal, and the description.
  var record: [UInt8] { [21, 3, 3, 0, 2, 2, rawValue] }
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

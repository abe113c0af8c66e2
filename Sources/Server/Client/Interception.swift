// connect = "intercept": the proxy speaks TLS with the client in place of the host that it asked for, with a leaf of
// the local authority, and reads the requests inside.
//
// Minting a leaf takes a small part of a millisecond, so loops do it themselves, under one lock. A client that asks for
// a host while another loop is minting for it waits that long and shares the leaf.

import Bytes
import Policy
import Security
import Session
import Transport

/// What interception needs, shared by the loops.
final class Interception: Sendable {
  let mint: LeafMint
  let context: TLSContext
  private let leaves = Locked(LeafCache())
  /// Hosts for which a client's refusal of the authority has been logged.
  private let refusals = Locked(Set<[UInt8]>())
  /// How many such hosts are remembered; beyond them nothing is logged.
  private static let mostRefusals = 1024

  init(mint: LeafMint, context: TLSContext) {
    self.mint = mint
    self.context = context
  }

  /// Whether no refusal of the authority by a client of `host` has been logged yet.
  func noteRefusal(_ host: [UInt8]) -> Bool {
    refusals.withLock { $0.count < Self.mostRefusals && $0.insert(host).inserted }
  }

  /// `seconds` since 1970.
  func leaf(for identity: ReferenceIdentity, at seconds: Int64) -> Result<Leaf, MintFault> {
    leaves.withLock { leaves in leaves.leaf(for: identity, now: seconds) { mint.mint(for: $0, now: seconds) } }
  }
}

/// TLS with an intercepted client: from the leaf for its host, before the tunnel is granted, to the end of the
/// handshake.
final class ClientHandshake {
  enum Step {
    case goesOn
    case done(HTTPProtocol)
    /// What there is to say has been logged; the connection is of no more use.
    case failed
  }

  private let interception: Interception
  private let leaf: Leaf
  private let peer: SocketAddress
  /// How long the client may take, in milliseconds.
  private let patience: Int64
  /// As the client wrote it.
  private var host: [UInt8] = []
  /// The tunnel has been granted, and the client speaks TLS.
  private(set) var isUnderWay = false
  private(set) var deadline = Int64.max
  private(set) var wants = Interest.read

  /// For a client that asks for the host in the workspace.
  init(_ live: LivePolicy, peer: SocketAddress, _ worker: Worker) throws(UpstreamFailure) {
    guard let interception = live.interception else {
      throw UpstreamFailure(.interceptionFailed, "No local authority is loaded; 'sallyport ca init' makes one.")
    }
    switch interception.leaf(for: ReferenceIdentity(worker.workspace.decisions.host), at: worker.seconds) {
    case .failure(let fault):
      throw UpstreamFailure(.interceptionFailed, "The host cannot be intercepted: \(fault).")
    case .success(let leaf): self.leaf = leaf
    }
    self.interception = interception
    self.peer = peer
    patience = live.policy.configuration.timeouts.tlsHandshakeMilliseconds
  }

  /// The tunnel to `host` is granted: from here on, the client speaks TLS. `prefix`: what it has already sent of it.
  func begin(for host: [UInt8], on descriptor: Descriptor, prefix: Span<UInt8>, now: Int64) -> TLSStream? {
    self.host = host
    isUnderWay = true
    deadline = now + patience
    return TLSStream.server(
      interception.context, descriptor, prefix: prefix, certificate: leaf.certificate,
      intermediate: interception.mint.intermediate, key: leaf.key, now: now)
  }

  func goOn(_ tls: TLSStream, _ log: LogWriter) -> Step {
    switch tls.handshake() {
    case .wantsRead: wants = .read
    case .wantsWrite: wants = .write
    case .done: return .done(tls.negotiatedProtocol ?? .http11)
    case .failed(let failure):
      noteRefusal(failure, log)
      return .failed
    }
    return .goesOn
  }

  /// The client has had its time.
  func giveUp(_ log: LogWriter) {
    guard interception.noteRefusal(host) else { return }
    log.event(
      .warning,
      "a client at \(AdminResources.text(peer)) did not finish the TLS handshake for \(host.span.string) within "
        + "\(patience) ms")
  }

  /// A client that does not trust the authority sends an alert, and then nothing more.
  private func noteRefusal(_ failure: TLSFailure, _ log: LogWriter) {
    guard interception.noteRefusal(host) else { return }
    let client = AdminResources.text(peer)
    let host = host
    let name = host.span.string
    let what =
      switch failure.kind {
      case .alert(let number):
        "a client at \(client) refused the certificate of the local authority for \(name) "
          + "(alert \(number), \(failure.text)); "
          + "'sallyport env' names the variables and 'sallyport ca export' the certificate for its trust store"
      case .closed:
        "a client at \(client) left the TLS handshake for \(name), as one does that does not trust the "
          + "local authority; see 'sallyport env' and 'sallyport ca export'"
      case .protocolError, .refusedByJudge:
        "the TLS handshake with a client at \(client) for \(name) failed: \(failure.text)"
      }
    log.event(.warning, what)
  }
}

extension ReferenceIdentity {
  init(_ host: CanonicalHost) {
    if let address = host.address {
      self = .address(address.octets)
    } else {
      self = .name(host.bytes.span.string)
    }
  }
}

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

/// The TLS handshake with a client, while it lasts.
struct ClientHandshake {
  let host: [UInt8]
  let deadline: Int64
  var wants: Interest
}

extension Conversation {
  /// CONNECT to a host that is intercepted: grants it if there is a leaf for the host.
  func intercept(_ worker: Worker) {
    guard let interception = live.interception else {
      return perform(
        session.exchange.upstreamFailed(
          UpstreamFailure(.interceptionFailed, "No local authority is loaded; 'sallyport ca init' makes one."),
          &worker.workspace, &outputs), worker)
    }
    switch interception.leaf(for: ReferenceIdentity(worker.workspace.decisions.host), at: worker.seconds) {
    case .failure(let fault):
      let failure = UpstreamFailure(.interceptionFailed, "The host cannot be intercepted: \(fault).")
      perform(session.exchange.upstreamFailed(failure, &worker.workspace, &outputs), worker)
    case .success(let leaf):
      self.leaf = leaf
      perform(session.exchange.interiorOpened(&worker.workspace, &outputs), worker)
    }
  }

  /// The tunnel is granted: from here on, the client speaks TLS.
  func beginClientHandshake(_ worker: Worker) {
    flags.remove(.startsClientHandshake)
    guard let leaf, let interception = live.interception, let interior = session.interior,
      let tls = TLSStream.server(
        interception.context, descriptor, prefix: clientInput.bytes, certificate: leaf.certificate,
        intermediate: interception.mint.intermediate, key: leaf.key, now: worker.now)
    else { return close(worker) }
    self.leaf = nil
    worker.workspace.pool.reclaim(&clientInput)
    stream.tls = tls
    clientHandshake = ClientHandshake(
      host: interior.host, deadline: worker.now + live.policy.configuration.timeouts.tlsHandshakeMilliseconds,
      wants: .read)
    continueClientHandshake(worker)
  }

  func continueClientHandshake(_ worker: Worker) {
    guard let tls = stream.tls, let handshake = clientHandshake else { return }
    switch tls.handshake() {
    case .wantsRead: clientHandshake?.wants = .read
    case .wantsWrite: clientHandshake?.wants = .write
    case .done:
      clientHandshake = nil
      if tls.negotiatedProtocol == .http2 { return continueAsHTTP2(worker) }
      session.handshakeDone(now: worker.now)
      // The first request often comes with the end of the handshake.
      readClient(worker)
      guard worker.isDraining, !flags.contains(.closed) else { return }
      // A request that has arrived, and waits for its turn or for the names of its client, is answered.
      if !flags.contains(.rests), !client.isAwaited {
        perform(session.drain(), worker)
      } else {
        session.expectLastExchange()
      }
    case .failed(let failure):
      noteRefusal(failure, of: handshake.host, worker)
      close(worker)
    }
  }

  func giveUpClientHandshake(_ worker: Worker) {
    if let host = clientHandshake?.host, live.interception?.noteRefusal(host) ?? false {
      let limit = live.policy.configuration.timeouts.tlsHandshakeMilliseconds
      worker.shared.log.event(
        .warning,
        "a client at \(text(of: peer)) did not finish the TLS handshake for \(host.span.string) within \(limit) ms")
    }
    close(worker)
  }

  /// A client that does not trust the authority sends an alert, and then nothing more.
  private func noteRefusal(_ failure: TLSFailure, of host: [UInt8], _ worker: Worker) {
    guard live.interception?.noteRefusal(host) ?? false else { return }
    let what =
      switch failure.kind {
      case .alert(let number):
        "a client at \(text(of: peer)) refused the certificate of the local authority for \(host.span.string) "
          + "(alert \(number), \(failure.text)); "
          + "'sallyport env' names the variables and 'sallyport ca export' the certificate for its trust store"
      case .closed:
        "a client at \(text(of: peer)) left the TLS handshake for \(host.span.string), as one does that does not trust the "
          + "local authority; see 'sallyport env' and 'sallyport ca export'"
      case .protocolError, .refusedByJudge:
        "the TLS handshake with a client at \(text(of: peer)) for \(host.span.string) failed: \(failure.text)"
      }
    worker.shared.log.event(.warning, what)
  }

  func text(of address: SocketAddress) -> String {
    var text = ByteBuffer()
    text.append(address)
    return text.bytes.string
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

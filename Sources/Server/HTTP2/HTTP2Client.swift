// Clients that speak HTTP/2 inside an intercepted tunnel. Each of their streams is a conversation of its own.

import Bytes
import HTTP2
import Session
import Sharing
import Transport

/// What is known of the client of a connection. It applies to each of its streams.
final class HTTP2Client {
  let accepted: Accepted
  /// Whose requests they are, and which tunnel they come through.
  private let origin: RequestOrigin
  private var identification: Conversation.Identification
  /// The policy under which it was identified.
  private let live: LivePolicy
  private(set) var identity: Claimant?

  init(_ conversation: Conversation) {
    accepted = conversation.connection
    origin = conversation.session.origin
    identification = conversation.identification
    identity = conversation.identity
    live = conversation.live
  }

  /// Counts the connection for its client in `limits.connections`.
  func countIdentity(_ worker: Worker) {
    if identification.contains(.counted) { return }
    let identity =
      self.identity ?? worker.owners.identity(of: accepted, now: worker.now) ?? Claimant(IPAddress(accepted.peer))
    self.identity = identity
    worker.shared.places.count(identity)
    identification.insert(.counted)
  }

  func serve(_ stream: HTTP2Stream, of endpoint: HTTP2Endpoint, _ worker: Worker) {
    let slot = worker.occupy(.free)
    let carrier = HTTP2Carrier(stream, of: endpoint, servedBy: slot)
    let conversation = Conversation(
      slot: slot, accepted, over: ByteStream(carrier, by: endpoint.stream.descriptor), worker)
    conversation.session.origin = origin
    conversation.session.origin.wire = .http2
    if worker.isDraining { conversation.session.expectLastExchange() }
    // The connection is counted, not its streams.
    conversation.identification = identification.subtracting(.counted)
    // Users may have other names by now, and subordinate users other owners.
    if live !== worker.live {
      conversation.identification.subtract([.identified, .identifiedForNext, .programSought])
      conversation.session.origin.tunnelIsUnchecked = origin.interior != nil
    }
    conversation.identity = identity
    worker.reoccupy(slot, .client(conversation))
    conversation.begin(worker)
  }

  func closed(_ worker: Worker) {
    if identification.contains(.counted), let identity { worker.shared.places.discount(identity) }
  }
}

extension Conversation {
  /// Whether it serves one stream of a connection.
  var isStream: Bool { stream.carried != nil }

  /// The client has chosen HTTP/2 inside its tunnel. Its connection no longer belongs to this conversation.
  func continueAsHTTP2(_ worker: Worker) {
    let limits = live.policy.configuration.limits
    let settings = ConnectionLimits(limits, extendedConnect: session.interior?.mayUpgrade ?? false)
    guard let connection = HTTP2Connection(.server, settings, worker.messages, now: worker.now) else {
      return close(worker)
    }
    flags.insert(.closed)
    let endpoint = HTTP2Endpoint(
      slot: slot, stream, connection, .client(HTTP2Client(self)), interest: interest, worker)
    worker.reoccupy(slot, .http2(endpoint))
    // The first requests often arrive with the end of the handshake.
    endpoint.read()
    if worker.isDraining { endpoint.retire() }
  }
}

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
  private var client: ClientIdentity
  /// The policy under which it was identified.
  private let live: LivePolicy

  init(_ conversation: Conversation) {
    accepted = conversation.connection
    origin = conversation.session.origin
    client = conversation.client
    live = conversation.live
  }

  var identity: Claimant? { client.claimant }

  func countIdentity(_ worker: Worker) { client.count(accepted, worker) }

  func serve(_ stream: HTTP2Stream, of endpoint: HTTP2Endpoint, _ worker: Worker) {
    let slot = worker.occupy(.free)
    let carrier = HTTP2Carrier(stream, of: endpoint, servedBy: slot)
    // The connection is counted, not its streams.
    var client = self.client.uncounted
    if live !== worker.live { client.forgetNames() }
    let conversation = Conversation(
      slot: slot, accepted, over: ByteStream(carrier, by: endpoint.stream.descriptor), of: client, worker)
    conversation.session.origin = origin
    conversation.session.origin.wire = .http2
    if worker.isDraining { conversation.session.expectLastExchange() }
    if live !== worker.live { conversation.session.origin.tunnelIsUnchecked = origin.interior != nil }
    worker.reoccupy(slot, .client(conversation))
    conversation.begin(worker)
  }

  func closed(_ worker: Worker) { client.discount(worker) }
}

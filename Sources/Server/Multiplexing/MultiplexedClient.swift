// Clients whose requests come on the streams of one connection, inside an intercepted tunnel. Each stream is a
// conversation of its own.

import Bytes
import Session
import Sharing
import Transport

/// What is known of the client of a connection. It applies to each of its streams.
final class MultiplexedClient {
  let accepted: Accepted
  /// Whose requests they are, and which tunnel they come through.
  private let origin: RequestOrigin
  private var client: KnownClient
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

  /// The client has opened a stream on its connection. `makeStream`: for the occupant of a slot.
  func serve(
    _ wire: HTTPProtocol, by connection: Descriptor, on worker: Worker, _ makeStream: (Int) -> any CarriedStream
  ) {
    let slot = worker.occupy(.free)
    let carrier = makeStream(slot)
    // The connection is counted, not its streams.
    var client = self.client.uncounted
    if live !== worker.live { client.forgetNames() }
    let conversation = Conversation(
      slot: slot, accepted, over: ByteStream(carrier, by: connection), of: client, worker)
    conversation.session.origin = origin
    conversation.session.origin.wire = wire
    if worker.isDraining { conversation.session.expectLastExchange() }
    if live !== worker.live { conversation.session.origin.tunnelIsUnchecked = origin.interior != nil }
    worker.reoccupy(slot, .client(conversation))
    conversation.begin(worker)
  }

  func closed(_ worker: Worker) { client.discount(worker) }
}

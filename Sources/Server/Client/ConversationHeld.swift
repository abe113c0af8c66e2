// Parts of a conversation.
import Session
import Sharing
import Transport

extension Conversation {
  // MARK: Memory for held bodies

  /// Called before bytes that may belong to a held body.
  func prepareToHold(_ worker: Worker) {
    session.exchange.client.heldOverdraft =
      worker.heldIsShort ? HeldAccount.overdraft(of: knownIdentity(worker), worker) : 0
  }

  /// Called afterwards.
  func accountHeld(_ worker: Worker) {
    let now = session.exchange.heldBytes
    if now != held.bytes { held.count(now, of: knownIdentity(worker), worker) }
  }

  var mayGiveUpHeld: Bool { session.exchange.heldBytes > 0 && !session.exchange.yieldsHeld }

  /// Another client waits for memory that has less of it.
  func giveUpHeld(_ worker: Worker) {
    // All of it is in the output already.
    if ending != nil { return displace(worker) }
    perform(session.exchange.giveUpHeld(&worker.workspace, &outputs), worker)
    accountHeld(worker)
    settle(worker)
  }
}

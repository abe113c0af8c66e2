// The end of a conversation that the proxy brings about, and not one of its peers.

import Session
import Transport

extension Conversation {
  /// The time that a stop gives is over.
  func shutDown(_ worker: Worker) {
    if flags.contains(.closed) { return }
    if ending == nil {
      perform(session.shutDown(&worker.workspace, &outputs), worker)
      // As much as the socket takes at once: there is no other time.
      settle(worker)
    }
    giveUpSending(worker)
  }

  /// An operator wants what is under way to end. false: nothing is.
  func cancel(_ worker: Worker) -> Bool {
    guard !flags.contains(.closed), ending == nil, session.isInExchange else { return false }
    perform(session.cancelled(&worker.workspace, &outputs), worker)
    if !flags.contains(.closed) { settle(worker) }
    return true
  }
}

// Ends of a conversation that the proxy causes, not one of its peers.

import Session
import Transport

extension Conversation {
  /// The time that a stop allows is over.
  func shutDown(_ worker: Worker) {
    if flags.contains(.closed) { return }
    if ending == nil {
      perform(session.shutDown(&worker.workspace, &outputs), worker)
      // Sends as much as the socket accepts at once: there is no later.
      settle(worker)
    }
    giveUpSending(worker, .shutDown)
  }

  /// An operator wants the current exchange to end. false: there is none.
  func cancel(_ worker: Worker) -> Bool {
    guard !flags.contains(.closed), ending == nil, session.isInExchange else { return false }
    perform(session.cancelled(&worker.workspace, &outputs), worker)
    if !flags.contains(.closed) { settle(worker) }
    return true
  }
}

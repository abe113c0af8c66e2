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
}

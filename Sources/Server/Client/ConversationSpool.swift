// Parts of a conversation.
import Bytes
import Session
import Transport

extension Conversation {
  /// A step of the body's file is done.
  func spooled(_ file: SpoolFile, _ outcome: Spooler.Outcome, _ worker: Worker) {
    guard bodyFile.isIn(file), session.exchange.spools, ending == nil else { return }
    switch outcome {
    case .written:
      session.exchange.spoolWritten(now: worker.now)
      accountHeld(worker)
    case .read(let bytes):
      session.exchange.spoolRead(bytes, now: worker.now, &worker.workspace, &outputs)
      flush(to: .upstream, worker)
    case .failed(let reason):
      let place = "\(worker.shared.spooler.directory): \(reason)"
      worker.shared.log.event(.warning, "\(session.exchange.tag) a body could not be kept in a file in \(place)")
      perform(session.exchange.spoolFailed("in \(place)", &worker.workspace, &outputs), worker)
    }
    settle(worker)
  }
}

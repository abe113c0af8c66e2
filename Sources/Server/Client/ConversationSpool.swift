// The file of a body that is collected whole: the spooler's thread moves what the session wants moved.

import Bytes
import Session
import Transport

extension Conversation {
  /// Posts the next step of the file, if there is one.
  func moveSpool(_ worker: Worker) {
    guard session.exchange.spools else { return closeSpool(worker) }
    var bytes = ByteBuffer()
    if let offset = session.exchange.takeForSpool(&bytes) {
      post(.write(Array(bytes.bytes), at: offset), worker)
      worker.workspace.pool.reclaim(&bytes)
    } else if outputs.toUpstream.isEmpty, upstream != nil, ending == nil, let piece = session.exchange.takeFromSpool() {
      post(.read(count: piece.count, at: piece.offset), worker)
    }
  }

  private func post(_ step: Spooler.Step, _ worker: Worker) {
    let file = spool ?? SpoolFile()
    spool = file
    let mailbox = worker.shared.mailboxes[worker.index]
    let (slot, generation) = (slot, worker.generation(slot))
    worker.shared.spooler.post(step, of: file) { outcome in
      mailbox.post(.spooled(slot: slot, generation: generation, file, outcome))
    }
  }

  /// A step is done.
  func spooled(_ file: SpoolFile, _ outcome: Spooler.Outcome, _ worker: Worker) {
    // The exchange that it was for may be over.
    guard spool === file, session.exchange.spools, ending == nil else { return }
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

  func closeSpool(_ worker: Worker) {
    if let spool { worker.shared.spooler.close(spool) }
    spool = nil
  }
}

extension Array where Element == UInt8 {
  fileprivate init(_ bytes: Span<UInt8>) {
    self = bytes.withUnsafeBufferPointer { Array($0) }
  }
}

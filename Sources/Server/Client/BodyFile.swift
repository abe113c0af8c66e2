// The file of a body that is collected whole and is more than memory may hold: the spooler's thread moves what the
// exchange wants moved, one step at a time.

import Bytes
import Session
import Transport

struct BodyFile {
  private var file: SpoolFile?

  var isOpen: Bool { file != nil }

  /// Whether this is the file of the current exchange: that of an earlier one may still have had a step to do.
  func isCurrent(_ other: SpoolFile) -> Bool { file === other }

  /// Posts the next step of the file, if there is one. `sends`: the upstream accepts more. `slot`: that of the
  /// conversation, which gets the outcome as a message.
  mutating func move(_ exchange: inout Exchange, sends: Bool, slot: Int, _ worker: Worker) {
    guard exchange.spools else { return close(worker) }
    var bytes = ByteBuffer()
    if let offset = exchange.takeForSpool(&bytes) {
      post(.write(bytes.bytes.array, at: offset), slot: slot, worker)
      worker.workspace.pool.reclaim(&bytes)
    } else if sends, let piece = exchange.takeFromSpool() {
      post(.read(count: piece.count, at: piece.offset), slot: slot, worker)
    }
  }

  private mutating func post(_ step: Spooler.Step, slot: Int, _ worker: Worker) {
    let file = file ?? SpoolFile()
    self.file = file
    let mailbox = worker.shared.mailboxes[worker.index]
    let generation = worker.generation(slot)
    worker.shared.spooler.post(step, of: file) { outcome in
      mailbox.post(.spooled(slot: slot, generation: generation, file, outcome))
    }
  }

  mutating func close(_ worker: Worker) {
    if let file { worker.shared.spooler.close(file) }
    file = nil
  }
}

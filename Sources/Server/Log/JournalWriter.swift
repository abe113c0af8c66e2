// Sends batches of entries to the journal. If it cannot be written to, their messages go to standard error as lines of
// text, after one line that says so, until it can be again. Owned by the thread that writes the log.
//
// Tests: Tests/EndToEndTests/test_service.py.

import Bytes
import Transport

struct JournalWriter {
  private var sender = JournalSender(identifier: "sallyport")
  private var fields: [Range<Int>] = []
  private var isCutOff = false

  private static let messageField: StaticString = "MESSAGE="

  /// Sends the entries of `batch` and leaves it empty; what could not be sent is appended to `lines`.
  mutating func send(_ batch: inout ByteBuffer, orAppendTo lines: inout ByteBuffer) {
    var entries = JournalEntries()
    var obstacle = SystemJournal.isPresent ? nil : "it is not there"
    while entries.next(in: batch.bytes, &fields) {
      if obstacle == nil { obstacle = sender.send(batch, fields: fields)?.description }
      if let obstacle { keepMessage(batch.bytes, &lines, because: obstacle) } else { isCutOff = false }
    }
    batch.removeAll()
  }

  private mutating func keepMessage(_ bytes: Span<UInt8>, _ lines: inout ByteBuffer, because obstacle: String) {
    if !isCutOff {
      isCutOff = true
      lines.append("warning: the journal cannot be written to: \(obstacle); its messages follow here\n")
    }
    // A message is the first field of an entry.
    guard let message = fields.first else { return }
    lines.append(bytes.extracting(message.lowerBound + Self.messageField.utf8CodeUnitCount..<message.upperBound))
    lines.append("\n")
  }
}

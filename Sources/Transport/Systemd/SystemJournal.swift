// systemd's journal: entries of fields, sent one by one. Sending may block while the journal is slow: no loop sends.
//
// Tests: Tests/EndToEndTests/test_service.py.

import Bytes
import CSystemd
import Glibc

public enum SystemJournal {
  private static let socketPath = "/run/systemd/journal/socket"

  /// Whether there is a journal. Without one, sending succeeds silently.
  public static var isPresent: Bool { access(socketPath, W_OK) == 0 }

  /// Whether the journal reads what is written to `descriptor` (JOURNAL_STREAM of systemd.exec(5)): a descriptor
  /// redirected since then is another file.
  public static func reads(_ descriptor: Int32) -> Bool {
    guard let stream = Files.environment("JOURNAL_STREAM") else { return false }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return false }
    return stream == "\(status.st_dev):\(status.st_ino)"
  }
}

/// Sends entries, and reuses the memory of one for the next.
public struct JournalSender {
  private let identifier: String
  private var parts: [iovec] = []

  /// `identifier` is the program's name in the journal.
  public init(identifier: String) { self.identifier = "SYSLOG_IDENTIFIER=\(identifier)" }

  /// Sends one entry: its fields, each `NAME=value`, are these ranges of the readable bytes. Returns an error if that
  /// failed.
  public mutating func send(_ bytes: borrowing ByteBuffer, fields: [Range<Int>]) -> SystemError? {
    let readable = unsafe bytes.unsafeReadable
    var identifier = self.identifier
    parts.removeAll(keepingCapacity: true)
    for field in fields {
      let part = unsafe UnsafeMutableRawBufferPointer(mutating: UnsafeRawBufferPointer(rebasing: readable[field]))
      unsafe parts.append(iovec(iov_base: part.baseAddress, iov_len: part.count))
    }
    let result = identifier.withUTF8 { text in
      unsafe parts.append(iovec(iov_base: UnsafeMutableRawPointer(mutating: text.baseAddress), iov_len: text.count))
      return unsafe sd_journal_sendv(parts, Int32(parts.count))
    }
    return result < 0 ? SystemError(-result) : nil
  }
}

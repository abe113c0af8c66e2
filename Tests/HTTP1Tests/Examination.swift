// How each row of the tables is tried: whole, as every prefix of itself, and with something behind it.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

/// What a reader made of some bytes.
enum Verdict: Equatable, Sendable, CustomStringConvertible {
  case incomplete
  /// How many bytes were read, and what they say.
  case accepted(count: Int, String)
  case refused(MessageFault)

  var description: String {
    switch self {
    case .incomplete: "incomplete"
    case .accepted(let count, let summary): "accepted \(count) bytes: \(summary)"
    case .refused(let fault): "refused: \(fault.rawValue)"
    }
  }
}

/// A row of a table: a sentence that says why the verdict is what it is.
struct Row: Sendable, CustomTestStringConvertible {
  let sentence: String
  let bytes: [UInt8]
  /// What an accepted row says; the count of its bytes is that of the row.
  let expected: Result<String, MessageFault>

  /// An accepted row.
  init(_ sentence: String, _ text: String, _ summary: String) {
    self.sentence = sentence
    bytes = octets(text)
    expected = .success(summary)
  }

  /// A refused row.
  init(_ sentence: String, _ text: String, refused fault: MessageFault) {
    self.sentence = sentence
    bytes = octets(text)
    expected = .failure(fault)
  }

  /// A row of Tests/Rows.
  init(_ row: SharedRow, _ bytes: [UInt8]) {
    guard let fault = MessageFault(rawValue: row.fault) else { fatalError("no fault: \(row.fault)") }
    sentence = row.sentence
    self.bytes = bytes
    expected = .failure(fault)
  }

  var verdict: Verdict {
    switch expected {
    case .success(let summary): .accepted(count: bytes.count, summary)
    case .failure(let fault): .refused(fault)
    }
  }

  var testDescription: String { sentence }
}

/// What may stand behind a message and must not change what is read of it.
let trailingData = [
  "GET http://evil.example/ HTTP/1.1\r\n\r\n", "\r\n", "\n", "\u{0}\u{ff}", " ", "0\r\n\r\n",
]

/// Tries `row` in every way there is. `read` reads the bytes from their beginning.
func examine(_ row: Row, _ location: SourceLocation = #_sourceLocation, read: (Span<UInt8>) -> Verdict) {
  let memory = GuardedMemory(capacity: row.bytes.count + 4096)
  let whole = memory.lend(row.bytes, read)
  #expect(whole == row.verdict, "whole: \(shown(row.bytes))", sourceLocation: location)
  examinePrefixes(row.bytes, whole, memory, location, read)
  for tail in trailingData {
    let longer = memory.lend(row.bytes + octets(tail), read)
    if longer != whole {
      Issue.record("with \(shown(octets(tail))) behind it: \(longer)", sourceLocation: location)
    }
  }
}

/// Each prefix is incomplete or has the verdict of the whole, and from where it has it on, it keeps it.
func examinePrefixes(
  _ bytes: [UInt8], _ whole: Verdict, _ memory: GuardedMemory, _ location: SourceLocation = #_sourceLocation,
  _ read: (Span<UInt8>) -> Verdict
) {
  var decided = false
  for count in 0..<bytes.count {
    let verdict = memory.lend(bytes.prefix(count), read)
    if verdict == .incomplete && !decided { continue }
    decided = true
    if verdict == whole, case .refused = whole { continue }
    Issue.record("the first \(count) bytes of \(shown(bytes)): \(verdict)", sourceLocation: location)
    return
  }
}

// The last exchanges of a loop, so that `sallyport explain REF` can tell of one what was in its line of the log.
//
// A ring of records beside a ring of bytes for their texts; both are made once and written over, so that noting one
// allocates nothing. A record whose text has been written over is gone. Tests: RecentDecisionsTests.

import Bytes
import Policy
import Session
import Transport

/// One exchange that has ended.
struct RecentDecision: Sendable {
  let record: ExchangeRecord
  let rule: String?
  /// By which it was decided.
  let policy: Policy
  let client: SocketAddress
  let totalMilliseconds: Int64
  /// Method and target, at the record's ranges.
  let text: [UInt8]
}

struct RecentDecisions: ~Copyable {
  /// Exchanges that are remembered, of each loop: some seconds of full load, hours of a quiet machine.
  static let mostEntries = 1024
  /// Bytes for their texts: targets are at most 1.3 KiB, and rarely a tenth of it.
  static let textBytes = 128 << 10

  private struct Entry {
    let record: ExchangeRecord
    let rule: String?
    let policy: Policy
    let client: SocketAddress
    let totalMilliseconds: Int64
    /// Where its text begins in all that was ever written.
    let textBegin: Int
    let textCount: Int
  }

  private var entries: [Entry] = []
  private var next = 0
  private var texts: [UInt8] = []
  private var written = 0

  mutating func note(
    _ record: borrowing ExchangeRecord, rule: String?, policy: Policy, client: SocketAddress, totalMilliseconds: Int64,
    text: Span<UInt8>
  ) {
    if texts.isEmpty {
      texts = [UInt8](repeating: 0, count: Self.textBytes)
      entries.reserveCapacity(Self.mostEntries)
    }
    let entry = Entry(
      record: copy record, rule: rule, policy: policy, client: client, totalMilliseconds: totalMilliseconds,
      textBegin: written, textCount: min(text.count, Self.textBytes))
    let begin = written % Self.textBytes
    let beforeEnd = min(entry.textCount, Self.textBytes - begin)
    var room = texts.mutableSpan
    for index in 0..<beforeEnd { room[begin + index] = text[index] }
    for index in beforeEnd..<entry.textCount { room[index - beforeEnd] = text[index] }
    written += entry.textCount
    if entries.count < Self.mostEntries {
      entries.append(entry)
    } else {
      entries[next] = entry
      next = (next + 1) % Self.mostEntries
    }
  }

  /// The exchange with this reference, the latest where it has come round.
  func find(_ reference: Reference) -> RecentDecision? {
    var found: Entry? = nil
    for entry in entries where entry.record.reference == reference && entry.textBegin >= written - Self.textBytes {
      if found == nil || found!.textBegin <= entry.textBegin { found = entry }
    }
    return found.map { entry in
      RecentDecision(
        record: entry.record, rule: entry.rule, policy: entry.policy, client: entry.client,
        totalMilliseconds: entry.totalMilliseconds,
        text: (0..<entry.textCount).map { texts[(entry.textBegin + $0) % Self.textBytes] })
    }
  }
}

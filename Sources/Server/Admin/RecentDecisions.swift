// The last exchanges of a loop, for `sallyport explain REF` and GET /v1/decisions: the content of their log lines.
//
// A ring of records, and a ring of bytes for their texts. Both are made once and overwritten, so noting an exchange
// allocates nothing. A record whose text has been overwritten is gone. Refused exchanges are also kept in a smaller
// ring of their own: otherwise thousands of allowed requests a second would overwrite them before anyone has seen them.
// Tests: RecentDecisionsTests.

import Bytes
import Policy
import Session
import Transport

/// One exchange that has ended.
struct RecentDecision: Sendable {
  let record: ExchangeRecord
  let rule: String?
  /// The policy that decided it.
  let policy: Policy
  let client: SocketAddress
  let totalMicroseconds: Int64
  /// Method and target; the record has their ranges.
  let text: [UInt8]

  /// Milliseconds since 1970, by the clock at its beginning, as in the log.
  var endedWall: Int64 { record.times.begunWall + totalMicroseconds / 1000 }

  /// What the log says of it besides the record.
  var line: AccessLine {
    AccessLine(of: record, rule: rule, by: policy, client: client, totalMicroseconds: totalMicroseconds)
  }

  var sender: Sender {
    Sender(
      client: record.sender.client, address: IPAddress(client), proxyUser: record.sender.proxyUser,
      program: record.sender.program)
  }

  /// Merges what several loops remember: the newest `limit`, newest first.
  static func merged(_ loops: [[RecentDecision]], limit: Int) -> [RecentDecision] {
    Array(loops.flatMap { $0 }.sorted { $0.endedWall > $1.endedWall }.prefix(limit))
  }
}

struct RecentDecisions: ~Copyable {
  /// Exchanges that each loop remembers: some seconds of full load, hours of a quiet machine.
  static let mostEntries = 1024
  /// Bytes for their texts: targets are at most 1.3 KiB, and rarely a tenth of it.
  static let textBytes = 128 << 10
  /// Refused exchanges that are also remembered: as many as a person reads.
  static let mostRefused = 256
  /// Bytes for their texts, in the same proportion.
  static let refusedTextBytes = 32 << 10

  private var all = DecisionRing(mostEntries: mostEntries, textBytes: textBytes)
  private var refused = DecisionRing(mostEntries: mostRefused, textBytes: refusedTextBytes)

  mutating func note(
    _ record: borrowing ExchangeRecord, rule: String?, policy: Policy, client: SocketAddress, totalMicroseconds: Int64,
    text: Span<UInt8>
  ) {
    all.note(
      record, rule: rule, policy: policy, client: client, totalMicroseconds: totalMicroseconds, text: text)
    guard record.isRefusal else { return }
    refused.note(
      record, rule: rule, policy: policy, client: client, totalMicroseconds: totalMicroseconds, text: text)
  }

  /// The exchange with this reference; the latest, if references have wrapped around.
  func find(_ reference: Reference) -> RecentDecision? { all.find(reference) ?? refused.find(reference) }

  /// The newest `limit`, newest first. `areRefused`: only those that were refused, or only the others.
  func newest(_ limit: Int, areRefused: Bool?) -> [RecentDecision] {
    switch areRefused {
    case nil: all.newest(limit) { _ in true }
    case false?: all.newest(limit) { !$0.isRefusal }
    case true?: refused.newest(limit) { _ in true }
    }
  }
}

/// A ring of exchanges, and one of bytes for their texts.
private struct DecisionRing {
  private struct Entry {
    let record: ExchangeRecord
    let rule: String?
    let policy: Policy
    let client: SocketAddress
    let totalMicroseconds: Int64
    /// Where its text begins, counted in all bytes ever written.
    let textBegin: Int
    let textCount: Int
  }

  private let mostEntries: Int
  private let textBytes: Int
  private var entries: [Entry] = []
  /// The oldest entry, once the ring is full.
  private var next = 0
  private var texts: [UInt8] = []
  private var written = 0

  init(mostEntries: Int, textBytes: Int) {
    self.mostEntries = mostEntries
    self.textBytes = textBytes
  }

  mutating func note(
    _ record: borrowing ExchangeRecord, rule: String?, policy: Policy, client: SocketAddress, totalMicroseconds: Int64,
    text: Span<UInt8>
  ) {
    if texts.isEmpty {
      texts = [UInt8](repeating: 0, count: textBytes)
      entries.reserveCapacity(mostEntries)
    }
    let entry = Entry(
      record: copy record, rule: rule, policy: policy, client: client, totalMicroseconds: totalMicroseconds,
      textBegin: written, textCount: min(text.count, textBytes))
    let begin = written % textBytes
    let beforeEnd = min(entry.textCount, textBytes - begin)
    var room = texts.mutableSpan
    for index in 0..<beforeEnd { room[begin + index] = text[index] }
    for index in beforeEnd..<entry.textCount { room[index - beforeEnd] = text[index] }
    written += entry.textCount
    if entries.count < mostEntries {
      entries.append(entry)
    } else {
      entries[next] = entry
      next = (next + 1) % mostEntries
    }
  }

  func find(_ reference: Reference) -> RecentDecision? {
    var found: Entry? = nil
    for entry in entries where entry.record.reference == reference && entry.textBegin >= written - textBytes {
      if found == nil || found!.textBegin <= entry.textBegin { found = entry }
    }
    return found.map(decision)
  }

  func newest(_ limit: Int, where isMeant: (borrowing ExchangeRecord) -> Bool) -> [RecentDecision] {
    var newest: [RecentDecision] = []
    newest.reserveCapacity(min(limit, entries.count))
    for age in 0..<entries.count {
      if newest.count == limit { break }
      let index = (next + entries.count - 1 - age) % entries.count
      // All older ones have lost their texts too.
      if entries[index].textBegin < written - textBytes { break }
      if isMeant(entries[index].record) { newest.append(decision(entries[index])) }
    }
    return newest
  }

  private func decision(_ entry: Entry) -> RecentDecision {
    let begin = entry.textBegin % textBytes
    let beforeEnd = min(entry.textCount, textBytes - begin)
    return RecentDecision(
      record: entry.record, rule: entry.rule, policy: entry.policy, client: entry.client,
      totalMicroseconds: entry.totalMicroseconds,
      text: Array(texts[begin..<begin + beforeEnd]) + texts[..<(entry.textCount - beforeEnd)])
  }
}

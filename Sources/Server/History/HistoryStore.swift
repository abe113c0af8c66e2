// The history's file, owned by the one thread that writes it: adds exchanges in transactions, and removes the oldest if
// they are too old or the file is too large. Everything may wait for the disk.
//
// The file is in WAL mode while it is open, so commands can read it while it is written; SQLite gives its two companion
// files the mode of the file. Before it is closed it becomes a single file again. Then a user who may read it can open
// it without a right to write in the directory. Tests: HistoryStoreTests, test_history.py.

import Bytes
import History
import Policy
import Transport

/// Why the history cannot be written, in words for the log.
struct HistoryFault: Error {
  let sentence: String
}

final class HistoryStore {
  /// The group may read.
  static let mode: UInt32 = 0o640
  /// How many kinds are known without asking the file: all that a machine has in an hour, some 8 MiB of memory.
  static let mostKnown = 16_384
  /// How many exchanges one transaction removes: some ten milliseconds.
  static let removedAtOnce = 20_000
  /// How far a full file is emptied, as a part of its size, so that this is not needed again with each batch.
  static let purgeTo = 0.9
  /// The size of SQLite's log, as a part of `size` (one in so many), and the most that is useful, in bytes.
  private static let logPart: Int64 = 4
  private static let longestLog: Int64 = 64 << 20
  /// The size of SQLite's log from which it is written back into the tables, in bytes.
  private static let checkpointBytes = 4 << 20
  /// How often exchanges that are too old are looked for, in milliseconds.
  private static let agePause: Int64 = 60_000
  /// A power of two, more than one turn of a loop takes.
  private static let recentMilliseconds = 1024
  /// How many numbers are tried if some of a millisecond are taken: the daemon was restarted in it, or the clock went
  /// back.
  private static let mostTries = 1 << 13

  let settings: HistorySettings
  /// Of the file that is open.
  private let inode: UInt64?
  // In this order, because the claim is given up last; see `ClaimedFile`.
  private var claim: ClaimedFile?
  private var database: Database?
  private var insertExchange: DatabaseStatement
  /// Kinds by their bytes as a loop writes them, found by a hash of the bytes without a copy; and by their words.
  private var known: [UInt64: (bytes: [UInt8], number: Int64)] = [:]
  private var kinds: [HistoryKind: Int64] = [:]
  /// The next free number of each of the last milliseconds, by their last digits. Loops hand over at different times,
  /// so exchanges come nearly, but not quite, in the order of time.
  private var recent: [(wall: Int64, next: Int64)]
  private let pageBytes: Int64
  private let limitBytes: Int64
  private let longestLogBytes: Int64
  private var sinceCheckpoint = 0
  private var nextAgeCheck: Int64 = 0
  /// nil: the file is not too large.
  private var purge: Purge? = nil
  /// SQLite's log has become too long, and cannot be written back while a reader is active.
  private(set) var isHeldUp = false

  init(_ settings: HistorySettings) throws(HistoryFault) {
    self.settings = settings
    recent = Array(repeating: (-1, 0), count: Self.recentMilliseconds)
    let path = settings.file
    do {
      claim = try ClaimedFile(path: path, mode: Self.mode)
    } catch {
      throw HistoryFault(sentence: "cannot use \(path): \(error)")
    }
    // SQLite writes there first.
    for beside in ["-wal", "-shm"] where Files.isForeign(path + beside) {
      throw HistoryFault(sentence: "cannot use \(path)\(beside): \(ClaimFault.foreign)")
    }
    do {
      let database = try Database(path: path)
      try Self.prepare(database, path)
      let longest = min(settings.sizeBytes / Self.logPart, Self.longestLog)
      longestLogBytes = longest
      limitBytes = settings.sizeBytes - longest
      try database.run("PRAGMA journal_size_limit = \(longest / 2)")
      pageBytes = try database.number("PRAGMA page_size")
      insertExchange = try database.statement(HistorySchema.insertExchange)
      self.database = database
      inode = Files.inode(path)
      try recall(database)
    } catch {
      throw Self.fault(error, path)
    }
  }

  /// Whether the file is still where it was opened. One that was moved or removed is written by nobody's wish.
  var isThere: Bool { Files.inode(settings.file).map { $0 == inode } ?? !Files.isAbsent(settings.file) }

  /// Turns it back into a single file and closes it.
  func close() {
    if let database {
      _ = try? database.run("PRAGMA wal_checkpoint(TRUNCATE)")
      _ = try? database.run("PRAGMA journal_mode = DELETE")
    }
    database = nil
    claim = nil
  }

  private static func fault(_ error: any Error, _ path: String) -> HistoryFault {
    if let fault = error as? HistoryFault { return fault }
    guard let fault = error as? DatabaseFault, !fault.isForeign else { return foreign(path) }
    return HistoryFault(sentence: "cannot write \(path): \(fault)")
  }

  private static func foreign(_ path: String) -> HistoryFault {
    HistoryFault(
      sentence: "\(path) is no history of this version; it is left as it is: name another file, or move this one away")
  }

  private static func prepare(_ database: Database, _ path: String) throws {
    let isNew = try database.number("SELECT count(*) FROM sqlite_schema") == 0
    if !isNew {
      guard try database.number("PRAGMA application_id") == HistorySchema.applicationID,
        try database.number("PRAGMA user_version") == HistorySchema.form
      else { throw foreign(path) }
    }
    // Allows freed pages to be given back if `size` is made smaller. Has to be set before there is a table.
    if isNew { try database.run("PRAGMA auto_vacuum = INCREMENTAL") }
    // A power cut loses the last seconds; the file stays consistent. `checkpoint` writes the log back.
    for pragma in ["journal_mode = WAL", "synchronous = NORMAL", "temp_store = MEMORY", "wal_autocheckpoint = 0"] {
      try database.run("PRAGMA \(pragma)")
    }
    guard isNew else { return }
    try database.run("BEGIN IMMEDIATE")
    for statement in HistorySchema.statements { try database.run(statement) }
    try database.run("PRAGMA application_id = \(HistorySchema.applicationID)")
    try database.run("PRAGMA user_version = \(HistorySchema.form)")
    try database.run("COMMIT")
  }

  /// Loads the newest kinds, so that a restart does not write them twice.
  private func recall(_ database: Database) throws(DatabaseFault) {
    try database.run(HistorySchema.selectKinds) { row in
      let kind = HistoryKind(words: row.dropFirst().map(\.word))
      kinds[kind] = kinds[kind] ?? row[0].integer
      return kinds.count < Self.mostKnown
    }
  }

  // MARK: Writing

  /// Writes a batch in one transaction: all of it, or nothing, with the reason.
  func write(_ batch: borrowing HistoryBatch) throws(HistoryFault) {
    try attempt { database in
      try database.run("BEGIN IMMEDIATE")
      do {
        var at = 0
        let bytes = batch.bytes.bytes
        while let entry = HistoryEntry(bytes, at: at) {
          try write(entry, bytes, database: database)
          at = entry.end
        }
        try database.run("COMMIT")
      } catch {
        // Kinds that were written are gone again.
        known = [:]
        kinds = [:]
        insertExchange.reset()
        _ = try? database.run("ROLLBACK")
        throw error
      }
    }
    sinceCheckpoint += batch.bytes.count
  }

  private func write(_ entry: HistoryEntry, _ bytes: Span<UInt8>, database: Database) throws(DatabaseFault) {
    let kind = try number(of: bytes.extracting(entry.kind), database)
    let wall = entry.numbers.endedWall
    let slot = Int(truncatingIfNeeded: wall) & (Self.recentMilliseconds - 1)
    var number = recent[slot].wall == wall ? recent[slot].next : HistorySchema.firstNumber(at: wall)
    let insert = insertExchange
    insert.bind(kind, at: 1)
    insert.bind(Int64(entry.numbers.reference), at: 2)
    insert.bind(bytes.extracting(entry.path), at: 3)
    insert.bind(Int64(entry.numbers.status), at: 4)
    insert.bind(Int64(clamping: entry.numbers.bytesIn), at: 5)
    insert.bind(Int64(clamping: entry.numbers.bytesOut), at: 6)
    insert.bind(Double(entry.numbers.totalMicroseconds) / 1000, at: 7)
    for _ in 0..<Self.mostTries {
      insert.bind(number, at: 0)
      do throws(DatabaseFault) {
        _ = try insert.step()
        insert.reset()
        recent[slot] = (wall, number + 1)
        return
      } catch {
        insert.reset()
        guard error.isConflict else { throw error }
        number += 1
      }
    }
  }

  /// The number of a kind; a new kind is written.
  private func number(of bytes: Span<UInt8>, _ database: Database) throws(DatabaseFault) -> Int64 {
    let hash = Self.hash(bytes)
    if let entry = known[hash], Self.equals(entry.bytes.span, bytes) { return entry.number }
    if known.count >= Self.mostKnown || kinds.count >= Self.mostKnown {
      known = [:]
      kinds = [:]
    }
    let kind = HistoryKind(encoded: bytes) ?? HistoryKind()
    if let number = kinds[kind] {
      known[hash] = (bytes.array, number)
      return number
    }
    try database.run(HistorySchema.insertKind, kind.words.map { $0.isEmpty ? .null : .text($0) })
    let number = database.lastRow
    known[hash] = (bytes.array, number)
    kinds[kind] = number
    return number
  }

  /// FNV-1a. If a client makes two kinds with one hash, they are looked up the slow way.
  private static func hash(_ bytes: Span<UInt8>) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for index in 0..<bytes.count { hash = (hash ^ UInt64(bytes[index])) &* 0x100_0000_01b3 }
    return hash
  }

  private static func equals(_ one: Span<UInt8>, _ other: Span<UInt8>) -> Bool {
    guard one.count == other.count else { return false }
    for index in 0..<one.count where one[index] != other[index] { return false }
    return true
  }

  // MARK: Bounds

  /// One step of keeping the file within bounds. Returns whether more has to be done at once.
  func keepBounds(wall: Int64, monotonic: Int64, coming bytes: Int) throws(HistoryFault) -> Bool {
    var more = false
    try attempt { database in
      if sinceCheckpoint > Self.checkpointBytes || isHeldUp { try checkpoint(database) }
      more = try purges(coming: Int64(bytes), database)
      if monotonic >= nextAgeCheck {
        let bound = HistorySchema.firstNumber(at: wall - settings.keepMilliseconds)
        let removed = try removeOldest(before: bound, atMost: Self.removedAtOnce, database)
        if removed >= Self.removedAtOnce {
          more = true
        } else {
          nextAgeCheck = monotonic + Self.agePause
          if removed > 0 { try forgetKinds(database) }
        }
      }
      let pages = try database.number("PRAGMA page_count")
      if purge == nil, pages * pageBytes > limitBytes {
        // The limit was larger before.
        try database.run("PRAGMA incremental_vacuum(\(Self.vacuumedAtOnce))")
        more = try database.number("PRAGMA page_count") < pages
      }
    }
    return more
  }

  /// One step of a purge, if the file is too large. Returns whether more are needed.
  private func purges(coming bytes: Int64, _ database: Database) throws(DatabaseFault) -> Bool {
    let size = try usedBytes(database) + bytes
    if purge == nil, size > limitBytes {
      let count = try database.number("SELECT count(*) FROM exchanges")
      purge = Purge(part: max(1, Int(count) / Self.purgeSteps))
    }
    guard var purge else { return false }
    let goal = Int64(Double(limitBytes) * Self.purgeTo)
    let removed = try removeOldest(before: .max, atMost: min(Self.removedAtOnce, purge.part), database)
    purge.removed += removed
    var left = try usedBytes(database) + bytes
    if removed == 0 || purge.removed >= purge.part || left < goal {
      // Where most exchanges are of a kind of their own, kinds take most of the space. This reads all that is left.
      try forgetKinds(database)
      purge.removed = 0
      left = try usedBytes(database) + bytes
    }
    self.purge = removed > 0 && left >= goal ? purge : nil
    return self.purge != nil
  }

  /// A purge under way.
  private struct Purge {
    /// After so many exchanges, kinds that none has any more are looked for.
    let part: Int
    var removed = 0
  }

  /// A full history loses this part of its exchanges at a time, until a tenth of its size is free.
  private static let purgeSteps = 32

  /// How many pages are given back at once.
  private static let vacuumedAtOnce = 2_000

  /// The size of the tables in bytes.
  private func usedBytes(_ database: Database) throws(DatabaseFault) -> Int64 {
    try (database.number("PRAGMA page_count") - database.number("PRAGMA freelist_count")) * pageBytes
  }

  /// Removes the oldest exchanges before a number. Returns how many.
  private func removeOldest(
    before bound: Int64, atMost most: Int, _ database: Database
  ) throws(DatabaseFault) -> Int {
    let end = try database.number("SELECT id FROM exchanges ORDER BY id LIMIT 1 OFFSET \(most)")
    try database.run("DELETE FROM exchanges WHERE id < ?", [.integer(end > 0 ? min(end, bound) : bound)])
    sinceCheckpoint += database.changes * 100
    return database.changes
  }

  /// Removes the kinds that no exchange has any more.
  private func forgetKinds(_ database: Database) throws(DatabaseFault) {
    try database.run("DELETE FROM kinds WHERE id NOT IN (SELECT kind FROM exchanges)")
    guard database.changes > 0 else { return }
    known = [:]
    kinds = [:]
    try recall(database)
  }

  /// Writes SQLite's log back into the tables, except for pages that a reader still uses.
  private func checkpoint(_ database: Database) throws(DatabaseFault) {
    var log: Int64 = 0
    var done: Int64 = 0
    try database.run("PRAGMA wal_checkpoint(PASSIVE)") { row in
      log = row[1].integer
      done = row[2].integer
      return true
    }
    sinceCheckpoint = 0
    isHeldUp = log > done && log * pageBytes > longestLogBytes
  }

  // MARK: What there is

  struct Facts {
    var bytes: Int64
    var oldestWall: Int64?
  }

  func facts() throws(HistoryFault) -> Facts {
    var facts = Facts(bytes: 0, oldestWall: nil)
    try attempt { database in
      facts.bytes = try usedBytes(database)
      let first = try database.number("SELECT min(id) FROM exchanges")
      facts.oldestWall = first > 0 ? HistorySchema.wall(of: first) : nil
    }
    return facts
  }

  private func attempt(_ body: (Database) throws -> Void) throws(HistoryFault) {
    guard let database else { return }
    do {
      try body(database)
    } catch {
      throw Self.fault(error, settings.file)
    }
  }
}

extension DatabaseValue {
  /// The text of a column that may hold a number.
  fileprivate var word: String {
    switch self {
    case .null, .blob: ""
    case .integer(let number): "\(number)"
    case .text(let text): text
    }
  }
}

// The history: exchanges from every loop. A thread that may wait for the file writes them, so no loop waits.
//
// A loop hands over the exchanges of one turn, as it does with the lines of the log. The thread lets them collect for
// half a second and writes them in one transaction. So a process that is killed loses a second at most, and one that is
// stopped nothing. If the file cannot be written, one warning says so, exchanges are counted and dropped, and the file
// is tried again now and then. Tests: test_history.py.

import Bytes
import History
import Policy
import Synchronization
import Transport

/// The facts about the history in the status and the metrics.
struct HistoryFacts: Sendable, Equatable {
  let settings: HistorySettings
  /// Exchanges.
  var written: UInt64 = 0
  var dropped: UInt64 = 0
  /// The size of the tables.
  var bytes: Int64 = 0
  /// When the oldest ended, in milliseconds since 1970.
  var oldestWall: Int64? = nil
  /// Why it cannot be written at the moment.
  var fault: String? = nil
}

final class HistoryWriter: Sendable {
  /// The most bytes that wait for the file: some 60,000 exchanges, a second of full load on several cores.
  static let longestBacklog = 16 << 20
  /// A batch of this size is written at once.
  static let eagerBytes = 1 << 20
  /// How long exchanges collect, in milliseconds.
  static let gatherMilliseconds: Int64 = 500
  /// The time between two tries to open a file that could not be written, in milliseconds.
  static let retryMilliseconds: Int64 = 30_000
  /// How long the end of the process waits for the file, in milliseconds.
  static let finalMilliseconds: Int64 = 10_000
  /// How often the file is checked even if nothing happens, to remove what is too old, in milliseconds.
  private static let idleMilliseconds: Int32 = 600_000
  /// The same while a reader has kept SQLite's log from being written back, in milliseconds.
  private static let heldUpMilliseconds: Int32 = 1_000

  /// Of its thread.
  private enum Life {
    case unstarted
    case running
    /// It writes what is left.
    case ending
    case ended
  }

  private struct State: ~Copyable {
    var pending = HistoryBatch()
    /// Exchanges from before a change of the file, which belong to the old one.
    var leaving = HistoryBatch()
    var left: HistorySettings? = nil
    var dropped: UInt64 = 0
    var settings: HistorySettings? = nil
    var life = Life.unstarted
    /// The thread waits for a first exchange.
    var sleeps = false
    /// It has been woken for a batch that is large enough.
    var isEager = false
    var facts: HistoryFacts? = nil
  }

  private let state = Locked(State())
  private let on = Atomic<Bool>(false)
  private let wake = Wake()
  private let log: LogWriter

  init(_ log: LogWriter) { self.log = log }

  /// Whether a loop has to record anything.
  var isOn: Bool { on.load(ordering: .relaxed) }

  /// The facts about it; nil without a history.
  var facts: HistoryFacts? {
    state.withLock { state in
      var facts = state.facts
      facts?.dropped += state.dropped
      return facts
    }
  }

  /// From here on it is written to this file, or nowhere.
  func configure(_ settings: HistorySettings?) {
    let starts = state.withLock { state in
      let starts = settings != nil && state.life == .unstarted
      if starts { state.life = .running }
      if state.settings != settings {
        if state.settings?.file != settings?.file {
          if state.leaving.isEmpty { state.left = state.settings }
          state.leaving.append(contentsOf: state.pending)
          state.pending.removeAll()
        }
        state.settings = settings
        state.facts = settings.map { HistoryFacts(settings: $0) }
      }
      return starts
    }
    on.store(settings != nil, ordering: .relaxed)
    wake.signal()
    guard starts else { return }
    startThread(named: "history") { [self] in
      let desk = Desk()
      while turn(desk) {}
      state.withLock { $0.life = .ended }
    }
  }

  /// Takes the contents of `batch` and leaves it empty.
  func submit(_ batch: inout HistoryBatch) {
    if batch.isEmpty { return }
    let mustWake = state.withLock { state in
      if state.pending.bytes.count + batch.bytes.count > Self.longestBacklog {
        state.dropped += UInt64(batch.count)
        return false
      }
      state.pending.append(contentsOf: batch)
      if state.sleeps {
        state.sleeps = false
        return true
      }
      guard !state.isEager, state.pending.bytes.count >= Self.eagerBytes else { return false }
      state.isEager = true
      return true
    }
    batch.removeAll()
    if mustWake { wake.signal() }
  }

  /// Writes what is left and closes the file, or waits for as long as the end of a process allows.
  func finish() {
    let runs = state.withLock { state in
      if state.life == .running { state.life = .ending }
      return state.life == .ending
    }
    wake.signal()
    let deadline = Clock.monotonic + Self.finalMilliseconds
    while runs, Clock.monotonic < deadline {
      if state.withLock({ $0.life == .ended }) { return }
      Clock.rest(milliseconds: 1)
    }
    if runs { log.event(.warning, "history: the disk is too slow; what was decided last is not in the file") }
  }

  // MARK: The thread

  /// State of the thread alone.
  private final class Desk {
    var store: HistoryStore? = nil
    /// The settings of the previous turn.
    var settings: HistorySettings? = nil
    var batch = HistoryBatch()
    var leaving = HistoryBatch()
    /// When the file is tried again, on the monotonic clock; nil: it is fine.
    var retryAt: Int64? = nil
    /// Exchanges dropped since it could not be written.
    var missing = 0
    var warnedOfDrops = RepeatedEvent()
    var hasMore = false
  }

  /// Writes one batch. Returns whether there is another turn.
  @inline(never)
  private func turn(_ desk: Desk) -> Bool {
    waitForWork(desk)
    let (settings, left, isEnding, dropped) = state.withLock { state in
      swap(&state.leaving, &desk.leaving)
      if !(desk.store?.isHeldUp ?? false) || state.life == .ending || state.settings != desk.settings {
        swap(&state.pending, &desk.batch)
      }
      state.isEager = false
      let dropped = state.dropped
      state.dropped = 0
      return (state.settings, state.left, state.life == .ending, dropped)
    }
    if dropped > 0 { sayDropped(dropped, desk) }
    if settings != desk.settings { changeFile(from: left, to: settings, desk) }
    if let settings { write(settings, desk) } else { desk.batch.removeAll() }
    guard isEnding else { return true }
    close(desk)
    return false
  }

  /// Finishes the old file.
  private func changeFile(from left: HistorySettings?, to settings: HistorySettings?, _ desk: Desk) {
    if let left, !desk.leaving.isEmpty, desk.store == nil, desk.retryAt == nil { open(left, desk) }
    if let store = desk.store, !desk.leaving.isEmpty {
      attempt(desk) { () throws(HistoryFault) in try Self.put(desk.leaving, into: store) }
    }
    desk.leaving.removeAll()
    close(desk)
    desk.settings = settings
    desk.retryAt = nil
  }

  private func waitForWork(_ desk: Desk) {
    func isIdle(sleeps: Bool) -> Bool {
      state.withLock { state in
        let idle = state.pending.isEmpty && state.life != .ending && state.settings == desk.settings && !desk.hasMore
        state.sleeps = sleeps && idle
        return idle
      }
    }
    if isIdle(sleeps: true) {
      wake.wait(milliseconds: Self.idleMilliseconds)
      state.withLock { $0.sleeps = false }
    }
    wake.clear()
    let until = Clock.monotonic + Self.gatherMilliseconds
    while !desk.hasMore {
      let isDue = state.withLock { state in
        state.isEager || state.life == .ending || state.settings != desk.settings
      }
      let rest = until - Clock.monotonic
      if isDue || rest <= 0 { break }
      wake.wait(milliseconds: Int32(clamping: rest))
      wake.clear()
    }
    if desk.store?.isHeldUp ?? false, !state.withLock({ $0.life == .ending }) {
      Clock.rest(milliseconds: Self.heldUpMilliseconds)
    }
  }

  private func write(_ settings: HistorySettings, _ desk: Desk) {
    if let store = desk.store, !desk.batch.isEmpty, !store.isThere {
      log.event(.warning, "history: \(settings.file) was moved or removed; it is begun again")
      close(desk)
    }
    if desk.store == nil, desk.retryAt.map({ Clock.monotonic >= $0 }) ?? true { open(settings, desk) }
    guard let store = desk.store else {
      desk.missing += desk.batch.count
      return discard(desk)
    }
    attempt(desk) { () throws(HistoryFault) in
      desk.hasMore = try store.keepBounds(
        wall: Clock.wall, monotonic: Clock.monotonic, coming: desk.batch.bytes.count)
      try Self.put(desk.batch, into: store)
    }
    noteWritten(desk)
  }

  private static func put(_ batch: borrowing HistoryBatch, into store: HistoryStore) throws(HistoryFault) {
    if !batch.isEmpty { try store.write(batch) }
  }

  /// Counts the batch, which is either in the file or lost.
  private func noteWritten(_ desk: Desk) {
    guard let store = desk.store else {
      desk.missing += desk.batch.count
      return discard(desk)
    }
    let facts = try? store.facts()
    let count = desk.batch.count
    desk.batch.removeAll()
    state.withLock { state in
      guard state.facts?.settings == store.settings else { return }
      state.facts?.written += UInt64(count)
      state.facts?.bytes = facts?.bytes ?? 0
      state.facts?.oldestWall = facts?.oldestWall
      state.facts?.fault = nil
    }
  }

  private func discard(_ desk: Desk) {
    let count = UInt64(desk.batch.count)
    desk.batch.removeAll()
    state.withLock { $0.facts?.dropped += count }
  }

  private func open(_ settings: HistorySettings, _ desk: Desk) {
    do throws(HistoryFault) {
      desk.store = try HistoryStore(settings)
      if desk.missing > 0 {
        log.event(
          .info,
          "history: \(settings.file) is written again, without \(String.counted(desk.missing, "exchange")) of the time between"
        )
      }
      desk.retryAt = nil
      desk.missing = 0
    } catch {
      fail(error, desk)
    }
  }

  private func attempt(_ desk: Desk, _ body: () throws(HistoryFault) -> Void) {
    do throws(HistoryFault) {
      try body()
    } catch {
      fail(error, desk)
    }
  }

  /// Logs a fault once, until writing succeeds again.
  private func fail(_ fault: HistoryFault, _ desk: Desk) {
    desk.hasMore = false
    close(desk)
    if desk.retryAt == nil {
      log.event(.warning, "history: \(fault.sentence); what is decided is not recorded until that works again")
    }
    desk.retryAt = Clock.monotonic + Self.retryMilliseconds
    state.withLock { $0.facts?.fault = fault.sentence }
  }

  private func close(_ desk: Desk) {
    desk.store?.close()
    desk.store = nil
    desk.hasMore = false
  }

  private func sayDropped(_ count: UInt64, _ desk: Desk) {
    state.withLock { $0.facts?.dropped += count }
    guard desk.warnedOfDrops.happened(now: Clock.monotonic) != nil else { return }
    let reason =
      desk.store?.isHeldUp ?? false
      ? "another program keeps reading the file, so it cannot be written"
      : "the file could not be written fast enough"
    log.event(.warning, "history: \(reason): \(count) exchanges are not in it")
  }
}

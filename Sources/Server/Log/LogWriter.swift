// The log: lines from every loop. A thread that may wait for the file writes them, so no loop waits.
//
// A loop hands over the lines of one turn. Under load the writer wakes every few milliseconds and writes a batch;
// otherwise the first line wakes it. Lines that do not fit into the bounded buffer are dropped and counted, and the log
// itself reports the count.

import Bytes
import CLinux
import Policy
import Synchronization
import Transport

/// The format of lines; `auto` has been resolved before. For the journal they are entries: JournalEntry.swift.
public enum LineFormat: Sendable { case text, json, journal }

public final class LogWriter: Sendable {
  /// The most bytes that wait for the file: some 5,000 lines, more than a second of full load on one core.
  static let longestBacklog = 4 << 20
  /// From here on the log is behind: clients that are only refused wait, so that no lines are lost. Half is left for
  /// those that do not wait, and for what each loop adds in a turn.
  static let behindBytes = longestBacklog / 2
  /// How long the writer lets lines collect, in milliseconds.
  static let gatherMilliseconds: Int32 = 5
  /// How long the end of the process waits for the file, in milliseconds.
  static let finalMilliseconds: Int64 = 2_000

  private struct State: ~Copyable {
    var pending = ByteBuffer()
    var dropped = 0
    var writerSleeps = true
    var writing = false
    /// Batches that could not be written since the last one that could, and whether the last of those that could ends
    /// within a line.
    var lost = 0
    var isCut = false
  }

  private let state = Locked(State())
  private let behind = Atomic<Bool>(false)
  /// Whether lines come faster than they are written.
  var isBehind: Bool { behind.load(ordering: .relaxed) }
  private let wake = Wake()
  private let output: Int32
  public let format: LineFormat
  private let level = Locked(LogSettings.Level.info)

  /// Writes to `output` and leaves its settings alone, since others may share it. With the journal, it gets only what
  /// cannot be sent there.
  public init(output: Int32, format: LineFormat) {
    self.output = output
    self.format = format
    startThread(named: "log") { [self] in
      var batch = ByteBuffer()
      var journal = JournalWriter()
      while true { writeNext(&batch, &journal) }
    }
  }

  public func setLevel(_ level: LogSettings.Level) { self.level.withLock { $0 = level } }

  /// Takes over the lines in `lines` and leaves it empty.
  public func submit(_ lines: inout ByteBuffer) {
    if lines.isEmpty { return }
    let mustWake = state.withLock { state in
      if state.pending.count + lines.count > Self.longestBacklog {
        state.dropped += 1
      } else {
        state.pending.append(contentsOf: lines)
      }
      if state.pending.count > Self.behindBytes { behind.store(true, ordering: .relaxed) }
      let sleeps = state.writerSleeps
      state.writerSleeps = false
      return sleeps
    }
    lines.removeAll()
    if mustWake { wake.signal() }
  }

  /// See `startThread`.
  @inline(never)
  private func writeNext(_ batch: inout ByteBuffer, _ journal: inout JournalWriter) {
    let dropped = state.withLock { state in
      swap(&state.pending, &batch)
      behind.store(false, ordering: .relaxed)
      state.writing = !batch.isEmpty
      if batch.isEmpty { state.writerSleeps = true }
      let dropped = state.dropped
      state.dropped = 0
      return dropped
    }
    if dropped > 0 {
      event(.warning, "the log could not be written fast enough: \(dropped) batches of lines were dropped")
    }
    if batch.isEmpty {
      wake.wait()
      wake.clear()
      return
    }
    if format == .journal {
      var lines = ByteBuffer()
      journal.send(&batch, orAppendTo: &lines)
      swap(&batch, &lines)
    }
    if writeAll(&batch) { tellLoss() }
    state.withLock { $0.writing = false }
    Clock.rest(milliseconds: Self.gatherMilliseconds)
  }

  /// Whether all could be written.
  private func writeAll(_ batch: inout ByteBuffer) -> Bool {
    let count = batch.count
    endCutLine()
    while !batch.isEmpty {
      switch Descriptor(number: output).write(batch) {
      case .moved(let count): batch.consume(count)
      case .wouldBlock:
        // Another process made it non-blocking: wait as if it were not.
        var entry = cl_poll_entry(fd: output, wants_read: false, wants_write: true, can_read: false, can_write: false)
        _ = cl_poll(&entry, 1, -1)
      case .ended, .failed:
        noteLoss(isCut: batch.count < count)
        batch.removeAll()
        return false
      }
    }
    return true
  }

  private func noteLoss(isCut: Bool) {
    state.withLock { state in
      state.lost += 1
      if isCut { state.isCut = true }
    }
  }

  /// Once it can be written again: what was lost is told, and a line that was cut does not run into the next one.
  private func tellLoss() {
    let lost = state.withLock { state in
      defer { state.lost = 0 }
      return state.lost
    }
    if lost > 0 { event(.warning, "the log could not be written: \(lost) batches of lines were lost") }
  }

  private func endCutLine() {
    guard state.withLock({ $0.isCut }) else { return }
    var newline = ByteBuffer()
    newline.append("\n")
    if case .moved = Descriptor(number: output).write(newline) { state.withLock { $0.isCut = false } }
  }

  /// Waits until everything submitted has been written, or for as long as the end of the process allows.
  public func flush() {
    let deadline = Clock.monotonic + Self.finalMilliseconds
    while Clock.monotonic < deadline {
      if state.withLock({ $0.pending.isEmpty && !$0.writing }) { return }
      Clock.rest(milliseconds: 1)
    }
  }

  /// Logs one line that is not about a request.
  public func event(_ severity: LogSettings.Level, _ message: String) {
    let limit = level.withLock { $0 }
    guard severity.order <= limit.order else { return }
    var line = ByteBuffer()
    let now = Clock.wall
    switch format {
    case .text:
      line.appendTimestamp(now)
      line.append(" ")
      line.append(severity.rawValue)
      line.append(": ")
      line.append(printable: message)
      line.append("\n")
    case .json:
      line.append("{\"time\":\"")
      line.appendTimestamp(now)
      line.append("\",\"level\":\"")
      line.append(severity.rawValue)
      line.append("\",\"message\":")
      line.append(json: message)
      line.append("}\n")
    case .journal: line.append(journal: message, JournalPriority(severity))
    }
    submit(&line)
  }
}

extension LogSettings.Level {
  var order: Int {
    switch self {
    case .error: 0
    case .warning: 1
    case .info: 2
    case .debug: 3
    }
  }
}

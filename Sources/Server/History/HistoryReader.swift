// The history's file as the commands read it: without the daemon, while it writes or long after, and with no right
// except to read. Rows are read some thousand at a time, so that a slow reader does not keep the daemon from its
// checkpoints.
// Tests: HistoryStoreTests, test_history.py.

import Bytes
import History
import Policy
import Session
import Transport

/// Why a history cannot be read.
public struct HistoryReadFault: Error, CustomStringConvertible {
  public let description: String
}

public final class HistoryReader {
  /// After how many rows the file is released for a moment: a few milliseconds.
  private static let rowsAtOnce: Int64 = 10_000

  public let path: String
  private let database: Database
  /// By their numbers.
  public private(set) var kinds: [Int64: HistoryKind] = [:]

  public init(path: String) throws(HistoryReadFault) {
    self.path = path
    guard Files.isReadable(path) else { throw Self.unreadable(path) }
    guard Files.isRegular(path) else {
      throw HistoryReadFault(description: "\(path) is no history of sallyport: it is no regular file")
    }
    do {
      database = try Self.open(path)
      guard try database.number("PRAGMA application_id") == HistorySchema.applicationID else {
        throw HistoryReadFault(description: "\(path) is no history of sallyport")
      }
      let form = try database.number("PRAGMA user_version")
      guard form == HistorySchema.form else {
        throw HistoryReadFault(
          description: "\(path) is a history of form \(form), and this version reads form \(HistorySchema.form)")
      }
      try readKinds()
    } catch let fault as HistoryReadFault {
      throw fault
    } catch {
      throw Self.fault(error, path)
    }
  }

  private static func open(_ path: String) throws(DatabaseFault) -> Database {
    let database = try Database(reading: path)
    do throws(DatabaseFault) {
      _ = try database.number("SELECT count(*) FROM sqlite_schema")
      return database
    } catch  where error.isUnopened {
      // The file is in WAL mode without its companion files, in a directory where this user may not create them: the
      // daemon is gone.
      return try Database(reading: path, isAlone: true)
    }
  }

  private static func unreadable(_ path: String) -> HistoryReadFault {
    if Files.isAbsent(path) {
      return HistoryReadFault(
        description: "there is no history at \(path) yet: the daemon makes it when it starts with [history]")
    }
    guard let group = Groups.name(of: path) else {
      return HistoryReadFault(description: "you may not look into the directory of \(path); run this as root")
    }
    return HistoryReadFault(
      description: "you may not read \(path): root and members of the group '\(group)' may (usermod -aG \(group) USER)")
  }

  private static func fault(_ error: any Error, _ path: String) -> HistoryReadFault {
    guard let fault = error as? DatabaseFault, !fault.isForeign else {
      return HistoryReadFault(description: "\(path) is no history of sallyport")
    }
    return HistoryReadFault(description: "cannot read \(path): \(fault)")
  }

  private func readKinds() throws {
    let statement = try database.statement(HistorySchema.selectKinds)
    defer { statement.reset() }
    let columns = Int32(HistoryWord.allCases.count)
    while try statement.step() {
      let number = statement.integer(0)
      if kinds[number] != nil { continue }
      kinds[number] = HistoryKind(words: (1...columns).map { statement.text($0) })
    }
  }

  /// Passes each selected exchange to `body`, in the order of time or backwards, until `body` wants no more.
  public func forEach(
    _ selection: HistorySelection, newestFirst: Bool = false, _ body: (HistoryRecord, HistoryKind) -> Bool
  ) throws(HistoryReadFault) {
    do {
      try walk(selection, newestFirst: newestFirst, body)
    } catch {
      throw Self.fault(error, path)
    }
  }

  private func walk(
    _ selection: HistorySelection, newestFirst: Bool, _ body: (HistoryRecord, HistoryKind) -> Bool
  ) throws {
    var meant: [Int64: HistoryKind] = [:]
    var looked: Set<Int64> = []
    var after = HistorySchema.firstNumber(at: selection.since) - 1
    var before = HistorySchema.firstNumber(at: selection.until)
    let statement = try database.statement(newestFirst ? HistorySchema.selectBackwards : HistorySchema.selectForwards)
    while true {
      var rows: Int64 = 0
      var part: [HistoryRecord] = []
      statement.bind(after, at: 0)
      statement.bind(before, at: 1)
      statement.bind(Self.rowsAtOnce, at: 2)
      while try statement.step() {
        rows += 1
        let number = statement.integer(0)
        if newestFirst { before = number } else { after = number }
        let kind = statement.integer(1)
        if looked.insert(kind).inserted {
          if kinds[kind] == nil { try readKinds() }
          if let found = kinds[kind], selection.includes(found) { meant[kind] = found }
        }
        guard meant[kind] != nil else { continue }
        let total = Self.microseconds(statement.real(7))
        guard total / 1000 >= selection.leastMilliseconds else { continue }
        part.append(
          HistoryRecord(
            number: number, kind: kind, reference: UInt32(truncatingIfNeeded: statement.integer(2)),
            path: statement.text(3), status: Int(statement.integer(4)),
            bytesIn: Self.bytes(statement.integer(5)), bytesOut: Self.bytes(statement.integer(6)),
            totalMicroseconds: total))
      }
      statement.reset()
      for record in part { if let kind = meant[record.kind], !body(record, kind) { return } }
      if rows < Self.rowsAtOnce { return }
    }
  }
}

// What a damaged or foreign file may hold instead of a time or a size.
extension HistoryReader {
  /// No exchange takes longer: a year.
  private static let mostMilliseconds = 366.0 * 86_400_000
  /// No exchange carries more: a pebibyte. Sums of a thousand of them are no overflow.
  private static let mostBytes: Int64 = 1 << 50

  /// Whole milliseconds, where an earlier version has written them.
  private static func microseconds(_ milliseconds: Double) -> Int64 {
    guard milliseconds > 0 else { return 0 }
    return Int64((min(milliseconds, mostMilliseconds) * 1000).rounded())
  }

  private static func bytes(_ number: Int64) -> Int64 { max(0, min(number, mostBytes)) }
}

extension HistoryRecord {
  /// Six characters, as in the log.
  public var referenceText: String { Reference(value: reference).text }
}

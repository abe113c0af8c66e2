// A database of SQLite in a file. One thread at a time uses it; every call may wait for the disk, so that no loop makes one.
// Tests: DatabaseTests.

import CSQLite

/// Why the database did not do what it was asked, in its own words.
public struct DatabaseFault: Error, Sendable, CustomStringConvertible {
  public let description: String
  /// The result code of SQLite.
  public let code: Int32

  public init(description: String, code: Int32) {
    self.description = description
    self.code = code
  }
}

/// A value of a row, or of a parameter.
public enum DatabaseValue: Sendable, Equatable {
  case null
  case integer(Int64)
  case text(String)
  case blob([UInt8])

  public var integer: Int64 { if case .integer(let number) = self { number } else { 0 } }
  public var text: String { if case .text(let text) = self { text } else { "" } }
  public var blob: [UInt8] { if case .blob(let bytes) = self { bytes } else { [] } }
}

public final class Database {
  private let handle: OpaquePointer
  private var statements: [String: OpaquePointer] = [:]

  /// How long it waits for another process that holds the file, in milliseconds: who does is not meant to.
  private static let busyMilliseconds: Int32 = 1000

  /// Opens the file, or makes it.
  public init(path: String) throws(DatabaseFault) {
    var opened: OpaquePointer?
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
    let code = sqlite3_open_v2(path, &opened, flags, nil)
    guard code == SQLITE_OK, let opened else {
      let text = opened.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
      sqlite3_close_v2(opened)
      throw DatabaseFault(description: text, code: code)
    }
    handle = opened
    sqlite3_busy_timeout(opened, Self.busyMilliseconds)
  }

  deinit {
    for statement in statements.values { sqlite3_finalize(statement) }
    sqlite3_close_v2(handle)
  }

  /// Runs a statement. `body` is shown each row; it answers whether it wants another.
  public func run(
    _ sql: String, _ parameters: [DatabaseValue] = [], row body: ([DatabaseValue]) -> Bool = { _ in true }
  ) throws(DatabaseFault) {
    let statement = try prepared(sql)
    defer {
      sqlite3_reset(statement)
      sqlite3_clear_bindings(statement)
    }
    for (index, value) in parameters.enumerated() { bind(value, to: Int32(index + 1), of: statement) }
    while true {
      switch sqlite3_step(statement) {
      case SQLITE_DONE: return
      case SQLITE_ROW:
        let columns = (0..<sqlite3_column_count(statement)).map { value(of: statement, $0) }
        if !body(columns) { return }
      default: throw fault()
      }
    }
  }

  /// Rows that the last statement changed.
  public var changes: Int { Int(sqlite3_changes(handle)) }

  private func prepared(_ sql: String) throws(DatabaseFault) -> OpaquePointer {
    if let known = statements[sql] { return known }
    var made: OpaquePointer?
    guard sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &made, nil) == SQLITE_OK, let made
    else {
      throw fault()
    }
    statements[sql] = made
    return made
  }

  private func fault() -> DatabaseFault {
    DatabaseFault(description: String(cString: sqlite3_errmsg(handle)), code: sqlite3_extended_errcode(handle))
  }

  private func bind(_ value: DatabaseValue, to index: Int32, of statement: OpaquePointer) {
    switch value {
    case .null: sqlite3_bind_null(statement, index)
    case .integer(let number): sqlite3_bind_int64(statement, index, number)
    case .text(let text): sqlite3_bind_text(statement, index, text, -1, csqlite_transient())
    case .blob(let bytes):
      _ = bytes.withUnsafeBytes {
        sqlite3_bind_blob64(
          statement, index, $0.baseAddress ?? UnsafeRawPointer(statement), UInt64(bytes.count), csqlite_transient())
      }
    }
  }

  private func value(of statement: OpaquePointer, _ column: Int32) -> DatabaseValue {
    switch sqlite3_column_type(statement, column) {
    case SQLITE_INTEGER: return .integer(sqlite3_column_int64(statement, column))
    case SQLITE_TEXT: return .text(String(cString: sqlite3_column_text(statement, column)))
    case SQLITE_BLOB:
      let count = Int(sqlite3_column_bytes(statement, column))
      guard count > 0, let base = sqlite3_column_blob(statement, column) else { return .blob([]) }
      return .blob([UInt8](UnsafeRawBufferPointer(start: base, count: count)))
    default: return .null
    }
  }
}

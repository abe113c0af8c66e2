// A SQLite database in a file. One thread at a time uses it. Every call may wait for the disk, so no loop calls it.
// Tests: DatabaseTests.

import Bytes
import CSQLite

/// Why the database failed, in its own words.
public struct DatabaseFault: Error, Sendable, CustomStringConvertible {
  public let description: String
  /// The result code of SQLite.
  public let code: Int32

  public init(description: String, code: Int32) {
    self.description = description
    self.code = code
  }
}

extension DatabaseFault {
  /// A row with this number already exists.
  public var isConflict: Bool { code & 0xff == SQLITE_CONSTRAINT }
  /// It cannot be opened, or only with files that this user may not create.
  public var isUnopened: Bool { [SQLITE_CANTOPEN, SQLITE_READONLY].contains(code & 0xff) }
  /// The file is not a SQLite database.
  public var isForeign: Bool { code & 0xff == SQLITE_NOTADB }
}

/// A value in a row, or of a parameter.
public enum DatabaseValue: Sendable, Equatable {
  case null
  case integer(Int64)
  case text(String)
  case blob([UInt8])

  public var integer: Int64 { if case .integer(let number) = self { number } else { 0 } }
  public var text: String { if case .text(let text) = self { text } else { "" } }
  public var blob: [UInt8] { if case .blob(let bytes) = self { bytes } else { [] } }
}

/// A statement with its parameters and its current row, for what runs a million times: a run allocates nothing. It
/// lives as long as its database.
public struct DatabaseStatement {
  fileprivate let statement: OpaquePointer
  fileprivate let handle: OpaquePointer

  /// Parameters and columns count from 0.
  public func bind(_ number: Int64, at index: Int32) { sqlite3_bind_int64(statement, index + 1, number) }
  public func bind(_ number: Double, at index: Int32) { sqlite3_bind_double(statement, index + 1, number) }

  /// The text is copied; an empty one is null.
  public func bind(_ text: Span<UInt8>, at index: Int32) {
    _ = text.withUnsafeBytes { bytes in
      bytes.count == 0
        ? sqlite3_bind_null(statement, index + 1)
        : sqlite3_bind_text(
          statement, index + 1, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(bytes.count),
          csqlite_transient())
    }
  }

  /// Goes to the next row; false if there is none. A statement without rows has then been run.
  public func step() throws(DatabaseFault) -> Bool {
    switch sqlite3_step(statement) {
    case SQLITE_ROW: return true
    case SQLITE_DONE: return false
    default:
      throw DatabaseFault(description: String(cString: sqlite3_errmsg(handle)), code: sqlite3_extended_errcode(handle))
    }
  }

  /// Makes it ready to run again. The values of the row are gone.
  public func reset() { sqlite3_reset(statement) }

  public func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }
  public func real(_ column: Int32) -> Double { sqlite3_column_double(statement, column) }

  /// Empty if there is none.
  public func text(_ column: Int32) -> String {
    sqlite3_column_text(statement, column).map { String(cString: $0) } ?? ""
  }
}

public final class Database {
  private let handle: OpaquePointer
  private var statements: [String: OpaquePointer] = [:]

  /// How long it waits for another process that locks the file, in milliseconds: there should be none.
  private static let busyMilliseconds: Int32 = 1000

  /// Opens the file, or creates it.
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

  /// Opens an existing file for reading, while another process may write it. This needs no right to write the file or
  /// its directory.
  ///
  /// `isAlone`: no process writes it, and SQLite's companion files do not exist and cannot be created.
  public init(reading path: String, isAlone: Bool = false) throws(DatabaseFault) {
    var opened: OpaquePointer?
    let flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | (isAlone ? SQLITE_OPEN_URI : 0)
    let code = sqlite3_open_v2(isAlone ? Self.aloneURI(path) : path, &opened, flags, nil)
    guard code == SQLITE_OK, let opened else {
      let text = opened.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
      sqlite3_close_v2(opened)
      throw DatabaseFault(description: text, code: code)
    }
    handle = opened
    sqlite3_busy_timeout(opened, Self.busyMilliseconds)
  }

  /// `file:///var/lib/x.db?immutable=1`, with the characters that a URI does not allow percent-encoded.
  private static func aloneURI(_ path: String) -> String {
    let encoded = path.utf8.flatMap { byte -> [UInt8] in
      switch byte {
      case 0x2d...0x39, 0x41...0x5a, 0x5f, 0x61...0x7a: [byte]
      default: byte.percentEncoded
      }
    }
    return "file:\(String(decoding: encoded, as: UTF8.self))?immutable=1"
  }

  deinit {
    for statement in statements.values { sqlite3_finalize(statement) }
    sqlite3_close_v2(handle)
  }

  /// Runs a statement. `body` gets each row and returns whether it wants another.
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

  /// The statement, prepared once.
  public func statement(_ sql: String) throws(DatabaseFault) -> DatabaseStatement {
    DatabaseStatement(statement: try prepared(sql), handle: handle)
  }

  /// The number in the first row of a statement's result; 0 without a row.
  public func number(_ sql: String) throws(DatabaseFault) -> Int64 {
    let statement = try statement(sql)
    defer { statement.reset() }
    return try statement.step() ? statement.integer(0) : 0
  }

  /// The number of the row inserted last.
  public var lastRow: Int64 { sqlite3_last_insert_rowid(handle) }

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

// The SQLite tables of a history. The number of an exchange contains the time when it ended, so finding a time needs no
// index: milliseconds since 1970, and in the low bits a number that distinguishes the exchanges of one millisecond.
//
// `history` is for queries with sqlite3: one row per exchange, with everything in it. Tests: HistoryStoreTests.

public enum HistorySchema {
  /// Marks a database as ours ("Sphy"), with the form of its tables.
  public static let applicationID: Int64 = 0x5370_6879
  public static let form: Int64 = 1

  /// How many exchanges of one millisecond can be distinguished: about ten times what a machine serves.
  public static let sequenceBits: Int64 = 12

  /// The first number of an exchange that ended in this millisecond.
  public static func firstNumber(at wall: Int64) -> Int64 { max(0, wall) << sequenceBits }
  public static func wall(of number: Int64) -> Int64 { number >> sequenceBits }

  private static let columns = HistoryWord.allCases.map(\.rawValue)
  /// Columns with numbers.
  private static let numeric: Set<String> = [HistoryWord.uid.rawValue, HistoryWord.port.rawValue]

  public static let statements: [String] = [
    """
    CREATE TABLE kinds (id INTEGER PRIMARY KEY, \
    \(columns.map { "\($0) \(numeric.contains($0) ? "INTEGER" : "TEXT")" }.joined(separator: ", ")))
    """,
    """
    CREATE TABLE exchanges (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, ref INTEGER NOT NULL, path TEXT,
      status INTEGER NOT NULL, bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL, total_ms REAL NOT NULL)
    """,
    """
    CREATE VIEW history AS SELECT
      strftime('%Y-%m-%dT%H:%M:%fZ', ((e.id >> \(sequenceBits)) - CAST(e.total_ms AS INTEGER)) / 1000.0, 'unixepoch') AS time,
      \(referenceText) AS ref, e.path, e.status, e.bytes_in, e.bytes_out, e.total_ms,
      \(columns.map { "k.\($0)" }.joined(separator: ", "))
      FROM exchanges e JOIN kinds k ON k.id = e.kind
    """,
  ]

  /// Six characters of Crockford's base 32.
  private static let referenceText = stride(from: 25, through: 0, by: -5).map { shift in
    "substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', (e.ref >> \(shift) & 31) + 1, 1)"
  }.joined(separator: " || ")

  public static let insertKind =
    "INSERT INTO kinds (\(columns.joined(separator: ", "))) VALUES (\(columns.map { _ in "?" }.joined(separator: ", ")))"
  public static let insertExchange =
    "INSERT INTO exchanges (id, kind, ref, path, status, bytes_in, bytes_out, total_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
  /// The words of a kind follow its number.
  public static let selectKinds = "SELECT id, \(columns.joined(separator: ", ")) FROM kinds ORDER BY id DESC"
  /// The exchanges after one number and before another, in the order of time; or backwards.
  public static let selectForwards =
    "SELECT id, kind, ref, path, status, bytes_in, bytes_out, total_ms FROM exchanges WHERE id > ? AND id < ? ORDER BY id LIMIT ?"
  public static let selectBackwards =
    "SELECT id, kind, ref, path, status, bytes_in, bytes_out, total_ms FROM exchanges WHERE id > ? AND id < ? ORDER BY id DESC LIMIT ?"
}

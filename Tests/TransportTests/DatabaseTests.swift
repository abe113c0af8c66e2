// Values come back as they went in, and a fault has SQLite's words.

import Testing

@testable import Transport

@Suite struct DatabaseTests {
  @Test func valuesComeBack() throws {
    let database = try Database(path: ":memory:")
    try database.run("CREATE TABLE t (a, b, c, d)")
    let values: [DatabaseValue] = [.integer(-5), .text("ä'\"x"), .blob([0, 1, 255]), .null]
    try database.run("INSERT INTO t VALUES (?,?,?,?)", values)
    try database.run("INSERT INTO t VALUES (1, '', x'', NULL)")
    var rows: [[DatabaseValue]] = []
    try database.run("SELECT * FROM t") { row in
      rows.append(row)
      return true
    }
    #expect(rows == [values, [.integer(1), .text(""), .blob([]), .null]])
    #expect(database.changes == 1)
  }

  @Test func aFaultSaysWhatItIs() throws {
    let database = try Database(path: ":memory:")
    #expect(throws: DatabaseFault.self) { try database.run("SELECT * FROM missing") }
    do { try database.run("SELECT * FROM missing") } catch { #expect(error.description == "no such table: missing") }
    #expect(throws: DatabaseFault.self) { _ = try Database(path: "/nowhere/at/all.db") }
  }
}

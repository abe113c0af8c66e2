// The file of the history: written, read while it is written and afterwards, kept in bounds, and left alone where it is none.

import Bytes
import Glibc
import History
import Policy
import Testing
import Transport

@testable import Server

@Suite final class HistoryStoreTests {
  private let directory = "/tmp/sallyport-history-\(Transport.Process.random)"
  private var path: String { "\(directory)/history.db" }

  init() { _ = Files.createDirectory(directory, mode: 0o755) }

  deinit {
    if case .success(let paths) = Files.expand("\(directory)/*") { for path in paths { _ = Files.remove(path) } }
    rmdir(directory)
  }

  private func settings(keep: Int64 = 30 * 86_400_000, size: Int64 = 512 << 20) -> HistorySettings {
    var settings = HistorySettings()
    settings.file = path
    settings.keepMilliseconds = keep
    settings.sizeBytes = size
    return settings
  }

  /// `count` exchanges that end from `wall` on, one a millisecond, on `hosts` hosts.
  private func batch(_ count: Int, from wall: Int64 = 1_000_000_000, hosts: Int = 3, path: String = "/p/")
    -> HistoryBatch
  {
    var batch = HistoryBatch()
    for index in 0..<count {
      let numbers = HistoryNumbers(
        endedWall: wall + Int64(index), reference: UInt32(index), status: 200, bytesIn: 10, bytesOut: 20,
        totalMicroseconds: 3_000)
      batch.begin(numbers, path: Array("\(path)\(index)".utf8).span)
      for word in HistoryWord.allCases where word != .scheme && word != .port {
        switch word {
        case .method: batch.word("GET" as StaticString?)
        case .host: batch.word("https://h\(index % hosts).example" as String?)
        case .decision: batch.word((index % 10 == 0 ? "deny" : "allow") as String?)
        default: batch.word(nil as StaticString?)
        }
      }
    }
    return batch
  }

  private func read(_ change: (inout HistorySelection) -> Void = { _ in }, newestFirst: Bool = false) throws -> [String]
  {
    var selection = HistorySelection()
    change(&selection)
    var lines: [String] = []
    try HistoryReader(path: path).forEach(selection, newestFirst: newestFirst) { record, kind in
      lines.append("\(record.endedWall - 1_000_000_000) \(kind.origin)\(record.path)")
      return true
    }
    return lines
  }

  @Test func whatIsWrittenIsReadWhileItIsOpenAndAfterwards() throws {
    let store = try HistoryStore(settings())
    try store.write(batch(4))
    let lines = [
      "0 https://h0.example/p/0", "1 https://h1.example/p/1", "2 https://h2.example/p/2", "3 https://h0.example/p/3",
    ]
    #expect(try read() == lines)
    #expect(Files.mode(path) == 0o640)
    #expect(Files.mode(path + "-wal") == 0o640)
    store.close()
    #expect(try read() == lines)
    #expect(try read(newestFirst: true) == lines.reversed())
    #expect(Files.isAbsent(path + "-wal") && Files.isAbsent(path + "-shm"))
    #expect(try read { $0.since = 1_000_000_002 } == Array(lines[2...]))
    #expect(try read { $0.until = 1_000_000_001 } == [lines[0]])
    #expect(try read { $0.isDeniedOnly = true } == [lines[0]])
  }

  @Test func exchangesOfOneMillisecondAreToldApart() throws {
    let store = try HistoryStore(settings())
    for _ in 0..<3 { try store.write(batch(1)) }
    store.close()
    #expect(try read().count == 3)
  }

  @Test func aClockThatIsSetBackIsFollowed() throws {
    let store = try HistoryStore(settings())
    try store.write(batch(2, from: 9_000_000_000))
    try store.write(batch(2))
    try store.write(batch(2))
    store.close()
    #expect(
      try read().map { $0.prefix { $0 != " " } }
        == ["0", "0", "1", "1", "8000000000", "8000000001"])
  }

  @Test func aRestartKnowsTheKindsAgain() throws {
    for _ in 0..<3 {
      let store = try HistoryStore(settings())
      try store.write(batch(100))
      store.close()
    }
    // Three hosts, of which each was denied and allowed.
    #expect(try HistoryReader(path: path).kinds.count == 6)
    #expect(try read().count == 300)
  }

  @Test func whatIsTooOldGoesInSteps() throws {
    let store = try HistoryStore(settings(keep: 3_600_000))
    let count = HistoryStore.removedAtOnce + 100
    try store.write(batch(count))
    try store.write(batch(10, from: 1_100_000_000))
    var steps = 1
    while try store.keepBounds(wall: 1_100_000_100, monotonic: Int64(steps), coming: 0) { steps += 1 }
    #expect(steps == 2)
    store.close()
    #expect(try read().count == 10)
    #expect(try HistoryReader(path: path).kinds.count <= 6)
  }

  /// Also where each exchange is of a kind of its own.
  @Test(arguments: [3, 1_000_000]) func theFileStaysWithinItsSize(_ hosts: Int) throws {
    let size: Int64 = 16 << 20
    let store = try HistoryStore(settings(size: size))
    let long = "/" + String(repeating: "p", count: 200)
    var wall: Int64 = 1_000_000_000
    var rows = 0
    for _ in 0..<60 {
      let batch = batch(2_000, from: wall, hosts: hosts, path: long)
      let full = try store.facts().bytes
      while try store.keepBounds(wall: wall, monotonic: 0, coming: batch.bytes.count) {}
      if try store.facts().bytes < full {
        let left = try read().count
        #expect(left * 4 >= rows * 3, "a full file loses its oldest part alone")
        rows = left
      }
      try store.write(batch)
      rows += 2_000
      wall += 2_000
      #expect(try store.facts().bytes <= size)
    }
    store.close()
    let file = try Files.read(path, limit: 64 << 20).get()
    #expect(file.count <= size)
    let lines = try read(newestFirst: true)
    #expect(lines.count > 10_000)
    #expect(lines.first?.hasPrefix("\(wall - 1_000_000_001) ") == true)
  }

  @Test func aSmallerSizeGivesRoomBack() throws {
    var store = try HistoryStore(settings())
    try store.write(batch(100_000, path: "/" + String(repeating: "p", count: 200)))
    store.close()
    store = try HistoryStore(settings(size: 16 << 20))
    while try store.keepBounds(wall: 1_000_100_000, monotonic: 0, coming: 0) {}
    store.close()
    #expect(try Files.read(path, limit: 64 << 20).get().count <= 16 << 20)
  }

  @Test func anotherProgramsFileIsLeftAsItIs() throws {
    let text = Array("these are the accounts of 1997, kept in no database at all".utf8)
    _ = Files.create(path, text, mode: 0o600)
    #expect(throws: HistoryFault.self) { _ = try HistoryStore(self.settings()) }
    #expect(throws: HistoryReadFault.self) { _ = try self.read() }
    #expect(try Files.read(path, limit: 1 << 20).get() == text)
    _ = Files.remove(path)
    let database = try Database(path: path)
    try database.run("CREATE TABLE t (a)")
    #expect(throws: HistoryFault.self) { _ = try HistoryStore(self.settings()) }
    #expect(throws: HistoryReadFault.self) { _ = try self.read() }
    #expect(try database.number("SELECT count(*) FROM sqlite_schema") == 1)
  }

  @Test func oneProcessWritesIt() throws {
    let store = try HistoryStore(settings())
    do {
      _ = try HistoryStore(settings())
      Issue.record("it was opened twice")
    } catch { #expect(error.sentence == "cannot use \(path): another process has it open") }
    store.close()
  }

  @Test func aReaderThatStaysDoesNotLetTheLogGrowWithoutEnd() throws {
    let store = try HistoryStore(settings(size: 16 << 20))
    try store.write(batch(10))
    let reader = try Database(reading: path)
    let statement = try reader.statement("SELECT id FROM exchanges")
    _ = try statement.step()
    var written = 0
    while !store.isHeldUp, written < 200 {
      try store.write(batch(1_000, from: 1_000_000_000 + Int64(written) * 1_000))
      _ = try store.keepBounds(wall: 1_000_000_000, monotonic: 0, coming: 0)
      written += 1
    }
    #expect(store.isHeldUp)
    statement.reset()
    _ = try store.keepBounds(wall: 1_000_000_000, monotonic: 0, coming: 0)
    #expect(!store.isHeldUp)
    store.close()
  }
}

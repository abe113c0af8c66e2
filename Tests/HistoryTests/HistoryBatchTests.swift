// Exchanges come out of a batch as they went in: whole, cut at every byte, and with others before and behind them.

import Bytes
import Policy
import Testing

@testable import History

@Suite struct HistoryBatchTests {
  static let numbers = HistoryNumbers(
    endedWall: 1_795_000_000_123, reference: 0x3fff_ffff, status: 200, bytesIn: 5, bytesOut: 1 << 40,
    totalMicroseconds: 250_999)

  /// The words in their order, each its own name.
  static func append(
    to batch: inout HistoryBatch, _ numbers: HistoryNumbers = numbers, path: String = "/simple/x/",
    change: [HistoryWord: String] = ["host": "https://A.example:8443"].asWords
  ) {
    batch.begin(numbers, path: Array(path.utf8).span)
    for word in HistoryWord.written { batch.word(change[word] ?? word.rawValue) }
  }

  static func entry(_ batch: borrowing HistoryBatch, at start: Int = 0) -> HistoryEntry? {
    HistoryEntry(batch.bytes.bytes, at: start)
  }

  static func kind(_ batch: borrowing HistoryBatch, _ range: Range<Int>) -> HistoryKind? {
    HistoryKind(encoded: batch.bytes.bytes.extracting(range))
  }

  @Test func anExchangeComesBack() throws {
    var batch = HistoryBatch()
    Self.append(to: &batch)
    let found = Self.entry(batch)
    let entry = try #require(found)
    #expect(entry.numbers == Self.numbers)
    #expect(entry.numbers.begunWall == 1_794_999_999_873)
    let path = batch.bytes.string(entry.path)
    #expect(path == "/simple/x/")
    let count = batch.bytes.count
    #expect(entry.end == count)
    let words = Self.kind(batch, entry.kind)
    let kind = try #require(words)
    for word in HistoryWord.written where word != .host { #expect(kind[word] == word.rawValue) }
    #expect(kind[.scheme] == "https")
    #expect(kind[.host] == "a.example")
    #expect(kind.port == 8443)
    #expect(kind.origin == "https://a.example:8443")
  }

  @Test func whatIsCutIsNone() {
    var batch = HistoryBatch()
    Self.append(to: &batch)
    let count = batch.bytes.count
    for part in 0..<count {
      let entry = HistoryEntry(batch.bytes.bytes.extracting(0..<part), at: 0)
      #expect(entry == nil)
    }
    for start in [count, -1] {
      let entry = Self.entry(batch, at: start)
      #expect(entry == nil)
    }
  }

  @Test func severalStandBehindOneAnother() throws {
    var batch = HistoryBatch()
    var whole = HistoryBatch()
    for number in 0..<3 {
      Self.append(to: &batch, path: "/\(number)")
      whole.append(contentsOf: batch)
      batch.removeAll()
    }
    let all = whole.count
    #expect(all == 3)
    var paths: [String] = []
    var at = 0
    while let entry = Self.entry(whole, at: at) {
      paths.append(whole.bytes.string(entry.path))
      at = entry.end
    }
    #expect(paths == ["/0", "/1", "/2"])
    let count = whole.bytes.count
    #expect(at == count)
  }

  @Test func aKindWithTooFewOrTooManyWordsIsNone() {
    var batch = HistoryBatch()
    Self.append(to: &batch)
    guard let entry = Self.entry(batch) else { return }
    for range in [entry.kind.dropLast(), 0..<entry.end, entry.kind.lowerBound..<entry.kind.lowerBound] {
      let kind = Self.kind(batch, range)
      #expect(kind == nil)
    }
  }

  @Test(arguments: [
    ("GET", "http://a.example", "http", "a.example", "80", "http://a.example"),
    ("GET", "http://A.Example.:8080", "http", "a.example", "8080", "http://a.example:8080"),
    ("GET", "https://[2001:DB8::1]", "https", "2001:db8::1", "443", "https://[2001:db8::1]"),
    ("GET", "https://[2001:db8::1]:8443", "https", "2001:db8::1", "8443", "https://[2001:db8::1]:8443"),
    ("CONNECT", "a.example:443", "https", "a.example", "443", "a.example:443"),
    ("CONNECT", "[::1]:8443", "https", "::1", "8443", "[::1]:8443"),
    ("OPTIONS", "*", "", "*", "", "*"),
    ("GET", "", "", "", "", ""),
  ])
  func targetsAreTakenApart(
    _ row: (method: String, target: String, scheme: String, host: String, port: String, origin: String)
  ) throws {
    var batch = HistoryBatch()
    Self.append(to: &batch, change: ["method": row.method, "host": row.target].asWords)
    let found = Self.entry(batch)
    let entry = try #require(found)
    let words = Self.kind(batch, entry.kind)
    let kind = try #require(words)
    #expect([kind[.scheme], kind[.host], kind[.port]].map { $0 ?? "" } == [row.scheme, row.host, row.port])
    #expect(kind.origin == row.origin)
  }

  @Test func numbersAndListsAreWords() throws {
    var batch = HistoryBatch()
    batch.begin(Self.numbers, path: Array("".utf8).span)
    batch.word(IPAddress("2001:db8::1"))
    batch.word(1001 as UInt32?)
    batch.word("ci" as String?)
    batch.word([1000, 1002] as [UInt32], between: 0x2c)
    batch.word("known" as StaticString?)
    batch.word(["ci.slice", "_odd.service"], between: 0x2f)
    for _ in 6..<HistoryWord.written.count { batch.word(nil as String?) }
    let found = Self.entry(batch)
    let entry = try #require(found)
    let words = Self.kind(batch, entry.kind)
    let kind = try #require(words)
    #expect(kind[.client] == "2001:db8::1")
    let client = try #require(kind.localClient)
    #expect(client.userID == 1001 && client.user == "ci" && client.owners == [1000, 1002])
    #expect(client.cgroup == ["ci.slice", "_odd.service"] && client.unit == "_odd.service")
    #expect(client.outcome == .known)
    #expect(kind[.rule] == nil)
  }

  @Test func clientsInDoubtStayInDoubt() {
    for (known, outcome) in [
      ("known", LocalClient.Outcome.known), ("user-unknown", .userUnknown), ("unit-unknown", .unitUnknown),
      ("unknown", .unknown),
    ] {
      var kind = HistoryKind()
      kind[.known] = known
      kind[.uid] = "7"
      #expect(kind.localClient?.outcome == outcome)
      #expect("\(outcome.rawValue)" == known)
    }
    #expect(HistoryKind().localClient == nil)
  }
}

extension [String: String] {
  var asWords: [HistoryWord: String] {
    var words: [HistoryWord: String] = [:]
    for (name, text) in self { if let word = HistoryWord(rawValue: name) { words[word] = text } }
    return words
  }
}

// Journal entries as loops write them and as the writer of the log reads them back.

import Bytes
import Policy
@testable import Session
import Testing
import Transport

@testable import Server

@Suite struct JournalEntryTests {
  private static func entries(_ bytes: Span<UInt8>) -> [[String]] {
    var entries = JournalEntries()
    var fields: [Range<Int>] = []
    var found: [[String]] = []
    while entries.next(in: bytes, &fields) { found.append(fields.map { bytes.extracting($0).string }) }
    return found
  }

  private static func access(_ method: String, _ target: String, _ change: (inout ExchangeRecord) -> Void) -> [[String]]
  {
    var text = ByteBuffer()
    text.append(method)
    text.append(target)
    var record = ExchangeRecord()
    record.text.method = 0..<method.utf8.count
    record.text.target = record.text.method.upperBound..<text.count
    change(&record)
    let client = SocketAddress(high: 0, low: 0x7f00_0001, port: 4711, isIPv4: true)
    let line = AccessLine(rule: nil, client: client, totalMicroseconds: 12_000)
    var out = ByteBuffer()
    line.write(record, .journal, text: text, to: &out)
    return entries(out.bytes)
  }

  @Test func severalEntriesInOneBatchAreReadBackAsTheyWereWritten() {
    var batch = ByteBuffer()
    batch.append(journal: "first", .warning)
    batch.append(journal: "", .error)
    batch.append(journal: "a=b=c", .debug)
    #expect(
      Self.entries(batch.bytes) == [
        ["MESSAGE=first", "PRIORITY=4"], ["MESSAGE=", "PRIORITY=3"], ["MESSAGE=a=b=c", "PRIORITY=7"],
      ])
  }

  @Test func anEmptyBatchHasNoEntry() {
    let batch = ByteBuffer()
    #expect(Self.entries(batch.bytes).isEmpty)
  }

  @Test func noMessageCanForgeAFieldOrAnEntry() {
    var batch = ByteBuffer()
    batch.append(journal: "x\nPRIORITY=0\n\nMESSAGE=forged\r\u{1b}[31m\u{7f}", .information)
    #expect(
      Self.entries(batch.bytes) == [["MESSAGE=x PRIORITY=0  MESSAGE=forged  [31m ", "PRIORITY=6"]])
  }

  @Test func aRequestIsFoundByItsFields() throws {
    let entries = Self.access("GET", "http://Shop.Example:8080/a?b") { record in
      record.reference = Reference(value: 0)
      record.answer.status = 200
      record.traffic.bytesIn = 7
      record.traffic.bytesOut = 1 << 40
      record.way.upstream = IPAddress(ipv4: 0xc000_0201)
      record.way.upstreamPort = 8080
    }
    try #require(entries.count == 1)
    let message = "MESSAGE=000000 127.0.0.1:4711 GET http://Shop.Example:8080/a?b 200 outcome=done "
    #expect(entries[0][0].hasPrefix(message))
    #expect(
      entries[0].dropFirst() == [
        "PRIORITY=6", "SALLYPORT_REF=000000", "SALLYPORT_CLIENT=127.0.0.1:4711", "SALLYPORT_METHOD=GET",
        "SALLYPORT_TARGET=http://Shop.Example:8080/a?b", "SALLYPORT_STATUS=200", "SALLYPORT_PROTOCOL=http/1.1",
        "SALLYPORT_OUTCOME=done",
        "SALLYPORT_UPSTREAM=192.0.2.1:8080", "SALLYPORT_BYTES_IN=7", "SALLYPORT_BYTES_OUT=1099511627776",
        "SALLYPORT_TOTAL_MS=12.000", "SALLYPORT_HOST=shop.example",
      ])
  }

  @Test func whoAskedByWhatRouteAndHowLongEachStepTookAreFields() throws {
    let entries = Self.access("GET", "http://shop.example/") { record in
      record.sender.client = LocalClient(
        userID: 1001, user: "kiosk", cgroup: ["system.slice", "till.service", "inner"])
      record.way.route = "office"
      record.way.upstream = IPAddress(ipv4: 0xc000_0201)
      record.way.upstreamPort = 3128
      record.way.isReused = true
      record.times.nameMicroseconds = 3_250
      record.times.firstByteMicroseconds = 0
    }
    try #require(entries.count == 1)
    for field in [
      "SALLYPORT_USER=kiosk", "SALLYPORT_UNIT=till.service", "SALLYPORT_ROUTE=office", "SALLYPORT_REUSED=true",
      "SALLYPORT_NAME_MS=3.250", "SALLYPORT_FIRST_BYTE_MS=0.000",
    ] { #expect(entries[0].contains(field)) }
    for absent in ["SALLYPORT_RETRIED", "SALLYPORT_CONNECT_MS", "SALLYPORT_TLS_MS"] {
      #expect(!entries[0].contains { $0.hasPrefix(absent) })
    }
  }

  @Test func aUserWithoutANameIsANumberAndNoControlCharacterComesIntoTheMessage() throws {
    let entries = Self.access("GET", "http://shop.example/") { record in
      record.sender.client = LocalClient(userID: 61_184, user: nil, cgroup: ["a\u{1b}[31m.service"])
    }
    try #require(entries.count == 1)
    #expect(entries[0].contains("SALLYPORT_USER=61184"))
    #expect(entries[0][0].contains(#" user=61184 unit="a\u001b[31m.service" "#))
  }

  @Test func whatWentWrongIsSaidAndIsMoreThanInformation() throws {
    let entries = Self.access("", "") { $0.outcome = .clientLeft }
    try #require(entries.count == 1)
    #expect(entries[0].contains("PRIORITY=5"))
    #expect(entries[0].contains("SALLYPORT_OUTCOME=client-left"))
    #expect(!entries[0].contains { $0.hasPrefix("SALLYPORT_METHOD") || $0.hasPrefix("SALLYPORT_HOST") })
  }

  @Test(arguments: [
    ("a.example:443", "a.example"), ("[2001:db8::1]:443", "2001:db8::1"), ("http://a.example/x:1/[", "a.example"),
    ("https://a.example", "a.example"), ("http://[::1]/", "::1"), ("http://a.example:80/http://b/", "a.example"),
    ("*", "*"), ("", ""), ("/", "/"), ("://", ""), ("[", ""), ("[::1", "::1"), ("http://", ""), (":80", ""),
  ])
  func theHostOfATarget(_ target: String, _ host: String) {
    let bytes = Array(target.utf8)
    #expect(bytes.span.extracting(AccessLine.host(in: bytes.span)).string == host)
  }
}

// What a loop writes of an exchange comes out under the words that it belongs to.

import Bytes
import HTTP1
import History
import Policy
@testable import Session
import Testing
import Transport

@testable import Server

@Suite struct HistoryEncodingTests {
  private struct Cut: Error {}

  private static func entry(
    _ text: String, target: Range<Int>, _ change: (inout ExchangeRecord) -> Void = { _ in }
  ) throws -> (HistoryEntry, path: String, HistoryKind) {
    var record = ExchangeRecord()
    record.reference = Reference(value: 7)
    record.text.method = 0..<target.lowerBound
    record.text.target = target
    record.times.begunWall = 1_000_000
    change(&record)
    let line = AccessLine(
      rule: "api", client: SocketAddress(high: 0, low: 0x7f00_0001, port: 4711, isIPv4: true),
      totalMicroseconds: 12_345,
      place: "/etc/s.toml:4")
    var batch = HistoryBatch()
    batch.append(record, line, text: Array(text.utf8).span)
    guard let entry = HistoryEntry(batch.bytes.bytes, at: 0) else { throw Cut() }
    guard let kind = HistoryKind(encoded: batch.bytes.bytes.extracting(entry.kind)) else { throw Cut() }
    return (entry, batch.bytes.string(entry.path), kind)
  }

  @Test func everyFactHasItsWord() throws {
    let (entry, path, kind) = try Self.entry("GEThttps://a.example:8443/x/y", target: 3..<29) { record in
      record.sender.client = LocalClient(
        userID: 100_005, user: "kiosk", owners: [1000, 1001], cgroup: ["system.slice", "till.service"])
      record.sender.program = "/usr/bin/odd name"
      record.sender.credential = ProxyCredential(userAndPassword: Array("ci:secret".utf8))
      record.ruled.decision = Decision(verdict: .allow, reason: .rule, rule: 0)
      record.outcome = .problem(.unacceptableContentType)
      record.answer.violation = .unacceptableStatus
      record.found.report = .denied
      record.way.route = "direct"
      record.way.upstream = IPAddress(ipv4: 0xc000_0201)
      record.sender.wire = .http2
      record.answer.cache = .revalidated
      record.way.assurance = .exact
      record.ruled.link = .wifi
      record.answer.status = 502
      record.traffic.bytesIn = 7
      record.traffic.bytesOut = 8
    }
    #expect(
      entry.numbers
        == HistoryNumbers(
          endedWall: 1_000_012, reference: 7, status: 502, bytesIn: 7, bytesOut: 8, totalMicroseconds: 12_345))
    #expect(path == "/x/y")
    let expected: [HistoryWord: String] = [
      .client: "127.0.0.1", .uid: "100005", .user: "kiosk", .owners: "1000,1001", .known: "known",
      .cgroup: "system.slice/till.service", .unit: "till.service", .program: "/usr/bin/odd name", .proxyUser: "ci",
      .method: "GET", .scheme: "https", .host: "a.example", .port: "8443", .link: "wifi", .protocol: "h2",
      .rule: "api", .place: "/etc/s.toml:4", .decision: "allow", .reason: "rule",
      .outcome: "unacceptable-content-type", .violation: "unacceptable-status", .report: "denied", .route: "direct",
      .upstream: "192.0.2.1", .assurance: "exact", .cache: "revalidated",
    ]
    for word in HistoryWord.allCases { #expect(kind[word] == expected[word], "\(word.rawValue)") }
  }

  @Test func whatThereIsNotIsLeftOut() throws {
    let (_, path, kind) = try Self.entry("", target: 0..<0)
    #expect(path.isEmpty)
    let there = HistoryWord.allCases.filter { kind[$0] != nil }
    #expect(there == [.client, .protocol, .rule, .place, .outcome])
    #expect(kind.localClient == nil)
  }

  @Test(arguments: [
    ("CONNECT", "a.example:443", "a.example", ""), ("GET", "http://a.example", "a.example", ""),
    ("GET", "http://a.example/", "a.example", "/"), ("GET", "http://a.example//x//y", "a.example", "//x//y"),
    ("OPTIONS", "*", "*", ""),
  ])
  func pathsAreToldFromHosts(_ method: String, _ target: String, _ host: String, _ path: String) throws {
    let begin = method.utf8.count
    let (_, found, kind) = try Self.entry(method + target, target: begin..<begin + target.utf8.count)
    #expect(found == path)
    #expect(kind[.host] == host)
  }

  @Test func aClientInDoubtHasNoNumber() throws {
    let (_, _, kind) = try Self.entry("", target: 0..<0) { $0.sender.client = .unknown }
    #expect(kind[.uid] == nil)
    #expect(kind[.known] == "unknown")
    #expect(kind.localClient?.outcome == .unknown)
  }
}

// The facts of an exchange, from which its line in the access log is written.

import Bytes
import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct ExchangeRecordTests {
  private static func entries(_ happenings: [Happening], _ policy: Policy = plainPolicy) -> [Stage.Entry] {
    let stage = Stage(policy, .bytewise)
    _ = stage.play(happenings)
    return stage.entries
  }

  @Test func anExchangeIsRecorded() {
    let entries = Self.entries([
      .client(head("POST http://a.example:81/p?q=s3cret HTTP/1.1", "Host: a", "Content-Length: 5") + "hello"),
      .pass(30), .opened, .pass(12), .upstream(ok),
    ])
    #expect(entries.count == 1)
    let entry = entries[0]
    #expect(entry.text == "POST http://a.example:81/p")
    #expect(entry.record.answer.status == 200)
    #expect(entry.record.outcome == .done)
    #expect(entry.record.times.begun == 1000)
    #expect(entry.record.times.begunWall == 784_111_777_000)
    #expect(entry.record.times.firstByteMicroseconds == 42_000)
    #expect(entry.record.way.upstream == IPAddress(ipv4: 0xc000_0201))
    #expect(entry.record.way.upstreamPort == 81)
    #expect(entry.record.ruled.decision == Decision(verdict: .allow, reason: .defaultAllow, rule: nil))
    #expect(!entry.record.way.isReused)
    #expect(!entry.record.way.isRetried)
    #expect(entry.record.traffic.bytesIn == 76 + 5)
  }

  @Test func nothingOfAnExchangeIsLeftInTheNext() {
    let rules = policy("[[rule]]\nname = \"r\"\nhosts = [\"a.example\"]")
    let entries = Self.entries(
      [
        .client(get), .reused, .upstreamEnds, .opened, .pass(5), .upstream(ok),
        .client(head("GET http://b.example/ HTTP/1.1", "Host: b")), .failed(.nameNotFound, "No."),
        .client("x\r\n"),
      ], rules)
    #expect(entries.map(\.text) == ["GET http://a.example/x", "GET http://b.example/", ""])
    #expect(entries.map(\.record.way.isRetried) == [true, false, false])
    #expect(entries.map(\.record.ruled.decision?.rule) == [0, nil, nil])
    #expect(entries.map(\.record.ruled.decision?.reason) == [.rule, .defaultAllow, nil])
    #expect(entries.map { $0.record.way.upstream == nil } == [false, true, true])
    #expect(entries.map(\.record.times.firstByteMicroseconds) == [5000, -1, -1])
    #expect(entries.map(\.record.answer.status) == [200, 502, 400])
    #expect(entries.map(\.record.outcome) == [.done, .problem(.nameNotFound), .problem(.malformedRequest)])
    #expect(Set(entries.map(\.record.reference)).count == 3)
  }

  private static let chunkedPost = head(
    "POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked")
  /// 100 bytes behind a head of which the client gets 69 bytes, with what the proxy puts in.
  private static let long = head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 100")
  private static let longChunked = head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked")
  private static let endless = head("HTTP/1.1 200 OK", "Date: today")
  private static let headBytes = UInt64(long.utf8.count + "Via: 1.1 sallyport\r\n".utf8.count)

  @Test(
    "what an exchange will come to is known as soon as its heads say so",
    arguments: [
      ("a request without a body, whose answer is awaited", [.client(get), .opened], [UInt64(get.utf8.count), nil]),
      ("a body that has not come", [.client(post), .opened], [UInt64(post.utf8.count) + 5, nil]),
      ("a body of which a part has come", [.client(post + "he"), .opened], [UInt64(post.utf8.count) + 5, nil]),
      ("a body of unknown length", [.client(chunkedPost + "5\r\nhello\r\n"), .opened], [nil, nil]),
      (
        "a response of known length", [.client(get), .opened, .upstream(long + "abc")],
        [UInt64(get.utf8.count), headBytes + 100]
      ),
      (
        "a response of which nothing has come but the head", [.client(get), .opened, .upstream(long)],
        [UInt64(get.utf8.count), headBytes + 100]
      ),
      (
        "a response in chunks", [.client(get), .opened, .upstream(longChunked + "1\r\na\r\n")],
        [UInt64(get.utf8.count), nil]
      ),
      (
        "a response that ends with its connection", [.client(get), .opened, .upstream(endless + "abc")],
        [UInt64(get.utf8.count), nil]
      ),
      ("a tunnel", [.client(connect), .opened, .client("hello"), .upstream("hello")], [nil, nil]),
      ("no exchange", [.client(get), .opened, .upstream(ok)], [nil, nil]),
    ] as [(String, [Happening], [UInt64?])])
  func whatAnExchangeWillComeTo(_ name: String, _ happenings: [Happening], _ expected: [UInt64?]) {
    for split in [Split.whole, .bytewise] {
      let stage = Stage(plainPolicy, split)
      _ = stage.play(happenings)
      #expect(stage.expectedBytes == expected)
    }
  }

  @Test func aReusedConnectionIsRecorded() {
    #expect(Self.entries([.client(get), .reused, .upstream(ok)])[0].record.way.isReused)
  }

  @Test(arguments: [
    (Wire(head("GET http://a.example HTTP/1.1", "Host: a")), "GET http://a.example"),
    (Wire(head("GET http://a.example?s3cret HTTP/1.1", "Host: a")), "GET http://a.example"),
    (Wire(head("GET https://a.example/x?s3cret HTTP/1.1", "Host: a")), "GET https://a.example/x"),
    (Wire(head("CONNECT A.example:443 HTTP/1.1", "Host: a")), "CONNECT A.example:443"),
    (Wire(head("OPTIONS * HTTP/1.1", "Host: a")), "OPTIONS *"),
    (Wire(head("GET http://u:s3cret@a.example/ HTTP/1.1", "Host: a")), "GET "),
  ]) func theTargetIsRecordedWithoutItsQuery(request: Wire, text: String) {
    let entries = Self.entries([.client(request.text), .shutDown])
    #expect(entries.map(\.text) == [text])
  }

  @Test func aLongPathIsRecordedInPart() {
    let path = String(repeating: "p", count: 3000)
    let entries = Self.entries([.client(head("GET http://a.example/\(path) HTTP/1.1", "Host: a")), .shutDown])
    #expect(entries.map(\.text) == ["GET http://a.example/" + path.prefix(1023)])
  }

  @Test func aRuleThatIsNotEnforcedIsRecordedAsWhatItWouldHaveDone() {
    let rules = policy(
      """
      [[rule]]
      name = "quiet"
      hosts = ["quiet.example"]
      action = "deny"
      enforce = false
      [[rule]]
      name = "addresses"
      deny_addresses = ["192.0.2.0/24"]
      enforce = false
      """)
    let entries = Self.entries(
      [
        .client(head("GET http://quiet.example/ HTTP/1.1", "Host: a")), .opened, .upstream(ok),
        .client(head("GET http://other.example/ HTTP/1.1", "Host: a")), .opened, .upstream(ok),
      ], rules)
    #expect(entries.map(\.record.ruled.decision?.reason) == [.ruleWouldDeny, .ruleWouldDeny])
    #expect(entries.map(\.record.ruled.decision?.rule) == [0, 1])
    #expect(entries.map(\.record.answer.status) == [200, 200])
  }

  @Test func everyOutcomeButSuccessHasAWord() {
    let outcomes: [Outcome] =
      [.clientLeft, .upstreamBrokeOff, .malformedBody, .tunnelIdle, .shutDown]
      + Problem.Kind.allCases.map { .problem($0) }
    let tokens = outcomes.map { outcome in outcome.token.map { "\($0)" } }
    #expect(!tokens.contains(nil))
    #expect(Set(tokens).count == tokens.count)
    #expect(Outcome.done.token == nil)
    // The same word whether the client was told or what it got was cut short.
    #expect(Outcome.stalled.token.map { "\($0)" } == "\(Problem.Kind.stalled.token)")
    #expect(Outcome.exchangeTimeout.token.map { "\($0)" } == "\(Problem.Kind.exchangeTimeout.token)")
  }
}

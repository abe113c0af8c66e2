// Requests for an http parent: heads that sessions prepare become absolute, and nothing else changes.

import Bytes
import HTTP1
import Policy
import TestSupport
import Testing

@testable import Session

private let line = octets("Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n")

/// Where the parts are of `METHOD target HTTP/1.1`, `Host: authority`.
private func places(_ bytes: [UInt8]) -> WrittenHead {
  let text = String(decoding: bytes, as: UTF8.self)
  let words = text.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
  let method = words[0].utf8.count
  let target = method + 1 + words[1].utf8.count
  let authority = target + " HTTP/1.1\r\nHost: ".utf8.count
  let end = authority + (bytes[authority...].firstIndex(of: 0x0d) ?? 0) - authority
  return WrittenHead(method: 0..<method, target: method + 1..<target, authority: authority..<end)
}

/// What becomes of a buffer that holds `bytes`. Where the parts are then is checked.
private func rewritten(_ bytes: [UInt8], authorization: [UInt8]? = nil) -> [UInt8] {
  var pool = BufferPool()
  var output = pool.take(bytes.count)
  // Something was sent from this buffer before.
  output.append(octets("gone"))
  output.consume(4)
  output.append(bytes)
  let head = ParentRequest.rewrite(&output, places(bytes), adding: authorization ?? [], pool: &pool)
  let result = output.array
  #expect(head == places(result))
  return result
}

@Suite struct ParentRequestTests {
  static let rows: [(String, String)] = [
    ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n*\r\n"),
    (
      "GET /p/q?r=s%20//t HTTP/1.1\r\nHost: a.example:8080\r\nX: y\r\n\r\n",
      "GET http://a.example:8080/p/q?r=s%20//t HTTP/1.1\r\nHost: a.example:8080\r\n*X: y\r\n\r\n"
    ),
    ("GET /? HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "GET http://[::1]:80/? HTTP/1.1\r\nHost: [::1]:80\r\n*\r\n"),
    ("GET //b HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://a//b HTTP/1.1\r\nHost: a\r\n*\r\n"),
    ("OPTIONS * HTTP/1.1\r\nHost: a:81\r\n\r\n", "OPTIONS http://a:81 HTTP/1.1\r\nHost: a:81\r\n*\r\n"),
    ("OPTIONS /* HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS http://a/* HTTP/1.1\r\nHost: a\r\n*\r\n"),
    ("M-SEARCH /x HTTP/1.1\r\nHost: a\r\n\r\n", "M-SEARCH http://a/x HTTP/1.1\r\nHost: a\r\n*\r\n"),
    (
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n",
      "POST http://a/ HTTP/1.1\r\nHost: a\r\n*Content-Length: 27\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n"
    ),
    ("PUT / HTTP/1.1\r\nHost: a\r\nX: \u{0}", "PUT http://a/ HTTP/1.1\r\nHost: a\r\n*X: \u{0}"),
  ]

  @Test(arguments: rows) func aHeadBecomesAbsolute(before: String, after: String) {
    // The star behind Host is where credentials go.
    let parts = after.split(separator: "\r\n*", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    let begin = octets(parts[0] + "\r\n")
    let end = octets(parts[1])
    #expect(rewritten(octets(before)) == begin + end)
    #expect(rewritten(octets(before), authorization: line) == begin + line + end)
    let long = octets("X: \(String(repeating: "x", count: 3000))\r\n")
    #expect(rewritten(octets(before), authorization: long) == begin + long + end)
  }

  @Test func linesGoBehindHost() {
    for (before, _) in Self.rows {
      var pool = BufferPool()
      var output = pool.take(before.utf8.count)
      output.append(octets(before))
      ParentRequest.insert(line, into: &output, places(octets(before)), pool: &pool)
      let host = places(octets(before)).behindHost
      #expect(output.array == Array(octets(before)[..<host]) + line + Array(octets(before)[host...]))
    }
  }

  @Test func theMemoryGoesBackToThePool() {
    var pool = BufferPool()
    var output = pool.take(1)
    let head = octets("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    output.append(head)
    _ = ParentRequest.rewrite(&output, places(head), adding: line, pool: &pool)
    pool.reclaim(&output)
    #expect(pool.keptBytes == 2 * BufferPool.smallestBlock)
  }

  @Test func credentialsAreALineOfTheirOwn() {
    // The example of RFC 7617, 2.
    #expect(ParentRequest.authorizationLine(RouteCredentials("Aladdin", "open sesame")) == line)
    #expect(ParentRequest.authorizationLine(RouteCredentials("", "")) == octets("Proxy-Authorization: Basic Og==\r\n"))
    let bytes = ParentRequest.authorizationLine(RouteCredentials("t\u{e9}st", "\u{c2}\u{a3}:"))
    #expect(bytes == octets("Proxy-Authorization: Basic dOlzdDrCozo=\r\n"))
  }

  /// What sessions really write is what is expected here.
  @Test(
    arguments: [
      ("GET http://a.example HTTP/1.1", "GET http://a.example/ HTTP/1.1"),
      ("GET http://A.Example:8080/x?y HTTP/1.1", "GET http://A.Example:8080/x?y HTTP/1.1"),
      ("GET http://a.example?y HTTP/1.1", "GET http://a.example/?y HTTP/1.1"),
      ("GET http://[2001:db8::1]/x HTTP/1.0", "GET http://[2001:db8::1]/x HTTP/1.1"),
      ("OPTIONS http://a.example HTTP/1.1", "OPTIONS http://a.example HTTP/1.1"),
      ("OPTIONS http://a.example/ HTTP/1.1", "OPTIONS http://a.example/ HTTP/1.1"),
      ("POST http://a.example/ HTTP/1.1", "POST http://a.example/ HTTP/1.1"),
      ("X!#$%&'*+-.^_`|~ http://a.example/ HTTP/1.1", "X!#$%&'*+-.^_`|~ http://a.example/ HTTP/1.1"),
    ]) func theHeadsOfSessionsAreRewritten(asked: String, sent: String) throws
  {
    var session = Session(policy: plainPolicy, in: ExchangeRooms(), now: 0)
    var workspace = Workspace(name: "s", mark: Stage.mark, references: ReferenceSource(seed: 0, index: 0, of: 1))
    var outputs = Outputs()
    let body = asked.hasPrefix("POST") ? "Content-Length: 2\r\n\r\n" : "\r\n"
    let bytes = octets("\(asked)\r\nHost: elsewhere\r\nProxy-Authorization: Basic eDp5\r\n\(body)")
    let step = session.clientReceived(bytes.span, now: 0, policy: plainPolicy, in: &workspace, to: &outputs)
    #expect(step.action == .connect)
    let prepared = outputs.toUpstream.array
    #expect(session.exchange.upstream.written == places(prepared))
    _ = ParentRequest.rewrite(
      &outputs.toUpstream, session.exchange.upstream.written, adding: line, pool: &workspace.pool)
    let output = outputs.toUpstream.array
    #expect(String(decoding: output.prefix { $0 != 13 }, as: UTF8.self) == sent)
    var head = RequestHead()
    let progress = head.read(output.span, limits: HeadLimits(bytes: 4096, fields: 16))
    #expect(progress == .complete(count: output.count))
    #expect(head.form == .absolute)
    let host = try #require(head.fields.first(.host))
    #expect(Array(output[host]) == Array(output[head.authority]))
    let credentials = head.fields.lines.filter { $0.known == .proxyAuthorization }
    #expect(credentials.map { Array(output[$0.line]) } == [line])
    #expect(
      output.count == prepared.count + line.count + "http://".utf8.count + head.authority.count
        - (sent.hasPrefix("OPTIONS http://a.example ") ? 1 : 0))
  }
}

// Request heads: what is taken and as what, and everything that is refused.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

let usualLimits = HeadLimits(bytes: 32 << 10, fields: 128)

/// Reads a request head and says what it holds.
func readRequest(_ bytes: Span<UInt8>, limits: HeadLimits = usualLimits, isInTunnel: Bool = false) -> Verdict {
  var head = RequestHead()
  switch head.read(bytes, limits: limits, isInTunnel: isInTunnel) {
  case .incomplete: return .incomplete
  case .invalid(let fault): return .refused(fault)
  case .complete(let count): return .accepted(count: count, summary(head, bytes))
  }
}

private func summary(_ head: borrowing RequestHead, _ bytes: Span<UInt8>) -> String {
  func text(_ range: Range<Int>) -> String { bytes.extracting(range).string }
  let target =
    switch head.form {
    case .asterisk: "*"
    case .origin:
      "inside \(text(head.host)) \(head.port.map(String.init) ?? "-") '\(text(head.path))' '\(text(head.pathAndQuery))'"
    case .authority: "tunnel to \(text(head.host)) \(head.port.map(String.init) ?? "-")"
    case .absolute:
      "\(head.isHTTPS ? "https" : "http") \(text(head.host)) \(head.port.map(String.init) ?? "-")"
        + " '\(text(head.path))' '\(text(head.pathAndQuery))'"
    }
  let body =
    switch head.framing {
    case .none: "no body"
    case .length(let length): "\(length) bytes"
    case .chunked: "chunked"
    case .untilClose: "until close"
    }
  return
    "\(text(head.method)) \(target) 1.\(head.minorVersion) \(body), \(head.isPersistent ? "keeps" : "closes")"
}

/// A GET, a POST with these lines behind Host.
func get(_ lines: String..., version: String = "1.1") -> String {
  "GET http://a.example/ HTTP/\(version)\r\nHost: a.example\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n"
}

func post(_ lines: String..., version: String = "1.1") -> String {
  "POST http://a.example/ HTTP/\(version)\r\nHost: a.example\r\n" + lines.map { $0 + "\r\n" }.joined()
    + "\r\n"
}

/// This request line, and a Host.
func line(_ line: String) -> String { line + "\r\nHost: a.example\r\n\r\n" }

@Suite struct RequestHeadTests {
  static let accepted: [Row] = [
    Row("a plain request", get(), "GET http a.example - '/' '/' 1.1 no body, keeps"),
    Row("two empty lines before it", "\r\n\r\n" + get(), "GET http a.example - '/' '/' 1.1 no body, keeps"),
    Row(
      "four empty lines before it", "\r\n\r\n\r\n\r\n" + get(), "GET http a.example - '/' '/' 1.1 no body, keeps"),
    Row("one empty line before it", "\r\n" + get(), "GET http a.example - '/' '/' 1.1 no body, keeps"),
    Row(
      "a port, a path and a query", line("PUT http://a.example:8080/p/q?r=s?t HTTP/1.1"),
      "PUT http a.example 8080 '/p/q' '/p/q?r=s?t' 1.1 no body, keeps"),
    Row(
      "no path", line("GET http://a.example HTTP/1.1"), "GET http a.example - '' '' 1.1 no body, keeps"),
    Row(
      "a query and no path", line("GET http://a.example?q=/ HTTP/1.1"),
      "GET http a.example - '' '?q=/' 1.1 no body, keeps"),
    Row(
      "the scheme in capitals", line("GET HTTP://A.Example/ HTTP/1.1"),
      "GET http A.Example - '/' '/' 1.1 no body, keeps"),
    Row(
      "an https target, which a session answers", line("GET https://a.example:8443/x HTTP/1.1"),
      "GET https a.example 8443 '/x' '/x' 1.1 no body, keeps"),
    Row(
      "an IPv4 address", line("GET http://127.0.0.1:1/ HTTP/1.1"),
      "GET http 127.0.0.1 1 '/' '/' 1.1 no body, keeps"),
    Row(
      "an IPv6 address", line("GET http://[2001:db8::1]:8080/ HTTP/1.1"),
      "GET http [2001:db8::1] 8080 '/' '/' 1.1 no body, keeps"),
    Row(
      "an IPv6 address that ends as IPv4", line("GET http://[::ffff:127.0.0.1] HTTP/1.1"),
      "GET http [::ffff:127.0.0.1] - '' '' 1.1 no body, keeps"),
    Row(
      "the characters that browsers leave bare in a query", line("GET http://a.example/?[\\]^`{|} HTTP/1.1"),
      "GET http a.example - '/' '/?[\\]^`{|}' 1.1 no body, keeps"),
    Row(
      "an @ behind the host", line("GET http://a.example/@b?c@d HTTP/1.1"),
      "GET http a.example - '/@b' '/@b?c@d' 1.1 no body, keeps"),
    Row(
      "the largest port", line("GET http://a.example:65535/ HTTP/1.1"),
      "GET http a.example 65535 '/' '/' 1.1 no body, keeps"),
    Row(
      "an empty port is that of the scheme", line("GET http://a.example:/p HTTP/1.1"),
      "GET http a.example - '/p' '/p' 1.1 no body, keeps"),
    Row(
      "HTTP/1.2 is read as HTTP/1.1", line("GET http://a.example/ HTTP/1.2"),
      "GET http a.example - '/' '/' 1.1 no body, keeps"),
    Row(
      "HTTP/1.9, too", line("GET http://a.example/ HTTP/1.9"), "GET http a.example - '/' '/' 1.1 no body, keeps"),
    Row(
      "a port with leading zeros", line("GET http://a.example:00080/ HTTP/1.1"),
      "GET http a.example 80 '/' '/' 1.1 no body, keeps"),
    Row(
      "a method that nobody knows", line("X-!#$%&'*+.^_`|~9 http://a.example/ HTTP/1.1"),
      "X-!#$%&'*+.^_`|~9 http a.example - '/' '/' 1.1 no body, keeps"),
    Row(
      "a method of 300 characters", line(String(repeating: "M", count: 300) + " http://a.example/ HTTP/1.1"),
      String(repeating: "M", count: 300) + " http a.example - '/' '/' 1.1 no body, keeps"),
    Row(
      "a method that nobody knows, in small letters", line("search http://a.example/ HTTP/1.1"),
      "search http a.example - '/' '/' 1.1 no body, keeps"),
    Row("OPTIONS of the proxy", line("OPTIONS * HTTP/1.1"), "OPTIONS * 1.1 no body, keeps"),
    Row(
      "OPTIONS of the proxy with an empty Host", "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n",
      "OPTIONS * 1.1 no body, keeps"),
    Row(
      "a tunnel", line("CONNECT a.example:443 HTTP/1.1"), "CONNECT tunnel to a.example 443 1.1 no body, keeps"
    ),
    Row(
      "a tunnel to an IPv6 address", line("CONNECT [::1]:443 HTTP/1.1"),
      "CONNECT tunnel to [::1] 443 1.1 no body, keeps"),
    Row(
      "a tunnel of HTTP/1.0 without Host, as Python asks for it", "CONNECT a.example:443 HTTP/1.0\r\n\r\n",
      "CONNECT tunnel to a.example 443 1.0 no body, closes"),
    Row(
      "a tunnel with a length of zero",
      "CONNECT a.example:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
      "CONNECT tunnel to a.example 443 1.1 0 bytes, keeps"),
    Row(
      "TRACE", line("TRACE http://a.example/ HTTP/1.1"), "TRACE http a.example - '/' '/' 1.1 no body, keeps"),
    Row(
      "HTTP/1.0 without Host", "GET http://a.example/ HTTP/1.0\r\n\r\n",
      "GET http a.example - '/' '/' 1.0 no body, closes"),
    Row(
      "HTTP/1.0 that asks to be kept, which is not for proxies",
      get("Connection: keep-alive", version: "1.0"),
      "GET http a.example - '/' '/' 1.0 no body, closes"),
    Row(
      "HTTP/1.0 that asks an old proxy to be kept", get("Proxy-Connection: Keep-Alive", version: "1.0"),
      "GET http a.example - '/' '/' 1.0 no body, closes"),
    Row(
      "close outweighs keep-alive", get("Connection: keep-alive, close", version: "1.0"),
      "GET http a.example - '/' '/' 1.0 no body, closes"),
    Row(
      "HTTP/1.1 that asks to be closed", get("Connection: foo,CLOSE ,bar"),
      "GET http a.example - '/' '/' 1.1 no body, closes"),
    Row(
      "HTTP/1.1 that asks an old proxy to close", get("Proxy-Connection: close"),
      "GET http a.example - '/' '/' 1.1 no body, closes"),
    Row(
      "a Connection that merely looks like close", get("Connection: closed, xclose"),
      "GET http a.example - '/' '/' 1.1 no body, keeps"),
    Row("a length", post("Content-Length: 5"), "POST http a.example - '/' '/' 1.1 5 bytes, keeps"),
    Row("a length of zero", post("content-length:0"), "POST http a.example - '/' '/' 1.1 0 bytes, keeps"),
    Row(
      "the largest length", post("Content-Length: 9223372036854775807"),
      "POST http a.example - '/' '/' 1.1 9223372036854775807 bytes, keeps"),
    Row(
      "a length with blanks around it", post("Content-Length: \t 7 \t"),
      "POST http a.example - '/' '/' 1.1 7 bytes, keeps"),
    Row(
      "the same length twice", post("Content-Length: 7", "Content-Length: 7"),
      "POST http a.example - '/' '/' 1.1 7 bytes, keeps"),
    Row(
      "a length in HTTP/1.0", post("Content-Length: 7", version: "1.0"),
      "POST http a.example - '/' '/' 1.0 7 bytes, closes"),
    Row("chunks", post("Transfer-Encoding: chunked"), "POST http a.example - '/' '/' 1.1 chunked, keeps"),
    Row(
      "chunks in capitals", post("TRANSFER-ENCODING:\tCHUNKED"),
      "POST http a.example - '/' '/' 1.1 chunked, keeps"),
    Row("a GET with a body", get("Content-Length: 3"), "GET http a.example - '/' '/' 1.1 3 bytes, keeps"),
    Row(
      "a Host other than the target's: the target wins",
      "GET http://a.example/ HTTP/1.1\r\nHost: b.example:9\r\n\r\n",
      "GET http a.example - '/' '/' 1.1 no body, keeps"),
    Row(
      "a value of nothing, of blanks, and of bytes above ASCII", get("X:", "Y: \t ", "Z: \u{80}\u{ff}"),
      "GET http a.example - '/' '/' 1.1 no body, keeps"),
    Row(
      "a tab within a value", get("X: a\tb"), "GET http a.example - '/' '/' 1.1 no body, keeps"),
    Row(
      "a name of every token character", get("!#$%&'*+-.^_`|~09azAZ: v"),
      "GET http a.example - '/' '/' 1.1 no body, keeps"),
  ]

  /// As in Tests/Rows. The origin's authority there has a port.
  static let refused =
    SharedRow.all("refused-requests.txt").map { row in
      let get = octets("GET http://ORIGIN/ HTTP/1.1\r\n")
      let host = octets("Host: ORIGIN\r\n")
      let bytes =
        switch row.form {
        case "line": row.text + octets("\r\n") + host + octets("\r\n")
        case "get": get + host + row.section("")
        case "hosted": get + row.section("")
        case "post": octets("POST http://ORIGIN/ HTTP/1.1\r\n") + host + row.section("hello")
        default: row.text
        }
      return Row(row, bytes.replacing(octets("ORIGIN"), with: octets("a.example:80")))
    } + [
      Row(
        "33 connection options", get("Connection: " + (1...33).map { "o\($0)" }.joined(separator: ", ")),
        refused: .tooManyConnectionOptions),
      Row(
        "33 connection options in several fields",
        get(
          "Connection: " + (1...20).map { "o\($0)" }.joined(separator: ","),
          "Proxy-Connection: a,b,c,d,e,f,g,h,i,j,k,l,m"),
        refused: .tooManyConnectionOptions),
    ]

  @Test(arguments: accepted) func isTaken(row: Row) { examine(row) { readRequest($0) } }
  @Test(arguments: refused) func isRefused(row: Row) { examine(row) { readRequest($0) } }

  @Test func theSharedRowsAreThere() { #expect(Self.refused.count > 350) }

  @Test func thirtyTwoConnectionOptionsAreTaken() {
    let bytes = octets(get("Connection: " + (1...32).map { "o\($0)" }.joined(separator: ", ")))
    guard case .accepted = readRequest(bytes.span) else {
      Issue.record("refused")
      return
    }
  }

  /// The strict grammar is itself tried on the tables, before it judges anything.
  @Test func theStrictGrammarAgreesWithTheTables() {
    for row in Self.accepted { #expect(StrictGrammar.isProxyRequest(row.bytes), "\(row.sentence)") }
    for row in Self.refused
    where ![.unsupportedScheme, .tooManyConnectionOptions, .connectionNamesContent].contains(
      row.expected.fault)
    {
      #expect(!StrictGrammar.isProxyRequest(row.bytes), "\(row.sentence)")
    }
  }

  // MARK: One value for many heads

  @Test func nothingOfAHeadIsLeftInTheNext() {
    var head = RequestHead()
    let rows =
      Self.accepted + Self.refused + Self.accepted.reversed() + Self.refused.reversed() + Self.accepted
    for row in rows {
      let bytes = row.bytes
      let progress = head.read(bytes.span, limits: usualLimits)
      switch row.expected {
      case .failure(let fault): #expect(progress == .invalid(fault), "\(row.sentence)")
      case .success(let expected):
        #expect(progress == .complete(count: bytes.count), "\(row.sentence)")
        #expect(summary(head, bytes.span) == expected)
      }
    }
  }

  @Test(arguments: [
    ("GET", KnownMethod.get), ("HEAD", .head), ("POST", .post), ("PUT", .put), ("DELETE", .delete),
    ("TRACE", .trace),
    ("OPTIONS", .options), ("PATCH", .other), ("get", .other), ("GEt", .other), ("PUTT", .other),
    ("POSH", .other),
    ("HEAP", .other), ("TRACK", .other), ("DELATE", .other), ("OPTION", .other), ("CONNECTX", .other),
    ("X", .other),
  ]) func aMethodIsKnownByItsExactName(text: String, method: KnownMethod) {
    var head = RequestHead()
    let bytes = octets(line("\(text) http://a/ HTTP/1.1"))
    _ = head.read(bytes.span, limits: usualLimits)
    #expect(head.knownMethod == method)
    let idempotent = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"].contains(text)
    #expect(head.knownMethod.isIdempotent == idempotent)
  }
}

extension Result where Failure == MessageFault {
  /// nil where it is a success.
  var fault: MessageFault? {
    if case .failure(let fault) = self { return fault }
    return nil
  }
}

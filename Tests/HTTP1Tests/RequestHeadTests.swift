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

  static let refusedLines: [Row] = [
    // The method.
    Row("no method", line(" http://a.example/ HTTP/1.1"), refused: .badMethod),
    Row(
      "a method with a character that no token holds", line("G(T http://a.example/ HTTP/1.1"),
      refused: .badMethod),
    Row("a method above ASCII", line("G\u{c9}T http://a.example/ HTTP/1.1"), refused: .badMethod),
    Row("a tab behind the method", line("GET\thttp://a.example/ HTTP/1.1"), refused: .badMethod),
    Row("a NUL in the method", line("GE\u{0}T http://a.example/ HTTP/1.1"), refused: .controlCharacter),
    Row("a line of one word", "GET\r\n\r\n", refused: .badMethod),
    Row("five empty lines before the request", "\r\n\r\n\r\n\r\n\r\n" + get(), refused: .badMethod),
    Row("a bare LF before the request", "\n" + get(), refused: .bareLineFeed),
    Row("a bare CR before the request", "\r" + get(), refused: .bareCarriageReturn),
    Row("a TLS ClientHello", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}", refused: .controlCharacter),
    // The target.
    Row("no target", line("GET  HTTP/1.1"), refused: .badTarget),
    Row("two spaces before the target", line("GET  http://a.example/ HTTP/1.1"), refused: .badTarget),
    Row("two spaces behind the target", line("GET http://a.example/  HTTP/1.1"), refused: .badVersion),
    Row("a space within the target", line("GET http://a.example/a b HTTP/1.1"), refused: .badVersion),
    Row("a tab within the target", line("GET http://a.example/a\tb HTTP/1.1"), refused: .badTarget),
    Row("a fragment", line("GET http://a.example/#f HTTP/1.1"), refused: .badTarget),
    Row("a backslash in the path", line("GET http://a.example/x\\y?z HTTP/1.1"), refused: .badTarget),
    Row("a backslash in the host", line("GET http://a.example\\b.example/ HTTP/1.1"), refused: .badHost),
    Row(
      "a backslash before user information", line("GET http://a.example\\@b.example/ HTTP/1.1"),
      refused: .userInformationInTarget),
    Row("a quote", line("GET http://a.example/\" HTTP/1.1"), refused: .badTarget),
    Row("angle brackets", line("GET http://a.example/<script> HTTP/1.1"), refused: .badTarget),
    Row("a byte above ASCII", line("GET http://a.example/\u{fc} HTTP/1.1"), refused: .badTarget),
    Row("a NUL in the target", line("GET http://a.example/\u{0} HTTP/1.1"), refused: .controlCharacter),
    Row("a DEL in the target", line("GET http://a.example/\u{7f} HTTP/1.1"), refused: .controlCharacter),
    Row("a bare CR in the target", line("GET http://a.example/\rx HTTP/1.1"), refused: .bareCarriageReturn),
    Row("HTTP/0.9", "GET http://a.example/\r\n\r\n", refused: .badTarget),
    Row("HTTP/0.9 with a bare LF", "GET http://a.example/\n", refused: .bareLineFeed),
    Row("a path alone, as an origin gets it", line("GET / HTTP/1.1"), refused: .targetNotAbsolute),
    Row("a path of two slashes", line("GET //a.example/ HTTP/1.1"), refused: .targetNotAbsolute),
    Row("a host alone", line("GET a.example HTTP/1.1"), refused: .targetNotAbsolute),
    Row("a host and a port without CONNECT", line("GET a.example:443 HTTP/1.1"), refused: .targetNotAbsolute),
    Row("a scheme and one slash", line("GET http:/a.example/ HTTP/1.1"), refused: .targetNotAbsolute),
    Row("a scheme without a name", line("GET ://a.example/ HTTP/1.1"), refused: .targetNotAbsolute),
    Row("a scheme and nothing else", line("GET http: HTTP/1.1"), refused: .targetNotAbsolute),
    Row("an asterisk without OPTIONS", line("GET * HTTP/1.1"), refused: .badTarget),
    Row("two asterisks", line("OPTIONS ** HTTP/1.1"), refused: .targetNotAbsolute),
    Row("ftp", line("GET ftp://a.example/ HTTP/1.1"), refused: .unsupportedScheme),
    Row("ws", line("GET ws://a.example/ HTTP/1.1"), refused: .unsupportedScheme),
    Row("httpx", line("GET httpx://a.example/ HTTP/1.1"), refused: .unsupportedScheme),
    // The authority.
    Row("user information", line("GET http://u@a.example/ HTTP/1.1"), refused: .userInformationInTarget),
    Row("user and password", line("GET http://u:p@a.example/ HTTP/1.1"), refused: .userInformationInTarget),
    Row("an empty user", line("GET http://@a.example/ HTTP/1.1"), refused: .userInformationInTarget),
    Row(
      "user information in CONNECT", line("CONNECT u:p@a.example:443 HTTP/1.1"),
      refused: .userInformationInTarget),
    Row("no host", line("GET http:/// HTTP/1.1"), refused: .badHost),
    Row("a scheme and slashes alone", line("GET http:// HTTP/1.1"), refused: .badHost),
    Row("a port and no host", line("GET http://:80/ HTTP/1.1"), refused: .badHost),
    Row("a percent sign in the host", line("GET http://a%2eexample/ HTTP/1.1"), refused: .badHost),
    Row("a comma in the host", line("GET http://a,b/ HTTP/1.1"), refused: .badHost),
    Row("an open bracket", line("GET http://[::1/ HTTP/1.1"), refused: .badHost),
    Row("nothing between brackets", line("GET http://[]/ HTTP/1.1"), refused: .badHost),
    Row("a name between brackets", line("GET http://[a.example]/ HTTP/1.1"), refused: .badHost),
    Row("a zone", line("GET http://[fe80::1%25eth0]/ HTTP/1.1"), refused: .badHost),
    Row("something behind the bracket", line("GET http://[::1]x/ HTTP/1.1"), refused: .badHost),
    Row("port zero", line("GET http://a.example:0/ HTTP/1.1"), refused: .badPort),
    Row("a port beyond 65535", line("GET http://a.example:65536/ HTTP/1.1"), refused: .badPort),
    Row("a port of six digits", line("GET http://a.example:000080/ HTTP/1.1"), refused: .badPort),
    Row("a port with a sign", line("GET http://a.example:+80/ HTTP/1.1"), refused: .badPort),
    Row("two ports", line("GET http://a.example:80:80/ HTTP/1.1"), refused: .badPort),
    Row("a tunnel without a port", line("CONNECT a.example HTTP/1.1"), refused: .missingPort),
    Row("a tunnel with an empty port", line("CONNECT a.example: HTTP/1.1"), refused: .missingPort),
    Row("a tunnel with a URL", line("CONNECT http://a.example:443/ HTTP/1.1"), refused: .badPort),
    Row("a tunnel with a path", line("CONNECT a.example:443/ HTTP/1.1"), refused: .badPort),
    Row("a tunnel to nothing", line("CONNECT :443 HTTP/1.1"), refused: .badHost),
    Row("a tunnel to an asterisk", line("CONNECT *:443 HTTP/1.1"), refused: .badHost),
    // The version.
    Row("HTTP/2.0", line("GET http://a.example/ HTTP/2.0"), refused: .unsupportedVersion),
    Row("HTTP/3.1", line("GET http://a.example/ HTTP/3.1"), refused: .unsupportedVersion),
    Row("HTTP/0.9", line("GET http://a.example/ HTTP/0.9"), refused: .unsupportedVersion),
    Row("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", refused: .unsupportedVersion),
    Row("HTTP/2.0 and a bare LF", "GET http://a.example/ HTTP/2.0\n\n", refused: .bareLineFeed),
    Row("a known method in small letters", line("get http://a.example/ HTTP/1.1"), refused: .methodCase),
    Row("a known method in some small letters", line("dElETE http://a.example/ HTTP/1.1"), refused: .methodCase),
    Row("CONNECT in small letters", line("connect a.example:443 HTTP/1.1"), refused: .methodCase),
    Row("HTTP/1.10", line("GET http://a.example/ HTTP/1.10"), refused: .badVersion),
    Row("HTTP/01.1", line("GET http://a.example/ HTTP/01.1"), refused: .badVersion),
    Row("http/1.1 in small letters", line("GET http://a.example/ http/1.1"), refused: .badVersion),
    Row("a version without a name", line("GET http://a.example/ 1.1"), refused: .badVersion),
    Row("HTTP/1", line("GET http://a.example/ HTTP/1"), refused: .badVersion),
    Row("HTTP/1,1", line("GET http://a.example/ HTTP/1,1"), refused: .badVersion),
    Row("no version behind the space", line("GET http://a.example/ "), refused: .badVersion),
    Row("a space behind the version", line("GET http://a.example/ HTTP/1.1 "), refused: .badVersion),
    Row("a fourth word", line("GET http://a.example/ HTTP/1.1 x"), refused: .badVersion),
    Row(
      "a bare LF behind the version", "GET http://a.example/ HTTP/1.1\nHost: a\r\n\r\n",
      refused: .bareLineFeed),
    Row(
      "a bare CR behind the version", "GET http://a.example/ HTTP/1.1\rHost: a\r\n\r\n",
      refused: .bareCarriageReturn),
    Row(
      "two CR behind the version", "GET http://a.example/ HTTP/1.1\r\r\n\r\n", refused: .bareCarriageReturn),
    Row("a NUL in the version", line("GET http://a.example/ HTTP/1.\u{0}"), refused: .controlCharacter),
    Row("a bare CR in the version", line("GET http://a.example/ HTTP\r/1.1"), refused: .bareCarriageReturn),
    Row("a line that ends in the version", line("GET http://a.example/ HTTP"), refused: .badVersion),
  ]

  static let refusedFields: [Row] = [
    Row("a folded field", get("X: a", " b"), refused: .obsoleteLineFolding),
    Row("a field folded with a tab", get("X: a", "\tb"), refused: .obsoleteLineFolding),
    Row(
      "a first line that is folded", "GET http://a.example/ HTTP/1.1\r\n Host: a\r\n\r\n",
      refused: .obsoleteLineFolding),
    Row("a space before the colon", get("X : a"), refused: .spaceBeforeColon),
    Row("a tab before the colon", get("X\t: a"), refused: .spaceBeforeColon),
    Row("a space before the colon of Content-Length", post("Content-Length : 5"), refused: .spaceBeforeColon),
    Row("a space within a name", get("X Y: a"), refused: .spaceBeforeColon),
    Row("no colon", get("X"), refused: .badFieldName),
    Row("no name", get(": a"), refused: .badFieldName),
    Row("a name in quotes", get("\"X\": a"), refused: .badFieldName),
    Row("a name above ASCII", get("X\u{e9}: a"), refused: .badFieldName),
    Row("a name with a slash", get("X/Y: a"), refused: .badFieldName),
    Row("a NUL in a name", get("X\u{0}: a"), refused: .controlCharacter),
    Row("a bare LF in a name", get("X\nY: a"), refused: .bareLineFeed),
    Row("a bare CR in a name", get("X\rY: a"), refused: .bareCarriageReturn),
    Row("a NUL in a value", get("X: a\u{0}b"), refused: .controlCharacter),
    Row("a NUL at the end of a value", get("X: a\u{0}"), refused: .controlCharacter),
    Row("an ESC in a value", get("X: \u{1b}[2J"), refused: .controlCharacter),
    Row("a DEL in a value", get("X: \u{7f}"), refused: .controlCharacter),
    Row("a bare LF behind a value", get("X: a\nY: b"), refused: .bareLineFeed),
    Row("a bare CR in a value", get("X: a\rb"), refused: .bareCarriageReturn),
    Row("CR CR LF behind a value", get("X: a\r"), refused: .bareCarriageReturn),
    Row(
      "a bare LF as the empty line", "GET http://a.example/ HTTP/1.1\r\nHost: a\r\n\nx",
      refused: .bareLineFeed),
    Row(
      "a bare CR as the empty line", "GET http://a.example/ HTTP/1.1\r\nHost: a\r\n\rx",
      refused: .bareCarriageReturn),
    Row(
      "a Connection that names Content-Length", post("Content-Length: 5", "Connection: x, content-length"),
      refused: .connectionNamesContent),
    Row(
      "a Connection that names Transfer-Encoding",
      post("Connection: Transfer-Encoding", "Transfer-Encoding: chunked"),
      refused: .connectionNamesContent),
    Row(
      "a Connection that names Host", get("Connection: close", "Connection: HOST"),
      refused: .connectionNamesContent),
    // Host.
    Row("no Host", "GET http://a.example/ HTTP/1.1\r\n\r\n", refused: .missingHost),
    Row("no Host in CONNECT of HTTP/1.1", "CONNECT a.example:443 HTTP/1.1\r\n\r\n", refused: .missingHost),
    Row("two Hosts", get("Host: a.example"), refused: .severalHosts),
    Row("two Hosts that differ", get("HOST: b.example"), refused: .severalHosts),
    Row(
      "two Hosts in HTTP/1.0", "GET http://a.example/ HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
      refused: .severalHosts),
    Row("an empty Host", "GET http://a.example/ HTTP/1.1\r\nHost:\r\n\r\n", refused: .malformedHostField),
    Row(
      "a Host with a path", "GET http://a.example/ HTTP/1.1\r\nHost: a/b\r\n\r\n",
      refused: .malformedHostField),
    Row(
      "a Host with a user", "GET http://a.example/ HTTP/1.1\r\nHost: u@a\r\n\r\n",
      refused: .malformedHostField),
    Row(
      "a Host that is a list", "GET http://a.example/ HTTP/1.1\r\nHost: a, b\r\n\r\n",
      refused: .malformedHostField),
    Row(
      "a Host with a space", "GET http://a.example/ HTTP/1.1\r\nHost: a b\r\n\r\n",
      refused: .malformedHostField),
    Row(
      "a Host with a bad port", "GET http://a.example/ HTTP/1.1\r\nHost: a:x\r\n\r\n",
      refused: .malformedHostField),
    Row(
      "a Host above ASCII", "GET http://a.example/ HTTP/1.1\r\nHost: \u{e9}\r\n\r\n",
      refused: .malformedHostField),
    Row(
      "a malformed Host in HTTP/1.0", "GET http://a/ HTTP/1.0\r\nHost: @\r\n\r\n",
      refused: .malformedHostField),
    Row(
      "a malformed Host of a tunnel", "CONNECT a:1 HTTP/1.1\r\nHost: [\r\n\r\n", refused: .malformedHostField),
    // Framing.
    Row(
      "length and chunks", post("Content-Length: 5", "Transfer-Encoding: chunked"),
      refused: .lengthWithTransferEncoding),
    Row(
      "chunks and length", post("Transfer-Encoding: chunked", "Content-Length: 5"),
      refused: .lengthWithTransferEncoding),
    Row("an empty length", post("Content-Length:"), refused: .malformedContentLength),
    Row("a length with a sign", post("Content-Length: +5"), refused: .malformedContentLength),
    Row("a negative length", post("Content-Length: -5"), refused: .malformedContentLength),
    Row("a hexadecimal length", post("Content-Length: 0x5"), refused: .malformedContentLength),
    Row("a length with a point", post("Content-Length: 5.0"), refused: .malformedContentLength),
    Row("a length with a space", post("Content-Length: 5 5"), refused: .malformedContentLength),
    Row("a length that is a list of equals", post("Content-Length: 5, 5"), refused: .malformedContentLength),
    Row("a length of 2^63", post("Content-Length: 9223372036854775808"), refused: .malformedContentLength),
    Row(
      "a length of 2^64 + 5", post("Content-Length: 18446744073709551621"), refused: .malformedContentLength),
    Row(
      "a length of 20 digits", post("Content-Length: 00000000000000000005"), refused: .malformedContentLength),
    Row(
      "a second length that is malformed", post("Content-Length: 5", "Content-Length: x"),
      refused: .malformedContentLength),
    Row(
      "two lengths that differ", post("Content-Length: 5", "Content-Length: 6"),
      refused: .differingContentLengths),
    Row("gzip", post("Transfer-Encoding: gzip"), refused: .badTransferEncoding),
    Row("gzip in chunks", post("Transfer-Encoding: gzip, chunked"), refused: .badTransferEncoding),
    Row("identity", post("Transfer-Encoding: identity"), refused: .badTransferEncoding),
    Row("an empty coding", post("Transfer-Encoding:"), refused: .badTransferEncoding),
    Row("chunked in quotes", post("Transfer-Encoding: \"chunked\""), refused: .badTransferEncoding),
    Row("chunked with a parameter", post("Transfer-Encoding: chunked;q=1"), refused: .badTransferEncoding),
    Row("a list with an empty element", post("Transfer-Encoding: ,chunked"), refused: .badTransferEncoding),
    Row("xchunked", post("Transfer-Encoding: xchunked"), refused: .badTransferEncoding),
    Row("chunked and a vertical tab", post("Transfer-Encoding: \u{b}chunked"), refused: .controlCharacter),
    Row(
      "chunked twice", post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
      refused: .badTransferEncoding),
    Row(
      "chunked, then identity", post("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
      refused: .badTransferEncoding),
    Row(
      "chunks in HTTP/1.0", post("Transfer-Encoding: chunked", version: "1.0"),
      refused: .transferEncodingInHTTP10),
    Row(
      "a tunnel with a body", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n",
      refused: .bodyNotAllowed),
    Row(
      "a tunnel with chunks", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
      refused: .bodyNotAllowed),
    Row(
      "TRACE with a body", "TRACE http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n",
      refused: .bodyNotAllowed),
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
  @Test(arguments: refusedLines) func isRefusedForItsLine(row: Row) { examine(row) { readRequest($0) } }
  @Test(arguments: refusedFields) func isRefusedForItsFields(row: Row) { examine(row) { readRequest($0) } }

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
    for row in Self.refusedLines + Self.refusedFields
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
      Self.accepted + Self.refusedLines + Self.accepted.reversed() + Self.refusedFields + Self.accepted
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

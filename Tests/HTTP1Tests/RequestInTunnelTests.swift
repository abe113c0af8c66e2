// Request heads inside a tunnel that the proxy reads, where it plays the part of the origin server (RFC 9112, 3.2.1).

import Bytes
import TestSupport
import Testing

@testable import HTTP1

@Suite struct RequestInTunnelTests {
  static let rows: [Row] = [
    Row(
      "origin-form", line("GET /p/q?r=s HTTP/1.1"), "GET inside a.example - '/p/q' '/p/q?r=s' 1.1 no body, keeps"),
    Row("the root", line("GET / HTTP/1.1"), "GET inside a.example - '/' '/' 1.1 no body, keeps"),
    Row(
      "a port in Host", "GET / HTTP/1.1\r\nHost: a.example:8443\r\n\r\n",
      "GET inside a.example 8443 '/' '/' 1.1 no body, keeps"),
    Row("HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", "GET inside  - '/' '/' 1.0 no body, closes"),
    Row(
      "absolute-form, which every server takes", line("GET https://a.example/p HTTP/1.1"),
      "GET https a.example - '/p' '/p' 1.1 no body, keeps"),
    Row("the server as a whole", line("OPTIONS * HTTP/1.1"), "OPTIONS * 1.1 no body, keeps"),
    Row("a tunnel in the tunnel", line("CONNECT a.example:443 HTTP/1.1"), refused: .connectInTunnel),
    Row("a backslash in the path", line("GET /a\\b HTTP/1.1"), refused: .badTarget),
    Row("no Host", "GET / HTTP/1.1\r\n\r\n", refused: .missingHost),
    Row("two Hosts", "GET / HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n", refused: .severalHosts),
    Row("an empty Host", "GET / HTTP/1.1\r\nHost: \r\n\r\n", refused: .malformedHostField),
    Row("a name alone", line("GET a.example HTTP/1.1"), refused: .targetNotAbsolute),
  ]

  @Test(arguments: rows) func isRead(row: Row) { examine(row) { readRequest($0, isInTunnel: true) } }

  @Test func outsideOriginFormIsRefused() {
    let bytes = octets(line("GET / HTTP/1.1"))
    #expect(readRequest(bytes.span) == .refused(.targetNotAbsolute))
  }
}

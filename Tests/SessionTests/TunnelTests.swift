// Tunnels, by CONNECT and by Upgrade: how they begin, what moves in them, and how they end.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct TunnelTests {
  // MARK: Tunnels

  @Test func aTunnel() {
    play(
      .client(connect), .opened, .client("\u{16}\u{3}\u{1}"), .upstream("\u{16}\u{3}\u{3}"),
      .client("GET / HTTP/1.1\r\n\r\n"), .upstream("HTTP/1.1 400 x\r\n\r\n"), .upstreamEnds, .clientEnds,
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        > raw: \x16\x03\x01
        < raw: \x16\x03\x03
        > raw: GET / HTTP/1.1\r\n\r\n
        < raw: HTTP/1.1 400 x\r\n\r\n
        the client is told that no more will come
        end (200): client close, upstream closed
        """#)
  }

  @Test func bytesBehindTheHeadOfATunnelAreItsFirst() {
    play(
      .client(connect + "\u{16}\u{3}\u{1}hello"), .opened, .upstream("x"),
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        > raw: \x16\x03\x01hello
        < raw: x
        """#)
  }

  @Test func aTunnelOfHTTP10WithoutHost() {
    play(
      .client("CONNECT a.example:443 HTTP/1.0\r\n\r\nx"), .opened, .upstream("y"),
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        > raw: x
        < raw: y
        """#)
  }

  @Test func aTunnelThatTheClientEndsFirst() {
    play(
      .client(connect), .opened, .client("all"), .clientEnds, .upstream("the rest"), .upstreamEnds,
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        > raw: all
        the upstream is told that no more will come
        < raw: the rest
        end (200): client close, upstream closed
        """#)
  }

  @Test func aTunnelWhoseClientEndedBeforeItWasThere() {
    play(
      .client(connect + "hello"), .clientEnds, .opened, .pass(100_000), .upstream("the answer"),
      .upstreamEnds,
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        > raw: hello
        the upstream is told that no more will come
        < raw: the answer
        end (200): client close, upstream closed
        """#)
  }

  @Test func aTunnelThatBreaks() {
    play(
      .client(connect), .opened, .upstream("x"), .upstreamBreaks,
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        < raw: x
        end (200 upstream-broke-off): client abort, upstream closed
        """#)
    play(
      .client(connect), .opened, .upstreamTakesNoMore, .client("lost"), .upstream("last words"),
      .upstreamBreaks,
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        < raw: last words
        end (200 upstream-broke-off): client abort, upstream closed
        """#)
    play(
      .client(connect), .opened, .clientBreaks,
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        end (200 client-left): client abort, upstream closed
        """#)
  }

  @Test func aTunnelThatIsIdle() {
    play(
      .client(connect), .opened, .pass(3_599_999), .client("x"), .timeOut,
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        > raw: x
        after 3600000 ms
        end (200 tunnel-idle): client abort, upstream closed
        """#)
  }

  @Test func theTimeOfARuleIsNoneOfATunnelThatIsThere() {
    play(
      .client(connect), .pass(4000), .opened, .pass(60_000), .client("x"), .timeOut,
      policy: policy("[defaults.request]\ntimeout = \"5s\""),
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        > raw: x
        after 3600000 ms
        end (200 tunnel-idle): client abort, upstream closed
        """#)
  }

  // MARK: Upgrade

  static let webSocket = head(
    "GET http://a.example/chat HTTP/1.1", "Host: a.example", "Connection: keep-alive, Upgrade",
    "Upgrade: WebSocket",
    "Sec-WebSocket-Key: dGhl", "Sec-WebSocket-Version: 13")
  static let switched = head(
    "HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
    "Sec-WebSocket-Accept: s3pP")

  @Test func aWebSocketBecomesATunnel() {
    play(
      .client(Self.webSocket), .opened, .upstream(Self.switched + "\u{81}\u{2}hi"),
      .client("\u{81}\u{82}mask.."),
      .upstream("\u{88}\u{0}"), .upstreamEnds, .client("\u{88}\u{80}mask"), .clientEnds,
      gives: #"""
        connect a.example:80
        > GET /chat HTTP/1.1 …
        > Sec-WebSocket-Key: dGhl
        > Sec-WebSocket-Version: 13
        > Connection: Upgrade
        > Upgrade: WebSocket
        < HTTP/1.1 101 Switching Protocols …
        < Sec-WebSocket-Accept: s3pP
        < Connection: Upgrade
        < Upgrade: websocket
        tunnel
        < raw: \x81\x02hi
        > raw: \x81\x82mask..
        < raw: \x88\x00
        the client is told that no more will come
        > raw: \x88\x80mask
        end (101): client close, upstream closed
        """#)
  }

  @Test func aWebSocketThatTheOriginRefusesIsAResponse() {
    play(
      .client(Self.webSocket), .opened, .upstream(ok), .client(get), .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET /chat HTTP/1.1 …
        > Sec-WebSocket-Key: dGhl
        > Sec-WebSocket-Version: 13
        > Connection: Upgrade
        > Upgrade: WebSocket
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < Connection: keep-alive
        < content: ok
        end (200): client keep, upstream kept
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aWebSocketIsNotTriedTwice() {
    play(
      .client(Self.webSocket), .reused, .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /chat HTTP/1.1 …
        > Sec-WebSocket-Key: dGhl
        > Sec-WebSocket-Version: 13
        > Connection: Upgrade
        > Upgrade: WebSocket
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < problem: http://a.example/chat closed a kept connection before the head of a response was
             complete.
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func anyOneProtocolIsRelayed() {
    play(
      .client(
        head(
          "GET http://a.example/ HTTP/1.1", "Host: a.example", "Connection: Upgrade, TE", "TE: trailers",
          "Upgrade: my-Proto/1.0")), .opened,
      .upstream(head("HTTP/1.1 101 Go", "Connection: Upgrade", "Upgrade: my-Proto/1.0") + "x"), .client("y"),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        > TE: trailers
        > Connection: TE, Upgrade
        > Upgrade: my-Proto/1.0
        < HTTP/1.1 101 Go …
        < Connection: Upgrade
        < Upgrade: my-Proto/1.0
        tunnel
        < raw: x
        > raw: y
        """#)
  }

  @Test(arguments: [
    "h2c", "h2", "h2-14", "h3", "H3-29", "hq", "spdy/3.1", "HTTP/2.0", "TLS/1.2", "websocket, h2c", "websocket, foo",
    "web socket", "", "\"x\"",
  ])
  func aProtocolThatIsNotRelayedIsNotAskedFor(name: String) {
    let stage = Stage(plainPolicy, .whole)
    let transcript = stage.play([
      .client(
        head("GET http://a.example/ HTTP/1.1", "Host: a.example", "Connection: Upgrade", "Upgrade: \(name)")),
      .opened, .upstream(head("HTTP/1.1 101 Go", "Connection: Upgrade", "Upgrade: \(name)") + "x"),
    ])
    #expect(!transcript.contains("> Upgrade"), "\(transcript)")
    #expect(!transcript.contains("> Connection"), "\(transcript)")
    #expect(transcript.contains("< HTTP/1.1 502 malformed-response"), "\(transcript)")
    #expect(stage.faults.isEmpty, "\(stage.faults)")
  }

  @Test func otherProtocolsAreNotAskedFor() {
    play(
      .client(
        head("GET http://a.example/ HTTP/1.1", "Host: a.example", "Connection: Upgrade", "Upgrade: h2c")),
      .opened,
      .upstream(head("HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: h2c") + "x"),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 502 malformed-response ref=REF001 …
        < Connection: close
        < problem: The response of http://a.example/ switches protocols, which was not asked for.
        end (502 malformed-response): client linger, upstream closed
        """#)
  }

  @Test func anUpgradeThatConnectionDoesNotNameIsNone() {
    play(
      .client(head("GET http://a.example/ HTTP/1.1", "Host: a.example", "Upgrade: websocket")), .opened,
      .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func anHTTP10ClientCannotUpgrade() {
    play(
      .client(head("GET http://a.example/ HTTP/1.0", "Connection: upgrade", "Upgrade: websocket")), .opened,
      .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1
        > Host: a.example
        > Via: 1.0 sallyport (7F3K2A9Q)
        >
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < Connection: close
        < content: ok
        end (200): client close, upstream kept
        """#)
  }

  @Test(arguments: [
    Wire(head("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket")),
    Wire(head("HTTP/1.1 101 Switching Protocols", "Connection: upgrade")),
    Wire(head("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: h2c")),
  ]) func aSwitchThatWasNotAskedForIsRefused(wire: Wire) {
    for split in Split.usual {
      let stage = Stage(plainPolicy, split)
      let transcript = stage.play([.client(Self.webSocket), .opened, .upstream(wire.text)])
      #expect(transcript.contains("< HTTP/1.1 502 malformed-response"), "\(split)\n\(transcript)")
      #expect(!transcript.contains("tunnel"), "\(split)\n\(transcript)")
      #expect(stage.faults.isEmpty, "\(split): \(stage.faults)")
    }
  }

  @Test func aWebSocketWithABodyDoesNotSwitchWithinIt() {
    let stage = Stage(plainPolicy, .whole)
    let transcript = stage.play([
      .client(
        head(
          "POST http://a.example/ HTTP/1.1", "Host: a.example", "Connection: upgrade", "Upgrade: websocket",
          "Content-Length: 9") + "part"), .opened, .upstream(Self.switched), .client("more"),
    ])
    #expect(stage.faults.isEmpty, "\(stage.faults)\n\(transcript)")
  }
}

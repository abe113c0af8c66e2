// The way of a request: what leaves for the origin, and what is refused. How it is decided: RequestDecisionTests.

import TestSupport
import Testing

@testable import Session

@Suite struct RequestPathTests {
  // MARK: What leaves for the origin

  @Test func aRequestLeavesInOriginFormWithHostAndVia() {
    play(
      .client(head("GET http://A.Example:8080/p?q=1 HTTP/1.1", "Host: b.example", "Accept: */*")), .opened,
      .upstream(ok),
      gives: #"""
        connect a.example:8080
        > GET /p?q=1 HTTP/1.1 to A.Example:8080 …
        > Accept: */*
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aTargetWithoutAPathIsASlash() {
    play(
      .client(head("GET http://a.example HTTP/1.1", "Host: a.example")), .opened, .upstream(ok),
      .client(head("GET http://a.example?q HTTP/1.1", "Host: a.example")), .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect a.example:80
        > GET /?q HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func fieldsOfTheHopStay() {
    play(
      .client(
        head(
          "GET http://a.example/ HTTP/1.1", "Host: a.example", "Connection: x-mine, keep-alive", "X-Mine: 1",
          "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "Proxy-Authorization: Basic eDp5",
          "X-Other:  2 ",
          "Upgrade: h2c", "TE: trailers")), .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        > X-Other:  2 
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < Connection: keep-alive
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func trailersAreAskedForWhereTheClientAsks() {
    play(
      .client(
        head(
          "GET http://a.example/ HTTP/1.1", "Host: a.example", "Connection: TE", "TE: gzip;q=0.5, Trailers")),
      .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        > TE: trailers
        > Connection: TE
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func otherCodingsAreNotAskedFor() {
    play(
      .client(head("GET http://a.example/ HTTP/1.1", "Host: a.example", "Connection: TE", "TE: gzip")),
      .opened,
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

  @Test func viaIsAppendedToWhatIsThere() {
    play(
      .client(head("GET http://a.example/ HTTP/1.1", "Host: a.example", "Via: 1.0 fred, 1.1 p.example")),
      .opened,
      .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        > Via: 1.0 fred, 1.1 p.example
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func anHTTP10RequestLeavesAsHTTP11() {
    play(
      .client("GET http://a.example/ HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"), .opened, .upstream(ok),
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

  @Test func anIPv6HostKeepsItsBrackets() {
    play(
      .client(head("GET http://[2001:DB8::1]:81/ HTTP/1.1", "Host: x")), .opened, .upstream(ok),
      gives: #"""
        connect 2001:db8::1:81
        > GET / HTTP/1.1 to [2001:DB8::1]:81 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func anEmptyLineBeforeARequestIsPassedOver() {
    play(
      .client("\r\n" + get), .opened, .upstream(ok), .client("\r\n" + get), .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
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

  // MARK: Bodies

  @Test func aBodyOfKnownLength() {
    play(
      .client(head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5") + "hello"),
      .opened,
      .upstream(ok),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > content: hello
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aBodyThatComesOnceTheUpstreamIsThere() {
    play(
      .client(head("PUT http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5")), .opened,
      .client("he"), .client("llo"), .upstream(ok),
      gives: #"""
        connect a.example:80
        > PUT / HTTP/1.1 …
        > Content-Length: 5
        > content: hello
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aBodyOfNothing() {
    play(
      .client(head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 0")), .opened,
      .upstream(ok),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 0
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func theSameLengthTwiceLeavesOnce() {
    play(
      .client(
        head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5", "Content-Length: 5")
          + "hello"), .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > content: hello
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aConnectionFieldThatWouldTakeTheLengthAwayIsRefused() {
    play(
      .client(
        head(
          "POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5",
          "Connection: Content-Length")
          + "GET /"),
      gives: #"""
        < HTTP/1.1 400 malformed-request ref=REF001 …
        < Connection: close
        < problem: The request names a field in its Connection field that is meant for every recipient,
             such as Host, Content-Type or Cookie.
        end (400 malformed-request): client linger
        """#)
  }

  @Test func chunksWithExtensionsAndTrailers() {
    play(
      .client(
        head(
          "POST http://a.example/ HTTP/1.1", "Host: a.example", "Trailer: X-Sum",
          "Transfer-Encoding: Chunked",
          "X-Last: 1")
          + "5;ext=1\r\nhello\r\n006\r\n world\r\n0\r\nX-Sum: 7\r\nKeep-Alive: 1\r\n\r\n"), .opened,
      .upstream(ok),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Trailer: X-Sum
        > X-Last: 1
        > Transfer-Encoding: chunked
        > chunked: hello world
        > last chunk
        > trailer X-Sum: 7
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func chunksOfNothing() {
    play(
      .client(
        head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + "0\r\n\r\n"
      ),
      .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Transfer-Encoding: chunked
        > last chunk
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  // MARK: Refused at once

  @Test func aMalformedRequestIsAnsweredAndTheConnectionClosed() {
    play(
      .client(head("GET /x HTTP/1.1", "Host: a.example") + get),
      gives: #"""
        < HTTP/1.1 400 malformed-request ref=REF001 …
        < Connection: close
        < problem: The request has a target that is not absolute; a proxy expects http://host/path, or
             host:port for CONNECT.
        end (400 malformed-request): client linger
        """#)
  }

  @Test(arguments: [
    Wire(head("GET http://a.example/ HTTP/1.1", "Host : a.example")),
    Wire(
      head("GET http://a.example/ HTTP/1.1", "Host: a", "Content-Length: 1", "Transfer-Encoding: chunked")
        + "1"),
    Wire(head("GET http://a.example/ HTTP/1.1", "Host: a", "Transfer-Encoding: gzip")),
    Wire("\u{0}"),
    Wire("GET\rhttp://a.example/"),
    Wire(head("GET http://u:p@a.example/ HTTP/1.1", "Host: a")),
    Wire(head("GET http://a.example/ HTTP/1.1", "X: \u{0}")),
    Wire(head("GET http://a.example/ HTTP/1.1")),
    Wire(head("GET http://0x7f.1/ HTTP/1.1", "Host: a")),
    Wire(head("GET http://2130706433/ HTTP/1.1", "Host: a")),
    Wire(head("GET http://a..b/ HTTP/1.1", "Host: a")),
    Wire(head("GET http://[::1::]/ HTTP/1.1", "Host: a")),
    Wire(head("CONNECT 127.1:443 HTTP/1.1", "Host: a")),
  ]) func whatIsMalformedIsAnswered400AndNothingLeaves(wire: Wire) {
    for split in [Split.whole, .bytewise, .random(seed: 5, longest: 9)] {
      for tail in ["", get, "\r\n\r\n", "\u{0}"] {
        let stage = Stage(plainPolicy, split)
        let transcript = stage.play([.client(wire.text + tail)])
        #expect(
          transcript.contains("< HTTP/1.1 400 malformed-request ref=REF001\n"), "\(split)\n\(transcript)")
        #expect(stage.faults.isEmpty, "\(split): \(stage.faults)")
        #expect(!transcript.contains("connect "), "\(split)\n\(transcript)")
      }
    }
  }

  @Test func aHeadThatIsTooLargeIsAnswered431() {
    let policy = policy(
      """
      [proxy.limits]
      header_bytes = "1KiB"
      headers = 5
      """)
    play(
      .client("GET http://a.example/" + String(repeating: "x", count: 1100)), policy: policy,
      gives: #"""
        < HTTP/1.1 431 head-too-large ref=REF001 …
        < Connection: close
        < problem: The request has a head or trailer section larger than limits.header_bytes.
        end (431 head-too-large): client linger
        """#)
    play(
      .client(head("GET http://a.example/ HTTP/1.1", "Host: a", "A: 1", "B: 2", "C: 3", "D: 4", "E: 5")),
      policy: policy,
      gives: #"""
        < HTTP/1.1 431 head-too-large ref=REF001 …
        < Connection: close
        < problem: The request has more fields than limits.headers.
        end (431 head-too-large): client linger
        """#)
  }

  @Test func httpsTargetsAreAskedForUnderTLS() {
    play(
      .client(head("GET https://a.example/x HTTP/1.1", "Host: a.example")), .opened, .upstream(ok),
      gives: #"""
        connect a.example:443 under TLS
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept, assurance exact
        """#)
  }

  @Test func otherSchemesAreAnswered400() {
    play(
      .client(head("GET ftp://a.example/ HTTP/1.1", "Host: a.example")),
      gives: #"""
        < HTTP/1.1 400 malformed-request ref=REF001 …
        < Connection: close
        < problem: The request has a target whose scheme is not http.
        end (400 malformed-request): client linger
        """#)
  }

  // MARK: Bodies that turn out bad

  @Test func aBadChunkIsAnsweredAndTheOriginNeverSeesAWholeRequest() {
    play(
      .client(
        head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked")
          + "5\r\nhello\r\n0x3\r\nabc\r\n0\r\n\r\n" + get), .opened, comparing: .client,
      gives: #"""
        connect a.example:80
        < HTTP/1.1 400 malformed-request ref=REF001 …
        < Connection: close
        < problem: The body of the request has a chunk size that is not plain hexadecimal digits.
        end (400 malformed-request): client linger, upstream closed
        """#)
  }

  @Test func aBadTrailerIsAnswered() {
    play(
      .client(
        head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked")
          + "0\r\nContent-Length: 3\r\n\r\n"), .opened, comparing: .client,
      gives: #"""
        connect a.example:80
        < HTTP/1.1 400 malformed-request ref=REF001 …
        < Connection: close
        < problem: The body of the request has a trailer field that frames or routes messages.
        end (400 malformed-request): client linger, upstream closed
        """#)
  }

  @Test func tooManyTrailersAreAnswered431() {
    play(
      .client(
        head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked")
          + "0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n"), .opened, policy: policy("[proxy.limits]\nheaders = 2"),
      comparing: .client,
      gives: #"""
        connect a.example:80
        < HTTP/1.1 431 head-too-large ref=REF001 …
        < Connection: close
        < problem: The body of the request has more fields than limits.headers.
        end (431 head-too-large): client linger, upstream closed
        """#)
  }

  @Test func aBadChunkBehindAResponseThatHasBegunBreaksOff() {
    play(
      .client(
        head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked")
          + "1\r\na\r\n"),
      .opened, .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 9") + "begun"), .client("x"),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Transfer-Encoding: chunked
        > chunked: a
        < HTTP/1.1 200 OK …
        < Content-Length: 9
        < Connection: close
        < content: begun
        end (200 malformed-body): client cut, upstream closed within the request
        """#)
  }
}

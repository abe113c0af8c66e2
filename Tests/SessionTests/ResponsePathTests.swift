// The way of a response: its framing, what comes before it, and what becomes of one that is malformed or cut short.

import TestSupport
import Testing

@testable import Session

@Suite struct ResponsePathTests {
  // MARK: Framing

  @Test func aHEADResponseHasNoBody() {
    play(
      .client(head("HEAD http://a.example/ HTTP/1.1", "Host: a.example")), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 500")),
      .client(head("HEAD http://a.example/ HTTP/1.1", "Host: a.example")), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked")),
      .client(head("HEAD http://a.example/ HTTP/1.1", "Host: a.example")), .opened,
      .upstream(head("HTTP/1.1 404 Not Found", "Date: today")),
      gives: #"""
        connect a.example:80
        > HEAD / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 500
        end (200): client keep, upstream kept
        connect a.example:80
        > HEAD / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        end (200): client keep, upstream kept
        connect a.example:80
        > HEAD / HTTP/1.1 …
        < HTTP/1.1 404 Not Found …
        end (404): client keep, upstream kept
        """#)
  }

  @Test func noContentAndNotModifiedHaveNoBody() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 204 No Content", "Date: today", "Content-Length: 0")),
      .client(get), .opened,
      .upstream(head("HTTP/1.1 304 Not Modified", "Date: today", "Content-Length: 500", "ETag: \"x\"")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 204 No Content …
        end (204): client keep, upstream kept
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 304 Not Modified …
        < Content-Length: 500
        < ETag: "x"
        end (304): client keep, upstream kept
        """#)
  }

  @Test func aResponseOfNothing() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 0")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 0
        end (200): client keep, upstream kept
        """#)
  }

  @Test func chunksAndTrailersPass() {
    play(
      .client(get), .opened,
      .upstream(
        head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked", "Trailer: X-Sum")
          + "5;x=\"y\"\r\nhello\r\n6\r\n world\r\n0;z\r\nX-Sum: 1\r\nConnection: x\r\n\r\n"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Trailer: X-Sum
        < Transfer-Encoding: chunked
        < chunked: hello world
        < last chunk
        < trailer X-Sum: 1
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aBodyUntilCloseEndsTheClientsConnectionToo() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "Date: today") + "all of it"), .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Connection: close
        < content: all of it
        end (200): client close, upstream closed
        """#)
  }

  @Test func anEmptyBodyUntilClose() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "Date: today")), .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Connection: close
        end (200): client close, upstream closed
        """#)
  }

  @Test func aResponseWithoutADateGetsOne() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "Content-Length: 0")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK
        < Content-Length: 0
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Via: 1.1 sallyport
        <
        end (200): client keep, upstream kept
        """#)
  }

  @Test func theSameLengthTwiceLeavesOnce() {
    play(
      .client(get), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 2", "Content-Length: 2") + "ok"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func fieldsOfTheHopStay() {
    play(
      .client(get), .opened,
      .upstream(
        head(
          "HTTP/1.1 200 OK", "Date: today", "Connection: keep-alive, x-mine", "Keep-Alive: timeout=5",
          "X-Mine: 1",
          "Proxy-Authenticate: Basic", "Proxy-Connection: x", "Upgrade: h2c", "Via: 1.1 b", "Server:  s ",
          "Content-Length: 0")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Via: 1.1 b
        < Server:  s 
        < Content-Length: 0
        end (200): client keep, upstream kept
        """#)
  }

  @Test func theReasonPassesAsItIs() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 299 \u{e9} a  b", "Date: today", "Content-Length: 0")),
      .client(get), .opened, .upstream(head("HTTP/1.1 999 ", "Date: today", "Content-Length: 0")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 299 \xe9 a  b …
        < Content-Length: 0
        end (299): client keep, upstream kept
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 999  …
        < Content-Length: 0
        end (999): client keep, upstream kept
        """#)
  }

  // MARK: HTTP/1.0

  @Test func anHTTP10OriginClosesAndTheClientStays() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.0 200 OK", "Date: today", "Content-Length: 2") + "ok"),
      .client(get), .opened,
      .upstream(head("HTTP/1.0 200 OK", "Date: today", "Content-Length: 2", "Connection: keep-alive") + "ok"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK
        < Date: today
        < Content-Length: 2
        < Via: 1.0 sallyport
        <
        < content: ok
        end (200): client keep, upstream closed
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK
        < Date: today
        < Content-Length: 2
        < Via: 1.0 sallyport
        <
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  /// RFC 9110, 6.6.2: only what comes is announced.
  @Test func trailersThatARuleTakesOutAreNotAnnounced() {
    play(
      .client(head("GET http://a.example/x HTTP/1.1", "Host: a.example")), .opened,
      .upstream(
        head(
          "HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked", "Connection: x-hop",
          "Trailer: X-Sum, set-cookie", "Trailer: X-Hop") + "0\r\nX-Sum: 1\r\nSet-Cookie: a=b\r\nX-Hop: 1\r\n\r\n"),
      policy: policy("[[rule]]\nname = \"r\"\n[rule.request]\ncookies = false"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Trailer: X-Sum
        < Transfer-Encoding: chunked
        < last chunk
        < trailer X-Sum: 1
        end (200): client keep, upstream kept
        """#)
  }

  @Test func anHTTP10ClientGetsNoChunks() {
    play(
      .client("GET http://a.example/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), .opened,
      .upstream(
        head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked", "Trailer: X-Sum")
          + "5\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 1\r\n\r\n"),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1
        > Host: a.example
        > Via: 1.0 sallyport (7F3K2A9Q)
        >
        < HTTP/1.1 200 OK …
        < Connection: close
        < content: hello!
        end (200): client close, upstream kept
        """#)
  }

  @Test func anHTTP10ClientIsNotKeptThoughItAsks() {
    play(
      .client("GET http://a.example/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), .opened, .upstream(ok),
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

  @Test func anHTTP10ClientGetsNoInterimResponse() {
    play(
      .client("GET http://a.example/ HTTP/1.0\r\n\r\n"), .opened,
      .upstream(head("HTTP/1.1 103 Early Hints", "Link: </a>") + ok),
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

  // MARK: Before the response

  @Test func interimResponsesPass() {
    play(
      .client(get), .opened,
      .upstream(
        head("HTTP/1.1 102 Processing", "Content-Length: 5")
          + head("HTTP/1.1 103 Early Hints", "Link: </a>", "Connection: x") + ok
      ),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 102 Processing …
        < HTTP/1.1 103 Early Hints …
        < Link: </a>
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aClientThatExpectsContinueIsToldByTheOrigin() {
    play(
      .client(
        head(
          "POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5", "Expect: 100-continue")),
      .opened, .upstream(head("HTTP/1.1 100 Continue")), .client("hello"), .upstream(ok),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > Expect: 100-continue
        < HTTP/1.1 100 Continue …
        > content: hello
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aClientThatExpectsContinueMayBeRefusedByTheOrigin() {
    play(
      .client(
        head(
          "POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5", "Expect: 100-continue")),
      .opened, .upstream(head("HTTP/1.1 417 Expectation Failed", "Date: today", "Content-Length: 0")),
      .timeOut,
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > Expect: 100-continue
        < HTTP/1.1 417 Expectation Failed …
        < Content-Length: 0
        end (417): client keep, upstream closed within the request
        after 300000 ms
        close
        """#)
  }

  /// As many at once as one head may be long, each counted as InformationalAllowance says.
  @Test func interimResponsesPassUntilTheyAreAFlood() {
    let cost = head("HTTP/1.1 102 Processing").utf8.count + InformationalAllowance.bytesOfEach
    let most = (64 << 10) / cost
    for (count, passes) in [(17, true), (most, true), (most + 1, false)] {
      let stage = Stage(plainPolicy, .whole)
      let interim = String(repeating: head("HTTP/1.1 102 Processing"), count: count)
      let transcript = stage.play([.client(get), .opened, .upstream(interim + ok)])
      #expect(transcript.contains("< HTTP/1.1 200 OK") == passes, "\(transcript)")
      #expect(transcript.contains("< HTTP/1.1 502 malformed-response ref=REF001") == !passes, "\(transcript)")
      #expect(stage.faults.isEmpty, "\(stage.faults)")
    }
  }

  @Test func anEarlyResponseEndsTheConnection() {
    play(
      .client(head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 500") + "begun"),
      .opened,
      .upstream(head("HTTP/1.1 413 Too Large", "Date: today", "Content-Length: 3") + "no!"), .client("more"),
      .timeOut,
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 500
        > content: begun
        < HTTP/1.1 413 Too Large …
        < Content-Length: 3
        < Connection: close
        < content: no!
        end (413): client linger, upstream closed within the request
        after 2000 ms
        close
        """#)
  }

  @Test func aResponseThatBeginsEarlyMayEndLate() {
    play(
      .client(head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5") + "he"),
      .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 5") + "HE"), .client("llo"),
      .upstream("LLO"),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > content: he
        < HTTP/1.1 200 OK …
        < Content-Length: 5
        < Connection: close
        < content: HE
        > content: llo
        < content: LLO
        end (200): client close, upstream kept
        """#)
  }

  @Test func anEarlyResponseInChunks() {
    play(
      .client(
        head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked")
          + "2\r\nhe\r\n"),
      .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked") + "2\r\nHE\r\n"),
      .client("3\r\nllo\r\n0\r\n\r\n"), .upstream("3\r\nLLO\r\n0\r\n\r\n"),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Transfer-Encoding: chunked
        > chunked: he
        < HTTP/1.1 200 OK …
        < Transfer-Encoding: chunked
        < Connection: close
        < chunked: HE
        > chunked: llo
        > last chunk
        < chunked: LLO
        < last chunk
        end (200): client close, upstream kept
        """#)
  }

  @Test func anUpstreamThatTakesNoMoreMayStillAnswer() {
    play(
      .client(head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 10") + "he"),
      .opened,
      .upstreamTakesNoMore, .client("llo"),
      .upstream(head("HTTP/1.1 413 Too Large", "Date: today", "Content-Length: 2") + "no"),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 10
        > content: he
        < HTTP/1.1 413 Too Large …
        < Content-Length: 2
        < Connection: close
        < content: no
        end (413): client linger, upstream closed within the request
        """#)
  }

  @Test func anUpstreamThatTakesNoMoreMayAnswerOnceTheBodyIsThrough() {
    play(
      .client(
        head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + "1\r\na"),
      .opened, .upstreamTakesNoMore, .client("\r\n0\r\n\r\n"), .upstream(ok), .client(get), .opened,
      .upstream(ok),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Transfer-Encoding: chunked
        > chunked: a
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream closed within the request
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  // MARK: Malformed

  /// No head is mended.
  private static let rejecting = policy("[defaults.response]\nmalformed = \"reject\"")

  @Test(arguments: [
    "HTTP/1.1 200\r\n\r\n",
    "HTTP/2 200 OK\r\n\r\n",
    "<html>",
    "HTTP/1.1 200 OK\nX: y\n\n",
    Wire(head("HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 2") + "a"),
    Wire(head("HTTP/1.1 200 OK", "Content-Length: 1", "Transfer-Encoding: chunked")),
    Wire(head("HTTP/1.1 200 OK", "Transfer-Encoding: gzip, chunked")),
    Wire(head("HTTP/1.1 200 OK", "Content-Length: -1")),
    Wire(head("HTTP/1.1 200 OK", "Content-Length: 2", "Connection: Content-Length") + "ok"),
    Wire(head("HTTP/1.1 200 OK", "X : y")),
    Wire(head("HTTP/1.1 200 OK", "X: \u{0}")),
    Wire(head("HTTP/1.1 200 OK", "X: a", " b")),
    Wire(head("HTTP/1.0 200 OK", "Transfer-Encoding: chunked")),
    Wire(head("HTTP/1.1 200 OK", "X: a\rb")),
    Wire(head("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: websocket")),
  ]) func whatIsMalformedIsAnswered502(wire: Wire) {
    for split in Split.usual {
      for tail in ["", ok, "\u{0}"] {
        let stage = Stage(Self.rejecting, split)
        let transcript = stage.play([
          .client(get), .opened, .upstream(wire.text + tail), .client(get), .timeOut,
        ])
        let expected = "< HTTP/1.1 502 malformed-response ref=REF001\n"
        #expect(transcript.contains(expected), "\(split)\n\(transcript)")
        #expect(transcript.contains("error=http_protocol_error"), "\(split)\n\(transcript)")
        #expect(
          transcript.contains("end (502 malformed-response): client linger, upstream closed"),
          "\(split)\n\(transcript)")
        #expect(stage.faults.isEmpty, "\(split): \(stage.faults)")
      }
    }
  }

  @Test func aHeadThatIsTooLargeIsAnswered502() {
    play(
      .client(get), .opened, .upstream("HTTP/1.1 200 " + String(repeating: "x", count: 1100)),
      policy: policy("[proxy.limits]\nheader_bytes = \"1KiB\""),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 response-head-too-large ref=REF001 …
        < Connection: close
        < problem: The response of http://a.example/x has a head or trailer section larger than
             limits.header_bytes.
        end (502 response-head-too-large): client linger, upstream closed
        """#)
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "A: 1", "B: 2", "C: 3")),
      policy: policy("[proxy.limits]\nheaders = 2"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 response-head-too-large ref=REF001 …
        < Connection: close
        < problem: The response of http://a.example/x has more fields than limits.headers.
        end (502 response-head-too-large): client linger, upstream closed
        """#)
  }

  /// The client is told where nothing has left yet; where something has, it is broken off. Never is the body completed.
  @Test(
    arguments: [
      "5\r\nhello\r\n+1\r\na\r\n0\r\n\r\n", "x", "5\r\nhello!\r\n0\r\n\r\n",
      "5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n",
      Wire("5\r\nhello\r\n0\r\nX: " + String(repeating: "x", count: 1200)),
    ] as [Wire]) func aBadBodyIsNeverCompleted(wire: Wire)
  {
    let policy = policy("[proxy.limits]\nheader_bytes = \"1KiB\"")
    let answer = wire.text.utf8.count > 1000 ? "502 response-head-too-large" : "502 malformed-response"
    for request in [get, "GET http://a.example/x HTTP/1.0\r\n\r\n"] {
      for split in Split.usual {
        let stage = Stage(policy, split)
        let begin = head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked")
        let transcript = stage.play([.client(request), .opened, .upstream(begin + wire.text)])
        if transcript.contains("< HTTP/1.1 200 OK") {
          #expect(
            transcript.contains("end (200 malformed-body): client cut, upstream closed")
              || transcript.contains("end (200 malformed-body): client abort, upstream closed"),
            "\(transcript)")
          #expect(!transcript.contains("last chunk"), "\(transcript)")
        } else {
          #expect(transcript.contains("< HTTP/1.1 \(answer) ref=REF001\n"), "\(split)\n\(transcript)")
          #expect(
            transcript.contains("end (\(answer)): client linger, upstream closed"), "\(split)\n\(transcript)")
        }
        #expect(stage.faults.isEmpty, "\(split): \(stage.faults)")
      }
    }
  }

  @Test func aBadBodyThatComesAfterItsHeadBreaksOff() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked")),
      .upstream("5\r\nhello\r\n"), .upstream("0x1\r\n"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Transfer-Encoding: chunked
        < chunked: hello
        end (200 malformed-body): client cut, upstream closed
        """#)
  }

  @Test func bytesBehindAResponseEndItsConnection() {
    for split in Split.usual {
      let stage = Stage(plainPolicy, split)
      let transcript = stage.play([.client(get), .opened, .upstream(ok + "HTTP/1.1 200 OK\r\n\r\n")])
      #expect(
        transcript.contains("< content: ok\nend (200): client keep, upstream "), "\(split)\n\(transcript)")
      if case .whole = split { #expect(transcript.contains("upstream closed"), "\(transcript)") }
      #expect(!transcript.contains("content: okH"), "\(split)\n\(transcript)")
      #expect(stage.faults.isEmpty, "\(split): \(stage.faults)")
    }
  }

  @Test(arguments: [
    Wire(head("HTTP/1.1 204 No Content") + "x"),
    Wire(head("HTTP/1.1 304 Not Modified", "Content-Length: 1") + "x"),
    Wire(head("HTTP/1.1 200 OK", "Content-Length: 0") + "x"),
    Wire(head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "0\r\n\r\nx"),
  ]) func bytesBehindAResponseWithoutContentEndItsConnection(wire: Wire) {
    let stage = Stage(plainPolicy, .whole)
    let transcript = stage.play([.client(get), .opened, .upstream(wire.text)])
    #expect(transcript.hasSuffix("client keep, upstream closed"), "\(transcript)")
    #expect(stage.faults.isEmpty, "\(stage.faults)")
  }

  // MARK: Cut short

  @Test func aResponseThatBreaksOffBreaksTheClientOff() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 5") + "he"),
      .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 5
        < content: he
        end (200 upstream-broke-off): client cut, upstream closed
        """#)
  }

  @Test func chunksThatBreakOffBreakTheClientOff() {
    play(
      .client(get), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked") + "2\r\nhe\r\n"),
      .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Transfer-Encoding: chunked
        < chunked: he
        end (200 upstream-broke-off): client cut, upstream closed
        """#)
  }

  @Test func chunksThatBreakOffBeforeTheirTrailersEndBreakTheClientOff() {
    play(
      .client(get), .opened,
      .upstream(
        head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked") + "2\r\nhe\r\n0\r\nX: y\r\n"),
      .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Transfer-Encoding: chunked
        < chunked: he
        end (200 upstream-broke-off): client cut, upstream closed
        """#)
  }

  @Test func aBodyUntilCloseThatIsResetBreaksTheClientOff() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "Date: today") + "part"), .upstreamBreaks,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Connection: close
        < content: part
        end (200 upstream-broke-off): client abort, upstream closed
        """#)
  }

  @Test func anUpstreamThatClosesWithoutAnAnswerIsAnswered502() {
    play(
      .client(get), .opened, .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < problem: http://a.example/x closed the connection before the head of a response was complete.
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func anUpstreamThatClosesWithinTheHeadIsAnswered502() {
    play(
      .client(get), .opened, .upstream("HTTP/1.1 200 O"), .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < problem: http://a.example/x closed the connection before the head of a response was complete.
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func anUpstreamThatIsResetIsAnswered502() {
    play(
      .client(get), .opened, .upstreamBreaks,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < problem: http://a.example/x closed the connection before the head of a response was complete.
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func anUpstreamThatClosesAfterAnInterimResponseIsAnswered502() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 102 Processing")), .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 102 Processing …
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < problem: http://a.example/x closed the connection before the head of a response was complete.
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func anUpstreamThatClosesWithinTheRequestBodyIsAnswered502() {
    play(
      .client(head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 9") + "part"),
      .opened,
      .upstreamEnds, .client("more"),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 9
        > content: part
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < Connection: close
        < problem: http://a.example/ closed the connection before the head of a response was complete.
        end (502 connection-closed): client linger, upstream closed within the request
        """#)
  }
}

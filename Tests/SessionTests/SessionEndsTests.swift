// How conversations end: by the client, by the clock, and with the proxy.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct SessionEndsTests {
  // MARK: Ends of the client

  @Test func aClientThatComesAndGoesIsClosed() { play(.clientEnds, gives: "close") }

  @Test func aClientThatLeavesBetweenRequestsIsClosed() {
    play(
      .client(get), .opened, .upstream(ok), .clientEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        close
        """#)
  }

  @Test func aHeadThatIsCutShortIsAnswered() {
    play(
      .client("GET http://a.example/ HT"), .clientEnds,
      gives: #"""
        < HTTP/1.1 400 malformed-request ref=REF001 …
        < Connection: close
        < problem: The request ends before it is complete.
        end (400 malformed-request): client linger
        """#)
  }

  @Test func aBodyThatIsCutShortIsAnswered() {
    play(
      .client(post + "he"), .opened, .clientEnds,
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > content: he
        < HTTP/1.1 400 malformed-request ref=REF001 …
        < Connection: close
        < problem: The request ends before it is complete.
        end (400 malformed-request): client linger, upstream closed within the request
        """#)
  }

  @Test func chunksThatAreCutShortAreAnswered() {
    play(
      .client(
        head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked")
          + "2\r\nhe\r\n0\r\n"),
      .opened, .clientEnds,
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Transfer-Encoding: chunked
        > chunked: he
        < HTTP/1.1 400 malformed-request ref=REF001 …
        < Connection: close
        < problem: The request ends before it is complete.
        end (400 malformed-request): client linger, upstream closed within the request
        """#)
  }

  @Test func aBodyThatIsCutShortWithinTheResponseBreaksOff() {
    play(
      .client(post + "he"), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 9") + "part"), .clientEnds,
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > content: he
        < HTTP/1.1 200 OK …
        < Content-Length: 9
        < Connection: close
        < content: part
        end (200 client-left): client abort, upstream closed within the request
        """#)
  }

  @Test func aClientThatSaysAllItHasToSayAndListensGetsItsAnswer() {
    play(
      .client(get), .clientEnds, .opened, .pass(900), .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        close
        """#)
  }

  @Test func aClientThatSaysAllItHasToSayGetsAnAnswerThatKeepsComing() {
    play(
      .client(get), .opened, .clientEnds, .pass(999),
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 5")), .pass(999), .upstream("he"),
      .pass(999),
      .upstream("llo"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 5
        < content: hello
        end (200): client keep, upstream kept
        close
        """#)
  }

  @Test func aClientThatSaysAllItHasToSayIsLetGoWhenTheAnswerStalls() {
    play(
      .client(get), .opened, .clientEnds,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked") + "2\r\nhe\r\n"),
      .pass(4999),
      .upstream("1\r\nl\r\n"), .timeOut,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Transfer-Encoding: chunked
        < chunked: hel
        after 5000 ms
        end (200 client-left): client abort, upstream closed
        """#)
  }

  @Test func aClientThatSaysAllItHasToSayIsNotWaitedForLong() {
    play(
      .client(get), .clientEnds, .opened, .timeOut,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        after 5000 ms
        end (0 client-left): client abort, upstream closed
        """#)
    play(
      .client(get), .clientEnds, .timeOut,
      gives: #"""
        connect a.example:80
        after 5000 ms
        end (0 client-left): client abort
        """#)
  }

  @Test func aClientThatBreaksEndsTheExchange() {
    play(
      .client(get), .clientBreaks,
      gives: #"""
        connect a.example:80
        end (0 client-left): client abort
        """#)
    play(
      .client(get), .opened, .clientBreaks,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        end (0 client-left): client abort, upstream closed
        """#)
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "Content-Length: 9")), .clientBreaks,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK
        < Content-Length: 9
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Via: 1.1 sallyport
        <
        end (200 client-left): client abort, upstream closed
        """#)
    play(
      .client("GET "), .clientBreaks,
      gives: #"""
        close
        """#)
    play(
      .clientBreaks,
      gives: #"""
        close
        """#)
  }

  @Test func pipelinedRequestsBehindAnEndAreAnswered() {
    play(
      .client(get + get), .clientEnds, .opened, .upstream(ok), .opened, .upstream(ok),
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
        close
        """#)
  }

  // MARK: Time

  static let times = policy(
    """
    [proxy.timeouts]
    client_header = "1s"
    client_idle = "2s"
    response_header = "3s"
    body_stall = "4s"
    tunnel_idle = "5s"
    """)

  /// It has the time of a head: it has no kept connection to be idle on.
  @Test func aClientThatSaysNothingIsClosed() {
    play(
      .timeOut, policy: Self.times,
      gives: #"""
        after 1000 ms
        close
        """#)
  }

  @Test func aClientThatSaysNothingMoreIsClosed() {
    play(
      .client(get), .opened, .pass(1500), .upstream(ok), .timeOut, policy: Self.times,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        after 2000 ms
        close
        """#)
  }

  @Test(arguments: ["\r", "\r\n"])
  func anEmptyLineBehindARequestBeginsNoOther(_ line: String) {
    play(
      .client(get), .opened, .upstream(ok), .client(line), .pass(1999), .timeOut, policy: Self.times,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        after 1 ms
        close
        """#)
  }

  @Test func aHeadThatIsSlowIsAnswered408() {
    play(
      .pass(900), .client("GET "), .pass(999), .client("http://"), .timeOut, policy: Self.times,
      gives: #"""
        after 1 ms
        < HTTP/1.1 408 slow-request ref=REF001 …
        < Connection: close
        < problem: The head of the request was not complete after 1000 ms.
        end (408 slow-request): client linger
        """#)
  }

  @Test func aConnectionUnderWayIsTheConnectorsToTime() {
    play(
      .client(get), .timeOut, policy: Self.times,
      gives: #"""
        connect a.example:80
        nothing is ever due
        """#)
  }

  @Test func anUpstreamThatDoesNotAnswerIsA504() {
    play(
      .client(get), .pass(100_000), .opened, .timeOut, policy: Self.times,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        after 3000 ms
        < HTTP/1.1 504 response-timeout ref=REF001 …
        < problem: http://a.example/x did not begin a response within 3000 ms.
        end (504 response-timeout): client keep, upstream closed
        """#)
  }

  @Test func anUpstreamThatDoesNotAnswerABodyIsA504() {
    play(
      .client(post), .opened, .pass(3500), .client("hello"), .pass(2999), .timeOut, policy: Self.times,
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > content: hello
        after 1 ms
        < HTTP/1.1 504 response-timeout ref=REF001 …
        < problem: http://a.example/ did not begin a response within 3000 ms.
        end (504 response-timeout): client keep, upstream closed
        """#)
  }

  @Test func anInterimResponseIsAnAnswer() {
    play(
      .client(get), .opened, .pass(2500), .upstream(head("HTTP/1.1 102 Processing")), .pass(2500),
      .upstream(ok),
      policy: Self.times,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 102 Processing …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aHeadOfAResponseThatIsSlowIsA504() {
    play(
      .client(get), .opened, .pass(2500), .upstream("HTTP/1.1 200 OK\r\n"), .timeOut, policy: Self.times,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        after 500 ms
        < HTTP/1.1 504 response-timeout ref=REF001 …
        < problem: http://a.example/x did not begin a response within 3000 ms.
        end (504 response-timeout): client keep, upstream closed
        """#)
  }

  @Test func aBodyThatStallsIsAnswered() {
    play(
      .client(post + "he"), .opened, .pass(3999), .client("l"), .timeOut, policy: Self.times,
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > content: hel
        after 4000 ms
        < HTTP/1.1 408 stalled ref=REF001 …
        < Connection: close
        < problem: No byte of the request body moved for 4000 ms.
        end (408 stalled): client linger, upstream closed within the request
        """#)
  }

  @Test func anUpstreamThatTakesNoMoreOfABodyIsA504() {
    play(
      .client(post + "he"), .opened, .pass(3999), .client("l"), .upstreamReadsNothing, .timeOut, policy: Self.times,
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > content: hel
        after 4000 ms
        < HTTP/1.1 504 response-timeout ref=REF001 …
        < Connection: close
        < problem: http://a.example/ took no byte of the request for 4000 ms.
        end (504 response-timeout): client linger, upstream closed within the request
        """#)
  }

  @Test func aResponseThatStallsBreaksOff() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 9") + "he"),
      .pass(3999),
      .upstream("l"), .timeOut, policy: Self.times,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 9
        < content: hel
        after 4000 ms
        end (200 stalled): client cut, upstream closed
        """#)
  }

  @Test func chunksThatStallBreakOff() {
    play(
      .client(get), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked") + "2\r\nhe\r\n"),
      .pass(3999),
      .upstream("2\r\nll\r\n"), .timeOut, policy: Self.times,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Transfer-Encoding: chunked
        < chunked: hell
        after 4000 ms
        end (200 stalled): client cut, upstream closed
        """#)
  }

  @Test func aTunnelThatIsIdleIsBrokenOff() {
    play(
      .client(connect), .opened, .pass(4999), .upstream("x"), .pass(4999), .client("y"), .timeOut,
      policy: Self.times,
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        < raw: x
        > raw: y
        after 5000 ms
        end (200 tunnel-idle): client abort, upstream closed
        """#)
  }

  static let bounded = policy("[defaults.request]\ntimeout = \"10s\"")

  @Test func theTimeOfARuleBoundsTheConnecting() {
    play(
      .client(get), .timeOut, policy: Self.bounded,
      gives: #"""
        connect a.example:80
        after 10000 ms
        < HTTP/1.1 504 exchange-timeout ref=REF001 …
        < problem: http://a.example/x did not finish within the rule's 10000 ms.
        end (504 exchange-timeout): client keep
        """#)
  }

  @Test func theTimeOfARuleBoundsTheAnswer() {
    play(
      .client(get), .pass(4000), .opened, .timeOut, policy: Self.bounded,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        after 6000 ms
        < HTTP/1.1 504 exchange-timeout ref=REF001 …
        < problem: http://a.example/x did not finish within the rule's 10000 ms.
        end (504 exchange-timeout): client keep, upstream closed
        """#)
  }

  @Test func theTimeOfARuleBoundsTheBody() {
    play(
      .client(get), .opened, .pass(6000),
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 9")),
      .pass(3000), .upstream("x"), .timeOut, policy: Self.bounded,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 9
        < content: x
        after 1000 ms
        end (200 exchange-timeout): client cut, upstream closed
        """#)
  }

  @Test func theTimeOfARuleEndsWithItsExchange() {
    play(
      .client(get), .opened, .pass(9999), .upstream(ok), .pass(20_000), .client(get), .timeOut,
      policy: Self.bounded,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect a.example:80
        after 10000 ms
        < HTTP/1.1 504 exchange-timeout ref=REF002 …
        < problem: http://a.example/x did not finish within the rule's 10000 ms.
        end (504 exchange-timeout): client keep
        """#)
  }

  // MARK: The end of the proxy

  @Test func drainingClosesAnIdleClient() {
    play(
      .drain,
      gives: #"""
        the proxy drains
        close
        """#)
    play(
      .client(get), .opened, .upstream(ok), .drain,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        the proxy drains
        close
        """#)
  }

  @Test func drainingLetsAnExchangeEnd() {
    play(
      .client(get + get), .drain, .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        the proxy drains
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < Connection: close
        < content: ok
        end (200): client close, upstream kept
        """#)
    play(
      .client(get), .opened, .drain, .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        the proxy drains
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < Connection: close
        < content: ok
        end (200): client close, upstream kept
        """#)
  }

  @Test func drainingLetsAResponseThatHasBegunEnd() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 5") + "he"),
      .drain,
      .upstream("llo"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 5
        < content: he
        the proxy drains
        < content: llo
        end (200): client close, upstream kept
        """#)
  }

  @Test func drainingLetsAHeadThatHasBegunBeTheLast() {
    play(
      .client("GET http://a.example/ HTTP/1.1\r\n"), .drain, .client("Host: a\r\n\r\n"), .opened,
      .upstream(ok),
      gives: #"""
        the proxy drains
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < Connection: close
        < content: ok
        end (200): client close, upstream kept
        """#)
  }

  @Test func drainingLetsAProblemBeTheLast() {
    play(
      .client("GET http://169.254.1.1/ HTTP/1.1\r\n"), .drain, .client("Host: a\r\n\r\n"),
      gives: #"""
        the proxy drains
        < HTTP/1.1 403 address-denied ref=REF001 …
        < Connection: close
        < problem: 169.254.1.1 is in 169.254.0.0/16, which deny_addresses lists.
             {"reason":"address-denied"}
        end (403 address-denied): client linger
        """#)
  }

  @Test func drainingLeavesATunnelAlone() {
    play(
      .client(connect), .opened, .drain, .client("x"), .upstream("y"), .shutDown,
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 200 Connection established
        <
        tunnel
        the proxy drains
        > raw: x
        < raw: y
        the proxy shuts down
        end (200 shut-down): client abort, upstream closed
        """#)
  }

  @Test func shuttingDownBreaksOff() {
    play(
      .shutDown,
      gives: #"""
        the proxy shuts down
        close
        """#)
    play(
      .client("GET "), .shutDown,
      gives: #"""
        the proxy shuts down
        close
        """#)
    play(
      .client(get), .shutDown,
      gives: #"""
        connect a.example:80
        the proxy shuts down
        < HTTP/1.1 503 shutting-down ref=REF001 …
        < Retry-After: 10
        < Connection: close
        < problem: The proxy is stopping, and the request was not answered in the time that it gives.
        end (503 shutting-down): client linger
        """#)
    play(
      .client(get), .opened, .shutDown,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        the proxy shuts down
        < HTTP/1.1 503 shutting-down ref=REF001 …
        < Retry-After: 10
        < Connection: close
        < problem: The proxy is stopping, and the request was not answered in the time that it gives.
        end (503 shutting-down): client linger, upstream closed
        """#)
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 5") + "he"),
      .shutDown,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 5
        < content: he
        the proxy shuts down
        end (200 shut-down): client cut, upstream closed
        """#)
  }
}

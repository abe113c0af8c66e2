// Whole conversations: one exchange after another, second tries, and what the server is told on the way.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct SessionTests {
  // MARK: One after another

  @Test func pipelinedRequestsAreAnsweredInOrder() {
    play(
      .client(
        head("GET http://a.example/1 HTTP/1.1", "Host: a")
          + head("GET http://b.example/2 HTTP/1.1", "Host: b")
          + head("POST http://c.example/3 HTTP/1.1", "Host: c", "Content-Length: 2") + "hi" + get), .opened,
      .upstream(ok), .reused, .upstream(head("HTTP/1.1 404 No", "Date: today", "Content-Length: 0")), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked") + "1\r\nx\r\n0\r\n\r\n"),
      .opened,
      .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET /1 HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect b.example:80
        > GET /2 HTTP/1.1 to b.example …
        < HTTP/1.1 404 No …
        < Content-Length: 0
        end (404): client keep, upstream kept
        connect c.example:80
        > POST /3 HTTP/1.1 to c.example …
        > Content-Length: 2
        > content: hi
        < HTTP/1.1 200 OK …
        < Transfer-Encoding: chunked
        < chunked: x
        < last chunk
        end (200): client keep, upstream kept
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aRequestBehindOneThatClosesIsNotRead() {
    play(
      .client(head("GET http://a.example/ HTTP/1.1", "Host: a", "Connection: close") + get), .opened,
      .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < Connection: close
        < content: ok
        end (200): client close, upstream kept
        """#)
  }

  @Test func aMalformedRequestBehindAGoodOneIsAnsweredAfterIt() {
    play(
      .client(get + "BAD\r\n\r\n" + get), .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        < HTTP/1.1 400 malformed-request ref=REF002 …
        < Connection: close
        < problem: The request begins with something that is no method (a token, then one space).
        end (400 malformed-request): client linger
        """#)
  }

  @Test func whatIsReadOfAClientThatIsLetGoIsThrownAway() {
    play(
      .client("BAD\r\n\r\n"), .client(get), .pass(1999), .client(get), .timeOut,
      gives: #"""
        < HTTP/1.1 400 malformed-request ref=REF001 …
        < Connection: close
        < problem: The request begins with something that is no method (a token, then one space).
        end (400 malformed-request): client linger
        after 1 ms
        close
        """#)
  }

  @Test func aDeniedRequestLeavesTheConnectionAsItIs() {
    play(
      .client(head("GET http://169.254.1.1/ HTTP/1.1", "Host: a") + get), .opened, .upstream(ok),
      gives: #"""
        < HTTP/1.1 403 address-denied ref=REF001 …
        < problem: 169.254.1.1 is in 169.254.0.0/16, which deny_addresses lists.
             {"reason":"address-denied"}
        end (403 address-denied): client keep
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  // MARK: Once more

  @Test func aKeptConnectionThatDiedCostsOneMoreTry() {
    play(
      .client(get), .reused, .upstreamEnds, .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        connect a.example:80 once more
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aKeptConnectionThatWasResetCostsOneMoreTry() {
    play(
      .client(get), .reused, .upstreamTakesNoMore, .upstreamBreaks, .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        connect a.example:80 once more
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func thereIsNoThirdTry() {
    play(
      .client(get), .reused, .upstreamEnds, .opened, .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        connect a.example:80 once more
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < problem: http://a.example/x closed the connection before the head of a response was complete.
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func evenAKeptConnectionIsNotTriedAThirdTime() {
    play(
      .client(get), .reused, .upstreamEnds, .reused, .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        connect a.example:80 once more
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < problem: http://a.example/x closed a kept connection before the head of a response was
             complete.
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func aNewConnectionThatDiesIsNotTriedAgain() {
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

  @Test func aPOSTIsNotTriedAgain() {
    play(
      .client(head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 0")), .reused,
      .upstreamEnds,
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 0
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < problem: http://a.example/ closed a kept connection before the head of a response was
             complete.
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func aMethodThatNobodyKnowsIsNotTriedAgain() {
    play(
      .client(head("PATCH http://a.example/ HTTP/1.1", "Host: a.example")), .reused, .upstreamEnds,
      gives: #"""
        connect a.example:80
        > PATCH / HTTP/1.1 …
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < problem: http://a.example/ closed a kept connection before the head of a response was
             complete.
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func aSmallBodyIsSentOnceMore() {
    play(
      .client(head("PUT http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5") + "hello"),
      .reused,
      .upstreamEnds, .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > PUT / HTTP/1.1 …
        > Content-Length: 5
        > content: hello
        connect a.example:80 once more
        > PUT / HTTP/1.1 …
        > Content-Length: 5
        > content: hello
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aSmallBodyThatIsUnderWayIsSentOnceMore() {
    play(
      .client(head("PUT http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5") + "he"), .reused,
      .upstreamTakesNoMore, .client("l"), .opened, .client("lo"), .upstream(ok),
      gives: #"""
        connect a.example:80
        > PUT / HTTP/1.1 …
        > Content-Length: 5
        > content: he
        connect a.example:80 once more
        > PUT / HTTP/1.1 …
        > Content-Length: 5
        > content: hello
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aBodyThatIsTooLongToKeepIsNotSentAgain() {
    for (count, isRetried) in [(16 << 10, true), (16 << 10 | 1, false)] {
      let request = head("PUT http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: \(count)")
      let body = String(repeating: "x", count: count)
      for split in [Split.whole, .random(seed: 1, longest: 5000)] {
        let stage = Stage(plainPolicy, split)
        let transcript = stage.play([.client(request + body), .reused, .upstreamEnds])
        #expect(transcript.contains("once more") == isRetried, "\(count) bytes, \(split)")
        #expect(transcript.contains("502 connection-closed") == !isRetried, "\(count) bytes, \(split)")
        #expect(stage.faults.isEmpty, "\(stage.faults)")
      }
    }
  }

  @Test func chunksAreNotSentAgain() {
    let stage = Stage(plainPolicy, .whole)
    let transcript = stage.play([
      .client(
        head("PUT http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked")
          + "1\r\nx\r\n0\r\n\r\n"),
      .reused, .upstreamEnds,
    ])
    #expect(transcript.contains("< HTTP/1.1 502 connection-closed"), "\(transcript)")
  }

  @Test(arguments: ["HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"])
  func anIdempotentMethodIsTriedAgain(method: String) {
    let stage = Stage(plainPolicy, .whole)
    let transcript = stage.play([
      .client(head("\(method) http://a.example/ HTTP/1.1", "Host: a")), .reused, .upstreamEnds, .opened,
    ])
    #expect(
      transcript.split(separator: "\n").filter { $0.hasPrefix("> \(method) ") }.count == 2, "\(transcript)")
    #expect(transcript.contains("connect a.example:80 once more"), "\(transcript)")
  }

  @Test func afterAByteThereIsNoOtherTry() {
    play(
      .client(get), .reused, .upstream("H"), .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < problem: http://a.example/x closed a kept connection before the head of a response was
             complete.
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func afterAnInterimResponseThereIsNoOtherTry() {
    play(
      .client(get), .reused, .upstream(head("HTTP/1.1 103 Early Hints")), .upstreamEnds,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 103 Early Hints …
        < HTTP/1.1 502 connection-closed ref=REF001 …
        < problem: http://a.example/x closed a kept connection before the head of a response was
             complete.
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func whatIsPipelinedBehindARequestThatIsTriedAgainWaits() {
    play(
      .client(get + head("GET http://b.example/ HTTP/1.1", "Host: b")), .reused, .upstreamEnds, .opened,
      .upstream(ok),
      .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        connect a.example:80 once more
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect b.example:80
        > GET / HTTP/1.1 to b.example …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  // MARK: No upstream

  @Test(arguments: [
    (Problem.Kind.nameNotFound, "502 name-not-found"), (.nameFailed, "502 name-failed"),
    (.nameTimeout, "504 name-timeout"), (.connectionRefused, "502 connection-refused"),
    (.connectionTimeout, "504 connection-timeout"), (.connectionFailed, "502 connection-failed"),
    (.notReachable, "503 not-reachable"), (.addressDenied, "403 address-denied"), (.loop, "502 loop"),
  ]) func anUpstreamThatCannotBeHadIsAnswered(kind: Problem.Kind, answer: String) {
    for split in Split.usual {
      let stage = Stage(plainPolicy, split)
      let transcript = stage.play([.client(get + get), .failed(kind, "Why."), .opened, .upstream(ok)])
      #expect(
        transcript.hasPrefix("connect a.example:80\n< HTTP/1.1 \(answer) ref=REF001\n"), "\(transcript)")
      #expect(
        transcript.contains("end (\(answer)): client keep\nconnect a.example:80\n> GET"), "\(transcript)")
      #expect(stage.faults.isEmpty, "\(stage.faults)")
    }
  }

  @Test func anUpstreamThatCannotBeHadForABodyLetsTheClientGo() {
    play(
      .client(post + "he"), .failed(.connectionRefused, "a.example port 80 refused the connection."),
      .client("llo"),
      gives: #"""
        connect a.example:80
        < HTTP/1.1 502 connection-refused ref=REF001 …
        < Connection: close
        < problem: a.example port 80 refused the connection.
        end (502 connection-refused): client linger
        """#)
  }

  @Test func aTunnelThatCannotBeHadIsAnswered() {
    play(
      .client(connect), .failed(.nameNotFound, "a.example does not exist."),
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 502 name-not-found ref=REF001 …
        < problem: a.example does not exist.
        end (502 name-not-found): client keep
        """#)
  }

  // MARK: What the server asks

  @Test func theServerIsToldWhereAnExchangeIs() {
    let stage = Stage(plainPolicy, .bytewise)
    #expect(stage.state() == "idle wants-client-bytes")
    #expect(stage.state(after: .client("G")) == "wants-client-bytes")
    #expect(
      stage.state(after: .client(String(get.dropFirst())))
        == "in-exchange connecting may-retry awaits-only-upstream")
    #expect(
      stage.state(after: .reused)
        == "in-exchange may-retry keeps-replay awaits-only-upstream awaits-response-head")
    #expect(
      stage.state(after: .upstream("H")) == "in-exchange awaits-only-upstream awaits-response-head")
    #expect(
      stage.state(after: .upstream("TTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"))
        == "in-exchange awaits-only-upstream response:5")
    #expect(stage.state(after: .upstream("he")) == "in-exchange awaits-only-upstream response:3")
    #expect(stage.state(after: .upstream("llo")) == "idle wants-client-bytes")
    #expect(
      stage.state(after: .client(get), .opened, .upstream(head("HTTP/1.1 200 OK")))
        == "in-exchange awaits-only-upstream response:until-close")
  }

  @Test func theServerIsToldWhereABodyIs() {
    let stage = Stage(plainPolicy, .bytewise)
    #expect(stage.state(after: .client(post)) == "in-exchange connecting request:5")
    #expect(
      stage.state(after: .opened, .client("he"))
        == "in-exchange awaits-response-head wants-client-bytes request:3")
    #expect(
      stage.state(after: .upstreamTakesNoMore, .client("l"))
        == "in-exchange awaits-response-head wants-client-bytes")
    #expect(
      stage.state(after: .client("lo")) == "in-exchange awaits-only-upstream awaits-response-head")
    let other = Stage(plainPolicy, .bytewise)
    #expect(
      other.state(
        after: .client(
          head("PUT http://a.example/ HTTP/1.1", "Host: a", "Transfer-Encoding: chunked") + "1\r\n"), .opened,
        .upstream(head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + "5\r\nh"))
        == "in-exchange wants-client-bytes")
  }

  @Test func theServerIsToldWhereATunnelIs() {
    let stage = Stage(plainPolicy, .bytewise)
    #expect(
      stage.state(after: .client(connect))
        == "in-exchange connecting tunnel awaits-only-upstream")
    #expect(stage.state(after: .opened) == "in-exchange tunnel in-tunnel wants-client-bytes")
    #expect(stage.state(after: .upstreamEnds, .clientEnds) == "wants-client-bytes")
  }
}

// `answer` of [rule.response] over whole conversations: the file with the status and the words of the failure, on each occasion,
// and where it is not sent.

import Bytes
import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct FailedOriginTests {
  private static func offline(_ occasions: String = "\"unreachable\", \"5xx\", \"violation\"", _ more: String = "")
    -> Policy
  {
    policy(
      "[[rule]]\nname = \"r\"\n\(more)\n[rule.response]\nserializer = \"json\"\n"
        + "answer = { file = \"offline.html\", type = \"text/html\", when = [\(occasions)] }")
  }

  @Test func whatCannotBeReachedIsAnsweredWithTheFile() {
    play(
      .client(get), .failed(.connectionRefused, "It said no."), .client(get), .failed(.notReachable, "No route."),
      policy: Self.offline(),
      gives: #"""
        connect a.example:80
        < HTTP/1.1 502 connection-refused rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: text/html
        < Content-Length: 10
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=connection_refused; details="It said no."; rule="r"
        <
        < content: <p>offline
        end (502 connection-refused): client keep
        connect a.example:80
        < HTTP/1.1 503 not-reachable rule=r ref=REF002
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: text/html
        < Content-Length: 10
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=destination_ip_unroutable; details="No route."; rule="r"
        < Retry-After: 10
        <
        < content: <p>offline
        end (503 not-reachable): client keep
        """#)
  }

  @Test func aServerErrorKeepsItsStatusAndLosesItsBody() {
    play(
      .client(get), .opened,
      .upstream(head("HTTP/1.1 503 Busy", "Date: today", "Content-Type: text/plain", "Content-Length: 4") + "busy"),
      policy: Self.offline(),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 503 origin-failed rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: text/html
        < Content-Length: 10
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=destination_unavailable; received-status=503;
             details="http://a.example/x answered 503; the rule's file is sent instead."; rule="r"
        < Retry-After: 10
        <
        < content: <p>offline
        end (503 origin-failed): client keep, upstream closed
        """#)
  }

  @Test func aServerErrorWithoutContentKeepsItsConnection() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 500 x", "Date: today", "Content-Length: 0")),
      policy: Self.offline(),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 500 origin-failed rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: text/html
        < Content-Length: 10
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=destination_unavailable; received-status=500;
             details="http://a.example/x answered 500; the rule's file is sent instead."; rule="r"
        <
        < content: <p>offline
        end (500 origin-failed): client keep, upstream kept
        """#)
  }

  @Test func aViolationIsAnsweredWithTheFile() {
    play(
      .client(get), .opened,
      .upstream(head("HTTP/1.1 200 x", "Date: today", "Content-Type: application/json", "Content-Length: 1") + "{"),
      policy: Self.offline(),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 malformed-content rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: text/html
        < Content-Length: 10
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=200; details="The
             response of http://a.example/x: expected well-formed JSON, seen a fault at line 1, column
             2: expected a key in quotes or '}' behind '{', found the end of the body."; rule="r"
        <
        < content: <p>offline
        end (502 malformed-content): client keep, upstream kept
        """#)
  }

  @Test func anAnswerToHEADHasTheLengthAlone() {
    play(
      .client(head("HEAD http://a.example/ HTTP/1.1", "Host: a.example")), .failed(.connectionRefused, "It said no."),
      policy: Self.offline(),
      gives: #"""
        connect a.example:80
        < HTTP/1.1 502 connection-refused rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: text/html
        < Content-Length: 10
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=connection_refused; details="It said no."; rule="r"
        <
        end (502 connection-refused): client keep
        """#)
  }

  @Test func anEndBeforeTheResponseIsAnsweredWithTheFile() {
    play(
      .client(get), .opened, .upstream("HTTP/1.1 200 O"), .upstreamEnds, policy: Self.offline("\"unreachable\""),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 connection-closed rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: text/html
        < Content-Length: 10
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=connection_terminated; details="http://a.example/x closed the
             connection before the head of a response was complete."; rule="r"
        <
        < content: <p>offline
        end (502 connection-closed): client keep, upstream closed
        """#)
  }

  @Test func anEndWithinWhatIsHeldIsToo() {
    play(
      .client(get), .opened,
      .upstream(head("HTTP/1.1 200 x", "Date: today", "Content-Type: application/json", "Content-Length: 9") + "{"),
      .upstreamEnds, policy: Self.offline("\"unreachable\""),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 incomplete-response rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: text/html
        < Content-Length: 10
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_response_incomplete; details="http://a.example/x closed
             the connection within the body of the response."; rule="r"
        <
        < content: <p>offline
        end (502 incomplete-response): client keep, upstream closed
        """#)
  }

  @Test func whatHasBegunToLeaveIsNot() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 200 x", "Date: today", "Content-Length: 9") + "four"),
      .upstreamEnds,
      policy: policy(
        "[[rule]]\nname = \"r\"\n[rule.response]\nanswer = { file = \"offline.html\", type = \"text/html\" }"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 x …
        < Content-Length: 9
        < content: four
        end (200 upstream-broke-off): client cut, upstream closed
        """#)
  }

  @Test func aCertificateIsNoOutage() {
    play(
      .client(head("GET https://a.example/ HTTP/1.1", "Host: a.example")), .failed(.certificateUntrusted, "Unknown."),
      policy: Self.offline(),
      gives: #"""
        connect a.example:443 under TLS
        < HTTP/1.1 502 certificate-untrusted rule=r ref=REF001 …
        < problem: Unknown.
        end (502 certificate-untrusted): client keep
        """#)
  }

  @Test func aTunnelIsAnsweredAsEver() {
    play(
      .client(head("CONNECT a.example:443 HTTP/1.1", "Host: a.example:443")),
      .failed(.connectionRefused, "It said no."),
      policy: Self.offline(),
      gives: #"""
        connect a.example:443 for a tunnel
        < HTTP/1.1 502 connection-refused rule=r ref=REF001 …
        < problem: It said no.
        end (502 connection-refused): client keep
        """#)
  }

  @Test func aRuleThatIsNotEnforcedLetsTheOriginSpeak() {
    play(
      .client(get), .opened, .upstream(head("HTTP/1.1 503 Busy", "Date: today", "Content-Length: 0")),
      policy: Self.offline("\"5xx\"", "enforce = false"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 503 Busy …
        < Content-Length: 0
        < Proxy-Status: sallyport; error=http_protocol_error; details="expected status 200-299, seen
             503"; rule="r"
        end (503): client keep, upstream kept
        """#)
  }

  @Test func aBodyThatIsStillOnItsWayEndsTheConnection() {
    play(
      .client(post + "he"), .opened, .upstream(head("HTTP/1.1 502 x", "Date: today", "Content-Length: 0")),
      policy: Self.offline("\"5xx\""),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > content: he
        < HTTP/1.1 502 origin-failed rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: text/html
        < Content-Length: 10
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=destination_unavailable; received-status=502;
             details="http://a.example/ answered 502; the rule's file is sent instead."; rule="r"
        < Connection: close
        <
        < content: <p>offline
        end (502 origin-failed): client linger, upstream closed within the request
        """#)
  }

  // MARK: Occasions

  private static let unreachable: Set<Problem.Kind> = [
    .nameNotFound, .nameFailed, .nameTimeout, .connectionRefused, .connectionTimeout, .connectionFailed, .notReachable,
    .connectionClosed, .responseTimeout, .exchangeTimeout, .tlsTimeout, .incompleteResponse,
  ]

  @Test(arguments: Problem.Kind.allCases) func whatCountsAsUnreachable(kind: Problem.Kind) {
    let expected: SubstituteAnswer.Occasion? =
      Self.unreachable.contains(kind) ? .unreachable : kind == .originFailed ? .serverError : nil
    #expect(Problem(kind, "x").occasion == expected)
  }

  @Test(arguments: [(403, false), (404, false), (407, false), (499, false), (500, true), (504, true), (599, true)])
  func whatAParentSaysIsItsDecisionOrAnOutage(status: Int, isOutage: Bool) {
    #expect(Problem(.parentRefused, "x", receivedStatus: status).occasion == (isOutage ? .unreachable : nil))
  }

  /// What the client has not taken yet counts as held bodies do, and where they take all there is it gets the proxy's own words.
  @Test(arguments: [0, 1 << 40]) func theFileCountsUntilTheClientHasIt(takenByOthers: Int) {
    let policy = Self.offline()
    var workspace = Workspace(
      name: "sallyport", mark: Stage.mark, references: ReferenceSource(seed: 0, index: 0, of: 1))
    var outputs = Outputs()
    var session = Session(policy: policy, in: ExchangeRooms(), now: 0)
    _ = session.clientReceived(octets(get).span, now: 0, policy: policy, in: &workspace, to: &outputs)
    _ = workspace.heldBytes.take(takenByOthers, limit: .max)
    _ = session.exchange.upstreamFailed(
      UpstreamFailure(.connectionRefused, "It said no."), in: &workspace, to: &outputs)
    let isFile = outputs.toClient.bytes.string.hasSuffix("<p>offline")
    #expect(isFile == (takenByOthers == 0))
    #expect(workspace.heldBytes.count - takenByOthers == (isFile ? 10 : 0))
    session.exchangeEnded(now: 0, keeps: true)
    #expect(workspace.heldBytes.count == takenByOthers)
  }
}

// Heads of responses that break the grammar: mended on their way, in every split, and what becomes of what follows them. And
// 417, after which only the same request may follow on its connection.

import TestSupport
import Testing

@testable import Session

@Suite struct OddResponseTests {
  @Test func aHeadIsMendedAndItsConnectionIsNotUsedAgain() {
    play(
      .client(get), .opened,
      .upstream("HTTP/1.1 200 OK\nDate: today\nX : a\n b\r\nContent-Length: 2\n\nok"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < X: a b
        < Content-Length: 2
        < Proxy-Status: sallyport; details="mended: bare-lf,space-before-colon,obs-fold"
        < content: ok
        end (200): client keep, upstream closed
        """#)
  }

  @Test func aHeadThatIsHeldIsMendedToo() {
    play(
      .client(get), .opened,
      .upstream("HTTP/1.1 200 OK\nDate: today\nContent-Type: application/json\nTransfer-Encoding: chunked\n\n"),
      .upstream("2\r\n[]\r\n0\r\n\r\n"),
      policy: policy("[[rule]]\nname = \"r\"\n[rule.response]\nserializer = \"json\""),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Content-Length: 2
        < Proxy-Status: sallyport; details="mended: bare-lf"; rule="r"
        < content: []
        end (200): client keep, upstream closed
        """#)
  }

  // MARK: 417

  private static let expecting = head(
    "POST http://a.example/ HTTP/1.1", "Host: a.example", "Expect: 100-continue", "Content-Length: 5")
  private static let refusal = head("HTTP/1.1 417 x", "Date: today", "Content-Length: 0")

  @Test func theSameRequestMayFollowARefusedExpectation() {
    play(
      .client(Self.expecting), .opened, .upstream(Self.refusal), .client(post + "hello"), .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Expect: 100-continue
        > Content-Length: 5
        < HTTP/1.1 417 x …
        < Content-Length: 0
        end (417): client keep, upstream closed within the request
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

  /// What comes after 417 is no request that somebody else may have chosen.
  @Test(arguments: [
    get, head("POST http://a.example/other HTTP/1.1", "Host: a.example", "Content-Length: 0"),
    head("PUT http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 0"),
  ]) func anotherRequestMayNot(other: String) {
    for split in Split.usual {
      let stage = Stage(plainPolicy, split)
      let transcript = stage.play([
        .client(Self.expecting), .opened, .upstream(Self.refusal), .client(other),
      ])
      #expect(transcript.contains("end (417): client keep, upstream closed"))
      #expect(transcript.contains("end (400 malformed-request): client linger"))
      #expect(stage.faults.isEmpty, "\(stage.faults)")
    }
  }

  @Test(
    arguments: [
      ("a body that has begun", [.client(expecting), .opened, .client("he"), .upstream(refusal)]),
      (
        "100 that has passed",
        [.client(expecting), .opened, .upstream(head("HTTP/1.1 100 Continue")), .upstream(refusal)]
      ),
      ("no expectation", [.client(post), .opened, .upstream(refusal)]),
      (
        "another status", [.client(expecting), .opened, .upstream(head("HTTP/1.1 403 x", "Content-Length: 0"))]
      ),
    ] as [(String, [Happening])]) func elseTheConnectionEnds(what: String, happenings: [Happening])
  {
    for split in Split.usual {
      let stage = Stage(plainPolicy, split)
      let transcript = stage.play(happenings)
      #expect(transcript.contains("): client linger, upstream closed"), "\(what): \(transcript)")
    }
  }

  // MARK: Trailers and 426

  @Test func onlyTrailersThatConnectionNamesAreDropped() {
    play(
      .client(get), .opened,
      .upstream(
        head("HTTP/1.1 200 OK", "Date: today", "Connection: x-a, X-B", "Transfer-Encoding: chunked")
          + "2\r\nok\r\n0\r\nX-A: 1\r\nx-b: 2\r\nX-C: 3\r\n\r\n"),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Transfer-Encoding: chunked
        < chunked: ok
        < last chunk
        < trailer X-C: 3
        end (200): client keep, upstream kept
        """#)
  }

  @Test func a426KeepsItsUpgrade() {
    play(
      .client(get), .opened,
      .upstream(
        head("HTTP/1.1 426 x", "Date: today", "Upgrade: TLS/1.0", "Connection: upgrade", "Content-Length: 0")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 426 x …
        < Upgrade: TLS/1.0
        < Content-Length: 0
        < Connection: Upgrade
        end (426): client keep, upstream kept
        """#)
  }
}

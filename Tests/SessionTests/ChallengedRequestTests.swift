// Requests that the proxy authenticates itself: the challenge is answered on the connection that it came by, or on another.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct ChallengedRequestTests {
  static let rules = policy(
    """
    [proxy.limits]
    buffered_body = "1KiB"
    [[rule]]
    name = "staff"
    hosts = ["a.example"]
    [rule.request]
    authorization = { scheme = "digest", username = "u", password = "p" }
    """)

  private func challenge(_ nonce: String, _ lines: String...) -> String {
    (["HTTP/1.1 401 Who", "Date: today", "WWW-Authenticate: Digest realm=\"r\", nonce=\"\(nonce)\", qop=\"auth\""]
      + lines)
      .map { $0 + "\r\n" }.joined() + "\r\n"
  }

  @Test func onTheSameConnectionAndAtOnceLater() {
    play(
      .client(get), .opened, .upstream(challenge("n", "Content-Length: 3") + "who"), .upstream(ok), .client(get),
      .reused,
      .upstream(ok), policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        > GET /x HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="n", uri="/x",
             response="8bc990d70a02ae079d4a0c7172089c58", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000001
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect a.example:80
        > GET /x HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="n", uri="/x",
             response="5ebc4cfbaf47855f4b439cef32609527", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000002
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func withChunkedContentAndTrailers() {
    play(
      .client(post + "hello"), .opened,
      .upstream(challenge("n", "Transfer-Encoding: chunked") + "3\r\nwho\r\n0\r\nA: b\r\n\r\n"), .upstream(ok),
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Length: 5
        > content: hello
        > POST / HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="n", uri="/",
             response="18d4c799c821e1e5b882e85fdb241078", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000001
        > Content-Length: 5
        > content: hello
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  /// Digest and `encoding`: the body of the parameters follows what the client says of its charset.
  @Test func aBodyThatIsMadeIsTheSameAgain() {
    let rules = policy(
      """
      [[rule]]
      name = "staff"
      [rule.request]
      authorization = { scheme = "digest", username = "u", password = "p" }
      serializer = "http"
      encoding = "iso-8859-1"
      parameters = { k = "é" }
      """)
    let post = head(
      "POST http://a.example/ HTTP/1.1", "Host: a.example",
      "Content-Type: application/x-www-form-urlencoded; charset=utf-8",
      "Content-Length: 0")
    play(
      .client(post), .opened, .upstream(challenge("n", "Content-Length: 0")), .upstream(ok), policy: rules,
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Content-Type: application/x-www-form-urlencoded; charset=utf-8
        > Content-Length: 8
        > content: k=%C3%A9
        > POST / HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="n", uri="/",
             response="18d4c799c821e1e5b882e85fdb241078", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000001
        > Content-Type: application/x-www-form-urlencoded; charset=utf-8
        > Content-Length: 8
        > content: k=%C3%A9
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func onAnotherConnection() {
    play(
      .client(get), .opened, .upstream(challenge("n", "Content-Length: 0", "Connection: close")), .opened,
      .upstream(ok),
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        connect a.example:80 once more
        > GET /x HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="n", uri="/x",
             response="8bc990d70a02ae079d4a0c7172089c58", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000001
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  /// The origin closes the connection after all, within the content or behind it.
  @Test func onAConnectionThatIsDeadAfterwards() {
    play(
      .client(get), .opened, .upstream(challenge("n", "Content-Length: 3") + "wh"), .upstreamEnds, .opened,
      .upstream(ok),
      .client(get), .opened, .upstream(challenge("m", "Content-Length: 0")), .upstreamEnds, .opened, .upstream(ok),
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        connect a.example:80 once more
        > GET /x HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="n", uri="/x",
             response="8bc990d70a02ae079d4a0c7172089c58", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000001
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect a.example:80
        > GET /x HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="n", uri="/x",
             response="5ebc4cfbaf47855f4b439cef32609527", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000002
        > GET /x HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="m", uri="/x",
             response="a3eb6794ec77380634f989370d1b0c57", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000001
        connect a.example:80 once more
        > GET /x HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="m", uri="/x",
             response="ce56f8fdc4963e612fcc500010c5c81e", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000002
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func refusedAfterOneTry() {
    play(
      .client(get), .opened, .upstream(challenge("n", "Content-Length: 0")),
      .upstream(challenge("m", "Content-Length: 2") + "no"), policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        > GET /x HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="n", uri="/x",
             response="8bc990d70a02ae079d4a0c7172089c58", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000001
        < HTTP/1.1 401 Who …
        < WWW-Authenticate: Digest realm="r", nonce="m", qop="auth"
        < Content-Length: 2
        < Proxy-Status: sallyport; details="the rule's digest credentials were refused"; rule="staff"
        < content: no
        end (401): client keep, upstream kept
        """#)
  }

  @Test func aNonceThatIsStaleAtOnce() {
    let stale = head(
      "HTTP/1.1 401 Who", "Date: today", "Content-Length: 0",
      "WWW-Authenticate: Digest realm=\"r\", nonce=\"m\", qop=\"auth\", stale=true")
    play(
      .client(get), .opened, .upstream(challenge("n", "Content-Length: 0")), .upstream(stale), .upstream(stale),
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        > GET /x HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="n", uri="/x",
             response="8bc990d70a02ae079d4a0c7172089c58", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000001
        > GET /x HTTP/1.1 …
        > Authorization: Digest username="u", realm="r", nonce="m", uri="/x",
             response="a3eb6794ec77380634f989370d1b0c57", cnonce="AAAAAAAAAAAAAAAAAAAAAA==", qop=auth,
             nc=00000001
        < HTTP/1.1 401 Who …
        < Content-Length: 0
        < WWW-Authenticate: Digest realm="r", nonce="m", qop="auth", stale=true
        < Proxy-Status: sallyport; details="the rule's digest credentials were refused"; rule="staff"
        end (401): client keep, upstream kept
        """#)
  }
}

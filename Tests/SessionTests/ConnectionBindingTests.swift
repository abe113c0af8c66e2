// Credentials that are a connection's, not a request's (NTLM, Negotiate), and fields that Connection names among the
// trailers.

import TestSupport
import Testing

@testable import Session

@Suite struct ConnectionBindingTests {
  private static func request(_ authorization: String) -> String {
    head("GET http://a.example/ HTTP/1.1", "Host: a.example", "Authorization: \(authorization)")
  }

  @Test(arguments: ["NTLM TlRMTVNTUAAB", "Negotiate YIIB", "negotiate x", "ntlm"])
  func aConnectionThatIsAuthenticatedIsNobodyElses(authorization: String) {
    for split in Split.usual {
      let stage = Stage(plainPolicy, split)
      let transcript = stage.play([.client(Self.request(authorization)), .opened, .upstream(ok)])
      #expect(transcript.hasSuffix("end (200): client keep, upstream closed"), "\(split)\n\(transcript)")
      #expect(transcript.contains("> Authorization: \(authorization)\n"), "\(transcript)")
      #expect(stage.faults.isEmpty, "\(stage.faults)")
    }
  }

  @Test(arguments: ["Basic dTpw", "Bearer ntlm", "Digest username=\"negotiate\""])
  func aRequestThatIsAuthenticatedLeavesItsConnectionToOthers(authorization: String) {
    let stage = Stage(plainPolicy, .whole)
    let transcript = stage.play([.client(Self.request(authorization)), .opened, .upstream(ok)])
    #expect(transcript.hasSuffix("end (200): client keep, upstream kept"), "\(transcript)")
  }

  @Test func aConnectionThatIsAuthenticatedIsNotTriedAgain() {
    let stage = Stage(plainPolicy, .whole)
    let transcript = stage.play([.client(Self.request("NTLM x")), .reused, .upstreamEnds])
    #expect(transcript.contains("< HTTP/1.1 502 connection-closed"), "\(transcript)")
  }

  @Test(
    arguments: [
      (["WWW-Authenticate: NTLM"], false), (["WWW-Authenticate: Negotiate"], false),
      (["www-authenticate: negotiate x"], false),
      (["WWW-Authenticate: Basic realm=\"x\"", "WWW-Authenticate: NTLM"], false),
      (["WWW-Authenticate: Basic"], true),
      (["Proxy-Connection: NTLM"], true), ([], true),
    ] as [([String], Bool)]) func aChallengeForTheConnectionEndsIt(lines: [String], isKept: Bool)
  {
    let response =
      "HTTP/1.1 401 Unauthorized\r\nDate: today\r\nContent-Length: 0\r\n" + lines.map { $0 + "\r\n" }.joined()
      + "\r\n"
    let stage = Stage(plainPolicy, .whole)
    let transcript = stage.play([.client(get), .opened, .upstream(response)])
    #expect(transcript.hasSuffix("client keep, upstream \(isKept ? "kept" : "closed")"), "\(transcript)")
  }

  @Test func theNextRequestIsNotBound() {
    let stage = Stage(plainPolicy, .whole)
    let transcript = stage.play([
      .client(Self.request("NTLM x")), .opened, .upstream(ok), .client(get), .reused, .upstreamEnds, .opened,
      .upstream(ok),
    ])
    #expect(transcript.contains("connect a.example:80 once more"), "\(transcript)")
    #expect(transcript.hasSuffix("end (200): client keep, upstream kept"), "\(transcript)")
  }

  // MARK: Trailers

  private static func post(_ trailers: String, connection: String = "x") -> String {
    head(
      "POST http://a.example/ HTTP/1.1", "Host: a.example", "Connection: \(connection)",
      "Transfer-Encoding: chunked")
      + "1\r\nx\r\n0\r\n" + trailers + "\r\n"
  }

  @Test func whereConnectionNamesFieldsNoTrailerPasses() {
    play(
      .client(Self.post("X-Sum: 1\r\nX-Mine: 2\r\n", connection: "x-mine")), .opened,
      .upstream(
        head("HTTP/1.1 200 OK", "Date: today", "Connection: x-mine", "Transfer-Encoding: chunked")
          + "1\r\ny\r\n0\r\nX-Mine: 3\r\n\r\n"),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Transfer-Encoding: chunked
        > chunked: x
        > last chunk
        > trailer X-Sum: 1
        < HTTP/1.1 200 OK …
        < Transfer-Encoding: chunked
        < chunked: y
        < last chunk
        end (200): client keep, upstream kept
        """#)
  }

  @Test func whereItNamesNoneTheyPass() {
    play(
      .client(Self.post("X-Sum: 1\r\n", connection: "keep-alive, TE")), .opened,
      .upstream(
        head("HTTP/1.1 200 OK", "Date: today", "Connection: keep-alive", "Transfer-Encoding: chunked")
          + "1\r\ny\r\n0\r\nX-Mine: 3\r\n\r\n"),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > Transfer-Encoding: chunked
        > chunked: x
        > last chunk
        > trailer X-Sum: 1
        < HTTP/1.1 200 OK …
        < Transfer-Encoding: chunked
        < Connection: keep-alive
        < chunked: y
        < last chunk
        < trailer X-Mine: 3
        end (200): client keep, upstream kept
        """#)
  }

  @Test func whatARuleTakesOutOfTheHeadDoesNotComeInAsATrailer() {
    play(
      .client(
        head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked")
          + "0\r\nX-Gone: 1\r\nCookie: c\r\nx-client: mine\r\nX-Sum: 2\r\n\r\n"), .opened, .upstream(ok),
      policy: policy(
        """
        [defaults.request]
        headers.remove = ["X-Gone"]
        headers.set = { X-Client = "kiosk" }
        cookies = false
        """),
      gives: #"""
        connect a.example:80
        > POST / HTTP/1.1 …
        > X-Client: kiosk
        > Transfer-Encoding: chunked
        > last chunk
        > trailer X-Sum: 2
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }
}

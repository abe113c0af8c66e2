// `redirects` over whole conversations: what reaches the client, what is refused and with what words, and what is only reported.

import Testing

@testable import Session

@Suite struct RedirectsTests {
  private static func leading(_ location: String, status: Int = 302) -> String {
    head("HTTP/1.1 \(status) x", "Date: today", "Location: \(location)", "Content-Length: 0")
  }

  private static func rule(_ redirects: String, _ more: String = "") -> String {
    "[[rule]]\nname = \"r\"\nredirects = \"\(redirects)\"\n\(more)"
  }

  @Test func whatLeadsElsewhereIsRefusedWithItsReason() {
    play(
      .client(get), .opened, .upstream(Self.leading("http://u:p@b.example/y?token=1")),
      policy: policy(Self.rule("same-host")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 redirect-refused rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 529
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=302; details="The
             response of http://a.example/x: expected a redirect within http://a.example:80 (redirects
             = \\"same-host\\"), seen Location 'http://b.example/y'."; rule="r"
        <
        < content: {"type":"urn:sallyport:problem:redirect-refused","title":"The response leads to
             where the policy does not allow","status":502,"detail":"The response of
             http://a.example/x: expected a redirect within http://a.example:80 (redirects =
             \\"same-host\\"), seen Location 'http://b.example/y'.","rule":"r","error":"http_protocol_er
            ror","nsurlError":-1010,"expected":"a redirect within http://a.example:80 (redirects =
             \\"same-host\\")","seen":"Location 'http://b.example/y'","upstream":{"status":302,"type":nu
            ll,"text":null},"ref":"REF001"}\n
        end (502 redirect-refused): client keep, upstream kept
        """#)
  }

  @Test func whatStaysPasses() {
    play(
      .client(get), .opened, .upstream(Self.leading("/y")), policy: policy(Self.rule("same-host")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 302 x …
        < Location: /y
        < Content-Length: 0
        end (302): client keep, upstream kept
        """#)
  }

  @Test func twoLocationsAreRefused() {
    play(
      .client(get), .opened,
      .upstream(head("HTTP/1.1 302 x", "Date: today", "Location: /a", "Location: /a", "Content-Length: 0")),
      policy: policy(Self.rule("same-scheme")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 redirect-refused rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 481
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=302; details="The
             response of http://a.example/x: expected a redirect to http (redirects =
             \\"same-scheme\\"), seen more than one Location."; rule="r"
        <
        < content: {"type":"urn:sallyport:problem:redirect-refused","title":"The response leads to
             where the policy does not allow","status":502,"detail":"The response of
             http://a.example/x: expected a redirect to http (redirects = \\"same-scheme\\"), seen more
             than one Location.","rule":"r","error":"http_protocol_error","nsurlError":-1010,"expected":
            "a redirect to http (redirects = \\"same-scheme\\")","seen":"more than one
             Location","upstream":{"status":302,"type":null,"text":null},"ref":"REF001"}\n
        end (502 redirect-refused): client keep, upstream kept
        """#)
  }

  @Test func aLocationOf201IsNoRedirect() {
    play(
      .client(get), .opened, .upstream(Self.leading("https://b.example/", status: 201)),
      policy: policy(Self.rule("deny")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 201 x …
        < Location: https://b.example/
        < Content-Length: 0
        end (201): client keep, upstream kept
        """#)
  }

  /// A client may act on the fields of an informational response, too.
  @Test func aRefreshOf103IsOne() {
    let lines = outline(
      [
        .client(get), .opened,
        .upstream(
          head("HTTP/1.1 103 Early Hints", "Link: </a.css>")
            + head("HTTP/1.1 103 x", "Refresh: 0; url=https://b.example/")),
      ], policy: policy(Self.rule("same-host")))
    #expect(lines.contains { $0.hasPrefix("< HTTP/1.1 103") }, "\(lines)")
    #expect(lines.contains { $0.hasPrefix("end (502 redirect-refused)") }, "\(lines)")
    #expect(!lines.contains { $0.contains("Refresh: 0") }, "\(lines)")
  }

  @Test func aRefreshOf200IsOne() {
    play(
      .client(get), .opened,
      .upstream(
        head("HTTP/1.1 200 x", "Date: today", "Refresh: 0; url=https://b.example/", "Content-Length: 2") + "ok"),
      policy: policy(Self.rule("same-host")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 redirect-refused rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 541
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=200; details="The
             response of http://a.example/x: expected a redirect within http://a.example:80 (redirects
             = \\"same-host\\"), seen Refresh '0; url=https://b.example/'."; rule="r"
        <
        < content: {"type":"urn:sallyport:problem:redirect-refused","title":"The response leads to
             where the policy does not allow","status":502,"detail":"The response of
             http://a.example/x: expected a redirect within http://a.example:80 (redirects =
             \\"same-host\\"), seen Refresh '0; url=https://b.example/'.","rule":"r","error":"http_proto
            col_error","nsurlError":-1010,"expected":"a redirect within http://a.example:80 (redirects
             = \\"same-host\\")","seen":"Refresh '0; url=https://b.example/'","upstream":{"status":200,"
            type":null,"text":null},"ref":"REF001"}\n
        end (502 redirect-refused): client keep, upstream closed
        """#)
  }

  @Test func aRuleThatIsNotEnforcedReports() {
    play(
      .client(get), .opened, .upstream(Self.leading("https://b.example/")),
      policy: policy(Self.rule("deny", "enforce = false")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 302 x …
        < Location: https://b.example/
        < Content-Length: 0
        end (302): client keep, upstream kept
        """#)
  }

  @Test func aFoldedLocationIsJudgedAsTheClientGetsIt() {
    play(
      .client(get), .opened,
      .upstream("HTTP/1.1 302 x\r\nDate: today\r\nLocation: /\r\n /b.example\r\nContent-Length: 0\r\n\r\n"),
      policy: policy(Self.rule("same-host")),
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 502 redirect-refused rule=r ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 517
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=302; details="The
             response of http://a.example/x: expected a redirect within http://a.example:80 (redirects
             = \\"same-host\\"), seen Location '/ /b.example'."; rule="r"
        <
        < content: {"type":"urn:sallyport:problem:redirect-refused","title":"The response leads to
             where the policy does not allow","status":502,"detail":"The response of
             http://a.example/x: expected a redirect within http://a.example:80 (redirects =
             \\"same-host\\"), seen Location '/ /b.example'.","rule":"r","error":"http_protocol_error","
            nsurlError":-1010,"expected":"a redirect within http://a.example:80 (redirects =
             \\"same-host\\")","seen":"Location '/ /b.example'","upstream":{"status":302,"type":null,"te
            xt":null},"ref":"REF001"}\n
        end (502 redirect-refused): client keep, upstream closed
        """#)
  }
}

// `target` over whole conversations: where a request goes and as what, what the program is told of the answer, and what is denied.

import Policy
import Testing

@testable import Session

@Suite struct MappedRequestTests {
  private static func mapped(_ target: String = "https://real.example/v2/", _ more: String = "") -> Policy {
    policy("[[rule]]\nname = \"api\"\nhosts = [\"api\"]\ntarget = \"\(target)\"\n\(more)")
  }

  private static func get(_ url: String, _ more: String...) -> String {
    head("GET \(url) HTTP/1.1", "Host: api", more.joined(separator: "\r\n"))
      .replacing("\r\n\r\n\r\n", with: "\r\n\r\n")
  }

  @Test func aRequestGoesToTheTarget() {
    play(
      .client(Self.get("http://api/users?id=1")), .opened, .upstream(ok), .client(Self.get("http://api")), .opened,
      .upstream(ok), policy: Self.mapped(),
      gives: #"""
        connect real.example:443 under TLS
        > GET /v2/users?id=1 HTTP/1.1 to real.example …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept, assurance exact
        connect real.example:443 under TLS
        > GET /v2/ HTTP/1.1 to real.example …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept, assurance exact
        """#)
  }

  @Test func aPortOfTheTargetStandsInHost() {
    play(
      .client(Self.get("http://api:8080/x")), .opened, .upstream(ok), policy: Self.mapped("http://real.example:81"),
      gives: #"""
        connect real.example:81
        > GET /x HTTP/1.1 to real.example:81 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func parametersFollowTheQuery() {
    play(
      .client(Self.get("http://api/x?a=1")), .opened, .upstream(ok),
      policy: Self.mapped("https://real.example/v2", "request.parameters = { k = 1 }"),
      gives: #"""
        connect real.example:443 under TLS
        > GET /v2/x?a=1&k=1 HTTP/1.1 to real.example …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept, assurance exact
        """#)
  }

  @Test func aBodyThatIsCollectedGoesThereToo() {
    play(
      .client(
        head(
          "POST http://api/x HTTP/1.1", "Host: api", "Content-Type: application/x-www-form-urlencoded",
          "Content-Length: 3") + "a=1"), .opened, .upstream(ok),
      policy: Self.mapped("https://real.example/v2", "request.serializer = \"json\"\nrequest.transcode = true"),
      gives: #"""
        connect real.example:443 under TLS
        > POST /v2/x HTTP/1.1 to real.example …
        > Content-Type: application/json
        > Content-Length: 9
        > content: {"a":"1"}
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept, assurance exact
        """#)
  }

  @Test func whatTheTargetSaysOfItselfIsToldOfTheShortName() {
    play(
      .client(Self.get("http://api/login")), .opened,
      .upstream(
        head(
          "HTTP/1.1 302 x", "Date: today", "Location: https://real.example/v2/home?a#b",
          "Set-Cookie: s=1; Domain=real.example; Path=/v2; Secure; HttpOnly", "Strict-Transport-Security: max-age=9",
          "Content-Length: 0")),
      policy: Self.mapped(),
      gives: #"""
        connect real.example:443 under TLS
        > GET /v2/login HTTP/1.1 to real.example …
        < HTTP/1.1 302 x …
        < Content-Length: 0
        < Location: http://api/home?a#b
        < Set-Cookie: s=1; Path=/; HttpOnly
        end (302): client keep, upstream kept, assurance exact
        """#)
  }

  @Test func aPathThatLeadsOutIsDenied() {
    play(
      .client(Self.get("http://api/..%2fadmin")), policy: Self.mapped(),
      gives: #"""
        < HTTP/1.1 403 denied rule=api ref=REF001 …
        < problem: Rule api sends requests below https://real.example/v2/; the path, read as /admin
             (decoded, dot segments removed), leads out of it. {"reason":"outside-target","expected":"a
             path below https://real.example/v2/","seen":"/admin (decoded, dot segments removed)"}
        end (403 denied): client keep
        """#)
  }

  @Test func aRuleThatDeniesTheTargetDenies() {
    play(
      .client(Self.get("http://api/admin")),
      policy: Self.mapped(
        "https://real.example/v2",
        "[[rule]]\nname = \"no\"\nhosts = [\"real.example\"]\npaths = [\"/v2/admin\"]\naction = \"deny\""),
      gives: #"""
        < HTTP/1.1 403 denied rule=no ref=REF001 …
        < problem: The request would go to https://real.example/v2/admin, and rule no denies that.
             {"reason":"rule-denies"}
        end (403 denied): client keep
        """#)
  }

  @Test func theAddressOfTheTargetIsJudged() {
    play(
      .client(Self.get("http://api/")), policy: Self.mapped("http://169.254.1.1/"),
      gives: #"""
        < HTTP/1.1 403 address-denied rule=api ref=REF001 …
        < problem: 169.254.1.1 is in 169.254.0.0/16, which deny_addresses lists.
             {"reason":"address-denied"}
        end (403 address-denied): client keep
        """#)
  }

  @Test func aTunnelGoesWhereItIsAskedFor() {
    play(
      .client(head("CONNECT api:443 HTTP/1.1", "Host: api:443")), .failed(.nameNotFound, "No such name."),
      policy: Self.mapped(),
      gives: #"""
        connect api:443 for a tunnel
        < HTTP/1.1 502 name-not-found rule=api ref=REF001 …
        < problem: No such name.
        end (502 name-not-found): client keep
        """#)
  }

  @Test func redirectsAreJudgedAgainstTheTarget() {
    play(
      .client(Self.get("http://api/x")), .opened,
      .upstream(head("HTTP/1.1 302 x", "Date: today", "Location: https://real.example/v2/y", "Content-Length: 0")),
      .client(Self.get("http://api/x")), .opened,
      .upstream(head("HTTP/1.1 302 x", "Date: today", "Location: http://api/y", "Content-Length: 0")),
      policy: Self.mapped("https://real.example/v2", "redirects = \"same-host\""),
      gives: #"""
        connect real.example:443 under TLS
        > GET /v2/x HTTP/1.1 to real.example …
        < HTTP/1.1 302 x …
        < Content-Length: 0
        < Location: http://api/y
        end (302): client keep, upstream kept, assurance exact
        connect real.example:443 under TLS
        > GET /v2/x HTTP/1.1 to real.example …
        < HTTP/1.1 502 redirect-refused rule=api ref=REF002
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 523
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=302; details="The
             response of http://api/x: expected a redirect within https://real.example:443 (redirects =
             \\"same-host\\"), seen Location 'http://api/y'."; rule="api"
        <
        < content: {"type":"urn:sallyport:problem:redirect-refused","title":"The response leads to
             where the policy does not allow","status":502,"detail":"The response of http://api/x:
             expected a redirect within https://real.example:443 (redirects = \\"same-host\\"), seen
             Location 'http://api/y'.","rule":"api","error":"http_protocol_error","nsurlError":-1010,"ex
            pected":"a redirect within https://real.example:443 (redirects =
             \\"same-host\\")","seen":"Location 'http://api/y'","upstream":{"status":302,"type":null,"te
            xt":null},"ref":"REF002"}\n
        end (502 redirect-refused): client keep, upstream kept, assurance exact
        """#)
  }

  // MARK: URLs

  @Test(arguments: [
    ("https://real.example/v2/x?a#b", "http://api/x?a#b"), ("https://REAL.example:443/v2/", "http://api/"),
    ("https://real.example/v2", "http://api/"), ("https://real.example/v2?x", "http://api/?x"), ("/v2/x", "/x"),
    ("/v2", "/"),
    ("/v2/x?u=/v2/", "/x?u=/v2/"), ("/login", "https://real.example/login"), ("/", "https://real.example/"),
    ("/v2/../x", "https://real.example/v2/../x"), ("/v2//b.example/", "https://real.example/v2//b.example/"),
    ("/v22/x", "https://real.example/v22/x"), ("https://real.example/login", nil),
    ("https://real.example/v2/..%2fx", nil),
    ("https://real.example/v2//b.example/", nil), ("http://real.example/v2/x", nil),
    ("https://real.example:8443/v2/x", nil),
    ("https://other.example/v2/x", nil), ("https://u@real.example/v2/x", nil), ("//real.example/v2/x", nil), ("x", nil),
    ("../x", nil),
    ("?x", nil), ("", nil), ("https://real.example\\/v2/x", nil), ("/v2/x y", nil),
  ]) func aURLIsToldOfTheShortName(reference: String, expected: String?) throws {
    let target = try #require(Self.mapped().rules[0].target)
    let told = FieldTranslation.mappedURL(Array(reference.utf8).span, target, place: Array("http://api".utf8))
    #expect(told.map { String(decoding: $0, as: UTF8.self) } == expected)
  }
}

// Requests that are judged and decided: rules, addresses, credentials, loops, and what is for the proxy itself.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct RequestDecisionTests {
  // MARK: Rules

  static let rules = policy(
    """
    [[rule]]
    name = "shut"
    hosts = ["**.shut.example"]
    action = "deny"
    reason = "This host is \\"closed\\" for now"
    [[rule]]
    name = "quiet"
    hosts = ["quiet.example"]
    action = "deny"
    enforce = false
    [[rule]]
    name = "no-tunnels"
    hosts = ["plain.example"]
    connect = "deny"
    [[rule]]
    name = "readers"
    hosts = ["read.example"]
    methods = ["GET"]
    paths = ["/open/*"]
    [[rule]]
    name = "rest"
    hosts = ["read.example"]
    action = "deny"
    [[rule]]
    name = "edits"
    hosts = ["edit.example"]
    [rule.request]
    headers.default = { Accept-Language = "en", X-Default = "d" }
    headers.set = { X-Client = "kiosk-7", X-Token = "s3cret" }
    headers.remove = ["X-Gone"]
    user_agent = "Sallyport"
    authorization = { username = "u", password = "p4ss" }
    cookies = false
    """)

  @Test func aRuleDenies() {
    play(
      .client(head("GET http://a.shut.example/?token=s3cret HTTP/1.1", "Host: a.shut.example")),
      policy: Self.rules,
      gives: #"""
        < HTTP/1.1 403 denied rule=shut ref=REF001 …
        < problem: This host is \\"closed\\" for now {"reason":"rule-denies"}
        end (403 denied): client keep
        """#)
  }

  @Test func aRuleThatIsNotEnforcedDeniesNothing() {
    play(
      .client(head("GET http://quiet.example/ HTTP/1.1", "Host: quiet.example")), .opened, .upstream(ok),
      policy: Self.rules,
      gives: #"""
        connect quiet.example:80
        > GET / HTTP/1.1 to quiet.example …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aTunnelIsDeniedAndTheConnectionStays() {
    play(
      .client(head("CONNECT plain.example:443 HTTP/1.1", "Host: plain.example:443")),
      .client(head("GET http://plain.example/ HTTP/1.1", "Host: plain.example")), .opened, .upstream(ok),
      policy: Self.rules,
      gives: #"""
        < HTTP/1.1 403 denied rule=no-tunnels ref=REF001 …
        < problem: Rule no-tunnels denies tunnels to this host. {"reason":"connect-denied"}
        end (403 denied): client keep
        connect plain.example:80
        > GET / HTTP/1.1 to plain.example …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func methodsAndPathsAreHeldAgainstTheRequest() {
    play(
      .client(head("GET http://read.example/open/x?y HTTP/1.1", "Host: read.example")), .opened,
      .upstream(ok),
      .client(head("GET http://read.example/shut HTTP/1.1", "Host: read.example")), policy: Self.rules,
      gives: #"""
        connect read.example:80
        > GET /open/x?y HTTP/1.1 to read.example …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        < HTTP/1.1 403 denied rule=rest ref=REF002 …
        < problem: Rule rest denies this request. {"reason":"rule-denies"}
        end (403 denied): client keep
        """#)
  }

  @Test func whatNoRuleAllowsIsDeniedByDefault() {
    play(
      .client(head("GET http://a.example/ HTTP/1.1", "Host: a.example")),
      policy: policy("[proxy]\ndefault = \"deny\""),
      gives: #"""
        < HTTP/1.1 403 denied ref=REF001 …
        < problem: No rule allows this request, and the default is to deny. {"reason":"default-denies"}
        end (403 denied): client keep
        """#)
  }

  @Test func aRuleEditsTheHead() {
    play(
      .client(
        head(
          "GET http://edit.example/ HTTP/1.1", "Host: edit.example", "User-Agent: curl", "x-client: mine",
          "X-DEFAULT: mine", "X-Gone: 1", "Cookie: a=b", "x-gone: 2", "Authorization: Bearer mine",
          "Accept: */*",
          "cookie: c=d")), .opened,
      .upstream(
        head(
          "HTTP/1.1 200 OK", "Date: today", "Set-Cookie: a=b", "X: y", "set-cookie: c=d", "Content-Length: 2")
          + "ok"), policy: Self.rules,
      gives: #"""
        connect edit.example:80
        > GET / HTTP/1.1 to edit.example …
        > X-DEFAULT: mine
        > Accept: */*
        > X-Client: kiosk-7
        > X-Token: s3cret
        > User-Agent: Sallyport
        > Authorization: Basic dTpwNHNz
        > Accept-Language: en
        < HTTP/1.1 200 OK …
        < X: y
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func cookiesAreRemovedFromTrailersAndInterimResponsesToo() {
    play(
      .client(head("GET http://edit.example/ HTTP/1.1", "Host: edit.example")), .opened,
      .upstream(head("HTTP/1.1 103 Early Hints", "Set-Cookie: e=f", "Link: </a>")),
      .upstream(
        head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked")
          + "0\r\nSet-Cookie: a=b\r\nX-Sum: 1\r\n\r\n"), policy: Self.rules,
      gives: #"""
        connect edit.example:80
        > GET / HTTP/1.1 to edit.example …
        > X-Client: kiosk-7
        > X-Token: s3cret
        > User-Agent: Sallyport
        > Authorization: Basic dTpwNHNz
        > Accept-Language: en
        > X-Default: d
        < HTTP/1.1 103 Early Hints …
        < Link: </a>
        < HTTP/1.1 200 OK …
        < Transfer-Encoding: chunked
        < last chunk
        < trailer X-Sum: 1
        end (200): client keep, upstream kept
        """#)
  }

  @Test func defaultsOfAllRequestsApplyWhereNoRuleMatches() {
    play(
      .client(head("GET http://a.example/ HTTP/1.1", "Host: a.example", "Accept-Language: de")), .opened,
      .upstream(ok),
      policy: policy("[defaults.request]\nheaders.default = { Accept-Language = \"en\", X-A = \"b\" }"),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        > Accept-Language: de
        > X-A: b
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aDefaultStandsInForAFieldThatConnectionTakesAway() {
    play(
      .client(
        head("GET http://a.example/ HTTP/1.1", "Host: a.example", "X-A: mine", "Connection: x-a")), .opened,
      .upstream(ok), policy: policy("[defaults.request]\nheaders.default = { X-A = \"b\" }"),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        > X-A: b
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func theRuleOfARequestUnderWayIsThatOfItsPolicy() {
    let before = policy("[[rule]]\nname = \"old\"\n[rule.request]\nheaders.set = { X-Policy = \"old\" }")
    let after = policy("[[rule]]\nname = \"new\"\n[rule.request]\nheaders.set = { X-Policy = \"new\" }")
    play(
      .client(get), .reload(after), .opened, .upstream(ok), .client(get), .opened, .upstream(ok),
      policy: before,
      gives: #"""
        connect a.example:80
        > GET /x HTTP/1.1 …
        > X-Policy: old
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect a.example:80
        > GET /x HTTP/1.1 …
        > X-Policy: new
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  // MARK: Addresses

  @Test func aLiteralAddressThatIsDeniedIsNeverConnectedTo() {
    play(
      .client(head("GET http://169.254.169.254/latest HTTP/1.1", "Host: x")),
      gives: #"""
        < HTTP/1.1 403 address-denied ref=REF001 …
        < problem: 169.254.169.254 is in 169.254.0.0/16, which deny_addresses lists.
             {"reason":"address-denied"}
        end (403 address-denied): client keep
        """#)
  }

  @Test(arguments: [
    "http://169.254.1.1/", "http://[fe80::1]/", "http://224.0.0.1/", "http://255.255.255.255/",
    "http://[ff02::1]/",
    "http://0.0.0.0/", "http://0.1.2.3/", "http://[::]/", "http://[::ffff:169.254.1.1]/",
    "http://[64:ff9b::a9fe:101]/",
    "http://[2002:a9fe:101::]/", "http://169.254.1.1./",
  ]) func aDeniedAddressIsSeenInEveryForm(target: String) {
    let stage = Stage(plainPolicy, .whole)
    let transcript = stage.play([.client(head("GET \(target) HTTP/1.1", "Host: x"))])
    #expect(transcript.contains("< HTTP/1.1 403 address-denied ref=REF001\n"), "\(transcript)")
    #expect(transcript.contains("error=destination_ip_prohibited"), "\(transcript)")
    #expect(!transcript.contains("connect "), "\(transcript)")
  }

  @Test func aRuleHasItsOwnDeniedAddresses() {
    let policy = policy(
      """
      [[rule]]
      name = "metadata"
      hosts = ["169.254.169.254"]
      deny_addresses = []
      [[rule]]
      name = "inside"
      deny_addresses = ["private"]
      """)
    play(
      .client(head("GET http://169.254.169.254/ HTTP/1.1", "Host: x")), .opened, .upstream(ok),
      .client(head("CONNECT 10.1.2.3:443 HTTP/1.1", "Host: x")), policy: policy,
      gives: #"""
        connect 169.254.169.254:80
        > GET / HTTP/1.1 to 169.254.169.254 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        < HTTP/1.1 403 address-denied rule=inside ref=REF002 …
        < problem: 10.1.2.3 is in 10.0.0.0/8, which deny_addresses lists. {"reason":"address-denied"}
        end (403 address-denied): client keep
        """#)
  }

  // MARK: Who asks

  static let credentials = policy("[proxy]\ncredentials = \"kiosk:s3cret\\nother:pass\"")

  @Test func withoutCredentialsTheProxyAsksForThem() {
    play(
      .client(get),
      .client(head("GET http://a.example/ HTTP/1.1", "Host: a", "Proxy-Authorization: Basic a2lvc2s6eA==")),
      policy: Self.credentials,
      gives: #"""
        < HTTP/1.1 407 authentication-required ref=REF001 …
        < Proxy-Authenticate: Basic realm="sallyport", charset="UTF-8"
        < problem: Proxy-Authorization with Basic credentials that the proxy knows was expected.
        end (407 authentication-required): client keep
        < HTTP/1.1 407 authentication-required ref=REF002 …
        < Proxy-Authenticate: Basic realm="sallyport", charset="UTF-8"
        < problem: Proxy-Authorization with Basic credentials that the proxy knows was expected.
        end (407 authentication-required): client keep
        """#)
  }

  /// Another proxy may take the other one for what its client is.
  @Test func ofTwoCredentialsNoneCounts() {
    let right = "Proxy-Authorization: Basic a2lvc2s6czNjcmV0"
    let lines = outline(
      [.client(head("GET http://a.example/ HTTP/1.1", "Host: a", right, right))], policy: Self.credentials)
    #expect(lines.first?.hasPrefix("< HTTP/1.1 407 authentication-required") ?? false, "\(lines)")
  }

  @Test func withCredentialsTheRequestGoesOnWithoutThem() {
    play(
      .client(
        head("GET http://a.example/ HTTP/1.1", "Host: a", "Proxy-Authorization: Basic a2lvc2s6czNjcmV0")),
      .opened,
      .upstream(ok), policy: Self.credentials,
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aTunnelNeedsCredentialsToo() {
    play(
      .client(head("CONNECT a.example:443 HTTP/1.1", "Host: a")), policy: Self.credentials,
      gives: #"""
        < HTTP/1.1 407 authentication-required ref=REF001 …
        < Proxy-Authenticate: Basic realm="sallyport", charset="UTF-8"
        < problem: Proxy-Authorization with Basic credentials that the proxy knows was expected.
        end (407 authentication-required): client keep
        """#)
  }

  @Test func aBodyBehindARequestWithoutCredentialsIsNotReadAsARequest() {
    play(
      .client(head("POST http://a.example/ HTTP/1.1", "Host: a", "Content-Length: 60") + get),
      policy: Self.credentials,
      gives: #"""
        < HTTP/1.1 407 authentication-required ref=REF001 …
        < Proxy-Authenticate: Basic realm="sallyport", charset="UTF-8"
        < Connection: close
        < problem: Proxy-Authorization with Basic credentials that the proxy knows was expected.
        end (407 authentication-required): client linger
        """#)
  }

  // MARK: Loops

  @Test func aRequestThatComesBackIsRefused() {
    play(
      .client(
        head("GET http://a.example/ HTTP/1.1", "Host: a", "Via: 1.1 sallyport (7F3K2A9Q), 1.1 b")),
      gives: #"""
        < HTTP/1.1 502 loop ref=REF001 …
        < problem: The request has passed through this proxy already, as its Via field says.
        end (502 loop): client keep
        """#)
  }

  @Test func aRequestOfAnotherProxyOfThisNameGoesOn() {
    play(
      .client(head("GET http://a.example/ HTTP/1.1", "Host: a", "Via: 1.1 sallyport (7F3K2A9R)")),
      .opened,
      .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        > Via: 1.1 sallyport (7F3K2A9R)
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aLoopOverProxiesThatStripCommentsEnds() {
    let names = [String](repeating: "1.1 sallyport", count: 8).joined(separator: ", ")
    for (more, ends) in [("1.1 strips", false), ("1.0 sallyport", true)] {
      let request = head("GET http://a.example/ HTTP/1.1", "Host: a", "Via: \(names)", "Via: \(more)")
      let outline = outline([.client(request)] + (ends ? [] : [.opened, .upstream(ok)]))
      #expect(outline.first == (ends ? "< HTTP/1.1 502 loop" : "connect a.example:80"), "\(outline)")
    }
  }

  /// Over an http parent a tunnel may come back too.
  @Test func aTunnelThatComesBackIsRefused() {
    for (mark, ends) in [("7F3K2A9Q", true), ("7F3K2A9R", false)] {
      let request = head("CONNECT a.example:443 HTTP/1.1", "Host: a", "Via: 1.1 sallyport (\(mark))")
      let outline = outline([.client(request)] + (ends ? [] : [.opened]))
      #expect(outline.first == (ends ? "< HTTP/1.1 502 loop" : "connect a.example:443 for a tunnel"), "\(outline)")
    }
  }

  @Test func aLoopCannotBeHiddenByConnection() {
    play(
      .client(
        head(
          "GET http://a.example/ HTTP/1.1", "Host: a", "Connection: via",
          "Via: 1.1 sallyport (7F3K2A9Q)")),
      gives: #"""
        < HTTP/1.1 502 loop ref=REF001 …
        < problem: The request has passed through this proxy already, as its Via field says.
        end (502 loop): client keep
        """#)
  }

  // MARK: For the proxy itself

  @Test func optionsOfTheProxy() {
    play(
      .client(head("OPTIONS * HTTP/1.1", "Host: proxy") + head("OPTIONS * HTTP/1.0")),
      gives: #"""
        < HTTP/1.1 200 OK
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Allow: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE
        < Content-Length: 0
        <
        end (200): client keep
        < HTTP/1.1 200 OK
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Allow: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE
        < Content-Length: 0
        < Connection: close
        <
        end (200): client linger
        """#)
  }

  @Test func optionsOfAnOrigin() {
    play(
      .client(head("OPTIONS http://a.example HTTP/1.1", "Host: a.example")), .opened, .upstream(ok),
      .client(head("OPTIONS http://a.example/x HTTP/1.1", "Host: a.example")), .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > OPTIONS * HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect a.example:80
        > OPTIONS /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func anHTTP10ClientOfTheProxyIsToldThatItsConnectionEnds() {
    play(
      .client(head("OPTIONS * HTTP/1.0", "Connection: keep-alive")),
      gives: #"""
        < HTTP/1.1 200 OK
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Allow: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE
        < Content-Length: 0
        < Connection: close
        <
        end (200): client linger
        """#)
    play(
      .client(head("GET http://169.254.1.1/ HTTP/1.0", "Connection: keep-alive")),
      gives: #"""
        < HTTP/1.1 403 address-denied ref=REF001 …
        < Connection: close
        < problem: 169.254.1.1 is in 169.254.0.0/16, which deny_addresses lists.
             {"reason":"address-denied"}
        end (403 address-denied): client linger
        """#)
  }

  @Test func optionsWithABodyEndTheConnection() {
    play(
      .client(head("OPTIONS * HTTP/1.1", "Host: proxy", "Content-Length: 60") + get),
      gives: #"""
        < HTTP/1.1 200 OK
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Allow: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE
        < Content-Length: 0
        < Connection: close
        <
        end (200): client linger
        """#)
  }

  @Test func maxForwardsIsCountedDown() {
    play(
      .client(head("OPTIONS http://a.example/ HTTP/1.1", "Host: a", "max-forwards: 10")), .opened,
      .upstream(ok),
      .client(head("TRACE http://a.example/ HTTP/1.1", "Host: a", "Max-Forwards: 1")), .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > OPTIONS / HTTP/1.1 …
        > Max-Forwards: 9
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect a.example:80
        > TRACE / HTTP/1.1 …
        > Max-Forwards: 0
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func theLastRecipientAnswersOptions() {
    play(
      .client(head("OPTIONS http://a.example/ HTTP/1.1", "Host: a", "Max-Forwards: 0")),
      gives: #"""
        < HTTP/1.1 200 OK
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Allow: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE
        < Content-Length: 0
        <
        end (200): client keep
        """#)
  }

  @Test func theLastRecipientAnswersTraceWithoutSecrets() {
    play(
      .client(
        head(
          "TRACE http://a.example/x?y HTTP/1.1", "Host: a.example", "Max-Forwards: 0", "Cookie: s3cret",
          "X:  y", "Authorization: s3cret", "Proxy-Authorization: s3cret", "Via: 1.1 b")),
      gives: #"""
        < HTTP/1.1 200 OK
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: message/http
        < Content-Length: 92
        <
        < content: TRACE http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\nMax-Forwards: 0\r\nX: 
             y\r\nVia: 1.1 b\r\n\r\n
        end (200): client keep
        """#)
  }

  @Test func maxForwardsOfOtherMethodsIsLeftAsItIs() {
    play(
      .client(head("GET http://a.example/ HTTP/1.1", "Host: a", "Max-Forwards: 0")), .opened, .upstream(ok),
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        > Max-Forwards: 0
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func zeroIsZeroHoweverItIsWritten() {
    play(
      .client(head("OPTIONS http://a.example/ HTTP/1.1", "Host: a", "Max-Forwards: 00")),
      gives: #"""
        < HTTP/1.1 200 OK
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Allow: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE
        < Content-Length: 0
        <
        end (200): client keep
        """#)
  }

  @Test(arguments: ["", "x", "-1", "1 1", "4294967296", "18446744073709551616", "1, 2"])
  func aMaxForwardsThatIsNoSmallNumberIsLeftAsItIs(value: String) {
    let stage = Stage(plainPolicy, .whole)
    let transcript = stage.play([
      .client(head("OPTIONS http://a.example/ HTTP/1.1", "Host: a", "Max-Forwards: \(value)")), .opened,
    ])
    let line = value.isEmpty ? "Max-Forwards:" : "Max-Forwards: \(value)"
    #expect(transcript.contains("> \(line)"), "\(transcript)")
    #expect(stage.faults.isEmpty, "\(stage.faults)")
  }
}

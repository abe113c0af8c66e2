// Tunnels that the proxy reads: how they are granted, which requests are served inside, and what rules say of them.
//
// TLS is the server's, so that a play shows what is inside as it is: behind the 200 to CONNECT the client's bytes are
// those of its requests.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct InterceptedTunnelTests {
  static let opened = policy(
    """
    [[rule]]
    name = "shut"
    hosts = ["a.example"]
    paths = ["/shut/*"]
    action = "deny"
    [[rule]]
    name = "readers"
    hosts = ["a.example"]
    methods = ["POST"]
    schemes = ["https"]
    action = "deny"
    [[rule]]
    name = "plain"
    hosts = ["a.example"]
    paths = ["/plain"]
    schemes = ["http"]
    action = "deny"
    [[rule]]
    name = "open"
    hosts = ["**.example", "192.0.2.7", "2001:db8::7"]
    connect = "intercept"
    """)

  private static let inside = head("GET /x?y HTTP/1.1", "Host: a.example")
  /// What granting the tunnel to `authority` looks like.
  private static func granted(_ authority: String = "a.example:443") -> [String] {
    ["intercept \(authority)", "< HTTP/1.1 200 Connection established", "end (200): client intercept"]
  }

  private static func connecting(_ authority: String) -> String {
    head("CONNECT \(authority) HTTP/1.1", "Host: \(authority)")
  }

  // MARK: How it goes

  @Test func aRequestInside() {
    play(
      .client(connect), .client(Self.inside), .opened, .upstream(ok), .clientEnds, policy: Self.opened,
      gives: #"""
        intercept a.example:443
        < HTTP/1.1 200 Connection established
        <
        end (200): client intercept
        connect a.example:443 under TLS
        > GET /x?y HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept, assurance exact
        close
        """#)
  }

  @Test func requestsInsideFollowOneAnother() {
    let upload = head("PUT /up HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\n\r\n"
    let happenings: [Happening] = [
      // The first comes with CONNECT, as early as a client that does not wait for the 200 can send it.
      .client(connect + Self.inside + upload + Self.inside), .opened, .upstream(ok), .reused, .upstream(ok), .reused,
      .upstreamEnds, .opened, .upstream(ok),
    ]
    let request = ["> GET /x?y HTTP/1.1", "> Host: a.example"]
    let answer = ["< HTTP/1.1 200 OK", "end (200): client keep, upstream kept, assurance exact"]
    #expect(
      outline(happenings, policy: Self.opened)
        == Self.granted() + ["connect a.example:443 under TLS"] + request + answer
        + ["connect a.example:443 under TLS", "> PUT /up HTTP/1.1", "> Host: a.example"] + answer
        + ["connect a.example:443 under TLS"] + request + ["connect a.example:443 under TLS once more"] + request
        + answer)
  }

  @Test func whatTheAccessLogSays() {
    let stage = Stage(Self.opened, .whole)
    _ = stage.play([
      .client(Self.connecting("a.example:8443")), .client(Self.inside.replacing("a.example", with: "A.example")),
      .opened, .upstream(ok), .client(head("GET https://a.example:8443/z HTTP/1.1", "Host: a.example")), .opened,
      .upstream(ok), .client(head("OPTIONS * HTTP/1.1", "Host: a.example")), .opened, .upstream(ok),
      .client(head("GET /shut/?s3cret HTTP/1.1", "Host: a.example")),
    ])
    #expect(stage.faults == [])
    #expect(
      stage.entries.map(\.text) == [
        "CONNECT a.example:8443", "GET https://a.example:8443/x", "GET https://a.example:8443/z", "OPTIONS *",
        "GET https://a.example:8443/shut/",
      ])
    #expect(stage.entries.map(\.record.answer.status) == [200, 200, 200, 200, 403])
    #expect(stage.entries.map { $0.record.ruled.decision?.rule } == [3, 3, 3, 3, 0])
    #expect(stage.entries.map(\.record.way.assurance) == [nil, .exact, .exact, .exact, nil])
  }

  // MARK: Which host

  struct Asking: Sendable, CustomTestStringConvertible {
    let sentence: String
    var tunnel = "a.example:443"
    let request: String
    /// Request line and Host that leave; nil: none.
    let leaves: [String]?

    var testDescription: String { sentence }
  }

  static let served: [Asking] = [
    Asking(
      sentence: "in another case", request: head("GET / HTTP/1.1", "Host: A.EXAMPLE"),
      leaves: ["> GET / HTTP/1.1", "> Host: A.EXAMPLE"]),
    Asking(
      sentence: "with a dot at its end", request: head("GET / HTTP/1.1", "Host: a.example."),
      leaves: ["> GET / HTTP/1.1", "> Host: a.example."]),
    Asking(
      sentence: "without the dot of the tunnel", tunnel: "A.example.:443",
      request: head("GET / HTTP/1.1", "Host: a.example"), leaves: ["> GET / HTTP/1.1", "> Host: a.example"]),
    Asking(
      sentence: "with its port", request: head("GET / HTTP/1.1", "Host: a.example:443"),
      leaves: ["> GET / HTTP/1.1", "> Host: a.example:443"]),
    Asking(
      sentence: "with a port of its own", tunnel: "a.example:8443",
      request: head("GET / HTTP/1.1", "Host: a.example:8443"), leaves: ["> GET / HTTP/1.1", "> Host: a.example:8443"]),
    Asking(
      sentence: "without its port", tunnel: "a.example:8443", request: head("GET / HTTP/1.1", "Host: a.example"),
      leaves: ["> GET / HTTP/1.1", "> Host: a.example"]),
    Asking(
      sentence: "in an absolute target", request: head("GET https://a.example/p?q HTTP/1.1", "Host: a.example"),
      leaves: ["> GET /p?q HTTP/1.1", "> Host: a.example"]),
    Asking(
      sentence: "in an absolute target with a port of its own", tunnel: "a.example:8443",
      request: head("GET https://a.example:8443/p HTTP/1.1", "Host: a.example"),
      leaves: ["> GET /p HTTP/1.1", "> Host: a.example:8443"]),
    Asking(
      sentence: "in an absolute target in another case",
      request: head("GET HTTPS://A.example:443 HTTP/1.1", "Host: a.example"),
      leaves: ["> GET / HTTP/1.1", "> Host: A.example:443"]),
    // RFC 9112, 3.2.2: the target counts.
    Asking(
      sentence: "in an absolute target beside another Host",
      request: head("GET https://a.example/ HTTP/1.1", "Host: b.example"),
      leaves: ["> GET / HTTP/1.1", "> Host: a.example"]),
    Asking(
      sentence: "not at all, in HTTP/1.0", request: "GET /old HTTP/1.0\r\n\r\n",
      leaves: ["> GET /old HTTP/1.1", "> Host: a.example"]),
    Asking(
      sentence: "not at all, in HTTP/1.0 and at another port", tunnel: "a.example:8443",
      request: "GET /old HTTP/1.0\r\n\r\n", leaves: ["> GET /old HTTP/1.1", "> Host: a.example:8443"]),
    Asking(
      sentence: "in HTTP/1.0", request: head("GET / HTTP/1.0", "Host: a.example"),
      leaves: ["> GET / HTTP/1.1", "> Host: a.example"]),
    Asking(
      sentence: "for the server as a whole", request: head("OPTIONS * HTTP/1.1", "Host: a.example"),
      leaves: ["> OPTIONS * HTTP/1.1", "> Host: a.example"]),
    Asking(
      sentence: "an IPv4 address", tunnel: "192.0.2.7:443", request: head("GET / HTTP/1.1", "Host: 192.0.2.7"),
      leaves: ["> GET / HTTP/1.1", "> Host: 192.0.2.7"]),
    Asking(
      sentence: "an IPv6 address, written otherwise", tunnel: "[2001:db8::7]:443",
      request: head("GET / HTTP/1.1", "Host: [2001:DB8:0::0007]"),
      leaves: ["> GET / HTTP/1.1", "> Host: [2001:DB8:0::0007]"]),
  ]

  @Test(arguments: served) func theHostOfTheTunnelIsServed(asking: Asking) throws {
    let lines = outline(
      [.client(Self.connecting(asking.tunnel)), .client(asking.request), .opened], policy: Self.opened)
    #expect(Array(lines.dropFirst(4)) == asking.leaves)
    let begin = try #require(lines.count > 3 ? lines[3] : nil)
    let port = try #require(asking.tunnel.split(separator: ":").last)
    #expect(begin.hasPrefix("connect ") && begin.hasSuffix(":\(port) under TLS"), "\(begin)")
  }

  static let misdirected: [Asking] = [
    ("another host", "a.example:443", head("GET / HTTP/1.1", "Host: b.example")),
    ("a host below", "a.example:443", head("GET / HTTP/1.1", "Host: w.a.example")),
    ("a host above", "a.example:443", head("GET / HTTP/1.1", "Host: example")),
    ("another port", "a.example:443", head("GET / HTTP/1.1", "Host: a.example:8443")),
    ("the port of http", "a.example:443", head("GET / HTTP/1.1", "Host: a.example:80")),
    ("port 443 of another", "a.example:8443", head("GET / HTTP/1.1", "Host: a.example:443")),
    ("http", "a.example:443", head("GET http://a.example/ HTTP/1.1", "Host: a.example")),
    ("http at port 443", "a.example:443", head("GET http://a.example:443/ HTTP/1.1", "Host: a.example")),
    ("another host in the target", "a.example:443", head("GET https://b.example/ HTTP/1.1", "Host: a.example")),
    ("another port in the target", "a.example:443", head("GET https://a.example:444/ HTTP/1.1", "Host: a.example")),
    // RFC 9110, 4.2.2: without a port, it is that of the scheme.
    ("no port in the target", "a.example:8443", head("GET https://a.example/ HTTP/1.1", "Host: a.example:8443")),
    ("an empty port in the target", "a.example:8443", head("GET https://a.example:/ HTTP/1.1", "Host: a.example")),
    ("another host in HTTP/1.0", "a.example:443", head("GET / HTTP/1.0", "Host: b.example")),
    ("an address", "a.example:443", head("GET / HTTP/1.1", "Host: 192.0.2.7")),
    ("another address", "192.0.2.7:443", head("GET / HTTP/1.1", "Host: 192.0.2.8")),
    ("a name for an address", "192.0.2.7:443", head("GET / HTTP/1.1", "Host: a.example")),
    ("an address in disguise", "192.0.2.7:443", head("GET / HTTP/1.1", "Host: 0xc0000207")),
  ].map { Asking(sentence: $0.0, tunnel: $0.1, request: $0.2, leaves: nil) }

  @Test(arguments: misdirected) func anotherHostIsMisdirected(asking: Asking) {
    let lines = outline([.client(Self.connecting(asking.tunnel)), .client(asking.request)], policy: Self.opened)
    #expect(
      Array(lines.dropFirst(3)) == ["< HTTP/1.1 421 misdirected", "end (421 misdirected): client linger"])
  }

  @Test func aMisdirectedRequestIsToldWhatWasExpected() {
    play(
      .client(Self.connecting("a.example:8443")), .client(head("GET / HTTP/1.1", "Host: b.example:1")),
      policy: Self.opened,
      gives: #"""
        intercept a.example:8443
        < HTTP/1.1 200 Connection established
        <
        end (200): client intercept
        < HTTP/1.1 421 misdirected ref=REF002 …
        < Connection: close
        < problem: The request names b.example:1, and its tunnel was opened for https://a.example:8443.
        end (421 misdirected): client linger
        """#)
  }

  @Test(arguments: [
    Wire(head("CONNECT a.example:443 HTTP/1.1", "Host: a.example:443")), Wire(head("GET / HTTP/1.1")),
    Wire(head("GET / HTTP/1.1", "Host: a.example", "Host: a.example")), Wire(head("GET / HTTP/1.1", "Host:")),
    Wire(head("GET * HTTP/1.1", "Host: a.example")), Wire(head("GET ftp://a.example/ HTTP/1.1", "Host: a.example")),
    Wire(head("GET https://u@a.example/ HTTP/1.1", "Host: a.example")), Wire("\u{16}\u{3}\u{1}\u{2}"),
  ]) func whatIsNoRequestToAnOriginIsRefusedInside(wire: Wire) {
    let lines = outline([.client(connect), .client(wire.text)], policy: Self.opened)
    #expect(
      lines == Self.granted() + [
        "< HTTP/1.1 400 malformed-request", "end (400 malformed-request): client linger",
      ])
  }

  // MARK: Rules

  @Test func rulesDecideAnewInside() {
    let denied = { (rule: String) in ["< HTTP/1.1 403 denied rule=\(rule)", "end (403 denied): client keep"] }
    let lines = outline(
      [
        .client(connect), .client(head("GET /shut/x HTTP/1.1", "Host: a.example")),
        .client(head("POST / HTTP/1.1", "Host: a.example", "Content-Length: 0")),
        .client(head("GET /plain HTTP/1.1", "Host: a.example")), .opened, .upstream(ok),
      ], policy: Self.opened)
    #expect(
      lines == Self.granted() + denied("shut") + denied("readers") + [
        "connect a.example:443 under TLS", "> GET /plain HTTP/1.1", "> Host: a.example", "< HTTP/1.1 200 OK",
        "end (200): client keep, upstream kept, assurance exact",
      ])
  }

  @Test func aReloadCountsFromTheNextRequestInside() {
    let lines = outline(
      [
        .client(connect), .client(Self.inside), .opened, .upstream(ok),
        .reload(policy("[proxy]\ndefault = \"deny\"")), .client(Self.inside),
      ], policy: Self.opened)
    #expect(lines.suffix(2) == ["< HTTP/1.1 403 denied", "end (403 denied): client linger"])
  }

  /// A tunnel that the policy would not open any more carries no further request.
  @Test(arguments: [
    ("", true), ("[[rule]]\nname = \"open\"\nconnect = \"intercept\"\n", false),
    ("[[rule]]\nname = \"open\"\nconnect = \"deny\"\n", true),
    ("[[rule]]\nname = \"open\"\nconnect = \"tunnel\"\n", true),
    ("[proxy]\ncredentials = \"eve:pw\"\n[[rule]]\nname = \"open\"\nconnect = \"intercept\"\n", true),
  ]) func aReloadCountsForTheTunnelToo(text: String, isDenied: Bool) {
    let before: [Happening] = [.client(connect), .client(Self.inside), .opened, .upstream(ok), .reload(policy(text))]
    let after: [Happening] = [.client(Self.inside)] + (isDenied ? [] : [.opened, .upstream(ok)])
    let lines = outline(before + after, policy: Self.opened)
    #expect(lines.contains("end (403 denied): client linger") == isDenied, "\(lines)")
  }

  @Test func credentialsForTheProxyComeWithCONNECTAlone() {
    let guarded = policy(
      """
      [proxy]
      credentials = "kiosk:s3cret"
      [[rule]]
      name = "open"
      connect = "intercept"
      """)
    let lines = outline(
      [
        .client(connect),
        .client(
          head("CONNECT a.example:443 HTTP/1.1", "Host: a.example", "Proxy-Authorization: Basic a2lvc2s6czNjcmV0")),
        .client(Self.inside), .opened, .upstream(ok),
        // One that comes all the same is for this hop, and goes no further: the stage looks.
        .client(head("GET / HTTP/1.1", "Host: a.example", "Proxy-Authorization: Basic eDp5")), .opened, .upstream(ok),
      ], policy: guarded)
    #expect(
      lines.prefix(2) == ["< HTTP/1.1 407 authentication-required", "end (407 authentication-required): client keep"])
    #expect(lines.filter { $0.hasPrefix("end (200)") }.count == 3, "\(lines)")
  }

  @Test func aRequestThatCameThisWayBeforeIsALoopInsideToo() {
    let lines = outline(
      [
        .client(connect),
        .client(head("GET / HTTP/1.1", "Host: a.example", "Via: 1.1 sallyport (7F3K2A9Q)")),
      ], policy: Self.opened)
    #expect(lines == Self.granted() + ["< HTTP/1.1 502 loop", "end (502 loop): client keep"])
  }

  @Test func aRequestThatMayGoNoFurtherIsAnsweredInside() {
    let lines = outline(
      [
        .client(connect), .client(head("TRACE /x HTTP/1.1", "Host: a.example", "Max-Forwards: 0")),
        .client(head("OPTIONS * HTTP/1.1", "Host: a.example", "Max-Forwards: 0")),
      ], policy: Self.opened)
    let answer = ["< HTTP/1.1 200 OK", "end (200): client keep"]
    #expect(lines.filter { !$0.hasPrefix("< content") } == Self.granted() + answer + answer)
  }

  // MARK: What goes wrong

  @Test func aHostThatCannotBeInterceptedIsAnsweredAndTheConnectionStays() {
    play(
      .cannotIntercept("No local authority is loaded."), .client(connect + get), .opened, .upstream(ok),
      .client(connect), policy: Self.opened,
      gives: #"""
        intercept a.example:443
        < HTTP/1.1 502 interception-failed rule=open ref=REF001 …
        < problem: No local authority is loaded.
        end (502 interception-failed): client keep
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        intercept a.example:443
        < HTTP/1.1 502 interception-failed rule=open ref=REF003 …
        < problem: No local authority is loaded.
        end (502 interception-failed): client keep
        """#)
  }

  @Test func anUpstreamThatCannotBeHadIsAnAnswerInside() {
    let lines = outline(
      [
        .client(connect), .client(Self.inside), .failed(.pinMismatch, "a.example: another key."), .client(Self.inside),
        .failed(.hostBusy, "Too many."), .client(Self.inside), .opened, .upstream(ok),
      ], policy: Self.opened)
    #expect(
      lines == Self.granted() + [
        "connect a.example:443 under TLS", "< HTTP/1.1 502 pin-mismatch rule=open",
        "end (502 pin-mismatch): client keep",
        "connect a.example:443 under TLS", "< HTTP/1.1 503 host-busy rule=open", "end (503 host-busy): client keep",
        "connect a.example:443 under TLS", "> GET /x?y HTTP/1.1", "> Host: a.example", "< HTTP/1.1 200 OK",
        "end (200): client keep, upstream kept, assurance exact",
      ])
  }

  @Test func aTunnelInWhichNothingIsAsked() {
    #expect(outline([.client(connect), .clientEnds], policy: Self.opened) == Self.granted() + ["close"])
    #expect(
      outline([.client(connect), .timeOut], policy: Self.opened) == Self.granted() + ["after 300000 ms", "close"])
    #expect(
      outline([.client(connect), .drain], policy: Self.opened) == Self.granted() + ["the proxy drains", "close"])
  }

  @Test func aHeadInsideHasItsTime() {
    #expect(
      outline([.client(connect), .client("GET /"), .timeOut], policy: Self.opened) == Self.granted() + [
        "after 10000 ms", "< HTTP/1.1 408 slow-request", "end (408 slow-request): client linger",
      ])
  }

  @Test func aClientThatClosesInsideIsClosed() {
    let lines = outline(
      [
        .client(connect), .client(head("GET / HTTP/1.1", "Host: a.example", "Connection: close")), .opened,
        .upstream(ok),
      ],
      policy: Self.opened)
    #expect(lines.last == "end (200): client close, upstream kept, assurance exact")
  }

  @Test func aWebSocketInside() {
    let webSocket = TunnelTests.webSocket.replacing("http://a.example", with: "")
    let lines = outline(
      [
        .client(connect), .client(webSocket), .opened, .upstream(TunnelTests.switched + "hi"), .client("there"),
        .upstreamEnds, .clientEnds,
      ], policy: Self.opened)
    #expect(
      lines == Self.granted() + [
        "connect a.example:443 under TLS", "> GET /chat HTTP/1.1", "> Host: a.example",
        "< HTTP/1.1 101 Switching Protocols", "tunnel", "< raw: hi", "> raw: there",
        "the client is told that no more will come", "end (101): client close, upstream closed, assurance exact",
      ])
  }

  @Test func aTunnelOfHTTP10IsIntercepted() {
    let lines = outline(
      [.client("CONNECT a.example:443 HTTP/1.0\r\n\r\n"), .client(Self.inside), .opened, .upstream(ok)],
      policy: Self.opened)
    #expect(Array(lines.prefix(3)) == Self.granted())
    #expect(lines.last == "end (200): client keep, upstream kept, assurance exact")
  }
}

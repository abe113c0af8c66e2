// Plain tunnels whose first bytes are looked at, as whole conversations: what passes, what ends the tunnel and how that is
// said. What is a request in the clear is ClearRequestTests' subject, what is a hello ClientHelloTests'.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct PlainTunnelTests {
  // MARK: Handshakes

  private static func hello(_ name: String?, _ more: [UInt8] = []) -> [UInt8] {
    var hello = BuiltHello((name.map(named) ?? []) + more)
    hello.random = octets("thirty-two bytes of the client..")
    return hello.asRecords
  }

  private static let answer: [UInt8] = {
    var answer = BuiltAnswer(extended(43, [3, 4]))
    answer.random = octets("thirty-two bytes of the server..")
    return records(answer.asMessage)
  }()

  static let hello13 = hello("a.example", versions(0x0304, 0x0303))
  static let retry = records(BuiltAnswer.retryRequest.asMessage)
  static let unrecognizedName = alert(2, 112)
  static let names = [
    ("hello", hello13), ("answer", answer), ("retry", retry), ("unrecognized name", unrecognizedName),
    ("handshake failure", alert(2, 40)),
  ].map { Stage.Named(name: $0.0, bytes: $0.1) }

  // MARK: Policies

  private static func sandbox(_ rule: String = "", _ more: String = "") -> Policy {
    policy("proxy.default = \"deny\"\n[[rule]]\nname = \"listed\"\nports = [443, 22]\n\(rule)\n\(more)")
  }

  static let matching = sandbox()
  static let free = sandbox("tunnel_sni = \"any\"")
  static let reporting = sandbox("enforce = false")
  /// A rule about requests, and no demand on names.
  static let speaking = policy("[[rule]]\nname = \"listed\"\npaths = [\"/admin/*\"]\naction = \"deny\"")

  private static func connect(_ place: String) -> String { head("CONNECT \(place) HTTP/1.1", "Host: \(place)") }

  private static func client(_ bytes: [UInt8]) -> Happening { .client(characters(bytes)) }
  private static func upstream(_ bytes: [UInt8]) -> Happening { .upstream(characters(bytes)) }

  /// What comes of a tunnel in which this happens, without how it was granted.
  private static func tunnel(
    to place: String = "a.example:443", _ policy: Policy, _ happenings: Happening...,
    at location: Testing.SourceLocation = #_sourceLocation
  ) -> [String] {
    let lines = outline([.client(connect(place)), .opened] + happenings, policy: policy, names: names, location)
    let granted = ["connect \(place) for a tunnel", "< HTTP/1.1 200 Connection established", "tunnel"]
    #expect(Array(lines.prefix(3)) == granted, sourceLocation: location)
    return Array(lines.dropFirst(3))
  }

  private static func refused(_ token: String) -> String { "end (200 \(token)): client linger, upstream closed" }

  // MARK: Names

  @Test func theHostOfTheCONNECTPasses() {
    #expect(
      Self.tunnel(
        Self.matching, Self.client(Self.hello13), Self.upstream(Self.answer), .client("request"), .upstream("response"),
        .upstreamEnds, .clientEnds) == [
          "> raw: {hello}", "< raw: {answer}", "> raw: request", "< raw: response",
          "the client is told that no more will come", "end (200): client close, upstream closed, assurance sni",
        ])
  }

  struct Refused: Sendable, CustomTestStringConvertible {
    let sentence: String
    let says: [UInt8]
    let token: String
    var alert = ""

    var testDescription: String { sentence }
  }

  static let others = [
    Refused(sentence: "another name", says: hello("b.example"), token: "other-server-name", alert: "unrecognized name"),
    Refused(
      sentence: "a name below", says: hello("w.a.example"), token: "other-server-name", alert: "unrecognized name"),
    Refused(sentence: "no name", says: hello(nil), token: "missing-server-name", alert: "unrecognized name"),
    Refused(
      sentence: "another name, cut into small records",
      says: records(BuiltHello(named("b.example")).asMessage, longest: 7), token: "other-server-name",
      alert: "unrecognized name"),
    Refused(
      sentence: "another name, in a hello with keys after quantum",
      says: BuiltHello(named("b.example")).padded(to: 20 << 10).asRecords, token: "other-server-name",
      alert: "unrecognized name"),
    Refused(
      sentence: "another name within an encrypted hello that is visible from outside",
      says: hello("b.example", extended(0xfe0d, [0])), token: "other-server-name", alert: "unrecognized name"),
    Refused(sentence: "a request", says: octets("GET / HTTP/1.1\r\n\r\n"), token: "client-plain-http"),
    Refused(sentence: "SSH", says: octets("SSH-2.0-OpenSSH_9.2\r\n"), token: "client-ssh"),
    Refused(sentence: "something", says: octets("something else"), token: "client-not-tls"),
    Refused(sentence: "a hello of SSL 2.0", says: [0x80, 0x2e, 1, 3, 1, 0, 3], token: "client-sslv2-hello"),
    Refused(sentence: "an alert", says: alert(1, 0), token: "client-alert-before-hello"),
  ]

  @Test(arguments: others) func whatIsNotForTheHostGoesNowhere(row: Refused) {
    let lines = Self.tunnel(Self.matching, Self.client(row.says + octets("trailing")), .client("unheard"))
    let alert = row.alert.isEmpty ? [] : ["< raw: {\(row.alert)}"]
    #expect(lines == alert + [Self.refused(row.token)])
  }

  @Test func longAndSplitHellosPass() {
    for says in [
      records(BuiltHello(named("a.example")).asMessage, longest: 7),
      BuiltHello(named("a.example")).padded(to: 20 << 10).asRecords, Self.hello("A.Example"),
    ] {
      let lines = Self.tunnel(Self.matching, Self.client(says), Self.upstream(Self.answer), .upstreamEnds, .clientEnds)
      #expect(lines.last == "end (200): client close, upstream closed, assurance sni")
      #expect(lines.contains("< raw: {answer}"))
    }
  }

  @Test func underAnyNothingIsLookedAt() {
    for says in [Self.hello("b.example"), Self.hello(nil), octets("GET / HTTP/1.1\r\n\r\n"), octets("S")] {
      let lines = Self.tunnel(Self.free, Self.client(says), .clientEnds, .upstreamEnds)
      #expect(lines.last == "end (200): client close, upstream closed")
      #expect(lines.count == 3, "\(lines)")
    }
  }

  @Test func anAddressHasNoName() {
    #expect(
      Self.tunnel(to: "192.0.2.7:443", Self.matching, Self.client(Self.hello13)) == [
        "< raw: {unrecognized name}", Self.refused("unexpected-server-name"),
      ])
    let unnamed = Self.tunnel(
      to: "192.0.2.7:443", Self.matching, Self.client(Self.hello(nil)), Self.upstream(Self.answer), .clientEnds,
      .upstreamEnds)
    #expect(unnamed.last == "end (200): client close, upstream closed")
    #expect(
      Self.tunnel(to: "192.0.2.7:22", Self.matching, Self.client(Self.hello13)).last
        == Self.refused("unexpected-server-name"))
  }

  @Test func theRulesServerNameIsTakenToo() {
    let renamed = Self.sandbox("", "[rule.security]\nserver_name = \"inner.example\"")
    for (name, passes) in [("inner.example", true), ("a.example", true), ("b.example", false)] {
      let lines = Self.tunnel(
        renamed, Self.client(Self.hello(name)), Self.upstream(Self.answer), .clientEnds, .upstreamEnds)
      #expect((lines.last == "end (200): client close, upstream closed, assurance sni") == passes, "\(name)")
    }
  }

  @Test func aSecondHelloThatNamesAnotherServerGoesNowhere() {
    #expect(
      Self.tunnel(
        Self.matching, Self.client(Self.hello13), Self.upstream(Self.retry),
        Self.client(Self.hello("b.example", versions(0x0304)))) == [
          "> raw: {hello}", "< raw: {retry}{unrecognized name}",
          Self.refused("changed-server-name") + ", assurance sni",
        ])
    // It may come without being asked for, before the server has answered.
    #expect(
      Self.tunnel(Self.matching, Self.client(Self.hello13 + Self.hello("b.example", versions(0x0304)))) == [
        "> raw: {hello}", "< raw: {unrecognized name}", Self.refused("changed-server-name") + ", assurance sni",
      ])
    let good = Self.tunnel(
      Self.matching, Self.client(Self.hello13), Self.upstream(Self.retry), Self.client(Self.hello13), .client("rest"),
      .clientEnds, .upstreamEnds)
    #expect(good.contains("> raw: {hello}rest"), "\(good)")
  }

  @Test func withEarlyDataBehindTheHello() {
    let early = record(23, octets("early"))
    let lines = Self.tunnel(
      Self.matching, Self.client(Self.hello13 + early), Self.upstream(Self.retry),
      Self.client(Self.hello("b.example", versions(0x0304))))
    #expect(lines.last == Self.refused("changed-server-name") + ", assurance sni")
  }

  // MARK: Other ports

  @Test func whatIsNoTLSPassesOnOtherPorts() {
    #expect(
      Self.tunnel(
        to: "a.example:22", Self.matching, .upstream("SSH-2.0-server\r\n"), .client("SSH-2.0-client\r\n"),
        .upstream("keys"), .clientEnds, .upstreamEnds) == [
          "< raw: SSH-2.0-server\\r\\n", "> raw: SSH-2.0-client\\r\\n", "< raw: keys",
          "the upstream is told that no more will come", "end (200): client close, upstream closed",
        ])
    // No rule speaks of requests here.
    #expect(
      Self.tunnel(to: "a.example:22", Self.matching, .client("GET / HTTP/1.1\r\n\r\n")) == [
        "> raw: GET / HTTP/1.1\\r\\n\\r\\n"
      ])
  }

  @Test func theNameHoldsOnOtherPortsToo() {
    #expect(
      Self.tunnel(to: "a.example:22", Self.matching, Self.client(Self.hello("b.example"))) == [
        "< raw: {unrecognized name}", Self.refused("other-server-name"),
      ])
    #expect(
      Self.tunnel(to: "a.example:22", Self.matching, .upstream("hello"), Self.client(Self.hello("b.example"))) == [
        "< raw: hello{unrecognized name}", Self.refused("other-server-name"),
      ])
    #expect(
      Self.tunnel(to: "a.example:22", Self.matching, Self.client([0x80, 0x2e, 1, 3, 1, 0, 3])) == [
        Self.refused("client-sslv2-hello")
      ])
    // Of what only looks like TLS at first, nothing is lost.
    #expect(
      Self.tunnel(to: "a.example:22", Self.matching, Self.client([22, 4, 1, 0, 0])) == [
        "> raw: \\x16\\x04\\x01\\x00\\x00"
      ])
    #expect(Self.tunnel(to: "a.example:22", Self.matching, Self.client([0x80, 1, 1, 1, 9])).count == 1)
  }

  /// The version of a record is to be ignored (RFC 8446, 5.1), and Go's servers ignore it: another one hides no name.
  @Test(arguments: [0, 1, 2, 4, 0x0f, 0xff] as [UInt8]) func aRecordOfAnotherVersionIsTLSToo(major: UInt8) {
    var hello = Self.hello("b.example")
    hello[1] = major
    #expect(Self.tunnel(to: "a.example:22", Self.matching, Self.client(hello)) == [Self.refused("client-not-tls")])
  }

  @Test func aServerOfHTTPSDoesNotSpeakFirst() {
    #expect(
      Self.tunnel(Self.matching, .upstream("220 mail.example\r\n")) == [
        "< raw: {handshake failure}", Self.refused("server-spoke-first"),
      ])
  }

  // MARK: Requests in the clear

  @Test func aRequestInTheClearEndsTheTunnelWhereRulesSpeakOfRequests() {
    for place in ["a.example:443", "a.example:80", "192.0.2.7:8080"] {
      for request in ["DELETE /admin/x HTTP/1.1\r\nHost: a.example\r\n\r\nbody", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        #expect(
          Self.tunnel(to: place, Self.speaking, .client(request), .client("unheard")) == [Self.refused("clear-request")]
        )
      }
    }
    #expect(
      Self.tunnel(to: "a.example:80", Self.speaking, .upstream("hello"), .client("GET / HTTP/1.1\r\n\r\n")) == [
        "< raw: hello", Self.refused("clear-request"),
      ])
  }

  @Test func otherProtocolsPassWhereRulesSpeakOfRequests() {
    for says in ["EHLO a.example\r\n", "SSH-2.0-client\r\n", "\u{16}\u{3}\u{1}", "\u{0}\u{0}"] {
      let lines = Self.tunnel(to: "a.example:25", Self.speaking, .client(says), .clientEnds, .upstreamEnds)
      #expect(lines.count == 3 && lines[0].hasPrefix("> raw: "), "\(lines)")
    }
    // Names do not matter here.
    #expect(Self.tunnel(Self.speaking, Self.client(Self.hello("b.example"))).count == 1)
  }

  /// What speaks of requests to a.example, and what does not.
  static let speakers: [(more: String, speaks: Bool)] = [
    ("methods = [\"GET\"]", true), ("paths = [\"/x\"]", true), ("schemes = [\"http\"]", true),
    ("upgrade = true", true), ("request.cookies = false", true), ("request.user_agent = \"x\"", true),
    ("request.parameters = { a = 1 }", true), ("request.throttle = { rate = \"64KiB\" }", false),
    ("response.serializer = \"json\"", true), ("ports = [80]\npaths = [\"/x\"]", true),
    ("schemes = [\"https\"]", false), ("request.timeout = \"30s\"", false), ("deny_addresses = [\"private\"]", false),
    ("users = [\"root\"]\nmethods = [\"GET\"]", true), ("hosts = [\"b.example\"]\nmethods = [\"GET\"]", false),
    ("hosts = [\"**.example\"]\nmethods = [\"GET\"]", true), ("request.service_type = \"video\"", false),
    ("request.buffer_uploads = true", true),
  ]

  @Test(arguments: speakers.indices) func rulesSpeakOfRequests(index: Int) {
    let row = Self.speakers[index]
    let first = policy("[[rule]]\nname = \"first\"\nhosts = [\"a.example\"]\n[[rule]]\nname = \"r\"\n\(row.more)")
    let lines = Self.tunnel(to: "a.example:80", first, .client("GET / HTTP/1.1\r\n\r\n"))
    #expect(lines == [row.speaks ? Self.refused("clear-request") : "> raw: GET / HTTP/1.1\\r\\n\\r\\n"], "\(row.more)")
  }

  @Test func whatHoldsForEveryHostSpeaksOfRequests() {
    for defaults in ["request.cookies = false", "response.serializer = \"json\""] {
      let lines = Self.tunnel(
        to: "a.example:80", policy("[defaults]\n\(defaults)"), .client("GET / HTTP/1.1\r\n\r\n"))
      #expect(lines == [Self.refused("clear-request")])
    }
  }

  // MARK: Rules that are not enforced

  @Test func aRuleThatIsNotEnforcedLetsPassAndSaysWhatItSaw() {
    let other = Self.hello("b.example")
    for says in [other, octets("GET / HTTP/1.1\r\n\r\n")] {
      let lines = Self.tunnel(Self.reporting, Self.client(says), .upstream("x"), .clientEnds, .upstreamEnds)
      #expect(lines.last?.contains(", reported): client close") ?? false, "\(lines)")
      #expect(lines[1] == "< raw: x")
    }
    #expect(
      Self.tunnel(
        Self.reporting, Self.client(Array(other.prefix(30))), .timeOut, .client("more"), .clientEnds, .upstreamEnds
      ).last == "end (200 client-truncated, reported): client close, upstream closed")
  }

  // MARK: Ends and time

  @Test func whoSaysNothingMayEndAndWait() {
    #expect(
      Self.tunnel(Self.matching, .clientEnds, .upstreamEnds) == [
        "the upstream is told that no more will come", "end (200): client close, upstream closed",
      ])
    #expect(
      Self.tunnel(Self.matching, .upstreamEnds, .clientEnds) == [
        "the client is told that no more will come", "end (200): client close, upstream closed",
      ])
    #expect(
      Self.tunnel(Self.matching, .timeOut) == [
        "after 3600000 ms", "end (200 tunnel-idle): client abort, upstream closed",
      ])
  }

  @Test func aHelloThatDribblesHasItsTime() {
    let late = "end (200 stalled): client abort, upstream closed"
    #expect(
      Self.tunnel(
        Self.matching, .pass(60_000), Self.client(Array(Self.hello13.prefix(9))), .pass(9_000),
        Self.client(Array(Self.hello13[9..<12])), .timeOut) == ["after 1000 ms", late])
    // What a server says meanwhile does not count.
    #expect(
      Self.tunnel(
        to: "a.example:22", Self.matching, Self.client(Array(Self.hello13.prefix(9))), .pass(9_000), .upstream("x"),
        .timeOut) == ["< raw: x", "after 1000 ms", late])
    #expect(Self.tunnel(to: "a.example:80", Self.speaking, .client("DELETE"), .timeOut) == ["after 10000 ms", late])
  }

  @Test func halfAHelloAndTheEnd() {
    #expect(
      Self.tunnel(Self.matching, Self.client(Array(Self.hello13.dropLast())), .clientEnds) == [
        Self.refused("client-truncated")
      ])
    #expect(
      Self.tunnel(to: "a.example:22", Self.matching, Self.client([22]), .clientEnds, .upstreamEnds) == [
        "> raw: \\x16", "the upstream is told that no more will come", "end (200): client close, upstream closed",
      ])
  }

  @Test func aWordWithoutALineEndPassesWhenNoMoreComes() {
    #expect(
      Self.tunnel(to: "a.example:80", Self.speaking, .client("hello there"), .clientEnds, .upstreamEnds) == [
        "> raw: hello there", "the upstream is told that no more will come",
        "end (200): client close, upstream closed",
      ])
    #expect(
      Self.tunnel(to: "a.example:80", Self.speaking, .client("GET /x"), .clientEnds) == [
        Self.refused("clear-request")
      ])
  }

  @Test func theHelloMayComeWithCONNECT() {
    let lines = outline(
      [.client(Self.connect("a.example:443") + characters(Self.hello13)), .opened, Self.upstream(Self.answer)],
      policy: Self.matching, names: Self.names)
    #expect(lines.suffix(2) == ["> raw: {hello}", "< raw: {answer}"])
  }

  // MARK: Ports

  @Test func tunnelsGoToPortsThatAreListed() {
    let closed = policy(
      "proxy.default = \"deny\"\n[[rule]]\nname = \"any\"\nhosts = [\"a.example\"]\nreason = \"no\"\naction = \"allow\""
    )
    let lines = outline([.client(Self.connect("a.example:22"))], policy: closed)
    #expect(lines == ["< HTTP/1.1 403 denied rule=any", "end (403 denied): client keep"])
    #expect(outline([.client(Self.connect("a.example:443")), .opened], policy: closed).contains("tunnel"))
    // Requests that the proxy reads go to any port.
    #expect(
      outline([.client(head("GET http://a.example:8080/ HTTP/1.1", "Host: a.example:8080"))], policy: closed).first
        == "connect a.example:8080")
  }
}

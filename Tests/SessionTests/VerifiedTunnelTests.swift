// Tunnels of connect = "verify" as whole conversations: what passes, what is refused and how that is said, and how sure
// the record is of who answered. What is read of a handshake is TunnelInspectionTests' subject.

import Policy
import TestSupport
import Testing

@testable import Session
@testable import TLSWire

@Suite struct VerifiedTunnelTests {
  // MARK: Handshakes

  /// A hello whose bytes a person can tell from others.
  private static func hello(_ name: String?, _ more: [UInt8] = []) -> [UInt8] {
    var hello = BuiltHello((name.map(named) ?? []) + more)
    hello.random = octets("thirty-two bytes of the client..")
    return hello.asRecords
  }

  private static func answer(_ extensions: [UInt8]? = nil) -> BuiltAnswer {
    var answer = BuiltAnswer(extensions)
    answer.random = octets("thirty-two bytes of the server..")
    return answer
  }

  static let hello12 = hello("a.example")
  static let hello13 = hello("a.example", versions(0x0304, 0x0303))
  static let answer12 = records(answer().asMessage + certificates([[1, 2], [3]]) + serverHelloDone)
  static let answer13 = records(answer(extended(43, [3, 4])).asMessage)
  static let retry = records(BuiltAnswer.retryRequest.asMessage)
  static let badCertificate = alert(2, 42)
  static let handshakeFailure = alert(2, 40)
  static let unrecognizedName = alert(2, 112)

  static let names = [
    ("hello12", hello12), ("hello13", hello13), ("answer12", answer12), ("answer13", answer13), ("retry", retry),
    ("bad certificate", badCertificate), ("handshake failure", handshakeFailure),
    ("unrecognized name", unrecognizedName),
  ].map { Stage.Named(name: $0.0, bytes: $0.1) }

  // MARK: Policies

  /// One rule that verifies, with more in it, and more in its security.
  private static func verifying(_ more: String = "", _ security: String = "") -> Policy {
    policy(
      """
      [[rule]]
      name = "seen"
      connect = "verify"
      \(more)
      [rule.security]
      \(security)
      """)
  }

  static let verified = verifying()
  static let reporting = verifying("enforce = false")

  private static let opened: [Happening] = [.client(connect), .opened]
  private static let granted = [
    "connect a.example:443 for a tunnel that is verified", "< HTTP/1.1 200 Connection established", "tunnel",
  ]

  private static func client(_ bytes: [UInt8]) -> Happening { .client(characters(bytes)) }
  private static func upstream(_ bytes: [UInt8]) -> Happening { .upstream(characters(bytes)) }

  /// What comes of a tunnel to a.example in which this happens, without how it was granted.
  private static func tunnel(
    _ happenings: Happening..., policy: Policy = verified, _ location: Testing.SourceLocation = #_sourceLocation
  ) -> [String] {
    let lines = outline(opened + happenings, policy: policy, names: names, location)
    #expect(Array(lines.prefix(3)) == granted, sourceLocation: location)
    return Array(lines.dropFirst(3))
  }

  // MARK: How it goes

  @Test func tls13IsAsSureAsTheProbe() {
    let lines = Self.tunnel(
      Self.client(Self.hello13), Self.upstream(Self.answer13), .client("request"), .upstream("response"),
      .upstreamEnds, .clientEnds)
    #expect(
      lines == [
        "> raw: {hello13}", "< raw: {answer13}", "> raw: request", "< raw: response",
        "the client is told that no more will come", "end (200): client close, upstream closed, assurance probe",
      ])
  }

  @Test func tls12IsJudgedByItsOwnCertificates() {
    let lines = Self.tunnel(
      Self.client(Self.hello12), Self.upstream(Self.answer12), .client("key"), .upstream("done"), .clientEnds,
      .upstreamEnds)
    #expect(
      lines == [
        "> raw: {hello12}", "judge 2 certificates", "< raw: {answer12}", "> raw: key", "< raw: done",
        "the upstream is told that no more will come", "end (200): client close, upstream closed, assurance exact",
      ])
  }

  @Test func certificatesThatAreRefusedNeverReachTheClient() {
    for kind in [Problem.Kind.pinMismatch, .certificateExpired, .certificateUntrusted, .certificateRevoked] {
      let lines = Self.tunnel(
        .refusesCertificates(kind), Self.client(Self.hello12), Self.upstream(Self.answer12), .client("key"))
      #expect(
        lines == [
          "> raw: {hello12}", "judge 2 certificates", "< raw: {bad certificate}",
          "end (200 \(kind.token)): client linger, upstream closed, assurance probe",
        ])
    }
  }

  @Test func aSessionThatIsResumedIsAsSureAsTheProbe() {
    let hello = CapturedHello.openssl12Ticket
    let flight = CapturedFlight.resumesTicket
    let stage = Stage(Self.verified, .whole)
    let transcript = stage.play(
      Self.opened + [Self.client(hello), Self.upstream(flight), .clientEnds, .upstreamEnds])
    #expect(stage.faults == [])
    #expect(transcript.hasSuffix("end (200): client close, upstream closed, assurance probe"), "\(transcript)")
    #expect(!transcript.contains("judge"))
    #expect(stage.entries.map(\.record.traffic.bytesIn) == [UInt64(octets(connect).count + hello.count)])
  }

  @Test func theHelloMayComeWithCONNECT() {
    let lines = outline(
      [.client(connect + characters(Self.hello13)), .opened, Self.upstream(Self.answer13)], policy: Self.verified,
      names: Self.names)
    #expect(lines == Self.granted + ["> raw: {hello13}", "< raw: {answer13}"])
  }

  @Test func halfAHelloGoesNowhere() {
    for count in [1, 5, 20, Self.hello12.count - 1] {
      #expect(Self.tunnel(Self.client(Array(Self.hello12.prefix(count)))) == [])
    }
  }

  @Test func aServerThatIsNotVerifiedIsA502AndTheConnectionStays() {
    let lines = outline(
      [.client(connect), .failed(.pinMismatch, "a.example shows another key."), .client(connect), .opened],
      policy: Self.verified)
    #expect(
      lines == [
        "connect a.example:443 for a tunnel that is verified", "< HTTP/1.1 502 pin-mismatch rule=seen",
        "end (502 pin-mismatch): client keep",
      ] + Self.granted)
  }

  @Test func aRuleThatPinsVerifiesUnasked() {
    let pinning = policy(
      """
      [[rule]]
      name = "pinned"
      [rule.security]
      pins = "p"
      [pins.p]
      mode = "public-key"
      spki = ["sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]
      """)
    #expect(outline(Self.opened, policy: pinning) == Self.granted)
  }

  // MARK: Whom the client asks for

  struct Refused: Sendable, CustomTestStringConvertible {
    let sentence: String
    let says: [UInt8]
    /// What the log is told, and what the client.
    let token: String
    var alert: String? = nil

    var testDescription: String { sentence }
  }

  static let refused = [
    Refused(
      sentence: "another name", says: hello("b.example"), token: "other-server-name", alert: "unrecognized name"),
    Refused(
      sentence: "a name below", says: hello("w.a.example"), token: "other-server-name", alert: "unrecognized name"),
    Refused(sentence: "no name", says: hello(nil), token: "missing-server-name", alert: "unrecognized name"),
    Refused(sentence: "an address", says: hello("192.0.2.7"), token: "other-server-name", alert: "unrecognized name"),
    Refused(sentence: "what is no name", says: hello("a b.example"), token: "client-malformed-server-name"),
    Refused(
      sentence: "a request", says: octets("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"), token: "client-plain-http"),
    Refused(sentence: "SSH", says: octets("SSH-2.0-OpenSSH_9.2\r\n"), token: "client-ssh"),
    Refused(sentence: "something", says: octets("something else"), token: "client-not-tls"),
    Refused(sentence: "an alert", says: alert(1, 0), token: "client-alert-before-hello"),
    Refused(sentence: "another message", says: records(message(2, [1])), token: "client-not-client-hello"),
    Refused(
      sentence: "a hello that is cut short", says: records(message(1, Array(BuiltHello().body.dropLast(3)))),
      token: "client-malformed-client-hello"),
  ]

  @Test(arguments: refused) func whatIsNotForTheHostGoesNowhere(row: Refused) {
    let lines = Self.tunnel(Self.client(row.says), .upstream("unheard"), .client("unheard"))
    let alert = row.alert.map { ["< raw: {\($0)}"] } ?? []
    #expect(lines == alert + ["end (200 \(row.token)): client linger, upstream closed, assurance probe"])
  }

  @Test func whatIsRefusedIsCounted() {
    let stage = Stage(Self.verified, .whole)
    let says = Self.hello("b.example") + octets("and more")
    _ = stage.play(Self.opened + [Self.client(says)])
    #expect(stage.faults == [])
    #expect(stage.entries.map(\.record.traffic.bytesIn) == [UInt64(octets(connect).count + says.count)])
  }

  @Test func anAddressIsAskedForWithoutAName() {
    let connect = head("CONNECT 192.0.2.7:443 HTTP/1.1", "Host: 192.0.2.7:443")
    let begin: [Happening] = [.client(connect), .opened]
    let unnamed = Self.hello(nil, versions(0x0304))
    let granted = ["connect 192.0.2.7:443 for a tunnel that is verified"] + Self.granted.dropFirst()
    #expect(
      outline(begin + [Self.client(unnamed)], policy: Self.verified, names: [.init(name: "unnamed", bytes: unnamed)])
        == granted + ["> raw: {unnamed}"])
    #expect(
      outline(begin + [Self.client(Self.hello12)], policy: Self.verified, names: Self.names)
        == granted + [
          "< raw: {unrecognized name}",
          "end (200 unexpected-server-name): client linger, upstream closed, assurance probe",
        ])
  }

  @Test func theNameMayBeWrittenOtherwise() {
    let other = Self.hello("A.Example", versions(0x0304))
    let lines = outline(
      [
        .client(head("CONNECT A.EXAMPLE.:443 HTTP/1.1", "Host: a.example")), .opened, Self.client(other),
        Self.upstream(Self.answer13), .clientEnds, .upstreamEnds,
      ], policy: Self.verified, names: Self.names)
    #expect(lines.last == "end (200): client close, upstream closed, assurance probe")
  }

  @Test func aSecondHelloThatNamesAnotherServerIsRefused() {
    let lines = Self.tunnel(
      Self.client(Self.hello13), Self.upstream(Self.retry), Self.client(Self.hello("b.example", versions(0x0304))))
    #expect(
      lines == [
        "> raw: {hello13}", "< raw: {retry}{unrecognized name}",
        "end (200 changed-server-name): client linger, upstream closed, assurance probe",
      ])
    let good = Self.tunnel(
      Self.client(Self.hello13), Self.upstream(Self.retry), Self.client(Self.hello13), .clientEnds, .upstreamEnds)
    #expect(
      good == [
        "> raw: {hello13}", "< raw: {retry}", "> raw: {hello13}", "the upstream is told that no more will come",
        "end (200): client close, upstream closed, assurance probe",
      ])
  }

  // MARK: server_name

  static let renamed = verifying("", #"server_name = "inner.example""#)

  static let assurances: [(name: String?, answer: [UInt8], assurance: String)] = [
    ("inner.example", answer13, "probe"), ("INNER.example", answer13, "probe"),
    // The certificate in the tunnel is for inner.example, whatever was asked for.
    ("inner.example", answer12, "exact"), ("a.example", answer12, "exact"),
  ]

  @Test(arguments: assurances.indices) func howSureIsAProbeOfAnotherName(index: Int) {
    let row = Self.assurances[index]
    let lines = Self.tunnel(
      Self.client(Self.hello(row.name, versions(0x0304, 0x0303))), Self.upstream(row.answer), .clientEnds,
      .upstreamEnds, policy: Self.renamed)
    #expect(lines.last == "end (200): client close, upstream closed, assurance \(row.assurance)")
  }

  /// The probe asked for inner.example: it says nothing of who answers to another name, whose certificate is hidden.
  @Test(arguments: [true, false]) func anotherNameThanTheProbesIsRefused(isEnforced: Bool) {
    let rules = isEnforced ? Self.renamed : Self.verifying("enforce = false", #"server_name = "inner.example""#)
    let lines = Self.tunnel(
      Self.client(Self.hello("a.example", versions(0x0304, 0x0303))), Self.upstream(Self.answer13), .clientEnds,
      .upstreamEnds, policy: rules)
    #expect(
      lines.contains(
        isEnforced
          ? "end (200 other-server-name): client linger, upstream closed, assurance probe"
          : "end (200): client close, upstream closed, assurance sni"))
  }

  @Test func noNameIsAnotherThanTheProbes() {
    let lines = outline(
      [
        .client(head("CONNECT 192.0.2.7:443 HTTP/1.1", "Host: 192.0.2.7:443")), .opened,
        Self.client(Self.hello(nil, versions(0x0304))), Self.upstream(Self.answer13), .clientEnds, .upstreamEnds,
      ], policy: Self.renamed)
    #expect(lines.contains("end (200 missing-server-name): client linger, upstream closed, assurance probe"))
  }

  @Test func neitherOfTwoNames() {
    #expect(
      Self.tunnel(Self.client(Self.hello("b.example")), policy: Self.renamed) == [
        "< raw: {unrecognized name}",
        "end (200 other-server-name): client linger, upstream closed, assurance probe",
      ])
  }

  @Test func aSessionOfAnotherNameThatIsResumedIsRefused() {
    let lines = Self.tunnel(
      Self.client(CapturedHello.openssl12Ticket), Self.upstream(CapturedFlight.resumesTicket), .clientEnds,
      .upstreamEnds, policy: Self.renamed)
    #expect(lines.contains("end (200 other-server-name): client linger, upstream closed, assurance probe"))
  }

  // MARK: Stapled answers

  @Test func aStapleThatTheClientDoesNotAskForWasSeenByTheProbe() {
    let stapling = Self.verifying("", #"revocation = "staple""#)
    let asking = Self.hello("a.example", extended(5, [1, 0, 0, 0, 0]))
    for (hello, assurance) in [(Self.hello12, "probe"), (asking, "exact")] {
      let lines = Self.tunnel(
        Self.client(hello), Self.upstream(Self.answer12), .clientEnds, .upstreamEnds, policy: stapling)
      #expect(lines.contains("judge 2 certificates"))
      #expect(lines.last == "end (200): client close, upstream closed, assurance \(assurance)")
    }
  }

  // MARK: Versions

  static let bounds: [(bounds: String, answer: [UInt8], passes: Bool)] = [
    ("min_tls = \"1.3\"", answer12, false), ("min_tls = \"1.3\"", answer13, true),
    ("max_tls = \"1.2\"", answer13, false), ("max_tls = \"1.2\"", answer12, true),
    ("", tls11, false), ("min_tls = \"1.1\"", tls11, true), ("min_tls = \"1.0\"\nmax_tls = \"1.1\"", answer12, false),
    // A HelloRetryRequest is TLS 1.3 too.
    ("max_tls = \"1.2\"", retry, false),
  ]

  /// The server chose ECDHE-RSA-AES128-GCM-SHA256 (0xC02F).
  @Test(
    arguments: [
      ("ECDHE-RSA-AES128-GCM-SHA256", true), ("ECDHE+AESGCM", true), ("ECDHE-RSA-AES256-GCM-SHA384", false),
      ("AES128-SHA:TLS_AES_128_GCM_SHA256", false), ("TLS_AES_128_GCM_SHA256", true),
    ], [true, false])
  func theCipherMustBeAmongThoseOfThePolicy(row: (ciphers: String, passes: Bool), enforces: Bool) {
    let lines = Self.tunnel(
      Self.client(Self.hello12), Self.upstream(Self.answer12),
      policy: Self.verifying(enforces ? "" : "enforce = false", "ciphers = \"\(row.ciphers)\""))
    let refused = [
      "> raw: {hello12}", "< raw: {handshake failure}",
      "end (200 tls-cipher-not-allowed): client linger, upstream closed, assurance probe",
    ]
    #expect((lines != refused) == row.passes, "\(lines)")
    #expect(!row.passes || lines.contains("judge 2 certificates"), "\(lines)")
  }

  private static let tls11: [UInt8] = {
    var older = answer()
    older.version = 0x0302
    return records(older.asMessage + certificates([[1, 2]]) + serverHelloDone)
  }()

  @Test(arguments: bounds.indices) func theVersionMustBeAmongThoseOfThePolicy(index: Int) {
    let row = Self.bounds[index]
    let lines = Self.tunnel(
      Self.client(Self.hello13), Self.upstream(row.answer), policy: Self.verifying("", row.bounds))
    let refused = [
      "> raw: {hello13}", "< raw: {handshake failure}",
      "end (200 tls-version-not-allowed): client linger, upstream closed, assurance probe",
    ]
    #expect((lines != refused) == row.passes, "\(lines)")
    #expect(!row.passes || lines.allSatisfy { !$0.hasPrefix("end") }, "\(lines)")
  }

  // MARK: A rule that is not enforced

  @Test func aRuleThatIsNotEnforcedLetsPassAndSaysWhatItSaw() {
    let other = Self.hello("b.example")
    let names = Self.names + [Stage.Named(name: "other", bytes: other)]
    let lines = outline(
      Self.opened + [
        Self.client(other), .upstream("anything"), .client("goes"), .upstreamEnds, .clientEnds,
      ], policy: Self.reporting, names: names)
    #expect(
      lines.dropFirst(3) == [
        "> raw: {other}", "< raw: anything", "> raw: goes", "the client is told that no more will come",
        "end (200 other-server-name, reported): client close, upstream closed",
      ])
  }

  @Test(arguments: refused) func whatIsNotForTheHostPassesWhereNothingIsEnforced(row: Refused) {
    let stage = Stage(Self.reporting, .whole)
    let transcript = stage.play(
      Self.opened + [Self.client(row.says), .upstream("heard"), .clientEnds, .upstreamEnds])
    #expect(stage.faults == [])
    #expect(transcript.contains("> raw: "))
    #expect(transcript.contains("< raw: heard"))
    #expect(stage.entries.map(\.record.outcome.token) == [row.token])
    guard case .tunnelFaultReported = stage.entries.first?.record.outcome else {
      Issue.record("\(transcript)")
      return
    }
  }

  @Test func certificatesThatAreRefusedPassWhereNothingIsEnforced() {
    let lines = Self.tunnel(
      .refusesCertificates(.pinMismatch), Self.client(Self.hello12), Self.upstream(Self.answer12), .clientEnds,
      .upstreamEnds, policy: Self.reporting)
    #expect(
      lines == [
        "> raw: {hello12}", "judge 2 certificates", "< raw: {answer12}",
        "the upstream is told that no more will come", "end (200): client close, upstream closed, assurance probe",
      ])
  }

  /// As on the proxy's own connections: no version is lowered by trying a rule out.
  @Test func aVersionThatIsNotAllowedIsRefusedWhereNothingIsEnforcedToo() {
    let lines = Self.tunnel(
      Self.client(Self.hello13), Self.upstream(Self.answer12),
      policy: Self.verifying("enforce = false", "min_tls = \"1.3\""))
    #expect(
      lines == [
        "> raw: {hello13}", "< raw: {handshake failure}",
        "end (200 tls-version-not-allowed): client linger, upstream closed, assurance probe",
      ])
  }

  @Test func whatWouldBeRefusedIsSaidHoweverTheTunnelEnds() {
    let ends: [(end: Happening, lines: [String])] = [
      (.clientBreaks, ["end (200 other-server-name, reported): client abort, upstream closed"]),
      (.upstreamBreaks, ["end (200 other-server-name, reported): client abort, upstream closed"]),
      (.timeOut, ["after 3600000 ms", "end (200 other-server-name, reported): client abort, upstream closed"]),
    ]
    for end in ends {
      let lines = Self.tunnel(Self.client(Self.hello("b.example")), end.end, policy: Self.reporting)
      #expect(Array(lines.dropFirst()) == end.lines)
    }
  }

  // MARK: The server

  @Test func whatNoServerOfTLSSaysGoesNowhere() {
    let rows: [(says: [UInt8], token: String)] = [
      (octets("HTTP/1.1 400 Bad Request\r\n\r\n"), "server-plain-http"),
      (records(Self.answer().asMessage + serverHelloDone), "server-no-certificate"),
      (records(message(1, [])), "server-not-server-hello"),
    ]
    for row in rows {
      #expect(
        Self.tunnel(Self.client(Self.hello12), Self.upstream(row.says), .client("unheard")) == [
          "> raw: {hello12}", "< raw: {handshake failure}",
          "end (200 \(row.token)): client linger, upstream closed, assurance probe",
        ])
    }
  }

  @Test func aServerThatSpeaksFirstIsNone() {
    #expect(
      Self.tunnel(.upstream("220 mail.example\r\n")) == [
        "< raw: {handshake failure}",
        "end (200 server-spoke-first): client linger, upstream closed, assurance probe",
      ])
  }

  @Test func theLastWordsOfAServerPassAndNothingBehindThem() {
    let lines = Self.tunnel(
      Self.client(Self.hello12), Self.upstream(Self.handshakeFailure + octets("unheard")), .client("unheard"))
    let last = [
      "> raw: {hello12}", "< raw: {handshake failure}", "end (200): client close, upstream closed, assurance probe",
    ]
    #expect(lines == last)
    // They are the last whether or not the server goes on to close.
    #expect(Self.tunnel(Self.client(Self.hello12), Self.upstream(Self.handshakeFailure)) == last)
  }

  // MARK: Ends and deadlines

  @Test func whoeverEndsWithinTheHandshakeIsTold() {
    let cut = "end (200 client-truncated): client linger, upstream closed, assurance probe"
    #expect(Self.tunnel(.clientEnds) == [cut])
    #expect(Self.tunnel(Self.client(Array(Self.hello12.dropLast())), .clientEnds) == [cut])
    let missing = [
      "< raw: {handshake failure}",
      "end (200 server-truncated): client linger, upstream closed, assurance probe",
    ]
    #expect(Self.tunnel(.upstreamEnds) == missing)
    #expect(Self.tunnel(Self.client(Self.hello12), .upstreamEnds) == ["> raw: {hello12}"] + missing)
    #expect(
      Self.tunnel(Self.client(Self.hello12), Self.upstream(Array(Self.answer12.dropLast(9))), .upstreamEnds)
        == ["> raw: {hello12}"] + missing)
  }

  @Test func aClientThatSaysNoMoreThanItsHelloGetsTheAnswer() {
    #expect(
      Self.tunnel(Self.client(Self.hello13), .clientEnds, Self.upstream(Self.answer13), .upstreamEnds) == [
        "> raw: {hello13}", "the upstream is told that no more will come", "< raw: {answer13}",
        "end (200): client close, upstream closed, assurance probe",
      ])
  }

  @Test func whoeverBreaksWithinTheHandshakeEndsTheTunnel() {
    #expect(
      Self.tunnel(Self.client(Self.hello12), .clientBreaks) == [
        "> raw: {hello12}", "end (200 client-left): client abort, upstream closed, assurance probe",
      ])
    #expect(
      Self.tunnel(Self.client(Self.hello12), .upstreamBreaks) == [
        "> raw: {hello12}", "end (200 upstream-broke-off): client abort, upstream closed, assurance probe",
      ])
    #expect(
      Self.tunnel(Self.client(Self.hello12), .shutDown) == [
        "> raw: {hello12}", "the proxy shuts down",
        "end (200 shut-down): client abort, upstream closed, assurance probe",
      ])
  }

  @Test func theHandshakeHasItsTime() {
    let late = ["after 3000 ms", "end (200 stalled): client abort, upstream closed, assurance probe"]
    let policy = policy(
      """
      [proxy.timeouts]
      tls_handshake = "3s"
      [[rule]]
      name = "seen"
      connect = "verify"
      """)
    #expect(Self.tunnel(.timeOut, policy: policy) == late)
    // What has come and cannot be used yet is no progress.
    #expect(
      Self.tunnel(.pass(2000), Self.client(Array(Self.hello12.dropLast())), .timeOut, policy: policy)
        == ["after 1000 ms"] + late.dropFirst())
    #expect(
      Self.tunnel(.pass(2000), Self.client(Self.hello12), .timeOut, policy: policy) == ["> raw: {hello12}"] + late)
    #expect(
      Self.tunnel(Self.client(Self.hello13), Self.upstream(Self.answer13), .timeOut, policy: policy) == [
        "> raw: {hello13}", "< raw: {answer13}", "after 3600000 ms",
        "end (200 tunnel-idle): client abort, upstream closed, assurance probe",
      ])
  }
}

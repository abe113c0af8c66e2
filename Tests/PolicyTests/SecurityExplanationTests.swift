// What `sallyport explain` says of TLS: the treatment of a tunnel, the assurance, and what a certificate is held to.

import Security
import Testing

@testable import Policy

@Suite struct SecurityExplanationTests {
  private static let world = SecurityReadingTests.world

  /// The lines on what will be done, of one rule with this body.
  private func lines(_ body: String, _ method: String = "CONNECT", _ scheme: Scheme = .https) throws -> [String] {
    let explanation = try explain(body, method, scheme)
    return explanation.description.split(separator: "\n").drop { $0 != "what will be done:" }.dropFirst()
      .map { String($0.dropFirst(2)) }
  }

  private func explain(_ body: String, _ method: String, _ scheme: Scheme) throws -> Explanation {
    var files = Self.world
    files.files["s.toml"] = Array("[[rule]]\nname = \"r\"\n\(body)".utf8)
    let result = PolicyLoader.load(path: "s.toml", files: files)
    let policy = try #require(result.policy, "\(result.diagnostics)")
    let isTunnel = method == "CONNECT"
    return Explanation(
      by: policy, method: method, scheme: scheme, host: canonical("a.example"), port: scheme.defaultPort,
      path: isTunnel ? "" : "/",
      isTunnel: isTunnel)
  }

  private static let plain = ["anchors: system", "profile: public", "name: validated", "TLS: 1.2 to 1.3"]

  @Test func aTunnelIsNotLookedAt() throws {
    #expect(
      try lines("") == ["connect: tunnel; what passes inside is not read or changed", "assurance: none"])
  }

  @Test func aVerifiedTunnelIsProbed() throws {
    #expect(
      try lines("connect = \"verify\"")
        == [
          "connect: verify; the server's certificate is checked before the tunnel opens, and TLS stays the client's own",
          "assurance: probe under TLS 1.3, exact under TLS 1.2 and lower",
        ] + Self.plain)
  }

  @Test func anInterceptedTunnelIsExact() throws {
    #expect(
      try lines("connect = \"intercept\"")
        == [
          "connect: intercept; TLS ends at the proxy, and each request inside is decided on by itself",
          "assurance: exact",
        ] + Self.plain)
  }

  @Test func requestsOverTLSAreExact() throws {
    #expect(try lines("", "GET", .https) == ["assurance: exact"] + Self.plain)
    #expect(
      try lines("upgrade = true", "GET", .http)
        == ["upgrade: sent over TLS, to port 443", "assurance: exact"] + Self.plain)
    #expect(try lines("upgrade = true", "GET", .https) == ["assurance: exact"] + Self.plain)
    #expect(try lines("", "GET", .http) == ["the request is forwarded as it came"])
  }

  @Test(
    arguments: [
      ("connect = 'tunnel'", [.none]), ("connect = 'verify'", [.probe, .exact]),
      ("connect = 'verify'\nsecurity.min_tls = '1.3'", [.probe]),
      ("connect = 'verify'\nsecurity.max_tls = '1.2'", [.exact]),
      ("connect = 'verify'\nsecurity = { min_tls = '1.0', max_tls = '1.1' }", [.exact]),
      ("connect = 'verify'\nsecurity = { allow_invalid_certificates = true, validates_domain_name = false }", [.sni]),
      (
        "connect = 'intercept'\nsecurity = { allow_invalid_certificates = true, validates_domain_name = false }",
        [.none]
      ),
      ("connect = 'intercept'\nsecurity.min_tls = '1.3'", [.exact]),
    ] as [(String, [SecurityExplanation.Assurance])])
  func theAssuranceFollowsTheVersions(body: String, expected: [SecurityExplanation.Assurance]) throws {
    #expect(try explain(body, "CONNECT", .https).security?.assurances == expected)
  }

  private static let everything = """
    connect = "intercept"
    [rule.security]
    pins = "p"
    anchors = "ca.pem"
    validates_domain_name = false
    min_tls = "1.2"
    max_tls = "1.2"
    ciphers = "ECDHE+AESGCM"
    server_name = "b.example"
    client_certificate = { certificate = "client.pem", key = { file = "client.key" } }
    revocation = "crl"
    crl_file = "list.crl"
    \(SecurityReadingTests.pins)expires = 2027-06-01
    """

  @Test func everythingIsToldAndNothingOfAKey() throws {
    #expect(
      try lines(Self.everything).dropFirst()
        == [
          "assurance: exact", "pins: p, public-key, 2 pins, enforced, until the end of 2027-06-01 (UTC)",
          "anchors: ca.pem, 1 certificate", "profile: private", "name: not validated", "revocation: 1 list", "TLS: 1.2",
          "ciphers: ECDHE+AESGCM", "server name: b.example", "client certificate: CN=kiosk-7",
        ])
  }

  @Test(arguments: [
    ("[pins.p]\nmode = 'none'", "pins: p, none: nothing is pinned"),
    ("\(SecurityReadingTests.pins)enforce = false", "pins: p, public-key, 2 pins, report only"),
    (
      "\(SecurityReadingTests.pins)expires = 2027-06-01T12:00:00\non_expiry = 'report'",
      "pins: p, public-key, 2 pins, enforced, until 2027-06-01 12:00:00 UTC, then report only"
    ),
    (
      "[pins.p]\nmode = 'certificate'\ncertificates = ['ca.pem', 'client.pem']",
      "pins: p, certificate, 2 pins, enforced"
    ),
    ("[pins.p]\ncertificates = ['ca.pem']", "pins: p, public-key, 1 pin, enforced"),
  ]) func aSetIsToldInOneLine(set: String, expected: String) throws {
    #expect(try lines("connect = 'intercept'\nsecurity.pins = 'p'\n\(set)")[2] == expected)
  }

  @Test func whatIsNotCheckedIsToldToo() throws {
    #expect(
      try lines(
        "enforce = false\nconnect = 'intercept'\nsecurity = { pins = 'p', allow_invalid_certificates = true, "
          + "revocation = 'staple' }\n\(SecurityReadingTests.pins)"
      ).dropFirst(2)
        == [
          "pins: p, public-key, 2 pins, enforced", "anchors: any certificate (allow_invalid_certificates)",
          "name: validated", "revocation: a stapled answer is required",
          "enforce = false: what does not hold is allowed, and logged", "TLS: 1.2 to 1.3",
        ])
  }

  @Test func aClientCertificateIsNotShownInAVerifiedTunnel() throws {
    let identity = "security.client_certificate = { certificate = 'client.pem', key.file = 'client.key' }"
    #expect(
      try lines("connect = 'verify'\n\(identity)").last
        == "client certificate: CN=kiosk-7, not shown in a tunnel that is verified")
    #expect(try lines("connect = 'verify'\n\(identity)", "GET", .https).last == "client certificate: CN=kiosk-7")
  }

  @Test func theAnchorsOfTrustAreNamed() throws {
    let policy = try loaded("[trust]\nanchors = \"ca.pem\"", Self.world)
    let explanation = Explanation(
      by: policy, method: "GET", scheme: .https, host: canonical("a"), port: 443, path: "/", isTunnel: false)
    #expect(explanation.description.contains("\n  anchors: ca.pem, 1 certificate\n  profile: private\n"))
    #expect(explanation.json.contains("\"anchors\": \"ca.pem\""))
  }

  @Test(arguments: [
    ("", "", "public"), ("profile = 'private'", "", "private"), ("anchors = 'ca.pem'", "", "private"),
    ("anchors = 'ca.pem'\nprofile = 'public'", "", "public"), ("", "profile = 'private'", "private"),
    ("profile = 'private'", "profile = 'public'", "public"), ("", "anchors = 'ca.pem'", "private"),
    // That of [trust] is for its own anchors.
    ("profile = 'public'", "anchors = 'ca.pem'", "private"),
    ("", "anchors = 'ca.pem'\nprofile = 'public'", "public"),
  ]) func theProfileIsThatOfTheRuleOrElseOfItsAnchors(trust: String, security: String, expected: String) throws {
    let text = "[trust]\n\(trust)\n[[rule]]\nname = 'r'\nhosts = ['a']\n[rule.security]\n\(security)"
    let explanation = try Explanation(
      by: loaded(text, Self.world), method: "GET", scheme: .https, host: canonical("a"), port: 443, path: "/",
      isTunnel: false)
    #expect(explanation.description.contains("\n  profile: \(expected)\n"))
    #expect(explanation.json.contains("\"profile\": \"\(expected)\""))
  }

  @Test func theProfileIsInherited() throws {
    let text = "[defaults.security]\nprofile = 'private'\n[[rule]]\nname = 'r'\n[rule.security]\nmin_tls = '1.3'"
    let explanation = try Explanation(
      by: loaded(text, Self.world), method: "GET", scheme: .https, host: canonical("a"), port: 443, path: "/",
      isTunnel: false)
    #expect(explanation.description.contains("\n  profile: private\n"))
  }

  @Test func whatIsDeniedIsNotExplained() throws {
    #expect(try explain("connect = 'deny'", "CONNECT", .https).security == nil)
    #expect(try explain("action = 'deny'", "GET", .https).security == nil)
    #expect(try explain("action = 'deny'\nenforce = false", "GET", .https).security?.isEnforced == false)
  }

  // MARK: JSON

  private func actions(_ body: String, _ method: String, _ scheme: Scheme) throws -> String {
    let json = try explain(body, method, scheme).json
    let start = try #require(json.firstRange(of: "\"actions\": ")).upperBound
    let end = try #require(json.firstRange(of: ", \"address\": ")).lowerBound
    return String(json[start..<end])
  }

  @Test func jsonSaysTheSame() throws {
    #expect(
      try actions(Self.everything, "CONNECT", .https)
        == "{\"connect\": \"intercept\", \"assurance\": [\"exact\"], \"security\": {\"pins\": {\"name\": \"p\", "
        + "\"mode\": \"public-key\", \"count\": 2, \"enforce\": true, \"expires\": 1811894400, \"on_expiry\": \"fail\"}, "
        + "\"allow_invalid_certificates\": false, \"validates_domain_name\": false, \"anchors\": \"ca.pem\", "
        + "\"profile\": \"private\", \"min_tls\": \"1.2\", \"max_tls\": \"1.2\", \"ciphers\": \"ECDHE+AESGCM\", \"server_name\": \"b.example\", "
        + "\"client_certificate\": \"CN=kiosk-7\", \"revocation\": \"crl\", \"enforce\": true}}")
    #expect(
      try actions("upgrade = true", "GET", .http)
        == "{\"remove\": [], \"set\": [], \"default\": [], \"authorization\": null, \"timeout_ms\": null, "
        + "\"upgrades\": null, \"cookies\": true, "
        + "\"upgrade\": {\"port\": 443}, \"assurance\": [\"exact\"], \"security\": {\"pins\": null, "
        + "\"allow_invalid_certificates\": false, \"validates_domain_name\": true, \"anchors\": \"system\", "
        + "\"profile\": \"public\", \"min_tls\": \"1.2\", \"max_tls\": \"1.3\", \"ciphers\": null, \"server_name\": null, "
        + "\"client_certificate\": null, \"revocation\": \"none\", \"enforce\": true}}")
    #expect(
      try actions("connect = 'verify'", "CONNECT", .https).hasPrefix(
        "{\"connect\": \"verify\", \"assurance\": [\"probe\", \"exact\"], \"security\": {\"pins\": null"))
  }
}

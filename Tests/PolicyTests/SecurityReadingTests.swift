// [rule.security] and [defaults.security]: every key, what is said of what it does not take, of keys that contradict each
// other, and of security that does not reach a tunnel.

import Security
import Testing

@testable import Policy

@Suite struct SecurityReadingTests {
  static var world: DictionaryFiles {
    var files = DictionaryFiles([
      "ca.pem": TestCertificates.one, "client.pem": TestCertificates.client, "client.key": TestCertificates.clientKey,
      "other.key": TestCertificates.otherKey, "encrypted.key": TestCertificates.encryptedClientKey,
      "list.crl": TestCertificates.revocationList, "soon.pem": TestCertificates.soon,
    ])
    files.exposed = ["other.key"]
    return files
  }

  static let pins = "[pins.p]\nspki = [\"\(TestCertificates.pinOfOne)\", \"\(TestCertificates.pinOfTwo)\"]\n"

  private func settings(_ body: String) throws -> SecurityPolicy.Settings {
    try loaded("[[rule]]\nname = \"r\"\nconnect = \"intercept\"\n[rule.security]\n\(body)", Self.world)
      .rules[0].security.settings
  }

  // MARK: What is read

  @Test func everyKeyIsTaken() throws {
    let settings = try settings(
      """
      pins = "p"
      allow_invalid_certificates = true
      validates_domain_name = false
      anchors = "ca.pem"
      min_tls = "1.0"
      max_tls = "1.1"
      ciphers = "ECDHE+AESGCM:@SECLEVEL=0"
      server_name = "Pay.BÜCHER.example."
      client_certificate = { certificate = "client.pem", key = { file = "client.key" } }
      revocation = "crl"
      crl_file = "list.crl"
      \(Self.pins)
      """)
    #expect(settings.pinSet?.name == "p" && settings.pinSet?.keys.count == 2)
    #expect(settings.allowInvalidCertificates && !settings.validatesDomainName)
    #expect(settings.anchors?.count == 1 && settings.anchors?.origin == "ca.pem")
    #expect(settings.minimumVersion == .tls10 && settings.maximumVersion == .tls11)
    #expect(settings.ciphers?.text == "ECDHE+AESGCM:@SECLEVEL=0")
    #expect(settings.serverName == "pay.xn--bcher-kva.example")
    #expect(settings.clientIdentity?.certificates.map(\.subject) == ["CN=kiosk-7"])
    guard case .crl(let lists) = settings.revocation else {
      Issue.record("no revocation lists")
      return
    }
    #expect(lists.count == 1)
  }

  @Test func oldVersionsNeedALowSecurityLevel() {
    for (lines, said) in [
      ("min_tls = \"1.0\"", "TLS below 1.2 is never spoken"),
      ("min_tls = \"1.0\"\nmax_tls = \"1.1\"", "no server can be reached"),
    ] {
      let files = DictionaryFiles(["s.toml": "[defaults.security]\n\(lines)\n"])
      let found = PolicyLoader.load(path: "s.toml", files: files).diagnostics.filter { !$0.isAboutTunnels }
      #expect(found.count == 1 && found[0].severity == .warning && found[0].message.contains(said), "\(found)")
      let lowered = DictionaryFiles([
        "s.toml": "[defaults.security]\n\(lines)\nciphers = \"DEFAULT:@SECLEVEL=0\"\n"
      ])
      let others = PolicyLoader.load(path: "s.toml", files: lowered).diagnostics.filter { !$0.isAboutTunnels }
      #expect(others.isEmpty)
    }
  }

  @Test func whatIsLeftOutIsTheStandard() throws {
    #expect(try settings("") == SecurityPolicy.Settings())
    #expect(try settings("anchors = \"system\"\nrevocation = \"none\"") == SecurityPolicy.Settings())
    #expect(try settings("revocation = \"staple\"").revocation == .staple)
  }

  // MARK: What is inherited

  @Test func aRuleInheritsKeyByKey() throws {
    let policy = try loaded(
      """
      [defaults.security]
      pins = "p"
      min_tls = "1.3"
      server_name = "a.example"
      anchors = "ca.pem"
      revocation = "crl"
      crl_file = "list.crl"
      \(Self.pins)[[rule]]
      name = "own"
      hosts = ["own"]
      [rule.security]
      pins = "none"
      min_tls = "1.2"
      anchors = "system"
      revocation = "staple"
      [[rule]]
      name = "silent"
      [pins.none]
      mode = "none"
      """, Self.world)
    let own = policy.rules[0].security.settings
    #expect(own.pinSet?.name == "none" && !policy.rules[0].security.isPinning)
    #expect(own.minimumVersion == .tls12 && own.anchors == nil && own.revocation == .staple)
    #expect(own.serverName == "a.example")
    #expect(policy.rules[1].security === policy.defaultSecurity)
    #expect(policy.defaultSecurity.settings.pinSet?.name == "p" && policy.defaultSecurity.isPinning)
    #expect(policy.defaultSecurity.settings.anchors?.origin == "ca.pem")
  }

  @Test func rulesThatSayTheSameShareOneObject() throws {
    let policy = try loaded(
      """
      [[rule]]
      name = "a"
      hosts = ["a"]
      security.min_tls = "1.3"
      [[rule]]
      name = "b"
      hosts = ["b"]
      [[rule]]
      name = "c"
      hosts = ["c"]
      security = { min_tls = "1.3", validates_domain_name = true }
      [[rule]]
      name = "d"
      security.max_tls = "1.3"
      """)
    let security = policy.rules.map(\.security)
    #expect(security[0] === security[2] && security[1] === security[3] && security[1] === policy.defaultSecurity)
    #expect(security[0] !== security[1])
    #expect(policy.securityPolicies.map(\.digest) == [security[1].digest, security[0].digest])
    #expect(policy.securityPolicies[0] === policy.defaultSecurity && policy.securityPolicies[1] === security[0])
  }

  @Test func tenThousandRulesWithoutSecurityShareTheDefault() throws {
    var text = "[defaults.security]\nmin_tls = \"1.3\"\n"
    for number in 0..<10_000 { text += "[[rule]]\nname = \"r\(number)\"\nhosts = [\"h\(number).example\"]\n" }
    let policy = try loaded(text)
    #expect(policy.rules.count == 10_000 && policy.rules.allSatisfy { $0.security === policy.defaultSecurity })
    #expect(policy.securityPolicies.count == 1)
  }

  // MARK: What is said of values

  static let values: [LoadRow] = [
    LoadRow(
      "types",
      security(
        "pins = [\"p\"]\nallow_invalid_certificates = 1\nvalidates_domain_name = \"x\"\nanchors = true\nciphers = []\n"
          + "server_name = 1\nrevocation = false\ncrl_file = 1"),
      "4:8: error: 'pins' in [rule.security]: expected a string, found an array",
      "5:30: error: 'allow_invalid_certificates' in [rule.security]: expected true or false, found an integer",
      "6:25: error: 'validates_domain_name' in [rule.security]: expected true or false, found a string",
      "7:11: error: 'anchors' in [rule.security]: expected a string, found a boolean",
      "8:11: error: 'ciphers' in [rule.security]: expected a string, found an array",
      "9:15: error: 'server_name' in [rule.security]: expected a string, found an integer",
      "10:14: error: 'revocation' in [rule.security]: expected a string, found a boolean",
      "11:12: error: 'crl_file' in [rule.security]: expected a string, found an integer"),
    LoadRow(
      "keys that are none", security("pin = \"p\"\nmin_tsl = \"1.2\""),
      "4:1: error: unknown key 'pin' in [rule.security]; did you mean 'pins'?",
      "5:1: error: unknown key 'min_tsl' in [rule.security]; did you mean 'min_tls'?"),
    LoadRow(
      "no table", "[[rule]]\nname = \"r\"\nsecurity = \"strict\"",
      "3:12: error: 'security' in [rule]: expected a table, found a string"),
    LoadRow(
      "versions", security("min_tls = \"1.4\"\nmax_tls = \"TLSv1.3\""),
      "4:11: error: 'min_tls' in [rule.security]: \(versions), found '1.4'",
      "5:11: error: 'max_tls' in [rule.security]: \(versions), found 'TLSv1.3'"),
    LoadRow(
      "a version without quotes", security("min_tls = 1.2\nmax_tls = 2"),
      "4:11: error: 'min_tls' in [rule.security]: \(versions) between quotes, found a float",
      "5:11: error: 'max_tls' in [rule.security]: expected a string, found an integer"),
    LoadRow(
      "anchors that are not there, foreign, or empty",
      security("anchors = \"none.pem\"\n[[rule]]\nname = \"b\"\nsecurity.anchors = \"other.key\""),
      "4:11: error: 'anchors' in [rule.security]: cannot read 'none.pem': No such file or directory",
      "7:20: error: 'anchors' in [rule.security]: 'other.key': expected a certificate, found PRIVATE KEY"),
    LoadRow(
      "anchors that soon expire", security("anchors = \"soon.pem\""),
      "4:11: warning: 'anchors' in [rule.security]: the certificate 'CN=soon.example' in 'soon.pem' "
        + "expires on 2026-01-20, in 12 days"),
    LoadRow(
      "the system's anchors where [trust] has others",
      "[trust]\nanchors = \"ca.pem\"\n[defaults.security]\nanchors = \"system\"\n[[rule]]\nname = \"r\"\nsecurity.anchors = \"system\"",
      "4:11: error: 'anchors' in [defaults.security]: \(notTheSystems)",
      "7:20: error: 'anchors' in [rule.security]: \(notTheSystems)"),
    LoadRow(
      "server names",
      security("server_name = \"a.example:443\"\n[[rule]]\nname = \"b\"\nsecurity.server_name = \"*.b\""),
      "4:15: error: 'server_name' in [rule.security]: expected letters, digits, '-', '_' and dots in a host name "
        + "(other scripts as A-labels, xn--…), found 'a.example:443'",
      "7:24: error: 'server_name' in [rule.security]: expected letters, digits, '-', '_' and dots in a host name "
        + "(other scripts as A-labels, xn--…), found '*.b'"),
    LoadRow(
      "a server name that is empty", security("server_name = \"\""),
      "4:15: error: 'server_name' in [rule.security]: expected a host name, but the host is empty, found ''"),
    LoadRow(
      "addresses as server names",
      security("server_name = \"192.0.2.1\"\n[[rule]]\nname = \"b\"\nsecurity.server_name = \"[::1]\""),
      "4:15: error: 'server_name' in [rule.security]: expected a host name, found the address '192.0.2.1', "
        + "which no TLS client sends (RFC 6066, 3)",
      "7:24: error: 'server_name' in [rule.security]: expected a host name, found the address '[::1]', "
        + "which no TLS client sends (RFC 6066, 3)"),
  ]

  private static func security(_ body: String) -> String { "[[rule]]\nname = \"r\"\n[rule.security]\n\(body)" }
  private static let versions = "expected \"1.0\", \"1.1\", \"1.2\" or \"1.3\""
  private static let notTheSystems =
    "the anchors of [trust] are not the system's; name the system's bundle here, such as "
    + "\"/etc/ssl/certs/ca-certificates.crt\""

  @Test(arguments: values) func valueRows(row: LoadRow) { row.check(Self.world) }

  @Test(arguments: ["NO-SUCH-CIPHER", "", "ECDHE+AESGCM:TLS_NO_SUCH_SUITE"])
  func ciphersThatOpenSSLRefuses(text: String) throws {
    let fault = #expect(throws: CipherList.Fault.self) { try CipherList(text) }
    LoadRow(
      text, Self.security("ciphers = \"\(text)\""),
      "4:11: error: 'ciphers' in [rule.security]: \(try #require(fault))"
    ).check()
  }

  // MARK: The client certificate

  /// Keys are hidden in their lines, so that only place and words are compared.
  @Test(arguments: [
    (
      "\"client.pem\"",
      "4:22: error: 'client_certificate' in [rule.security]: expected a table with 'certificate' and 'key'"
        + ", found a string"
    ),
    ("{ }", "4:22: error: 'client_certificate' in [rule.security]: 'certificate' and 'key' must be there"),
    ("{ certificate = \"client.pem\" }", "4:22: error: 'client_certificate' in [rule.security]: 'key' must be there"),
    (
      "{ key = { file = \"client.key\" } }",
      "4:22: error: 'client_certificate' in [rule.security]: 'certificate' must be there"
    ),
    (
      "{ certificate = \"none.pem\", key = { file = \"client.key\" } }",
      "4:38: error: 'certificate' in [rule.security.client_certificate]: cannot read 'none.pem': No such file or directory"
    ),
    (
      "{ certificate = \"client.pem\", key = { file = \"none.key\" } }",
      "4:67: error: 'file' in [rule.security.client_certificate.key]: cannot read 'none.key': No such file or directory"
    ),
    (
      "{ certificate = \"client.pem\", key = { file = \"other.key\" } }",
      "4:67: warning: 'file' in [rule.security.client_certificate.key]: others can read 'other.key', which holds a secret; "
        + "give it mode 0600 or 0640\n"
        + "4:22: error: 'client_certificate' in [rule.security]: 'client.pem' and its key: the private key is not that of "
        + "the certificate CN=kiosk-7"
    ),
    (
      "{ certificate = \"client.pem\", key = { file = \"encrypted.key\" } }",
      "4:22: error: 'client_certificate' in [rule.security]: 'client.pem' and its key: expected a private key that is not "
        + "encrypted; 'openssl pkey' writes one"
    ),
    (
      "{ certificate = \"client.key\", key = { file = \"client.key\" } }",
      "4:38: error: 'certificate' in [rule.security.client_certificate]: 'client.key': expected a certificate, found PRIVATE KEY"
    ),
    (
      "{ certificate = \"soon.pem\", key = { file = \"other.key\" } }",
      "4:38: warning: 'certificate' in [rule.security.client_certificate]: the certificate 'CN=soon.example' in 'soon.pem' "
        + "expires on 2026-01-20, in 12 days\n"
        + "4:65: warning: 'file' in [rule.security.client_certificate.key]: others can read 'other.key', which holds a "
        + "secret; give it mode 0600 or 0640"
    ),
    (
      "{ certificate = \"-----BEGIN PRIVATE KEY-----HUNTER2\", key = { file = \"client.key\" } }",
      "4:38: error: 'certificate' in [rule.security.client_certificate]: expected the path of a file, found PEM; "
        + "put it into a file"
    ),
    (
      "{ certificate = \"client.pem\", kee = { file = \"client.key\" } }",
      "4:22: error: 'client_certificate' in [rule.security]: 'key' must be there\n"
        + "4:52: error: unknown key 'kee' in [rule.security.client_certificate]; did you mean 'key'?"
    ),
  ]) func whatIsSaidOfAClientCertificate(body: String, expected: String) {
    var files = Self.world
    files.files["s.toml"] = Array(Self.security("client_certificate = \(body)").utf8)
    let result = PolicyLoader.load(path: "s.toml", files: files)
    // The rule opens plain tunnels, in which no certificate is shown.
    let said = result.diagnostics.filter { !$0.message.contains("has no effect on https") }.map {
      "\($0.location.line):\($0.location.column): \($0.severity.rawValue): \($0.message)"
    }
    #expect(Set(said) == Set(expected.split(separator: "\n").map(String.init)))
    #expect(!result.diagnostics.map(\.description).joined().contains("HUNTER2"))
    #expect((result.policy == nil) == expected.contains(": error: "))
  }

  // MARK: Keys that contradict each other

  static let contradictions: [LoadRow] = [
    LoadRow(
      "a name on a certificate that nobody vouches for", security("allow_invalid_certificates = true"),
      "4:30: error: 'allow_invalid_certificates' in [rule.security]: \(unvouched)"),
    LoadRow(
      "the same with a set that pins nothing",
      security("allow_invalid_certificates = true\npins = \"p\"\n[pins.p]\nmode = \"none\""),
      "4:30: error: 'allow_invalid_certificates' in [rule.security]: \(unvouched)"),
    LoadRow(
      "the same of the defaults, and once", "[defaults.security]\nallow_invalid_certificates = true\n\(security(""))",
      "2:30: error: 'allow_invalid_certificates' in [defaults.security]: \(unvouched)"),
    LoadRow(
      "half of it in the defaults",
      "[defaults.security]\nallow_invalid_certificates = true\nvalidates_domain_name = false\n"
        + security("validates_domain_name = true"),
      "2:30: warning: 'allow_invalid_certificates' in [defaults.security]: \(unchecked)",
      "7:25: error: 'validates_domain_name' in [rule.security]: \(unvouched)"),
    LoadRow("a name that is pinned", pins + security("allow_invalid_certificates = true\npins = \"p\"")),
    LoadRow(
      "anything goes", security("allow_invalid_certificates = true\nvalidates_domain_name = false"),
      "4:30: warning: 'allow_invalid_certificates' in [rule.security]: \(unchecked)"),
    LoadRow(
      "anything goes but for what is logged",
      pins + "enforce = false\n" + security("allow_invalid_certificates = true\npins = \"p\""),
      "7:30: warning: 'allow_invalid_certificates' in [rule.security]: any certificate is accepted, "
        + "for the set 'p' has enforce = false"),
    LoadRow(
      "anything goes since the set has expired",
      pins + "expires = 2026-01-01\non_expiry = \"report\"\n"
        + security("allow_invalid_certificates = true\npins = \"p\""),
      "3:11: warning: 'expires' in [pins.p]: the set has expired on 2026-01-01; what it pins is no longer enforced "
        + "(on_expiry = \"report\")",
      "8:30: warning: 'allow_invalid_certificates' in [rule.security]: any certificate is accepted, "
        + "for the set 'p' has expired with on_expiry = \"report\""),
    LoadRow(
      "a set that is not there says enough", security("allow_invalid_certificates = true\npins = \"p\""),
      "5:8: error: 'pins' in [rule.security]: there is no set of pins named 'p'"),
    LoadRow(
      "versions the wrong way round", security("min_tls = \"1.3\"\nmax_tls = \"1.2\""),
      "4:11: error: 'min_tls' in [rule.security]: \"1.3\" is above 'max_tls', which is \"1.2\""),
    LoadRow(
      "a version below what holds without a word", security("max_tls = \"1.1\""),
      "4:11: error: 'max_tls' in [rule.security]: \"1.1\" is below 'min_tls', which is \"1.2\" when it is not set"),
    LoadRow(
      "a version above what is inherited", "[defaults.security]\nmax_tls = \"1.2\"\n\(security("min_tls = \"1.3\""))",
      "6:11: error: 'min_tls' in [rule.security]: \"1.3\" is above 'max_tls', which is \"1.2\""),
    LoadRow("one version", security("min_tls = \"1.3\"\nmax_tls = \"1.3\"")),
    LoadRow(
      "no lists", security("revocation = \"crl\""),
      "4:14: error: 'revocation' in [rule.security]: \"crl\" needs the revocation lists: set 'crl_file' to a file of "
        + "them, PEM or DER"),
    LoadRow(
      "lists that nobody looks at", security("crl_file = \"list.crl\""),
      "4:12: error: 'crl_file' in [rule.security]: the lists are looked at with revocation = \"crl\" only; "
        + "set it, or leave 'crl_file' out"),
    LoadRow(
      "lists that are not there, or none",
      security("revocation = \"crl\"\ncrl_file = \"none.crl\"\n") + "[[rule]]\nname = \"b\"\n[rule.security]\n"
        + "revocation = \"crl\"\ncrl_file = \"ca.pem\"",
      "5:12: error: 'crl_file' in [rule.security]: cannot read 'none.crl': No such file or directory",
      "10:12: error: 'crl_file' in [rule.security]: 'ca.pem': expected a revocation list (X509 CRL), found CERTIFICATE"),
    LoadRow(
      "lists that are inherited and not wanted here",
      "[defaults.security]\nrevocation = \"crl\"\ncrl_file = \"list.crl\"\n\(security("revocation = \"none\""))"),
    LoadRow(
      "a revocation that is none", security("revocation = \"ocsp\"\ncrl_file = \"list.crl\""),
      "4:14: error: 'revocation' in [rule.security]: expected \"none\", \"staple\" or \"crl\", found 'ocsp'"),
  ]

  private static let unvouched =
    "invalid certificates are allowed, and the name on one proves nothing, because anyone can write it; pin the server's key "
    + "('pins' with mode \"public-key\" or \"certificate\"), or trust its authority with 'anchors' and leave "
    + "'allow_invalid_certificates' out"
  private static let unchecked =
    "any certificate is accepted, because nothing is checked and nothing is pinned; anyone on the way can "
    + "read and change what is sent"

  @Test(arguments: contradictions) func contradictionRows(row: LoadRow) { row.check(Self.world) }

  // MARK: Security that does not reach a tunnel

  static let tunnels: [LoadRow] = [
    LoadRow(
      "pins of a rule about requests", pins + rule("methods = [\"GET\"]", "pins = \"p\""),
      "7:8: warning: 'pins' in [rule.security]: \(noTunnel)"),
    LoadRow(
      "pins of a rule about paths", pins + rule("paths = [\"/a\"]", "pins = \"p\""),
      "7:8: warning: 'pins' in [rule.security]: \(noTunnel)"),
    LoadRow("the same with connect", pins + rule("methods = [\"GET\"]\nconnect = \"verify\"", "pins = \"p\"")),
    LoadRow(
      "the same where no tunnel is meant", pins + rule("methods = [\"GET\"]\nschemes = [\"http\"]", "pins = \"p\""),
      "8:8: warning: 'pins' in [rule.security]: they have no effect: requests of this rule leave without TLS. "
        + "Set upgrade = true, or leave 'schemes' out"),
    LoadRow(
      "the same inside tunnels that are intercepted",
      pins + rule("hosts = [\"x.a\"]\nmethods = [\"GET\"]", "pins = \"p\"")
        + "\n[[rule]]\nname = \"b\"\nhosts = [\"**.a\"]\nconnect = \"intercept\""),
    LoadRow(
      "the same beside tunnels of another host that are intercepted",
      pins + rule("hosts = [\"x.a\"]\nmethods = [\"GET\"]", "pins = \"p\"")
        + "\n[[rule]]\nname = \"b\"\nhosts = [\"*.b\"]\nconnect = \"intercept\"",
      "8:8: warning: 'pins' in [rule.security]: \(noTunnel)"),
    LoadRow(
      "a set that pins nothing", "[pins.p]\nmode = \"none\"\n" + rule("methods = [\"GET\"]", "pins = \"p\"")),
    LoadRow(
      "pins of the defaults",
      "[defaults.security]\npins = \"p\"\n\(pins)" + rule("methods = [\"GET\"]", "min_tls = \"1.3\"")),
    LoadRow(
      "a tunnel of a rule that pins", pins + rule("connect = \"tunnel\"", "pins = \"p\""),
      "5:11: warning: 'connect' in [rule]: \"tunnel\" passes bytes unread, so the rule's pins are not checked "
        + "in tunnels; \"verify\" and \"intercept\" look at them"),
    LoadRow(
      "a tunnel in spite of the defaults",
      "[defaults.security]\npins = \"p\"\n\(pins)" + rule("connect = \"tunnel\"", "")),
    LoadRow(
      "a client certificate that a probe does not show", rule("connect = \"verify\"", identity),
      "5:22: warning: 'client_certificate' in [rule.security]: \(notShown)"),
    LoadRow(
      "the same where pins make it a probe", pins + rule("ports = [443]", "pins = \"p\"\n\(identity)"),
      "8:22: warning: 'client_certificate' in [rule.security]: \(notShown)"),
    LoadRow("a client certificate that is shown", rule("connect = \"intercept\"", identity)),
    LoadRow("a client certificate for what is upgraded", pins + rule("upgrade = true", "pins = \"p\"\n\(identity)")),
  ]

  private static func rule(_ conditions: String, _ security: String) -> String {
    "[[rule]]\nname = \"r\"\n\(conditions)\n[rule.security]\n\(security)"
  }
  private static let identity = "client_certificate = { certificate = \"client.pem\", key.file = \"client.key\" }"
  private static let noTunnel =
    "these pins have no effect on tunnels: a rule with 'methods' or 'paths' does not decide a CONNECT; name them "
    + "in a rule without, or set 'connect'"
  private static let notShown =
    "it is not shown in tunnels of this rule: with connect = \"verify\" TLS is the client's own; \"intercept\" shows it"

  @Test(arguments: tunnels) func tunnelRows(row: LoadRow) {
    // The path of the certificate is hidden beside the key, so that its lines are compared without their excerpt.
    guard row.source.contains("client_certificate") else { return row.check(Self.world) }
    var files = Self.world
    files.files["s.toml"] = Array(row.source.utf8)
    let said = PolicyLoader.load(path: "s.toml", files: files).diagnostics.map {
      "\($0.location.line):\($0.location.column): \($0.severity.rawValue): \($0.message)"
    }
    #expect(said == row.expected)
  }
}

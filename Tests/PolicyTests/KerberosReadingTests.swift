// Credentials of a route by Kerberos: what is read, and what is said of the rest.

import Testing

@testable import Policy

@Suite struct KerberosReadingTests {
  private static let rule = "\n[[rule]]\nname = \"r\"\nroute = [\"x\"]"
  private static let world: DictionaryFiles = {
    var files = DictionaryFiles()
    files.files["k"] = [5, 2, 0, 0]
    files.files["other"] = [0x68, 0x69]
    return files
  }()

  private static func text(_ credentials: String, via: String = "http://p.example") -> String {
    "[routes.x]\nvia = \"\(via)\"\ncredentials = { scheme = \"negotiate\", \(credentials) }\(rule)"
  }

  @Test(arguments: ["http", "https"]) func aKeytabAndAPrincipal(scheme: String) throws {
    let policy = try loaded(
      Self.text("keytab = \"k\", principal = \"proxy/a@EXAMPLE.ORG\"", via: "\(scheme)://p.example"), Self.world)
    let parent = try #require(policy.rules[0].routes.first?.parent)
    #expect(parent.kerberos == KerberosClient(keytab: "k", principal: "proxy/a@EXAMPLE.ORG"))
    #expect(parent.password == nil && parent.credentials?.scheme == .negotiate)
    #expect(policy.rules[0].routes.first?.carriesSecret == true)
  }

  @Test func theFirstKeyOfTheFile() throws {
    let policy = try loaded(Self.text("keytab = \"k\""), Self.world)
    #expect(policy.rules[0].routes.first?.parent?.kerberos == KerberosClient(keytab: "k", principal: nil))
  }

  @Test func aCredentialOfTheService() throws {
    var files = Self.world
    files.credentialsDirectory = "/run/credentials/s"
    files.files["/run/credentials/s/keys"] = [5, 2]
    let policy = try loaded(Self.text("keytab = { credential = \"keys\" }"), files)
    #expect(policy.rules[0].routes.first?.parent?.kerberos?.keytab == "/run/credentials/s/keys")
  }

  @Test func whatOnlyTheServiceCanReadIsANote() {
    var files = Self.world
    files.files["s.toml"] = Array(Self.text("keytab = { credential = \"keys\" }").utf8)
    let said = PolicyLoader.load(path: "s.toml", files: files, secrets: .inspected)
    #expect(said.policy != nil)
    #expect(
      said.diagnostics.map(\.sentence) == [
        "s.toml:3:48: note: 'keytab' in [routes.x.credentials]: not readable by you: the service reads it (the credential 'keys' of systemd)"
      ])
  }

  /// What is quoted of the line is hidden, as it is about credentials.
  struct Row: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let source: String
    let expected: String

    init(_ name: String, _ source: String, _ expected: String) {
      testDescription = name
      self.source = source
      self.expected = expected
    }
  }

  private static let rows: [Row] = [
    Row(
      "no keytab", text("principal = \"p\""),
      "3:15: error: 'credentials' in [routes.x]: 'keytab' must be there"),
    Row(
      "a password beside it", text("keytab = \"k\", password = \"p\""),
      "3:64: error: 'password' in [routes.x.credentials]: scheme = \"negotiate\" takes a 'keytab', and no user name and password"
    ),
    Row(
      "a file that is none", text("keytab = \"other\""),
      "3:48: error: 'keytab' in [routes.x.credentials]: expected a keytab, as ktutil(1) or 'kadmin ktadd' writes it, and "
        + "'other' is something else"),
    Row(
      "no principal", text("keytab = \"k\", principal = \"a b\""),
      "3:65: error: 'principal' in [routes.x.credentials]: expected a principal, as in \"proxy@EXAMPLE.ORG\", found 'a b'"
    ),
    Row(
      "an address", text("keytab = \"k\"", via: "http://192.0.2.1"),
      "3:15: error: 'credentials' in [routes.x]: a ticket is for a service of a host by its name, and 'via' names an address"
    ),
    Row(
      "SOCKS", text("keytab = \"k\"", via: "socks5://p.example"),
      "3:15: error: 'credentials' in [routes.x]: 'scheme': SOCKS knows no schemes, only user name and password (RFC 1929); "
        + "leave it out"),
    Row(
      "a keytab for another scheme",
      "[routes.x]\nvia = \"http://p\"\ncredentials = { username = \"u\", password = \"p\", keytab = \"k\" }\(rule)",

      "3:58: error: 'keytab' in [routes.x.credentials]: it belongs to scheme = \"negotiate\"; other schemes take 'username' "
        + "and 'password'"),
    Row(
      "to an origin",
      "[[rule]]\nname = \"r\"\n[rule.request]\nauthorization = { scheme = \"negotiate\", username = \"u\", password = \"p\" }",
      "4:28: error: 'scheme' in [rule.request.authorization]: expected \"basic\" or \"digest\"; Negotiate is for parents, in "
        + "[routes]"),
  ]

  @Test(arguments: rows) func whatIsSaid(row: Row) {
    var files = Self.world
    files.files["s.toml"] = Array(row.source.utf8)
    let said = PolicyLoader.load(path: "s.toml", files: files).diagnostics
    #expect(said.map(\.sentence) == ["s.toml:\(row.expected)"])
    #expect(said.allSatisfy { !$0.description.contains("\"k\"") })
  }
}

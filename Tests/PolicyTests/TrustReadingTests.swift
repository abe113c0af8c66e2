// [trust] and [authority].

import Security
import Testing

@testable import Policy

@Suite struct TrustReadingTests {
  static var world: DictionaryFiles {
    var files = DictionaryFiles([
      "ca.pem": TestCertificates.one + "\n" + TestCertificates.two + "\n" + TestCertificates.one,
      "anchors/a.pem": TestCertificates.one, "anchors/b": TestCertificates.soon, "anchors/old/c.pem": "not looked at",
      "mixed/a.pem": TestCertificates.one, "mixed/README": "what these are", "key.pem": TestCertificates.otherKey,
      "authority.key": TestCertificates.otherKey + "\n", "open.key": TestCertificates.otherKey,
      "nest/deeper/c.pem": TestCertificates.one,
    ])
    files.unreadable["closed.pem"] = "Permission denied"
    files.exposed = ["open.key"]
    return files
  }

  @Test func theSystemsAnchorsAreTheDefaultAndAreNotRead() throws {
    #expect(try loaded("").configuration.trust == .system)
    let result = PolicyLoader.load(
      path: "s.toml", files: DictionaryFiles(["s.toml": "[trust]\nanchors = \"system\"", "system": "x"]))
    #expect(result.policy?.configuration.trust == .system)
    #expect(result.files == ["s.toml"])
  }

  @Test func aBundleHoldsEachAnchorOnce() throws {
    let policy = try loaded("[trust]\nanchors = \"ca.pem\"", Self.world)
    guard case .anchors(let anchors) = policy.configuration.trust else {
      Issue.record("the bundle is not taken")
      return
    }
    #expect(anchors.count == 2 && anchors.origin == "ca.pem")
  }

  @Test func aDirectoryIsEveryFileInIt() throws {
    var files = Self.world
    files.files["anchors/b"] = Array(TestCertificates.two.utf8)
    let policy = try loaded("[trust]\nanchors = \"anchors\"", files)
    guard case .anchors(let anchors) = policy.configuration.trust else {
      Issue.record("the directory is not taken")
      return
    }
    #expect(anchors.count == 2 && anchors.origin == "anchors")
  }

  @Test func theProfileIsTaken() throws {
    #expect(try loaded("").configuration.trustProfile == nil)
    #expect(try loaded("[trust]\nprofile = \"private\"").configuration.trustProfile == .private)
    #expect(try loaded("[trust]\nprofile = \"public\"").configuration.trustProfile == .public)
  }

  static let rows: [LoadRow] = [
    LoadRow(
      "a profile that there is not", "[trust]\nprofile = \"strict\"",
      "2:11: error: 'profile' in [trust]: expected \"public\" or \"private\", found 'strict'"),
    LoadRow(
      "anchors that are not there", "[trust]\nanchors = \"none.pem\"",
      "2:11: error: 'anchors' in [trust]: cannot read 'none.pem': No such file or directory"),
    LoadRow(
      "anchors that cannot be read", "[trust]\nanchors = \"closed.pem\"",
      "2:11: error: 'anchors' in [trust]: cannot read 'closed.pem': Permission denied"),
    LoadRow(
      "a key", "[trust]\nanchors = \"key.pem\"",
      "2:11: error: 'anchors' in [trust]: 'key.pem': expected a certificate, found PRIVATE KEY"),
    LoadRow(
      "a directory with something else in it", "[trust]\nanchors = \"mixed\"",
      "2:11: error: 'anchors' in [trust]: 'mixed/README': expected a certificate in PEM or DER, found text"),
    LoadRow(
      "a directory of directories", "[trust]\nanchors = \"nest\"",
      "2:11: error: 'anchors' in [trust]: the directory 'nest' has no file in it"),
    LoadRow(
      "an anchor that soon expires", "[trust]\nanchors = \"anchors\"",
      "2:11: warning: 'anchors' in [trust]: the certificate 'CN=soon.example' in 'anchors/b' "
        + "expires on 2026-01-20, in 12 days"),
    LoadRow(
      "types and names",
      "[trust]\nanchors = [\"ca.pem\"]\nanchor = \"x\"\n[authority]\ndirectory = 1\nkey = 2\ndir = \"x\"",
      "2:11: error: 'anchors' in [trust]: expected a string, found an array",
      "3:1: error: unknown key 'anchor' in [trust]; did you mean 'anchors'?",
      "5:13: error: 'directory' in [authority]: expected a string, found an integer",
      "7:1: error: unknown key 'dir' in [authority]; did you mean 'directory'?"),
    LoadRow(
      "an empty path", "[trust]\nanchors = \"\"\n[authority]\ndirectory = \"\"",
      "2:11: error: 'anchors' in [trust]: expected a path, found ''",
      "4:13: error: 'directory' in [authority]: expected a path, found ''"),
  ]

  /// A key of the wrong type is hidden in its line: SecretTests look at that.
  @Test(arguments: rows.filter { !$0.source.contains("key = 2") }) func trustRows(row: LoadRow) {
    row.check(Self.world)
  }

  @Test func whatIsWrongWithSeveralKeysIsSaidOfEach() throws {
    let row = try #require(Self.rows.first { $0.source.contains("key = 2") })
    var files = Self.world
    files.files["s.toml"] = Array(row.source.utf8)
    let said = PolicyLoader.load(path: "s.toml", files: files).diagnostics.map {
      "\($0.location.line):\($0.location.column): \($0.severity.rawValue): \($0.message)"
    }
    let key =
      "6:7: error: 'key' in [authority]: expected a secret (a table with 'file', 'credential' or 'env', or a string), "
      + "found an integer"
    #expect(said == row.expected[..<3] + [key] + row.expected[3...])
  }

  // MARK: [authority]

  @Test func theAuthorityHasItsPlace() throws {
    let standard = try loaded("").configuration.authority
    #expect(standard.directory == "/var/lib/sallyport/authority" && standard.key == nil)
    var files = Self.world
    files.files["etc/s.toml"] = Array("[authority]\ndirectory = \"ca\"\nkey = { file = \"../authority.key\" }".utf8)
    files.files["etc/../authority.key"] = Array(TestCertificates.otherKey.utf8)
    let authority = try #require(PolicyLoader.load(path: "etc/s.toml", files: files).policy).configuration.authority
    #expect(authority.directory == "etc/ca")
    #expect(authority.key == Array(TestCertificates.otherKey.utf8))
  }

  @Test func aKeyThatOthersReadIsAWarning() {
    LoadRow(
      "mode 0644", "[authority]\nkey = { file = \"open.key\" }",
      "2:16: warning: 'file' in [authority.key]: others can read 'open.key', which holds a secret; "
        + "give it mode 0600 or 0640"
    ).check(Self.world)
  }

  @Test func aKeyThatIsNotThereIsAnError() {
    LoadRow(
      "no such credential", "[authority]\nkey = { credential = \"ca\" }",
      "2:22: error: 'credential' in [authority.key]: the credential 'ca' is not there: $CREDENTIALS_DIRECTORY is not set; "
        + "systemd sets it for a service with LoadCredential="
    ).check(Self.world)
  }
}

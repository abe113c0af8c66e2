// [pins.NAME]: every key, what is said of what it does not take, and of sets that are odd as a whole.

import Security
import Testing

@testable import Policy

@Suite struct PinReadingTests {
  /// A rule that names the set, so that nothing is said of a set that no rule names.
  static let rule = "\n[[rule]]\nname = \"r\"\nsecurity.pins = \"p\""
  static let one = TestCertificates.pinOfOne
  static let two = TestCertificates.pinOfTwo
  static let both = "spki = [\"\(one)\", \"\(two)\"]"

  static var world: DictionaryFiles {
    DictionaryFiles([
      "one.pem": TestCertificates.one, "two.pem": TestCertificates.two, "renewed.pem": TestCertificates.renewed,
      "both.pem": TestCertificates.one + "\nsome text\n" + TestCertificates.two,
      "expired.pem": TestCertificates.expired, "soon.pem": TestCertificates.soon,
      "set/a.cer": TestCertificates.one, "set/b.cer": TestCertificates.two, "set/notes.txt": "not a certificate",
      "bare/notes.txt": "not a certificate", "key.pem": TestCertificates.otherKey, "text.pem": "hello", "empty.pem": "",
    ])
  }

  private func set(_ body: String, _ files: DictionaryFiles = world) throws -> PinSet {
    let policy = try loaded("[pins.p]\n\(body)\(Self.rule)", files)
    return try #require(policy.rules[0].security.settings.pinSet)
  }

  // MARK: What is read

  @Test func everyKeyIsTaken() throws {
    let set = try set(
      """
      mode = "certificate"
      certificates = ["one.pem", "two.pem"]
      expires = 2027-06-01
      on_expiry = "report"
      enforce = false
      """)
    #expect(set.name == "p" && set.mode == .certificate && set.isPinning)
    #expect(set.certificates.map(\.subject) == ["CN=one.example", "CN=two.example"])
    #expect(set.expires == 1_811_894_400, "the end of that day")
    #expect(!set.failsOnExpiry && !set.enforce)
  }

  @Test func whatIsLeftOutIsStrict() throws {
    let set = try set(Self.both)
    #expect(set.mode == .publicKey && set.enforce && set.failsOnExpiry && set.expires == nil)
    #expect(set.keys.map(\.description) == [Self.one, Self.two])
    #expect(set.certificates.isEmpty)
  }

  @Test(arguments: [
    "certificates = [\"one.pem\", \"two.pem\"]", "certificates = [\"both.pem\"]", "certificates = [\"set/*.cer\"]",
    "certificates = [\"set\"]", "certificates = [\"set/\"]",
  ]) func certificatesAreFoundByFilePatternAndDirectory(body: String) throws {
    #expect(try set(body).certificates.map(\.subject) == ["CN=one.example", "CN=two.example"])
  }

  @Test func certificatesMayBeDER() throws {
    var files = Self.world
    files.files["one.der"] = try Certificate.read(Array(TestCertificates.one.utf8)).get()[0].der
    let set = try set("certificates = [\"one.der\", \"two.pem\"]", files)
    #expect(set.certificates.map(\.subject) == ["CN=one.example", "CN=two.example"])
  }

  @Test func filesAreRelativeToTheFileThatNamesThem() throws {
    var files = Self.world
    files.files["d/p.toml"] = Array(
      "[pins.p]\ncertificates = [\"set/*.cer\", \"../one.pem\"]\nmode = \"certificate\"".utf8)
    files.files["d/set/x.cer"] = Array(TestCertificates.two.utf8)
    files.files["d/../one.pem"] = Array(TestCertificates.one.utf8)
    let policy = try loaded("include = [\"d/p.toml\"]\(Self.rule)", files)
    let set = try #require(policy.rules[0].security.settings.pinSet)
    #expect(set.certificates.map(\.subject) == ["CN=two.example", "CN=one.example"])
  }

  @Test func aSetMayStandBehindTheRuleAndInAnotherFile() throws {
    var files = Self.world
    files.files["d/pins.toml"] = Array("[pins.p]\n\(Self.both)".utf8)
    let policy = try loaded("include = [\"d/*.toml\"]\(Self.rule)", files)
    #expect(policy.rules[0].security.settings.pinSet?.keys.count == 2)
    #expect(try loaded("\(Self.rule)\n[pins.p]\n\(Self.both)").rules[0].security.isPinning)
  }

  // MARK: What is said of values

  static let values: [LoadRow] = [
    LoadRow(
      "types",
      "[pins.p]\nmode = 1\nspki = \"x\"\ncertificates = \"x\"\nexpires = 2027\non_expiry = true\nenforce = \"no\"\(rule)",
      "2:8: error: 'mode' in [pins.p]: expected a string, found an integer",
      "3:8: error: 'spki' in [pins.p]: expected an array of strings, found a string",
      "4:16: error: 'certificates' in [pins.p]: expected an array of strings, found a string",
      "5:11: error: 'expires' in [pins.p]: expected a date such as 2027-06-01, found an integer",
      "6:13: error: 'on_expiry' in [pins.p]: expected a string, found a boolean",
      "7:11: error: 'enforce' in [pins.p]: expected true or false, found a string"),
    LoadRow(
      "words", "[pins.p]\nmode = \"publickey\"\non_expiry = \"warn\"\(rule)",
      "2:8: error: 'mode' in [pins.p]: expected \"none\", \"public-key\" or \"certificate\", found 'publickey'; "
        + "did you mean 'public-key'?",
      "3:13: error: 'on_expiry' in [pins.p]: expected \"fail\" or \"report\", found 'warn'"),
    LoadRow(
      "an unknown key", "[pins.p]\n\(both)\nexpiry = 2027-06-01\(rule)",
      "3:1: error: unknown key 'expiry' in [pins.p]; did you mean 'expires'?"),
    LoadRow(
      "pins that are none",
      "[pins.p]\nspki = [\"sha256/AAAA\", \"sha1/xyz\", \"\", 3]\(rule)",
      "2:9: error: 'spki' in [pins.p]: \(pinExpectation), found 'sha256/AAAA'",
      "2:24: error: 'spki' in [pins.p]: \(pinExpectation), found 'sha1/xyz'",
      "2:36: error: 'spki' in [pins.p]: \(pinExpectation), found ''",
      "2:40: error: 'spki' in [pins.p]: expected a string, found an integer"),
    LoadRow(
      "dates that are none", "[pins.p]\n\(both)\nexpires = \"2027-06-01\"\(rule)",
      "3:11: error: 'expires' in [pins.p]: expected a date such as 2027-06-01, without quotes, found the string '2027-06-01'"
    ),
    LoadRow(
      "a time of day", "[pins.p]\n\(both)\nexpires = 07:32:00\(rule)",
      "3:11: error: 'expires' in [pins.p]: expected a date such as 2027-06-01, found a date or time"),
    LoadRow(
      "names that are none", "[pins.\"a b\"]\n\(both)\n[pins]\nx = 3",
      "1:7: error: [pins]: expected 1 to 64 ASCII letters, digits, '.', '_', ':' and '-' in the name of a set of pins, found 'a b'",
      "4:5: error: 'x' in [pins]: expected a table, found an integer"),
    LoadRow(
      "sets that are none", "pins = \"x\"", "1:8: error: 'pins': expected a table, found a string"),
  ]

  private static let pinExpectation =
    "expected the SHA-256 of a public key, as \"sha256/\" and 44 characters of base64, or as 64 hexadecimal digits"

  @Test(arguments: values) func valueRows(row: LoadRow) { row.check() }

  // MARK: What is said of certificates

  static let files: [LoadRow] = [
    LoadRow(
      "a file that is not there", "[pins.p]\ncertificates = [\"none.pem\"]\(rule)",
      "2:17: error: 'certificates' in [pins.p]: cannot read 'none.pem': No such file or directory"),
    LoadRow(
      "foreign content", "[pins.p]\ncertificates = [\"one.pem\", \"key.pem\", \"text.pem\", \"empty.pem\"]\(rule)",
      "2:28: error: 'certificates' in [pins.p]: 'key.pem': expected a certificate, found PRIVATE KEY",
      "2:39: error: 'certificates' in [pins.p]: 'text.pem': expected a certificate in PEM or DER, found text",
      "2:51: error: 'certificates' in [pins.p]: 'empty.pem': expected a certificate in PEM or DER, found nothing"),
    LoadRow(
      "a pattern that matches nothing", "[pins.p]\ncertificates = [\"none/*.cer\"]\(rule)",
      "2:17: error: 'certificates' in [pins.p]: no file matches 'none/*.cer'"),
    LoadRow(
      "a pattern that cannot be listed", "[pins.p]\ncertificates = [\"a?.cer\"]\(rule)",
      "2:17: error: 'certificates' in [pins.p]: cannot list 'a?.cer': no pattern"),
    LoadRow(
      "a pattern with something foreign among its matches", "[pins.p]\ncertificates = [\"set/*\"]\(rule)",
      "2:17: error: 'certificates' in [pins.p]: 'set/notes.txt': expected a certificate in PEM or DER, found text"),
    LoadRow(
      "a directory without certificates", "[pins.p]\ncertificates = [\"bare\"]\(rule)",
      "2:17: error: 'certificates' in [pins.p]: the directory 'bare' has no *.cer file in it"),
    LoadRow(
      "no path", "[pins.p]\ncertificates = [\"\", \"-----BEGIN CERTIFICATE-----\"]\(rule)",
      "2:17: error: 'certificates' in [pins.p]: expected a path, found ''",
      "2:21: error: 'certificates' in [pins.p]: expected the path of a file, found PEM; put it into a file"),
    LoadRow(
      "one that has expired, and one that soon will",
      "[pins.p]\ncertificates = [\"one.pem\", \"expired.pem\"]\n[pins.q]\ncertificates = [\"one.pem\", \"soon.pem\"]\(rule)"
        + "\n[[rule]]\nname = \"q\"\nhosts = [\"q\"]\nsecurity.pins = \"q\"\n",
      "2:28: warning: 'certificates' in [pins.p]: the certificate 'CN=expired.example' in 'expired.pem' "
        + "has expired on 2024-03-01",
      "4:28: warning: 'certificates' in [pins.q]: the certificate 'CN=soon.example' in 'soon.pem' "
        + "expires on 2026-01-20, in 12 days",
      "8:1: warning: rule 'q' can never match: rule 'r' at s.toml:5 comes first and matches all that it does"),
  ]

  @Test(arguments: files) func fileRows(row: LoadRow) { row.check(Self.world) }

  @Test func aFileIsReadOnceAndACertificateTellsItsAgeOnce() {
    let text =
      "[pins.p]\ncertificates = [\"one.pem\", \"soon.pem\"]\(Self.rule)\nsecurity.anchors = \"copy.pem\"\n"
      + "[trust]\nanchors = \"soon.pem\""
    var files = Self.world
    files.files["copy.pem"] = files.files["soon.pem"]
    files.files["s.toml"] = Array(text.utf8)
    let result = PolicyLoader.load(path: "s.toml", files: files)
    #expect(result.diagnostics.map(\.location.line) == [2])
    #expect(result.files == ["s.toml", "one.pem", "soon.pem", "copy.pem"])
  }

  @Test func tooManyFilesAreTooMany() {
    var files = Self.world
    for number in 0...CertificateMemory.mostFiles { files.files["many/\(number).cer"] = [] }
    LoadRow(
      "1025 files", "[pins.p]\ncertificates = [\"many\"]\(Self.rule)",
      "2:17: error: 'certificates' in [pins.p]: expected at most 1024 files, found 1025"
    ).check(files)
  }

  @Test func aFileMayNotBeTooLarge() {
    var files = Self.world
    files.files["large"] = Array(repeating: 0x20, count: CertificateMemory.largestFileBytes + 1)
    LoadRow(
      "more than 4 MiB", "[pins.p]\ncertificates = [\"large\"]\(Self.rule)",
      "2:17: error: 'certificates' in [pins.p]: cannot read 'large': the file has more than 4194304 bytes"
    ).check(files)
  }

  // MARK: What is said of a set as a whole

  static let sets: [LoadRow] = [
    LoadRow(
      "no pin", "[pins.p]\(rule)",
      "1:7: error: [pins.p] holds no pin, so nothing could ever connect; mode \"public-key\" needs "
        + "'spki' or 'certificates'"),
    LoadRow(
      "empty lists", "[pins.p]\nspki = []\ncertificates = []\(rule)",
      "1:7: error: [pins.p] holds no pin, so nothing could ever connect; mode \"public-key\" needs "
        + "'spki' or 'certificates'"),
    LoadRow(
      "keys where certificates are compared", "[pins.p]\nmode = \"certificate\"\n\(both)\(rule)",
      "1:7: error: [pins.p] holds no pin, so nothing could ever connect; mode \"certificate\" needs 'certificates'"
    ),
    LoadRow(
      "keys beside certificates that are compared",
      "[pins.p]\nmode = \"certificate\"\n\(both)\ncertificates = [\"both.pem\"]\(rule)",
      "3:8: warning: 'spki' in [pins.p]: it is not looked at: mode \"certificate\" compares whole certificates"),
    LoadRow(
      "one pin", "[pins.p]\nspki = [\"\(one)\"]\(rule)",
      "1:7: warning: [pins.p]: \(lone)"),
    LoadRow(
      "one certificate", "[pins.p]\nmode = \"certificate\"\ncertificates = [\"one.pem\"]\(rule)",
      "1:7: warning: [pins.p]: \(lone)"),
    LoadRow(
      "one pin twice, in two forms",
      "[pins.p]\nspki = [\"\(one)\", \"sha256//\(one.dropFirst(7))\"]\(rule)",
      "1:7: warning: [pins.p]: \(lone)", "2:64: warning: 'spki' in [pins.p]: '\(one)' stands in the list twice"),
    LoadRow(
      "two certificates with one key", "[pins.p]\ncertificates = [\"one.pem\", \"renewed.pem\"]\(rule)",
      "1:7: warning: [pins.p]: \(lone)",
      "2:28: warning: 'certificates' in [pins.p]: the key of the certificate 'CN=renewed.example' in 'renewed.pem' "
        + "is pinned already, \(one)"),
    LoadRow(
      "a certificate with a key of the other list", "[pins.p]\n\(both)\ncertificates = [\"one.pem\"]\(rule)",
      "3:17: warning: 'certificates' in [pins.p]: the key of the certificate 'CN=one.example' in 'one.pem' "
        + "is pinned already, \(one)"),
    LoadRow(
      "a certificate twice", "[pins.p]\nmode = \"certificate\"\ncertificates = [\"both.pem\", \"one.pem\"]\(rule)",
      "3:29: warning: 'certificates' in [pins.p]: the certificate 'CN=one.example' in 'one.pem' is pinned twice"),
    LoadRow(
      "two certificates with one key where certificates are compared",
      "[pins.p]\nmode = \"certificate\"\ncertificates = [\"one.pem\", \"renewed.pem\"]\(rule)"),
    LoadRow(
      "pins that nobody looks at",
      "[pins.p]\nmode = \"none\"\n\(both)\ncertificates = [\"both.pem\"]\(rule)",
      "3:8: warning: 'spki' in [pins.p]: it is not looked at: mode \"none\" pins nothing",
      "4:16: warning: 'certificates' in [pins.p]: it is not looked at: mode \"none\" pins nothing"),
    LoadRow("a set that pins nothing, on purpose", "[pins.p]\nmode = \"none\"\(rule)"),
    LoadRow(
      "what is done on an expiry that never comes", "[pins.p]\n\(both)\non_expiry = \"report\"\(rule)",
      "3:13: warning: 'on_expiry' in [pins.p]: it does nothing without 'expires'"),
    LoadRow(
      "a set that has expired", "[pins.p]\n\(both)\nexpires = 2026-01-07\(rule)",
      "3:11: warning: 'expires' in [pins.p]: the set has expired on 2026-01-07; what it pins is refused "
        + "(on_expiry = \"fail\")"),
    LoadRow(
      "a set that has expired and reports",
      "[pins.p]\n\(both)\nexpires = 2025-12-24T18:00:00Z\non_expiry = \"report\"\(rule)",
      "3:11: warning: 'expires' in [pins.p]: the set has expired on 2025-12-24T18:00:00Z; what it pins is no longer "
        + "enforced (on_expiry = \"report\")"),
    LoadRow(
      "a set that is good until tonight", "[pins.p]\n\(both)\nexpires = 2026-01-08\(rule)",
      "3:11: warning: 'expires' in [pins.p]: the set expires on 2026-01-08, in 1 day; after it what it pins is refused "
        + "(on_expiry = \"fail\")"),
    LoadRow(
      "a set that is good for an hour", "[pins.p]\n\(both)\nexpires = 2026-01-08T02:00:00+01:00\(rule)",
      "3:11: warning: 'expires' in [pins.p]: the set expires on 2026-01-08T02:00:00+01:00, in less than a day; "
        + "after it what it pins is refused (on_expiry = \"fail\")"),
    LoadRow(
      "a set that expires in 30 days", "[pins.p]\n\(both)\nexpires = 2026-02-06\non_expiry = \"report\"\(rule)",
      "3:11: warning: 'expires' in [pins.p]: the set expires on 2026-02-06, in 30 days; after it what it pins is no "
        + "longer enforced (on_expiry = \"report\")"),
    LoadRow("a set that expires in 31 days", "[pins.p]\n\(both)\nexpires = 2026-02-07\(rule)"),
  ]

  private static let lone =
    "there is one pin only, and no backup pin: when what it pins is replaced, nothing connects any more"

  @Test(arguments: sets) func setRows(row: LoadRow) { row.check(Self.world) }

  // MARK: Names

  static let names: [LoadRow] = [
    LoadRow(
      "a set that nobody uses", "[pins.p]\n\(both)",
      "1:7: warning: [pins.p]: no rule names this set, so it has no effect"),
    LoadRow("a set that the defaults use", "[defaults.security]\npins = \"p\"\n[pins.p]\n\(both)"),
    LoadRow(
      "a name that nothing has",
      "[pins.payments]\n\(both)\n[[rule]]\nname = \"r\"\n[rule.security]\npins = \"paymnts\"",
      "1:7: warning: [pins.payments]: no rule names this set, so it has no effect",
      "6:8: error: 'pins' in [rule.security]: there is no set of pins named 'paymnts'; did you mean 'payments'?"),
    LoadRow(
      "a name that is near to none", "[[rule]]\nname = \"r\"\nsecurity.pins = \"x\"",
      "3:17: error: 'pins' in [rule.security]: there is no set of pins named 'x'"),
    LoadRow(
      "a name of the defaults that nothing has", "[defaults.security]\npins = \"x\"",
      "2:8: error: 'pins' in [defaults.security]: there is no set of pins named 'x'"),
    LoadRow(
      "a set with an error is there all the same", "[pins.p]\nmode = \"x\"\(rule)",
      "2:8: error: 'mode' in [pins.p]: expected \"none\", \"public-key\" or \"certificate\", found 'x'"),
  ]

  @Test(arguments: names) func nameRows(row: LoadRow) { row.check() }

  @Test func aNameBelongsToOneSetOverAllFiles() {
    let files = DictionaryFiles([
      "s.toml": "include = [\"b.toml\"]\n[pins.p]\n\(Self.both)\(Self.rule)", "b.toml": "[pins.p]\n\(Self.both)",
    ])
    #expect(
      PolicyLoader.load(path: "s.toml", files: files).diagnostics.map(\.description) == [
        """
        b.toml:1:7: error: [pins.p] stands at s.toml:2 already; a name belongs to one set of pins
            1 | [pins.p]
              |       ^
        """
      ])
  }
}

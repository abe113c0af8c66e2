// Secrets: where they come from, what is wrong with them, and that none is ever shown.

import Testing

@testable import Policy

@Suite struct SecretTests {
  private func load(_ source: String, _ files: DictionaryFiles = DictionaryFiles()) -> LoadResult {
    var files = files
    files.files["etc/s.toml"] = Array(source.utf8)
    return PolicyLoader.load(path: "etc/s.toml", files: files)
  }

  private func authorization(_ password: String, _ files: DictionaryFiles) -> (sent: String?, said: [String]) {
    let source = "[defaults.request]\nauthorization = { username = \"u\", password = \(password) }"
    let result = load(source, files)
    return (
      result.policy.map { lines($0.defaultRequest.fields).joined() },
      result.diagnostics.map {
        "\($0.location.line):\($0.location.column): \($0.severity.rawValue): \($0.message)"
      }
    )
  }

  private var world: DictionaryFiles {
    var files = DictionaryFiles([
      "etc/secrets/plain": "pw", "etc/secrets/lf": "pw\n", "etc/secrets/crlf": "pw\r\n",
      "etc/secrets/two": "pw\n\n",
      "/abs/pw": "pw", "/run/credentials/x/api": "pw\n", "etc/empty": "", "etc/newline": "\n",
      "etc/open": "pw",
      "etc/large": String(repeating: "x", count: ConfigurationReading.largestSecretBytes + 1),
    ])
    files.unreadable["etc/closed"] = "Permission denied"
    files.exposed = ["etc/open"]
    files.variables = ["PW": "pw\n", "NONE": ""]
    files.credentialsDirectory = "/run/credentials/x"
    return files
  }

  @Test(arguments: [
    "{ file = \"secrets/plain\" }", "{ file = \"secrets/lf\" }", "{ file = \"secrets/crlf\" }",
    "{ file = \"/abs/pw\" }",
    "{ credential = \"api\" }", "{ env = \"PW\" }", "\"pw\"", "\"pw\\n\"",
  ]) func everyFormGivesTheSameSecret(form: String) {
    let (sent, said) = authorization(form, world)
    #expect(said == [])
    #expect(sent == "set Authorization: Basic dTpwdw==")
  }

  private static let at = "2:46: error: "
  @Test(arguments: [
    (
      "{ file = \"none\" }",
      "2:55: error: 'file' in [defaults.request.authorization.password]: cannot read 'etc/none': No such file or directory"
    ),
    (
      "{ file = \"closed\" }",
      "2:55: error: 'file' in [defaults.request.authorization.password]: cannot read 'etc/closed': Permission denied"
    ),
    (
      "{ file = \"large\" }",
      "2:55: error: 'file' in [defaults.request.authorization.password]: cannot read 'etc/large': the file has more than 65536 bytes"
    ),
    (
      "{ file = \"empty\" }",
      "2:55: error: 'file' in [defaults.request.authorization.password]: the file 'etc/empty' is empty"
    ),
    (
      "{ file = \"newline\" }",
      "2:55: error: 'file' in [defaults.request.authorization.password]: the file 'etc/newline' is empty"
    ),
    (
      "{ file = \"\" }",
      "2:55: error: 'file' in [defaults.request.authorization.password]: expected a path, found ''"
    ),
    (
      "{ file = 3 }",
      "2:55: error: 'file' in [defaults.request.authorization.password]: expected a string, found an integer"
    ),
    (
      "{ file = \"secrets/two\" }",
      "2:46: error: 'password' in [defaults.request.authorization]: it must not hold control characters (RFC 7617, 2)"
    ),
    (
      "{ credential = \"../x\" }",
      "2:61: error: 'credential' in [defaults.request.authorization.password]: expected the name of a credential, without '/', found '../x'"
    ),
    (
      "{ credential = \"..\" }",
      "2:61: error: 'credential' in [defaults.request.authorization.password]: expected the name of a credential, without '/', found '..'"
    ),
    (
      "{ credential = \"none\" }",
      "2:61: error: 'credential' in [defaults.request.authorization.password]: cannot read '/run/credentials/x/none': No such file or directory"
    ),
    (
      "{ env = \"UNSET\" }",
      "2:54: error: 'env' in [defaults.request.authorization.password]: the environment has no variable 'UNSET'"
    ),
    (
      "{ env = \"NONE\" }",
      "2:54: error: 'env' in [defaults.request.authorization.password]: the variable 'NONE' is empty"
    ),
    (
      "{ env = \"A=B\" }",
      "2:54: error: 'env' in [defaults.request.authorization.password]: expected the name of an environment variable, found 'A=B'"
    ),
    (
      "{ }",
      "2:46: error: 'password' in [defaults.request.authorization]: a secret takes exactly one of 'file', 'credential' and 'env', found none"
    ),
    (
      "{ file = \"a\", env = \"b\" }",
      "2:46: error: 'password' in [defaults.request.authorization]: a secret takes exactly one of 'file', 'credential' and 'env', found 'file' and 'env'"
    ),
    (
      "{ fiel = \"a\" }",
      "2:48: error: unknown key 'fiel' in [defaults.request.authorization.password]; did you mean 'file'?"
    ),
    ("\"\"", "2:46: error: 'password' in [defaults.request.authorization]: the secret is empty"),
    (
      "1234",
      "2:46: error: 'password' in [defaults.request.authorization]: expected a secret (a table with 'file', 'credential' or 'env', or a string), found an integer"
    ),
    (
      "\"p\\u0007\"",
      "2:46: error: 'password' in [defaults.request.authorization]: it must not hold control characters (RFC 7617, 2)"
    ),
  ]) func whatIsWrongIsSaidWhereItStands(form: String, expected: String) {
    let (sent, said) = authorization(form, world)
    #expect(said == [expected])
    #expect(sent == nil)
  }

  @Test func aCredentialNeedsADirectory() {
    var files = world
    files.credentialsDirectory = nil
    #expect(
      authorization("{ credential = \"api\" }", files).said == [
        "2:61: error: 'credential' in [defaults.request.authorization.password]: the credential 'api' is not there: "
          + "$CREDENTIALS_DIRECTORY is not set; systemd sets it for a service with LoadCredential="
      ])
  }

  @Test func whatOthersCanReadIsAWarningOnce() {
    let source = """
      [defaults.request]
      headers.set = { X-A = { file = "open" }, X-B = { file = "open" } }
      """
    let result = load(source, world)
    #expect(
      result.diagnostics.map(\.description) == [
        """
        etc/s.toml:2:32: warning: 'file' in [defaults.request.headers.set.X-A]: others can read 'etc/open', which holds a secret; give it mode 0600 or 0640
            2 | headers.set = { X-A = { file = "open" }, X-B = { file = "open" } }
              |                                ^
        """
      ])
    #expect(result.policy.map { lines($0.defaultRequest.fields) } == ["set X-A: pw", "set X-B: pw"])
    #expect(result.policy?.defaultRequest.fields.set.map(\.isSecret) == [true, true])
    #expect(result.files == ["etc/s.toml", "etc/open"])
  }

  @Test func aSecretInAFileThatOthersReadIsAWarning() {
    var files = DictionaryFiles()
    files.exposed = ["etc/s.toml"]
    let source = """
      [proxy]
      credentials = "alice:hunter2" # was "alice:hunter1"
      [defaults.request]
      headers.set = { X-Harmless = "1", Cookie = "hunter2" }
      """
    #expect(
      load(source, files).diagnostics.map(\.description) == [
        """
        etc/s.toml:2:15: warning: 'credentials' in [proxy]: a secret stands in this file, which others can read; use { file = "…" }, or mode 0640
            2 | credentials = "…"
              |               ^
        """,
        """
        etc/s.toml:4:44: warning: 'Cookie' in [defaults.request.headers.set]: a secret stands in this file, which others can read; use { file = "…" }, or mode 0640
            4 | headers.set = { X-Harmless = "…", Cookie = "…" }
              |                                            ^
        """,
      ])
  }

  @Test func linesOfCredentialsAreCountedAndNotShown() {
    let files = DictionaryFiles([
      "etc/users": "alice:hunter2\nhunter3\n:hunter4\n\nbob:\r\nalice:hunter5\ncarol:hunter6\u{7}\n"
    ])
    let result = load("[proxy]\ncredentials = { file = \"users\" }", files)
    #expect(
      result.diagnostics.map(\.message) == [
        "'credentials' in [proxy]: line 2 of the credentials has no ':'; expected user:password",
        "'credentials' in [proxy]: line 3 of the credentials has no user before ':'; expected user:password",
        "'credentials' in [proxy]: line 6 of the credentials names a user again; either password is taken",
        "'credentials' in [proxy]: line 7 of the credentials holds a control character",
      ])
    let empty = load("[proxy]\ncredentials = \"\\n\\n\"")
    #expect(
      empty.diagnostics.map(\.message) == [
        "'credentials' in [proxy]: expected lines of user:password, found only empty ones"
      ])
  }

  // MARK: Nothing leaks

  /// Sources that hold HUNTER2 where a secret may stand, each wrong in some way on the same line or around it.
  static let leaks: [String] = [
    "[proxy]\ncredentials = \"HUNTER2\"",
    "[proxy]\ncredentials = [\"u:HUNTER2\"]",
    "[proxy]\ncredentials = { alice = \"HUNTER2\" }",
    "[proxy]\ncredentials = { file = \"none\", value = \"HUNTER2\" }",
    "[proxy]\ncredential = \"u:HUNTER2\"",
    "[proxy]\ncredentails = \"u:HUNTER2\"",
    "[proxy]\ncredentials = \"u:HUNTER2\"; x",
    "[proxy]\ncredentials = \"u:HUNTER2",
    "[proxy]\ncredentials = u:HUNTER2",
    "[proxy]\ncredentials =\nHUNTER2",
    "[proxy]\ncredentials = \"\"\"\nu:HUNTER2\nv:x\" = HUNTER2\n",
    "[proxy]\ncredentials = '''\nu:HUNTER2\n''' HUNTER2\n",
    "[proxy]\ncredentials = \"u:\\qHUNTER2\"",
    "[proxy]\ncredentials = [\n\"u:HUNTER2\"\n\"v:HUNTER2\"\n]",
    "[proxy]\ncredentials = \"\"\"\nu:HUNTER2\nHUNTER2\n\"\"\"",
    "[proxy.credentials]\nuser = \"HUNTER2\"",
    "[proxy.credentials]\nuser = HUNTER2",
    "[defaults.request]\nauthorization = \"Basic HUNTER2\"",
    "[defaults.request]\nauthorization = { username = \"u:HUNTER2\", password = \"HUNTER2\" }",
    "[defaults.request]\nauthorization = { username = \"u\", pasword = \"HUNTER2\" }",
    "[defaults.request]\nauthorization = { username = \"u\", secret = \"HUNTER2\" }",
    "[defaults.request]\nauthorization = { username = 1, password = \"HUNTER2\" } # HUNTER2",
    "[defaults.request]\nautorization = { username = \"u\", password = \"HUNTER2\" }",
    "[defaults.request]\nauthorization.password = \"HUNTER2\"",
    "[defaults.request]\nauthorization = { username = \"u\", password = \"HUNTER2\" } x",
    "[defaults.request]\nauthorization = { username = \"u\", password = \"HUNTER2\n\" }",
    "[defaults.request]\nauthorization = { username = \"u\", password = 123HUNTER2 }",
    "[defaults.request.authorization]\nusername = \"u\"\npassword = \"HUNTER2\\u0007\"",
    "[defaults.request.authorization]\npassword = 'HUNTER2' 'x'",
    "[defaults.request]\nheaders.set = { X-Api-Key = \"HUNTER2\\n\" }",
    "[defaults.request]\nheaders.set = { X-Plain = \"HUNTER2\\n\" }",
    "[defaults.request]\nheaders.set = { Host = \"HUNTER2\" }",
    "[defaults.request]\nheaders.set = { \"X Y\" = \"HUNTER2\" }",
    "[defaults.request]\nheaders.set = { A = \"HUNTER2\", a = \"HUNTER2\" }",
    "[defaults.request]\nheaders.default = { A = [\"HUNTER2\"] }",
    "[defaults.request]\nheaders.sett = { A = \"HUNTER2\" }",
    "[defaults.request]\nheaders.set = { A = \"HUNTER2\" B = 1 }",
    "[defaults.request]\nheader.set = { A = \"HUNTER2\" }",
    "[defaults.request]\nheaders = { set = { A = \"HUNTER2\" }, x = 1 }",
    "[defaults.request.headers.set]\nX-Plain = HUNTER2",
    "[defaults.request.headers]\nset.X-Plain = \"HUNTER2\" x",
    "[defaults.request]\nparameters = { api_key = \"HUNTER2\", x = \"HUNTER2\" }",
    "[defaults.request]\nparameters = { a = [\"HUNTER2\", { b = \"HUNTER2\" }], api_key = { file = \"none\" } }",
    "[defaults.request]\nparameters = \"a=HUNTER2\"",
    "[defaults.request]\nparameters = [\n  \"HUNTER2\"\n]",
    "[defaults.request.parameters.filter]\nx = \"HUNTER2\"\ny = inf",
    "[defaults]\nrequest = { authorization = { password = \"HUNTER2\" }, timeout = 3 }",
    "[defaults]\nrequest = { authorization = { password = \"HUNTER2\" }, timeout = 3",
    "[routes.x]\ncredentials = { username = \"u\", password = \"HUNTER2\" }",
    "[routes.x]\nvia = \"http://u:HUNTER2@proxy.example\"",
    "[routes.x]\nvia = \"u:HUNTER2@proxy.example:3128\"",
    "[routes]\nx = { via = \"https://u:a/HUNTER2@p\", when = [\"wird\"] } # HUNTER2",
    "[routes.x]\ncredentials = \"u:HUNTER2\"",
    "[routes.x.credentials]\nusername = \"u\"\npasswort = \"HUNTER2\"",
    "[routes.x]\nvia = \"socks5://p\"\ncredentials = { username = \"\", password = \"HUNTER2\" }",
    "[routes.x]\nvia = \"http://p\"\ncredentials = { username = \"u:HUNTER2\", password = \"HUNTER2\\u0007\" }",
    "[authority]\nkey = \"HUNTER2\"",
    "[[rule]]\nname = \"a\"\n[rule.security]\nclient_certificate = { certificate = \"c\", key = \"HUNTER2\" }",
    "[authority]\nkey = [\"HUNTER2\"]",
    "[authority]\nkye = \"HUNTER2\"\nkeys = \"HUNTER2\"",
    "[authority]\nkey = { file = \"none\", pem = \"HUNTER2\" }",
    "[authority.key]\npem = \"HUNTER2\"",
    "[authority]\nkey = \"\"\"\n-----BEGIN PRIVATE KEY-----\nHUNTER2\n-----END PRIVATE KEY-----\n\"\"\"",
    "[authority]\nkey = '''\n-----BEGIN PRIVATE KEY-----\nHUNTER2\n''' HUNTER2",
    "[[rule]]\nname = \"a\"\n[rule.security]\nclient_certificate = { certificate = \"-----BEGIN PRIVATE KEY-----HUNTER2\" }",
    "[[rule]]\nname = \"a\"\n[rule.security]\nclient_certificate = \"HUNTER2\"",
    "[[rule]]\nname = \"a\"\n[rule.security.client_certificate]\nkey = \"HUNTER2\"\nprivate = \"HUNTER2\"",
    "[[rule]]\nname = \"a\"\nsecurity.client_certificate.key = \"HUNTER2\"",
    "[defaults.security]\nclient_certificat = { key = \"HUNTER2\" }",
    "[defaults.security]\nclient_certificate = { certificate = \"none\", kee = \"HUNTER2\" }",
    "[proxy]\npassword = \"HUNTER2\"\ntoken = \"HUNTER2\"\napi-key = \"HUNTER2\"",
    "password = 99999999999999999999999999HUNTER2",
    "[proxy]\ncredentials = \"HUNTER2\"\nlisten = [\"0.0.0.0:1\"]",
    "[proxy]\n\tcredentials\t=\t\"HUNTER2\"\t# HUNTER2",
    "[proxy]\r\ncredentials = \"HUNTER2\r\n\"\r\n",
    "[proxy]\ncredentials = \"HUNTER2\\u0000\"",
    "[proxy]\ncredentials = \"HUNTER2\0\"",
  ]

  @Test(arguments: leaks) func noSecretIsShown(source: String) {
    var files = world
    files.exposed.insert("etc/s.toml")
    let result = load(source, files)
    #expect(!result.diagnostics.isEmpty)
    let shown =
      result.diagnostics.map(\.description).joined(separator: "\n") + Diagnostic.json(result.diagnostics)
    #expect(!shown.contains("HUNTER2"), "\(shown)")
  }

  /// The same sources, broken at every place: what is left of the secret's line must not show either.
  @Test(arguments: leaks) func noSecretIsShownHoweverTheFileIsBroken(source: String) throws {
    let bytes = Array(source.utf8)
    let world = self.world
    for index in bytes.indices {
      for replacement in ["", "\"", "\n"].map({ Array($0.utf8) }) {
        var broken = bytes
        broken.replaceSubrange(index...index, with: replacement)
        // Where the secret's key, header or quotation is what was broken, or the "@" behind it in a URL, nobody can tell
        // that it is one.
        let text = String(decoding: broken, as: UTF8.self)
        guard Self.isKeyWhole(source, index), bytes[index] != UInt8(ascii: "@") else { continue }
        let shown = load(text, world).diagnostics.map(\.description).joined(separator: "\n")
        // An #expect for each of thousands would take longer than what it checks.
        if shown.utf8.split(separator: 0x48).contains(where: { $0.starts(with: "UNTER2".utf8) }) {
          Issue.record("\(text)\n\(shown)")
        }
      }
    }
  }

  /// Whether the change at `index` is behind the first "=" in its line and before no other key.
  private static func isKeyWhole(_ source: String, _ index: Int) -> Bool {
    let before = Array(source.utf8)[..<index]
    let line = before.split(separator: 0x0a, omittingEmptySubsequences: false).last ?? []
    return line.contains(0x3d)
  }

  @Test func secretsOfFilesAppearNowhere() {
    var files = DictionaryFiles([
      "etc/users": "alice:HUNTER2\nHUNTER2\n", "etc/bad": "HUNTER2\u{1}", "etc/line": "HUNTER2\nHUNTER2",
    ])
    files.variables["V"] = " HUNTER2"
    files.exposed = ["etc/users", "etc/bad", "etc/s.toml"]
    let source = """
      [proxy]
      credentials = { file = "users" }
      [defaults.request]
      user_agent = { env = "V" }
      headers.set = { A = { file = "bad" }, B = { file = "line" } }
      authorization = { username = { file = "line" }, password = { file = "bad" } }
      """
    let result = load(source, files)
    #expect(result.diagnostics.count >= 6)
    let shown =
      result.diagnostics.map(\.description).joined(separator: "\n") + Diagnostic.json(result.diagnostics)
    #expect(!shown.contains("HUNTER2"))
  }

  @Test func noURLWithAPasswordIsShownUnderWhateverKey() {
    let shown = load("[routes.x]\nvai = \"socks5://u:HUNTER2@proxy.example\"\n[dns]\nserver = [1, \"x://HUNTER2@y\"]")
    #expect(shown.diagnostics.count == 3)
    #expect(!shown.diagnostics.map(\.description).joined().contains("HUNTER2"), "\(shown.diagnostics)")
  }

  /// Keys of certificates, whatever is wrong with them or with what stands beside them.
  @Test func keysAppearNowhere() {
    var files = DictionaryFiles([
      "etc/client.pem": TestCertificates.client, "etc/none.key": "HUNTER2",
      "etc/broken.key": "-----BEGIN PRIVATE KEY-----\nHUNTER2\n-----END PRIVATE KEY-----\n",
      "etc/cut.key": "-----BEGIN EC PRIVATE KEY-----\nHUNTER2\n", "etc/ca.pem": "HUNTER2",
    ])
    files.exposed = ["etc/none.key", "etc/broken.key"]
    for key in ["none.key", "broken.key", "cut.key"] {
      let source = """
        [trust]
        anchors = "\(key)"
        [authority]
        key = { file = "\(key)" }
        [pins.p]
        certificates = ["\(key)", "ca.pem"]
        [defaults.security]
        client_certificate = { certificate = "client.pem", key = { file = "\(key)" } }
        crl_file = "\(key)"
        """
      let result = load(source, files)
      #expect(result.diagnostics.count >= 5)
      let shown =
        result.diagnostics.map(\.description).joined(separator: "\n") + Diagnostic.json(result.diagnostics)
      #expect(!shown.contains("HUNTER2"), "\(shown)")
    }
  }

  @Test func namesOfFilesAreShown() {
    let shown = load("[proxy]\ncredentials = { file = \"none\" }").diagnostics.map(\.description)
    #expect(
      shown == [
        """
        etc/s.toml:2:24: error: 'file' in [proxy.credentials]: cannot read 'etc/none': No such file or directory
            2 | credentials = { file = "none" }
              |                        ^
        """
      ])
  }

  // MARK: Secrets that this run may not read

  /// Every place in which a secret may stand.
  private func everywhere(_ secret: String) -> String {
    """
    [proxy]
    credentials = \(secret)
    [authority]
    key = \(secret)
    [routes.office]
    via = "http://proxy.example:3128"
    credentials = { username = \(secret), password = \(secret) }
    [[rule]]
    name = "r"
    route = ["office"]
    [rule.request]
    user_agent = \(secret)
    headers.set = { X-Key = \(secret) }
    authorization = { username = \(secret), password = \(secret) }
    parameters = { key = \(secret) }
    """
  }

  private func load(_ secret: String, secrets: SecretUse) -> LoadResult {
    var files = world
    files.credentialsDirectory = nil
    files.files["etc/s.toml"] = Array(everywhere(secret).utf8)
    return PolicyLoader.load(path: "etc/s.toml", files: files, secrets: secrets)
  }

  @Test(arguments: [
    ("{ file = \"closed\" }", "not readable by you: the service reads it ('etc/closed': Permission denied)"),
    ("{ credential = \"api\" }", "not readable by you: the service reads it (the credential 'api' of systemd)"),
    ("{ env = \"GONE\" }", "not readable by you: the service reads it (your environment has no variable 'GONE')"),
  ]) func whatOnlyTheServiceCanReadIsANote(secret: String, note: String) throws {
    let inspected = load(secret, secrets: .inspected)
    let diagnostics = inspected.diagnostics.filter { !$0.isAboutTunnels }
    #expect(diagnostics.count == 9)
    for diagnostic in diagnostics {
      #expect(diagnostic.severity == .note)
      #expect(diagnostic.message.hasSuffix(note), "\(diagnostic)")
    }
    let policy = try #require(inspected.policy)
    #expect(policy.configuration.authority.isKeyWithheld)
    #expect(policy.configuration.proxy.credentials.count == 1)
    // The daemon does not start on the same.
    let required = load(secret, secrets: .required)
    #expect(required.policy == nil)
    #expect(!required.diagnostics.contains { $0.severity == .note })
  }

  @Test(arguments: ["{ file = \"closed\" }", "{ file = \"none\" }", "{ credential = \"api\" }", "{ env = \"GONE\" }"])
  func whoNeedsNoSecretReadsNone(secret: String) {
    let result = load(secret, secrets: .unneeded)
    #expect(result.policy != nil)
    #expect(result.diagnostics.filter { !$0.isAboutTunnels } == [])
    #expect(result.files == ["etc/s.toml"])
  }

  @Test func aFileThatIsNotThereIsAnErrorForEveryoneWhoLooks() {
    let result = load("{ file = \"none\" }", secrets: .inspected)
    #expect(result.policy == nil)
    #expect(result.diagnostics.contains { $0.severity == .error && $0.message.contains("No such file or directory") })
  }
}

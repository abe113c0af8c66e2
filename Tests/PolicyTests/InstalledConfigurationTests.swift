// The files that are installed as they are: they load without a word, and what they show commented out is the default.
// Where the suite runs without the repository around it, there is nothing to look at.

import Glibc
import Testing

@testable import Policy

@Suite struct InstalledConfigurationTests {
  private static let directory =
    String(#filePath.split(separator: "/").dropLast(3).reduce("") { "\($0)/\($1)" }) + "/config"

  private func file(_ name: String) -> String? {
    guard let file = fopen("\(Self.directory)/\(name)", "r") else { return nil }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    let count = fread(&bytes, 1, bytes.count, file)
    return String(decoding: bytes[..<count], as: UTF8.self)
  }

  private func texts() -> [String: String]? {
    guard let main = file("sallyport.toml"), let example = file("policy.d/00-example.toml") else {
      return nil
    }
    return ["sallyport.toml": main, "policy.d/00-example.toml": example]
  }

  @Test func theyLoadWithoutADiagnosticAndChangeNothing() throws {
    guard let texts = texts() else { return }
    let result = PolicyLoader.load(path: "sallyport.toml", files: DictionaryFiles(texts))
    #expect(result.diagnostics.map(\.description) == [])
    let policy = try #require(result.policy)
    var expected = Configuration()
    expected.history = HistorySettings()
    #expect(policy.configuration == expected)
    #expect(policy.rules.isEmpty && policy.defaultRequest.fields.isEmpty)
    #expect(result.files == ["sallyport.toml", "policy.d/00-example.toml"])
  }

  /// `# key = value` at the beginning of a line is a key with its default.
  @Test func everyKeyOfTheMainFileIsShownWithItsDefault() throws {
    guard let texts = texts(), let main = texts["sallyport.toml"] else { return }
    var keys: Set<String> = []
    let lines = main.split(separator: "\n", omittingEmptySubsequences: false).map { line -> String in
      let body = line.dropFirst(2)
      // A table that does something by being there.
      if line == "# [cache]" { return String(body) }
      guard line.hasPrefix("# "), let equals = body.firstIndex(of: "=") else { return String(line) }
      let key = body[..<equals].dropLast()
      guard body[..<equals].hasSuffix(" "), key.allSatisfy({ $0.isLetter || $0 == "_" }) else {
        return String(line)
      }
      keys.insert(String(key))
      // There is no file of users by default, nobody to ask, no directory of answers, no key from elsewhere, no address of
      // metrics, nobody who may more than others, and no timeout of a whole exchange.
      let isExample =
        ["credentials", "key", "metrics", "web", "operators", "directory", "contact", "state"].contains(String(key))
        || body.contains("\"5m\"") && key == "timeout"
      return isExample ? String(line) : String(body)
    }
    let result = PolicyLoader.load(
      path: "s.toml", files: DictionaryFiles(["s.toml": lines.joined(separator: "\n")]))
    #expect(result.diagnostics.map(\.description) == [])
    var expectedConfiguration = Configuration()
    // The anchors of the system have it by themselves.
    expectedConfiguration.trustProfile = .public
    expectedConfiguration.cache = CacheStorage()
    expectedConfiguration.history = HistorySettings()
    #expect(result.policy?.configuration == expectedConfiguration)
    let schemas: [TableSchema] = [.proxy, .limits, .timeouts, .dns, .trust, .authority, .log, .admin, .cache, .history]
    let expected = Set(schemas.flatMap(\.names)).subtracting(["limits", "timeouts"])
    #expect(expected.subtracting(keys) == [])
  }

  /// Behind "# ---" everything is an example behind "# ".
  @Test func theExamplesAreSound() throws {
    guard let texts = texts(), let example = texts["policy.d/00-example.toml"] else { return }
    var isExample = false
    let lines = example.split(separator: "\n", omittingEmptySubsequences: false).map { line -> String in
      if line.hasPrefix("# ---") {
        isExample = true
        return String(line)
      }
      return isExample && line.hasPrefix("#") ? String(line.dropFirst(2)) : String(line)
    }
    var files = DictionaryFiles([
      // Answers are stored where the main file has the table.
      "s.toml": lines.joined(separator: "\n") + "\n[cache]\n[proxy]\ncredentials = \"ci-runner:x\"\n",
      "/c/api-password": "x",
      "/c/kiosk-key": TestCertificates.clientKey,
      "/etc/sallyport/private-ca.pem": TestCertificates.one, "/etc/sallyport/kiosk.pem": TestCertificates.client,
      "/etc/sallyport/private-ca.crl": TestCertificates.revocationList,
      "/etc/sallyport/pins/payments/a.cer": TestCertificates.two, "/etc/sallyport/offline.html": "offline",
    ])
    files.credentialsDirectory = "/c"
    let result = PolicyLoader.load(path: "s.toml", files: files)
    #expect(result.diagnostics.map(\.description) == [])
    let policy = try #require(result.policy)
    #expect(
      policy.rules.map(\.name) == [
        "example", "payments", "no-admin", "intranet", "old-agents", "no-metadata", "package-mirrors", "code",
        "maps", "telemetry", "not-on-cellular", "weather", "api", "strangers",
      ])
    #expect(policy.expectations.count == 2)
    #expect(ExpectationReport(on: policy, own: { .unknown }).failures.map(\.description) == [])
    for key in TableSchema.expect.names {
      let isShown = example.contains("# \(key) = ")
      #expect(isShown, "\(key)")
    }
    let tables = ["request", "security", "response", "headers", "timeouts", "cache", "ask"]
    for schema in [TableSchema.rule, .request, .security, .response, .ruleCache, .ask, .pins, .route] {
      for key in schema.names where !tables.contains(key) {
        let isShown = example.contains("# \(key) = ")
        #expect(isShown, "\(key)")
      }
    }
    for key in TableSchema.ruleTimeouts.names {
      let isNamed = example.contains(key)
      #expect(isNamed, "\(key)")
    }
    for key in TableSchema.throttle.names + TableSchema.violation.names + TableSchema.answer.names {
      let isShown = example.contains("\(key) = ")
      #expect(isShown, "\(key)")
    }
  }
}

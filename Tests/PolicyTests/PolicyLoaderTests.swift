// Several files, their order, and everything in one pass.

import Testing

@testable import Policy

@Suite struct PolicyLoaderTests {
  private func load(_ texts: [String: String], path: String = "etc/s.toml") -> LoadResult {
    PolicyLoader.load(path: path, files: DictionaryFiles(texts))
  }

  private func said(_ result: LoadResult) -> [String] {
    result.diagnostics.filter { !$0.isAboutTunnels }.map {
      "\($0.location.file):\($0.location.line):\($0.location.column): \($0.severity.rawValue): \($0.message)"
    }
  }

  @Test func tenMistakesAreTenDiagnostics() {
    LoadRow(
      "ten mistakes",
      """
      inclde = []
      [proxy]
      listen = ["localhost:80"]
      workers = 0
      [proxy.timeouts]
      connect = "10"
      [log]
      level = "loud"
      [admin]
      socket = 1
      [[rule]]
      name = "a b"
      hosts = ["a.*.b"]
      ports = [0]
      [rule.request]
      timeout = true
      """,
      "1:1: error: unknown key 'inclde'; did you mean 'include'?",
      "3:11: error: 'listen' in [proxy]: expected an address, such as \"127.0.0.1:3128\" or \"[::1]:3128\", "
        + "found the name 'localhost'; a name is not looked up here",
      "4:11: error: 'workers' in [proxy]: expected an integer from 1 to 1024, found 0",
      "6:11: error: 'connect' in [proxy.timeouts]: expected a duration such as \"10s\" (units ms, s, m, h, d), found '10'",
      "8:9: error: 'level' in [log]: expected \"error\", \"warning\", \"info\" or \"debug\", found 'loud'",
      "10:10: error: 'socket' in [admin]: expected a string, found an integer",
      "12:8: error: 'name' in [rule]: expected 1 to 64 ASCII letters, digits, '.', '_', ':' and '-', found 'a b'",
      "13:10: error: 'hosts' in [rule]: 'a.*.b' \(HostPatternReadingTests.wildcard)",
      "14:10: error: 'ports' in [rule]: expected an integer from 1 to 65535, found 0",
      "16:11: error: 'timeout' in [rule.request]: expected a duration such as \"10s\" (units ms, s, m, h, d), found a boolean"
    ).check()
  }

  @Test func aTableThatIsNotOfTheFormatIsUnknown() {
    LoadRow(
      "two tables", "[nonsense]\n[rotues.office]",
      "1:2: error: unknown table [nonsense]",
      "2:2: error: unknown table [rotues]; did you mean 'routes'?"
    ).check()
  }

  @Test func everyNameOfTheSchemaIsAnsweredAsItIs() {
    let tables: [(String, TableSchema)] = [
      ("proxy", .proxy), ("proxy.limits", .limits), ("proxy.timeouts", .timeouts), ("dns", .dns),
      ("log", .log),
      ("defaults", .defaults), ("defaults.request", .request), ("defaults.request.headers", .headers),
      ("defaults.request.authorization", .authorization), ("defaults.security", .security),
      ("defaults.security.client_certificate", .clientCertificate),
      ("defaults.request.throttle", .throttle), ("defaults.response", .response),
      ("defaults.response.on_violation", .violation), ("pins.x", .pins), ("trust", .trust),
      ("routes.x", .route), ("routes.x.credentials", .routeCredentials), ("routes.x.security", .security),
      ("authority", .authority), ("admin", .admin), ("reachability", .reachability),
    ]
    for (path, schema) in tables {
      // Its value is a date, as that of `until` is.
      for key in schema.names where key != "expires" {
        let messages = load(["etc/s.toml": "[\(path)]\n\(key) = 1979-05-27"]).diagnostics.map(\.message)
        #expect(!messages.contains { $0.hasPrefix("unknown") }, "\(key) in [\(path)]")
        #expect(messages.contains { $0.contains("found a date or time") }, "\(key) in [\(path)]: \(messages)")
      }
    }
    for key in TableSchema.rule.names where key != "until" {
      let messages = load(["etc/s.toml": "[[rule]]\n\(key) = 1979-05-27"]).diagnostics.map(\.message)
      #expect(!messages.contains { $0.hasPrefix("unknown") }, "\(key) in [rule]")
      #expect(messages.contains { $0.contains("found a date or time") }, "\(key) in [rule]: \(messages)")
    }
  }

  // MARK: Syntax

  @Test func brokenSyntaxIsADiagnosticLikeOthers() {
    LoadRow(
      "a value without quotes", "[log]\nlevel = debug",
      "2:9: error: invalid TOML: expected a value: a string in quotes, a number, true, false, a date, [an array] or {a "
        + "table}"
    ).check()
    LoadRow(
      "an array without its end", "[log]\nx = [1,\n2",
      "3:2: error: invalid TOML: array: encountered end-of-file"
    ).check()
    LoadRow(
      "no comma", "[dns]\nservers = [53 53]",
      "2:15: error: invalid TOML: array: expected comma or closing ']', saw '5'"
    ).check()
    LoadRow(
      "a key twice", "[log]\nlevel = \"info\"\nlevel = \"info\"",
      "3:1: error: invalid TOML: key-value pair: cannot redefine existing string 'level'"
    ).check()
  }

  /// What the parser expected and saw stays, where neither can be part of a secret.
  @Test func aMissingCommaIsStillNamed() {
    let messages = load(["etc/s.toml": "[dns]\nservers = [\"a\" \"b\"]"]).diagnostics.map(\.message)
    #expect(messages == ["invalid TOML: array: expected comma or closing ']', saw '\"'"])
    let hidden = load(["etc/s.toml": "[proxy]\ncredentials = [\"a\" b]"]).diagnostics.map(\.message)
    #expect(hidden == ["invalid TOML: array: expected comma or closing '…'"])
  }

  @Test func aBrokenIncludeHidesNothingOfTheOthers() {
    let result = load([
      "etc/s.toml": "include = [\"d/*.toml\"]\nx = 1", "etc/d/a.toml": "[[rule]]\nnmae = 1",
      "etc/d/b.toml": "[[rule",
      "etc/d/c.toml": "y = 1",
    ])
    #expect(
      said(result) == [
        "etc/s.toml:2:1: error: unknown key 'x'",
        "etc/d/a.toml:1:1: error: [[rule]] has no 'name'; it stands in every log line and metric of the rule",
        "etc/d/a.toml:2:1: error: unknown key 'nmae' in [rule]; did you mean 'name'?",
        "etc/d/b.toml:1:7: error: invalid TOML: table header: encountered end-of-file",
        "etc/d/c.toml:1:1: error: unknown key 'y'",
      ])
    #expect(result.files == ["etc/s.toml", "etc/d/a.toml", "etc/d/b.toml", "etc/d/c.toml"])
  }

  // MARK: include

  @Test func filesAreReadInLexicalOrderAfterTheMainOne() throws {
    let result = load([
      "etc/s.toml":
        "include = [\"d/*.toml\", \"last.toml\", \"/abs/x.toml\", \"none/*.toml\"]\n[[rule]]\nname = \"main\"\nhosts = [\"m\"]",
      "etc/d/20.toml": "[[rule]]\nname = \"c\"\nhosts = [\"c\"]\n[[rule]]\nname = \"d\"\nhosts = [\"d\"]",
      "etc/d/10.toml": "[[rule]]\nname = \"a\"\nhosts = [\"a\"]",
      "etc/d/9.toml": "[[rule]]\nname = \"e\"\nhosts = [\"e\"]",
      "etc/d/Z.toml": "[[rule]]\nname = \"z\"\nhosts = [\"z\"]", "etc/d/x.conf": "broken",
      "etc/last.toml": "[[rule]]\nname = \"last\"\nhosts = [\"l\"]", "/abs/x.toml": "",
    ])
    #expect(said(result) == [])
    let policy = try #require(result.policy)
    #expect(policy.rules.map(\.name) == ["main", "a", "c", "d", "e", "z", "last"])
    #expect(policy.rules.map(\.location.description)[2...3] == ["etc/d/20.toml:1", "etc/d/20.toml:4"])
    #expect(
      result.files == [
        "etc/s.toml", "etc/d/10.toml", "etc/d/20.toml", "etc/d/9.toml", "etc/d/Z.toml", "etc/last.toml",
        "/abs/x.toml",
      ])
  }

  @Test func aPathIsRelativeToTheFileThatNamesIt() throws {
    let result = load([
      "etc/s.toml": "include = [\"d/a.toml\"]",
      "etc/d/a.toml": "[[rule]]\nname = \"a\"\n[rule.request]\nheaders.set = { X = { file = \"secret\" } }",
      "etc/d/secret": "v\n",
    ])
    #expect(said(result) == [])
    #expect(result.files.last == "etc/d/secret")
  }

  @Test(arguments: [
    ("s.toml", "a/b.toml", "a/b.toml"), ("./s.toml", "a.toml", "./a.toml"), ("/s.toml", "a.toml", "/a.toml"),
    ("/etc/s.toml", "../a.toml", "/etc/../a.toml"), ("etc/s.toml", "/a.toml", "/a.toml"),
  ]) func pathsAreJoinedByTheirText(file: String, path: String, joined: String) {
    #expect(ConfigurationPath.join(ConfigurationPath.directory(of: file), path) == joined)
  }

  @Test func whatIncludeCannotBe() {
    let result = load([
      "etc/s.toml": "include = [\"none.toml\", \"s.toml\", \"a.toml\", \"a.toml\", \"*.toml\", 1, \"\"]",
      "etc/a.toml": "include = []\n[proxy]\n[log]\n[defaults.request]\n[reachability]\n[prxy]",
    ])
    let tail =
      "may stand only in the main file, etc/s.toml; an included file holds [[rule]], [[expect]], [pins.*], [routes.*], "
      + "[defaults], [log] and [proxy]"
    #expect(
      said(result) == [
        "etc/s.toml:1:12: error: 'include': cannot read 'etc/none.toml': No such file or directory",
        "etc/s.toml:1:25: error: 'include': 'etc/s.toml' includes itself",
        "etc/s.toml:1:45: warning: 'include': 'etc/a.toml' is included already",
        "etc/s.toml:1:65: error: 'include': expected a string, found an integer",
        "etc/s.toml:1:68: error: 'include': expected a path, found ''",
        "etc/a.toml:1:1: error: 'include' \(tail)",
        "etc/a.toml:5:2: error: [reachability] \(tail)",
        "etc/a.toml:6:2: error: unknown table [prxy]; did you mean 'proxy'?",
      ])
  }

  /// One file by two spellings is one file.
  @Test func aDotInAPathNamesNoOtherFile() {
    let result = load([
      "etc/s.toml": "include = [\"./s.toml\", \".//a.toml\", \"a.toml\", \"./*.toml\"]",
      "etc/a.toml": "[[rule]]\nname = \"a\"",
    ])
    #expect(
      said(result) == [
        "etc/s.toml:1:12: error: 'include': 'etc/s.toml' includes itself",
        "etc/s.toml:1:37: warning: 'include': 'etc/a.toml' is included already",
      ])
  }

  @Test func aMatchThatCannotBeReadIsAnErrorOfThePattern() {
    var files = DictionaryFiles(["etc/s.toml": "include = [\"d/*.toml\"]"])
    files.unreadable["etc/d/a.toml"] = "Permission denied"
    #expect(
      said(PolicyLoader.load(path: "etc/s.toml", files: files)) == [
        "etc/s.toml:1:12: error: 'include': cannot read 'etc/d/a.toml': Permission denied"
      ])
  }

  @Test func namesAreUniqueOverAllFiles() {
    let rule = "[[rule]]\nname = \"a\"\nhosts = [\"x\"]"
    let result = load(["etc/s.toml": "include = [\"b.toml\"]\n" + rule, "etc/b.toml": rule])
    #expect(
      said(result) == [
        "etc/b.toml:2:8: error: 'name' in [rule]: 'a' is the name of the rule at etc/s.toml:3 already; "
          + "a name belongs to one rule"
      ])
  }

  @Test func rulesOfIncludedFilesInheritToo() throws {
    let result = load([
      "etc/s.toml": "include = [\"b.toml\"]\n[defaults.request]\ncookies = false",
      "etc/b.toml": "[[rule]]\nname = \"a\"",
    ])
    #expect(result.policy?.rules[0].request.cookies == false)
  }

  @Test func defaultsLogAndProxyMayStandInAnyFile() throws {
    let result = load(
      [
        "etc/s.toml": "include = [\"a.toml\", \"b.toml\"]\n[proxy]\nlisten = [\"10.0.0.1:1\"]\nlimits.connections = 9",
        "etc/a.toml":
          "proxy.default = \"deny\"\nproxy.allow_remote = true\nlog.level = \"error\"\ndefaults.request.cookies = false",
        "etc/b.toml": "[proxy]\ncredentials = { file = \"secret\" }\nlimits.held_bodies = \"2MiB\"\nlog.access = false",
        "etc/secret": "a:b",
      ].mapValues { $0.replacing("\nlog.access", with: "\n[log]\naccess") })
    #expect(said(result) == [])
    let policy = try #require(result.policy)
    #expect(policy.configuration.proxy.defaultAction == .deny && policy.configuration.log.level == .error)
    #expect(!policy.configuration.log.access && !policy.defaultRequest.cookies)
    #expect(policy.configuration.limits.heldBodiesBytes == 2 << 20)
  }

  @Test func aKeyStandsInOneFile() {
    let result = load([
      "etc/s.toml": "include = [\"a.toml\", \"b.toml\"]\n[proxy]\ndefault = \"deny\"\n[log]\nlevel = \"error\"",
      "etc/a.toml": "[proxy]\ndefault = \"allow\"\nlimits.connections = 9\n[defaults.request]\ncookies = true",
      "etc/b.toml": "log.level = \"info\"\nproxy.limits.connections = 8\n[defaults.request]\ntimeout = \"1s\"",
    ])
    let tail = "already; a key of this table stands in one file"
    #expect(
      said(result) == [
        "etc/a.toml:2:1: error: 'default' in [proxy] stands at etc/s.toml:3 \(tail)",
        "etc/b.toml:1:5: error: 'level' in [log] stands at etc/s.toml:5 \(tail)",
        "etc/b.toml:2:14: error: 'connections' in [proxy.limits] stands at etc/a.toml:3 \(tail)",
        "etc/b.toml:3:11: error: 'request' in [defaults] stands at etc/a.toml:4 \(tail)",
      ])
    #expect(result.policy == nil)
  }

  @Test func aFileMayNotBeTooLarge() {
    let text = String(repeating: "#", count: PolicyLoader.largestFileBytes + 1)
    #expect(
      said(load(["etc/s.toml": text])) == [
        "etc/s.toml:0:0: error: cannot read the file: the file has more than 16777216 bytes"
      ])
  }

  @Test func onlySoManyFilesAreIncluded() {
    var texts = ["etc/s.toml": "include = [\"d/*.toml\"]"]
    for number in 0...PolicyLoader.mostFiles { texts["etc/d/\(number).toml"] = "" }
    let result = load(texts)
    #expect(said(result) == ["etc/s.toml:1:12: error: 'include': more than 4096 files are included"])
    #expect(result.files.count == PolicyLoader.mostFiles + 1)
  }

  /// Generous, for a debug build on a busy machine; a release build takes half a second.
  @Test(.timeLimit(.minutes(1))) func tenThousandRulesLoad() throws {
    var text = ""
    for number in 0..<10_000 {
      text +=
        "[[rule]]\nname = \"r\(number)\"\nhosts = [\"h\(number).example\", \"**.z\(number).example\"]\n"
        + "paths = [\"/v\(number)/*\"]\n[rule.request]\nheaders.set = { X-Client = \"\(number)\" }\n"
    }
    let result = load(["etc/s.toml": text])
    #expect(said(result) == [])
    #expect(result.policy?.rules.count == 10_000)
  }
}

// The configuration as it is in force: complete, without secrets, and the same when it is read again.

import Testing

@testable import Policy

@Suite struct EffectiveConfigurationTests {
  private static func effective(_ texts: [String: String], directory: String = "/w") throws -> EffectiveConfiguration {
    let read = PolicyLoader.effective(path: "etc/s.toml", files: files(texts), directory: directory)
    #expect(read.diagnostics.filter { $0.severity == .error }.map(\.description) == [])
    return try #require(read.configuration)
  }

  private static func files(_ texts: [String: String]) -> DictionaryFiles {
    var files = DictionaryFiles(texts)
    files.variables = ["TOKEN": "t0k3n"]
    for path in ["etc/p.d/../", "/w/etc/p.d/../"] {
      files.files[path + "pw"] = Array("pw".utf8)
      files.files[path + "off.html"] = Array("x".utf8)
    }
    return files
  }

  private static let main = """
    include = ["p.d/*.toml"]
    [proxy]
    workers = 2
    credentials = "ada:s3cr3t-1"
    timeouts.drain = "5s"
    [admin]
    socket = "a.sock"
    [cache]
    [defaults.request]
    headers.default = { Accept-Language = "de", X-Who = "s3cr3t-2" }

    """
  private static let included = """
    [log]
    level = "debug"
    [routes.office]
    via = "https://proxy.office.example"
    credentials = { username = "u", password = "s3cr3t-3" }
    [routes.office.security]
    min_tls = "1.3"
    [pins."a.b"]
    spki = ["sha256/KT1JZTWF9dNi6pbx0GwXcTnK0UuOrhVpsrdtJe89ch4=", "sha256/mTiH8WkJs9iiQAvIBKrOCsoBlUt+8vZUKjyiEF/ThOg="]
    expires = 2099-12-31
    [[rule]]
    name = "shop"
    hosts = ["shop.example"]
    route = ["office", "direct"]
    security.pins = "a.b"
    cache = {}
    [rule.request]
    headers.set = { Authorization = "Bearer s3cr3t-4", X-B = { env = "TOKEN" }, User-Agent = "k/7" }
    parameters = { api_key = "s3cr3t-5", q = ["a", { b = 1.5 }], t = { file = "../pw" }, file = "no path", n = { m = true } }
    timeout = "3s"
    [rule.response]
    serializer = ["json"]
    answer = { file = "../off.html", type = "text/html" }
    [[expect]]
    name = "it is reached"
    request = "http://shop.example/"
    rule = "shop"
    header = { X-B = true }

    """

  @Test func itIsCompleteAndHidesWhatIsSecret() throws {
    let texts = ["etc/s.toml": Self.main, "etc/p.d/1.toml": Self.included]
    let text = try Self.effective(texts).description
    #expect(!text.contains("s3cr3t") && !text.contains("t0k3n"))
    let lines = text.split(separator: "\n").map { $0.split(whereSeparator: { $0 == " " }).joined(separator: " ") }
    for line in [
      "workers = 2 # etc/s.toml:3", "credentials = \"hidden:hidden\" # etc/s.toml:4",
      "listen = [\"127.0.0.1:3128\", \"[::1]:3128\"] # default", "name = \"sallyport\" # default",
      "deny_addresses = [\"link-local\", \"multicast\", \"unspecified\"] # default",
      "drain = \"5s\" # etc/s.toml:5", "tunnel_idle = \"1h\" # default", "header_bytes = \"64KiB\" # default",
      "share = 0.25 # default", "servers = [] # default", "profile = \"public\" # default", "# key is not set",
      "socket = \"/w/etc/a.sock\" # etc/s.toml:7", "# metrics is not set", "# web is not set",
      "level = \"debug\" # etc/p.d/1.toml:2",
      "[cache] # etc/s.toml:8", "disk = \"2GiB\" # default", "# directory is not set",
      "[defaults.request] # etc/s.toml:9", "headers.default.Accept-Language = \"de\" # etc/s.toml:10",
      "headers.default.X-Who = \"hidden\" # etc/s.toml:10", "[routes.office] # etc/p.d/1.toml:3",
      "credentials.username = \"u\" # etc/p.d/1.toml:5", "credentials.password = \"hidden\" # etc/p.d/1.toml:5",
      "[routes.office.security] # etc/p.d/1.toml:6", "[pins.\"a.b\"] # etc/p.d/1.toml:8",
      "expires = 2099-12-31 # etc/p.d/1.toml:10", "[[rule]] # etc/p.d/1.toml:11",
      "[rule.request] # etc/p.d/1.toml:17", "headers.set.Authorization = \"hidden\" # etc/p.d/1.toml:18",
      "headers.set.X-B = { env = \"TOKEN\" } # etc/p.d/1.toml:18",
      "headers.set.User-Agent = \"k/7\" # etc/p.d/1.toml:18",
      "parameters.api_key = \"hidden\" # etc/p.d/1.toml:19", "parameters.q = [\"a\", { b = 1.5 }] # etc/p.d/1.toml:19",
      "parameters.t = { file = \"/w/etc/p.d/../pw\" } # etc/p.d/1.toml:19",
      "parameters.file = \"no path\" # etc/p.d/1.toml:19", "parameters.n.m = true # etc/p.d/1.toml:19",
      "answer.file = \"/w/etc/p.d/../off.html\" # etc/p.d/1.toml:23", "[[expect]] # etc/p.d/1.toml:24",
      "header.X-B = true # etc/p.d/1.toml:28",
    ] {
      let isThere = lines.contains(line)
      #expect(isThere, "\(line) in\n\(text)")
    }
  }

  /// What is printed, read again and printed, is the same but for the places.
  @Test func itReadsBack() throws {
    let first = try Self.effective(["etc/s.toml": Self.main, "etc/p.d/1.toml": Self.included])
    let second = try Self.effective(["etc/s.toml": first.description])
    func bare(_ configuration: EffectiveConfiguration) -> [String] {
      configuration.tables.flatMap { table in
        [table.title] + table.lines.filter { $0.value != nil }.map { "\($0.key) = \($0.value?.inTOML ?? "")" }
      }
    }
    #expect(bare(first) == bare(second))
  }

  @Test func withoutAFileEverythingIsADefault() throws {
    let read = PolicyLoader.effective(path: nil, files: DictionaryFiles(), directory: "")
    let configuration = try #require(read.configuration)
    #expect(configuration.tables.flatMap(\.lines).allSatisfy { $0.location == nil })
    // Read again it is what holds without it.
    let again = PolicyLoader.load(
      path: "s.toml", files: DictionaryFiles(["s.toml": configuration.description]))
    #expect(again.diagnostics.map(\.description) == [])
    var expected = Configuration()
    expected.trustProfile = .public
    #expect(again.policy?.configuration == expected)
  }

  /// A key that is added gets a default here, or is one of those without.
  @Test func everyKeyOfTheDaemonHasADefaultOrNone() throws {
    let configuration = try Self.effective(["etc/s.toml": "[cache]\n"])
    let silent = configuration.tables.flatMap { table in
      table.lines.filter { $0.value == nil }.map { "\(table.title).\($0.key)" }
    }
    #expect(
      silent == [
        "proxy.credentials", "proxy.contact", "proxy.state", "authority.key", "admin.metrics", "admin.operators",
        "admin.web", "cache.directory",
      ])
  }

  @Test func asJSON() throws {
    let json = try Self.effective(["etc/s.toml": "[[rule]]\nname = 'a'\nports = [1]\nenforce = false\n"]).json
    #expect(json.hasPrefix(#"{"file": "etc/s.toml", "settings": [{"table": "proxy", "name": null, "key": "listen", "#))
    let rule =
      #"{"table": "rule", "name": "a", "key": "ports", "value": [1], "file": "etc/s.toml", "line": 3}"#
    #expect(json.contains(rule))
  }
}

// What `sallyport explain` prints, whole.

import Testing

@testable import Policy

@Suite struct ExplanationTests {
  private func policy() throws -> Policy {
    try loaded(
      """
      [proxy]
      default = "deny"
      [[rule]]
      name = "intranet"
      hosts = ["**.corp.example", "10.0.0.0/8"]
      [[rule]]
      name = "ports"
      ports = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
      [[rule]]
      name = "requests"
      hosts = ["api.example"]
      ports = [80, 443]
      methods = ["POST"]
      [[rule]]
      name = "paths"
      hosts = ["api.example"]
      schemes = ["http"]
      paths = ["/v2/*"]
      [[rule]]
      name = "api"
      hosts = ["api.example", "169.254.0.0/16", "fd00::/8"]
      deny_addresses = ["private"]
      [rule.request]
      headers.default = { Accept = "*/*" }
      headers.set = { X-Token = "HUNTER2", Accept-Encoding = { env = "HIDDEN" } }
      headers.remove = ["Referer"]
      user_agent = "kiosk"
      authorization = { username = "u", password = "HUNTER2" }
      timeout = "90s"
      cookies = false
      [[rule]]
      name = "trial"
      hosts = ["trial.example"]
      action = "deny"
      enforce = false
      [[rule]]
      name = "block"
      hosts = ["block.example"]
      action = "deny"
      reason = "not here"
      [[rule]]
      name = "no-tunnels"
      hosts = ["plain.example"]
      connect = "deny"
      [[rule]]
      name = "metadata"
      hosts = ["192.0.2.0/24", "127.0.0.1"]
      """, files())
  }

  private func files() -> DictionaryFiles {
    var files = DictionaryFiles()
    files.variables["HIDDEN"] = "HUNTER2"
    return files
  }

  private func explain(
    _ method: String, _ scheme: Scheme, _ host: String, _ port: UInt16, _ path: String
  ) throws -> Explanation {
    try Explanation(
      by: policy(), method: method, scheme: scheme, host: canonical(host), port: port, path: path,
      isTunnel: method == "CONNECT")
  }

  @Test func aRequestIsExplainedWhole() throws {
    let explanation = try explain("GET", .http, "api.example", 80, "/v1/x")
    #expect(
      explanation.description == """
        GET http://api.example:80/v1/x

        allowed by rule 'api' (s.toml:19)

        rules before it that do not match:
          intranet (s.toml:3): hosts: expected **.corp.example, 10.0.0.0/8, seen api.example
          ports (s.toml:6): ports: expected 1, 2, 3, 4, 5, 6, 7, 8 and 2 more, seen 80
          requests (s.toml:9): methods: expected POST, seen GET
          paths (s.toml:14): paths: expected /v2/*, seen /v1/x

        what will be done:
          remove referer
          set X-Token: (value hidden)
          set Accept-Encoding: (value hidden)
          set User-Agent: kiosk
          set Authorization: (value hidden)
          default Accept: */*
          timeout 90s, whole exchange
          cookies: Cookie and Set-Cookie are removed

        """)
    #expect(!explanation.json.contains("HUNTER2") && !explanation.description.contains("HUNTER2"))
  }

  @Test func aTunnelPassesRulesAboutRequests() throws {
    let explanation = try explain("CONNECT", .https, "api.example", 443, "")
    #expect(
      explanation.description == """
        CONNECT api.example:443

        allowed by rule 'api' (s.toml:19)

        rules before it that do not match:
          intranet (s.toml:3): hosts: expected **.corp.example, 10.0.0.0/8, seen api.example
          ports (s.toml:6): ports: expected 1, 2, 3, 4, 5, 6, 7, 8 and 2 more, seen 443
          requests (s.toml:9): requests only: expected a request, because the rule has 'methods' and no 'connect', seen a tunnel, of whose requests nothing is known yet
          paths (s.toml:14): schemes: expected http, seen https

        what will be done:
          connect: tunnel; what passes inside is not read or changed
          tunnel_sni: match; the tunnel must begin with a ClientHello that names api.example
          an HTTP request in the clear ends the tunnel, as there are rules about requests to this host
          assurance: sni

        """)
  }

  private func verdict(_ explanation: Explanation) -> String {
    explanation.description.split(separator: "\n").map(String.init)[1]
  }

  @Test func everyVerdictHasItsSentence() throws {
    #expect(
      verdict(try explain("GET", .http, "block.example", 80, "/")) == "denied by rule 'block' (s.toml:36)")
    #expect(
      try explain("GET", .http, "block.example", 80, "/").description.contains(
        "\n  reason shown to the client: not here\n"))
    #expect(
      verdict(try explain("GET", .http, "trial.example", 80, "/"))
        == "allowed: rule 'trial' (s.toml:31) would deny, but enforce = false, so this is only logged")
    #expect(
      verdict(try explain("CONNECT", .https, "plain.example", 443, ""))
        == "denied by rule 'no-tunnels' (s.toml:41): connect = \"deny\"")
    #expect(
      verdict(try explain("GET", .http, "other.example", 80, "/"))
        == "denied: no rule matches, and 'default' in [proxy] is \"deny\"")
    let open = Policy()
    #expect(
      Explanation(by: open, method: "GET", scheme: .http, host: canonical("a"), port: 80, path: "/", isTunnel: false)
        .description
          == """
          GET http://a:80/

          allowed: no rule matches, and 'default' in [proxy] is "allow"

          what will be done:
            the request is forwarded as it came

          """)
  }

  @Test func theFirstRuleHasNoneBeforeIt() throws {
    #expect(
      try explain("GET", .http, "x.corp.example", 80, "/").description == """
        GET http://x.corp.example:80/

        allowed by rule 'intranet' (s.toml:3)

        no rule comes before it

        what will be done:
          the request is forwarded as it came

        """)
  }

  @Test func aLiteralAddressIsCheckedAgainstTheList() throws {
    func last(_ host: String) throws -> String {
      let lines = try explain("GET", .http, host, 80, "/").description.split(separator: "\n")
      return lines.last.map(String.init) ?? ""
    }
    #expect(try last("192.0.2.1") == "  192.0.2.1 is not in deny_addresses of [proxy]")
    #expect(try last("169.254.1.1") == "  169.254.1.1 is not in deny_addresses of the rule")
    #expect(
      try last("[fd00::1]")
        == "  fd00::1 is in fc00::/7, which deny_addresses of the rule names: it is not connected to")
    let explanation = Explanation(
      by: Policy(), method: "GET", scheme: .http, host: canonical("169.254.169.254"), port: 80, path: "/",
      isTunnel: false)
    #expect(
      explanation.description.contains(
        "\n  169.254.169.254 is in 169.254.0.0/16, which deny_addresses of [proxy] names: it is not connected to\n"
      ))
    #expect(explanation.request == "GET http://169.254.169.254:80/")
    #expect(try explain("GET", .http, "[fd00::1]", 80, "/").request == "GET http://[fd00::1]:80/")
  }

  @Test func jsonSaysTheSame() throws {
    #expect(
      try explain("GET", .http, "api.example", 80, "/v1").json
        == "{\"request\": \"GET http://api.example:80/v1\", \"decision\": \"allow\", \"reason\": \"rule\", "
        + "\"rule\": {\"name\": \"api\", \"file\": \"s.toml\", \"line\": 19, \"enforce\": true, \"reason\": null}, "
        + "\"path_reading\": null, \"passed_over\": ["
        + "{\"rule\": \"intranet\", \"file\": \"s.toml\", \"line\": 3, \"condition\": \"hosts\", "
        + "\"expected\": \"**.corp.example, 10.0.0.0/8\", \"seen\": \"api.example\"}, "
        + "{\"rule\": \"ports\", \"file\": \"s.toml\", \"line\": 6, \"condition\": \"ports\", "
        + "\"expected\": \"1, 2, 3, 4, 5, 6, 7, 8 and 2 more\", \"seen\": \"80\"}, "
        + "{\"rule\": \"requests\", \"file\": \"s.toml\", \"line\": 9, \"condition\": \"methods\", "
        + "\"expected\": \"POST\", \"seen\": \"GET\"}, "
        + "{\"rule\": \"paths\", \"file\": \"s.toml\", \"line\": 14, \"condition\": \"paths\", "
        + "\"expected\": \"/v2/*\", \"seen\": \"/v1\"}], \"passed_over_more\": 0, \"assumed\": [], "
        + "\"actions\": {\"remove\": [\"referer\"], \"set\": [{\"name\": \"X-Token\", \"value\": null}, "
        + "{\"name\": \"Accept-Encoding\", \"value\": null}, {\"name\": \"User-Agent\", \"value\": \"kiosk\"}, "
        + "{\"name\": \"Authorization\", \"value\": null}], \"default\": [{\"name\": \"Accept\", \"value\": \"*/*\"}], "
        + "\"authorization\": null, \"timeout_ms\": 90000, \"upgrades\": null, \"cookies\": false, \"assurance\": null, \"security\": null}, \"address\": null}\n"
    )
    #expect(
      try explain("CONNECT", .https, "127.0.0.1", 443, "").json.hasSuffix(
        "\"actions\": {\"connect\": \"tunnel\", \"tunnel_sni\": \"match\", \"requires_tls\": true, "
          + "\"refuses_clear_requests\": false, \"assurance\": [\"none\"], \"security\": null}, \"address\": {\"address\": \"127.0.0.1\", \"denied\": false, "
          + "\"block\": null, \"list\": \"proxy\"}}\n"))
    #expect(
      try explain("GET", .http, "other.example", 80, "/").json.hasSuffix(
        "\"actions\": null, \"address\": null}\n"))
  }
}

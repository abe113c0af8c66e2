// What plain tunnels are held to: `tunnel_sni` and its default, ports under `default = "deny"`, and what is said of both.

import Testing

@testable import Policy

@Suite struct TunnelOpeningsTests {
  private static let closed = "proxy.default = 'deny'\n"

  private func decide(_ policy: Policy, _ port: UInt16) -> (decision: Decision, opening: TunnelOpening) {
    var workspace = DecisionWorkspace()
    workspace.host = canonical("a.example")
    let method = Array("CONNECT".utf8)
    let path: [UInt8] = []
    let facts = RequestFacts(scheme: .https, port: port, method: method.span, path: path.span, isTunnel: true)
    let decision = policy.decide(facts, in: &workspace)
    return (decision, policy.opening(of: decision, port: port, in: &workspace))
  }

  @Test func theDefaultFollowsThatOfTheProxy() throws {
    let rows: [(source: String, sni: TunnelSNI)] = [
      ("[[rule]]\nname = 'r'", .any), ("", .any), (Self.closed + "[[rule]]\nname = 'r'", .match),
      (Self.closed + "[[rule]]\nname = 'r'\ntunnel_sni = 'any'", .any),
      ("[[rule]]\nname = 'r'\ntunnel_sni = 'match'", .match),
    ]
    for (source, sni) in rows {
      let policy = try loaded(source)
      #expect(
        decide(policy, 443).opening == TunnelOpening(sni: sni, requiresHello: sni == .match, refusesRequests: false))
      #expect(decide(policy, 22).opening == TunnelOpening(sni: sni, requiresHello: false, refusesRequests: false))
    }
  }

  @Test func underDenyTunnelsGoToPortsThatAreListed() throws {
    let rows: [(body: String, port: UInt16, verdict: Decision.Verdict, reason: Decision.Reason)] = [
      ("", 443, .allow, .rule), ("", 80, .deny, .portNotListed), ("ports = [80]", 80, .allow, .rule),
      ("ports = [80]", 443, .deny, .defaultDeny), ("ports = [80]", 22, .deny, .defaultDeny),
      ("connect = 'intercept'", 8443, .deny, .portNotListed), ("connect = 'verify'", 8443, .deny, .portNotListed),
      ("connect = 'deny'", 22, .deny, .connectDenied), ("action = 'deny'", 22, .deny, .ruleDenies),
      ("enforce = false", 22, .allow, .ruleWouldDeny),
    ]
    for row in rows {
      let policy = try loaded(Self.closed + "[[rule]]\nname = 'r'\n\(row.body)")
      let decision = decide(policy, row.port).decision
      #expect(decision.verdict == row.verdict && decision.reason == row.reason, "\(row.body) \(row.port)")
    }
    #expect(decide(try loaded("[[rule]]\nname = 'r'"), 22).decision.verdict == .allow)
  }

  @Test(
    arguments: [
      LoadRow("match", "[[rule]]\nname = \"a\"\ntunnel_sni = \"match\""),
      LoadRow(
        "another word", "[[rule]]\nname = \"a\"\ntunnel_sni = \"some\"",
        "3:14: error: 'tunnel_sni' in [rule]: expected \"match\" or \"any\", found 'some'"),
      LoadRow(
        "in a rule about http", "[[rule]]\nname = \"a\"\nschemes = [\"http\"]\ntunnel_sni = \"any\"",
        "4:14: warning: 'tunnel_sni' in [rule]: it has no effect: a tunnel counts as https, which 'schemes' leaves out"),
      LoadRow(
        "in a rule that verifies", "[[rule]]\nname = \"a\"\nconnect = \"verify\"\ntunnel_sni = \"any\"",
        "4:14: warning: 'tunnel_sni' in [rule]: it has no effect: with connect = \"verify\" the server name must match in any "
          + "case"),
      LoadRow(
        "in a rule that denies", "[[rule]]\nname = \"a\"\naction = \"deny\"\ntunnel_sni = \"any\"",
        "4:14: warning: 'tunnel_sni' in [rule]: it has no effect in a rule that denies every request"),
      LoadRow(
        "in a rule that intercepts", "[[rule]]\nname = \"a\"\nconnect = \"intercept\"\ntunnel_sni = \"any\"",
        "4:14: warning: 'tunnel_sni' in [rule]: it has no effect: connect = \"intercept\" opens no plain tunnel"),
    ])
  func whatIsSaidOfTheKey(row: LoadRow) { row.check() }

  // MARK: What explain says

  private func explain(_ source: String, _ host: String, _ port: UInt16) throws -> Explanation {
    try Explanation(
      by: loaded(source), method: "CONNECT", scheme: .https, host: canonical(host), port: port, path: "", isTunnel: true
    )
  }

  @Test func explainSaysWhatTheFirstBytesAreHeldTo() throws {
    let source = Self.closed + "[[rule]]\nname = 'r'\nports = [443, 22]"
    func lines(_ host: String, _ port: UInt16, _ more: String = "") throws -> [String] {
      try explain(source + more, host, port).description.split(separator: "\n").drop { $0 != "what will be done:" }
        .dropFirst(2).map { String($0.dropFirst(2)) }
    }
    #expect(
      try lines("a.example", 443) == [
        "tunnel_sni: match; the tunnel must begin with a ClientHello that names a.example", "assurance: sni",
      ])
    #expect(
      try lines("a.example", 22) == [
        "tunnel_sni: match; a ClientHello must be one that names a.example; what is no TLS passes",
        "assurance: none, sni where the client speaks TLS",
      ])
    #expect(
      try lines("192.0.2.7", 443).first
        == "tunnel_sni: match; the tunnel must begin with a ClientHello that names no server")
    #expect(
      try lines("a.example", 443, "\nsecurity.server_name = 'b.example'").first
        == "tunnel_sni: match; the tunnel must begin with a ClientHello that names a.example or b.example")
  }

  @Test func explainSaysWhichPortIsMissing() throws {
    let explanation = try explain(Self.closed + "[[rule]]\nname = 'r'\nconnect = 'verify'", "a.example", 22)
    #expect(
      explanation.description.contains(
        "denied by rule 'r' (s.toml:2): with 'default' = \"deny\" tunnels go to port 443 and to ports that the rule lists; "
          + "add 'ports = [443, 22]'\n"))
    #expect(explanation.json.contains("\"reason\": \"port-not-listed\""))
  }
}

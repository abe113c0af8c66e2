// How a CONNECT is treated, and what a certificate is held to, of each decision.

import Security
import Testing

@testable import Policy

@Suite struct TreatmentTests {
  private func decision(_ policy: Policy, _ host: String) -> Decision {
    Explanation(
      by: policy, method: "CONNECT", scheme: .https, host: canonical(host), port: 443, path: "", isTunnel: true
    ).decision
  }

  static let pins = SecurityReadingTests.pins

  @Test(
    arguments: [
      ("", .tunnel), ("security.pins = 'p'", .verify), ("security.pins = 'none'", .tunnel),
      ("security.min_tls = '1.3'", .tunnel), ("connect = 'tunnel'", .tunnel), ("connect = 'verify'", .verify),
      ("connect = 'intercept'", .intercept), ("connect = 'intercept'\nsecurity.pins = 'p'", .intercept),
      ("connect = 'deny'", .deny), ("action = 'deny'", .deny),
      ("connect = 'deny'\nenforce = false", .tunnel), ("action = 'deny'\nenforce = false", .tunnel),
      ("connect = 'deny'\nenforce = false\nsecurity.pins = 'p'", .verify),
      ("action = 'deny'\nenforce = false\nconnect = 'verify'", .verify),
    ] as [(String, ConnectTreatment)])
  func aTunnelIsTreatedAsTheRuleSaysElseAsItsPinsAsk(body: String, treatment: ConnectTreatment) throws {
    let text = "[[rule]]\nname = 'r'\nhosts = ['r']\n\(body)\n\(Self.pins)[pins.none]\nmode = 'none'"
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]))
    let policy = try #require(result.policy, "\(result.diagnostics)")
    #expect(policy.treatment(of: decision(policy, "r")) == treatment)
    #expect(policy.security(of: decision(policy, "r")) === policy.rules[0].security)
    #expect(policy.treatment(of: decision(policy, "other")) == .tunnel)
    #expect(policy.security(of: decision(policy, "other")) === policy.defaultSecurity)
  }

  @Test func withoutARuleTheDefaultsSay() throws {
    let policy = try loaded("[defaults.security]\npins = 'p'\n\(Self.pins)")
    #expect(policy.treatment(of: decision(policy, "a")) == .verify)
    let closed = try loaded("proxy.default = 'deny'\n[defaults.security]\npins = 'p'\n\(Self.pins)")
    #expect(closed.treatment(of: decision(closed, "a")) == .deny)
    #expect(Policy().treatment(of: decision(Policy(), "a")) == .tunnel)
  }

  @Test func eachSecurityPolicyIsListedOnce() {
    var strict = SecurityPolicy.Settings()
    strict.minimumVersion = .tls13
    let rules = (0..<3).map {
      Rule(
        name: "r\($0)", location: .init(file: "t.toml", line: 1, column: 1),
        security: SecurityPolicy($0 == 1 ? strict : .init()))
    }
    let policies = Policy(rules: rules).securityPolicies
    #expect(policies.count == 2 && policies[0] === SecurityPolicy.standard && policies[1] === rules[1].security)
    #expect(Policy().securityPolicies.count == 1)
  }
}

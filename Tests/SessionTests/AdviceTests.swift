// What a refusal says beside its sentence: why, whom to ask, what became of the question, and the rule that would allow it.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct AdviceTests {
  /// What the client is answered.
  private func refusal(_ text: String, _ request: String) -> String {
    var asked = AskedSession(text)
    if case .end = asked.says(request) {} else { Issue.record("it is not refused: \(text)") }
    return asked.toClient
  }

  static let denies = "[proxy]\ndefault = \"deny\"\n"
  static let rule = #"""
    \"\nhosts   = [\"a.example\"]\n
    """#

  @Test func theDefaultDenies() {
    let said = refusal(Self.denies, get)
    #expect(said.contains(#""reason":"default-denies""#), "\(said)")
    #expect(said.contains(Self.rule), "\(said)")
    #expect(
      said.contains(#"schemes = [\"http\"]\nmethods = [\"GET\"]\npaths   = [\"/x\"]\n""#), "\(said)")
    #expect(!said.contains("\"contact\"") && !said.contains("\"ask\""), "\(said)")
  }

  @Test func whomToAskIsSaid() {
    let said = refusal("[proxy]\ndefault = \"deny\"\ncontact = \"ops \\\"desk\\\" <ops@a.example>\"\n", get)
    #expect(said.contains(#""contact":"ops \"desk\" <ops@a.example>""#), "\(said)")
  }

  @Test func aTunnelHasARuleOfItsOwn() {
    let said = refusal(Self.denies, head("CONNECT a.example:8443 HTTP/1.1", "Host: a.example:8443"))
    #expect(said.contains(Self.rule), "\(said)")
    #expect(said.contains(#"ports   = [8443]\nschemes = [\"https\"]\n""#), "\(said)")
    #expect(!said.contains("methods") && !said.contains("paths"), "\(said)")
  }

  @Test(arguments: [
    ("[[rule]]\nname = \"no\"\naction = \"deny\"\n", "rule-denies", get),
    ("[[rule]]\nname = \"no\"\nconnect = \"deny\"\n", "connect-denied", connect),
    (
      denies + "[[rule]]\nname = \"no\"\n", "port-not-listed",
      head("CONNECT a.example:25 HTTP/1.1", "Host: a.example:25")
    ),
  ])
  func whereTheRuleHasToStandIsSaid(text: String, reason: String, request: String) {
    let said = refusal(text, request)
    #expect(said.contains("\"reason\":\"\(reason)\""), "\(said)")
    #expect(said.contains("Before rule 'no'") && said.contains("[[rule]]"), "\(said)")
  }

  @Test func noRuleIsAdvisedAgainstListedAddresses() {
    let said = refusal(
      "[proxy]\ndeny_addresses = [\"10.0.0.0/8\"]\n", head("GET http://10.0.0.1/ HTTP/1.1", "Host: 10.0.0.1"))
    #expect(said.hasPrefix("HTTP/1.1 403 address-denied "), "\(said)")
    #expect(!said.contains("\"allow\""), "\(said)")
    #expect(said.contains("\"reason\":\"address-denied\""), "\(said)")
  }

  @Test func whoReadsTextGetsTheSame() {
    let said = refusal(
      "[proxy]\ndefault = \"deny\"\ncontact = \"ops\"\n",
      head("GET http://a.example/x HTTP/1.1", "Host: a.example", "Accept: text/plain"))
    guard said.contains("Content-Type: text/plain") else { return }
    #expect(said.contains("reason: default-denies\n") && said.contains("ask: ops\n"), "\(said)")
    #expect(said.contains("[[rule]]\n") && said.contains("paths   = [\"/x\"]"), "\(said)")
  }

  @Test func neitherQueryNorCredentialsAreInTheRule() {
    let said = refusal(
      Self.denies,
      head(
        "GET http://a.example/x?token=s3cret HTTP/1.1", "Host: a.example", "Authorization: Basic czNjcmV0",
        "Cookie: s3cret"))
    #expect(!said.contains("s3cret") && !said.contains("czNjcmV0"), "\(said)")
  }
}

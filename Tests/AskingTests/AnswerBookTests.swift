// Temporary rules as a list: what another file adds, and what is revoked.

import Asking
import Policy
import Testing

extension AnswerBookTests {
  private static func movedRule(_ id: Int, _ verdict: TemporaryRule.Verdict, _ host: String) throws -> TemporaryRule {
    TemporaryRule(
      id: id, verdict: verdict, host: try HostPattern.parse(host).get(), since: 0, until: 100, by: "root")
  }

  private static func inForce(_ book: AnswerBook) -> [String] {
    book.all(at: 50).map { "\($0.id) \($0.verdict) \($0.host)" }
  }

  @Test func anotherFileAddsWhatNoRuleInForceIsAbout() throws {
    var book = AnswerBook(
      TemporaryRuleFile.Content(
        rules: [try Self.movedRule(1, .allow, "a.test"), try Self.movedRule(2, .deny, "b.test")], next: 3))
    book.take(
      TemporaryRuleFile.Content(
        rules: [try Self.movedRule(1, .allow, "b.test"), try Self.movedRule(7, .allow, "c.test")], next: 8), at: 50)
    #expect(Self.inForce(book) == ["1 allow a.test", "2 deny b.test", "3 allow c.test"])
    book.take(TemporaryRuleFile.Content(rules: [try Self.movedRule(7, .allow, "c.test")], next: 8), at: 50)
    #expect(Self.inForce(book).count == 3)
    let revoked = book.revoke(3, at: 50)
    #expect(revoked != nil && Self.inForce(book) == ["1 allow a.test", "2 deny b.test"])
  }
}

// What becomes of heads, parts and JSON of a kind: the keys, how they are inherited, when responses are judged at all, and what
// `explain` says.

import Serialization
import Testing

@testable import Policy

@Suite struct ResponseTreatmentTests {
  private static let rule = "[[rule]]\nname = \"a\"\n"

  private func response(_ text: String) throws -> ResponseSerialization {
    try #require(try loaded(text).rules[0].response)
  }

  @Test func theKeysAreTaken() throws {
    let said = try response(
      Self.rule
        + "[rule.response]\nserializer = \"json\"\nmalformed = \"reject\"\nparts = \"judge\"\njson = \"container\"")
    #expect(said.malformed == .reject && said.parts == .judge && said.jsonRoot == .container && said.judges)
    let silent = try response(Self.rule + "[rule.response]\n")
    #expect(silent.malformed == .mend && silent.parts == .pass && silent.jsonRoot == .any && silent.judges)
  }

  @Test func eachIsInherited() throws {
    let defaults =
      "\n[defaults.response]\nserializer = \"json\"\nmalformed = \"reject\"\nparts = \"judge\"\njson = \"container\""
    let silent = try response(Self.rule + defaults)
    #expect(silent.malformed == .reject && silent.parts == .judge && silent.jsonRoot == .container)
    let own = "[rule.response]\nmalformed = \"mend\"\nparts = \"pass\"\njson = \"any\""
    let speaks = try response(Self.rule + own + defaults)
    #expect(speaks.malformed == .mend && speaks.parts == .pass && speaks.jsonRoot == .any && speaks.judges)
  }

  /// To say what becomes of heads is not to judge: no other response is annotated for its status because of it.
  @Test(arguments: [
    ("[rule.response]\nmalformed = \"reject\"", "", false),
    ("", "\n[defaults.response]\nmalformed = \"reject\"", false),
    ("[rule.response]\nmalformed = \"mend\"", "\n[defaults.response]\nmalformed = \"reject\"", false),
    ("[rule.response]", "\n[defaults.response]\nmalformed = \"reject\"", true),
    ("[rule.response]\nmalformed = \"mend\"", "\n[defaults.response]\nparts = \"judge\"", true),
    ("[rule.response]\nmalformed = \"mend\"\noversize = \"reject\"", "", true),
  ]) func aTableOfHeadsAloneJudgesNothing(own: String, defaults: String, judges: Bool) throws {
    #expect(try response(Self.rule + own + defaults).judges == judges)
  }

  @Test func acceptableStatusTakesNumbersAndTextsAlike() throws {
    let said = try response(Self.rule + "[rule.response]\nacceptable_status = [200, \"404\", \"500-502\"]")
    #expect(said.acceptableStatus.description == "200, 404, 500-502")
  }

  @Test func explainSaysIt() throws {
    func explained(_ body: String) throws -> String {
      let policy = try loaded(Self.rule + body)
      return Explanation(
        by: policy, method: "GET", scheme: .http, host: canonical("a.example"), port: 80, path: "/", isTunnel: false
      ).description
    }
    let all = try explained(
      "[rule.response]\nserializer = \"json\"\nmalformed = \"reject\"\nparts = \"judge\"\njson = \"container\"")
    #expect(all.contains("body: well-formed, and JSON an object or an array, else rejected"), "\(all)")
    #expect(all.contains("parts (206): judged as whole responses are"))
    #expect(all.contains("malformed head: rejected"))
    let heads = try explained("[rule.response]\nmalformed = \"mend\"")
    #expect(
      heads.contains("response: not judged") && heads.contains("malformed head: mended where it can be"), "\(heads)")
  }
}

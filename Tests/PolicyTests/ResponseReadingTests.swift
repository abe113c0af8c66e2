// [rule.response] and [defaults.response]: every key, what is said of what it does not take, and inheritance.

import Serialization
import Testing

@testable import Policy

@Suite struct ResponseReadingTests {
  private static let rule = "[[rule]]\nname = \"a\"\n"

  private func response(_ body: String) throws -> ResponseSerialization {
    try #require(try loaded(Self.rule + "[rule.response]\n" + body).rules[0].response)
  }

  private func types(_ response: ResponseSerialization?) -> [String]? {
    response?.acceptableTypes.map { $0.map(\.description) }
  }

  @Test func everyKeyIsTaken() throws {
    let response = try response(
      """
      serializer = ["json", "xml", "plist", "image"]
      acceptable_status = [304, "200-299", "404-410", 300, 999, 100]
      acceptable_content_types = ["application/json", "text/*", "+json"]
      remove_nulls = true
      on_violation = { status = "reject", content_type = "annotate", body = "annotate" }
      oversize = "reject"
      """)
    #expect(response.kinds == [.json, .xml, .plist, .image])
    #expect(response.acceptableStatus.description == "100, 200-300, 304, 404-410, 999")
    #expect(types(response) == ["application/json", "text/*", "+json"])
    #expect(response.removesNulls)
    #expect(response.onStatus == .reject && response.onContentType == .annotate && response.onBody == .annotate)
    #expect(response.onOversize == .reject)
  }

  @Test func aSilentTableIsTheDefaults() throws {
    for body in ["", "on_violation = {}"] {
      let response = try response(body)
      #expect(response.kinds == [.http] && response.acceptableStatus == .successful)
      #expect(response.acceptableTypes == nil && !response.removesNulls)
      #expect(response.onStatus == .annotate && response.onContentType == .reject && response.onBody == .reject)
      #expect(response.onOversize == .annotate)
    }
  }

  @Test func everySerializerIsTakenAlone() throws {
    for kind in ResponseSerialization.Kind.allCases {
      #expect(try response("serializer = \"\(kind.rawValue)\"").kinds == [kind])
    }
  }

  @Test func withoutATableResponsesAreNotLookedAt() throws {
    let policy = try loaded(Self.rule)
    #expect(policy.rules[0].response == nil && policy.defaultResponse == nil)
  }

  // MARK: Inheritance

  @Test func aRuleInheritsKeyByKeyWhereItIsSilent() throws {
    let policy = try loaded(
      """
      [[rule]]
      name = "silent"
      hosts = ["a"]
      [[rule]]
      name = "empty"
      hosts = ["b"]
      [rule.response]
      [[rule]]
      name = "speaks"
      [rule.response]
      acceptable_status = ["100-599"]
      remove_nulls = false
      on_violation = { status = "annotate" }
      [defaults.response]
      serializer = ["json", "image"]
      acceptable_status = [200]
      acceptable_content_types = ["text/json"]
      remove_nulls = true
      on_violation = { status = "reject", body = "annotate" }
      oversize = "reject"
      """)
    for response in [policy.defaultResponse, policy.rules[0].response, policy.rules[1].response] {
      #expect(response?.kinds == [.json, .image])
      #expect(response?.acceptableStatus.description == "200")
      #expect(types(response) == ["text/json"])
      #expect(response?.removesNulls == true)
      #expect(response?.onStatus == .reject && response?.onContentType == .reject && response?.onBody == .annotate)
      #expect(response?.onOversize == .reject)
    }
    let own = try #require(policy.rules[2].response)
    #expect(own.kinds == [.json, .image] && own.acceptableStatus.description == "100-599")
    #expect(types(own) == ["text/json"] && !own.removesNulls && own.onOversize == .reject)
    #expect(own.onStatus == .annotate && own.onContentType == .reject && own.onBody == .annotate)
  }

  @Test func theRulesWordComesFirst() throws {
    let own = try response(
      """
      serializer = "image"
      acceptable_status = [201]
      acceptable_content_types = ["image/png"]
      remove_nulls = false
      on_violation = { status = "reject", content_type = "annotate", body = "annotate" }
      oversize = "reject"
      [defaults.response]
      serializer = "json"
      acceptable_status = [200]
      acceptable_content_types = ["text/json"]
      remove_nulls = true
      on_violation = { status = "annotate", content_type = "reject", body = "reject" }
      oversize = "annotate"
      """)
    #expect(own.kinds == [.image] && own.acceptableStatus.description == "201" && types(own) == ["image/png"])
    #expect(!own.removesNulls && own.onOversize == .reject)
    #expect(own.onStatus == .reject && own.onContentType == .annotate && own.onBody == .annotate)
  }

  @Test func aRuleAloneHasATable() throws {
    let policy = try loaded(Self.rule + "hosts = [\"a\"]\n[rule.response]\n[[rule]]\nname = \"b\"")
    #expect(policy.rules[0].response != nil && policy.rules[1].response == nil && policy.defaultResponse == nil)
  }

  // MARK: Rows

  private static let kinds = "\"http\", \"json\", \"xml\", \"plist\" or \"image\""
  private static let status =
    "a status code such as 304 or \"304\", or a range such as \"200-299\", from 100 to 999"

  static let rows: [LoadRow] = [
    LoadRow(
      "types",
      """
      [defaults.response]
      serializer = 1
      acceptable_status = 200
      acceptable_content_types = "text/json"
      remove_nulls = "yes"
      on_violation = "reject"
      oversize = true
      """,
      "2:14: error: 'serializer' in [defaults.response]: expected a string or an array of strings, found an integer",
      "3:21: error: 'acceptable_status' in [defaults.response]: expected an array of status codes and ranges, "
        + "found an integer",
      "4:28: error: 'acceptable_content_types' in [defaults.response]: expected an array of strings, found a string",
      "5:16: error: 'remove_nulls' in [defaults.response]: expected true or false, found a string",
      "6:16: error: 'on_violation' in [defaults.response]: expected a table, found a string",
      "7:12: error: 'oversize' in [defaults.response]: expected a string, found a boolean"),
    LoadRow(
      "words that are none",
      """
      [defaults.response]
      serializer = "jsn"
      on_violation = { status = "deny", content_type = "rejects", body = 1, size = "reject" }
      oversize = "anotate"
      serialiser = "json"
      malformed = "repair"
      parts = true
      json = "object"
      """,
      "2:14: error: 'serializer' in [defaults.response]: expected \(kinds), found 'jsn'; did you mean 'json'?",
      "3:27: error: 'status' in [defaults.response.on_violation]: expected \"reject\" or \"annotate\", found 'deny'",
      "3:50: error: 'content_type' in [defaults.response.on_violation]: expected \"reject\" or \"annotate\", "
        + "found 'rejects'; did you mean 'reject'?",
      "3:68: error: 'body' in [defaults.response.on_violation]: expected a string, found an integer",
      "3:71: error: unknown key 'size' in [defaults.response.on_violation]",
      "4:12: error: 'oversize' in [defaults.response]: expected \"reject\" or \"annotate\", found 'anotate'; "
        + "did you mean 'annotate'?",
      "5:1: error: unknown key 'serialiser' in [defaults.response]; did you mean 'serializer'?",
      "6:13: error: 'malformed' in [defaults.response]: expected \"mend\" or \"reject\", found 'repair'",
      "7:9: error: 'parts' in [defaults.response]: expected a string, found a boolean",
      "8:8: error: 'json' in [defaults.response]: expected \"any\" or \"container\", found 'object'"),
    LoadRow(
      "a kind of JSON that no serializer asks for",
      "[[rule]]\nname = \"a\"\nresponse.serializer = \"xml\"\nresponse.json = \"container\"",
      "4:17: warning: 'json' in [rule.response]: this has no effect: no serializer is \"json\""),
    LoadRow(
      "lists of serializers",
      "[[rule]]\nname = \"a\"\nresponse.serializer = [\"json\", \"xml\", \"json\", \"html\", 1]",
      "3:39: warning: 'serializer' in [rule.response]: 'json' stands in the list twice",
      "3:47: error: 'serializer' in [rule.response]: expected \(kinds), found 'html'; did you mean 'http'?",
      "3:55: error: 'serializer' in [rule.response]: expected a string, found an integer"),
    LoadRow(
      "empty lists",
      "[defaults.response]\nserializer = []\nacceptable_status = []\nacceptable_content_types = []",
      "2:14: error: 'serializer' in [defaults.response]: expected at least one of \(kinds)",
      "3:21: error: 'acceptable_status' in [defaults.response]: an empty list accepts no response; "
        + "leave the key out for \"200-299\"",
      "4:28: error: 'acceptable_content_types' in [defaults.response]: an empty list accepts no response; "
        + "write [\"*/*\"] to accept any type"),
    LoadRow(
      "codes that are none", "[defaults.response]\nacceptable_status = [99, 1000, -200, true, \"099\", \"2xx\"]",
      "2:22: error: 'acceptable_status' in [defaults.response]: expected an integer from 100 to 999, found 99",
      "2:26: error: 'acceptable_status' in [defaults.response]: expected an integer from 100 to 999, found 1000",
      "2:32: error: 'acceptable_status' in [defaults.response]: expected an integer from 100 to 999, found -200",
      "2:38: error: 'acceptable_status' in [defaults.response]: expected \(status), found a boolean",
      "2:44: error: 'acceptable_status' in [defaults.response]: expected \(status), found '099'",
      "2:51: error: 'acceptable_status' in [defaults.response]: expected \(status), found '2xx'"),
    LoadRow(
      "ranges that are none",
      "[defaults.response]\nacceptable_status = [\"299-200\", \"200-\", \"-200\", \"099-200\", \"200-1000\", \"200 - 299\", "
        + "\"100-200-300\", \"\", \"+20-200\"]",
      "2:22: error: 'acceptable_status' in [defaults.response]: the range '299-200' is empty; did you mean '200-299'?",
      "2:33: error: 'acceptable_status' in [defaults.response]: expected \(status), found '200-'",
      "2:41: error: 'acceptable_status' in [defaults.response]: expected \(status), found '-200'",
      "2:49: error: 'acceptable_status' in [defaults.response]: expected \(status), found '099-200'",
      "2:60: error: 'acceptable_status' in [defaults.response]: expected \(status), found '200-1000'",
      "2:72: error: 'acceptable_status' in [defaults.response]: expected \(status), found '200 - 299'",
      "2:85: error: 'acceptable_status' in [defaults.response]: expected \(status), found '100-200-300'",
      "2:100: error: 'acceptable_status' in [defaults.response]: expected \(status), found ''",
      "2:104: error: 'acceptable_status' in [defaults.response]: expected \(status), found '+20-200'"),
    LoadRow(
      "what is accepted already",
      "[defaults.response]\nacceptable_status = [\"200-299\", 204, \"200-299\", \"299-300\", \"300-300\"]",
      "2:33: warning: 'acceptable_status' in [defaults.response]: 204 is accepted already",
      "2:38: warning: 'acceptable_status' in [defaults.response]: 200-299 is accepted already",
      "2:60: warning: 'acceptable_status' in [defaults.response]: 300 is accepted already"),
    LoadRow(
      "a type twice", "[defaults.response]\nacceptable_content_types = [\"text/json\", \"text/json\", 1]",
      "2:42: warning: 'acceptable_content_types' in [defaults.response]: 'text/json' stands in the list twice",
      "2:55: error: 'acceptable_content_types' in [defaults.response]: expected a string, found an integer"),
    LoadRow("types for any body", "[defaults.response]\nacceptable_content_types = [\"text/html\"]"),
  ]

  @Test(arguments: rows) func everythingElseIsSaidWhereItStands(row: LoadRow) { row.check() }

  @Test func whatIsNoTypeIsSaidInTheWordsOfItsReader() {
    guard case .failure(let fault) = MediaRange.parse("json") else {
      Issue.record("'json' is no type")
      return
    }
    LoadRow(
      "what is no type", Self.rule + "response.acceptable_content_types = [\"text/json\", \"json\"]",
      "3:51: error: 'acceptable_content_types' in [rule.response]: \(fault)"
    ).check()
  }

  @Test func aSerializerThatStandsTwiceIsAskedOnce() throws {
    let source = Self.rule + "response.serializer = [\"json\", \"xml\", \"json\"]"
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": source]))
    #expect(result.policy?.rules[0].response?.kinds == [.json, .xml])
  }

  // MARK: Keys that do nothing

  static let idle: [LoadRow] = [
    LoadRow(
      "nulls of what is no JSON", rule + "response.serializer = [\"xml\", \"plist\"]\nresponse.remove_nulls = true",
      "4:25: warning: 'remove_nulls' in [rule.response]: it has no effect: no serializer is \"json\""),
    LoadRow(
      "nulls without a serializer", rule + "response.remove_nulls = true",
      "3:25: warning: 'remove_nulls' in [rule.response]: it has no effect: no serializer is \"json\""),
    LoadRow("nulls that are left", rule + "response.remove_nulls = false"),
    LoadRow(
      "nulls of the JSON that is inherited",
      rule + "response.remove_nulls = true\n[defaults.response]\nserializer = \"json\""),
    LoadRow(
      "nulls that a rule for images leaves",
      rule + "response.serializer = \"image\"\n[defaults.response]\nserializer = \"json\"\nremove_nulls = true"),
    LoadRow(
      "nulls that nobody inherits", "[defaults.response]\nremove_nulls = true",
      "2:16: warning: 'remove_nulls' in [defaults.response]: it has no effect: no serializer is \"json\""),
    LoadRow(
      "nulls that somebody inherits",
      "[defaults.response]\nremove_nulls = true\n\(rule)response.serializer = \"json\""),
    LoadRow(
      "a serializer behind one that takes everything", rule + "response.serializer = [\"http\", \"json\"]",
      "3:23: warning: 'serializer' in [rule.response]: what stands behind \"http\" is never asked: \"http\" accepts "
        + "every body"),
    LoadRow(
      "a serializer before one that takes everything", "[defaults.response]\nserializer = [\"json\", \"http\"]",
      "2:14: warning: 'serializer' in [defaults.response]: no body is checked: \"http\" accepts what the others do not"
    ),
    LoadRow(
      "nulls of what is JSON, and anything else",
      rule + "response.serializer = [\"json\", \"http\"]\nresponse.remove_nulls = true"),
    LoadRow(
      "what has an error is not warned of as well",
      rule + "response.serializer = \"jsom\"\nresponse.remove_nulls = true",
      "3:23: error: 'serializer' in [rule.response]: expected \(kinds), found 'jsom'; did you mean 'json'?"),
    LoadRow(
      "nor are defaults", "[defaults.response]\nserializer = \"jsom\"\nremove_nulls = true",
      "2:14: error: 'serializer' in [defaults.response]: expected \(kinds), found 'jsom'; did you mean 'json'?"),
  ]

  @Test(arguments: idle) func idleRows(row: LoadRow) { row.check() }
}

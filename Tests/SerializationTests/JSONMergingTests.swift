// Parameters in JSON objects: where they go, what they replace, and what stays as it was written.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct JSONMergingTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let sentence: String
    let text: String
    let parameters: [(String, ParameterValue)]
    let expected: String

    init(_ sentence: String, _ text: String, _ parameters: [(String, ParameterValue)], _ expected: String) {
      self.sentence = sentence
      self.text = text
      self.parameters = parameters
      self.expected = expected
    }

    var testDescription: String { sentence }
  }

  /// Made anew each time: what a global holds in enums is a leak to AddressSanitizer, which cannot follow their
  /// pointers.
  private static var rows: [Row] {
    [
      Row("no parameters", " {\"a\": 1 } ", [], " {\"a\": 1 } "),
      Row("into an empty object", "{}", [("a", .integer(1))], "{\"a\":1}"),
      Row("into an empty object with white space", "\n{ \t}\n", [("a", .integer(1))], "\n{\"a\":1 \t}\n"),
      Row("several into an empty object", "{}", [("b", .integer(1)), ("a", .integer(2))], "{\"b\":1,\"a\":2}"),
      Row("behind a member", "{\"a\":1}", [("b", .integer(2))], "{\"a\":1,\"b\":2}"),
      Row("before the white space behind a member", "{ \"a\" : 1\n}", [("b", .integer(2))], "{ \"a\" : 1,\"b\":2\n}"),
      Row("behind an empty object", "{\"a\":{}}", [("b", .integer(2))], "{\"a\":{},\"b\":2}"),
      Row("behind a string that ends in a brace", "{\"a\":\"{\"}", [("b", .integer(2))], "{\"a\":\"{\",\"b\":2}"),
      Row(
        "several behind members", "{\"a\":1,\"b\":2}", [("d", .integer(3)), ("c", .integer(4))],
        "{\"a\":1,\"b\":2,\"d\":3,\"c\":4}"),

      Row("in place of a number", "{\"a\":1}", [("a", .integer(2))], "{\"a\":2}"),
      Row("in place of a string", "{\"a\":\"x\",\"b\":2}", [("a", .integer(2))], "{\"a\":2,\"b\":2}"),
      Row("in place of null", "{\"b\":0,\"a\":null}", [("a", .integer(2))], "{\"b\":0,\"a\":2}"),
      Row("in place of a container", "{\"a\":[1,{\"a\":3}],\"b\":2}", [("a", .integer(2))], "{\"a\":2,\"b\":2}"),
      Row(
        "white space around what is replaced stays", "{ \"a\" : [ ] , \"b\":2}", [("a", .integer(2))],
        "{ \"a\" : 2 , \"b\":2}"),
      Row(
        "in place of some, behind the rest", "{\"b\":1,\"x\":0,\"a\":2}",
        [("a", .integer(3)), ("c", .integer(4)), ("b", .integer(5))], "{\"b\":5,\"x\":0,\"a\":3,\"c\":4}"),

      Row("the second of a name goes", "{\"a\":1,\"a\":2}", [("a", .integer(3))], "{\"a\":3}"),
      Row(
        "all of a name but the first go", "{\"a\":1,\"b\":0,\"a\":[2],\"a\":{\"c\":1}}", [("a", .integer(3))],
        "{\"a\":3,\"b\":0}"),
      Row("one in the middle goes", "{\"a\":1,\"a\":2,\"b\":0}", [("a", .integer(3))], "{\"a\":3,\"b\":0}"),
      Row(
        "two of one name and two of another", "{\"a\":1,\"b\":1,\"a\":2,\"b\":2}",
        [("b", .integer(3)), ("a", .integer(4))], "{\"a\":4,\"b\":3}"),
      Row("white space of what goes goes", "{ \"a\" : 1 , \"a\" : 2 }", [("a", .integer(3))], "{ \"a\" : 3 }"),
      Row("behind what goes", "{\"a\":1,\"a\":2 }", [("a", .integer(3)), ("b", .integer(4))], "{\"a\":3,\"b\":4}"),
      Row(
        "names twice that no parameter has stay", "{\"b\":1,\"b\":2}", [("a", .integer(3))], "{\"b\":1,\"b\":2,\"a\":3}"
      ),

      Row("a key in escapes", "{\"\\u0061\":1}", [("a", .integer(2))], "{\"\\u0061\":2}"),
      Row("a key in escapes is the second", "{\"a\":1,\"\\u0061\":2}", [("a", .integer(3))], "{\"a\":3}"),
      Row("a key in escapes is the first", "{\"\\u0061\":1,\"a\":2}", [("a", .integer(3))], "{\"\\u0061\":3}"),
      Row(
        "a key partly in escapes", "{\"ap\\u0069_\\u006Bey\":1}", [("api_key", .integer(2))],
        "{\"ap\\u0069_\\u006Bey\":2}"),
      Row("a key with short escapes", "{\"\\/\\n\\\"\":1}", [("/\n\"", .integer(2))], "{\"\\/\\n\\\"\":2}"),
      Row("two bytes in escapes", "{\"\\u00e9\":1,\"\u{c3}\u{a9}\":2}", [("é", .integer(3))], "{\"\\u00e9\":3}"),
      Row("a pair of surrogates", "{\"\\ud83d\\ude00!\":1}", [("😀!", .integer(2))], "{\"\\ud83d\\ude00!\":2}"),
      Row("a key with a NUL", "{\"a\\u0000\":1}", [("a", .integer(2))], "{\"a\\u0000\":1,\"a\":2}"),
      Row("a key that is the beginning", "{\"ap\":1}", [("api", .integer(2))], "{\"ap\":1,\"api\":2}"),
      Row("a key that goes on", "{\"apis\":1}", [("api", .integer(2))], "{\"apis\":1,\"api\":2}"),
      Row(
        "a key that goes on in escapes", "{\"api\\u0073\":1}", [("api", .integer(2))], "{\"api\\u0073\":1,\"api\":2}"),
      Row("a key in another case", "{\"A\":1}", [("a", .integer(2))], "{\"A\":1,\"a\":2}"),
      Row(
        "a key of other code points", "{\"e\\u0301\":1}", [("é", .integer(2))], "{\"e\\u0301\":1,\"\u{c3}\u{a9}\":2}"),
      Row("the escape of an escape", "{\"\\\\u0061\":1}", [("a", .integer(2))], "{\"\\\\u0061\":1,\"a\":2}"),
      Row("an empty key", "{\"\":1,\"a\":2}", [("", .integer(3))], "{\"\":3,\"a\":2}"),
      Row("an empty key that is not there", "{\"a\":2}", [("", .integer(3))], "{\"a\":2,\"\":3}"),

      Row(
        "members further in stay", "{\"b\":{\"a\":1,\"a\":2},\"c\":[{\"a\":3}]}", [("a", .integer(4))],
        "{\"b\":{\"a\":1,\"a\":2},\"c\":[{\"a\":3}],\"a\":4}"),
      Row(
        "what stays is as it was written", "{\"x\":[1.0 , 1E400,\"\\u0041\\/\"],\"a\":0}", [("a", .integer(1))],
        "{\"x\":[1.0 , 1E400,\"\\u0041\\/\"],\"a\":1}"),
      Row(
        "values of every kind", "{}",
        [
          ("s", .string(Array("é\"".utf8))), ("r", .real(0.5)), ("b", .boolean(true)), ("l", .array([.integer(1)])),
          ("d", .dictionary([ParameterEntry(key: Array("k".utf8), value: .array([]))])),
        ], "{\"s\":\"\u{c3}\u{a9}\\\"\",\"r\":0.5,\"b\":true,\"l\":[1],\"d\":{\"k\":[]}}"),
      Row("a key that has to be escaped", "{}", [("a\"\n", .integer(1))], "{\"a\\\"\\n\":1}"),
    ]
  }

  private func entries(_ parameters: [(String, ParameterValue)]) -> [ParameterEntry] {
    parameters.map { ParameterEntry(key: Array($0.0.utf8), value: $0.1) }
  }

  private func merge(
    _ parameters: [(String, ParameterValue)], _ bytes: [UInt8], depth: Int = JSONText.depth
  ) -> (outcome: JSONMergeOutcome, bytes: [UInt8]) {
    let memory = GuardedMemory()
    var out = ByteBuffer()
    let outcome = memory.lend(bytes) { JSONMerging.merge(entries(parameters), into: $0, depth: depth, to: &out) }
    return (outcome, out.array)
  }

  @Test(arguments: rows)
  func isMerged(row: Row) {
    let (outcome, bytes) = merge(row.parameters, octets(row.text))
    #expect(outcome == .merged)
    #expect(shown(bytes) == shown(octets(row.expected)))
    #expect(faultByGrammar(bytes) == nil)
    // Merged again, nothing changes.
    let (again, same) = merge(row.parameters, bytes)
    #expect(again == .merged)
    #expect(shown(same) == shown(bytes))
  }

  @Test(arguments: rows)
  func whatIsCutShortOrGoesOnIsAFault(row: Row) {
    let bytes = octets(row.text)
    for text in bytes.indices.map({ Array(bytes.prefix($0)) }) + ["}", "1", ",", "\u{0}"].map({ bytes + octets($0) }) {
      let fault = faultByGrammar(text)
      #expect(merge(row.parameters, text).outcome == fault.map { .invalid($0) } ?? .merged, "\(shown(text))")
    }
  }

  @Test(arguments: JSONText.refused)
  func whatIsNotValidIsAFault(text: JSONText) {
    let parameters: [(String, ParameterValue)] = [("a", .integer(1))]
    let fault = faultByGrammar(text.bytes)
    #expect(merge(parameters, text.bytes).outcome == fault.map { .invalid($0) })
    // The same as the value of a member, of one that is replaced and of one that goes.
    for head in ["{\"x\":[", "{\"a\":[", "{\"a\":0,\"a\":["] {
      guard case .invalid = merge(parameters, octets(head) + text.bytes).outcome else {
        Issue.record("\(head)")
        return
      }
    }
  }

  @Test(arguments: [
    ("[]", "an array"), (" [{\"a\":1}] ", "an array"), ("\"{}\"", "a string"), ("-1.5e3", "a number"),
    ("true", "a boolean"),
    ("false\n", "a boolean"), ("null", "null"),
  ])
  func whatIsNoObjectIsNamed(text: String, phrase: String) {
    #expect(merge([("a", .integer(1))], octets(text)).outcome == .notAnObject(phrase))
    // A fault goes before.
    guard case .invalid = merge([("a", .integer(1))], octets(text + "]")).outcome else {
      Issue.record("taken with a bracket too many")
      return
    }
  }

  @Test func depthHasItsLimit() {
    let parameters: [(String, ParameterValue)] = [("a", .array([.array([])]))]
    #expect(merge(parameters, octets("{\"b\":[]}"), depth: 2).outcome == .merged)
    guard case .invalid(let fault) = merge(parameters, octets("{\"b\":[[]]}"), depth: 2).outcome else {
      Issue.record("too deep, and merged")
      return
    }
    #expect(fault.offset == 6)
  }

  @Test func randomObjectsGetTheirParameters() {
    var generator = SeededGenerator(seed: 41)
    let keys = ["a", "b", "é", "null", "new", "a\nb"]
    for _ in 0..<2000 {
      let tree = JSONTree.randomObject(depth: 3, using: &generator)
      let text = Array(tree.text(using: &generator).utf8)
      let values = keys.filter { _ in Bool.random(using: &generator) }
        .map { (key: $0, number: Int64.random(in: 0...9, using: &generator)) }
      let (outcome, bytes) = merge(values.map { ($0.key, .integer($0.number)) }, text)
      #expect(outcome == .merged)
      let expected = tree.merged(values.map { ($0.key, .scalar("\($0.number)")) })
      let isExpected = faultByGrammar(bytes) == nil && JSONTree.read(bytes) == expected
      #expect(isExpected, "\(values): \(shown(text)): \(shown(bytes))")
    }
  }
}

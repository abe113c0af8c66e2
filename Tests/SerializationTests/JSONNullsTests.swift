// Null removal: what goes, what stays, and that what stays is as it was written.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct JSONNullsTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let sentence: String
    let text: String
    /// Nil where nothing is removed.
    let expected: String?

    init(_ sentence: String, _ text: String, _ expected: String?) {
      self.sentence = sentence
      self.text = text
      self.expected = expected
    }

    var testDescription: String { sentence }
  }

  private static let rows: [Row] = [
    Row("the text itself", "null", nil),
    Row("the text itself among white space", " null\n", nil),
    Row("no null in scalars", "1", nil),
    Row("no null in containers", "{\"a\":[1,{}],\"b\":[]}", nil),

    Row("the only element", "[null]", "[]"),
    Row("the first element", "[null,1]", "[1]"),
    Row("the last element", "[1,null]", "[1]"),
    Row("an element in the middle", "[1,null,2]", "[1,2]"),
    Row("two elements", "[null,null]", "[]"),
    Row("many elements", "[null,null,null,null]", "[]"),
    Row("the first two elements", "[null,null,1]", "[1]"),
    Row("the last two elements", "[1,null,null]", "[1]"),
    Row("two in the middle", "[1,null,null,2]", "[1,2]"),
    Row("every other element", "[null,1,null,2,null]", "[1,2]"),
    Row("every other element, from the second", "[1,null,2,null,3]", "[1,2,3]"),

    Row("the only member", "{\"a\":null}", "{}"),
    Row("the first member", "{\"a\":null,\"b\":1}", "{\"b\":1}"),
    Row("the last member", "{\"a\":1,\"b\":null}", "{\"a\":1}"),
    Row("a member in the middle", "{\"a\":1,\"b\":null,\"c\":2}", "{\"a\":1,\"c\":2}"),
    Row("all members", "{\"a\":null,\"b\":null,\"c\":null}", "{}"),
    Row("the first two members", "{\"a\":null,\"b\":null,\"c\":1}", "{\"c\":1}"),
    Row("the last two members", "{\"a\":1,\"b\":null,\"c\":null}", "{\"a\":1}"),
    Row("every other member", "{\"a\":null,\"b\":1,\"c\":null,\"d\":2,\"e\":null}", "{\"b\":1,\"d\":2}"),
    Row("one of two of a name", "{\"a\":null,\"a\":1}", "{\"a\":1}"),
    Row("both of a name", "{\"a\":null,\"a\":null}", "{}"),

    Row("a member of an element", "[{\"a\":null,\"b\":1}]", "[{\"b\":1}]"),
    Row("an element of a member", "{\"a\":[null,1]}", "{\"a\":[1]}"),
    Row("what becomes empty stays", "{\"a\":[null],\"b\":{\"c\":null}}", "{\"a\":[],\"b\":{}}"),
    Row("what becomes empty stays, deep down", "[[[[null]]]]", "[[[[]]]]"),
    Row("before a container", "[null,[1]]", "[[1]]"),
    Row("behind a container", "[[1],null]", "[[1]]"),
    Row("between containers", "[[],null,{}]", "[[],{}]"),
    Row("behind a container that lost its last", "[[1,null],null]", "[[1]]"),
    Row("before a container that loses its first", "[null,[null,1]]", "[[1]]"),
    Row("behind a container that becomes empty", "[[null],null]", "[[]]"),
    Row("before a container that becomes empty", "[null,[null]]", "[[]]"),
    Row(
      "at every depth", "{\"a\":null,\"b\":{\"c\":null,\"d\":[null,{\"e\":null}],\"f\":null},\"g\":null}",
      "{\"b\":{\"d\":[{}]}}"),

    Row("white space of the first goes", "[ null , 1 ]", "[ 1 ]"),
    Row("white space of the last goes", "[ 1 , null ]", "[ 1 ]"),
    Row("white space of the only one goes", "[ null ]", "[]"),
    Row("white space of all goes", "[ null , null ]", "[]"),
    Row("white space in the middle goes", "[ 1 , null , 2 ]", "[ 1 , 2 ]"),
    Row("white space of a member goes", "{ \"a\" : null , \"b\" : 1 }", "{ \"b\" : 1 }"),
    Row("lines stay lines", "{\n  \"a\": 1,\n  \"b\": null,\n  \"c\": 2\n}\n", "{\n  \"a\": 1,\n  \"c\": 2\n}\n"),
    Row("the last line goes", "{\n  \"a\": 1,\n  \"b\": null\n}", "{\n  \"a\": 1}"),
    Row("white space around the text stays", " \n[null] \t", " \n[] \t"),

    Row("a key that is called null", "{\"null\":1,\"b\":null}", "{\"null\":1}"),
    Row("a string that says null", "[\"null\",null,\",null\",\"[null]\"]", "[\"null\",\",null\",\"[null]\"]"),
    Row("a string that ends in a comma", "[\",\",null]", "[\",\"]"),
    Row("a string that ends in a bracket", "[\"[\",null]", "[\"[\"]"),
    Row("a key with a comma", "{\",\":null,\"{\":null}", "{}"),
    Row("a key with escapes", "{\"\\\"\\\\\":null,\"\\u006e\":1}", "{\"\\u006e\":1}"),
    Row(
      "numbers keep their spelling", "[1.0,null,1E+2,-0,10000000000000000000000.000,1e400]",
      "[1.0,1E+2,-0,10000000000000000000000.000,1e400]"),
    Row("strings keep their escapes", "[\"\\u0061\\/\u{c3}\u{a9}\",null]", "[\"\\u0061\\/\u{c3}\u{a9}\"]"),
    Row(
      "keys keep their order and are kept twice", "{\"b\":1,\"x\":null,\"a\":2,\"b\":3}", "{\"b\":1,\"a\":2,\"b\":3}"),
    Row("false, zero and what is empty stay", "[false,null,0,null,\"\",null,[],null,{}]", "[false,0,\"\",[],{}]"),
  ]

  private func remove(_ bytes: [UInt8], _ memory: GuardedMemory, depth: Int = JSONText.depth)
    -> (result: Result<Bool, ContentFault>, bytes: [UInt8])
  {
    var out = ByteBuffer()
    let result = memory.lend(bytes) { JSONNulls.remove(from: $0, depth: depth, to: &out) }
    return (result, out.array)
  }

  @Test(arguments: rows)
  func isRemoved(row: Row) {
    let memory = GuardedMemory()
    let (result, bytes) = remove(octets(row.text), memory)
    #expect(result == .success(row.expected != nil))
    #expect(shown(bytes) == shown(octets(row.expected ?? "")))
  }

  /// What is in the buffer already has nothing to do with it.
  @Test(arguments: rows)
  func isAppended(row: Row) {
    for head in ["", "x", ",", "["] {
      var out = ByteBuffer()
      out.append(octets(head))
      _ = JSONNulls.remove(from: octets(row.text).span, depth: JSONText.depth, to: &out)
      #expect(out.array == octets(head + (row.expected ?? "")))
    }
  }

  @Test(arguments: JSONText.accepted)
  func whatIsValidStaysValid(text: JSONText) {
    let memory = GuardedMemory()
    let (result, bytes) = remove(text.bytes, memory)
    guard case .success(let isChanged) = result, !isChanged || faultByGrammar(bytes) == nil else {
      Issue.record("\(result): \(shown(bytes))")
      return
    }
    let left = JSONTree.read(isChanged ? bytes : text.bytes)
    #expect(left == JSONTree.read(text.bytes).withoutNulls)
    #expect(isChanged == (left != JSONTree.read(text.bytes)))
  }

  @Test(arguments: JSONText.refused)
  func whatIsNotValidIsAFault(text: JSONText) {
    let memory = GuardedMemory()
    let expected = faultByGrammar(text.bytes)
    #expect(remove(text.bytes, memory).result == expected.map { .failure($0) })
    // The same behind something that was removed.
    let (result, _) = remove(octets("{\"a\":[null,") + text.bytes, memory)
    guard case .failure = result else {
      Issue.record("\(result)")
      return
    }
  }

  @Test(arguments: rows)
  func whatIsCutShortIsAFault(row: Row) {
    let memory = GuardedMemory()
    let bytes = octets(row.text)
    for count in 0..<bytes.count {
      let part = Array(bytes.prefix(count))
      let fault = faultByGrammar(part)
      let (result, _) = remove(part, memory)
      switch result {
      case .success: #expect(fault == nil, "the first \(count) bytes")
      case .failure(let seen): #expect(seen == fault, "the first \(count) bytes")
      }
    }
  }

  @Test func randomTextsLoseTheirNullsAndNothingElse() {
    let memory = GuardedMemory()
    var generator = SeededGenerator(seed: 31)
    var changed = 0
    for _ in 0..<3000 {
      let tree = JSONTree.random(depth: 5, using: &generator)
      let text = Array(tree.text(using: &generator).utf8)
      let (result, bytes) = remove(text, memory)
      let isChanged = tree.withoutNulls != tree
      #expect(result == .success(isChanged), "\(shown(text))")
      guard isChanged else { continue }
      changed += 1
      let isExpected = faultByGrammar(bytes) == nil && JSONTree.read(bytes) == tree.withoutNulls
      #expect(isExpected, "\(shown(text)): \(shown(bytes))")
      #expect(remove(bytes, memory).result == .success(false), "\(shown(text)): \(shown(bytes))")
    }
    #expect(changed > 500)
  }

  @Test func depthHasItsLimit() {
    let memory = GuardedMemory()
    #expect(remove(octets("[[null]]"), memory, depth: 2).result == .success(true))
    #expect(remove(octets("[[null,[]]]"), memory, depth: 2).result.fault?.offset == 7)
    let brackets = [UInt8](repeating: 0x5b, count: 200_000)
    #expect(remove(brackets, memory, depth: 512).result.fault?.offset == 512)
  }
}

extension Result {
  fileprivate var fault: Failure? {
    if case .failure(let fault) = self { return fault }
    return nil
  }
}

// Reading what the admin API answers: values, escapes, and what is no JSON.

import Testing

@testable import Console

@Suite struct JSONValueTests {
  private func read(_ text: String) -> JSONValue? { JSONValue(Array(text.utf8)) }

  @Test func values() {
    #expect(read("null") == .null)
    #expect(
      read(" [true, false , 12, -1.5e2] ") == .array([.boolean(true), .boolean(false), .number(12), .number(-150)]))
    #expect(read("{}") == .object([]) && read("[]") == .array([]))
    let object = read(#"{"a": {"b": [1, "x"]}, "n": null}"#)
    #expect(object?["a"]["b"].elements == [.number(1), .string("x")])
    #expect(object?["n"] == .null && object?["absent"]["deeper"] == .null)
    #expect(object?["a"]["b"].elements.first?.whole == 1)
  }

  @Test func escapes() {
    #expect(read(#""a\"b\\c\/\n\t\u00e9""#)?.text == "a\"b\\c/\n\té")
    #expect(read(#""\ud83d\ude00""#)?.text == "😀")
    #expect(read(#""\ud83dx\ud83d\u0041""#)?.text == "\u{fffd}x\u{fffd}")
    #expect(read("\"é😀\"")?.text == "é😀")
  }

  @Test func whatIsNoJSON() {
    for text in [
      "", "{", "[1", "[1,]", "{\"a\"}", "{\"a\":1,}", "nul", "\"a", #""\x""#, #""\u12""#, "1 2", "{1:2}", "-",
      #""\u+123""#,
    ] {
      #expect(read(text) == nil, "\(text)")
    }
  }

  @Test func whatIsTooDeepIsRefused() {
    let most = JSONValue.mostDepth
    #expect(read(String(repeating: "[", count: most) + String(repeating: "]", count: most)) != nil)
    #expect(read(String(repeating: "[", count: most + 1) + String(repeating: "]", count: most + 1)) == nil)
    #expect(read(String(repeating: "[", count: 1_000_000)) == nil)
  }
}

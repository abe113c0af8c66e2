// JSON texts that are valid, for all tests that read JSON. Those that are not: RefusedJSONTexts.swift.

import Bytes
import TestSupport
import Testing

@testable import Serialization

/// A row of a table of texts.
struct JSONText: Sendable, CustomTestStringConvertible {
  let sentence: String
  let bytes: [UInt8]
  /// What is said of it; empty where it is valid.
  var fault = ""

  init(_ sentence: String, _ text: String, fault: String = "") {
    self.sentence = sentence
    bytes = octets(text)
    self.fault = fault
  }

  var testDescription: String { sentence }

  /// Deepest nesting that the tables are read with.
  static let depth = 20
}

extension JSONText {
  static let accepted: [JSONText] = [
    JSONText("an object without members", "{}"),
    JSONText("an array without elements", "[]"),
    JSONText("a string alone", "\"\""),
    JSONText("a number alone", "0"),
    JSONText("a number of several digits alone", "1234567890"),
    JSONText("a negative number alone", "-1"),
    JSONText("true alone", "true"),
    JSONText("false alone", "false"),
    JSONText("null alone", "null"),
    JSONText("white space around a value", " \t\r\n1 \t\r\n"),
    JSONText("white space around a literal", "\r\n null\t"),
    JSONText("white space everywhere", " { \"a\" : [ 1 , 2 ] , \"b\" : { } , \"c\" : [ ] } "),
    JSONText("line breaks of each kind", "[1,\n2,\r3,\r\n4]"),
    JSONText(
      "white space of every length",
      (0...20).map { String(repeating: " ", count: $0) + "[]" }.joined(separator: ",").bracketed),
    JSONText("a member", "{\"a\":1}"),
    JSONText("members", "{\"a\":1,\"b\":\"2\",\"c\":true,\"d\":false,\"e\":null,\"f\":{},\"g\":[]}"),
    JSONText("an empty key", "{\"\":0}"),
    JSONText("a key twice", "{\"a\":1,\"a\":2}"),
    JSONText("a key twice with one value", "{\"a\":1,\"a\":1}"),
    JSONText("a key with escapes", "{\"\\u0061\\n\\\"\":0}"),
    JSONText("a key with a NUL", "{\"a\\u0000b\":0}"),
    JSONText("elements of every kind", "[1,\"2\",true,false,null,{},[]]"),
    JSONText("containers inside one another", "{\"a\":[{\"b\":[[],{},[{}]]}]}"),
    JSONText("containers behind one another", "[[],[],{},{},[[]],{\"a\":{}}]"),
    JSONText("arrays as deep as may be", String(repeating: "[", count: depth) + String(repeating: "]", count: depth)),
    JSONText(
      "a number as deep as may be", String(repeating: "[", count: depth) + "1" + String(repeating: "]", count: depth)),
    JSONText(
      "null as deep as may be",
      String(repeating: "{\"a\":", count: depth) + "null" + String(repeating: "}", count: depth)),
    JSONText("depth again and again", "[" + String(repeating: "[[[[]]]],", count: 50) + "[]]"),

    JSONText("zero", "[0]"),
    JSONText("minus zero", "[-0]"),
    JSONText("a fraction", "[0.5]"),
    JSONText("a fraction of minus zero", "[-0.0]"),
    JSONText("a fraction with zeros", "[10.010]"),
    JSONText("an exponent", "[1e5]"),
    JSONText("an exponent in upper case", "[1E5]"),
    JSONText("an exponent with plus", "[1e+5]"),
    JSONText("an exponent with minus", "[1E-5]"),
    JSONText("an exponent with leading zeros", "[1e005]"),
    JSONText("an exponent of zero", "[0e0]"),
    JSONText("everything a number may have", "[-123.456E-78]"),
    JSONText("the greatest 64-bit integers", "[9223372036854775807,-9223372036854775808,18446744073709551615]"),
    JSONText("an integer beyond 64 bits", "[18446744073709551616]"),
    JSONText("a negative integer beyond 64 bits", "[-9223372036854775809]"),
    JSONText("an integer of 400 digits", "[1\(String(repeating: "0", count: 400))]"),
    JSONText("an integer of 400 digits alone", "9\(String(repeating: "3", count: 400))"),
    JSONText("a number beyond a double", "[1e400,-1e400]"),
    JSONText("an exponent of 400 digits", "[1e\(String(repeating: "9", count: 400))]"),
    JSONText("a negative exponent of 400 digits", "[1e-\(String(repeating: "9", count: 400))]"),
    JSONText("a number that a double rounds to zero", "[1e-400,123.456e-789]"),
    JSONText("a fraction of 400 digits", "[0.\(String(repeating: "7", count: 400))]"),
    JSONText("a number between two doubles", "[9007199254740993,0.1000000000000000055511151231257827]"),

    JSONText("every short escape", "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]"),
    JSONText("escapes by number", "[\"\\u0000\\u001F\\u00e9\\uABCD\\uabcd\\uffff\\uFFFE\"]"),
    JSONText("a pair of surrogates", "[\"\\ud83d\\ude00\"]"),
    JSONText("the first and the last pair", "[\"\\uD800\\uDC00\\uDBFF\\uDFFF\"]"),
    JSONText("escapes on both sides of the surrogates", "[\"\\ud7ff\\ue000\"]"),
    JSONText("what only looks like a surrogate", "[\"\\\\ud800\",\"ud800\"]"),
    JSONText("an escaped backslash before the end", "[\"\\\\\",\"\\\\\\\\\"]"),
    JSONText("an escaped quote before the end", "[\"\\\"\",\"\\\\\\\"\"]"),
    JSONText("a DEL, which is no control character here", "[\"\u{7f}\"]"),
    JSONText("a solidus as it is", "[\"a/b\"]"),
    JSONText("text that looks like structure", "[\"{}[],:\\\"null true\"]"),
    JSONText(
      "a string of every length",
      (0...40).map { "\"" + String(repeating: "x", count: $0) + "\"" }.joined(separator: ",").bracketed),
    JSONText(
      "an escape at every place",
      (0...20).map { "\"" + String(repeating: "x", count: $0) + "\\n" + "y\"" }.joined(separator: ",").bracketed),
    JSONText("two bytes of UTF-8", "[\"\u{c2}\u{80}\u{c3}\u{a9}\u{df}\u{bf}\"]"),
    JSONText("three bytes of UTF-8", "[\"\u{e0}\u{a0}\u{80}\u{e2}\u{82}\u{ac}\u{ef}\u{bf}\u{bf}\"]"),
    JSONText("three bytes on both sides of the surrogates", "[\"\u{ed}\u{9f}\u{bf}\u{ee}\u{80}\u{80}\"]"),
    JSONText("four bytes of UTF-8", "[\"\u{f0}\u{90}\u{80}\u{80}\u{f0}\u{9f}\u{98}\u{80}\u{f4}\u{8f}\u{bf}\u{bf}\"]"),
    JSONText(
      "UTF-8 at every place",
      (0...20).map { "\"" + String(repeating: "x", count: $0) + "\u{c3}\u{a9}y\"" }.joined(separator: ",").bracketed),
    JSONText("UTF-8 in a key", "{\"\u{c3}\u{a9}\":1}"),
    JSONText("a line separator in a string", "[\"\u{e2}\u{80}\u{a8}\"]"),
    JSONText("a byte order mark in a string", "[\"\u{ef}\u{bb}\u{bf}\"]"),
  ]
}

extension String {
  /// As an array.
  fileprivate var bracketed: String { "[\(self)]" }
}

/// The first fault of a text by our own grammar.
func faultByGrammar(_ bytes: [UInt8], depth: Int = JSONText.depth) -> ContentFault? {
  JSONScanner.check(bytes.span, depth: depth)
}

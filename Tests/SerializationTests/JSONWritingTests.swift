// Parameters as JSON texts.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct JSONWritingTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let sentence: String
    let value: ParameterValue
    let expected: String

    init(_ sentence: String, _ value: ParameterValue, _ expected: String) {
      self.sentence = sentence
      self.value = value
      self.expected = expected
    }

    var testDescription: String { sentence }
  }

  private static func string(_ text: String) -> ParameterValue { .string(octets(text)) }
  private static func entry(_ key: String, _ value: ParameterValue) -> ParameterEntry {
    ParameterEntry(key: octets(key), value: value)
  }

  /// Made anew each time: what a global holds in enums is a leak to AddressSanitizer, which cannot follow their
  /// pointers.
  private static var rows: [Row] {
    [
      Row("an empty string", string(""), "\"\""),
      Row("a string", string("abc"), "\"abc\""),
      Row("a quote", string("\""), "\"\\\"\""),
      Row("a backslash", string("a\\b"), "\"a\\\\b\""),
      Row("a solidus stays as it is", string("a/b"), "\"a/b\""),
      Row("control characters with a letter", string("\u{8}\u{9}\u{a}\u{c}\u{d}"), "\"\\b\\t\\n\\f\\r\""),
      Row(
        "control characters by number", string("\u{0}\u{1}\u{b}\u{f}\u{10}\u{1f}"),
        "\"\\u0000\\u0001\\u000b\\u000f\\u0010\\u001f\""),
      Row("a DEL stays as it is", string("\u{7f}"), "\"\u{7f}\""),
      Row("an escape first, in the middle and last", string("\"a\"b\""), "\"\\\"a\\\"b\\\"\""),
      Row("escapes behind long runs", string("0123456789abcdef\n0123456789\n"), "\"0123456789abcdef\\n0123456789\\n\""),
      Row(
        "UTF-8 stays as it is", string("\u{c3}\u{a9}\u{e2}\u{82}\u{ac}\u{f0}\u{9f}\u{98}\u{80}\u{e2}\u{80}\u{a8}"),
        "\"\u{c3}\u{a9}\u{e2}\u{82}\u{ac}\u{f0}\u{9f}\u{98}\u{80}\u{e2}\u{80}\u{a8}\""),
      Row("UTF-8 between escapes", string("\n\u{c3}\u{a9}\n"), "\"\\n\u{c3}\u{a9}\\n\""),
      Row("a byte that is no UTF-8", string("a\u{ff}b"), "\"a\u{ef}\u{bf}\u{bd}b\""),
      Row("each byte of an overlong form", string("\u{c0}\u{af}"), "\"\u{ef}\u{bf}\u{bd}\u{ef}\u{bf}\u{bd}\""),
      Row(
        "a sequence that a quote cuts", string("\u{e2}\u{82}\""), "\"\u{ef}\u{bf}\u{bd}\u{ef}\u{bf}\u{bd}\\\"\""),

      Row("zero", .integer(0), "0"),
      Row("a positive integer", .integer(42), "42"),
      Row("a negative integer", .integer(-42), "-42"),
      Row("the greatest integer", .integer(.max), "9223372036854775807"),
      Row("the least integer", .integer(.min), "-9223372036854775808"),

      Row("a real", .real(0.5), "0.5"),
      Row("a negative real", .real(-2.25), "-2.25"),
      Row("the shortest that reads back", .real(0.1), "0.1"),
      Row("more digits where they are needed", .real(0.1 + 0.2), "0.30000000000000004"),
      Row("a whole real", .real(1), "1"),
      Row("a whole real with zeros", .real(1000), "1000"),
      Row("minus zero", .real(-0.0), "-0"),
      Row("a large whole real", .real(1e15), "1000000000000000"),
      Row("a larger whole real", .real(1e16), "1e+16"),
      Row("a great real", .real(1e300), "1e+300"),
      Row("the greatest real", .real(.greatestFiniteMagnitude), "1.7976931348623157e+308"),
      Row("a small real", .real(1e-7), "1e-07"),
      Row("the least real", .real(.leastNonzeroMagnitude), "5e-324"),

      Row("true", .boolean(true), "true"),
      Row("false", .boolean(false), "false"),

      Row("an empty array", .array([]), "[]"),
      Row("an array", .array([.integer(1), string("a"), .boolean(false)]), "[1,\"a\",false]"),
      Row("arrays inside one another", .array([.array([]), .array([.array([.integer(1)])])]), "[[],[[1]]]"),
      Row("an empty dictionary", .dictionary([]), "{}"),
      Row(
        "a dictionary, in order", .dictionary([entry("b", .integer(1)), entry("a", .integer(2))]), "{\"b\":1,\"a\":2}"),
      Row("a key that is escaped", .dictionary([entry("a\"\n", .array([]))]), "{\"a\\\"\\n\":[]}"),
      Row("an empty key", .dictionary([entry("", .dictionary([]))]), "{\"\":{}}"),
      Row(
        "a dictionary in an array in a dictionary",
        .dictionary([entry("a", .array([.dictionary([entry("b", string("c"))])]))]), "{\"a\":[{\"b\":\"c\"}]}"),
    ]
  }

  private func written(_ value: ParameterValue) -> [UInt8] {
    var out = ByteBuffer()
    JSONWriting.write(value, to: &out)
    return out.array
  }

  @Test(arguments: rows)
  func isWritten(row: Row) {
    let bytes = written(row.value)
    #expect(shown(bytes) == shown(octets(row.expected)))
    #expect(faultByGrammar(bytes) == nil)
  }

  @Test func entriesAreADictionary() {
    let entries = [Self.entry("b", .integer(1)), Self.entry("a", .array([]))]
    var out = ByteBuffer()
    JSONWriting.write(entries, to: &out)
    #expect(out.array == written(.dictionary(entries)))
    out.removeAll()
    JSONWriting.write([ParameterEntry](), to: &out)
    #expect(out.array == octets("{}"))
  }

  /// Behind runs of every length, for runs are read by words.
  @Test func everyByteIsWrittenAsAString() {
    for byte in 0...255 as ClosedRange<UInt8> {
      for length in 0...9 {
        let text = [UInt8](repeating: 0x78, count: length) + [byte] + octets("yz")
        let bytes = written(.string(text))
        guard case .string(let read) = StrictJSON.parse(bytes) else {
          Issue.record("\(shown(bytes))")
          continue
        }
        #expect(Array(read.utf8) == (byte < 0x80 ? text : Array(String(decoding: text, as: UTF8.self).utf8)))
      }
    }
  }

  @Test func randomRealsReadBack() {
    var generator = SeededGenerator(seed: 51)
    for round in 0..<5000 {
      let pattern = UInt64.random(in: 0...UInt64.max, using: &generator)
      let number =
        round % 2 == 0 ? Double(bitPattern: pattern) : Double(Int64(bitPattern: pattern) >> Int64(round % 64))
      guard number.isFinite else { continue }
      let bytes = written(.real(number))
      #expect(faultByGrammar(bytes, depth: 1) == nil, "\(shown(bytes))")
      #expect(Double(String(decoding: bytes, as: UTF8.self))?.bitPattern == number.bitPattern, "\(shown(bytes))")
      #expect(!shown(bytes).hasSuffix(".0"))
    }
  }

  @Test func theDeepestValueIsWritten() {
    var value = ParameterValue.integer(1)
    for level in 0..<JSONWriting.deepestNesting {
      value = level % 2 == 0 ? .array([value]) : .dictionary([Self.entry("a", value)])
    }
    let bytes = written(value)
    #expect(faultByGrammar(bytes, depth: JSONWriting.deepestNesting) == nil)
    #expect(faultByGrammar(bytes, depth: JSONWriting.deepestNesting - 1) != nil)
  }

  @Test(arguments: [
    ("nothing", "", true),
    ("ASCII", "abc\u{0}\u{7f}", true), ("é", "\u{c3}\u{a9}", true), ("Latin-1", "\u{e9}", false),
    ("a long run and a bad byte", "0123456789abcdefghij\u{80}", false), ("a surrogate", "\u{ed}\u{a0}\u{80}", false),
  ])
  func utf8IsTold(sentence: String, text: String, expected: Bool) {
    let memory = GuardedMemory(capacity: 4096)
    #expect(memory.lend(octets(text)) { JSONWriting.isUTF8($0) } == expected)
  }
}

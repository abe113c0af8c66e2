// The tree that comes out of the shim: types, order and places; and faults for what is no TOML, whatever the bytes.

import Testing

@testable import Policy

@Suite struct TOMLValueTests {
  private func parse(_ text: String) throws -> TOMLValue { try TOMLDocument.parse(Array(text.utf8)).get() }

  private func entries(_ value: TOMLValue) throws -> [TOMLEntry] {
    guard case .table(let entries) = value.content else {
      Issue.record("no table but \(value.typeName)")
      return []
    }
    return entries
  }

  private func fault(_ bytes: [UInt8]) -> TOMLFault? {
    if case .failure(let fault) = TOMLDocument.parse(bytes) { return fault }
    return nil
  }

  @Test func everyTypeIsRead() throws {
    let root = try parse(
      """
      s = "ü\\u0000"
      i = -42
      f = 1.5
      b = true
      d = 2027-06-01
      t = 07:32:00
      z = 1979-05-27T07:32:00Z
      a = [1, [2]]
      t2 = { x = {} }
      """)
    let top = try entries(root)
    #expect(top.map(\.key) == ["s", "i", "f", "b", "d", "t", "z", "a", "t2"])
    #expect(top[0].value.content == .string("ü\0"))
    #expect(top[1].value.content == .integer(-42))
    #expect(top[2].value.content == .float(1.5))
    #expect(top[3].value.content == .boolean(true))
    #expect(top[4].value.content == .dateTime("2027-06-01"))
    #expect(top[5].value.content == .dateTime("07:32:00"))
    #expect(top[6].value.content == .dateTime("1979-05-27T07:32:00Z"))
    #expect(
      top.map(\.value.typeName) == [
        "a string", "an integer", "a float", "a boolean", "a date or time", "a date or time",
        "a date or time",
        "an array", "a table",
      ])
  }

  @Test func childrenStandInTheOrderOfTheSource() throws {
    let root = try parse("z = 1\na = 2\n[m]\nq.y = 1\nb = 2\nq.a = 3\n[c]\n[[r]]\n[[r]]\n")
    let top = try entries(root)
    #expect(top.map(\.key) == ["z", "a", "m", "c", "r"])
    let inner = try entries(top[2].value)
    #expect(inner.map(\.key) == ["q", "b"])
    let dotted = try entries(inner[0].value)
    #expect(dotted.map(\.key) == ["y", "a"])
  }

  @Test func placesCountCharactersFromOne() throws {
    let root = try parse("a = \"ü\"\n\t \"ключ\" = 1\n[x]\r\ny = 3\r\n")
    let top = try entries(root)
    #expect(top[0].keyBegin == TOMLPosition(line: 1, column: 1))
    #expect(top[0].value.begin == TOMLPosition(line: 1, column: 5))
    #expect(top[0].value.end == TOMLPosition(line: 1, column: 8))
    #expect(top[1].keyBegin == TOMLPosition(line: 2, column: 3))
    #expect(top[1].value.begin == TOMLPosition(line: 2, column: 12))
    let inner = try entries(top[2].value)
    #expect(inner[0].value.begin == TOMLPosition(line: 4, column: 5))
  }

  @Test func anEmptyFileIsAnEmptyTable() throws {
    #expect(try parse("").content == .table([]))
    #expect(try parse("\u{feff}# only a comment").content == .table([]))
  }

  struct FaultRow: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let bytes: [UInt8]
    let line: Int
    let column: Int
    let text: String

    init(_ sentence: String, _ bytes: [UInt8], _ line: Int, _ column: Int, _ text: String) {
      (testDescription, self.bytes, self.line, self.column, self.text) = (sentence, bytes, line, column, text)
    }
  }

  @Test(arguments: [
    FaultRow("a NUL byte", Array("a = 1\nb\0".utf8), 2, 2, "a NUL byte, which TOML does not allow"),
    FaultRow(
      "a NUL byte in a string", Array("a = \"\0\"".utf8), 1, 6, "a NUL byte, which TOML does not allow"),
    FaultRow("a NUL byte in a comment", Array("# \0".utf8), 1, 3, "a NUL byte, which TOML does not allow"),
    FaultRow(
      "bad UTF-8 in a string", Array("a = \"".utf8) + [0xff, 0x22], 1, 5, "Encountered invalid utf-8 sequence"
    ),
    FaultRow(
      "bad UTF-8 outside", Array("a = 1\n".utf8) + [0xff], 2, 1,
      "a character outside of strings and comments that is not ASCII"),
    FaultRow(
      "a no-break space, which toml++ takes for white space", Array("a =\u{a0}1".utf8), 1, 4,
      "a character outside of strings and comments that is not ASCII"),
    FaultRow(
      "a letter that toml++ has no class for", Array("a = x\"ü\"".utf8), 1, 5,
      "Error while parsing value: could not determine value type"),
    FaultRow(
      "a header that begins with '=', on which toml++ would abort", Array("[=proxy]".utf8), 1, 2,
      "Error while parsing key: expected bare key starting character or string delimiter, saw '='"),
    FaultRow(
      "a number that is too large", Array("a = 1\nb = 1e400".utf8), 2, 5,
      "Error while parsing floating-point: '1e400' could not be interpreted as a value"),
    FaultRow(
      "a key twice", Array("a = 1\na = 2".utf8), 2, 1,
      "Error while parsing key-value pair: cannot redefine existing integer 'a'"),
    FaultRow(
      "a string without an end", Array("a = \"x".utf8), 1, 7,
      "Error while parsing string: encountered end-of-file"),
    FaultRow(
      "a key of 17 parts", Array((Array(repeating: "a", count: 17).joined(separator: ".") + " = 1").utf8), 1,
      32,
      "a key of more than 16 parts"),
    FaultRow(
      "quoted parts count too",
      Array((Array(repeating: "'.'", count: 17).joined(separator: ".") + " = 1").utf8), 1, 64,
      "a key of more than 16 parts"),
  ]) func faultsHaveAPlace(row: FaultRow) {
    #expect(
      fault(row.bytes)
        == TOMLFault(position: TOMLPosition(line: row.line, column: row.column), description: row.text))
  }

  @Test func nestingIsBounded() {
    #expect(fault(Array(("a = " + String(repeating: "[", count: 100_000)).utf8)) != nil)
    #expect(fault(Array(("a = " + String(repeating: "{a=", count: 100_000)).utf8)) != nil)
    #expect(fault(Array((String(repeating: "a.", count: 1_000_000) + "a = 1").utf8)) != nil)
    #expect(fault(Array(("[" + String(repeating: "a.", count: 1_000_000) + "a]").utf8)) != nil)
    #expect(
      fault(Array(("a = " + String(repeating: "[", count: 20) + String(repeating: "]", count: 20)).utf8))
        == nil)
  }

  @Test func dotsInStringsFloatsAndCommentsAreNoKeyParts() {
    let dots = String(repeating: ".", count: 40)
    #expect(
      fault(
        Array("a = \"\(dots)\" # \(dots)\nb = '\(dots)'\nc = '''\n\(dots)'''\nd = \"\"\"\n\(dots)\"\"\"".utf8)
      ) == nil)
    #expect(
      fault(Array(("a = [" + Array(repeating: "1.5", count: 40).joined(separator: ", ") + "]").utf8)) == nil)
    #expect(fault(Array("a = \"\\\"\"\nb = \"\\\\\" # \(dots)".utf8)) == nil)
  }

  /// Every byte, in every place of a small file: a tree or a fault, and never anything else.
  @Test func everyByteAnywhereIsAnswered() {
    let source = Array("a = \"x\" # y\n[t.u]\nb.c = [1, 'z', { d = 1979-05-27 }]\ne = \"\"\"q\"\"\"\n".utf8)
    for index in source.indices {
      for byte in UInt8.min...UInt8.max {
        var bytes = source
        bytes[index] = byte
        if case .failure(let fault) = TOMLDocument.parse(bytes) { #expect(fault.position.line >= 1) }
      }
      _ = TOMLDocument.parse(Array(source[..<index]))
    }
  }
}

// Tests PropertyListMerging: XML keeps its letters in any encoding, binary lists their bytes, and both their sharing.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct PropertyListMergingTests {
  private func merge(
    _ parameters: [ParameterEntry], _ body: [UInt8], charset: String? = nil
  ) -> (outcome: PropertyListMergeOutcome, bytes: [UInt8]) {
    var out = ByteBuffer()
    out.append("before")
    let memory = GuardedMemory(capacity: 1 << 20)
    let outcome = memory.lend(body) {
      PropertyListMerging.merge(parameters, into: $0, charset: charset.map { Array($0.utf8) }, to: &out)
    }
    let bytes = Array(out.array.dropFirst(6))
    #expect(out.array.starts(with: octets("before")))
    if outcome == .merged {
      #expect(PropertyListCheck.check(bytes.span, charset: charset.map { Array($0.utf8) })?.sentence == nil)
    } else {
      #expect(bytes.isEmpty)
    }
    return (outcome, bytes)
  }

  // MARK: XML

  static let xml: [(sentence: String, body: String, parameters: [ParameterEntry], merged: String)] = [
    (
      "a new member", "<plist><dict>\n\t<key>a</key>\n\t<true/>\n</dict></plist>", [entry("b", .integer(1))],
      "<plist><dict>\n\t<key>a</key>\n\t<true/>\n\t<key>b</key>\n\t<integer>1</integer>\n</dict></plist>"
    ),
    (
      "new members in their order", "<plist><dict></dict></plist>",
      [entry("z", .boolean(true)), entry("a", .boolean(false))],
      "<plist><dict>\t<key>z</key>\n\t<true/>\n\t<key>a</key>\n\t<false/>\n</dict></plist>"
    ),
    (
      "a member of an empty dictionary", "<plist><dict /></plist>\n", [entry("a", string("b"))],
      "<plist><dict>\n\t<key>a</key>\n\t<string>b</string>\n</dict></plist>\n"
    ),
    (
      "a value in place of another", "<plist><dict><key>a</key> <real>1.50</real><key>b</key><true/></dict></plist>",
      [entry("a", string("new"))],
      "<plist><dict><key>a</key> <string>new</string><key>b</key><true/></dict></plist>"
    ),
    (
      "values in place of others, in another order, and a new one",
      "<plist><dict><key>a</key><true/><key>b</key><true></true><key>c</key><dict><key>a</key><true/></dict></dict></plist>",
      [
        entry("c", .array([.integer(2)])), entry("n", .integer(3)), entry("a", .integer(1)),
        entry("b", .dictionary([])),
      ],
      "<plist><dict><key>a</key><integer>1</integer><key>b</key><dict/><key>c</key><array>\n\t\t<integer>2</integer>\n\t</array>"
        + "\t<key>n</key>\n\t<integer>3</integer>\n</dict></plist>"
    ),
    (
      "a key in other words", "<plist><dict><key>&#97;<![CDATA[&]]><!-- --></key><true/></dict></plist>",
      [entry("a&", .integer(1))],
      "<plist><dict><key>&#97;<![CDATA[&]]><!-- --></key><integer>1</integer></dict></plist>"
    ),
    (
      "a key that only a dictionary within has",
      "<plist><dict><key>d</key><dict><key>a</key><true/></dict></dict></plist>", [entry("a", .integer(1))],
      "<plist><dict><key>d</key><dict><key>a</key><true/></dict>\t<key>a</key>\n\t<integer>1</integer>\n</dict></plist>"
    ),
    (
      "everything else to the letter",
      "\u{feff}<?xml version='1.0'?>\r\n<!-- a --><plist >\r\n<dict ><key>r</key><real>1.0E+05</real><key>i</key>"
        + "<integer>0x0F</integer><key>é</key><string>&#233;<![CDATA[<]]></string><!-- b --></dict ><?c d?></plist >\r\n",
      [entry("n", .boolean(true))],
      "\u{feff}<?xml version='1.0'?>\r\n<!-- a --><plist >\r\n<dict ><key>r</key><real>1.0E+05</real><key>i</key>"
        + "<integer>0x0F</integer><key>é</key><string>&#233;<![CDATA[<]]></string><!-- b -->"
        + "\t<key>n</key>\n\t<true/>\n</dict ><?c d?></plist >\r\n"
    ),
    (
      "text that needs references, beyond ASCII too", "<plist><dict></dict></plist>",
      [entry("ü<", string("&\r😀"))],
      "<plist><dict>\t<key>ü&lt;</key>\n\t<string>&amp;&#13;😀</string>\n</dict></plist>"
    ),
    (
      "nothing", "<plist><dict><key>a</key><true/></dict></plist>", [],
      "<plist><dict><key>a</key><true/></dict></plist>"
    ),
  ]

  struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let body: String
    let parameters: [ParameterEntry]
    let merged: String
  }

  @Test(
    arguments: xml.map {
      Row(testDescription: $0.sentence, body: $0.body, parameters: $0.parameters, merged: $0.merged)
    })
  func keepsItsLetters(row: Row) {
    let (outcome, bytes) = merge(row.parameters, Array(row.body.utf8))
    #expect(outcome == .merged)
    #expect(String(decoding: bytes, as: UTF8.self) == row.merged)
    // Once more it changes nothing: every member has its value already.
    #expect(merge(row.parameters, bytes).bytes == bytes)
  }

  @Test func aListThatWasWrittenAsAWhole() {
    let first = [entry("a", string("b")), entry("c", .array([.real(1.5), .dictionary([entry("d", .integer(1))])]))]
    let second = [entry("e", .boolean(true))]
    var part = ByteBuffer()
    PropertyListWriting.write(first, to: &part)
    var whole = ByteBuffer()
    PropertyListWriting.write(first + second, to: &whole)
    #expect(merge(second, part.array).bytes == whole.array)
    #expect(merge(first, whole.array).bytes == whole.array)
  }

  @Test func otherEncodingsKeepTheirs() {
    let body = "<plist><dict><key>é</key><true/></dict></plist>"
    let parameters = [entry("é", .integer(1)), entry("ü", string("€😀"))]
    let merged =
      "<plist><dict><key>é</key><integer>1</integer>\t<key>&#252;</key>\n\t<string>&#8364;&#128512;</string>\n</dict></plist>"
    for bigEndian in [true, false] {
      for mark in [true, false] {
        let expected = utf16(merged, bigEndian: bigEndian, mark: mark)
        #expect(merge(parameters, utf16(body, bigEndian: bigEndian, mark: mark)).bytes == expected)
        let named = merge(parameters, utf16(body, bigEndian: bigEndian, mark: mark), charset: "utf-16")
        #expect(named.bytes == expected)
      }
    }
    for charset in ["iso-8859-1", "windows-1252", "iso-8859-15"] {
      #expect(merge(parameters, octets(body), charset: charset).bytes == octets(merged))
      let declaration = "<?xml version='1.0' encoding='\(charset)'?>"
      #expect(merge(parameters, octets(declaration + body)).bytes == octets(declaration + merged))
    }
    // The charset wins over the declaration: the body is in UTF-8.
    let declared = "<?xml version='1.0' encoding='iso-8859-1'?>"
    let text = String(decoding: merge(parameters, Array((declared + body).utf8), charset: "utf-8").bytes, as: UTF8.self)
    #expect(text.hasSuffix("<string>€😀</string>\n</dict></plist>"))
  }

  @Test func otherValuesAreNoDictionary() {
    let kinds: [(PropertyListKind, String)] = [
      (.array, "<array/>"), (.array, "<array><dict/></array>"), (.string, "<string>a</string>"),
      (.integer, "<integer>1</integer>"), (.real, "<real>1</real>"), (.boolean, "<true/>"), (.boolean, "<false/>"),
      (.date, "<date>2027-06-01T07:30:00Z</date>"), (.data, "<data/>"),
    ]
    for (kind, value) in kinds {
      let body = Array("<plist>\(value)</plist>".utf8)
      #expect(merge([entry("a", .integer(1))], body).outcome == .notADictionary(kind))
    }
    let objects: [(PropertyListKind, [UInt8])] = [
      (.array, [0xa0]), (.string, [0x51, 0x61]), (.string, [0x61, 0, 0x61]), (.integer, [0x10, 1]),
      (.real, [0x22, 0, 0, 0, 0]), (.boolean, [0x09]), (.date, [0x33, 0, 0, 0, 0, 0, 0, 0, 0]), (.data, [0x40]),
      (.uid, [0x80, 1]),
    ]
    for (kind, object) in objects {
      let list = BuiltList(objects: [object])
      #expect(merge([entry("a", .integer(1))], list.bytes).outcome == .notADictionary(kind))
    }
  }

  @Test func faultsAreThoseOfTheCheck() {
    for text in PropertyListXMLTests.refused.map(\.text) + ["bplist00", "bplist01"] {
      let body = Array(text.utf8)
      let fault = PropertyListCheck.check(body.span, charset: nil)
      #expect(fault.map { .invalid($0) } == merge([entry("a", .integer(1))], body).outcome)
    }
    for objects in BinaryPropertyListTests.refused.map(\.objects) {
      let body = BuiltList(objects: objects).bytes
      let fault = PropertyListCheck.check(body.span, charset: nil)
      #expect(fault.map { .invalid($0) } == merge([entry("a", .integer(1))], body).outcome)
    }
  }

  // MARK: Binary

  /// The value of a checked list, of its top or another object, as `{key: value}` and `[value]`, with integers and bytes in hexadecimal.
  private func shown(_ body: [UInt8], object: Int? = nil) -> String {
    guard case .success(let layout) = BinaryPropertyListLayout.read(body.span) else { return "no layout" }
    return shown(object ?? layout.topObject, layout, body)
  }

  private func shown(_ index: Int, _ layout: BinaryPropertyListLayout, _ body: [UInt8]) -> String {
    guard case .success(let object) = layout.object(index, in: body.span) else { return "no object" }
    let count = layout.count(of: object)
    func element(_ position: Int) -> String {
      shown(Int(layout.reference(position, of: object, in: body.span)), layout, body)
    }
    let contents = body[object.contents].map { String($0, radix: 16) }.joined(separator: " ")
    switch object.form {
    case .array: return "[" + (0..<count).map(element).joined(separator: ", ") + "]"
    case .dictionary:
      return "{" + (0..<count).map { "\(element($0)): \(element(count + $0))" }.joined(separator: ", ") + "}"
    case .asciiString, .utf16String:
      return "'" + String(decoding: layout.text(index, in: body.span), as: UTF8.self) + "'"
    case .boolean: return body[object.start] == 0x09 ? "true" : "false"
    default: return "\(object.kind.rawValue) \(contents)"
    }
  }

  @Test func binaryLists() {
    let body = BuiltList(objects: [
      [0xd2, 1, 2, 3, 4], [0x51, 0x61], [0x61, 0, 0xe9], [0x10, 5], [0xa2, 3, 5], [0x33, 0x41, 0xc0, 0, 0, 0, 0, 0, 0],
    ]).bytes
    let date = "date 41 c0 0 0 0 0 0 0"
    #expect(shown(body) == "{'a': integer 5, 'é': [integer 5, \(date)]}")
    func merged(_ parameters: [ParameterEntry]) -> String { shown(merge(parameters, body).bytes) }
    #expect(merged([]) == "{'a': integer 5, 'é': [integer 5, \(date)]}")
    #expect(merged([entry("a", .boolean(true))]) == "{'a': true, 'é': [integer 5, \(date)]}")
    #expect(merged([entry("é", .array([]))]) == "{'a': integer 5, 'é': []}")
    #expect(merged([entry("b", string("c"))]) == "{'a': integer 5, 'é': [integer 5, \(date)], 'b': 'c'}")
    #expect(
      merged([
        entry("z😀", .dictionary([entry("x", .array([.integer(1), .dictionary([])])), entry("y", .boolean(false))])),
        entry("a", string("ü")),
      ]) == "{'a': 'ü', 'é': [integer 5, \(date)], 'z😀': {'x': [integer 1, {}], 'y': false}}")
  }

  @Test(
    arguments: zip(
      [0, 255, 256, 65_535, 65_536, 4_294_967_295, 4_294_967_296, .max, -1, .min] as [Int64],
      [
        "0", "ff", "1 0", "ff ff", "0 1 0 0", "ff ff ff ff", "0 0 0 1 0 0 0 0", "7f ff ff ff ff ff ff ff",
        "ff ff ff ff ff ff ff ff", "80 0 0 0 0 0 0 0",
      ]))
  func binaryIntegers(integer: Int64, bytes: String) {
    let merged = merge([entry("a", .integer(integer))], BuiltList(objects: [[0xd0]]).bytes).bytes
    #expect(shown(merged) == "{'a': integer \(bytes)}")
  }

  @Test func binaryRealsAndLongTexts() {
    let long = String(repeating: "x", count: 70_000)
    let wide = String(repeating: "ü", count: 300)
    let parameters = [
      entry("r", .real(-1.5)), entry("l", string(long)), entry("w", string(wide)),
      entry("15", string("123456789012345")),
    ]
    let merged = merge(parameters, BuiltList(objects: [[0xd0]]).bytes).bytes
    #expect(shown(merged) == "{'r': real bf f8 0 0 0 0 0 0, 'l': '\(long)', 'w': '\(wide)', '15': '123456789012345'}")
  }

  /// What the rule replaces must not travel on within the file.
  @Test func replacedValuesAreLeftOut() {
    let body = BuiltList(objects: [[0xd1, 1, 2], [0x51, 0x61], [0xa2, 3, 4], octets("\u{56}secret"), [0x10, 7]]).bytes
    let merged = merge([entry("a", string("new"))], body).bytes
    #expect(shown(merged) == "{'a': 'new'}")
    #expect(!TestSupport.shown(merged).contains("secret"))
    // Unless something else refers to it.
    let shared = BuiltList(objects: [[0xd2, 1, 2, 3, 3], [0x51, 0x61], [0x51, 0x62], octets("\u{56}shared")]).bytes
    #expect(shown(merge([entry("a", string("new"))], shared).bytes) == "{'a': 'new', 'b': 'shared'}")
  }

  /// The numbers of objects outgrow one byte, then two.
  @Test(arguments: [100, 252, 253, 254, 255, 256, 300, 65_530, 65_533, 65_534, 65_535, 65_536])
  func manyObjects(count: Int) {
    func reference(_ number: Int) -> [UInt8] { BuiltList.number(UInt64(number), bytes: 4) }
    // A root with one member: an array of `count - 3` integers.
    let array = BuiltList.counted(0xa, count - 3) + (3..<count).flatMap(reference)
    let integers = (3..<count).map { [0x12] + BuiltList.number(UInt64($0), bytes: 4) }
    let objects = [[0xd1] + reference(1) + reference(2), [0x51, 0x61], array] + integers
    let body = BuiltList(objects: objects, referenceBytes: 4, offsetBytes: 4).bytes
    let merged = merge([entry("b", .boolean(true))], body).bytes
    let trailer = merged.count - 32
    #expect(Int(merged[trailer + 7]) == (count + 2 <= 0xff ? 1 : count + 2 <= 0xffff ? 2 : 4))
    #expect(merged.span.unsigned(at: trailer + 8, bytes: 8) == UInt64(count + 2))
    for number in [3, count - 1] {
      #expect(shown(merged, object: number) == shown(body, object: number))
    }
  }

  /// Shared parts stay shared: 2^500 values come out as small as they went in.
  @Test func sharedElementsStayShared() {
    func reference(_ number: Int) -> [UInt8] { BuiltList.number(UInt64(number), bytes: 4) }
    var objects: [[UInt8]] = [[0xd1] + reference(501) + reference(1)]
    objects += (1..<500).map { [0xa2] + reference($0 + 1) + reference($0 + 1) }
    objects += [[0x09], [0x51, 0x61]]
    let body = BuiltList(objects: objects, referenceBytes: 4, offsetBytes: 4).bytes
    let merged = merge([entry("b", .boolean(true))], body)
    #expect(merged.outcome == .merged)
    #expect(merged.bytes.count < body.count)
  }

  @Test func theSampleOfPlistlib() {
    let body = BinaryPropertyListTests.sample
    let merged = merge([entry("new", string("value")), entry("long", .integer(1))], body)
    #expect(merged.outcome == .merged)
    let expected =
      shown(body).replacing("'long': 'xxxxxxxxxxxxxxxxxxxx'", with: "'long': integer 1").dropLast()
      + ", 'new': 'value'}"
    #expect(shown(merged.bytes) == String(expected))
  }
}

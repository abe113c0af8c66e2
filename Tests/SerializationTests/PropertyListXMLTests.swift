// Tests PropertyListCheck over property lists of XML: what is one, each kind of fault with its place, limits.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct PropertyListXMLTests {
  /// What Python's plistlib and Foundation write.
  static let sample = """
    <?xml version="1.0" encoding="UTF-8"?>
    <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
    <plist version="1.0">
    <dict>
    \t<key>array</key>
    \t<array>
    \t\t<string>Grüße &amp; 😀</string>
    \t\t<integer>-5</integer>
    \t\t<real>1.5</real>
    \t\t<true/>
    \t\t<false/>
    \t\t<date>2027-06-01T07:30:00Z</date>
    \t\t<data>
    \t\tAAEC
    \t\t</data>
    \t</array>
    \t<key>empty array</key>
    \t<array/>
    \t<key>empty dictionary</key>
    \t<dict/>
    \t<key></key>
    \t<string></string>
    </dict>
    </plist>

    """

  static let taken: [(sentence: String, text: String)] = [
    ("a sample", sample),
    ("a sample with the ends of lines of Windows", sample.replacing("\n", with: "\r\n")),
    ("the least", "<plist><true/></plist>"),
    ("no white space", "<plist version='1.0'><dict><key>a</key><array><true/><false/></array></dict></plist>"),
    (
      "comments and instructions everywhere",
      "<!-- --><plist><?a?><dict><!-- --><key>a</key><?b?><true/><!-- --></dict></plist>"
    ),
    ("comments within texts", "<plist><array><integer>1<!-- -->2</integer><string>a<!-- -->b</string></array></plist>"),
    ("sections and references", "<plist><string><![CDATA[<&>]]>&lt;&#65;</string></plist>"),
    ("pairs of tags without content", "<plist><array><true></true><string/><data/></array></plist>"),
    (
      "one key in two dictionaries",
      "<plist><array><dict><key>a</key><true/></dict><dict><key>a</key><true/></dict></array></plist>"
    ),
    (
      "one key in a dictionary and in one within",
      "<plist><dict><key>a</key><dict><key>a</key><true/></dict></dict></plist>"
    ),
    ("keys that differ in case", "<plist><dict><key>a</key><true/><key>A</key><true/></dict></plist>"),
    (
      "keys that normalisation would make one",
      "<plist><dict><key>\u{e9}</key><true/><key>e\u{301}</key><true/></dict></plist>"
    ),
    (
      "a DOCTYPE that names another file",
      "<!DOCTYPE plist SYSTEM \"file://localhost/System/DTDs/PropertyList.dtd\"><plist><true/></plist>"
    ),
  ]

  static let refused: [(sentence: String, text: String, fault: String)] = [
    ("nothing", "", "line 1, column 1: expected an element, found the end"),
    (
      "an element that is no property list", "<a/>",
      "line 1, column 1: expected an element of a property list, found <a>"
    ),
    ("a value without plist", "<dict/>", "line 1, column 1: expected <plist> as the root element, found <dict>"),
    ("no value", "<plist version=\"1.0\">\n</plist>", "line 2, column 1: expected a value in 'plist', found none"),
    ("an empty plist", "<plist/>", "line 1, column 9: expected a value in 'plist', found none"),
    ("two values", "<plist><true/><false/></plist>", "line 1, column 15: expected one value in 'plist', found <false>"),
    ("a key as the value", "<plist><key>a</key></plist>", "line 1, column 8: expected a value, found <key>"),
    (
      "a plist in a plist", "<plist><plist><true/></plist></plist>", "line 1, column 8: expected a value, found <plist>"
    ),
    (
      "a key in an array", "<plist><array><key>a</key></array></plist>",
      "line 1, column 15: expected a value, found <key>"
    ),
    (
      "a plist in a dictionary", "<plist><dict><plist/></dict></plist>",
      "line 1, column 14: expected a key of a dictionary, found <plist>"
    ),
    (
      "a dictionary of values", "<plist><dict><string>a</string></dict></plist>",
      "line 1, column 14: expected a key of a dictionary, found <string>"
    ),
    (
      "a key without a value at the end", "<plist>\n<dict>\n<key>a</key>\n</dict></plist>",
      "line 4, column 1: expected a value behind the key 'a', found the end"
    ),
    (
      "a key without a value before another", "<plist><dict><key>a</key><key>b</key><true/></dict></plist>",
      "line 1, column 26: expected a value behind the key 'a', found <key>"
    ),
    (
      "a key twice", "<plist>\n<dict>\n <key>a</key><true/>\n <key>a</key><true/>\n</dict></plist>",
      "line 4, column 2: expected each key once, found 'a' twice"
    ),
    (
      "a key twice in other words", "<plist><dict><key>a</key><true/><key>&#97;</key><true/></dict></plist>",
      "line 1, column 33: expected each key once, found 'a' twice"
    ),
    (
      "an empty key twice", "<plist><dict><key></key><true/><key/><true/></dict></plist>",
      "line 1, column 32: expected each key once, found '' twice"
    ),
    (
      "an element of another name", "<plist><array><null/></array></plist>",
      "line 1, column 15: expected an element of a property list, found <null>"
    ),
    (
      "an element in large letters", "<plist><True/></plist>",
      "line 1, column 8: expected an element of a property list, found <True>"
    ),
    (
      "an element with a prefix", "<plist xmlns:p='urn:p'><p:true/></plist>",
      "line 1, column 1: expected no attribute of 'plist', found 'xmlns:p'"
    ),
    ("a UID", "<plist><uid>1</uid></plist>", "line 1, column 8: expected an element of a property list, found <uid>"),
    ("text before a value", "<plist>\n junk<true/></plist>", "line 2, column 2: expected no text here, found 'j'"),
    (
      "text in an array", "<plist><array>\t\n\t\tx</array></plist>",
      "line 2, column 3: expected no text here, found 'x'"
    ),
    (
      "text in a dictionary", "<plist><dict>,<key>a</key><true/></dict></plist>",
      "line 1, column 14: expected no text here, found ','"
    ),
    (
      "text between a key and its value", "<plist><dict><key>a</key>=<true/></dict></plist>",
      "line 1, column 26: expected no text here, found '='"
    ),
    (
      "text in a section", "<plist><![CDATA[ x]]><true/></plist>", "line 1, column 18: expected no text here, found 'x'"
    ),
    (
      "a no-break space between elements", "<plist>\u{a0}<true/></plist>",
      "line 1, column 8: expected no text here, found the byte 0xc2"
    ),
    ("text in a boolean", "<plist><true>yes</true></plist>", "line 1, column 14: expected no text here, found 'y'"),
    (
      "a space in a boolean", "<plist><true> </true></plist>",
      "line 1, column 14: expected no text here, found the byte 0x20"
    ),
    (
      "an element in a string", "<plist><string>a<b/></string></plist>",
      "line 1, column 17: expected an element of a property list, found <b>"
    ),
    (
      "a value in a string", "<plist><string>a<true/></string></plist>",
      "line 1, column 17: expected the text of 'string', found <true>"
    ),
    (
      "a value in a key", "<plist><dict><key><string/></key></dict></plist>",
      "line 1, column 19: expected the text of 'key', found <string>"
    ),
    (
      "an integer that is none", "<plist>\n<integer>\n5</integer></plist>",
      "line 2, column 10: expected an integer, found the byte 0x0a"
    ),
    (
      "a date that is none", "<plist><array>é<date>x</date></array></plist>",
      "line 1, column 15: expected no text here, found the byte 0xc3"
    ),
    (
      "a real that is none, behind other characters", "<plist><array><string>é😀</string><real>x</real></array></plist>",
      "line 1, column 40: expected a real number, found 'x'"
    ),
    ("data that is none", "<plist><data>\n\tAA\n\tA*</data></plist>", "line 3, column 3: expected Base64, found '*'"),
    (
      "version 2", "<plist version=\"2.0\"><true/></plist>",
      "line 1, column 1: expected version 1.0 of property lists, found '2.0'"
    ),
    (
      "an attribute of a value", "<plist><string a='b'>c</string></plist>",
      "line 1, column 8: expected no attribute of 'string', found 'a'"
    ),
    (
      "an entity of its own", "<!DOCTYPE plist [<!ENTITY a 'b'>]><plist><string>&a;</string></plist>",
      "line 1, column 17: expected no declarations in the DOCTYPE of a property list"
    ),
    (
      "an empty list of declarations", "<!DOCTYPE plist []><plist><true/></plist>",
      "line 1, column 17: expected no declarations in the DOCTYPE of a property list"
    ),
    (
      "an entity of another file", "<!DOCTYPE plist SYSTEM 'a'><plist><string>&b;</string></plist>",
      "line 1, column 43: expected a declared entity, found '&b;', and external declarations are not fetched"
    ),
    (
      "the end of another element", "<plist><dict></array></plist>",
      "line 1, column 16: expected the end tag of 'dict', found '</array>'"
    ),
    (
      "something behind it", "<plist><true/></plist>\n<plist><true/></plist>",
      "line 2, column 1: expected nothing behind the root element, found '<'"
    ),
    (
      "a list of OpenStep", "{ a = b; }",
      "line 1, column 1: expected a property list in XML or binary, found '{', as in OpenStep's, which are not read"
    ),
    (
      "an array of OpenStep", "\n  ( a, b )",
      "line 2, column 3: expected a property list in XML or binary, found '(', as in OpenStep's, which are not read"
    ),
    (
      "a list of OpenStep behind a comment", "// !$*UTF8*$!\n{}",
      "line 1, column 1: expected a property list in XML or binary, found '/', as in OpenStep's, which are not read"
    ),
    ("data of OpenStep", "<0fbd77>", "line 1, column 2: expected well-formed XML, found '0'"),
  ]

  private static func rows(_ rows: [(sentence: String, text: String)]) -> [CheckedBody] {
    rows.map { CheckedBody(sentence: $0.sentence, bytes: Array($0.text.utf8)) }
  }

  @Test(arguments: rows(taken))
  func isTaken(body: CheckedBody) {
    let memory = GuardedMemory(capacity: 8192)
    #expect(memory.lend(body.bytes) { PropertyListCheck.check($0, charset: nil) }?.sentence == nil)
    #expect(PropertyListCheck.check((body.bytes + octets("\n")).span, charset: nil) == nil)
    for tail in ["x", "\u{0}", "<true/>", "bplist00"] {
      #expect(PropertyListCheck.check((body.bytes + octets(tail)).span, charset: nil) != nil, "\(tail)")
    }
    let end = body.bytes.lastIndex(of: UInt8(ascii: ">")) ?? 0
    for count in 0...end {
      let fault = memory.lend(body.bytes.prefix(count)) { PropertyListCheck.check($0, charset: nil) }
      #expect(fault != nil, "the first \(count) bytes")
    }
  }

  @Test(arguments: refused.map { CheckedBody(sentence: $0.sentence, bytes: Array($0.text.utf8), fault: $0.fault) })
  func isRefused(body: CheckedBody) {
    #expect(PropertyListCheck.check(body.bytes.span, charset: nil)?.sentence == body.fault)
  }

  /// Without each tag of the sample in its turn, it is none.
  @Test func everyTagIsNeeded() {
    let sample = Array(Self.sample.utf8)
    let begins = sample.indices.filter { sample[$0] == UInt8(ascii: "<") }.dropFirst(2)
    #expect(begins.count >= 30)
    for begin in begins {
      let end = sample[begin...].firstIndex(of: UInt8(ascii: ">")) ?? begin
      let rest = Array(sample[..<begin] + sample[(end + 1)...])
      // An array may have any number of elements; data may be text between others.
      if ["<true/>", "<false/>"].contains(String(decoding: sample[begin...end], as: UTF8.self)) { continue }
      #expect(PropertyListCheck.check(rest.span, charset: nil) != nil, "\(shown(Array(sample[begin...end])))")
    }
  }

  @Test func theOffsetIsThatOfTheFault() {
    let text = "<plist><array>\n  x</array></plist>"
    #expect(PropertyListCheck.check(Array(text.utf8).span, charset: nil)?.offset == 17)
    let wide = PropertyListCheck.check(utf16(text, bigEndian: false).span, charset: nil)
    #expect(wide?.offset == 36)
    #expect(wide?.place == ContentFault.Place(line: 2, column: 3))
    let key = "<plist><dict><key>é</key><true/><key>é</key><true/></dict></plist>"
    #expect(PropertyListCheck.check(Array(key.utf8).span, charset: nil)?.offset == 33)
  }

  @Test func nestingEndsAt512() {
    func nested(_ count: Int) -> [UInt8] {
      let (begin, end) = (String(repeating: "<array>", count: count), String(repeating: "</array>", count: count))
      return Array("<plist>\(begin)<true/>\(end)</plist>".utf8)
    }
    #expect(PropertyListCheck.check(nested(510).span, charset: nil) == nil)
    #expect(PropertyListCheck.check(nested(511).span, charset: nil)?.sentence.hasSuffix("found more") == true)
    let many = Array(("<plist>" + String(repeating: "<dict><key>a</key>", count: 1_000_000)).utf8)
    #expect(PropertyListCheck.check(many.span, charset: nil)?.place?.column == 8 + 18 * 510 + 6)
  }

  /// Texts that come in many pieces, and many keys, cost no more than their bytes.
  @Test func longTextsAndManyKeys() {
    let begin = threadSeconds()
    let lines = String(repeating: "a\n&#65;", count: 100_000)
    let long = "<plist><dict><key>\(lines)</key><string>\(lines)</string></dict></plist>"
    #expect(PropertyListCheck.check(Array(long.utf8).span, charset: nil) == nil)
    let keys = (0..<50_000).map { "<key>\($0)</key><true/>" }.joined()
    #expect(PropertyListCheck.check(Array("<plist><dict>\(keys)</dict></plist>".utf8).span, charset: nil) == nil)
    let again = "<plist><dict>\(keys)<key>0</key><true/></dict></plist>"
    #expect(
      PropertyListCheck.check(Array(again.utf8).span, charset: nil)?.reason == "expected each key once, found '0' twice"
    )
    #expect(threadSeconds() - begin < 10)
  }
}

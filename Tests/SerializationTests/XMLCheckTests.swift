// Tests XMLCheck and XMLParse: documents that are well formed, each kind of fault with its place, and the attacks.

import Bytes
import TestSupport
import Testing

@testable import Serialization

/// A body and what its check should say.
struct CheckedBody: Sendable, CustomTestStringConvertible {
  let sentence: String
  let bytes: [UInt8]
  var charset: [UInt8]?
  /// The fault as a sentence; nil where there is none.
  var fault: String?

  var testDescription: String { sentence }
}

/// Bytes as XML in UTF-16.
func utf16(_ text: String, bigEndian: Bool, mark: Bool = true) -> [UInt8] {
  ((mark ? [0xfeff] : []) + Array(text.utf16)).flatMap { unit in
    let (high, low) = (UInt8(unit >> 8), UInt8(unit & 0xff))
    return bigEndian ? [high, low] : [low, high]
  }
}

@Suite struct XMLCheckTests {
  private func check(_ bytes: [UInt8], charset: String? = nil) -> String? {
    XMLCheck.check(bytes.span, charset: charset.map { Array($0.utf8) })?.sentence
  }

  static let wellFormed: [(sentence: String, text: String)] = [
    ("one empty element", "<a/>"),
    ("an element with space in its tags", "<a ></a >"),
    ("an XML declaration", "<?xml version=\"1.0\"?><a/>"),
    ("all of an XML declaration", "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>\r\n<a/>"),
    ("a later version of 1", "<?xml version=\"1.1\"?><a/>"),
    ("comments and instructions all around", "<!-- a --><?b c?>\n<a><!-- - --><?d?></a><!-- e --><?f g?>\n"),
    ("text, references and a section", "<a>&lt;&amp;&gt;&quot;&apos;&#65;&#x42;<![CDATA[<&]]]]></a>"),
    ("characters of every length", "<a b='é'>é€😀\u{d7ff}\u{e000}</a>"),
    ("names beyond ASCII", "<Größe ähnlich='1'/>"),
    ("attributes with either quotes", "<a b=\"'\" c='\"' d = '&lt;'/>"),
    ("a DOCTYPE that names a file", "<!DOCTYPE a SYSTEM \"http://192.0.2.1/a.dtd\"><a/>"),
    ("a DOCTYPE that names a public file", "<!DOCTYPE a PUBLIC \"-//A//B\" \"file:///etc/passwd\"><a/>"),
    ("an entity of its own", "<!DOCTYPE a [<!ENTITY b \"<c>d</c>\">]><a>&b;&b;</a>"),
    ("an entity in an attribute", "<!DOCTYPE a [<!ENTITY b \"c\">]><a b='&b;'/>"),
    ("an external entity that nothing refers to", "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a/>"),
    ("a parameter entity of its own", "<!DOCTYPE a [<!ENTITY % b \"<!ENTITY c 'd'>\">%b;]><a>&c;</a>"),
    (
      "an external parameter entity that nothing refers to",
      "<!DOCTYPE a [<!ENTITY % b SYSTEM \"http://192.0.2.1/\">]><a/>"
    ),
    (
      "the same beside a DOCTYPE that names a file",
      "<!DOCTYPE a SYSTEM \"b.dtd\" [<!ENTITY % b SYSTEM \"http://192.0.2.1/\">]><a/>"
    ),
    (
      "every kind of declaration",
      """
      <!DOCTYPE a [<!ELEMENT a (b|c)*><!ATTLIST a d ID #IMPLIED e (f|g) "f"><!NOTATION n PUBLIC "o">
      <!ENTITY p SYSTEM "q" NDATA n><!-- r --><?s t?>]><a/>
      """
    ),
    ("an attribute that only another file could explain", "<!DOCTYPE a SYSTEM \"b\"><a c=\"&d;\"/>"),
    ("namespaces", "<a:b xmlns:a=\"urn:a\" xmlns=\"urn:b\" a:c=\"1\" c=\"2\"><d xml:lang=\"e\"/></a:b>"),
    ("a byte order mark", "\u{feff}<a/>"),
    ("a byte order mark before a declaration", "\u{feff}<?xml version=\"1.0\"?><a/>"),
  ]

  static let faults: [(sentence: String, text: String, fault: String)] = [
    ("nothing", "", "line 1, column 1: expected an element, found the end"),
    ("one space", " ", "line 1, column 2: expected an element, found the end"),
    ("a comment alone", "<!-- a -->", "line 1, column 11: expected an element, found the end"),
    ("text alone", "hello", "line 1, column 1: expected well-formed XML, found 'h'"),
    ("text before the root", "a<b/>", "line 1, column 2: expected well-formed XML, found '<'"),
    ("JSON", "{\"a\": 1}", "line 1, column 1: expected well-formed XML, found '{'"),
    ("an element without an end", "<a>", "line 1, column 4: expected the end tag of 'a', found the end"),
    (
      "the end of another element", "<a>\n <b></c>\n</a>", "line 2, column 7: expected the end tag of 'b', found '</c>'"
    ),
    ("the end in other letters", "<a></A>", "line 1, column 6: expected the end tag of 'a', found '</A>'"),
    ("an end without a begin", "</a>", "line 1, column 2: expected well-formed XML, found '/'"),
    ("two roots", "<a/>\n<b/>", "line 2, column 1: expected nothing behind the root element, found '<'"),
    ("text behind the root", "<a/> b", "line 1, column 6: expected nothing behind the root element, found 'b'"),
    ("a NUL behind the root", "<a/>\u{0}", "line 1, column 5: expected well-formed XML, found the byte 0x00"),
    (
      "a section behind the root", "<a/><![CDATA[]]>",
      "line 1, column 5: expected nothing behind the root element, found '<'"
    ),
    ("a tag that is cut", "<a>\n<b", "line 2, column 1: expected the rest of what begins here, found the end"),
    ("a comment that is cut", "<a><!-- b", "line 1, column 4: expected the rest of what begins here, found the end"),
    ("a section that is cut", "<a><![CDATA[b", "line 1, column 14: expected ']]>', found the end"),
    ("a character that is cut", "<a>\u{c3}", "line 1, column 4: expected the rest of a character, found the end"),
    ("a character that is none", "<a>b\u{ff}</a>", "line 1, column 5: expected well-formed XML, found the byte 0xff"),
    (
      "a character in too many bytes", "<a>\u{c0}\u{80}</a>",
      "line 1, column 4: expected well-formed XML, found the byte 0xc0"
    ),
    (
      "half of a surrogate", "<a>\u{ed}\u{a0}\u{80}</a>",
      "line 1, column 4: expected well-formed XML, found the byte 0xed"
    ),
    ("a noncharacter", "<a>\u{ef}\u{bf}\u{bf}</a>", "line 1, column 4: expected well-formed XML, found the byte 0xef"),
    ("a control character", "<a>\u{1}</a>", "line 1, column 4: expected well-formed XML, found the byte 0x01"),
    ("a NUL", "<a>\u{0}</a>", "line 1, column 4: expected well-formed XML, found the byte 0x00"),
    (
      "the number of a control character", "<a>&#1;</a>",
      "line 1, column 4: expected the number of a character that XML allows, found another"
    ),
    (
      "the number of half a surrogate", "<a>&#xd800;</a>",
      "line 1, column 4: expected the number of a character that XML allows, found another"
    ),
    (
      "a number beyond Unicode", "<a>&#99999999999;</a>",
      "line 1, column 4: expected the number of a character that XML allows, found another"
    ),
    ("an ampersand alone", "<a>b & c</a>", "line 1, column 7: expected well-formed XML, found the byte 0x20"),
    (
      "an entity that nobody declared", "<a>\r\n\r\n&b;</a>",
      "line 3, column 1: expected a declared entity, found '&b;'"
    ),
    (
      "an entity that nobody declared, in an attribute", "<a b='&c;'/>",
      "line 1, column 1: expected a declared entity, found another"
    ),
    ("the end of a section in text", "<a>]]></a>", "line 1, column 6: expected well-formed XML, found '>'"),
    (
      "two hyphens in a comment", "<a><!-- -- --></a>",
      "line 1, column 11: expected well-formed XML, found the byte 0x20"
    ),
    ("a less-than sign in an attribute", "<a b='<'/>", "line 1, column 7: expected well-formed XML, found '<'"),
    ("an attribute without quotes", "<a b=c/>", "line 1, column 6: expected well-formed XML, found 'c'"),
    ("an attribute without a value", "<a b/>", "line 1, column 5: expected well-formed XML, found '/'"),
    (
      "attributes without space between them", "<a b='1'c='2'/>",
      "line 1, column 9: expected well-formed XML, found 'c'"
    ),
    ("an attribute twice", "<a b='1' b='2'/>", "line 1, column 10: expected each attribute once, found one twice"),
    ("a name that begins with a digit", "<1/>", "line 1, column 2: expected well-formed XML, found '1'"),
    (
      "a space before a declaration", " <?xml version=\"1.0\"?><a/>",
      "line 1, column 2: expected '<?xml' only at the very beginning"
    ),
    (
      "a declaration without a version", "<?xml encoding=\"UTF-8\"?><a/>",
      "line 1, column 7: expected a well-formed XML declaration"
    ),
    ("a declaration of nothing", "<?xml?><a/>", "line 1, column 6: expected a well-formed XML declaration"),
    (
      "a declaration that is neither yes nor no", "<?xml version='1.0' standalone='maybe'?><a/>",
      "line 1, column 33: expected a well-formed XML declaration"
    ),
    ("version 2", "<?xml version=\"2.0\"?><a/>", "line 1, column 1: expected version 1.0 of XML, found '2.0'"),
    ("version 1", "<?xml version=\"1.\"?><a/>", "line 1, column 1: expected version 1.0 of XML, found '1.'"),
    (
      "an external parameter entity", "<!DOCTYPE a [<!ENTITY % b SYSTEM \"file:///etc/passwd\">%b;]><a/>",
      "line 1, column 55: expected no reference to an external entity, found one to 'file:///etc/passwd', which is not fetched"
    ),
    ("two DOCTYPEs", "<!DOCTYPE a><!DOCTYPE a><a/>", "line 1, column 13: expected well-formed XML, found '<'"),
    (
      "a DOCTYPE behind the root", "<a/><!DOCTYPE a>",
      "line 1, column 5: expected nothing behind the root element, found '<'"
    ),
    ("a DOCTYPE without a name", "<!DOCTYPE><a/>", "line 1, column 10: expected well-formed XML, found '>'"),
    ("a DOCTYPE of HTML", "<!doctype html><html></html>", "line 1, column 1: expected well-formed XML, found '<'"),
    (
      "an entity that holds itself", "<!DOCTYPE a [<!ENTITY b \"&b;\">]><a>&b;</a>",
      "line 1, column 36: expected an entity that does not hold itself, found one that does"
    ),
    (
      "entities that hold each other", "<!DOCTYPE a [<!ENTITY b \"&c;\"><!ENTITY c \"&b;\">]><a>&b;</a>",
      "line 1, column 53: expected an entity that does not hold itself, found one that does"
    ),
    (
      "an entity that ends an element it did not begin", "<!DOCTYPE a [<!ENTITY b \"</a>\">]><a>&b;",
      "line 1, column 37: expected an entity to end the elements that it begins"
    ),
    (
      "an unparsed entity", "<!DOCTYPE a [<!NOTATION n SYSTEM 'o'><!ENTITY b SYSTEM 'c' NDATA n>]><a>&b;</a>",
      "line 1, column 73: expected a parsed entity, found an unparsed one"
    ),
    (
      "a parameter entity within a declaration", "<!DOCTYPE a [<!ENTITY % b 'c'><!ENTITY d '%b;'>]><a/>",
      "line 1, column 43: expected no parameter entity within a declaration"
    ),
    (
      "a public identifier with other characters", "<!DOCTYPE a PUBLIC \"{\" \"b\"><a/>",
      "line 1, column 21: expected the characters of a public identifier, found another"
    ),
    (
      "an external entity",
      "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]>\n<a>&b;</a>",
      "line 2, column 4: expected no reference to an external entity, found one to 'file:///etc/passwd', "
        + "which is not fetched"
    ),
    (
      "an external entity of a long address",
      "<!DOCTYPE a [<!ENTITY b SYSTEM \"http://192.0.2.1/0123456789/0123456789\">]><a>&b;</a>",
      "line 1, column 78: expected no reference to an external entity, found one to "
        + "'http://192.0.2.1/0123456789/0123...', which is not fetched"
    ),
    (
      "an external entity within an entity",
      "<!DOCTYPE a [<!ENTITY b SYSTEM \"c\"><!ENTITY d \"&b;\">]><a>&d;</a>",
      "line 1, column 58: expected no reference to an external entity, found one to 'c', which is not fetched"
    ),
    (
      "an external entity in an attribute", "<!DOCTYPE a [<!ENTITY b SYSTEM 'c'>]><a d='&b;'/>",
      "line 1, column 44: expected no external entity in the value of an attribute"
    ),
    (
      "an entity that only another file can declare",
      "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Strict//EN\" \"xhtml1-strict.dtd\">\n<html>&nbsp;</html>",
      "line 2, column 7: expected a declared entity, found '&nbsp;', and external declarations are not fetched"
    ),
    (
      "an entity behind an external parameter entity",
      "<!DOCTYPE a [<!ENTITY % b SYSTEM \"c\">%b;<!ENTITY d \"e\">]><a>&d;</a>",
      "line 1, column 38: expected no reference to an external entity, found one to 'c', which is not fetched"
    ),
    (
      "an entity with a colon", "<!DOCTYPE a [<!ENTITY b:c \"d\">]><a/>",
      "line 1, column 27: expected no ':' in the name of an entity or a notation, found one"
    ),
    (
      "an instruction with a colon", "<a><?b:c d?></a>",
      "line 1, column 4: expected no ':' in the target of a processing instruction, found one"
    ),
  ]

  @Test(arguments: wellFormed.map { CheckedBody(sentence: $0.sentence, bytes: Array($0.text.utf8)) })
  func isWellFormed(body: CheckedBody) {
    #expect(check(body.bytes) == nil)
    #expect(check(body.bytes, charset: "utf-8") == nil)
    #expect(check(body.bytes + octets("\n<!-- a -->\n")) == nil)
    for tail in ["<b/>", "b", "\u{0}", "&amp;", "</a>"] { #expect(check(body.bytes + octets(tail)) != nil, "\(tail)") }
  }

  /// Cut short, at memory that ends there: never taken before the root has ended.
  @Test(arguments: wellFormed.map { CheckedBody(sentence: $0.sentence, bytes: Array($0.text.utf8)) })
  func isNotTakenInPart(body: CheckedBody) throws {
    let memory = GuardedMemory(capacity: 4096)
    let lastTag = try #require(
      body.bytes.indices.last { index in
        body.bytes[index] == UInt8(ascii: "<") && !"!?&".utf8.contains(body.bytes[index + 1])
      })
    let rootEnd = try #require(body.bytes[lastTag...].firstIndex(of: UInt8(ascii: ">"))) + 1
    for count in 0..<rootEnd {
      let fault = memory.lend(body.bytes.prefix(count)) { XMLCheck.check($0, charset: nil) }
      #expect(fault != nil, "the first \(count) bytes")
    }
    #expect(memory.lend(body.bytes.prefix(rootEnd)) { XMLCheck.check($0, charset: nil) } == nil)
  }

  @Test(arguments: faults.map { CheckedBody(sentence: $0.sentence, bytes: octets($0.text), fault: $0.fault) })
  func isRefused(body: CheckedBody) {
    let memory = GuardedMemory(capacity: 4096)
    let fault = memory.lend(body.bytes) { XMLCheck.check($0, charset: nil) }
    #expect(fault?.sentence == body.fault)
    #expect((0...body.bytes.count).contains(fault?.offset ?? -1))
  }

  // MARK: Limits

  private func repeated(_ text: String, _ count: Int) -> [UInt8] {
    Array(String(repeating: text, count: count).utf8)
  }

  /// What the check says, and that it says so soon: none of these needs more than a tenth of this on a slow machine.
  private func expect(
    _ expected: String?, of bytes: [UInt8], location: SourceLocation = #_sourceLocation
  ) {
    let begin = threadSeconds()
    #expect(check(bytes) == expected, sourceLocation: location)
    #expect(threadSeconds() - begin < 5, sourceLocation: location)
  }

  @Test func nestingEndsAt512() {
    #expect(check(repeated("<a>", 512) + repeated("</a>", 512)) == nil)
    #expect(check(repeated("<a>", 511) + octets("<a/>") + repeated("</a>", 511)) == nil)
    let tooDeep = "expected at most 512 elements inside one another, found more"
    #expect(
      check(repeated("<a>", 513) + repeated("</a>", 513)) == "line 1, column 1537: \(tooDeep)")
    expect("line 1, column 1537: \(tooDeep)", of: repeated("<a>", 1_000_000))
  }

  @Test func nestingByEntitiesCountsToo() {
    var text = "<!DOCTYPE a [<!ENTITY e0 'x'>"
    for level in 1..<500 { text += "<!ENTITY e\(level) '<b>&e\(level - 1);</b>'>" }
    #expect(check(Array((text + "]><a>&e499;</a>").utf8)) == nil)
    let outer = String(repeating: "<c>", count: 20)
    let fault = check(Array((text + "]>\n<a>\(outer)&e499;").utf8))
    #expect(fault == "line 2, column 64: expected at most 512 elements inside one another, found more")
  }

  private func expansion(_ entity: String, _ references: String) -> [UInt8] {
    Array("<!DOCTYPE a [<!ENTITY e \"\(entity)\">]>\n<a>\(references)</a>".utf8)
  }

  private let expandsTooFar =
    "expected entities that make the document at most 8 times as large, found more"

  @Test func aBillionLaughs() {
    var text = "<!DOCTYPE a [<!ENTITY l0 \"lol\">"
    for level in 1...9 {
      text += "<!ENTITY l\(level) \"\(String(repeating: "&l\(level - 1);", count: 10))\">"
    }
    expect("line 2, column 4: \(expandsTooFar)", of: Array((text + "]>\n<a>&l9;</a>").utf8))
    expect("line 2, column 1: \(expandsTooFar)", of: Array((text + "]>\n<a b='&l9;'/>").utf8))
  }

  @Test func aBillionLaughsByParameterEntities() {
    // Long ones: short ones are too many tokens first.
    var text = "<!DOCTYPE a [<!ENTITY % l0 '<!-- \(String(repeating: "lol", count: 40)) -->'>"
    for level in 1...9 {
      text += "<!ENTITY % l\(level) '\(String(repeating: "&#37;l\(level - 1);", count: 10))'>"
    }
    expect("line 2, column 1: \(expandsTooFar)", of: Array((text + "\n%l9;]><a/>").utf8))
  }

  @Test func quadraticBlowUp() {
    let entity = String(repeating: "x", count: 100_000)
    expect("line 2, column 25: \(expandsTooFar)", of: expansion(entity, String(repeating: "&e;", count: 100_000)))
    let few = String(repeating: "&e;", count: 2)
    #expect(check(expansion(entity, few)) == nil)
  }

  @Test func smallDocumentsMayGrowToTheAllowance() {
    let entity = String(repeating: "x", count: 1000)
    #expect(check(expansion(entity, String(repeating: "&e;", count: 250))) == nil)
    #expect(check(expansion(entity, String(repeating: "&e;", count: 270))) != nil)
  }

  @Test func largeDocumentsMayGrowEightTimes() {
    let entity = String(repeating: "x", count: 1000)
    let text = String(repeating: "y", count: 100_000)
    #expect(check(expansion(entity, text + String(repeating: "&e;", count: 690))) == nil)
    #expect(check(expansion(entity, text + String(repeating: "&e;", count: 730))) != nil)
  }

  @Test func declarationsEndAt512() {
    func document(_ count: Int, _ declaration: (Int) -> String) -> [UInt8] {
      Array("<!DOCTYPE a [\((0..<count).map(declaration).joined(separator: "\n"))]><a/>".utf8)
    }
    let declarations: [(Int) -> String] = [
      { "<!ENTITY e\($0) 'x'>" }, { "<!ENTITY % e\($0) 'x'>" }, { "<!ATTLIST a b\($0) CDATA #IMPLIED>" },
      { "<!NOTATION n\($0) SYSTEM 'x'>" },
    ]
    for declaration in declarations {
      #expect(check(document(512, declaration)) == nil)
      let fault = check(document(513, declaration))
      #expect(fault?.hasPrefix("line 513, column ") == true)
      #expect(fault?.hasSuffix("expected at most 512 declarations in the DOCTYPE, found more") == true)
      expect(fault, of: document(30_000, declaration))
    }
  }

  /// What Expat does not report is counted by its tokens: a repeated declaration, and references to parameter entities.
  @Test(arguments: ["<!ENTITY e 'x'>", "<!ENTITY % p ''>%p;", "<!-- c -->"])
  func tokensOfADoctypeEndAt8192(_ piece: String) {
    func document(_ count: Int) -> [UInt8] {
      Array("<!DOCTYPE a [\(String(repeating: piece, count: count))]><a/>".utf8)
    }
    #expect(check(document(512)) == nil)
    let fault = check(document(60_000))
    #expect(fault?.hasSuffix("expected at most 8192 tokens in the DOCTYPE, found more") == true, "\(fault ?? "nil")")
  }

  @Test func entitiesWithinEntitiesDoNotOverflowTheStack() {
    func document(_ count: Int, _ use: String) -> [UInt8] {
      let chain = (1..<count).map { "<!ENTITY e\($0) '&e\($0 - 1);'>" }.joined()
      return Array("<!DOCTYPE a [<!ENTITY e0 'x'>\(chain)]>\(use)".utf8)
    }
    for use in ["<a>&e511;</a>", "<a b='&e511;'/>"] {
      #expect(check(document(512, use)) == nil)
      #expect(check(document(100_000, use)) != nil)
    }
  }

  @Test func manyAttributesByDefaultOnManyElements() {
    let attributes = (0..<512).map { "a\($0) CDATA 'x'" }.joined(separator: " ")
    func document(_ count: Int) -> [UInt8] {
      Array("<!DOCTYPE a [<!ATTLIST b \(attributes)>]>\n<a>\(String(repeating: "<b/>", count: count))</a>".utf8)
    }
    #expect(check(document(600)) == nil)
    // 262144 and eight for each of 207605 bytes, 512 for each element.
    let fault = "expected at most 1922984 attributes by default, found more"
    expect("line 2, column 15024: \(fault)", of: document(50_000))
  }

  /// What takes Expat a minute in its own namespace mode.
  @Test func aLongNamespaceOnManyAttributes() {
    let name = String(repeating: "u", count: 500_000)
    let children = String(repeating: "<b p:a=''/>", count: 45_000)
    expect(nil, of: Array("<a xmlns:p='\(name)'>\(children)</a>".utf8))
    let attributes = (0..<40_000).map { "p:a\($0)=''" }.joined(separator: " ")
    expect(nil, of: Array("<a xmlns:p='\(name)' xmlns:q='\(name)' \(attributes)/>".utf8))
  }
}

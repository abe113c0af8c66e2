// Tests XMLNamespaces through XMLCheck: what Namespaces in XML 1.0 asks of names and declarations.

import TestSupport
import Testing

@testable import Serialization

@Suite struct XMLNamespacesTests {
  static let right: [(sentence: String, text: String)] = [
    ("no prefix at all", "<a b='c'/>"),
    ("a default namespace", "<a xmlns='urn:a'><b xmlns='urn:b'/><c xmlns=''/></a>"),
    ("a prefix that its own element declares", "<p:a xmlns:p='urn:p'/>"),
    ("an attribute before the declaration of its prefix", "<a p:b='c' xmlns:p='urn:p'/>"),
    ("a prefix of an outer element", "<a xmlns:p='urn:p'><b><p:c p:d='e'/></b><p:f/></a>"),
    ("a prefix that stands for something else within", "<a xmlns:p='urn:p'><b xmlns:p='urn:q' p:c='d'/><p:e/></a>"),
    ("the prefix xml without a declaration", "<a xml:space='preserve'><xml:b/></a>"),
    ("the prefix xml with its declaration", "<a xmlns:xml='http://www.w3.org/XML/1998/namespace' xml:b='c'/>"),
    ("one local name with and without a prefix", "<a xmlns:p='urn:p' b='c' p:b='c'/>"),
    ("one local name in two namespaces", "<a xmlns:p='urn:p' xmlns:q='urn:q' p:b='c' q:b='c'/>"),
    ("two prefixes of one namespace, other names", "<a xmlns:p='urn:p' xmlns:q='urn:p' p:b='c' q:d='c'/>"),
    ("the default namespace and a prefix for the same", "<a xmlns='urn:p' xmlns:p='urn:p' b='c' p:b='c'/>"),
    ("namespaces that differ in case", "<a xmlns:p='urn:p' xmlns:q='URN:P' p:b='c' q:b='c'/>"),
    ("names beyond ASCII", "<größe:höhe xmlns:größe='urn:p' größe:ähnlich='c'/>"),
    ("a declaration by default", "<!DOCTYPE a [<!ATTLIST a xmlns:p CDATA 'urn:p'>]><a p:b='c'/>"),
  ]

  static let wrong: [(sentence: String, text: String, fault: String)] = [
    ("an element of an unknown prefix", "<p:a/>", "expected a declared prefix, found 'p'"),
    ("an attribute of an unknown prefix", "<a p:b='c'/>", "expected a declared prefix, found 'p'"),
    ("a prefix whose element has ended", "<a><b xmlns:p='urn:p'/><p:c/></a>", "expected a declared prefix, found 'p'"),
    ("a prefix in other letters", "<a xmlns:p='urn:p' P:b='c'/>", "expected a declared prefix, found 'P'"),
    ("a prefix that is longer", "<a xmlns:p='urn:p' pp:b='c'/>", "expected a declared prefix, found 'pp'"),
    (
      "one attribute by two prefixes", "<a xmlns:p='urn:p' xmlns:q='urn:p' p:b='c' q:b='d'/>",
      "expected each attribute once, found 'b' twice in one namespace"
    ),
    (
      "one attribute by two prefixes of two elements", "<a xmlns:p='urn:p'><b xmlns:q='urn:p' q:c='' p:c=''/></a>",
      "expected each attribute once, found 'c' twice in one namespace"
    ),
    (
      "one namespace by a reference", "<a xmlns:p='urn:p' xmlns:q='urn&#58;p' p:b='' q:b=''/>",
      "expected each attribute once, found 'b' twice in one namespace"
    ),
    ("a prefix for nothing", "<a xmlns:p=''/>", "expected a namespace for the prefix 'p', found an empty one"),
    ("the prefix xml for something else", "<a xmlns:xml='urn:p'/>", "expected the prefix 'xml' to keep its namespace"),
    (
      "the namespace of xml for another prefix", "<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>",
      "expected another namespace than a reserved one for the prefix 'p'"
    ),
    (
      "the namespace of xml as the default", "<a xmlns='http://www.w3.org/XML/1998/namespace'/>",
      "expected another default namespace than a reserved one"
    ),
    (
      "the namespace of xmlns for a prefix", "<a xmlns:p='http://www.w3.org/2000/xmlns/'/>",
      "expected another namespace than a reserved one for the prefix 'p'"
    ),
    (
      "the namespace of xmlns as the default", "<a xmlns='http://www.w3.org/2000/xmlns/'/>",
      "expected another default namespace than a reserved one"
    ),
    ("the prefix xmlns declared", "<a xmlns:xmlns='urn:p'/>", "expected no declaration of the prefix 'xmlns'"),
    ("an element of the prefix xmlns", "<xmlns:a/>", "expected a declared prefix, found 'xmlns'"),
    ("a name that begins with a colon", "<:a/>", "expected a name with a prefix and a local part, found ':a'"),
    (
      "a name that ends with a colon", "<a xmlns:a='urn:a'><a:/></a>",
      "expected a name with a prefix and a local part, found 'a:'"
    ),
    ("a colon alone", "<:/>", "expected a name with a prefix and a local part, found ':'"),
    ("two colons", "<a xmlns:b='urn:b' b:c:d=''/>", "expected a name with a prefix and a local part, found 'b:c:d'"),
    (
      "a local part that begins with a digit", "<a xmlns:b='urn:b' b:1=''/>",
      "expected a name with a prefix and a local part, found 'b:1'"
    ),
    (
      "a local part that begins with a hyphen", "<a xmlns:b='urn:b' b:-c=''/>",
      "expected a name with a prefix and a local part, found 'b:-c'"
    ),
    (
      "a local part that begins with a middle dot", "<a xmlns:b='urn:b'><b:·/></a>",
      "expected a name with a prefix and a local part, found 'b:??'"
    ),
    (
      "a declared prefix that begins with a digit", "<a xmlns:1='urn:b'/>",
      "expected a name with a prefix and a local part, found 'xmlns:1'"
    ),
    (
      "a declaration of no prefix", "<a xmlns:='urn:b'/>",
      "expected a name with a prefix and a local part, found 'xmlns:'"
    ),
  ]

  @Test(arguments: right.map { CheckedBody(sentence: $0.sentence, bytes: Array($0.text.utf8)) })
  func isTaken(body: CheckedBody) {
    #expect(XMLCheck.check(body.bytes.span, charset: nil)?.sentence == nil)
  }

  @Test(arguments: wrong.map { CheckedBody(sentence: $0.sentence, bytes: Array($0.text.utf8), fault: $0.fault) })
  func isRefused(body: CheckedBody) {
    #expect(XMLCheck.check(body.bytes.span, charset: nil)?.reason == body.fault)
  }

  @Test func prefixesEndAt256() {
    func document(_ count: Int) -> [UInt8] {
      let declarations = (0..<count).map { "xmlns:p\($0)='urn:p'" }.joined(separator: " ")
      return Array("<a \(declarations)><p0:b p\(count - 1):c=''/></a>".utf8)
    }
    // The prefix xml is one of them.
    #expect(XMLCheck.check(document(255).span, charset: nil) == nil)
    #expect(XMLCheck.check(document(256).span, charset: nil)?.reason == "expected at most 256 prefixes, found more")
  }

  @Test func prefixesOfElementsThatEndedDoNotCount() {
    let text = "<a>" + String(repeating: "<b xmlns:p='urn:p' p:c=''/>", count: 1000) + "</a>"
    #expect(XMLCheck.check(Array(text.utf8).span, charset: nil) == nil)
  }
}

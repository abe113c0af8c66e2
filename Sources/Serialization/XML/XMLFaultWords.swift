// The meaning of Expat's codes, in words: what was expected and what was found. Tests: XMLCheckTests.

import Bytes
import CXML

enum XMLFaultWords {
  /// - Parameters:
  ///   - offset: where Expat stopped, in `body`.
  ///   - openElement: where the start tag of the innermost open element begins.
  static func reason(_ code: XML_Error, _ body: Span<UInt8>, at offset: Int, openElement: Int?) -> String {
    switch code {
    case XML_ERROR_NO_ELEMENTS:
      openElement == nil
        ? "expected an element, found the end" : "expected \(endTag(body, openElement)), found the end"
    case XML_ERROR_TAG_MISMATCH: "expected \(endTag(body, openElement)), found \(tag(body, at: offset))"
    case XML_ERROR_UNCLOSED_TOKEN: "expected the rest of what begins here, found the end"
    case XML_ERROR_UNCLOSED_CDATA_SECTION: "expected ']]>', found the end"
    case XML_ERROR_PARTIAL_CHAR: "expected the rest of a character, found the end"
    case XML_ERROR_INVALID_TOKEN, XML_ERROR_SYNTAX:
      "expected well-formed XML, found \(FaultWords.found(body, at: offset))"
    case XML_ERROR_JUNK_AFTER_DOC_ELEMENT:
      "expected nothing behind the root element, found \(FaultWords.found(body, at: offset))"
    case XML_ERROR_UNDEFINED_ENTITY: "expected a declared entity, found \(entity(body, at: offset))"
    case XML_ERROR_DUPLICATE_ATTRIBUTE: "expected each attribute once, found one twice"
    case XML_ERROR_AMPLIFICATION_LIMIT_BREACH:
      "expected entities that make the document at most \(XMLParse.largestExpansion) times as large, found more"
    default: ofRareCode(code)
    }
  }

  private static func ofRareCode(_ code: XML_Error) -> String {
    switch code {
    case XML_ERROR_RECURSIVE_ENTITY_REF: "expected an entity that does not hold itself, found one that does"
    case XML_ERROR_ASYNC_ENTITY: "expected an entity to end the elements that it begins"
    case XML_ERROR_BAD_CHAR_REF: "expected the number of a character that XML allows, found another"
    case XML_ERROR_BINARY_ENTITY_REF: "expected a parsed entity, found an unparsed one"
    case XML_ERROR_ATTRIBUTE_EXTERNAL_ENTITY_REF: "expected no external entity in the value of an attribute"
    case XML_ERROR_PARAM_ENTITY_REF: "expected no parameter entity within a declaration"
    case XML_ERROR_INCOMPLETE_PE: "expected a parameter entity to end the declaration that it begins"
    case XML_ERROR_ENTITY_DECLARED_IN_PE: "expected an entity that the document itself declares"
    case XML_ERROR_MISPLACED_XML_PI: "expected '<?xml' only at the very beginning"
    case XML_ERROR_XML_DECL, XML_ERROR_TEXT_DECL: "expected a well-formed XML declaration"
    case XML_ERROR_PUBLICID: "expected the characters of a public identifier, found another"
    case XML_ERROR_INCORRECT_ENCODING: "expected the encoding that the XML declaration names, found another"
    case XML_ERROR_UNKNOWN_ENCODING: "expected a known encoding, found another"
    case XML_ERROR_NO_MEMORY: "expected enough memory, found none"
    default: "expected well-formed XML, found Expat's error \(code.rawValue)"
    }
  }

  private static func endTag(_ body: Span<UInt8>, _ openElement: Int?) -> String {
    // Within an entity this is a reference; in UTF-16 it is half of a character.
    guard let openElement, body[openElement] == UInt8(ascii: "<"), let name = name(body, from: openElement + 1) else {
      return "the end tag of the open element"
    }
    return "the end tag of '\(FaultWords.quoted(name))'"
  }

  private static func tag(_ body: Span<UInt8>, at offset: Int) -> String {
    // Expat points after '</'.
    guard let name = name(body, from: offset) else { return "another" }
    return "'</\(FaultWords.quoted(name))>'"
  }

  private static func entity(_ body: Span<UInt8>, at offset: Int) -> String {
    // For an entity in an attribute, Expat only reports the beginning of the tag.
    guard offset < body.count, body[offset] == UInt8(ascii: "&"), let name = name(body, from: offset + 1) else {
      return "another"
    }
    return "'&\(FaultWords.quoted(name));'"
  }

  /// The name at `start`, in a body whose encoding represents ASCII unchanged.
  @_lifetime(copy body)
  private static func name(_ body: Span<UInt8>, from start: Int) -> Span<UInt8>? {
    var end = start
    while end < body.count, (0x21..<0x7f).contains(body[end]), body[end] != UInt8(ascii: ">"),
      body[end] != UInt8(ascii: "/"), body[end] != UInt8(ascii: ";")
    {
      end += 1
    }
    return start < end ? body.extracting(start..<end) : nil
  }
}

// Whether a body is well-formed XML.
//
// Expat reads it (XMLParse), and names are checked against the namespaces (XMLNamespaces). There is no validation
// against a DTD, and nothing is fetched. Tests: XMLCheckTests, fuzzed as XML.

import Bytes

/// Well-formedness of XML 1.0 (fifth edition) and of its namespaces.
public enum XMLCheck {
  /// The most nested elements. What people write stays below 100; the limit is that of JSON.
  public static let deepestNesting = XMLParse.deepestNesting

  /// The first fault of `body`; nil if it is one well-formed document.
  ///
  /// - Parameter charset: the parameter of Content-Type, without quotes. A byte order mark takes precedence over it; it
  ///   takes precedence over the XML declaration (RFC 7303, 3). UTF-8, UTF-16, US-ASCII and a few single-byte encodings
  ///   are supported; any other name is a fault.
  ///
  /// Beyond the specification, these are faults: a reference to an entity in another file, or, in the text, to one that
  /// only another file can declare; entities that expand beyond `XMLParse.largestExpansion`; more than `deepestNesting`
  /// nested elements. An external subset is not a fault, but it is not read. If it may declare an entity, a reference
  /// to that in the value of an attribute is no fault either: Expat skips it.
  public static func check(_ body: Span<UInt8>, charset: [UInt8]?) -> ContentFault? {
    switch XMLParse.run(body, charset: charset).verdict {
    case .success: nil
    case .failure(let fault): fault
    }
  }
}

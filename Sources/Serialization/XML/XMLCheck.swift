// Whether a body is well-formed XML.
//
// Expat reads it (XMLParse), names are held against the namespaces (XMLNamespaces). Nothing is validated against a DTD,
// nothing is fetched. Tests: XMLCheckTests, fuzzed as XML.

import Bytes

/// Well-formedness of XML 1.0 (fifth edition) and of its namespaces.
public enum XMLCheck {
  /// Most elements inside one another. What people write stays below 100; the limit is that of JSON.
  public static let deepestNesting = XMLParse.deepestNesting

  /// The first fault of `body`, or nil where it is one well-formed document.
  ///
  /// - Parameter charset: the parameter of Content-Type, without quotes. A byte order mark wins over it, it wins over
  ///   the XML declaration (RFC 7303, 3). UTF-8, UTF-16, US-ASCII and a few encodings of one byte are known, any other
  ///   name is a fault.
  ///
  /// Beyond what the specification asks for, these are faults: a reference to an entity of another file, or in the text
  /// to one that only another file can declare; entities that grow beyond `XMLParse.largestExpansion`; more than
  /// `deepestNesting` elements inside one another. An external subset as such is none, it is not read; the entities
  /// that it may declare are not missed in the value of an attribute, where Expat passes them over.
  public static func check(_ body: Span<UInt8>, charset: [UInt8]?) -> ContentFault? {
    switch XMLParse.run(body, charset: charset).verdict {
    case .success: nil
    case .failure(let fault): fault
    }
  }
}

// Whether a body is a property list, as XML or binary.
//
// No tree of values is made: PropertyListXMLReader follows the elements as Expat reads them, BinaryPropertyListCheck
// the objects where they lie. Tests: PropertyListXMLTests, BinaryPropertyListTests, fuzzed as PropertyLists.

import Bytes

public enum PropertyListCheck {
  /// Most elements of XML, `plist` included, or objects of a binary list inside one another.
  public static let deepestNesting = XMLParse.deepestNesting

  /// The first fault of `body`, or nil where it is one property list: a binary one where it begins with `bplist`, else
  /// one in XML.
  ///
  /// - Parameter charset: as for `XMLCheck`; a binary list has none.
  ///
  /// Refused although some reader takes it: a key that comes twice in a dictionary, numbers and dates that are not
  /// wholly what they should be, integers beyond 64 bits, text that is no Unicode, bytes that belong to nothing, lists
  /// of OpenStep.
  public static func check(_ body: Span<UInt8>, charset: [UInt8]?) -> ContentFault? {
    if BinaryPropertyListLayout.isAnnounced(by: body) { return BinaryPropertyListCheck.check(body) }
    return PropertyListXMLReader.read(body, charset: charset, keeping: .nothing).fault
  }
}

/// What a value of a property list is.
public enum PropertyListKind: String, Sendable {
  case dictionary
  case array
  case string
  case integer
  case real
  case boolean
  case date
  case data
  /// The reference of a keyed archive, in binary lists only.
  case uid = "UID"

  /// With its article, as a sentence names it.
  public var words: String {
    switch self {
    case .array, .integer: "an \(rawValue)"
    case .dictionary, .string, .real, .boolean, .date, .uid: "a \(rawValue)"
    case .data: "data"
    }
  }
}

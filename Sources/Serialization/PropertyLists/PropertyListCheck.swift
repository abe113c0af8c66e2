// Whether a body is a property list, as XML or binary.
//
// No tree of values is made. PropertyListXMLReader follows the elements as Expat reads them, and
// BinaryPropertyListCheck checks the objects where they lie. Tests: PropertyListXMLTests, BinaryPropertyListTests,
// fuzzed as PropertyLists.

import Bytes

public enum PropertyListCheck {
  /// The most nested XML elements, including `plist`, or objects of a binary list.
  public static let deepestNesting = XMLParse.deepestNesting

  /// The first fault of `body`; nil if it is one property list: a binary one if it begins with `bplist`, otherwise one
  /// in XML.
  ///
  /// - Parameter charset: as for `XMLCheck`; a binary list has none.
  ///
  /// Rejected although some reader accepts it: a key that occurs twice in a dictionary, numbers and dates that are not
  /// completely valid, integers beyond 64 bits, text that is not Unicode, bytes that belong to no object, and OpenStep
  /// lists.
  public static func check(_ body: Span<UInt8>, charset: [UInt8]?) -> ContentFault? {
    if BinaryPropertyListLayout.isAnnounced(by: body) { return BinaryPropertyListCheck.check(body) }
    return PropertyListXMLReader.read(body, charset: charset, keeping: .nothing).fault
  }
}

/// The kind of a value in a property list.
public enum PropertyListKind: String, Sendable {
  case dictionary
  case array
  case string
  case integer
  case real
  case boolean
  case date
  case data
  /// The reference of a keyed archive; only in binary lists.
  case uid = "UID"

  /// With its article, for use in a sentence.
  public var words: String {
    switch self {
    case .array, .integer: "an \(rawValue)"
    case .dictionary, .string, .real, .boolean, .date, .uid: "a \(rawValue)"
    case .data: "data"
    }
  }
}

// The encoding of an XML document, from its byte order mark, a name or its first bytes. Tests: XMLEncodingTests.

import Bytes

enum XMLEncoding: Equatable, Sendable {
  case utf8
  /// The document shows the byte order.
  case utf16
  case utf16BigEndian
  case utf16LittleEndian
  case latin1
  case ascii
  case table(SingleByteEncoding)

  /// By a byte order mark.
  init?(markOf body: Span<UInt8>) {
    if body.count >= 3, body[0] == 0xef, body[1] == 0xbb, body[2] == 0xbf {
      self = .utf8
    } else if body.count >= 2, (body[0], body[1]) == (0xfe, 0xff) || (body[0], body[1]) == (0xff, 0xfe) {
      self = .utf16
    } else {
      return nil
    }
  }

  /// By the bytes of a document that is known to be well formed: it begins with a mark or an ASCII character.
  init?(sixteenBitsOf body: Span<UInt8>) {
    guard body.count >= 2 else { return nil }
    if body[0] == 0xfe || body[0] == 0 {
      self = .utf16BigEndian
    } else if body[0] == 0xff || body[1] == 0 {
      self = .utf16LittleEndian
    } else {
      return nil
    }
  }

  /// By a name in IANA's registry, in any case, or one of the common unregistered names utf8, ascii, cp1252.
  init?(label: Span<UInt8>) {
    for (name, encoding) in Self.labels where label.equals(0..<label.count, ignoringCase: name) {
      self = encoding
      return
    }
    return nil
  }

  /// Its name for Expat. For some names, Expat asks for the table of `SingleByteEncoding`.
  var name: StaticString {
    switch self {
    case .utf8: "UTF-8"
    case .utf16: "UTF-16"
    case .utf16BigEndian: "UTF-16BE"
    case .utf16LittleEndian: "UTF-16LE"
    case .latin1: "ISO-8859-1"
    case .ascii: "US-ASCII"
    case .table(.windows1250): "windows-1250"
    case .table(.windows1251): "windows-1251"
    case .table(.windows1252): "windows-1252"
    case .table(.latin2): "iso-8859-2"
    case .table(.latin5): "iso-8859-9"
    case .table(.latin9): "iso-8859-15"
    }
  }

  static func unknown(_ label: Span<UInt8>) -> String {
    "expected a known encoding, found '\(FaultWords.quoted(label))'"
  }

  private static let labels: [(StaticString, XMLEncoding)] = [
    ("utf-8", .utf8), ("utf8", .utf8),
    ("utf-16", .utf16), ("utf-16be", .utf16BigEndian), ("utf-16le", .utf16LittleEndian),
    ("us-ascii", .ascii), ("ascii", .ascii),
    ("iso-8859-1", .latin1), ("iso_8859-1", .latin1), ("latin1", .latin1),
    ("windows-1252", .table(.windows1252)), ("cp1252", .table(.windows1252)),
    ("windows-1251", .table(.windows1251)), ("windows-1250", .table(.windows1250)),
    ("iso-8859-2", .table(.latin2)), ("latin2", .table(.latin2)),
    ("iso-8859-9", .table(.latin5)), ("latin5", .table(.latin5)),
    ("iso-8859-15", .table(.latin9)), ("latin-9", .table(.latin9)),
  ]
}

// Surrogates in UTF-16, which are only valid in pairs. Expat accepts a high one followed by anything.
// Tests: XMLEncodingTests, BinaryPropertyListTests.

import Bytes

enum Surrogates {
  /// The position of the first unpaired one in `range`. The last byte of an odd range is ignored.
  static func firstAlone(_ body: Span<UInt8>, _ range: Range<Int>, bigEndian: Bool) -> Int? {
    let high = bigEndian ? 0 : 1
    var at = range.lowerBound
    while at + 1 < range.upperBound {
      switch body[at + high] & 0xfc {
      case 0xd8:
        guard at + 3 < range.upperBound, body[at + 2 + high] & 0xfc == 0xdc else { return at }
        at += 4
      case 0xdc: return at
      default: at += 2
      }
    }
    return nil
  }

  /// The first fault of a UTF-16 text.
  static func fault(in body: Span<UInt8>, bigEndian: Bool) -> ContentFault? {
    guard let offset = firstAlone(body, 0..<body.count, bigEndian: bigEndian) else { return nil }
    return ContentFault(reason, offset: offset, place: place(of: offset, in: body, bigEndian: bigEndian))
  }

  static let reason = "expected a pair of surrogates, found one alone"

  private static func place(of offset: Int, in body: Span<UInt8>, bigEndian: Bool) -> ContentFault.Place {
    var (line, column) = (1, 1)
    var previous: UInt16 = 0
    for at in stride(from: 0, to: offset, by: 2) {
      let unit = UInt16(body[bigEndian ? at : at + 1]) << 8 | UInt16(body[bigEndian ? at + 1 : at])
      switch unit {
      case 0x0a where previous == 0x0d: break
      case 0x0a, 0x0d: (line, column) = (line + 1, 1)
      case 0xdc00...0xdfff: break
      default: column += 1
      }
      previous = unit
    }
    return ContentFault.Place(line: line, column: column)
  }
}

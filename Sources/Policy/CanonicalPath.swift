// The path of a request as an origin is likely to read it, for the conditions of rules.
//
// `/%61dmin`, `/x/../admin`, `/./admin` and `//admin` are all `/admin` to ordinary servers, so that a rule which saw only
// the spelling could be walked around. What leaves for the origin keeps its spelling.

import Bytes

/// A path with every octet decoded, dot segments removed and empty segments dropped, in storage that is used again.
public struct CanonicalPath: Sendable {
  public private(set) var bytes: [UInt8] = []
  private var decoded: [UInt8] = []

  public init() {}

  /// Reads a path without its query. An empty one is "/".
  public mutating func set(_ path: Span<UInt8>) {
    decode(path)
    bytes.removeAll(keepingCapacity: true)
    var index = 0
    var endsWithName = false
    while index < decoded.count {
      var end = index
      while end < decoded.count, decoded[end] != 0x2f { end += 1 }
      endsWithName = addSegment(index..<end) && end == decoded.count
      index = end + 1
    }
    // `/admin/`, `/admin/.` and `/admin/x/..` are all the directory.
    if !endsWithName { bytes.append(0x2f) }
  }

  private mutating func decode(_ path: Span<UInt8>) {
    decoded.removeAll(keepingCapacity: true)
    var index = 0
    while index < path.count {
      let (octet, length) = Self.octet(at: index, of: path)
      decoded.append(octet)
      index += length
    }
  }

  /// The octet that is written at `index`, and in how many characters: three where it is percent-encoded.
  static func octet(at index: Int, of path: Span<UInt8>) -> (octet: UInt8, length: Int) {
    if path[index] == 0x25, index + 2 < path.count, let high = path[index + 1].hexadecimalValue,
      let low = path[index + 2].hexadecimalValue
    {
      return (high << 4 | low, 3)
    }
    return (path[index], 1)
  }

  /// RFC 3986, 5.2.4, segment by segment. Answers whether it is a name, which stays.
  private mutating func addSegment(_ segment: Range<Int>) -> Bool {
    if segment.isEmpty || (segment.count == 1 && decoded[segment.lowerBound] == 0x2e) { return false }
    if segment.count == 2, decoded[segment.lowerBound] == 0x2e, decoded[segment.lowerBound + 1] == 0x2e {
      while let last = bytes.popLast(), last != 0x2f {}
      return false
    }
    bytes.append(0x2f)
    bytes.append(contentsOf: decoded[segment])
    return true
  }
}

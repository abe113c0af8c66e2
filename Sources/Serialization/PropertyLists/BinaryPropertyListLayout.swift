// The layout of a binary property list (`bplist00`, CFBinaryPList.c of Apple's CoreFoundation).
//
// It has eight bytes of signature, the objects, a table with the position of each object, and a trailer of 32 bytes
// with the position of the table. A container refers to its elements by their numbers in the table. Every number is
// checked before use. Tests: BinaryPropertyListTests.

import Bytes

/// The values of the trailer, all within bounds.
struct BinaryPropertyListLayout {
  static let signature: StaticString = "bplist00"
  static let signatureBytes = 8
  static let trailerBytes = 32

  /// The size of a table entry, 1 … 8.
  let offsetBytes: Int
  /// The size of an object number, 1 … 8.
  let referenceBytes: Int
  let objectCount: Int
  let topObject: Int
  /// Where the table begins and the objects end.
  let tableStart: Int

  /// Whether a body claims to be a binary property list, of any version.
  static func isAnnounced(by body: Span<UInt8>) -> Bool { body.count >= 6 && body.equals(0..<6, "bplist") }

  static func read(_ body: Span<UInt8>) -> Result<BinaryPropertyListLayout, ContentFault> {
    guard body.count >= signatureBytes, body.equals(0..<signatureBytes, signature) else {
      return .failure(ContentFault("expected version 00 of a binary property list, found another", offset: 6))
    }
    let trailer = body.count - trailerBytes
    guard trailer > signatureBytes else {
      return .failure(ContentFault("expected an object, a table and a trailer, found the end", offset: body.count))
    }
    let (offsetBytes, referenceBytes) = (Int(body[trailer + 6]), Int(body[trailer + 7]))
    guard (1...8).contains(offsetBytes) else {
      return .failure(ContentFault("expected offsets of 1 to 8 bytes, found \(offsetBytes)", offset: trailer + 6))
    }
    guard (1...8).contains(referenceBytes) else {
      return .failure(ContentFault("expected references of 1 to 8 bytes, found \(referenceBytes)", offset: trailer + 7))
    }
    let count = body.unsigned(at: trailer + 8, bytes: 8)
    let top = body.unsigned(at: trailer + 16, bytes: 8)
    let table = body.unsigned(at: trailer + 24, bytes: 8)
    guard table > UInt64(signatureBytes), table < UInt64(trailer) else {
      return .failure(ContentFault("expected the table between the objects and the trailer", offset: trailer + 24))
    }
    // The table fills the space between the objects and the trailer, so its size gives the number of objects.
    let (size, overflows) = count.multipliedReportingOverflow(by: UInt64(offsetBytes))
    guard !overflows, size == UInt64(trailer) - table else {
      return .failure(
        ContentFault("expected a table for \(count) objects that ends at the trailer", offset: trailer + 8))
    }
    guard top < count else {
      return .failure(ContentFault("expected the top object below \(count), found \(top)", offset: trailer + 16))
    }
    return .success(
      BinaryPropertyListLayout(
        offsetBytes: offsetBytes, referenceBytes: referenceBytes, objectCount: Int(count), topObject: Int(top),
        tableStart: Int(table)))
  }
}

/// One object, where it lies.
struct BinaryPropertyListObject {
  enum Form {
    case boolean
    case integer
    case real
    case date
    case data
    case asciiString
    /// Big-endian.
    case utf16String
    case uid
    case array
    /// The references of the keys, then those of the values.
    case dictionary
  }

  let form: Form
  /// The position of its marker.
  let start: Int
  /// The bytes of the value, or the references; empty for a boolean.
  let contents: Range<Int>

  var kind: PropertyListKind {
    switch form {
    case .boolean: .boolean
    case .integer: .integer
    case .real: .real
    case .date: .date
    case .data: .data
    case .asciiString, .utf16String: .string
    case .uid: .uid
    case .array: .array
    case .dictionary: .dictionary
    }
  }
}

extension BinaryPropertyListLayout {
  typealias Object = BinaryPropertyListObject

  /// Object number `index`, which must be within the objects and of a known form. Its contents are not checked.
  func object(_ index: Int, in body: Span<UInt8>) -> Result<Object, ContentFault> {
    let entry = tableStart + index * offsetBytes
    let offset = body.unsigned(at: entry, bytes: offsetBytes)
    guard offset >= UInt64(Self.signatureBytes), offset < UInt64(tableStart) else {
      return .failure(ContentFault("expected an offset within the objects, found \(offset)", offset: entry))
    }
    let start = Int(offset)
    let (high, low) = (body[start] >> 4, Int(body[start] & 0xf))
    switch (high, low) {
    case (0x0, 0x8), (0x0, 0x9): return object(.boolean, start, from: start + 1, count: 0, of: 1)
    case (0x1, 0...4): return object(.integer, start, from: start + 1, count: 1 << low, of: 1)
    case (0x2, 2...3): return object(.real, start, from: start + 1, count: 1 << low, of: 1)
    case (0x3, 3): return object(.date, start, from: start + 1, count: 8, of: 1)
    case (0x8, 0...7): return object(.uid, start, from: start + 1, count: low + 1, of: 1)
    case (0x4, _): return counted(.data, start, body: body, elementBytes: 1)
    case (0x5, _): return counted(.asciiString, start, body: body, elementBytes: 1)
    case (0x6, _): return counted(.utf16String, start, body: body, elementBytes: 2)
    case (0xa, _): return counted(.array, start, body: body, elementBytes: referenceBytes)
    case (0xd, _): return counted(.dictionary, start, body: body, elementBytes: 2 * referenceBytes)
    default:
      let seen = "0x\(body[start].hexadecimal)"
      return .failure(ContentFault("expected the marker of an object, found \(seen)", offset: start))
    }
  }

  /// Reference number `position` of an array or a dictionary. It may be too large.
  func reference(_ position: Int, of object: Object, in body: Span<UInt8>) -> UInt64 {
    body.unsigned(at: object.contents.lowerBound + position * referenceBytes, bytes: referenceBytes)
  }

  /// The number of elements of an array, or of members of a dictionary.
  func count(of object: Object) -> Int {
    switch object.form {
    case .array: object.contents.count / referenceBytes
    case .dictionary: object.contents.count / referenceBytes / 2
    default: 0
    }
  }

  /// An object whose count is in the marker, or in the integer after it if the marker has 15.
  private func counted(
    _ form: Object.Form, _ start: Int, body: Span<UInt8>, elementBytes: Int
  ) -> Result<Object, ContentFault> {
    let low = body[start] & 0xf
    if low < 0xf { return object(form, start, from: start + 1, count: UInt64(low), of: elementBytes) }
    let marker = start + 1
    guard marker < tableStart, body[marker] >> 4 == 0x1, body[marker] & 0xf <= 3 else {
      return .failure(ContentFault("expected an integer as the count of an object", offset: marker))
    }
    let bytes = 1 << Int(body[marker] & 0xf)
    guard bytes <= tableStart - marker - 1 else { return .failure(cut(start)) }
    let count = body.unsigned(at: marker + 1, bytes: bytes)
    return object(form, start, from: marker + 1 + bytes, count: count, of: elementBytes)
  }

  private func object(
    _ form: Object.Form, _ start: Int, from: Int, count: some BinaryInteger, of elementBytes: Int
  ) -> Result<Object, ContentFault> {
    guard count <= (tableStart - from) / elementBytes else { return .failure(cut(start)) }
    return .success(Object(form: form, start: start, contents: from..<from + Int(count) * elementBytes))
  }

  private func cut(_ start: Int) -> ContentFault {
    ContentFault("expected an object that ends before the table, found a longer one", offset: start)
  }
}

extension Span where Element == UInt8 {
  /// A big-endian number of 1 to 8 bytes.
  func unsigned(at start: Int, bytes: Int) -> UInt64 {
    var value: UInt64 = 0
    for index in start..<start + bytes { value = value << 8 | UInt64(self[index]) }
    return value
  }
}

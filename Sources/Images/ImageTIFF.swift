// TIFF 6.0 and BigTIFF, in both byte orders: the chain of directories, the values they point to, and strips or tiles.
//
// Pixels are not decoded. In an honest file, directories do not overlap, and neither do their lists of strips. So
// directories and lists together may be no larger than the file. Then neither a chain that returns to itself nor many
// directories that point to one long list cost more than one pass.
//
// Strict: every value, strip and tile is within the file, and there are as many strips or tiles as the dimensions
// require; a field that locates the pixels occurs once.
// Lenient: the order of the fields; fields of unknown type, which decoders skip; more strips than are needed.
// Directories that a field points to (SubIFDs, Exif) are not followed: they are not pages of the image.
//
// Tests: ImageTIFFTests.

import Bytes

/// A TIFF, as its directories are read.
struct TIFFFile {
  /// Numbers of eight bytes in a BigTIFF have four bytes in a TIFF.
  private enum Layout {
    case classic, big

    var offsetBytes: Int { self == .classic ? 4 : 8 }
    var entryCountBytes: Int { self == .classic ? 2 : 8 }
    var entryBytes: Int { self == .classic ? 12 : 20 }
  }

  private let layout: Layout
  /// How many bytes of directories and lists may still be read.
  private var unread: Int

  static func check(_ reader: inout ImageReader) throws(ContentFault) {
    reader.order = reader.next == 0x49 ? .littleEndian : .bigEndian
    try reader.skip(2, "a byte order")
    let layout = try reader.uint16("a version") == 42 ? Layout.classic : .big
    if layout == .big {
      guard try reader.uint16("an offset size") == 8, try reader.uint16("a constant") == 0 else {
        throw ContentFault("expected offsets of 8 bytes in a BigTIFF, found others", offset: 4)
      }
    }
    var file = TIFFFile(layout: layout, unread: reader.end)
    var pointer = reader.at
    var offset = try reader.integer(layout.offsetBytes, "the offset of a directory")
    repeat {
      try reader.seek(to: offset, "a directory", pointer: pointer)
      try file.readDirectory(&reader)
      pointer = reader.at
      offset = try reader.integer(layout.offsetBytes, "the offset of the next directory")
    } while offset != 0
  }

  private init(layout: Layout, unread: Int) {
    self.layout = layout
    self.unread = unread
  }

  private mutating func readDirectory(_ reader: inout ImageReader) throws(ContentFault) {
    let start = reader.at
    let count = try reader.integer(layout.entryCountBytes, "a number of fields")
    let most = reader.remaining / layout.entryBytes
    guard count > 0 else { throw ContentFault("expected at least one field, found 0", offset: start) }
    guard count <= most else {
      throw ContentFault("expected at most \(most) fields in the rest of the file, found \(count)", offset: start)
    }
    try spend(layout.entryCountBytes + count * layout.entryBytes + layout.offsetBytes, at: start)
    var directory = TIFFDirectory(start: start)
    for _ in 0..<count {
      var entry = reader.part(try reader.range(layout.entryBytes, "a field"))
      if let field = try readField(&entry, reader) { try directory.add(field) }
    }
    try checkPixels(directory, reader)
  }

  /// nil: no decoder knows the type.
  private func readField(
    _ entry: inout ImageReader, _ reader: borrowing ImageReader
  ) throws(ContentFault) -> TIFFField? {
    let start = entry.at
    let tag = try entry.uint16("a tag")
    let type = try entry.uint16("a type")
    let count = try entry.integer(layout.offsetBytes, "a number of values")
    guard let valueBytes = TIFFField.valueBytes(ofType: type) else { return nil }
    let bytes = count.saturatingTimes(valueBytes)
    let pointer = entry.at
    let isInline = bytes <= layout.offsetBytes
    let offset = isInline ? pointer : try entry.integer(layout.offsetBytes, "the offset of values")
    guard offset <= reader.end, bytes <= reader.end - offset else {
      throw ContentFault(
        "expected the values of the tag \(tag) within \(reader.end) bytes, found \(bytes) bytes at offset \(offset)",
        offset: pointer)
    }
    return TIFFField(
      start: start, tag: tag, type: type, count: count, valueBytes: valueBytes, values: offset..<offset + bytes,
      isInDirectory: isInline)
  }

  private mutating func checkPixels(
    _ directory: TIFFDirectory, _ reader: borrowing ImageReader
  ) throws(ContentFault) {
    let width = try directory.number(.imageWidth, reader)
    let length = try directory.number(.imageLength, reader)
    try reader.requireDimensions(width, length, at: directory.start)
    let isPlanar = try directory.number(.planarConfiguration, reader, absent: 1) == 2
    let planes = isPlanar ? try directory.number(.samplesPerPixel, reader, absent: 1) : 1
    if directory.contains(.tileOffsets) {
      let tileWidth = try directory.number(.tileWidth, reader)
      let tileLength = try directory.number(.tileLength, reader)
      try reader.requireDimensions(tileWidth, tileLength, at: directory.start)
      let tiles = width.dividedRoundingUp(by: tileWidth).saturatingTimes(length.dividedRoundingUp(by: tileLength))
      try checkParts(
        at: .tileOffsets, sizes: .tileByteCounts, needed: tiles.saturatingTimes(planes), directory, reader)
    } else {
      // If it is absent, all rows are in one strip.
      let rows = try directory.number(.rowsPerStrip, reader, absent: length)
      guard rows > 0 else {
        throw ContentFault("expected at least one row in a strip, found 0", offset: directory.start)
      }
      let strips = length.dividedRoundingUp(by: rows).saturatingTimes(planes)
      try checkParts(at: .stripOffsets, sizes: .stripByteCounts, needed: strips, directory, reader)
    }
  }

  /// Requires that the necessary number of strips or tiles is within the file.
  private mutating func checkParts(
    at offsets: TIFFTag, sizes byteCounts: TIFFTag, needed: Int, _ directory: TIFFDirectory,
    _ reader: borrowing ImageReader
  ) throws(ContentFault) {
    let offsets = try directory.integers(offsets)
    let byteCounts = try directory.integers(byteCounts)
    guard needed > 0, needed <= min(offsets.count, byteCounts.count) else {
      let found = "\(offsets.count) offsets and \(byteCounts.count) sizes"
      throw ContentFault("expected \(needed) strips or tiles, found \(found)", offset: directory.start)
    }
    for list in [offsets, byteCounts] where !list.isInDirectory {
      try spend(needed * list.valueBytes, at: directory.start)
    }
    var offsetReader = reader.part(offsets.values)
    var byteCountReader = reader.part(byteCounts.values)
    for _ in 0..<needed {
      let pointer = offsetReader.at
      let offset = try offsetReader.integer(offsets.valueBytes, "an offset")
      let bytes = try byteCountReader.integer(byteCounts.valueBytes, "a size")
      guard bytes > 0, offset <= reader.end, bytes <= reader.end - offset else {
        throw ContentFault(
          "expected a strip or tile within \(reader.end) bytes, found \(bytes) bytes at offset \(offset)",
          offset: pointer)
      }
    }
  }

  private mutating func spend(_ bytes: Int, at offset: Int) throws(ContentFault) {
    guard bytes <= unread else {
      throw ContentFault("expected directories that neither overlap nor come back, found such a one", offset: offset)
    }
    unread -= bytes
  }
}

/// The fields that locate the pixels.
enum TIFFTag: Int {
  case imageWidth = 256
  case imageLength = 257
  case stripOffsets = 273
  case samplesPerPixel = 277
  case rowsPerStrip = 278
  case stripByteCounts = 279
  case planarConfiguration = 284
  case tileWidth = 322
  case tileLength = 323
  case tileOffsets = 324
  case tileByteCounts = 325
}

/// A field of a directory.
struct TIFFField {
  /// The offset of its entry.
  let start: Int
  let tag: Int
  let type: Int
  let count: Int
  /// Bytes of one value.
  let valueBytes: Int
  /// In the directory if they fit, or elsewhere.
  let values: Range<Int>
  let isInDirectory: Bool

  /// The size of a value of a type in bytes (TIFF 6.0, section 2; BigTIFF); nil for a type that does not exist.
  static func valueBytes(ofType type: Int) -> Int? {
    switch type {
    case 1, 2, 6, 7: 1  // BYTE, ASCII, SBYTE, UNDEFINED
    case 3, 8: 2  // SHORT, SSHORT
    case 4, 9, 11, 13: 4  // LONG, SLONG, FLOAT, IFD
    case 5, 10, 12, 16, 17, 18: 8  // RATIONAL, SRATIONAL, DOUBLE, LONG8, SLONG8, IFD8
    default: nil
    }
  }

  /// BYTE, SHORT, LONG or LONG8: the types for counts.
  var isUnsignedInteger: Bool { [1, 3, 4, 16].contains(type) }
}

/// The fields of one directory that locate its pixels.
struct TIFFDirectory {
  let start: Int
  private var fields: [TIFFField] = []

  init(start: Int) { self.start = start }

  /// Decoders differ on which of two fields with the same tag they use.
  mutating func add(_ field: TIFFField) throws(ContentFault) {
    guard let tag = TIFFTag(rawValue: field.tag) else { return }
    guard !contains(tag) else {
      throw ContentFault("expected the tag \(field.tag) once, found a second", offset: field.start)
    }
    fields.append(field)
  }

  func contains(_ tag: TIFFTag) -> Bool { fields.contains { $0.tag == tag.rawValue } }

  /// A field that must exist, with at least one unsigned integer.
  func integers(_ tag: TIFFTag) throws(ContentFault) -> TIFFField {
    guard let field = fields.first(where: { $0.tag == tag.rawValue }) else {
      throw ContentFault("expected the tag \(tag.rawValue) in a directory, found none", offset: start)
    }
    guard field.isUnsignedInteger, field.count > 0 else {
      throw ContentFault(
        "expected integers of the tag \(tag.rawValue), found \(field.count) of type \(field.type)", offset: field.start)
    }
    return field
  }

  /// The first value of a field, or `absent` if the field may be missing.
  func number(
    _ tag: TIFFTag, _ reader: borrowing ImageReader, absent: Int? = nil
  ) throws(ContentFault) -> Int {
    if let absent, !contains(tag) { return absent }
    let field = try integers(tag)
    var values = reader.part(field.values)
    return try values.integer(field.valueBytes, "a value")
  }
}

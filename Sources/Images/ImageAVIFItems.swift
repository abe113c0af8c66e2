// The items of a HEIF (ISO/IEC 23008-12, and `meta` of ISO/IEC 14496-12, 8.11): which one is primary, the kind of each,
// the position of its bytes, and its properties.
//
// Strict: every extent is within the file or `idat`; the primary item is AV1 or a grid, has bytes, and has associated
// dimensions. Lenient: other items without bytes or of other kinds.
//
// Tests: ImageAVIFTests.

import Bytes

/// The items, as the boxes of `meta` are read.
struct AVIFItems {
  private static let codedType: UInt32 = 0x6176_3031  // av01
  private static let gridType: UInt32 = 0x6772_6964  // grid
  /// The possible sizes in bytes of an offset, a length or an index (8.11.3).
  private static let numberBytes = [0, 4, 8]

  private let primary: Int
  /// Of the primary item.
  private var extentBytes = 0
  private var firstExtent = 0..<0

  static func check(_ metadata: inout ImageReader) throws(ContentFault) {
    _ = try readVersion(&metadata)
    let boxes = try ISOBoxes(
      &metadata, .box, keeping: [.primaryItem, .itemInformation, .itemLocation, .itemData, .itemProperties])
    var primaryItem = try boxes.content(.primaryItem, metadata)
    var items = try AVIFItems(&primaryItem)
    var locations = try boxes.content(.itemLocation, metadata)
    try items.readLocations(&locations, itemData: boxes[.itemData]?.content)
    var information = try boxes.content(.itemInformation, metadata)
    try items.checkKind(&information)
    var properties = try boxes.content(.itemProperties, metadata)
    try items.checkProperties(&properties)
  }

  /// `pitm` (8.11.4).
  private init(_ reader: inout ImageReader) throws(ContentFault) {
    let version = try Self.readVersion(&reader)
    primary = try reader.integer(version == 0 ? 2 : 4, "the primary item")
  }

  /// The version of a box that has one; flags follow it.
  static func readVersion(_ reader: inout ImageReader) throws(ContentFault) -> Int {
    let version = try reader.uint8("a version")
    try reader.skip(3, "flags")
    return version
  }

  // MARK: Where an item is

  /// `iloc` (8.11.3).
  private mutating func readLocations(_ reader: inout ImageReader, itemData: Range<Int>?) throws(ContentFault) {
    let start = reader.at
    let version = try Self.readVersion(&reader)
    guard version <= 2 else { throw ContentFault("expected 'iloc' of version 0 to 2, found \(version)", offset: start) }
    let sizes = try reader.uint16("sizes of numbers")
    let (offsetBytes, lengthBytes, baseBytes) = (sizes >> 12, sizes >> 8 & 15, sizes >> 4 & 15)
    let indexBytes = version == 0 ? 0 : sizes & 15
    guard [offsetBytes, lengthBytes, baseBytes, indexBytes].allSatisfy(Self.numberBytes.contains) else {
      throw ContentFault(
        "expected numbers of 0, 4 or 8 bytes in 'iloc', found 0x\(String(sizes, radix: 16))", offset: reader.at - 2)
    }
    let count = try reader.integer(version < 2 ? 2 : 4, "a number of items")
    for _ in 0..<count {
      let item = try reader.integer(version < 2 ? 2 : 4, "an item")
      let container = try Self.container(version, &reader, itemData: itemData)
      let base = try reader.integer(baseBytes, "a base offset")
      let extents = try reader.uint16("a number of extents")
      // Extents without bytes here cannot be many.
      guard offsetBytes + lengthBytes > 0 || extents <= 1 else {
        throw reader.fault("expected extents with offsets or lengths, found \(extents) without")
      }
      for _ in 0..<extents {
        try reader.skip(indexBytes, "an extent index")
        let pointer = reader.at
        let offset = base.saturatingPlus(try reader.integer(offsetBytes, "an extent offset"))
        let length = try reader.integer(lengthBytes, "an extent length")
        guard offset <= container.count, length <= container.count - offset else {
          throw ContentFault(
            "expected an extent within \(container.count) bytes, found \(length) bytes at offset \(offset)",
            offset: pointer)
        }
        if item == primary { addExtent(container.lowerBound + offset, length) }
      }
    }
  }

  /// The start of an item's offsets: the file, or `idat`.
  private static func container(
    _ version: Int, _ reader: inout ImageReader, itemData: Range<Int>?
  ) throws(ContentFault) -> Range<Int> {
    let start = reader.at
    let method = version == 0 ? 0 : try reader.uint16("a construction method") & 15
    let reference = try reader.uint16("a data reference")
    switch (method, reference, itemData) {
    case (0, 0, _): return 0..<reader.bytes.count
    case (1, 0, let itemData?): return itemData
    default: throw ContentFault("expected an item in this file or 'idat', found it elsewhere", offset: start)
    }
  }

  private mutating func addExtent(_ offset: Int, _ length: Int) {
    if extentBytes == 0 { firstExtent = offset..<offset + length }
    extentBytes += length
  }

  // MARK: What an item is

  /// `iinf` (8.11.6): the primary item is AV1 or a grid.
  private func checkKind(_ reader: inout ImageReader) throws(ContentFault) {
    let start = reader.at
    let version = try Self.readVersion(&reader)
    try reader.skip(version == 0 ? 2 : 4, "a number of entries")
    while !reader.isAtEnd {
      let box = try ISOBox(&reader, .box)
      guard box.type == .itemInformationEntry else { continue }
      var entry = reader.part(box.content)
      let version = try Self.readVersion(&entry)
      guard version >= 2 else { continue }
      let item = try entry.integer(version == 2 ? 2 : 4, "an item")
      try entry.skip(2, "a protection index")
      let type = try entry.fourCharacterCode("an item type")
      if item == primary { return try checkData(type, entry) }
    }
    throw ContentFault("expected the item \(primary) in 'iinf', found none", offset: start)
  }

  private func checkData(_ type: FourCharacterCode, _ entry: borrowing ImageReader) throws(ContentFault) {
    guard type.rawValue == Self.codedType || type.rawValue == Self.gridType else {
      throw ContentFault("expected a primary item of AV1 or a grid, found \(type.shown)", offset: entry.at - 4)
    }
    guard extentBytes > 0 else {
      throw ContentFault("expected the bytes of the primary item, found none", offset: entry.at - 4)
    }
    guard type.rawValue == Self.gridType else { return }
    // ISO/IEC 23008-12, 6.6.2.3.2: a version, flags, rows and columns, and the dimensions in 16 or 32 bits.
    var grid = entry.part(firstExtent)
    try grid.skip(1, "a version")
    let isLong = try grid.uint8("flags") & 1 == 1
    try grid.skip(2, "rows and columns")
    let width = try grid.integer(isLong ? 4 : 2, "a grid width")
    let height = try grid.integer(isLong ? 4 : 2, "a grid height")
    try grid.requireDimensions(width, height, at: firstExtent.lowerBound + 4)
  }

  // MARK: Properties

  /// `iprp` (ISO/IEC 23008-12, 9.3): dimensions are within the limit, and the primary item has some.
  private func checkProperties(_ reader: inout ImageReader) throws(ContentFault) {
    let start = reader.at
    var hasDimensions: [Bool] = []
    var isPrimaryComplete = false
    while !reader.isAtEnd {
      let box = try ISOBox(&reader, .box)
      var content = reader.part(box.content)
      switch box.type {
      case .itemPropertyContainer where hasDimensions.isEmpty: hasDimensions = try Self.readContainer(&content)
      case .itemPropertyAssociation:
        if try readAssociations(&content, hasDimensions) { isPrimaryComplete = true }
      case .itemPropertyContainer: throw ContentFault("expected one box 'ipco', found a second", offset: box.start)
      default: continue
      }
    }
    guard isPrimaryComplete else {
      throw ContentFault("expected dimensions of the primary item in 'ispe', found none", offset: start)
    }
  }

  /// `ipco`: whether each property is `ispe`.
  private static func readContainer(_ reader: inout ImageReader) throws(ContentFault) -> [Bool] {
    var hasDimensions: [Bool] = []
    while !reader.isAtEnd {
      let box = try ISOBox(&reader, .box)
      hasDimensions.append(box.type == .spatialExtents)
      guard box.type == .spatialExtents else { continue }
      var content = reader.part(box.content)
      _ = try readVersion(&content)
      let start = content.at
      let width = try content.uint32("an image width")
      let height = try content.uint32("an image height")
      try content.requireDimensions(width, height, at: start)
    }
    return hasDimensions
  }

  /// `ipma`: whether the primary item has dimensions.
  private func readAssociations(
    _ reader: inout ImageReader, _ hasDimensions: [Bool]
  ) throws(ContentFault) -> Bool {
    let version = try reader.uint8("a version")
    let isLong = try reader.uint24("flags") & 1 == 1
    let count = try reader.uint32("a number of entries")
    var isPrimaryComplete = false
    for _ in 0..<count {
      let item = try reader.integer(version == 0 ? 2 : 4, "an item")
      let associations = try reader.uint8("a number of associations")
      for _ in 0..<associations {
        // The highest bit says whether a decoder must understand the property; 0 is none, and the first has number 1.
        let number = try reader.integer(isLong ? 2 : 1, "a property") & (isLong ? 0x7fff : 0x7f)
        guard number <= hasDimensions.count else {
          throw ContentFault(
            "expected one of \(hasDimensions.count) properties, found \(number)", offset: reader.at - 1)
        }
        if item == primary, number > 0, hasDimensions[number - 1] { isPrimaryComplete = true }
      }
    }
    return isPrimaryComplete
  }
}

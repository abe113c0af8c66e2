// GIF (87a and 89a): the screen, its colour table, then blocks of sub-blocks up to the trailer.
//
// LZW codes are not decoded: image data is a minimum code size and sub-blocks.
//
// Strict: a frame within its screen, because some decoders require it and others would write out of bounds; a graphic
// control extension of four bytes; nothing between the blocks, because decoders treat it as the end.
// Lenient: extensions in a file marked 87a; extensions with other lengths than in the specification; a frame without
// any colour table, for which decoders have one; minimum code sizes up to 11, the most that codes of 12 bits allow;
// bytes after the trailer, where every decoder stops: old encoders that overwrote a longer file left some.
//
// Tests: ImageGIFTests.

import Bytes

/// A GIF, as its blocks are read.
struct GIFDataStream {
  private static let signatureBytes = 6
  private static let codeSizes = 2...11
  /// The label of the graphic control extension.
  private static let graphicControl = 0xf9

  private let width: Int
  private let height: Int
  private var frameCount = 0

  static func check(_ reader: inout ImageReader) throws(ContentFault) {
    reader.order = .littleEndian
    try reader.skip(signatureBytes, "a GIF signature")
    var stream = try GIFDataStream(&reader)
    while try stream.readBlock(&reader) {}
  }

  /// The logical screen descriptor and the global colour table.
  private init(_ reader: inout ImageReader) throws(ContentFault) {
    let start = reader.at
    width = try reader.uint16("a screen width")
    height = try reader.uint16("a screen height")
    try reader.requireDimensions(width, height, at: start)
    let packed = try reader.uint8("a packed field")
    try reader.skip(2, "a background colour and an aspect ratio")
    try Self.readColourTable(packed, &reader)
  }

  private static func readColourTable(_ packed: Int, _ reader: inout ImageReader) throws(ContentFault) {
    guard packed & 0x80 != 0 else { return }
    try reader.skip(3 << (packed & 7 + 1), "a colour table")
  }

  /// false after the trailer.
  private mutating func readBlock(_ reader: inout ImageReader) throws(ContentFault) -> Bool {
    let start = reader.at
    let label = try reader.uint8("a block or the trailer")
    switch label {
    case 0x21: try Self.readExtension(&reader)
    case 0x2c: try readImage(&reader)
    case 0x3b:
      guard frameCount > 0 else {
        throw ContentFault("expected an image before the trailer, found none", offset: start)
      }
      return false
    default:
      throw ContentFault("expected a block or the trailer, found 0x\(String(label, radix: 16))", offset: start)
    }
    return true
  }

  private static func readExtension(_ reader: inout ImageReader) throws(ContentFault) {
    let label = try reader.uint8("an extension label")
    let start = reader.at
    let firstBytes = reader.next
    let bytes = try readSubBlocks(&reader)
    guard label != graphicControl || firstBytes == 4 && bytes == 4 else {
      let found = firstBytes.map(Int.init) == bytes ? "\(bytes)" : "\(bytes) in parts"
      throw ContentFault("expected a graphic control extension of 4 bytes, found \(found)", offset: start)
    }
  }

  private mutating func readImage(_ reader: inout ImageReader) throws(ContentFault) {
    let start = reader.at
    let left = try reader.uint16("an image position")
    let top = try reader.uint16("an image position")
    let width = try reader.uint16("an image width")
    let height = try reader.uint16("an image height")
    try reader.requireDimensions(width, height, at: start + 4)
    guard left + width <= self.width, top + height <= self.height else {
      let (expected, found) = ("\(self.width) x \(self.height)", "\(width) x \(height) at (\(left), \(top))")
      throw ContentFault("expected an image within the screen of \(expected), found \(found)", offset: start)
    }
    try Self.readColourTable(try reader.uint8("a packed field"), &reader)
    let codeSize = try reader.uint8("an LZW minimum code size")
    guard Self.codeSizes ~= codeSize else {
      throw ContentFault("expected an LZW minimum code size of 2 to 11, found \(codeSize)", offset: reader.at - 1)
    }
    let data = reader.at
    guard try Self.readSubBlocks(&reader) > 0 else {
      throw ContentFault("expected image data, found none", offset: data)
    }
    frameCount += 1
  }

  /// Skips sub-blocks and their terminator. Returns how many bytes they contain.
  private static func readSubBlocks(_ reader: inout ImageReader) throws(ContentFault) -> Int {
    var bytes = 0
    while true {
      let count = try reader.uint8("a sub-block or its terminator")
      if count == 0 { return bytes }
      try reader.skip(count, "a sub-block")
      bytes += count
    }
  }
}

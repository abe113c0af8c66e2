// BMP (Windows and OS/2): a file header, a DIB header (ImageDIB.swift), and pixels at an offset.
//
// The size of uncompressed pixels is known, and the file must contain them. Run-length codes are followed to their end,
// because decoders write where they point.
//
// Strict: pixels come after the header and the colour table; run-length codes have an end of the bitmap.
// Lenient: the file size in the header, which encoders leave 0 or wrong and no decoder trusts; bytes between the parts
// and after the pixels, which the format allows (profiles, padding); runs beyond the end of a row, which decoders clip
// because encoders round them up.
//
// Tests: ImageBMPTests.

import Bytes

/// A BMP.
struct BitmapFile {
  /// The signature, a file size and two reserved fields come before the offset of the pixels.
  private static let bytesBeforeOffset = 10

  static func check(_ reader: inout ImageReader) throws(ContentFault) {
    reader.order = .littleEndian
    try reader.skip(bytesBeforeOffset, "a file header")
    let pointer = reader.at
    let offset = try reader.uint32("the offset of the pixels")
    let header = try DIBHeader(&reader, .file)
    try reader.skip(header.colourTableBytes, "a colour table")
    guard offset >= reader.at else {
      throw ContentFault(
        "expected the pixels behind header and colour table at \(reader.at), found \(offset)", offset: pointer)
    }
    try reader.seek(to: offset, "pixels", pointer: pointer)
    if let runs = header.runs {
      try RunLengthPixels.check(&reader, runs, of: header)
    } else {
      try reader.skip(header.pixelBytes, "pixels")
    }
  }
}

/// Run-length codes of a bitmap: pairs of a count and a pixel, and escapes.
private struct RunLengthPixels {
  static func check(_ reader: inout ImageReader, _ runs: DIBHeader.Runs, of header: DIBHeader) throws(ContentFault) {
    let (width, height) = (header.width, header.height)
    var column = 0
    var row = 0
    while true {
      let start = reader.at
      let count = try reader.uint8("a run")
      if count > 0 {
        try reader.skip(runs == .of24Bits ? 3 : 1, "a run")
        guard row < height else { throw beyond(header, start) }
        column = min(column + count, width)
        continue
      }
      switch try reader.uint8("an escape") {
      case 0:
        row += 1
        column = 0
      case 1: return
      case 2:
        column += try reader.uint8("a delta")
        row += try reader.uint8("a delta")
      case let literals:
        guard row < height else { throw beyond(header, start) }
        let bytes =
          switch runs {
          case .of4Bits: (literals + 1) / 2
          case .of8Bits: literals
          case .of24Bits: literals * 3
          }
        try reader.skip(bytes + bytes & 1, "literal pixels")
        column = min(column + literals, width)
      }
      guard row <= height, column <= width else { throw beyond(header, start) }
    }
  }

  private static func beyond(_ header: DIBHeader, _ offset: Int) -> ContentFault {
    ContentFault("expected pixels within \(header.width) x \(header.height), found some beyond", offset: offset)
  }
}

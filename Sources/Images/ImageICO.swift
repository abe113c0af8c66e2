// ICO and CUR: a directory of images, each a whole PNG or a bitmap without its file header.
//
// Strict: images come after the directory and do not share bytes; an image fills no more than its entry says.
// Lenient: the dimensions, planes and depth in an entry, which decoders take from the image; the mask of 32-bit pixels,
// which encoders leave out and decoders do not need; bytes between the images and after them.
//
// Tests: ImageICOTests.

import Bytes

/// An icon or a cursor.
struct IconFile {
  private static let entryBytes = 16
  /// The first byte of a PNG. A bitmap begins with the size of its header.
  private static let firstOfPNG: UInt8 = 0x89

  static func check(_ reader: inout ImageReader) throws(ContentFault) {
    reader.order = .littleEndian
    try reader.skip(4, "a signature")
    let count = try reader.uint16("a number of images")
    guard count > 0 else { throw ContentFault("expected at least one image, found 0", offset: reader.at - 2) }
    var directory = reader.part(try reader.range(count * entryBytes, "the directory"))
    // Images that do not share bytes all fit in the rest of the file together, so the work is linear.
    var unclaimed = reader.remaining
    while !directory.isAtEnd {
      let entry = directory.at
      try directory.skip(8, "dimensions, planes and depth")
      let size = try directory.uint32("the size of an image")
      let offset = try directory.uint32("the offset of an image")
      guard offset >= reader.at, size <= unclaimed else {
        throw ContentFault(
          "expected images behind the directory and apart from each other, found \(size) bytes at offset \(offset)",
          offset: entry)
      }
      unclaimed -= size
      var image = reader.part(try reader.range(at: offset, size, "an image", pointer: entry + 12))
      try checkImage(&image)
    }
  }

  private static func checkImage(_ image: inout ImageReader) throws(ContentFault) {
    if image.next == firstOfPNG { return try PNGDatastream.check(&image) }
    let header = try DIBHeader(&image, .icon)
    try image.skip(header.colourTableBytes, "a colour table")
    try image.skip(header.pixelBytes, "pixels")
    if header.bitsPerPixel == 32 { return }
    let maskRowBytes = DIBHeader.rowBytes(width: header.width, bitsPerPixel: 1)
    try image.skip(maskRowBytes.saturatingTimes(header.height), "a mask")
  }
}

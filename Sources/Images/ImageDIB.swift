// The header of a device-independent bitmap, in all the sizes in use, in BMP files and icons.
//
// Strict: one plane, as every version of the format requires; masks of connected bits that do not overlap, because some
// decoders reject others; no top-down rows with run-length codes; none of the compressions for printers (JPEG and PNG
// within a bitmap), and none that no decoder in use reads (Huffman 1D).
// Lenient: any number of planes in an icon, where encoders leave it 0; more colours than the depth can address, which
// decoders ignore; fewer in an OS/2 1 file, whose header has no count of them: such files exist.
//
// Tests: ImageBMPTests, ImageICOTests.

import Bytes

/// The contents of a bitmap header.
struct DIBHeader {
  enum Container {
    case file
    /// The height is that of the pixels and of the mask after them together.
    case icon
  }

  /// Run-length codes, by the bits of a pixel.
  enum Runs { case of4Bits, of8Bits, of24Bits }

  private enum Compression: Equatable {
    case none
    case runs(Runs)
    /// Not compressed; masks give the bits of each colour in a pixel.
    case masks(Int)
  }

  /// The raw fields of a header.
  private struct Fields {
    let width: Int
    let height: Int
    let planes: Int
    let bitsPerPixel: Int
    var compression = 0
    var colours = 0
  }

  /// OS/2 1, Windows 3, the same with three and with four masks, OS/2 2, Windows 4 and 5.
  private static let sizes = [coreBytes, infoBytes, threeMasksBytes, 56, os2Bytes, 108, 124]
  private static let coreBytes = 12
  private static let infoBytes = 40
  private static let threeMasksBytes = 52
  private static let os2Bytes = 64
  /// The deepest pixels that index a colour table.
  private static let deepestIndex = 8

  let width: Int
  /// The number of rows, in either order of storage.
  let height: Int
  let bitsPerPixel: Int
  /// nil if the pixels are not compressed.
  let runs: Runs?
  /// The size of the required part of the colour table.
  let colourTableBytes: Int

  /// Bytes of all rows, uncompressed.
  var pixelBytes: Int { Self.rowBytes(width: width, bitsPerPixel: bitsPerPixel).saturatingTimes(height) }

  /// Bytes of an uncompressed row: a multiple of four.
  static func rowBytes(width: Int, bitsPerPixel: Int) -> Int { (width * bitsPerPixel + 31) / 32 * 4 }

  /// Reads a header and the masks after it.
  init(_ reader: inout ImageReader, _ container: Container) throws(ContentFault) {
    let start = reader.at
    let size = try reader.uint32("a DIB header size")
    guard Self.sizes.contains(size) else {
      throw ContentFault("expected a DIB header of a known size, found \(size) bytes", offset: start)
    }
    var header = reader.part(try reader.range(size - 4, "a DIB header"))
    let fields = try size == Self.coreBytes ? Self.coreFields(&header) : Self.infoFields(&header)
    width = fields.width
    height = container == .file ? abs(fields.height) : abs(fields.height) / 2
    bitsPerPixel = fields.bitsPerPixel
    try header.requireDimensions(width, height, at: start + 4)
    guard fields.planes == 1 || container == .icon else {
      throw ContentFault("expected one plane, found \(fields.planes)", offset: start)
    }
    guard let compression = Self.compression(fields, size) else {
      throw ContentFault(
        "expected a compression and a depth it goes with, found \(fields.compression) and \(bitsPerPixel) bits",
        offset: start)
    }
    if case .runs(let runs) = compression { self.runs = runs } else { runs = nil }
    guard runs == nil || fields.height > 0 && container == .file else {
      throw ContentFault("expected run-length codes in a file and from the bottom, found them elsewhere", offset: start)
    }
    colourTableBytes = Self.colourTableBytes(fields, isCore: size == Self.coreBytes, container)
    guard case .masks(let count) = compression else { return }
    if size == Self.infoBytes {
      try Self.readMasks(count, bitsPerPixel: bitsPerPixel, &reader)
    } else {
      try Self.readMasks(size == Self.threeMasksBytes ? 3 : 4, bitsPerPixel: bitsPerPixel, &header)
    }
  }

  private static func coreFields(_ header: inout ImageReader) throws(ContentFault) -> Fields {
    Fields(
      width: try header.uint16("a width"), height: try header.uint16("a height"),
      planes: try header.uint16("a number of planes"), bitsPerPixel: try header.uint16("a number of bits per pixel"))
  }

  private static func infoFields(_ header: inout ImageReader) throws(ContentFault) -> Fields {
    var fields = Fields(
      width: try header.int32("a width"), height: try header.int32("a height"),
      planes: try header.uint16("a number of planes"), bitsPerPixel: try header.uint16("a number of bits per pixel"))
    fields.compression = try header.uint32("a compression")
    try header.skip(12, "a size and a resolution")
    fields.colours = try header.uint32("a number of colours")
    try header.skip(4, "a number of important colours")
    return fields
  }

  /// nil: the combination is not allowed.
  private static func compression(_ fields: Fields, _ size: Int) -> Compression? {
    switch (fields.compression, fields.bitsPerPixel) {
    case (0, 1), (0, 4), (0, 8), (0, 24): Compression.none
    case (0, 16), (0, 32): size == coreBytes ? nil : Compression.none
    case (1, 8): .runs(.of8Bits)
    case (2, 4): .runs(.of4Bits)
    case (4, 24): size == os2Bytes ? .runs(.of24Bits) : nil
    case (3, 16), (3, 32): size == os2Bytes ? nil : .masks(3)
    case (6, 16), (6, 32): size == os2Bytes ? nil : .masks(4)
    default: nil
    }
  }

  private static func colourTableBytes(_ fields: Fields, isCore: Bool, _ container: Container) -> Int {
    guard fields.bitsPerPixel <= deepestIndex else { return 0 }
    let most = 1 << fields.bitsPerPixel
    // The offset of the pixels may end the colour table, so one entry is enough there.
    if isCore { return 3 * (container == .file ? 1 : most) }
    return 4 * (fields.colours == 0 ? most : fields.colours)
  }

  private static func readMasks(
    _ count: Int, bitsPerPixel: Int, _ reader: inout ImageReader
  ) throws(ContentFault) {
    var taken = 0
    for _ in 0..<count {
      let mask = try reader.uint32("a mask")
      let connected = mask == 0 ? 0 : mask >> mask.trailingZeroBitCount
      guard connected & (connected + 1) == 0, mask & taken == 0, mask >> bitsPerPixel == 0 else {
        throw ContentFault(
          "expected masks of connected bits apart from each other within \(bitsPerPixel) bits, found others",
          offset: reader.at - 4)
      }
      taken |= mask
    }
  }
}

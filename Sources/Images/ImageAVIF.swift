// AVIF (AV1 Image File Format 1.1) over HEIF (ISO/IEC 23008-12): the brands, and then the parts of a still image and of
// a sequence (ImageAVIFItems.swift, ImageAVIFSequence.swift).
//
// AV1 is not decoded: only the position and the dimensions of pictures are checked.
//
// Strict: one of the brands avif and avis, without which no decoder accepts the file (mif1 alone may be any HEIF); the
// boxes that these brands require; only boxes up to the end.
// Lenient: boxes whose contents are not read, in any place.
//
// Tests: ImageAVIFTests.

import Bytes

/// An AVIF.
struct AVIFFile {
  private static let stillBrand: UInt32 = 0x6176_6966  // avif
  private static let sequenceBrand: UInt32 = 0x6176_6973  // avis

  static func check(_ reader: inout ImageReader) throws(ContentFault) {
    reader.order = .bigEndian
    let fileType = try ISOBox(&reader, .file)
    var brands = reader.part(fileType.content)
    let (isStill, isSequence) = try readBrands(&brands)
    guard isStill || isSequence else {
      throw ContentFault("expected the brand avif or avis, found neither", offset: fileType.content.lowerBound)
    }
    let boxes = try ISOBoxes(&reader, .file, keeping: [.fileType, .metadata, .movie])
    if let second = boxes[.fileType] {
      throw ContentFault("expected one box 'ftyp', found a second", offset: second.start)
    }
    if isStill || boxes[.metadata] != nil {
      var metadata = try boxes.content(.metadata, reader)
      try AVIFItems.check(&metadata)
    }
    if isSequence {
      var movie = try boxes.content(.movie, reader)
      try AVIFSequence.check(&movie)
    }
  }

  /// The major brand, a version, and the compatible brands.
  private static func readBrands(
    _ reader: inout ImageReader
  ) throws(ContentFault) -> (isStill: Bool, isSequence: Bool) {
    var brand = try reader.fourCharacterCode("a brand")
    try reader.skip(4, "a minor version")
    var (isStill, isSequence) = (false, false)
    while true {
      isStill = isStill || brand.rawValue == stillBrand
      isSequence = isSequence || brand.rawValue == sequenceBrand
      if reader.isAtEnd { return (isStill, isSequence) }
      brand = try reader.fourCharacterCode("a brand")
    }
  }
}

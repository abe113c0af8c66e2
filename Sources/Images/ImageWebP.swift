// WebP (RFC 9649): RIFF, then one image, or VP8X with the parts of an image or an animation.
//
// Only the header of a bitstream is read. It has the dimensions, which must be those of the frame or canvas around it.
//
// Strict: what libwebp rejects, because nearly every decoder uses it: dimensions that differ, an animation without
// ANIM, alpha twice, chunks for reconstruction out of order (RFC 9649, 2.7); bytes after RIFF, which no encoder writes.
// Lenient: flags of VP8X without the metadata that they announce, metadata and unknown chunks anywhere; reserved bits.
//
// Tests: ImageWebPTests.

import Bytes

/// A WebP, as its chunks are read.
struct WebPFile {
  fileprivate enum ChunkType: UInt32 {
    case lossy = 0x5650_3820  // VP8 and a space
    case lossless = 0x5650_384c  // VP8L
    case extended = 0x5650_3858  // VP8X
    case alpha = 0x414c_5048  // ALPH
    case animation = 0x414e_494d  // ANIM
    case frame = 0x414e_4d46  // ANMF
    case colourProfile = 0x4943_4350  // ICCP
  }

  fileprivate struct Chunk {
    /// The offset of its name.
    let start: Int
    let name: FourCharacterCode
    let payload: Range<Int>

    var type: ChunkType? { ChunkType(rawValue: name.rawValue) }

    init(_ reader: inout ImageReader) throws(ContentFault) {
      start = reader.at
      name = try reader.fourCharacterCode("a chunk name")
      let size = try reader.uint32("a chunk size")
      payload = try reader.range(size, "a chunk")
      try reader.skip(size & 1, "padding of a chunk")
    }
  }

  /// VP8X (RFC 9649, 2.7).
  private struct Canvas {
    let isAnimated: Bool
    let width: Int
    let height: Int

    init(_ payload: inout ImageReader) throws(ContentFault) {
      isAnimated = try payload.uint8("flags") & 0x02 != 0
      try payload.skip(3, "reserved bytes")
      width = try payload.uint24("a canvas width") + 1
      height = try payload.uint24("a canvas height") + 1
      try payload.requireDimensions(width, height, at: payload.at - 6)
      try payload.requireEnd(of: "VP8X")
    }
  }

  static func check(_ reader: inout ImageReader) throws(ContentFault) {
    reader.order = .littleEndian
    try reader.skip(4, "RIFF")
    let size = try reader.uint32("a file size")
    guard size >= 4, size & 1 == 0 else {
      throw ContentFault("expected an even file size of at least 4, found \(size)", offset: reader.at - 4)
    }
    guard size <= reader.remaining else {
      throw ContentFault("expected \(size) bytes as the file size says, found \(reader.remaining)", offset: 4)
    }
    guard size == reader.remaining else {
      throw ContentFault("expected the end of the image as the file size says, found more", offset: reader.at + size)
    }
    try reader.skip(4, "WEBP")
    let first = try Chunk(&reader)
    switch first.type {
    case .lossy, .lossless: try checkSimple(first, &reader)
    case .extended:
      var payload = reader.part(first.payload)
      let canvas = try Canvas(&payload)
      if canvas.isAnimated { try checkAnimation(canvas, &reader) } else { try checkStill(canvas, &reader) }
    case .alpha, .animation, .frame, .colourProfile, nil:
      throw ContentFault(
        "expected VP8, VP8L or VP8X as the first chunk, found \(first.name.shown)", offset: first.start)
    }
  }

  /// One bitstream; chunks after it have no meaning here (2.5, 2.6).
  private static func checkSimple(_ chunk: Chunk, _ reader: inout ImageReader) throws(ContentFault) {
    var picture = WebPPicture()
    _ = try picture.read(chunk, reader)
    while !reader.isAtEnd {
      let chunk = try Chunk(&reader)
      guard chunk.type == nil else { throw misplaced(chunk) }
    }
  }

  private static func checkStill(_ canvas: Canvas, _ reader: inout ImageReader) throws(ContentFault) {
    var picture = WebPPicture()
    while !reader.isAtEnd {
      let chunk = try Chunk(&reader)
      if chunk.type == .colourProfile, !picture.isBegun { continue }
      guard try picture.read(chunk, reader) || chunk.type == nil else { throw misplaced(chunk) }
    }
    try picture.requireDimensions(canvas.width, canvas.height, at: reader.at)
  }

  private static func checkAnimation(_ canvas: Canvas, _ reader: inout ImageReader) throws(ContentFault) {
    var hasAnimation = false
    var frames = 0
    while !reader.isAtEnd {
      let chunk = try Chunk(&reader)
      switch chunk.type {
      case .colourProfile where !hasAnimation: continue
      case .animation where !hasAnimation:
        // A background colour and a loop count.
        guard chunk.payload.count == 6 else {
          throw ContentFault("expected ANIM of 6 bytes, found \(chunk.payload.count)", offset: chunk.start)
        }
        hasAnimation = true
      case .frame where hasAnimation:
        try checkFrame(reader.part(chunk.payload), in: canvas)
        frames += 1
      case nil: continue
      case .lossy, .lossless, .extended, .alpha, .animation, .frame, .colourProfile: throw misplaced(chunk)
      }
    }
    guard frames > 0 else { throw reader.fault("expected a frame of the animation, found the end") }
  }

  /// ANMF: a frame. Its position is in units of two.
  private static func checkFrame(_ payload: consuming ImageReader, in canvas: Canvas) throws(ContentFault) {
    let start = payload.at
    let left = try payload.uint24("a frame position") * 2
    let top = try payload.uint24("a frame position") * 2
    let width = try payload.uint24("a frame width") + 1
    let height = try payload.uint24("a frame height") + 1
    guard left + width <= canvas.width, top + height <= canvas.height else {
      let (expected, found) = ("\(canvas.width) x \(canvas.height)", "\(width) x \(height) at (\(left), \(top))")
      throw ContentFault("expected a frame within the canvas of \(expected), found \(found)", offset: start)
    }
    try payload.skip(4, "a duration and flags")
    var picture = WebPPicture()
    while !payload.isAtEnd {
      let chunk = try Chunk(&payload)
      guard try picture.read(chunk, payload) || chunk.type == nil else { throw misplaced(chunk) }
    }
    try picture.requireDimensions(width, height, at: payload.at)
  }

  private static func misplaced(_ chunk: Chunk) -> ContentFault {
    ContentFault("expected chunks in their order, found \(chunk.name.shown)", offset: chunk.start)
  }
}

/// One picture: an optional ALPH and VP8, or VP8L.
private struct WebPPicture {
  /// Key frame, profile 0 to 3, shown (RFC 6386, 9.1), as bits of the frame tag.
  private static let greatestProfile = 3
  private static let startCode = 0x2a_019d
  private static let losslessSignature = 0x2f
  /// Compression, filter and pre-processing of ALPH in two bits each; compression and pre-processing are 0 or 1.
  private static let greatestCompression = 1

  private var hasAlpha = false
  private var dimensions: (width: Int, height: Int)?

  var isBegun: Bool { hasAlpha || dimensions != nil }

  /// false if the chunk is not part of a picture, or not in its place.
  mutating func read(_ chunk: WebPFile.Chunk, _ reader: borrowing ImageReader) throws(ContentFault) -> Bool {
    guard dimensions == nil else { return false }
    var payload = reader.part(chunk.payload)
    switch chunk.type {
    case .alpha where !hasAlpha:
      hasAlpha = true
      try Self.checkAlpha(&payload)
    case .lossy: dimensions = try Self.lossyDimensions(&payload)
    case .lossless where !hasAlpha: dimensions = try Self.losslessDimensions(&payload)
    case .alpha, .lossless, .extended, .animation, .frame, .colourProfile, nil: return false
    }
    return true
  }

  func requireDimensions(_ width: Int, _ height: Int, at offset: Int) throws(ContentFault) {
    guard let dimensions else { throw ContentFault("expected VP8 or VP8L, found the end", offset: offset) }
    guard dimensions == (width, height) else {
      let found = "\(dimensions.width) x \(dimensions.height)"
      throw ContentFault("expected a bitstream of \(width) x \(height) pixels, found \(found)", offset: offset)
    }
  }

  /// ALPH: a header, and at least one byte of alpha.
  private static func checkAlpha(_ payload: inout ImageReader) throws(ContentFault) {
    let header = try payload.uint8("an alpha header")
    guard header & 3 <= greatestCompression else {
      throw ContentFault("expected an alpha compression of 0 or 1, found \(header & 3)", offset: payload.at - 1)
    }
    try payload.skip(1, "alpha data")
  }

  /// RFC 6386, 9.1 and 19.1.
  private static func lossyDimensions(_ payload: inout ImageReader) throws(ContentFault) -> (Int, Int) {
    let start = payload.at
    let tag = try payload.uint24("a frame tag")
    let (isKeyFrame, profile, isShown) = (tag & 1 == 0, tag >> 1 & 7, tag >> 4 & 1 == 1)
    guard isKeyFrame, profile <= greatestProfile, isShown else {
      throw ContentFault("expected a key frame that is shown, of profile 0 to 3, found another", offset: start)
    }
    guard try payload.uint24("a start code") == startCode else {
      throw ContentFault("expected the start code 9d 01 2a, found other bytes", offset: start + 3)
    }
    // The upper two bits of each are a scale.
    let width = try payload.uint16("a width") & 0x3fff
    let height = try payload.uint16("a height") & 0x3fff
    try payload.requireDimensions(width, height, at: start + 6)
    guard tag >> 5 <= payload.remaining else {
      throw ContentFault("expected a first partition of \(tag >> 5) bytes, found \(payload.remaining)", offset: start)
    }
    return (width, height)
  }

  /// VP8L: a signature, width and height minus 1 in 14 bits each, whether alpha is used, and a version in three bits.
  private static func losslessDimensions(_ payload: inout ImageReader) throws(ContentFault) -> (Int, Int) {
    let start = payload.at
    guard try payload.uint8("a signature") == losslessSignature else {
      throw ContentFault("expected the signature 2f, found another byte", offset: start)
    }
    let bits = try payload.uint32("dimensions")
    let (width, height) = (bits & 0x3fff + 1, bits >> 14 & 0x3fff + 1)
    guard bits >> 29 == 0 else {
      throw ContentFault("expected the version 0, found \(bits >> 29)", offset: start + 4)
    }
    try payload.requireDimensions(width, height, at: start + 1)
    guard !payload.isAtEnd else { throw payload.fault("expected image data in VP8L, found none") }
    return (width, height)
  }
}

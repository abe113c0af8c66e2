// PNG (W3C Portable Network Graphics, third edition): every chunk, its CRC, and the order of the chunks.
//
// The zlib stream in the IDAT chunks is not inflated. The CRCs show that it is as the encoder wrote it, and inflating
// it would cost more than everything else together. For ancillary chunks, the CRC is checked; those of an animation are
// also read (ImageAPNG.swift).
//
// Strict: bytes after IEND, although decoders stop there: the known sources are tools that crop a screenshot in place
// and leave the cropped part there; a palette with more entries than the bit depth can address, which some decoders
// reject; PLTE in a greyscale image, which the specification forbids.
// Lenient: the case of the third letter of a chunk type, which no decoder checks.
//
// Tests: ImagePNGTests.

import Bytes
import CZlib

/// A PNG, as its chunks are read.
struct PNGDatastream {
  private enum ChunkType: UInt32 {
    case header = 0x4948_4452  // IHDR
    case palette = 0x504c_5445  // PLTE
    case imageData = 0x4944_4154  // IDAT
    case end = 0x4945_4e44  // IEND
    case animationControl = 0x6163_544c  // acTL
    case frameControl = 0x6663_544c  // fcTL
    case frameData = 0x6664_4154  // fdAT
  }

  private enum Phase { case beforeImageData, inImageData, behindImageData }

  private static let paletteEntryBytes = 3

  private let header: PNGHeader
  private var phase = Phase.beforeImageData
  private var hasPalette = false
  private var imageDataBytes = 0
  private var animation: PNGAnimation

  /// Reads a whole PNG, which ends where `reader` ends.
  static func check(_ reader: inout ImageReader) throws(ContentFault) {
    reader.order = .bigEndian
    let start = reader.at
    guard try reader.uint32("a PNG signature") == 0x8950_4e47, try reader.uint32("a PNG signature") == 0x0d0a_1a0a
    else {
      throw ContentFault("expected a PNG signature, found other bytes", offset: start)
    }
    var chunk = try PNGChunk(&reader)
    guard chunk.type.rawValue == ChunkType.header.rawValue else {
      throw ContentFault("expected IHDR as the first chunk, found \(chunk.type.shown)", offset: chunk.start)
    }
    var data = reader.part(chunk.data)
    var datastream = PNGDatastream(header: try PNGHeader(&data))
    repeat {
      chunk = try PNGChunk(&reader)
      data = reader.part(chunk.data)
      try datastream.read(chunk, &data)
    } while chunk.type.rawValue != ChunkType.end.rawValue
    try reader.requireEnd(of: "the image behind IEND")
  }

  private init(header: PNGHeader) {
    self.header = header
    animation = PNGAnimation(canvas: header)
  }

  private mutating func read(_ chunk: PNGChunk, _ data: inout ImageReader) throws(ContentFault) {
    let type = ChunkType(rawValue: chunk.type.rawValue)
    if phase == .inImageData, type != .imageData { phase = .behindImageData }
    switch type {
    case .header: throw ContentFault("expected one IHDR, found a second", offset: chunk.start)
    case .palette: try readPalette(chunk)
    case .imageData: try readImageData(chunk)
    case .end: try readEnd(chunk, &data)
    case .animationControl: try animation.readAnimationControl(&data)
    case .frameControl: try animation.readFrameControl(&data)
    case .frameData: try animation.readFrameData(&data)
    case nil:
      guard chunk.isAncillary else {
        throw ContentFault("expected a known critical chunk, found \(chunk.type.shown)", offset: chunk.start)
      }
    }
  }

  /// 11.2.2
  private mutating func readPalette(_ chunk: PNGChunk) throws(ContentFault) {
    guard phase == .beforeImageData, !hasPalette else {
      throw ContentFault("expected one PLTE before IDAT, found another", offset: chunk.start)
    }
    guard header.colour != .greyscale, header.colour != .greyscaleWithAlpha else {
      throw ContentFault("expected no PLTE in a greyscale image, found one", offset: chunk.start)
    }
    let greatest = header.colour == .indexed ? 1 << header.depth : 256
    let entries = chunk.data.count / Self.paletteEntryBytes
    guard entries * Self.paletteEntryBytes == chunk.data.count, 1...greatest ~= entries else {
      throw ContentFault(
        "expected a PLTE of 1 to \(greatest) entries of 3 bytes, found \(chunk.data.count) bytes", offset: chunk.start)
    }
    hasPalette = true
  }

  private mutating func readImageData(_ chunk: PNGChunk) throws(ContentFault) {
    if phase == .behindImageData {
      throw ContentFault("expected IDAT chunks without others between them, found one apart", offset: chunk.start)
    }
    if header.colour == .indexed, !hasPalette {
      throw ContentFault("expected PLTE before IDAT in an indexed-colour image, found none", offset: chunk.start)
    }
    phase = .inImageData
    imageDataBytes += chunk.data.count
    animation.imageDataBegan()
  }

  private mutating func readEnd(_ chunk: PNGChunk, _ data: inout ImageReader) throws(ContentFault) {
    try data.requireEnd(of: "IEND")
    guard imageDataBytes > 0 else {
      throw ContentFault("expected image data in IDAT, found IEND", offset: chunk.start)
    }
    try animation.requireWhole(at: chunk.start)
  }
}

/// A chunk with a correct CRC.
struct PNGChunk {
  /// The greatest length (5.3), as of every number of four bytes (7.1).
  private static let greatestLength = 0x7fff_ffff

  /// The offset of its type.
  let start: Int
  let type: FourCharacterCode
  let data: Range<Int>

  /// The first letter is lower case (5.4).
  var isAncillary: Bool { type.rawValue & 0x2000_0000 != 0 }

  init(_ reader: inout ImageReader) throws(ContentFault) {
    let length = try reader.uint32("a chunk length")
    guard length <= Self.greatestLength else {
      throw ContentFault("expected a chunk length below 2^31, found \(length)", offset: reader.at - 4)
    }
    start = reader.at
    type = try reader.fourCharacterCode("a chunk type")
    for index in start..<reader.at where !reader.bytes[index].isASCIILetter {
      throw ContentFault("expected a chunk type of four letters, found \(type.shown)", offset: start)
    }
    data = try reader.range(length, "chunk data")
    let computed = Self.crc(reader.bytes.extracting(start..<data.upperBound))
    let stored = try reader.uint32("a CRC")
    guard stored == computed else {
      let (expected, found) = (String(computed, radix: 16), String(stored, radix: 16))
      throw ContentFault(
        "expected the CRC 0x\(expected) of the chunk \(type.shown), found 0x\(found)", offset: data.upperBound)
    }
  }

  private static func crc(_ bytes: Span<UInt8>) -> Int {
    unsafe bytes.withUnsafeBufferPointer { unsafe Int(crc32_z(0, $0.baseAddress, $0.count)) }
  }
}

/// The contents of IHDR (11.2.1).
struct PNGHeader {
  enum Colour: Int {
    case greyscale = 0
    case truecolour = 2
    case indexed = 3
    case greyscaleWithAlpha = 4
    case truecolourWithAlpha = 6

    var depths: [Int] {
      switch self {
      case .greyscale: [1, 2, 4, 8, 16]
      case .indexed: [1, 2, 4, 8]
      case .truecolour, .greyscaleWithAlpha, .truecolourWithAlpha: [8, 16]
      }
    }
  }

  /// The greatest width and height (11.2.1).
  private static let greatestSide = 0x7fff_ffff

  let width: Int
  let height: Int
  let depth: Int
  let colour: Colour

  init(_ data: inout ImageReader) throws(ContentFault) {
    let start = data.at
    width = try data.uint32("a width")
    height = try data.uint32("a height")
    try data.requireDimensions(width, height, at: start)
    guard max(width, height) <= Self.greatestSide else {
      throw ContentFault("expected a width and a height below 2^31, found \(width) x \(height)", offset: start)
    }
    depth = try data.uint8("a bit depth")
    let type = try data.uint8("a colour type")
    guard let colour = Colour(rawValue: type), colour.depths.contains(depth) else {
      throw ContentFault(
        "expected a colour type and a bit depth it goes with, found \(type) and \(depth)", offset: data.at - 2)
    }
    self.colour = colour
    guard try data.uint8("a compression method") == 0 else { throw Self.unknown("compression", data.at - 1) }
    guard try data.uint8("a filter method") == 0 else { throw Self.unknown("filter", data.at - 1) }
    guard try data.uint8("an interlace method") <= 1 else { throw Self.unknown("interlace", data.at - 1) }
    try data.requireEnd(of: "IHDR")
  }

  private static func unknown(_ noun: StaticString, _ offset: Int) -> ContentFault {
    ContentFault("expected a known \(noun) method, found another", offset: offset)
  }
}

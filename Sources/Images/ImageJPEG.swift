// JPEG (ITU-T T.81): the marker segments, and the framing of the entropy-coded data between them, up to EOI.
//
// Huffman codes are not decoded: a scan contains data without a marker in it. The tables that a scan names must exist
// and be valid (ImageJPEGTables.swift).
//
// Strict: EOI exists; restart markers only come with a restart interval and in order, because otherwise the data
// between them is lost; no lossless or hierarchical process, which browsers do not decode.
// Lenient: bytes between two segments, which every decoder skips because some encoders pad; the spectral selection of
// sequential scans, which decoders ignore because some encoders write zeros; bytes after EOI, where every decoder
// stops: phones and cameras put further pictures (CIPA MPF), gain maps and films there.
//
// Tests: ImageJPEGTests.

import Bytes

/// A JPEG, as its segments are read.
struct JPEGInterchange {
  /// What a marker (table B.1) begins.
  private enum Marker {
    case frame, scan, huffmanTables, quantizationTables, restartInterval, numberOfLines, endOfImage
    /// Application data, a comment, or conditioning of arithmetic coding, which does not affect the structure.
    case passedOver

    init?(_ code: UInt8) {
      switch code {
      case 0xc0, 0xc1, 0xc2, 0xc9, 0xca: self = .frame
      case 0xc4: self = .huffmanTables
      case 0xd9: self = .endOfImage
      case 0xda: self = .scan
      case 0xdb: self = .quantizationTables
      case 0xdc: self = .numberOfLines
      case 0xdd: self = .restartInterval
      case 0xcc, 0xe0...0xef, 0xfe: self = .passedOver
      default: return nil
      }
    }
  }

  private static let markerBytes = 2

  private var frame: JPEGFrame?
  private var tables = JPEGTables()
  private var restartInterval = 0
  private var scanCount = 0

  static func check(_ reader: inout ImageReader) throws(ContentFault) {
    reader.order = .bigEndian
    try reader.skip(markerBytes, "SOI")
    var image = JPEGInterchange()
    var previous = Marker.passedOver
    while previous != .endOfImage { previous = try image.readSegment(&reader, behind: previous) }
  }

  private mutating func readSegment(
    _ reader: inout ImageReader, behind previous: Marker
  ) throws(ContentFault) -> Marker {
    let code = try Self.nextMarker(&reader)
    let start = reader.at - Self.markerBytes
    guard let marker = Marker(code) else {
      throw ContentFault("expected a known marker, found 0xff\(String(code, radix: 16))", offset: start)
    }
    try requirePlace(of: marker, behind: previous, at: start)
    if marker == .endOfImage { return marker }
    let bytes = try reader.uint16("a segment length")
    guard bytes >= 2 else {
      throw ContentFault("expected a segment length of at least 2, found \(bytes)", offset: reader.at - 2)
    }
    var segment = reader.part(try reader.range(bytes - 2, "a segment"))
    try read(&segment, marker, code: code)
    try segment.requireEnd(of: "the segment")
    if marker == .scan { try readEntropyCodedData(&reader) }
    return marker
  }

  /// B.2.1, and B.2.5 for DNL, which gives the number of lines if the frame says 0.
  private func requirePlace(
    of marker: Marker, behind previous: Marker, at start: Int
  ) throws(ContentFault) {
    if scanCount > 0, frame?.lines == 0, marker != .numberOfLines {
      throw ContentFault("expected DNL behind the first scan of a frame of 0 lines, found none", offset: start)
    }
    switch marker {
    case .frame where frame != nil: throw ContentFault("expected one frame, found a second", offset: start)
    case .endOfImage where scanCount == 0:
      throw ContentFault("expected a scan before EOI, found none", offset: start)
    case .numberOfLines where previous != .scan || scanCount > 1:
      throw ContentFault("expected DNL behind the first scan, found it elsewhere", offset: start)
    case .frame, .scan, .huffmanTables, .quantizationTables, .restartInterval, .numberOfLines, .endOfImage,
      .passedOver:
      return
    }
  }

  private mutating func read(
    _ segment: inout ImageReader, _ marker: Marker, code: UInt8
  ) throws(ContentFault) {
    switch marker {
    case .frame: frame = try JPEGFrame(&segment, code)
    case .scan: try readScanHeader(&segment)
    case .huffmanTables: try tables.readHuffmanTables(&segment)
    case .quantizationTables: try tables.readQuantizationTables(&segment)
    case .restartInterval: restartInterval = try segment.uint16("a restart interval")
    case .numberOfLines: try readNumberOfLines(&segment)
    case .passedOver: try segment.skip(segment.remaining, "a segment")
    case .endOfImage: break  // It has no segment.
    }
  }

  private mutating func readScanHeader(_ segment: inout ImageReader) throws(ContentFault) {
    guard let frame else { throw segment.fault("expected a frame before a scan, found none") }
    let start = segment.at
    let scan = try JPEGScan(&segment, of: frame)
    try tables.requireTables(of: scan, in: frame, at: start)
    scanCount += 1
  }

  /// Reads up to the next marker. Skips fill bytes (B.1.1.2) and padding before it.
  private static func nextMarker(_ reader: inout ImageReader) throws(ContentFault) -> UInt8 {
    var previous: UInt8 = 0
    while let byte = reader.next {
      try reader.skip(1, "a marker")
      if previous == 0xff, byte != 0xff, byte != 0 { return byte }
      previous = byte
    }
    throw reader.fault("expected the marker EOI, found the end")
  }

  private mutating func readNumberOfLines(_ segment: inout ImageReader) throws(ContentFault) {
    guard let frame else { throw segment.fault("expected a frame before DNL, found none") }
    let lines = try segment.uint16("a number of lines")
    try segment.requireDimensions(frame.samplesPerLine, lines, at: segment.at - 2)
    self.frame?.lines = lines
  }

  /// Skips everything up to the marker that ends the scan.
  private func readEntropyCodedData(_ reader: inout ImageReader) throws(ContentFault) {
    let start = reader.at
    var restarts = 0
    while true {
      try reader.skipToByte(0xff, otherwise: "expected the marker EOI, found the end")
      let marker = reader.at
      while reader.next == 0xff { try reader.skip(1, "a marker") }
      guard let code = reader.next else { throw reader.fault("expected the marker EOI, found the end") }
      switch code {
      case 0: try reader.skip(1, "a stuffed byte")
      case 0xd0...0xd7:
        guard restartInterval > 0, code & 7 == restarts & 7 else {
          let expected = restartInterval > 0 ? "the restart marker \(restarts & 7)" : "no restart marker"
          throw ContentFault("expected \(expected), found RST\(code & 7)", offset: marker)
        }
        restarts += 1
        try reader.skip(1, "a restart marker")
      default:
        // An arithmetic coder may omit trailing zeros, even all of a scan (D.1.8).
        guard marker > start || frame?.isArithmetic == true else {
          throw ContentFault("expected entropy-coded data behind SOS, found a marker", offset: marker)
        }
        try reader.seek(to: marker, "a marker", pointer: marker)
        return
      }
    }
  }
}

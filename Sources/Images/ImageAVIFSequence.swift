// The tracks of an AVIF sequence (`moov` of ISO/IEC 14496-12, 8.2 to 8.7): dimensions and the positions of the
// pictures.
//
// Strict: at least one track of AV1; its dimensions are within the limit, and its chunks begin within the file.
// Lenient: tracks of anything else, which image decoders skip.
//
// Tests: ImageAVIFTests.

import Bytes

/// The tracks, as the boxes of `moov` are read.
struct AVIFSequence {
  private static let codedType: UInt32 = 0x6176_3031  // av01
  /// Bytes between the duration and the dimensions of a track: layer, group, volume and a matrix.
  private static let bytesBeforeDimensions = 52
  /// Bytes before the dimensions of a sample description.
  private static let bytesBeforeSampleDimensions = 24

  static func check(_ movie: inout ImageReader) throws(ContentFault) {
    let start = movie.at
    var tracks = 0
    while !movie.isAtEnd {
      let box = try ISOBox(&movie, .box)
      guard box.type == .track else { continue }
      var track = movie.part(box.content)
      if try checkTrack(&track) { tracks += 1 }
    }
    guard tracks > 0 else { throw ContentFault("expected a track of AV1, found none", offset: start) }
  }

  /// false if it is not AV1.
  private static func checkTrack(_ track: inout ImageReader) throws(ContentFault) -> Bool {
    let boxes = try ISOBoxes(&track, .box, keeping: [.trackHeader, .media])
    var media = try boxes.content(.media, track)
    var information = try ISOBoxes(&media, .box, keeping: [.mediaInformation]).content(.mediaInformation, track)
    var table = try ISOBoxes(&information, .box, keeping: [.sampleTable]).content(.sampleTable, track)
    let samples = try ISOBoxes(&table, .box, keeping: [.sampleDescriptions, .chunkOffsets, .longChunkOffsets])
    var descriptions = try samples.content(.sampleDescriptions, track)
    guard try checkDescription(&descriptions) else { return false }
    var header = try boxes.content(.trackHeader, track)
    try checkHeader(&header)
    let isLong = samples[.longChunkOffsets] != nil
    var chunks = try samples.content(isLong ? .longChunkOffsets : .chunkOffsets, track)
    try checkChunks(&chunks, offsetBytes: isLong ? 8 : 4)
    return true
  }

  /// `stsd`: its first description. false if it is not AV1.
  private static func checkDescription(_ reader: inout ImageReader) throws(ContentFault) -> Bool {
    try reader.skip(8, "a version and a number of entries")
    let box = try ISOBox(&reader, .box)
    guard box.name.rawValue == codedType else { return false }
    var description = reader.part(box.content)
    try description.skip(bytesBeforeSampleDimensions, "a sample description")
    let width = try description.uint16("a width")
    let height = try description.uint16("a height")
    try description.requireDimensions(width, height, at: description.at - 4)
    return true
  }

  /// `tkhd`: the dimensions are fixed-point numbers of 16.16 bits.
  private static func checkHeader(_ reader: inout ImageReader) throws(ContentFault) {
    let version = try AVIFItems.readVersion(&reader)
    try reader.skip(version == 0 ? 20 : 32, "times and a duration")
    try reader.skip(bytesBeforeDimensions, "a matrix")
    let width = try reader.uint32("a track width") >> 16
    let height = try reader.uint32("a track height") >> 16
    try reader.requireDimensions(width, height, at: reader.at - 8)
  }

  /// `stco` and `co64`.
  private static func checkChunks(_ reader: inout ImageReader, offsetBytes: Int) throws(ContentFault) {
    _ = try AVIFItems.readVersion(&reader)
    let count = try reader.uint32("a number of chunks")
    guard count > 0 else { throw reader.fault("expected at least one chunk, found 0") }
    for _ in 0..<count {
      let pointer = reader.at
      let offset = try reader.integer(offsetBytes, "the offset of a chunk")
      guard offset < reader.bytes.count else {
        throw ContentFault(
          "expected a chunk within \(reader.bytes.count) bytes, found it at offset \(offset)", offset: pointer)
      }
    }
  }
}

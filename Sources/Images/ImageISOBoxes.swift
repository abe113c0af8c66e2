// Boxes of the ISO base media file format (ISO/IEC 14496-12, 4.2), the format of AVIF.
//
// Boxes contain boxes. A reader of the format requests the boxes that it knows by name, so nothing here recurses. All
// boxes on the way are within their parents and fill them; unknown ones are skipped.
//
// Tests: ImageAVIFTests.

import Bytes

/// The boxes whose contents are read.
enum ISOBoxType: UInt32 {
  case fileType = 0x6674_7970  // ftyp
  case metadata = 0x6d65_7461  // meta
  case movie = 0x6d6f_6f76  // moov

  case primaryItem = 0x7069_746d  // pitm
  case itemInformation = 0x6969_6e66  // iinf
  case itemInformationEntry = 0x696e_6665  // infe
  case itemLocation = 0x696c_6f63  // iloc
  case itemData = 0x6964_6174  // idat
  case itemProperties = 0x6970_7270  // iprp
  case itemPropertyContainer = 0x6970_636f  // ipco
  case itemPropertyAssociation = 0x6970_6d61  // ipma
  case spatialExtents = 0x6973_7065  // ispe

  case track = 0x7472_616b  // trak
  case trackHeader = 0x746b_6864  // tkhd
  case media = 0x6d64_6961  // mdia
  case mediaInformation = 0x6d69_6e66  // minf
  case sampleTable = 0x7374_626c  // stbl
  case sampleDescriptions = 0x7374_7364  // stsd
  case chunkOffsets = 0x7374_636f  // stco
  case longChunkOffsets = 0x636f_3634  // co64
}

/// One box.
struct ISOBox {
  enum Level {
    /// The last box of a file may have an open size.
    case file
    case box
  }

  let start: Int
  let name: FourCharacterCode
  let content: Range<Int>

  var type: ISOBoxType? { ISOBoxType(rawValue: name.rawValue) }

  /// Reads the header of the next box and skips its content.
  init(_ reader: inout ImageReader, _ level: Level) throws(ContentFault) {
    start = reader.at
    var size = try reader.uint32("a box size")
    name = try reader.fourCharacterCode("a box type")
    switch size {
    case 0 where level == .file: size = reader.at - start + reader.remaining
    case 1: size = try reader.integer(8, "a box size")
    default: break
    }
    let headerBytes = reader.at - start
    guard size >= headerBytes else {
      throw ContentFault("expected a box of at least \(headerBytes) bytes, found \(size)", offset: start)
    }
    guard size - headerBytes <= reader.remaining else {
      let found = "\(size - headerBytes), of which \(reader.remaining) are there"
      throw ContentFault("expected the content of the box \(name.shown), found \(found)", offset: start)
    }
    content = try reader.range(size - headerBytes, "a box")
  }
}

/// The requested boxes within another; each occurs at most once.
struct ISOBoxes {
  private let parent: Int
  private var boxes: [ISOBoxType: ISOBox] = [:]

  /// Reads the boxes that fill `reader`, and keeps those of `types`.
  init(
    _ reader: inout ImageReader, _ level: ISOBox.Level, keeping types: [ISOBoxType]
  ) throws(ContentFault) {
    parent = reader.at
    while !reader.isAtEnd {
      let box = try ISOBox(&reader, level)
      guard let type = box.type, types.contains(type) else { continue }
      guard boxes.updateValue(box, forKey: type) == nil else {
        throw ContentFault("expected one box \(box.name.shown), found a second", offset: box.start)
      }
    }
  }

  subscript(type: ISOBoxType) -> ISOBox? { boxes[type] }

  /// A reader for a box that must exist.
  @_lifetime(copy reader)
  func content(_ type: ISOBoxType, _ reader: borrowing ImageReader) throws(ContentFault) -> ImageReader {
    guard let box = boxes[type] else {
      let name = FourCharacterCode(rawValue: type.rawValue)
      throw ContentFault("expected a box \(name.shown), found none", offset: parent)
    }
    return reader.part(box.content)
  }
}

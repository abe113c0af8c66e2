// AVIF: images of Pillow (libavif) and avifenc, and files put together from boxes.

import Images
import TestSupport
import Testing

@Suite struct ImageAVIFTests {
  private static let specimens = [
    ImageSpecimen(
      "a still image", pixels: 16,
      """
      AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUIAAADrbWV0YQAAAAAAAAAhaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAAAAAAAAAOcGl0
      bQAAAAAAAQAAAB5pbG9jAAAAAEQAAAEAAQAAAAEAAAETAAAAKAAAAChpaW5mAAAAAAABAAAAGmluZmUCAAAAAAEAAGF2MDFDb2xvcgAAAABqaXBy
      cAAAAEtpcGNvAAAAFGlzcGUAAAAAAAAABAAAAAQAAAAQcGl4aQAAAAADCAgIAAAADGF2MUOBAAwAAAAAE2NvbHJuY2x4AAEADQAGgAAAABdpcG1h
      AAAAAAAAAAEAAQQBAoMEAAAAMG1kYXQSAAoIGAR9ogIaDQgyGh2Hh4Wd3HHHAsBVAJA1j6LsZNntLeJwTeZE
      """),
    ImageSpecimen(
      "with alpha", pixels: 16,
      """
      AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUIAAAGGbWV0YQAAAAAAAAAhaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAAAAAAAAAOcGl0
      bQAAAAAAAQAAACxpbG9jAAAAAEQAAAIAAQAAAAEAAAHAAAAAKAACAAAAAQAAAa4AAAASAAAAQmlpbmYAAAAAAAIAAAAaaW5mZQIAAAAAAQAAYXYw
      MUNvbG9yAAAAABppbmZlAgAAAAACAABhdjAxQWxwaGEAAAAAGmlyZWYAAAAAAAAADmF1eGwAAgABAAEAAADDaXBycAAAAJ1pcGNvAAAAFGlzcGUA
      AAAAAAAABAAAAAQAAAAQcGl4aQAAAAADCAgIAAAADGF2MUOBAAwAAAAAE2NvbHJuY2x4AAEADQAGgAAAAA5waXhpAAAAAAEIAAAADGF2MUOBABwA
      AAAAOGF1eEMAAAAAdXJuOm1wZWc6bXBlZ0I6Y2ljcDpzeXN0ZW1zOmF1eGlsaWFyeTphbHBoYQAAAAAeaXBtYQAAAAAAAAACAAEEAQKDBAACBAEF
      hgcAAABCbWRhdBIACgUYBH2FQDIHHICmkQAQoBIACggYBH2iAhoNCDIaHYeHhZ3ccccCwFUAkDWPouxk2e0t4nBN5kQ=
      """),
    ImageSpecimen(
      "with a profile, Exif and XMP", pixels: 16,
      """
      AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUIAAAGEbWV0YQAAAAAAAAAhaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAAAAAAAAAOcGl0
      bQAAAAAAAQAAADppbG9jAAAAAEQAAAMAAQAAAAEAAAHEAAAAKAACAAAAAQAAAawAAAAUAAMAAAABAAABwAAAAAQAAABtaWluZgAAAAAAAwAAABpp
      bmZlAgAAAAABAABhdjAxQ29sb3IAAAAAGWluZmUCAAAAAAIAAEV4aWZFeGlmAAAAACxpbmZlAgAAAAADAABtaW1lWE1QAGFwcGxpY2F0aW9uL3Jk
      Zit4bWwAAAAAKGlyZWYAAAAAAAAADmNkc2MAAgABAAEAAAAOY2RzYwADAAEAAQAAAHppcHJwAAAAWmlwY28AAAAUaXNwZQAAAAAAAAAEAAAABAAA
      ABBwaXhpAAAAAAMICAgAAAAMYXYxQ4EADAAAAAAPY29scnByb2ZhYmMAAAATY29scm5jbHgAAgACAAaAAAAAGGlwbWEAAAAAAAAAAQABBQECgwQF
      AAAASG1kYXQAAAAGRXhpZgAASUkqAAgAAAAAADx4Lz4SAAoIGAR9ogQEDQgyGh2Hh4Wd3HHHAsBVAJA1j6LsZNntLeJwTeZE
      """),
    ImageSpecimen(
      "a sequence", pixels: 16,
      """
      AAAALGZ0eXBhdmlzAAAAAGF2aWZhdmlzbXNmMWlzbzhtaWYxbWlhZk1BMUIAAADrbWV0YQAAAAAAAAAhaGRscgAAAAAAAAAAcGljdAAAAAAAAAAA
      AAAAAAAAAAAOcGl0bQAAAAAAAQAAAB5pbG9jAAAAAEQAAAEAAQAAAAEAAAPpAAAAJAAAAChpaW5mAAAAAAABAAAAGmluZmUCAAAAAAEAAGF2MDFD
      b2xvcgAAAABqaXBycAAAAEtpcGNvAAAAFGlzcGUAAAAAAAAABAAAAAQAAAAQcGl4aQAAAAADCAgIAAAADGF2MUOBAAwAAAAAE2NvbHJuY2x4AAEA
      DQAGgAAAABdpcG1hAAAAAAAAAAEAAQQBAoMEAAACym1vb3YAAAB4bXZoZAEAAAAAAAAA5yZe0wAAAADnJl7TAAAD6P//////////AAEAAAEAAAAA
      AAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAAJKdHJhawAAAGh0
      a2hkAQAAAQAAAADnJl7TAAAAAOcmXtMAAAABAAAAAP//////////AAAAAAAAAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAA
      AAAAQAAAAAAEAAAABAAAAAAALGVkdHMAAAAkZWxzdAEAAAEAAAABAAAAAAAAAJYAAAAAAAAAAAABAAAAAAGubWRpYQAAACxtZGhkAQAAAAAAAADn
      Jl7TAAAAAOcmXtMAAAPoAAAAAAAAAJZVxAAAAAAAIWhkbHIAAAAAAAAAAHBpY3QAAAAAAAAAAAAAAAAAAAABWW1pbmYAAAAUdm1oZAAAAAEAAAAA
      AAAAAAAAACRkaW5mAAAAHGRyZWYAAAAAAAAAAQAAAAx1cmwgAAAAAQAAARlzdGJsAAAAlXN0c2QAAAAAAAAAAQAAAIVhdjAxAAAAAAAAAAEAAAAA
      AAAAAAAAAAAAAAAAAAQABABIAAAASAAAAAAAAAABCkFPTSBDb2RpbmcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAGP//AAAADGF2MUOBAAwAAAAAE2Nv
      bHJuY2x4AAEADQAGgAAAABBjY3N0AAAAAHwAAAAAAAAYc3R0cwAAAAAAAAABAAAAAwAAADIAAAAcc3RzYwAAAAAAAAABAAAAAQAAAAMAAAABAAAA
      IHN0c3oAAAAAAAAAAAAAAAMAAAAkAAAAGwAAABwAAAAUc3RjbwAAAAAAAAABAAAD6QAAABRzdHNzAAAAAAAAAAEAAAABAAAAY21kYXQSAAoMAAAA
      AI+bXzICGg0IMhIQAOOAAALAAgBDepr2qQqsaUASADIXMAPAgAAABuQAAALLLgCAAB89pXnR154SADIYMAXBBAAABuQAAALArACAABJuseQKht1g
      """),
    ImageSpecimen(
      "a grid, from avifenc", pixels: 8192,
      """
      AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUEAAAF/bWV0YQAAAAAAAAAoaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAAAGxpYmF2aWYA
      AAAADnBpdG0AAAAAAAEAAAA6aWxvYwAAAABEAAADAAEAAAABAAABpwAAAAgAAgAAAAEAAAGvAAAAHQADAAAAAQAAAa8AAAAdAAAAXGlpbmYAAAAA
      AAMAAAAaaW5mZQIAAAAAAQAAZ3JpZENvbG9yAAAAABppbmZlAgAAAQACAABhdjAxQ29sb3IAAAAAGmluZmUCAAABAAMAAGF2MDFDb2xvcgAAAAAc
      aXJlZgAAAAAAAAAQZGltZwABAAIAAgADAAAAi2lwcnAAAABfaXBjbwAAABRpc3BlAAAAAAAAAIAAAABAAAAAEHBpeGkAAAAAAwgICAAAABNjb2xy
      bmNseAABAA0ABoAAAAAUaXNwZQAAAAAAAABAAAAAQAAAAAxhdjFDgSAAAAAAACRpcG1hAAAAAAAAAAMAAQMBAgMAAgQEAoUDAAMEBAKFAwAAAC1t
      ZGF0AAAAAQCAAEASAAoJOBV//YQENBpAMg4fQD///8QAtNt7DoibVA==
      """),
  ]

  // MARK: Files made here

  private static func box(_ type: String, _ content: [UInt8]...) -> [UInt8] {
    let content = content.flatMap { $0 }
    return bigEndian(content.count + 8, 4) + octets(type) + content
  }

  /// A box with a version and flags.
  private static func fullBox(_ type: String, version: UInt8 = 0, flags: Int = 0, _ content: [UInt8]...) -> [UInt8] {
    box(type, [version] + bigEndian(flags, 3), content.flatMap { $0 })
  }

  private static let fileType = box("ftyp", octets("avif"), [0, 0, 0, 0], octets("mif1"))
  private static let primaryItem = fullBox("pitm", [0, 1])
  private static let information = fullBox("iinf", [0, 1], entry(1, "av01"))
  private static let data = box("mdat", [1, 2, 3, 4])
  private static let properties = box("iprp", box("ipco", extents(5, 4)), associations([0, 1, 1, 1]))
  /// An extent of four bytes in `idat`.
  private static let location = fullBox(
    "iloc", version: 1, [0x44, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 4])
  private static let itemData = box("idat", [1, 2, 3, 4])

  private static func entry(_ item: Int, _ type: String) -> [UInt8] {
    fullBox("infe", version: 2, bigEndian(item, 2), [0, 0], octets(type), [0])
  }

  private static func extents(_ width: Int, _ height: Int) -> [UInt8] {
    fullBox("ispe", bigEndian(width, 4), bigEndian(height, 4))
  }

  private static func associations(_ entries: [UInt8]...) -> [UInt8] {
    fullBox("ipma", bigEndian(entries.count, 4), entries.flatMap { $0 })
  }

  /// Sizes of numbers, then items; with numbers of four bytes.
  private static func locations(_ items: [UInt8]..., sizes: [UInt8] = [0x44, 0]) -> [UInt8] {
    fullBox("iloc", sizes, bigEndian(items.count, 2), items.flatMap { $0 })
  }

  /// Of version 0: an item and its extents, as offsets and lengths.
  private static func item(_ item: Int, _ extents: (offset: Int, length: Int)...) -> [UInt8] {
    bigEndian(item, 2) + [0, 0] + bigEndian(extents.count, 2)
      + extents.flatMap { bigEndian($0.offset, 4) + bigEndian($0.length, 4) }
  }

  private static func metadata(
    _ primaryItem: [UInt8] = primaryItem, _ information: [UInt8] = information, _ location: [UInt8] = location,
    _ properties: [UInt8] = properties, data: [UInt8] = itemData
  ) -> [UInt8] {
    fullBox("meta", primaryItem, location, information, properties, data)
  }

  private static func avif(_ metadata: [UInt8]) -> [UInt8] { fileType + metadata }

  private static func grid(_ payload: [UInt8]) -> [UInt8] {
    let location = fullBox(
      "iloc", version: 1, [0x44, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0], bigEndian(payload.count, 4))
    return avif(metadata(primaryItem, fullBox("iinf", [0, 1], entry(1, "grid")), location, data: box("idat", payload)))
  }

  private static let made = [
    ImageSpecimen("the smallest, its data in the metadata", pixels: 20, bytes: avif(metadata())),
    ImageSpecimen(
      "two extents in the file", pixels: 20,
      bytes: fileType + data + metadata(primaryItem, information, locations(item(1, (28, 2), (30, 2))), data: [])),
    ImageSpecimen(
      "a base offset, and a length alone", pixels: 20,
      bytes: fileType + data
        + metadata(
          primaryItem, information,
          locations([0, 1, 0, 0, 0, 0, 0, 28, 0, 1, 0, 0, 0, 4], sizes: [0x04, 0x40]), data: [])),
    ImageSpecimen(
      "numbers of eight bytes, items of four", pixels: 20,
      bytes: fileType + data
        + metadata(
          fullBox("pitm", version: 1, [0, 1, 0, 0]),
          fullBox(
            "iinf", version: 1, [0, 0, 0, 1], fullBox("infe", version: 3, [0, 1, 0, 0, 0, 0], octets("av01"), [0])),
          fullBox(
            "iloc", version: 2, [0x88, 0x88, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0], bigEndian(20, 8), [0, 1],
            bigEndian(0, 8), bigEndian(8, 8), bigEndian(4, 8)),
          box(
            "iprp", box("ipco", extents(5, 4)),
            fullBox("ipma", version: 1, flags: 1, [0, 0, 0, 1, 0, 1, 0, 0, 1, 0x80, 1])),
          data: [])),
    ImageSpecimen(
      "a large size, and a box up to the end", pixels: 20,
      bytes:
        fileType + [0, 0, 0, 1] + octets("free") + bigEndian(18, 8) + [7, 7] + metadata()),
    ImageSpecimen(
      "items without data, of another kind, and with more properties", pixels: 42,
      bytes: avif(
        metadata(
          primaryItem, fullBox("iinf", [0, 2], entry(2, "Exif"), entry(1, "av01")),
          fullBox(
            "iloc", version: 1, [0x44, 0, 0, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1],
            [0, 0, 0, 0, 0, 0, 0, 4]),
          box(
            "iprp", box("ipco", box("av1C", [1]), extents(6, 7), extents(5, 4)),
            associations([0, 2, 1, 2], [0, 1, 3, 0x81, 0, 3]))))),
    ImageSpecimen("a grid", pixels: 30, bytes: grid([0, 0, 0, 0, 0, 6, 0, 5])),
    ImageSpecimen("a grid of 32 bits", pixels: 30, bytes: grid([0, 1, 0, 0, 0, 0, 0, 6, 0, 0, 0, 5])),
    ImageSpecimen("a sequence alone", pixels: 20, bytes: sequence()),
    ImageSpecimen(
      "a sequence of version 1, with offsets of eight bytes", pixels: 20,
      bytes: sequence(header: trackHeader(version: 1), chunks: fullBox("co64", [0, 0, 0, 1], bigEndian(28, 8)))),
    ImageSpecimen(
      "a sequence with a track of sound", pixels: 20,
      bytes: sequence(before: track(box("mp4a", zeros(20)), header: box("tkhd"), chunks: []))),
  ]

  // MARK: Sequences made here

  private static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

  private static let sequenceType = box("ftyp", octets("avis"), [0, 0, 0, 0], octets("msf1"))

  private static func trackHeader(_ width: Int = 5, _ height: Int = 4, version: UInt8 = 0) -> [UInt8] {
    fullBox(
      "tkhd", version: version, zeros(version == 0 ? 72 : 84), bigEndian(width << 16, 4), bigEndian(height << 16, 4))
  }

  private static func description(_ width: Int = 5, _ height: Int = 4) -> [UInt8] {
    box("av01", zeros(24), bigEndian(width, 2), bigEndian(height, 2), zeros(50))
  }

  private static func track(_ description: [UInt8], header: [UInt8], chunks: [UInt8]) -> [UInt8] {
    let table = box("stbl", fullBox("stsd", [0, 0, 0, 1], description), chunks)
    return box("trak", header, box("mdia", box("minf", table)))
  }

  private static func sequence(
    _ description: [UInt8] = description(), header: [UInt8] = trackHeader(),
    chunks: [UInt8] = fullBox("stco", [0, 0, 0, 1, 0, 0, 0, 28]), before: [UInt8] = []
  ) -> [UInt8] {
    sequenceType + data + box("moov", box("mvhd"), before, track(description, header: header, chunks: chunks))
  }

  private static let faults = [
    FaultyImage(
      "a brand of any HEIF", box("ftyp", octets("mif1"), [0, 0, 0, 0], octets("heic")) + metadata(),
      "expected the brand avif or avis, found neither", at: 8),
    FaultyImage(
      "half a brand", box("ftyp", octets("avif"), [0, 0, 0, 0, 1]) + metadata(), "expected 4 bytes of a brand, found 1",
      at: 16),
    FaultyImage(
      "no version", box("ftyp", octets("avif")) + metadata(), "expected 4 bytes of a minor version, found 0", at: 12),
    FaultyImage("two file types", fileType + fileType + metadata(), "expected one box 'ftyp', found a second", at: 20),
    FaultyImage("no metadata", fileType + data, "expected a box 'meta', found none", at: 20),
    FaultyImage(
      "metadata twice", fileType + metadata() + metadata(), "expected one box 'meta', found a second", at: 181),
    FaultyImage(
      "a byte behind the last box", avif(metadata()) + [0], "expected 4 bytes of a box size, found 1", at: 181),
    FaultyImage(
      "a box of four bytes", fileType + [0, 0, 0, 4] + octets("free"), "expected a box of at least 8 bytes, found 4",
      at: 20),
    FaultyImage(
      "a large box of 15 bytes", fileType + [0, 0, 0, 1] + octets("free") + bigEndian(15, 8),
      "expected a box of at least 16 bytes, found 15", at: 20),
    FaultyImage(
      "a large box of no bytes", fileType + [0, 0, 0, 1] + octets("free") + bigEndian(0, 8),
      "expected a box of at least 16 bytes, found 0", at: 20),
    FaultyImage(
      "a box as large as can be written",
      fileType + [0, 0, 0, 1] + octets("free") + [UInt8](repeating: 0xff, count: 8),
      "expected the content of the box 'free', found 9223372036854775791, of which 0 are there", at: 20),
    FaultyImage(
      "a box beyond the file", fileType + [0, 0, 0, 10] + octets("fr\u{0}\u{ff}") + [0],
      "expected the content of the box 0x667200ff, found 2, of which 1 are there", at: 20),
    FaultyImage(
      "a box up to the end within another", avif(fullBox("meta", [0, 0, 0, 0] + octets("pitm"), [0, 0, 0, 0, 0, 1])),
      "expected a box of at least 8 bytes, found 0", at: 32),
  ]

  private static let itemFaults = [
    FaultyImage("no primary item", avif(metadata([])), "expected a box 'pitm', found none", at: 32),
    FaultyImage(
      "two primary items", avif(metadata(primaryItem + primaryItem)),
      "expected one box 'pitm', found a second", at: 46),
    FaultyImage(
      "no locations", avif(metadata(primaryItem, information, [])), "expected a box 'iloc', found none", at: 32),
    FaultyImage("no information", avif(metadata(primaryItem, [])), "expected a box 'iinf', found none", at: 32),
    FaultyImage(
      "no properties", avif(metadata(primaryItem, information, location, [])), "expected a box 'iprp', found none",
      at: 32),
    FaultyImage(
      "locations of version 3", avif(metadata(primaryItem, information, fullBox("iloc", version: 3, [0x44, 0, 0, 0]))),
      "expected 'iloc' of version 0 to 2, found 3", at: 54),
    FaultyImage(
      "numbers of two bytes", avif(metadata(primaryItem, information, locations(sizes: [0x24, 0]))),
      "expected numbers of 0, 4 or 8 bytes in 'iloc', found 0x2400", at: 58),
    FaultyImage(
      "an item that is missing", avif(metadata(primaryItem, information, fullBox("iloc", [0x44, 0, 0, 1]))),
      "expected 2 bytes of an item, found 0", at: 62),
    FaultyImage(
      "an extent beyond the file", avif(metadata(primaryItem, information, locations(item(1, (222, 4))), data: [])),
      "expected an extent within 167 bytes, found 4 bytes at offset 222", at: 68),
    FaultyImage(
      "an extent that ends beyond the file",
      avif(metadata(primaryItem, information, locations(item(1, (164, 4))), data: [])),
      "expected an extent within 167 bytes, found 4 bytes at offset 164", at: 68),
    FaultyImage(
      "an extent beyond the item data", avif(metadata(data: box("idat", [1, 2, 3]))),
      "expected an extent within 3 bytes, found 4 bytes at offset 0", at: 70),
    FaultyImage(
      "a base offset at the end of the numbers",
      avif(
        metadata(
          primaryItem, information,
          locations(
            [0, 1, 0, 0] + [UInt8](repeating: 0xff, count: 8) + [0, 1, 0, 0, 0, 9, 0, 0, 0, 4], sizes: [0x44, 0x80]))),
      "expected an extent within 187 bytes, found 4 bytes at offset 9223372036854775807", at: 76),
    FaultyImage(
      "an item in item data that is not there", avif(metadata(data: [])),
      "expected an item in this file or 'idat', found it elsewhere", at: 64),
    FaultyImage(
      "an item made of another",
      avif(metadata(primaryItem, information, fullBox("iloc", version: 1, [0x44, 0, 0, 1, 0, 1, 0, 2, 0, 0, 0, 0]))),
      "expected an item in this file or 'idat', found it elsewhere", at: 64),
    FaultyImage(
      "an item in another file", avif(metadata(primaryItem, information, locations([0, 1, 0, 1, 0, 0]))),
      "expected an item in this file or 'idat', found it elsewhere", at: 64),
    FaultyImage(
      "extents that take no bytes",
      avif(metadata(primaryItem, information, locations([0, 1, 0, 0, 0xff, 0xff], sizes: [0, 0]))),
      "expected extents with offsets or lengths, found 65535 without", at: 68),
    FaultyImage(
      "a primary item without data", avif(metadata(primaryItem, information, locations(item(2, (0, 4))))),
      "expected the bytes of the primary item, found none", at: 106),
    FaultyImage(
      "a primary item of empty data", avif(metadata(primaryItem, information, locations(item(1, (0, 0))))),
      "expected the bytes of the primary item, found none", at: 106),
    FaultyImage(
      "a primary item that is not described", avif(metadata(primaryItem, fullBox("iinf", [0, 1], entry(2, "av01")))),
      "expected the item 1 in 'iinf', found none", at: 86),
    FaultyImage(
      "a primary item of HEVC", avif(metadata(primaryItem, fullBox("iinf", [0, 1], entry(1, "hvc1")))),
      "expected a primary item of AV1 or a grid, found 'hvc1'", at: 108),
    FaultyImage("half a grid", grid([0, 0, 0, 0, 0, 6, 0]), "expected 2 bytes of a grid height, found 1", at: 183),
    FaultyImage(
      "a grid without width", grid([0, 0, 0, 0, 0, 0, 0, 5]), "expected a width and a height above 0, found 0 x 5",
      at: 181),
    FaultyImage(
      "a grid of many pixels", grid([0, 1, 0, 0, 0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]),
      "60000 x 60000 pixels, above the limit of 1000000", at: 181),
  ]

  private static func withProperties(_ content: [UInt8]...) -> [UInt8] {
    avif(metadata(primaryItem, information, location, box("iprp", content.flatMap { $0 })))
  }

  private static let propertyFaults = [
    FaultyImage(
      "no width", withProperties(box("ipco", extents(0, 4))), "expected a width and a height above 0, found 0 x 4",
      at: 141),
    FaultyImage(
      "many pixels", withProperties(box("ipco", extents(60000, 60000))),
      "60000 x 60000 pixels, above the limit of 1000000", at: 141),
    FaultyImage(
      "many pixels of something else",
      withProperties(box("ipco", extents(5, 4), extents(60000, 60000)), associations([0, 1, 1, 1])),
      "60000 x 60000 pixels, above the limit of 1000000", at: 161),
    FaultyImage(
      "no association", withProperties(box("ipco", extents(5, 4))),
      "expected dimensions of the primary item in 'ispe', found none", at: 121),
    FaultyImage(
      "dimensions of another item", withProperties(box("ipco", extents(5, 4)), associations([0, 2, 1, 1])),
      "expected dimensions of the primary item in 'ispe', found none", at: 121),
    FaultyImage(
      "another property of the primary item",
      withProperties(box("ipco", extents(5, 4), box("av1C")), associations([0, 1, 2, 2, 0])),
      "expected dimensions of the primary item in 'ispe', found none", at: 121),
    FaultyImage(
      "a property that is not there", withProperties(box("ipco", extents(5, 4)), associations([0, 1, 1, 2])),
      "expected one of 1 properties, found 2", at: 168),
    FaultyImage(
      "as many associations as can be written",
      withProperties(box("ipco", extents(5, 4)), fullBox("ipma", [0xff, 0xff, 0xff, 0xff, 0, 1, 1, 1])),
      "expected 2 bytes of an item, found 0", at: 169),
    FaultyImage(
      "properties twice", withProperties(box("ipco", extents(5, 4)), box("ipco")),
      "expected one box 'ipco', found a second", at: 149),
    FaultyImage(
      "half dimensions", withProperties(box("ipco", fullBox("ispe", [0, 0, 0, 5, 0]))),
      "expected 4 bytes of an image height, found 1", at: 145),
  ]

  private static let sequenceFaults = [
    FaultyImage("no tracks", sequenceType + box("moov"), "expected a track of AV1, found none", at: 28),
    FaultyImage("no movie", sequenceType + data, "expected a box 'moov', found none", at: 20),
    FaultyImage(
      "a track of sound alone", sequence(box("mp4a", zeros(20))), "expected a track of AV1, found none", at: 40),
    FaultyImage("no track header", sequence(header: []), "expected a box 'tkhd', found none", at: 56),
    FaultyImage("no chunks", sequence(chunks: []), "expected a box 'stco', found none", at: 172),
    FaultyImage(
      "a track without width", sequence(header: trackHeader(0, 4)),
      "expected a width and a height above 0, found 0 x 4", at: 140),
    FaultyImage(
      "a track of many pixels", sequence(header: trackHeader(60000, 60000)),
      "60000 x 60000 pixels, above the limit of 1000000", at: 140),
    FaultyImage(
      "a description of many pixels", sequence(description(60000, 60000)),
      "60000 x 60000 pixels, above the limit of 1000000", at: 220),
    FaultyImage(
      "chunks that are none", sequence(chunks: fullBox("stco", [0, 0, 0, 0])), "expected at least one chunk, found 0",
      at: 290),
    FaultyImage(
      "a chunk behind the file", sequence(chunks: fullBox("stco", [0, 0, 0, 1, 0, 0, 1, 0x26])),
      "expected a chunk within 294 bytes, found it at offset 294", at: 290),
    FaultyImage(
      "a chunk at the end of the numbers",
      sequence(chunks: fullBox("co64", [0, 0, 0, 1], [UInt8](repeating: 0xff, count: 8))),
      "expected a chunk within 298 bytes, found it at offset 9223372036854775807", at: 290),
    FaultyImage(
      "more chunks than the box holds", sequence(chunks: fullBox("stco", [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 28])),
      "expected 4 bytes of the offset of a chunk, found 0", at: 294),
    FaultyImage(
      "no media", sequenceType + box("moov", box("trak", trackHeader())), "expected a box 'mdia', found none", at: 36),
  ]

  @Test(arguments: specimens + made)
  func isAccepted(image: ImageSpecimen) { expectImage(image, behind: .refused) }

  /// A box whose size is open goes on to the end: what is cut off or put behind it belongs to it.
  @Test func theLastBoxMayGoOnToTheEnd() {
    let bytes = Self.avif(Self.metadata()) + [0, 0, 0, 0] + octets("free") + [1, 2, 3]
    for count in (bytes.count - 3)...bytes.count { #expect(checkImage(Array(bytes.prefix(count))) == nil) }
    #expect(checkImage(bytes + [0]) == nil)
  }

  @Test(arguments: faults + itemFaults)
  func isRefused(image: FaultyImage) { expectFault(image) }

  @Test(arguments: propertyFaults + sequenceFaults)
  func isRefusedForItsPropertiesOrTracks(image: FaultyImage) { expectFault(image) }
}

// PNG and APNG: images of Pillow and ImageMagick, and datastreams put together from chunks.

import Bytes
import Images
import TestSupport
import Testing

@Suite struct ImagePNGTests {
  private static let specimens = [
    ImageSpecimen(
      "one bit grey", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAEAQAAAABuSMjtAAAAEElEQVR4nGNgYBBg8mD6AQACNAFVqJDwUwAAAABJRU5ErkJggg==
      """),
    ImageSpecimen(
      "eight bits grey", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAECAAAAABjWKqcAAAAIElEQVR4nGNk4Ofn52dUFhQUFGRRFhYWFmZREREVFQUAEQ4BlJ86BqsAAAAASUVO
      RK5CYII=
      """),
    ImageSpecimen(
      "16 bits grey", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAEEAAAAAAzyHbfAAAAJklEQVR4nGNkYGDgh0BGBmUGQQhkYVBmEIZAFgYVBhEGUQZRBlEAHosBlPWFe20A
      AAAASUVORK5CYII=
      """),
    ImageSpecimen(
      "grey with alpha", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAECAQAAADsOj3LAAAAJElEQVR4nGNkaOBngEAWZQZBKGRRZhCGQhYVBhEGUQZRBlEGADV3AhfFZvhFAAAA
      AElFTkSuQmCC
      """),
    ImageSpecimen(
      "true colour", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAECAIAAADJUWIXAAAAIUlEQVR4nGNkYGAwQkIsDDYMDAyCcATnK0EQMt+YgcEYAFizAt7scLZTAAAAAElF
      TkSuQmCC
      """),
    ImageSpecimen(
      "true colour with alpha", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAECAYAAABGM/VAAAAAKElEQVR4nGNkYGBoMGJgYEDGLAw2DAwMDIIoGElQCY7RBI0ZGBiMGQCd/wNeswgf
      jQAAAABJRU5ErkJggg==
      """),
    ImageSpecimen(
      "true colour of 16 bits", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAEEAIAAACZwb5UAAAAKUlEQVQI12NkYGBgYGAwMsJOsjAw2NhAlAgKYpIY0kpKyCQOaWNjCAkAU9UFrkkt
      B6gAAAAASUVORK5CYII=
      """),
    ImageSpecimen(
      "a palette of 16 colours", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAEBAMAAAC0HehzAAAAMFBMVEXItMyWtJlktGaveHdkeEQZtBoyeCIAeADIPESWPDNkPCIyPBEAPACvAABk
      AAAZAAA+/boUAAAAGUlEQVR4nGP8/+4xy5l711lWn33Lcv/efQBUTwpgMACxuQAAAABJRU5ErkJggg==
      """),
    ImageSpecimen(
      "a palette with transparency", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAEBAMAAAC0HehzAAAAMFBMVEXItMyWtJlktGaveHdkeEQZtBoyeCIAeADIPESWPDNkPCIyPBEAPACvAABk
      AAAZAAA+/boUAAAABHRSTlP///8AQCqp9AAAABlJREFUeJxj/P/uMcuZe9dZVp99y3L/3n0AVE8KYDAAsbkAAAAASUVORK5CYII=
      """),
    ImageSpecimen(
      "a palette of one bit, interlaced", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAEAQMAAAEL+leVAAAABlBMVEUAAAD///+l2Z/dAAAAE0lEQVQI12NgAAMFID7AIMAQAAAFcAFB3un0pQAA
      AABJRU5ErkJggg==
      """),
    ImageSpecimen(
      "true colour, interlaced", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAECAIAAAG+VlKBAAAANUlEQVQI1z3CMQ3AMAwAMEcqgVIohO7tGSgBEYiFtWPSLIOLIrSSJWNTDL3IcGzz
      PzQWz/cFBfkG7xGoiowAAAAASUVORK5CYII=
      """),
    ImageSpecimen(
      "texts and a resolution", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAEAQAAAABuSMjtAAAAB3RFWHRUaXRsZQB0IMgBEQAAABZpVFh0Q29tbWVudAABAAAAeJw7vAcAAkQBgL/K
      Y6UAAAAJcEhZcwAACxMAAAsTAQCanBgAAAAQSURBVHicY2BgEGDyYPoBAAI0AVWokPBTAAAAAElFTkSuQmCC
      """),
    ImageSpecimen(
      "ImageMagick with all its chunks", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAEAQAAAABuSMjtAAAABGdBTUEAALGPC/xhBQAAAAJiS0dEAAHdihOkAAAAB3RJTUUH6gsUFCASrrI92wAA
      ABBJREFUCNdjYGAQYIhgCAAAAbAAuXrnrHcAAAAldEVYdGRhdGU6Y3JlYXRlADIwMjYtMTEtMjBUMjA6MzI6MTcrMDA6MDBtoFsqAAAAJXRFWHRk
      YXRlOm1vZGlmeQAyMDI2LTExLTIwVDIwOjMyOjE3KzAwOjAwHP3jlgAAAABJRU5ErkJggg==
      """),
    ImageSpecimen(
      "an animation of three frames", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAECAIAAADJUWIXAAAACGFjVEwAAAADAAAAAM7tusAAAAAaZmNUTAAAAAAAAAAFAAAABAAAAAAAAAAAAAEA
      FAAAligNwwAAACFJREFUeJxjZGBgMEJCLAw2DAwMgnAE5ytBEDLfmIHBGABYswLe7HC2UwAAABpmY1RMAAAAAQAAAAUAAAAEAAAAAAAAAAAAAQAU
      AAANW+cXAAAALGZkQVQAAAACeJxjPMHAcA4JsTDYuDAwvIcjCP8eDEH5ZxkYGBgY3jMwMAAA9ZwOj/4NpSwAAAAaZmNUTAAAAAMAAAAFAAAABAAA
      AAAAAAAAAAEAFAAA4M00/gAAAC1mZEFUAAAABHicYzyx5cw5hrNwxMJwZA8Dwz0GhnsMDO8ZGBgg/PcwBOUjAAAarBK62UToyAAAAABJRU5ErkJg
      gg==
      """),
    ImageSpecimen(
      "an animation besides a still image", pixels: 20,
      """
      iVBORw0KGgoAAAANSUhEUgAAAAUAAAAECAIAAADJUWIXAAAACGFjVEwAAAACAAAAAPONk3AAAAAhSURBVHicY2RgYDBCQiwMNgwMDIJwBOcrQRAy
      35iBwRgAWLMC3uxwtlMAAAAaZmNUTAAAAAAAAAAFAAAABAAAAAAAAAAAAAEAFAAAligNwwAAACxmZEFUAAAAAXicYzzBwHAOCbEw2LgwMLyHIwj/
      HgxB+WcZGBgYGN4zMDAAAPWcDo8dRBKOAAAAGmZjVEwAAAACAAAABQAAAAQAAAAAAAAAAAABABQAAHu+3ioAAAAtZmRBVAAAAAN4nGM8seXMOYaz
      cMTCcGQPA8M9BoZ7DAzvGRgYIPz3MATlIwAAGqwSuggKesAAAAAASUVORK5CYII=
      """),
  ]

  // MARK: Datastreams made here

  private static let signature: [UInt8] = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]

  /// CRC-32 of ISO 3309, a bit at a time (PNG, annex D).
  private static func crc(_ bytes: [UInt8]) -> Int {
    var remainder: UInt32 = ~0
    for byte in bytes {
      remainder ^= UInt32(byte)
      for _ in 0..<8 { remainder = remainder & 1 == 1 ? remainder >> 1 ^ 0xedb8_8320 : remainder >> 1 }
    }
    return Int(~remainder)
  }

  private static func chunk(_ type: String, _ data: [UInt8] = []) -> [UInt8] {
    bigEndian(data.count, 4) + octets(type) + data + bigEndian(crc(octets(type) + data), 4)
  }

  private static func header(
    _ width: Int = 5, _ height: Int = 4, depth: Int = 8, colour: Int = 2, methods: [UInt8] = [0, 0, 0]
  ) -> [UInt8] {
    chunk("IHDR", bigEndian(width, 4) + bigEndian(height, 4) + bigEndian(depth, 1) + bigEndian(colour, 1) + methods)
  }

  private static let imageData = chunk("IDAT", [1, 2, 3])
  private static let end = chunk("IEND")

  private static func png(_ chunks: [UInt8]...) -> [UInt8] { signature + chunks.flatMap { $0 } }

  private static func palette(_ entries: Int) -> [UInt8] {
    chunk("PLTE", [UInt8](repeating: 7, count: 3 * entries))
  }

  private static func animation(_ frames: Int) -> [UInt8] { chunk("acTL", bigEndian(frames, 4) + bigEndian(0, 4)) }

  private static func frame(
    _ sequence: Int, _ width: Int = 5, _ height: Int = 4, at left: Int = 0, _ top: Int = 0,
    operations: [UInt8] = [0, 0]
  ) -> [UInt8] {
    let numbers = [sequence, width, height, left, top].flatMap { bigEndian($0, 4) }
    return chunk("fcTL", numbers + [0, 1, 0, 10] + operations)
  }

  private static func frameData(_ sequence: Int, _ data: [UInt8] = [9]) -> [UInt8] {
    chunk("fdAT", bigEndian(sequence, 4) + data)
  }

  private static let made = [
    ImageSpecimen("the smallest", pixels: 20, bytes: png(header(), imageData, end)),
    ImageSpecimen(
      "several IDAT, some of them empty", pixels: 20,
      bytes: png(header(), chunk("IDAT"), imageData, chunk("IDAT"), imageData, end)),
    ImageSpecimen("a palette in true colour", pixels: 20, bytes: png(header(), palette(256), imageData, end)),
    ImageSpecimen(
      "a palette in true colour with alpha", pixels: 20, bytes: png(header(colour: 6), palette(1), imageData, end)),
    ImageSpecimen(
      "as many colours as four bits can name", pixels: 20,
      bytes: png(header(depth: 4, colour: 3), palette(16), imageData, end)),
    ImageSpecimen(
      "unknown ancillary chunks, and one with a small third letter", pixels: 20,
      bytes: png(header(), chunk("abCd", [1]), chunk("abcd"), imageData, chunk("tEXt", [0x61, 0, 0x62]), end)),
    ImageSpecimen(
      "an fcTL before acTL", pixels: 20, bytes: png(header(), frame(0), animation(1), imageData, end)),
    ImageSpecimen(
      "a frame in several fdAT, some of them empty", pixels: 20,
      bytes: png(
        header(), animation(1), imageData, frame(0, 2, 3, at: 3, 1, operations: [2, 1]), frameData(1, []),
        frameData(2), frameData(3, []), end)),
    ImageSpecimen(
      "an fcTL of an image that is not animated", pixels: 20, bytes: png(header(), frame(0), imageData, end)),
  ]

  private static let faults = [
    FaultyImage(
      "another chunk before IHDR", png(chunk("tEXt"), header(), imageData, end),
      "expected IHDR as the first chunk, found 'tEXt'", at: 12),
    FaultyImage("two IHDR", png(header(), header(), imageData, end), "expected one IHDR, found a second", at: 37),
    FaultyImage(
      "an IHDR that is too short", png(chunk("IHDR", [0, 0, 0, 5, 0, 0, 0, 4, 8, 2, 0, 0]), imageData, end),
      "expected 1 byte of an interlace method, found 0", at: 28),
    FaultyImage(
      "an IHDR that is too long", png(chunk("IHDR", [0, 0, 0, 5, 0, 0, 0, 4, 8, 2, 0, 0, 0, 0]), imageData, end),
      "expected the end of IHDR, found 1 byte more", at: 29),
    FaultyImage(
      "no width", png(header(0, 4), imageData, end),
      "expected a width and a height above 0, found 0 x 4", at: 16),
    FaultyImage(
      "no height", png(header(5, 0), imageData, end),
      "expected a width and a height above 0, found 5 x 0", at: 16),
    FaultyImage(
      "many pixels", png(header(60000, 60000), imageData, end),
      "60000 x 60000 pixels, above the limit of 1000000", at: 16),
    FaultyImage(
      "as many pixels as can be written", png(header(0xffff_ffff, 0xffff_ffff), imageData, end),
      "4294967295 x 4294967295 pixels, above the limit of 1000000", at: 16),
    FaultyImage(
      "another compression", png(header(methods: [1, 0, 0]), imageData, end),
      "expected a known compression method, found another", at: 26),
    FaultyImage(
      "another filter", png(header(methods: [0, 64, 0]), imageData, end),
      "expected a known filter method, found another", at: 27),
    FaultyImage(
      "another interlacing", png(header(methods: [0, 0, 2]), imageData, end),
      "expected a known interlace method, found another", at: 28),
    FaultyImage(
      "no palette where one is needed", png(header(colour: 3), imageData, end),
      "expected PLTE before IDAT in an indexed-colour image, found none", at: 37),
    FaultyImage(
      "a palette behind the image data", png(header(), imageData, palette(1), end),
      "expected one PLTE before IDAT, found another", at: 52),
    FaultyImage(
      "two palettes", png(header(), palette(1), palette(1), imageData, end),
      "expected one PLTE before IDAT, found another", at: 52),
    FaultyImage(
      "a palette in a grey image", png(header(colour: 0), palette(1), imageData, end),
      "expected no PLTE in a greyscale image, found one", at: 37),
    FaultyImage(
      "a palette in a grey image with alpha", png(header(colour: 4), palette(1), imageData, end),
      "expected no PLTE in a greyscale image, found one", at: 37),
    FaultyImage(
      "an empty palette", png(header(colour: 3), palette(0), imageData, end),
      "expected a PLTE of 1 to 256 entries of 3 bytes, found 0 bytes", at: 37),
    FaultyImage(
      "a palette of four bytes", png(header(colour: 3), chunk("PLTE", [1, 2, 3, 4]), imageData, end),
      "expected a PLTE of 1 to 256 entries of 3 bytes, found 4 bytes", at: 37),
    FaultyImage(
      "a palette of 257 colours", png(header(), palette(257), imageData, end),
      "expected a PLTE of 1 to 256 entries of 3 bytes, found 771 bytes", at: 37),
    FaultyImage(
      "more colours than four bits can name", png(header(depth: 4, colour: 3), palette(17), imageData, end),
      "expected a PLTE of 1 to 16 entries of 3 bytes, found 51 bytes", at: 37),
    FaultyImage("no IDAT", png(header(), end), "expected image data in IDAT, found IEND", at: 37),
    FaultyImage("an empty IDAT", png(header(), chunk("IDAT"), end), "expected image data in IDAT, found IEND", at: 49),
    FaultyImage(
      "a chunk between two IDAT", png(header(), imageData, chunk("tIME"), imageData, end),
      "expected IDAT chunks without others between them, found one apart", at: 64),
    FaultyImage(
      "an IEND that holds something", png(header(), imageData, chunk("IEND", [0])),
      "expected the end of IEND, found 1 byte more", at: 56),
    FaultyImage("no IEND", png(header(), imageData), "expected 4 bytes of a chunk length, found 0", at: 48),
    FaultyImage(
      "an unknown critical chunk", png(header(), chunk("CgBI"), imageData, end),
      "expected a known critical chunk, found 'CgBI'", at: 37),
    FaultyImage(
      "a chunk type with a digit", png(header(), chunk("tEX1"), imageData, end),
      "expected a chunk type of four letters, found 'tEX1'", at: 37),
    FaultyImage(
      "a chunk type above ASCII", png(header(), chunk("tE\u{0}\u{ff}"), imageData, end),
      "expected a chunk type of four letters, found 0x744500ff", at: 37),
    FaultyImage(
      "a chunk length of 2^31", png(header(), [0x80, 0, 0, 0], octets("IDAT"), end),
      "expected a chunk length below 2^31, found 2147483648", at: 33),
    FaultyImage(
      "a chunk that is longer than the rest", png(header(), [0, 0, 0, 17], octets("IDAT"), end, [0, 0, 0, 0]),
      "expected 17 bytes of chunk data, found 16", at: 41),
    FaultyImage(
      "a byte behind IEND", png(header(), imageData, end, [0x0a]),
      "expected the end of the image behind IEND, found 1 byte more", at: 60),
    FaultyImage(
      "an image behind IEND", png(header(), imageData, end) + png(header(), imageData, end),
      "expected the end of the image behind IEND, found 60 bytes more", at: 60),
    FaultyImage(
      "a CRC of another chunk", png(header(), imageData.dropLast(4) + end.suffix(4), end),
      "expected the CRC 0x533717ad of the chunk 'IDAT', found 0xae426082", at: 44),
  ]

  private static let animationFaults = [
    FaultyImage(
      "an animation of no frames", png(header(), animation(0), imageData, end), "expected at least one frame, found 0",
      at: 41),
    FaultyImage(
      "an animation behind the image data", png(header(), imageData, animation(1), end),
      "expected one acTL before IDAT, found another", at: 56),
    FaultyImage(
      "two animations", png(header(), animation(1), animation(1), imageData, end),
      "expected one acTL before IDAT, found another", at: 61),
    FaultyImage(
      "an acTL that is too short", png(header(), chunk("acTL", [0, 0, 0, 1]), imageData, end),
      "expected 4 bytes of a number of plays, found 0", at: 45),
    FaultyImage(
      "an acTL that is too long", png(header(), chunk("acTL", [0, 0, 0, 1, 0, 0, 0, 0, 0]), imageData, end),
      "expected the end of acTL, found 1 byte more", at: 49),
    FaultyImage(
      "a frame less than announced", png(header(), animation(2), frame(0), imageData, end),
      "expected 2 frames as acTL says, found 1", at: 110),
    FaultyImage(
      "a frame more than announced",
      png(header(), animation(1), frame(0), imageData, frame(1), frameData(2), end),
      "expected 1 frames as acTL says, found 2", at: 165),
    FaultyImage(
      "a first number that is not 0", png(header(), animation(1), frame(1), imageData, end),
      "expected the sequence number 0, found 1", at: 61),
    FaultyImage(
      "a number twice", png(header(), animation(1), imageData, frame(0), frameData(0), end),
      "expected the sequence number 1, found 0", at: 114),
    FaultyImage(
      "a number that is missing", png(header(), animation(1), imageData, frame(0), frameData(2), end),
      "expected the sequence number 1, found 2", at: 114),
    FaultyImage(
      "a first frame that is not the canvas", png(header(), animation(1), frame(0, 4, 4), imageData, end),
      "expected a frame within the canvas of 5 x 4, found 4 x 4 at (0, 0)", at: 65),
    FaultyImage(
      "a frame that is too wide", png(header(), animation(1), imageData, frame(0, 5, 4, at: 1), frameData(1), end),
      "expected a frame within the canvas of 5 x 4, found 5 x 4 at (1, 0)", at: 80),
    FaultyImage(
      "a frame that is too high", png(header(), animation(1), imageData, frame(0, 5, 4, at: 0, 1), frameData(1), end),
      "expected a frame within the canvas of 5 x 4, found 5 x 4 at (0, 1)", at: 80),
    FaultyImage(
      "a frame far away",
      png(header(), animation(1), imageData, frame(0, 1, 1, at: 0xffff_ffff, 0xffff_ffff), frameData(1), end),
      "expected a frame within the canvas of 5 x 4, found 1 x 1 at (4294967295, 4294967295)", at: 80),
    FaultyImage(
      "a frame without width", png(header(), animation(1), imageData, frame(0, 0, 4), frameData(1), end),
      "expected a width and a height above 0, found 0 x 4", at: 80),
    FaultyImage(
      "an unknown disposal", png(header(), animation(1), frame(0, operations: [3, 0]), imageData, end),
      "expected known disposal and blend operations, found 3 and 0", at: 85),
    FaultyImage(
      "an unknown blend", png(header(), animation(1), frame(0, operations: [0, 2]), imageData, end),
      "expected known disposal and blend operations, found 0 and 2", at: 85),
    FaultyImage(
      "two frames without data between them", png(header(), animation(2), frame(0), frame(1), imageData, end),
      "expected the data of a frame, found another fcTL", at: 103),
    FaultyImage(
      "a last frame without data", png(header(), animation(1), imageData, frame(0), end),
      "expected the data of the last frame, found IEND", at: 110),
    FaultyImage(
      "a last frame of empty data", png(header(), animation(1), imageData, frame(0), frameData(1, []), end),
      "expected the data of the last frame, found IEND", at: 126),
    FaultyImage(
      "frame data before the image data", png(header(), animation(1), frame(0), frameData(1), imageData, end),
      "expected fdAT behind IDAT and fcTL, found it elsewhere", at: 103),
    FaultyImage(
      "frame data without a frame", png(header(), animation(1), imageData, frameData(0), end),
      "expected fdAT behind IDAT and fcTL, found it elsewhere", at: 80),
    FaultyImage(
      "frame data of the frame in IDAT", png(header(), animation(1), frame(0), imageData, frameData(1), end),
      "expected fdAT behind IDAT and fcTL, found it elsewhere", at: 118),
    FaultyImage(
      "an fdAT without a number", png(header(), animation(1), imageData, frame(0), chunk("fdAT", [1]), end),
      "expected 4 bytes of a sequence number, found 1", at: 114),
  ]

  @Test(arguments: specimens + made)
  func isAccepted(image: ImageSpecimen) { expectImage(image, behind: .refused) }

  @Test(arguments: faults + animationFaults)
  func isRefused(image: FaultyImage) { expectFault(image) }

  /// No bit of a chunk can change without being noticed: of its type, data or CRC no later than at its own CRC.
  @Test(arguments: specimens)
  func damageToAnyChunkIsNoticed(image: ImageSpecimen) {
    var start = 8
    while start < image.bytes.count {
      let length = image.bytes[start..<start + 4].reduce(0) { $0 << 8 | Int($1) }
      let end = start + 12 + length
      for index in start..<end {
        for bit in 0..<8 {
          var damaged = image.bytes
          damaged[index] ^= 1 << bit
          let fault = checkImage(damaged)
          #expect(fault != nil, "bit \(bit) of byte \(index)")
          if index >= start + 4 { #expect(fault?.offset ?? end < end, "bit \(bit) of byte \(index)") }
          if index >= end - 4 { #expect(fault?.offset == end - 4, "bit \(bit) of byte \(index)") }
        }
      }
      start = end
    }
  }

  @Test func everyColourTypeGoesWithItsDepthsOnly() {
    let legal = [0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16]]
    for colour in 0...255 {
      for depth in 0...255 where colour < 8 || depth < 8 {
        let palette = colour == 3 ? Self.palette(2) : []
        let bytes = Self.png(Self.header(depth: depth, colour: colour), palette, Self.imageData, Self.end)
        #expect((checkImage(bytes) == nil) == (legal[colour] ?? []).contains(depth), "\(colour), \(depth)")
      }
    }
  }

  @Test func aSideOf2To31IsRefusedWhateverTheLimit() {
    let widest = Self.png(Self.header(0x7fff_ffff, 1), Self.imageData, Self.end)
    #expect(checkImage(widest, maximumPixels: .max) == nil)
    let wider = Self.png(Self.header(0x8000_0000, 1), Self.imageData, Self.end)
    let reason = "expected a width and a height below 2^31, found 2147483648 x 1"
    #expect(checkImage(wider, maximumPixels: .max) == ContentFault(reason, offset: 16))
  }
}

// BMP: images of Pillow, ImageMagick and netpbm, and bitmaps put together from headers and pixels.

import Images
import TestSupport
import Testing

@Suite struct ImageBMPTests {
  private static let specimens = [
    ImageSpecimen(
      "one bit", pixels: 20,
      """
      Qk1OAAAAAAAAAD4AAAAoAAAABQAAAAQAAAABAAEAAAAAABAAAADEDgAAxA4AAAIAAAACAAAAAAAAAP///wBQAAAAWAAAABAAAAAAAAAA
      """),
    ImageSpecimen(
      "four bits", pixels: 20,
      """
      Qk2GAAAAAAAAAHYAAAAoAAAABQAAAAQAAAABAAQAAAAAABAAAAAAAAAAAAAAABAAAAAQAAAAAAAZAAA8AAARPDIAAABkACI8ZAAAeAAAIngyAER4
      ZAAAAK8AMzyWAEQ8yAB3eK8AGrQZAGa0ZACZtJYAzLTIAMze8ABWe7AAEkmgAAA4gAA=
      """),
    ImageSpecimen(
      "eight bits", pixels: 20,
      """
      Qk1WBAAAAAAAADYEAAAoAAAABQAAAAQAAAABAAgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADwAAMy0yAAAeAAAMzyWAAAAGQAAAGQAmbSWAAAA
      rwAiPGQARHhkABq0GQB3eK8AZrRkABE8MgAieDIARDzIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAoKDAYBAAAAAg4JCwsA
      AAAADQgDDwAAAAQEBQcHAAAA
      """),
    ImageSpecimen(
      "24 bits", pixels: 20,
      """
      Qk12AAAAAAAAADYAAAAoAAAABQAAAAQAAAABABgAAAAAAEAAAADEDgAAxA4AAAAAAAAAAAAAALQAM7QyZrRkmbSWzLTIAAB4ACJ4MkR4ZGZ4loh4
      yAAAPAARPDIiPGQzPJZEPMgAAAAAAAAyAABkAACWAADIAA==
      """),
    ImageSpecimen(
      "32 bits", pixels: 20,
      """
      Qk2GAAAAAAAAADYAAAAoAAAABQAAAAQAAAABACAAAAAAAFAAAADEDgAAxA4AAAAAAAAAAAAAALQAgDO0MoBmtGSAmbSWgMy0yIAAeACAIngygER4
      ZIBmeJaAiHjIgAA8AIARPDKAIjxkgDM8loBEPMiAAAAAgAAAMoAAAGSAAACWgAAAyIA=
      """),
    ImageSpecimen(
      "OS/2 1, four bits", pixels: 20,
      """
      Qk1aAAAAAAAAAEoAAAAMAAAABQAEAAEABAAAPADMtMgAeAAzPJYAABkAAGSZtJYAAK8iPGREeGQatBl3eK9mtGQRPDIieDJEPMiqxhAALpuwAA2D
      8ABEV3AA
      """),
    ImageSpecimen(
      "OS/2 1, 24 bits", pixels: 20,
      """
      Qk1aAAAAAAAAABoAAAAMAAAABQAEAAEAGAAAtAAztDJmtGSZtJbMtMgAAHgAIngyRHhkZniWiHjIAAA8ABE8MiI8ZDM8lkQ8yAAAAAAAADIAAGQA
      AJYAAMgA
      """),
    ImageSpecimen(
      "Windows 5, 24 bits", pixels: 20,
      """
      Qk3KAAAAAAAAAIoAAAB8AAAABQAAAAQAAAABABgAAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAD/AAD/AAD/AAAAAAAA/0JHUnMAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAALQAM7QyZrRkmbSWzLTIAAB4ACJ4MkR4ZGZ4loh4
      yAAAPAARPDIiPGQzPJZEPMgAAAAAAAAyAABkAACWAADIAA==
      """),
    ImageSpecimen(
      "Windows 5 with masks, 32 bits", pixels: 20,
      """
      Qk3aAAAAAAAAAIoAAAB8AAAABQAAAAQAAAABACAAAwAAAFAAAAAAAAAAAAAAAAAAAAAAAAAAAAD/AAD/AAD/AAAAAAAA/0JHUnMAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAALQAgDO0MoBmtGSAmbSWgMy0yIAAeACAIngygER4
      ZIBmeJaAiHjIgAA8AIARPDKAIjxkgDM8loBEPMiAAAAAgAAAMoAAAGSAAACWgAAAyIA=
      """),
    ImageSpecimen(
      "16 bits with masks", pixels: 20,
      """
      Qk26AAAAAAAAAIoAAAB8AAAABQAAAAQAAAABABAAAwAAADAAAAAAAAAAAAAAAAAAAAAAAAAAAPgAAOAHAAAfAAAAAAAAAEJHUnMAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAgAWGNYxlkpWYxQAAoAOkM6hjrJOwwwAAwAHCMcRh
      xpHIwQAAAAAAMABgAJAAwAAA
      """),
    ImageSpecimen(
      "run-length codes", pixels: 20,
      """
      Qk1cBAAAAAAAADYEAAAoAAAABQAAAAQAAAABAAgAAQAAACYAAAAAAAAAAAAAAAABAAAAAQAAAAAAAP///wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAQEBAAEBBAAAAAEA
      AQEBAAIBAwAAAAMAAQEEAAAACAAAAAAB
      """),
  ]

  // MARK: Bitmaps made here

  /// The header of Windows 3, filled up with zeros to `size` bytes.
  private static func header(
    _ width: Int = 5, _ height: Int = 4, bits: Int, compression: Int = 0, colours: Int = 0, planes: Int = 1,
    size: Int = 40
  ) -> [UInt8] {
    let dimensions = littleEndian(size, 4) + littleEndian(width, 4) + littleEndian(height, 4)
    let header =
      dimensions + littleEndian(planes, 2) + littleEndian(bits, 2) + littleEndian(compression, 4)
      + [UInt8](repeating: 0, count: 12) + littleEndian(colours, 4) + [0, 0, 0, 0]
    return header + [UInt8](repeating: 0, count: size - 40)
  }

  private static func coreHeader(_ width: Int, _ height: Int, bits: Int) -> [UInt8] {
    littleEndian(12, 4) + [width, height, 1, bits].flatMap { littleEndian($0, 2) }
  }

  /// `between` stands between the header and the pixels: masks, or a colour table.
  private static func bitmap(
    _ header: [UInt8], between: [UInt8] = [], pixels: [UInt8], offset: Int? = nil
  ) -> [UInt8] {
    let offset = offset ?? 14 + header.count + between.count
    return octets("BM") + littleEndian(0, 8) + littleEndian(offset, 4) + header + between + pixels
  }

  private static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

  private static func masks(_ masks: Int...) -> [UInt8] { masks.flatMap { littleEndian($0, 4) } }

  private static func runs(
    _ codes: [UInt8], _ width: Int = 5, _ height: Int = 4, bits: Int = 8, compression: Int = 1, size: Int = 40
  ) -> [UInt8] {
    let header = header(width, height, bits: bits, compression: compression, colours: 2, size: size)
    return bitmap(header, between: bits <= 8 ? zeros(8) : [], pixels: codes)
  }

  private static let made = [
    ImageSpecimen("rows from the top", pixels: 20, bytes: bitmap(header(5, -4, bits: 24), pixels: zeros(64))),
    ImageSpecimen("16 bits without masks", pixels: 20, bytes: bitmap(header(bits: 16), pixels: zeros(48))),
    ImageSpecimen(
      "masks behind the header", pixels: 20,
      bytes: bitmap(header(bits: 32, compression: 3), between: masks(0xff0000, 0xff00, 0xff), pixels: zeros(80))),
    ImageSpecimen(
      "masks of colours and alpha behind the header", pixels: 20,
      bytes: bitmap(
        header(bits: 16, compression: 6), between: masks(0xf00, 0xf0, 0xf, 0xf000), pixels: zeros(48))),
    ImageSpecimen(
      "masks in a header of 52 bytes", pixels: 20,
      bytes: bitmap(
        header(bits: 16, compression: 3, size: 52).replacing(40, masks(0xf800, 0x7e0, 0x1f)), pixels: zeros(48))),
    ImageSpecimen(
      "masks in a header of 56 bytes", pixels: 20,
      bytes: bitmap(
        header(bits: 16, compression: 3, size: 56).replacing(40, masks(0x7c00, 0x3e0, 0x1f, 0x8000)),
        pixels: zeros(48))),
    ImageSpecimen("OS/2 2", pixels: 20, bytes: bitmap(header(bits: 24, size: 64), pixels: zeros(64))),
    ImageSpecimen("Windows 4", pixels: 20, bytes: bitmap(header(bits: 24, size: 108), pixels: zeros(64))),
    ImageSpecimen(
      "a colour table of OS/2 that is shorter than the depth can name", pixels: 20,
      bytes: bitmap(coreHeader(5, 4, bits: 8), between: zeros(9), pixels: zeros(32))),
    ImageSpecimen(
      "more colours than the depth can name", pixels: 20,
      bytes: bitmap(header(bits: 1, colours: 3), between: zeros(12), pixels: zeros(16))),
    ImageSpecimen(
      "bytes between header and pixels", pixels: 20,
      bytes: bitmap(header(bits: 24), between: zeros(7), pixels: zeros(64))),
    ImageSpecimen("runs of 8 bits", pixels: 20, bytes: runs([5, 1, 0, 0, 5, 0, 0, 1])),
    ImageSpecimen("no runs at all", pixels: 20, bytes: runs([0, 1])),
    ImageSpecimen(
      "literals, padded to an even number, and a delta to the last row", pixels: 20,
      bytes: runs([0, 3, 1, 2, 3, 0, 0, 2, 2, 3, 0, 1])),
    ImageSpecimen(
      "an end of each row", pixels: 20, bytes: runs([5, 1, 0, 0, 5, 1, 0, 0, 5, 1, 0, 0, 5, 1, 0, 0, 0, 1])),
    ImageSpecimen("a run beyond the end of its row", pixels: 20, bytes: runs([255, 1, 0, 1])),
    ImageSpecimen(
      "runs of 4 bits, with literals of an odd number", pixels: 20,
      bytes: runs([5, 0x12, 0, 5, 0x11, 0x22, 0x30, 0, 0, 1], bits: 4, compression: 2)),
    ImageSpecimen(
      "runs of 24 bits", pixels: 20,
      bytes: runs([5, 1, 2, 3, 0, 0, 0, 3, 1, 1, 1, 2, 2, 2, 3, 3, 3, 0, 0, 1], bits: 24, compression: 4, size: 64)),
  ]

  private static let faults = [
    FaultyImage("no header", octets("BM") + zeros(12), "expected 4 bytes of a DIB header size, found 0", at: 14),
    FaultyImage(
      "a header of 16 bytes", bitmap(littleEndian(16, 4) + zeros(12), pixels: []),
      "expected a DIB header of a known size, found 16 bytes", at: 14),
    FaultyImage(
      "half a header", Array(bitmap(header(bits: 24), pixels: []).prefix(50)),
      "expected 36 bytes of a DIB header, found 32", at: 18),
    FaultyImage(
      "no width", bitmap(header(0, 4, bits: 24), pixels: zeros(64)),
      "expected a width and a height above 0, found 0 x 4", at: 18),
    FaultyImage(
      "a negative width", bitmap(header(-5, 4, bits: 24), pixels: zeros(64)),
      "expected a width and a height above 0, found -5 x 4", at: 18),
    FaultyImage(
      "no height", bitmap(header(5, 0, bits: 24), pixels: zeros(64)),
      "expected a width and a height above 0, found 5 x 0", at: 18),
    FaultyImage(
      "many pixels", bitmap(header(60000, 60000, bits: 24), pixels: zeros(64)),
      "60000 x 60000 pixels, above the limit of 1000000", at: 18),
    FaultyImage(
      "the least of all heights", bitmap(header(0x7fff_ffff, -0x8000_0000, bits: 32), pixels: zeros(64)),
      "2147483647 x 2147483648 pixels, above the limit of 1000000", at: 18),
    FaultyImage(
      "two planes", bitmap(header(bits: 24, planes: 2), pixels: zeros(64)), "expected one plane, found 2", at: 14),
    FaultyImage(
      "a JPEG within", bitmap(header(bits: 0, compression: 4), pixels: zeros(64)),
      "expected a compression and a depth it goes with, found 4 and 0 bits", at: 14),
    FaultyImage(
      "pixels before their colour table",
      bitmap(header(bits: 8), between: zeros(1024), pixels: zeros(32), offset: 1077),
      "expected the pixels behind header and colour table at 1078, found 1077", at: 10),
    FaultyImage(
      "pixels before the masks",
      bitmap(header(bits: 32, compression: 3), between: masks(0xff0000, 0xff00, 0xff), pixels: zeros(80), offset: 54),
      "expected the pixels behind header and colour table at 66, found 54", at: 10),
    FaultyImage(
      "pixels behind the file", bitmap(header(bits: 24), pixels: zeros(64), offset: 119),
      "expected pixels within 118 bytes, found offset 119", at: 10),
    FaultyImage(
      "a row that is missing", bitmap(header(bits: 24), pixels: zeros(48)), "expected 64 bytes of pixels, found 48",
      at: 54),
    FaultyImage(
      "a colour table of four thousand million", bitmap(header(bits: 8, colours: 0xffff_ffff), pixels: zeros(64)),
      "expected 17179869180 bytes of a colour table, found 64", at: 54),
    FaultyImage(
      "a mask in two parts",
      bitmap(header(bits: 32, compression: 3), between: masks(0xff00ff, 0, 0), pixels: zeros(80)),
      "expected masks of connected bits apart from each other within 32 bits, found others", at: 54),
    FaultyImage(
      "masks that overlap", bitmap(header(bits: 32, compression: 3), between: masks(0xff, 0x180, 0), pixels: zeros(80)),
      "expected masks of connected bits apart from each other within 32 bits, found others", at: 58),
    FaultyImage(
      "a mask beyond the depth",
      bitmap(header(bits: 16, compression: 3), between: masks(0x1f0000, 0, 0), pixels: zeros(48)),
      "expected masks of connected bits apart from each other within 16 bits, found others", at: 54),
    FaultyImage(
      "half a mask", Array(bitmap(header(bits: 16, compression: 3), between: masks(1), pixels: [0, 0])),
      "expected 4 bytes of a mask, found 2", at: 58),
  ]

  private static let runFaults = [
    FaultyImage("no end of the bitmap", runs([5, 1, 0, 0]), "expected 1 byte of a run, found 0", at: 66),
    FaultyImage("half a run", runs([5]), "expected 1 byte of a run, found 0", at: 63),
    FaultyImage("half an escape", runs([0]), "expected 1 byte of an escape, found 0", at: 63),
    FaultyImage("half a delta", runs([0, 2, 1]), "expected 1 byte of a delta, found 0", at: 65),
    FaultyImage(
      "literals without padding", runs([0, 3, 1, 2, 3]), "expected 4 bytes of literal pixels, found 3", at: 64),
    FaultyImage(
      "a run behind the last row", runs([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1]),
      "expected pixels within 5 x 4, found some beyond",
      at: 70),
    FaultyImage(
      "literals behind the last row", runs([0, 2, 0, 4, 0, 3, 1, 2, 3, 0, 0, 1]),
      "expected pixels within 5 x 4, found some beyond", at: 66),
    FaultyImage(
      "an end of a row behind the last row", runs([0, 2, 0, 4, 0, 0, 0, 1]),
      "expected pixels within 5 x 4, found some beyond", at: 66),
    FaultyImage(
      "a delta below the last row", runs([0, 2, 0, 5, 0, 1]),
      "expected pixels within 5 x 4, found some beyond", at: 62),
    FaultyImage(
      "a delta beyond the end of its row", runs([3, 1, 0, 2, 3, 0, 0, 1]),
      "expected pixels within 5 x 4, found some beyond", at: 64),
    FaultyImage(
      "runs from the top", runs([0, 1], 5, -4),
      "expected run-length codes in a file and from the bottom, found them elsewhere",
      at: 14),
  ]

  @Test(arguments: specimens + made)
  func isAccepted(image: ImageSpecimen) { expectImage(image, behind: .accepted) }

  @Test(arguments: faults + runFaults)
  func isRefused(image: FaultyImage) { expectFault(image) }

  @Test func everyCompressionGoesWithItsDepthsOnly() {
    let legal: [Int: [Int]] = [0: [1, 4, 8, 16, 24, 32], 1: [8], 2: [4], 3: [16, 32], 6: [16, 32]]
    for compression in 0...16 {
      for bits in 0...64 {
        let header = Self.header(bits: bits, compression: compression, colours: 1, size: 108)
        let bytes = Self.bitmap(header, between: Self.zeros(4), pixels: [0, 1] + Self.zeros(300))
        let isLegal = (legal[compression] ?? []).contains(bits)
        #expect((checkImage(bytes) == nil) == isLegal, "\(compression), \(bits)")
      }
    }
    for bits in 0...64 {
      let bytes = Self.bitmap(Self.coreHeader(5, 4, bits: bits), between: Self.zeros(768), pixels: Self.zeros(300))
      #expect((checkImage(bytes) == nil) == [1, 4, 8, 24].contains(bits), "\(bits)")
    }
  }

  /// Rows are padded to four bytes: exactly the bytes of all rows are asked for, at each width and depth.
  @Test func pixelsAreCountedToTheByte() {
    for bits in [1, 4, 8, 16, 24, 32] {
      for width in 1...70 {
        let row = (width * bits + 7) / 8
        let bytes = (row + 3) / 4 * 4 * 3
        let header = Self.header(width, 3, bits: bits, colours: 1)
        let table = bits <= 8 ? Self.zeros(4) : []
        #expect(checkImage(Self.bitmap(header, between: table, pixels: Self.zeros(bytes))) == nil)
        #expect(checkImage(Self.bitmap(header, between: table, pixels: Self.zeros(bytes - 1))) != nil)
      }
    }
  }
}

// WebP: images of Pillow (libwebp) and cwebp, and files put together from chunks.

import Images
import TestSupport
import Testing

@Suite struct ImageWebPTests {
  private static let specimens = [
    ImageSpecimen(
      "lossy", pixels: 20,
      """
      UklGRkIAAABXRUJQVlA4IDYAAADQAQCdASoFAAQABABoJbACdAEO+mGsAAD+wdXZy94k/h2dvfzDdoD0TDcgP4NwxvcD77bgAAA=
      """),
    ImageSpecimen(
      "lossless", pixels: 20,
      "UklGRiwAAABXRUJQVlA4TB8AAAAvBMAAALkyRPQ/dhHR/4BAIAlsf7QZRmYiIiBJQZIHAA=="),
    ImageSpecimen(
      "lossy with alpha", pixels: 20,
      """
      UklGRmYAAABXRUJQVlA4WAoAAAAQAAAABAAAAwAAQUxQSAoAAAABB1DAiAhERP8DVlA4IDYAAADQAQCdASoFAAQABABoJbACdAEO+mGsAAD+wdXZ
      y94k/h2dvfzDdoD0TDcgP4NwxvcD77bgAAA=
      """),
    ImageSpecimen(
      "lossy with varied alpha", pixels: 20,
      """
      UklGRnYAAABXRUJQVlA4WAoAAAAQAAAABAAAAwAAQUxQSBUAAAARuYzof4Ag22YARbq/2hUiJiAKMA8AVlA4IDoAAADQAQCdASoFAAQABABoJbAC
      dH8AFZIQsAD+qhp9TOomT1r7Xwz+HlLPknBYSta4bA/g3DG+Ms/gQAAA
      """),
    ImageSpecimen(
      "lossless with alpha", pixels: 20,
      "UklGRjQAAABXRUJQVlA4TCcAAAAvBMAAELkyRPQ/dhHR/zAQZNsM7P5oZ9hGZiKEBGSIbpIAqWqMqA8A"),
    ImageSpecimen(
      "lossless with a profile, Exif and XMP", pixels: 20,
      """
      UklGRmIAAABXRUJQVlA4WAoAAAAsAAAABAAAAwAASUNDUAMAAABhYmMAVlA4TBkAAAAvBMAAAA8w//M///MfeBDTkCmniSCi/4EHAEVYSUYKAAAA
      SUkqAAgAAAAAAFhNUCAEAAAAPHgvPg==
      """),
    ImageSpecimen(
      "an animation", pixels: 20,
      """
      UklGRlABAABXRUJQVlA4WAoAAAASAAAABAAAAwAAQU5JTQYAAAAAAAAAAABBTk1GXAAAAAAAAAAAAAQAAAMAADIAAAJWUDhMRAAAAC8EwAAAnyAQ
      SPFgITwyBgGmmUIKKaSQS053utP8RwgAOBAE+cMw7IcgiA9FUVDYtpEaOsbnj+h/gMQ4qDkvWa3H3vsDQU5NRlwAAAAAAAAAAAAEAAADAAAyAAAA
      VlA4TEMAAAAvBMAAEIcgEEjxYCEsEEhxTDNtkG2kKYxlCufytO80/xGEAIADQugfIeQOwzBQ2LaRGuoxPkT0P07B6Dac3yDkL1IBAEFOTUZcAAAA
      AAAAAAAABAAAAwAAMgAAAFZQOExEAAAALwTAAACfIBBI8WAhPDIGAaaZQgoppJBLTne60/xHCAA4EAT5wzDshyCID0VRUNi2kRo6xueP6H/83c5v
      ldGdqXhGCAA=
      """),
    ImageSpecimen(
      "a lossy animation with alpha", pixels: 20,
      """
      UklGRhYBAABXRUJQVlA4WAoAAAASAAAABAAAAwAAQU5JTQYAAAAAAAAAAABBTk1GcAAAAAAAAAAAAAQAAAMAADIAAAJBTFBIFQAAAAQADAwMDDwM
      DAwMPAwMDAw8DAwMDABWUDggOgAAAFABAJ0BKgUABAAHQJYlsAAFjAAA/tQo/O+6/X3pfrn/bCv5PnJ85Xd2398t3oNB3mT2GovHWigAAABBTk1G
      cgAAAAAAAAAAAAQAAAMAADIAAAJBTFBIFQAAAATk9PT09MT09PT0xPT09PTE9PT09ABWUDggPAAAAFABAJ0BKgUABAAHQJYlsAAEdAAA/uNQC+Pj
      2ekBjmdhtT5SiUeiCTV6WbdX9DUfwPjcvXXI7pmx5BgAAA==
      """),
    ImageSpecimen(
      "lossy, from cwebp", pixels: 20,
      """
      UklGRjwAAABXRUJQVlA4IDAAAACwAQCdASoFAAQABUB8JbACdAEO/gLsAP6sZQwaaPDrwobW49lWkKawA7Q8jzF/AAA=
      """),
  ]

  // MARK: Files made here

  private static func chunk(_ name: String, _ payload: [UInt8] = []) -> [UInt8] {
    octets(name) + littleEndian(payload.count, 4) + payload + (payload.count % 2 == 0 ? [] : [0])
  }

  private static func webP(_ chunks: [UInt8]...) -> [UInt8] {
    let content = octets("WEBP") + chunks.flatMap { $0 }
    return octets("RIFF") + littleEndian(content.count, 4) + content
  }

  private static func lossless(_ width: Int = 5, _ height: Int = 4, version: Int = 0) -> [UInt8] {
    chunk("VP8L", [0x2f] + littleEndian(width - 1 | (height - 1) << 14 | version << 29, 4) + [1, 2])
  }

  /// A key frame that is shown, with a first partition of two bytes.
  private static func lossy(_ width: Int = 5, _ height: Int = 4, tag: Int = 2 << 5 | 1 << 4) -> [UInt8] {
    chunk(
      "VP8 ", littleEndian(tag, 3) + [0x9d, 0x01, 0x2a] + littleEndian(width, 2) + littleEndian(height, 2) + [1, 2])
  }

  private static func canvas(_ width: Int = 5, _ height: Int = 4, flags: UInt8 = 0) -> [UInt8] {
    chunk("VP8X", [flags, 0, 0, 0] + littleEndian(width - 1, 3) + littleEndian(height - 1, 3))
  }

  private static func frame(
    _ width: Int = 5, _ height: Int = 4, at left: Int = 0, _ top: Int = 0, _ chunks: [UInt8]...
  ) -> [UInt8] {
    let numbers = [left, top, width - 1, height - 1].flatMap { littleEndian($0, 3) }
    return chunk("ANMF", numbers + [10, 0, 0, 0] + chunks.flatMap { $0 })
  }

  private static let animated: UInt8 = 0x02
  private static let animation = chunk("ANIM", [0, 0, 0, 0, 0, 0])
  private static let alpha = chunk("ALPH", [0, 9])

  private static let made = [
    ImageSpecimen("the smallest lossless", pixels: 20, bytes: webP(lossless())),
    ImageSpecimen("the smallest lossy", pixels: 20, bytes: webP(lossy())),
    ImageSpecimen("a lossy image with a scale", pixels: 20, bytes: webP(lossy(5 | 0x4000, 4 | 0xc000))),
    ImageSpecimen("unknown chunks behind an image", pixels: 20, bytes: webP(lossless(), chunk("abcd", [1]))),
    ImageSpecimen("a canvas with an image", pixels: 20, bytes: webP(canvas(), lossless())),
    ImageSpecimen(
      "everything there is, and unknown chunks between", pixels: 20,
      bytes: webP(
        canvas(flags: 0x3c), chunk("ICCP", [1]), chunk("abcd"), alpha, chunk("abcd"), lossy(), chunk("EXIF", [1]),
        chunk("XMP ", [2]), chunk("abcd"))),
    ImageSpecimen("flags without what they announce", pixels: 20, bytes: webP(canvas(flags: 0xfd), lossless())),
    ImageSpecimen("metadata before the image", pixels: 20, bytes: webP(canvas(), chunk("EXIF", [1]), lossless())),
    ImageSpecimen(
      "frames that touch each side of the canvas", pixels: 20,
      bytes: webP(
        canvas(flags: animated), chunk("ICCP"), animation, frame(1, 2, at: 2, 1, lossless(1, 2)),
        frame(5, 4, at: 0, 0, alpha, lossy(), chunk("abcd")), chunk("EXIF"), frame(3, 4, at: 1, 0, lossy(3, 4)))),
  ]

  private static let faults = [
    FaultyImage("no chunk", webP(), "expected 4 bytes of a chunk name, found 0", at: 12),
    FaultyImage(
      "a file size that is odd", webP(lossless()).replacing(4, [0x15, 0, 0, 0]),
      "expected an even file size of at least 4, found 21", at: 4),
    FaultyImage(
      "a file size below the form", webP(lossless()).replacing(4, [2, 0, 0, 0]),
      "expected an even file size of at least 4, found 2", at: 4),
    FaultyImage(
      "a file size beyond the file", webP(lossless()).replacing(4, [0xfe, 0xff, 0xff, 0xff]),
      "expected 4294967294 bytes as the file size says, found 20", at: 4),
    FaultyImage(
      "bytes behind the file", webP(lossless()) + [0, 0],
      "expected the end of the image as the file size says, found more", at: 28),
    FaultyImage(
      "another first chunk", webP(chunk("EXIF"), lossless()),
      "expected VP8, VP8L or VP8X as the first chunk, found 'EXIF'", at: 12),
    FaultyImage(
      "alpha first", webP(alpha, lossy()), "expected VP8, VP8L or VP8X as the first chunk, found 'ALPH'", at: 12),
    FaultyImage(
      "a chunk beyond the file", webP(lossless()).replacing(16, [9, 0, 0, 0]), "expected 9 bytes of a chunk, found 8",
      at: 20),
    FaultyImage(
      "a chunk as large as can be written", webP(lossless()).replacing(16, [0xff, 0xff, 0xff, 0xff]),
      "expected 4294967295 bytes of a chunk, found 8", at: 20),
    FaultyImage("a second image", webP(lossless(), lossy()), "expected chunks in their order, found 'VP8 '", at: 28),
    FaultyImage(
      "a canvas behind an image", webP(lossless(), canvas()), "expected chunks in their order, found 'VP8X'", at: 28),
  ]

  private static let bitstreamFaults = [
    FaultyImage(
      "another lossless signature", webP(lossless()).replacing(20, [0x2e]),
      "expected the signature 2f, found another byte", at: 20),
    FaultyImage("a lossless version 1", webP(lossless(version: 1)), "expected the version 0, found 1", at: 24),
    FaultyImage(
      "a lossless header alone", webP(chunk("VP8L", [0x2f, 4, 0xc0, 0, 0])), "expected image data in VP8L, found none",
      at: 25),
    FaultyImage(
      "half a lossless header", webP(chunk("VP8L", [0x2f, 4])), "expected 4 bytes of dimensions, found 1", at: 21),
    FaultyImage(
      "many lossless pixels", webP(lossless(16384, 16384)), "16384 x 16384 pixels, above the limit of 1000000", at: 21),
    FaultyImage(
      "an interframe", webP(lossy(tag: 2 << 5 | 1 << 4 | 1)),
      "expected a key frame that is shown, of profile 0 to 3, found another", at: 20),
    FaultyImage(
      "a profile 4", webP(lossy(tag: 2 << 5 | 1 << 4 | 4 << 1)),
      "expected a key frame that is shown, of profile 0 to 3, found another", at: 20),
    FaultyImage(
      "a frame that is not shown", webP(lossy(tag: 2 << 5)),
      "expected a key frame that is shown, of profile 0 to 3, found another", at: 20),
    FaultyImage(
      "another start code", webP(lossy()).replacing(24, [0]), "expected the start code 9d 01 2a, found other bytes",
      at: 23),
    FaultyImage(
      "a partition beyond the chunk", webP(lossy(tag: 3 << 5 | 1 << 4)),
      "expected a first partition of 3 bytes, found 2", at: 20),
    FaultyImage("no lossy width", webP(lossy(0, 4)), "expected a width and a height above 0, found 0 x 4", at: 26),
    FaultyImage("no lossy height", webP(lossy(5, 0)), "expected a width and a height above 0, found 5 x 0", at: 26),
    FaultyImage(
      "many lossy pixels", webP(lossy(16383, 16383)), "16383 x 16383 pixels, above the limit of 1000000", at: 26),
    FaultyImage(
      "an unknown compression of alpha", webP(canvas(), chunk("ALPH", [2, 9]), lossy()),
      "expected an alpha compression of 0 or 1, found 2", at: 38),
    FaultyImage(
      "alpha without data", webP(canvas(), chunk("ALPH", [0]), lossy()), "expected 1 byte of alpha data, found 0",
      at: 39),
  ]

  private static let canvasFaults = [
    FaultyImage(
      "half a canvas", webP(chunk("VP8X", [0, 0, 0, 0, 4, 0])), "expected 3 bytes of a canvas width, found 2", at: 24),
    FaultyImage(
      "a canvas that is too long", webP(chunk("VP8X", [0, 0, 0, 0, 4, 0, 0, 3, 0, 0, 0]), lossless()),
      "expected the end of VP8X, found 1 byte more", at: 30),
    FaultyImage(
      "a canvas of many pixels", webP(canvas(1 << 24, 1 << 24), lossless()),
      "16777216 x 16777216 pixels, above the limit of 1000000", at: 24),
    FaultyImage("a canvas without an image", webP(canvas()), "expected VP8 or VP8L, found the end", at: 30),
    FaultyImage("alpha without an image", webP(canvas(), alpha), "expected VP8 or VP8L, found the end", at: 40),
    FaultyImage(
      "an image of other dimensions", webP(canvas(), lossless(5, 5)),
      "expected a bitstream of 5 x 4 pixels, found 5 x 5", at: 46),
    FaultyImage(
      "alpha twice", webP(canvas(), alpha, alpha, lossy()), "expected chunks in their order, found 'ALPH'", at: 40),
    FaultyImage(
      "alpha of a lossless image", webP(canvas(), alpha, lossless()), "expected chunks in their order, found 'VP8L'",
      at: 40),
    FaultyImage(
      "alpha behind the image", webP(canvas(), lossy(), alpha), "expected chunks in their order, found 'ALPH'", at: 50),
    FaultyImage(
      "a profile behind the image", webP(canvas(), lossless(), chunk("ICCP")),
      "expected chunks in their order, found 'ICCP'", at: 46),
    FaultyImage(
      "two images on a canvas", webP(canvas(), lossless(), lossless()), "expected chunks in their order, found 'VP8L'",
      at: 46),
    FaultyImage(
      "an animation that the flags do not announce", webP(canvas(), animation),
      "expected chunks in their order, found 'ANIM'", at: 30),
  ]

  private static let animationFaults = [
    FaultyImage(
      "no frame", webP(canvas(flags: animated), animation), "expected a frame of the animation, found the end", at: 44),
    FaultyImage(
      "a frame before ANIM", webP(canvas(flags: animated), frame(5, 4, at: 0, 0, lossless()), animation),
      "expected chunks in their order, found 'ANMF'", at: 30),
    FaultyImage(
      "ANIM twice", webP(canvas(flags: animated), animation, animation), "expected chunks in their order, found 'ANIM'",
      at: 44),
    FaultyImage(
      "ANIM of four bytes", webP(canvas(flags: animated), chunk("ANIM", [0, 0, 0, 0])),
      "expected ANIM of 6 bytes, found 4", at: 30),
    FaultyImage(
      "a profile behind ANIM", webP(canvas(flags: animated), animation, chunk("ICCP")),
      "expected chunks in their order, found 'ICCP'", at: 44),
    FaultyImage(
      "an image besides the frames", webP(canvas(flags: animated), animation, lossless()),
      "expected chunks in their order, found 'VP8L'", at: 44),
    FaultyImage(
      "half a frame", webP(canvas(flags: animated), animation, chunk("ANMF", [0, 0, 0, 0, 0, 0, 4, 0])),
      "expected 3 bytes of a frame width, found 2", at: 58),
    FaultyImage(
      "a frame without an image", webP(canvas(flags: animated), animation, frame()),
      "expected VP8 or VP8L, found the end", at: 68),
    FaultyImage(
      "a frame that is too wide", webP(canvas(flags: animated), animation, frame(4, 4, at: 1, 0, lossless(4, 4))),
      "expected a frame within the canvas of 5 x 4, found 4 x 4 at (2, 0)", at: 52),
    FaultyImage(
      "a frame that is too high", webP(canvas(flags: animated), animation, frame(5, 3, at: 0, 1, lossless(5, 3))),
      "expected a frame within the canvas of 5 x 4, found 5 x 3 at (0, 2)", at: 52),
    FaultyImage(
      "a frame of many pixels", webP(canvas(flags: animated), animation, frame(1 << 24, 1 << 24, at: 0, 0, lossless())),
      "expected a frame within the canvas of 5 x 4, found 16777216 x 16777216 at (0, 0)", at: 52),
    FaultyImage(
      "a frame with an image of other dimensions",
      webP(canvas(flags: animated), animation, frame(5, 4, at: 0, 0, lossless(4, 4))),
      "expected a bitstream of 5 x 4 pixels, found 4 x 4", at: 84),
    FaultyImage(
      "a frame with two images", webP(canvas(flags: animated), animation, frame(5, 4, at: 0, 0, lossy(), lossy())),
      "expected chunks in their order, found 'VP8 '", at: 88),
    FaultyImage(
      "a chunk beyond its frame",
      webP(canvas(flags: animated), animation, frame(5, 4, at: 0, 0, lossless().dropLast(2)), chunk("abcd")),
      "expected 7 bytes of a chunk, found 6", at: 76),
  ]

  @Test(arguments: specimens + made)
  func isAccepted(image: ImageSpecimen) { expectImage(image, behind: .refused) }

  @Test(arguments: faults + bitstreamFaults)
  func isRefused(image: FaultyImage) { expectFault(image) }

  @Test(arguments: canvasFaults + animationFaults)
  func isRefusedForItsCanvas(image: FaultyImage) { expectFault(image) }
}

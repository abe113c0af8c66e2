// ICO and CUR: icons of Pillow, ImageMagick and netpbm, and icons put together from a directory and images.

import Images
import TestSupport
import Testing

@Suite struct ImageICOTests {
  private static let specimens = [
    ImageSpecimen(
      "a PNG", pixels: 256,
      """
      AAABAAEAEBAAAAAAIAD0AAAAFgAAAIlQTkcNChoKAAAADUlIRFIAAAAQAAAAEAgGAAAAH/P/YQAAALtJREFUeJylk+EKgzAMhD+7ULQUEZ94j74f
      ti49UxisEKJN7nrG6wK8ATbgAM6WZ9HrBchA4s9lvHRrCdqic1IjqApMErrH8Gyco6AreoMF2WYEHtTH43N2tS+JcUQKTECre18HJcaugzFp7tlH
      rw8K0oSkOGBxcan4QUFxubqcG8F0BtGpewPXexaTv6Dg2sA+rlkEPsg8P6E6klMIbid6txnP6StRJ1iR5R2nnshCmLHxnni/R6rU0sYHskIGKhRe
      HkYAAAAASUVORK5CYII=
      """),
    ImageSpecimen(
      "a bitmap", pixels: 64,
      """
      AAABAAEACAgAAAAAIAAoAQAAFgAAACgAAAAIAAAAEAAAAAEAIAAAAAAAAAEAAMQOAADEDgAAAAAAAAAAAAAAuQCAEbkRgDm5NYBXuVOAeblzgJm5
      kYC/ubWA1bnLgACpAIAPqRGAM6k1gFGpU4BvqXOAjamRgK+ptYDDqcuAAIkAgA2JEYApiTWAQYlTgFmJc4BxiZGAjYm1gJ2Jy4AAaQCACWkRgB9p
      NYAxaVOAQ2lzgFdpkYBrabWAd2nLgABLAIAHSxGAF0s1gCNLU4AxS3OAPUuRgE1LtYBXS8uAACkAgAMpEYANKTWAEylTgBspc4AjKZGAKym1gDEp
      y4AACQCAAQkRgAMJNYADCVOABQlzgAcJkYAJCbWACwnLgAAAAIAAABGAAAA1gAAAU4AAAHOAAACRgAAAtYAAAMuA
      """),
    ImageSpecimen(
      "two PNGs", pixels: 256,
      """
      AAABAAIACAgAAAAAIAChAAAAJgAAABAQAAAAACAA9AAAAMcAAACJUE5HDQoaCgAAAA1JSERSAAAACAAAAAgIBgAAAMQPvosAAABoSURBVHicZc/B
      CsIwEIThrxJLDEFDKaWHHkrwQX10LxsouvCzsDMsMxM+L7xxXujYkDzETLj9kXS4I2OOnVGQJKdwF1Q8LxTJMQw5jkuwof5+aCHsONBGhvliWEPs
      WCVttBgBa9Cw+AJtPwRMwgavEgAAAABJRU5ErkJggolQTkcNChoKAAAADUlIRFIAAAAQAAAAEAgGAAAAH/P/YQAAALtJREFUeJylk+EKgzAMhD+7
      ULQUEZ94j74fti49UxisEKJN7nrG6wK8ATbgAM6WZ9HrBchA4s9lvHRrCdqic1IjqApMErrH8Gyco6AreoMF2WYEHtTH43N2tS+JcUQKTECre18H
      JcaugzFp7tlHrw8K0oSkOGBxcan4QUFxubqcG8F0BtGpewPXexaTv6Dg2sA+rlkEPsg8P6E6klMIbid6txnP6StRJ1iR5R2nnshCmLHxnni/R6rU
      0sYHskIGKhReHkYAAAAASUVORK5CYII=
      """),
    ImageSpecimen(
      "a bitmap of four bits, from netpbm", pixels: 16,
      """
      AAABAAEABAQQAAEABACIAAAAFgAAACgAAAAEAAAACAAAAAEABAAAAAAAIAAAAAAAAAAAAAAAEAAAAAAAAABvloMAAABkACI8ZAAGlgcAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAMAAAADIAAAAyIgAAEREAAAAAAAAAAAAAAAAAAAAAAAA=
      """),
    ImageSpecimen(
      "a bitmap and another, from ImageMagick", pixels: 16,
      """
      AAABAAIABAQAAAEAIAB4AAAAJgAAAAQEAgABAAEAUAAAAJ4AAAAoAAAABAAAAAgAAAABACAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA////
      ////////AAAA/wAAAP////////////////8AAAD/AAAA//////8AAAD/AAAA/wAAAP8AAAD/AAAA/wAAAAAAAAAAAAAAAAAAAAAoAAAABAAAAAgA
      AAABAAEAAAAAABAAAAAAAAAAAAAAAAIAAAACAAAAAAAAAP///wBgAAAAcAAAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==
      """),
  ]

  // MARK: Icons made here

  private static func entry(_ size: Int, at offset: Int) -> [UInt8] {
    [5, 4, 0, 0, 1, 0, 32, 0] + littleEndian(size, 4) + littleEndian(offset, 4)
  }

  /// A directory with the images behind it.
  private static func icon(_ images: [UInt8]..., type: UInt8 = 1) -> [UInt8] {
    var directory: [UInt8] = [0, 0, type, 0] + littleEndian(images.count, 2)
    var offset = 6 + 16 * images.count
    for image in images {
      directory += entry(image.count, at: offset)
      offset += image.count
    }
    return directory + images.flatMap { $0 }
  }

  /// A bitmap of 5 x 4 pixels, whose header says twice the height.
  private static func bitmap(
    bits: Int, colours: Int = 0, height: Int = 8, compression: Int = 0, planes: Int = 1, bytes: Int
  ) -> [UInt8] {
    littleEndian(40, 4) + littleEndian(5, 4) + littleEndian(height, 4) + littleEndian(planes, 2)
      + littleEndian(bits, 2) + littleEndian(compression, 4) + zeros(12) + littleEndian(colours, 4) + zeros(4 + bytes)
  }

  private static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

  /// Of 5 x 4 pixels.
  private static let png = decodeBase64(
    """
    iVBORw0KGgoAAAANSUhEUgAAAAUAAAAECAAAAABjWKqcAAAAIElEQVR4nGNk4Ofn52dUFhQUFGRRFhYWFmZREREVFQUAEQ4BlJ86
    BqsAAAAASUVORK5CYII=
    """)

  private static let made = [
    ImageSpecimen("24 bits and a mask", pixels: 20, bytes: icon(bitmap(bits: 24, bytes: 64 + 16))),
    ImageSpecimen("32 bits without a mask", pixels: 20, bytes: icon(bitmap(bits: 32, bytes: 80))),
    ImageSpecimen("no planes", pixels: 20, bytes: icon(bitmap(bits: 32, planes: 0, bytes: 80))),
    ImageSpecimen("all colours of one bit", pixels: 20, bytes: icon(bitmap(bits: 1, bytes: 8 + 16 + 16))),
    ImageSpecimen(
      "three colours of four bits", pixels: 20, bytes: icon(bitmap(bits: 4, colours: 3, bytes: 12 + 16 + 16))),
    ImageSpecimen(
      "masks of colours", pixels: 20,
      bytes: icon(
        bitmap(bits: 16, compression: 3, bytes: 12 + 48 + 16).replacing(
          40, [0xf, 0, 0, 0, 0xf0, 0, 0, 0, 0, 0xf, 0, 0]))),
    ImageSpecimen("rows from the top", pixels: 20, bytes: icon(bitmap(bits: 24, height: -8, bytes: 64 + 16))),
    ImageSpecimen(
      "a cursor, its images in another order than its entries, a byte between", pixels: 20,
      bytes: [0, 0, 2, 0, 2, 0] + entry(120, at: 159) + entry(120, at: 38) + bitmap(bits: 32, bytes: 80) + [9]
        + bitmap(bits: 32, bytes: 80)),
  ]

  private static let faults = [
    FaultyImage("no number of images", [0, 0, 1, 0, 1, 0, 0, 0], "expected 16 bytes of the directory, found 2", at: 6),
    FaultyImage("no image", [0, 0, 1, 0, 0, 0, 0, 0], "expected at least one image, found 0", at: 4),
    FaultyImage(
      "as many images as can be written", [0, 0, 1, 0, 0xff, 0xff] + zeros(64),
      "expected 1048560 bytes of the directory, found 64", at: 6),
    FaultyImage(
      "an image within the directory", [0, 0, 1, 0, 1, 0] + entry(120, at: 21) + bitmap(bits: 32, bytes: 80),
      "expected images behind the directory and apart from each other, found 120 bytes at offset 21", at: 6),
    FaultyImage(
      "an image beyond the file", [0, 0, 1, 0, 1, 0] + entry(120, at: 23) + bitmap(bits: 32, bytes: 80),
      "expected an image within 142 bytes, found 120 bytes at offset 23", at: 18),
    FaultyImage(
      "an image far away", [0, 0, 1, 0, 1, 0] + entry(120, at: 0xffff_ffff) + bitmap(bits: 32, bytes: 80),
      "expected an image within 142 bytes, found 120 bytes at offset 4294967295", at: 18),
    FaultyImage(
      "an image that is too large", [0, 0, 1, 0, 1, 0] + entry(0xffff_ffff, at: 22) + bitmap(bits: 32, bytes: 80),
      "expected images behind the directory and apart from each other, found 4294967295 bytes at offset 22", at: 6),
    FaultyImage(
      "two entries for one image",
      [0, 0, 1, 0, 2, 0] + entry(120, at: 38) + entry(120, at: 38) + bitmap(bits: 32, bytes: 80),
      "expected images behind the directory and apart from each other, found 120 bytes at offset 38", at: 22),
    FaultyImage("an empty image", icon([]), "expected 4 bytes of a DIB header size, found 0", at: 22),
    FaultyImage(
      "another header", icon([41] + zeros(60)), "expected a DIB header of a known size, found 41 bytes", at: 22),
    FaultyImage(
      "pixels that are cut short", icon(bitmap(bits: 24, bytes: 63)), "expected 64 bytes of pixels, found 63", at: 62),
    FaultyImage(
      "a mask that is cut short", icon(bitmap(bits: 24, bytes: 79)), "expected 16 bytes of a mask, found 15", at: 126),
    FaultyImage(
      "a colour table that is cut short", icon(bitmap(bits: 8, bytes: 1000)),
      "expected 1024 bytes of a colour table, found 1000", at: 62),
    FaultyImage(
      "a height of one row, mask included", icon(bitmap(bits: 24, height: 1, bytes: 80)),
      "expected a width and a height above 0, found 5 x 0", at: 26),
    FaultyImage(
      "run-length codes", icon(bitmap(bits: 8, compression: 1, bytes: 1200)),
      "expected run-length codes in a file and from the bottom, found them elsewhere", at: 22),
    FaultyImage(
      "many pixels", icon(bitmap(bits: 32, bytes: 80).replacing(4, littleEndian(60000, 4) + littleEndian(120_000, 4))),
      "60000 x 60000 pixels, above the limit of 1000000", at: 26),
    FaultyImage(
      "a PNG with a fault", icon(bitmap(bits: 32, bytes: 80), png.replacing(29, [0])),
      "expected the CRC 0x6358aa9c of the chunk 'IHDR', found 0x58aa9c", at: 187),
    FaultyImage(
      "a PNG with another signature", icon(png.replacing(4, [0x0a])),
      "expected a PNG signature, found other bytes", at: 22),
    FaultyImage(
      "a PNG that ends before its entry", icon(png + [0]),
      "expected the end of the image behind IEND, found 1 byte more", at: 111),
    FaultyImage(
      "a PNG that ends behind its entry", [0, 0, 1, 0, 1, 0] + entry(png.count - 1, at: 22) + png,
      "expected 4 bytes of a CRC, found 3", at: 107),
  ]

  @Test(arguments: specimens + made)
  func isAccepted(image: ImageSpecimen) { expectImage(image, behind: .accepted) }

  /// A cursor differs from an icon by its type, and by what its entries say, which nobody reads.
  @Test(arguments: specimens)
  func isAcceptedAsACursor(image: ImageSpecimen) { #expect(checkImage(image.bytes.replacing(2, [2])) == nil) }

  @Test(arguments: faults)
  func isRefused(image: FaultyImage) { expectFault(image) }
}

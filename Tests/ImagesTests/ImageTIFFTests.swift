// TIFF and BigTIFF: images of Pillow and libtiff, and files put together from directories.

import Bytes
import Images
import TestSupport
import Testing

@Suite struct ImageTIFFTests {
  private static let specimens = [
    ImageSpecimen(
      "one strip", pixels: 20,
      """
      SUkqAAgAAAAJAAABBAABAAAABQAAAAEBBAABAAAABAAAAAIBAwABAAAACAAAAAMBAwABAAAAAQAAAAYBAwABAAAAAQAAABEBBAABAAAAegAAABYB
      BAABAAAABAAAABcBBAABAAAAFAAAABwBAwABAAAAAQAAAAAAAAAADx4tPCM0RVZnRllsf5JqfpOovQ==
      """),
    ImageSpecimen(
      "LZW, of libtiff", pixels: 20,
      """
      SUkqAEYAAACAACBDKBGSBJaBMiBAAeAAZDwImQeCJLDwZsgeEQAHiHHgRGQ8ERLHgzMg8IgALSHLQZmRaGZLLRMshaMyAgoAAAEDAAEAAAAFAAAA
      AQEDAAEAAAAEAAAAAgEDAAMAAADEAAAAAwEDAAEAAAAFAAAABgEDAAEAAAACAAAAEQEEAAEAAAAIAAAAFQEDAAEAAAADAAAAFgEDAAEAAAAEAAAA
      FwEEAAEAAAA+AAAAHAEDAAEAAAABAAAAAAAAAAgACAAIAA==
      """),
    ImageSpecimen(
      "fax codes", pixels: 20,
      """
      SUkqABAAAACEoQV9QAQAQAkAAAEDAAEAAAAFAAAAAQEDAAEAAAAEAAAAAgEDAAEAAAABAAAAAwEDAAEAAAAEAAAABgEDAAEAAAABAAAAEQEEAAEA
      AAAIAAAAFgEDAAEAAAAEAAAAFwEEAAEAAAAIAAAAHAEDAAEAAAABAAAAAAAAAA==
      """),
    ImageSpecimen(
      "big-endian, a row in a strip", pixels: 20,
      """
      TU0AKgAAABwADx4tPCM0RVZnRllsf5JqfpOovQAKAQAAAwAAAAEABQAAAQEAAwAAAAEABAAAAQIAAwAAAAEACAAAAQMAAwAAAAEAAQAAAQYAAwAA
      AAEAAQAAAREABAAAAAQAAACiARIAAwAAAAEAAQAAARYAAwAAAAEAAQAAARcAAwAAAAQAAACaARwAAwAAAAEAAQAAAAAAAAAFAAUABQAFAAAACAAA
      AA0AAAASAAAAFw==
      """),
    ImageSpecimen(
      "tiles", pixels: 360,
      """
      SUkqAGABAAB4nNXKMQ3AMAwAQVMohUBwVo+FYgWDkVgqDwPs9jWBSsnrxpeWNt5ks91vH7ULbgNpE8f/IdAY8LiRsbDdXwKtCa+FrAd//y/9V8CR
      eJzVyjENwDAMAMFQKIVAcFaPgWIFgyEUgaXyMIgMBdWprxColEo33ixlvmRhi1jM3b52iB4wrQht+P33E+IV5h3hA9v9vCHZYDkQeeHr/wCKUgoA
      eJzV0jENwDAMRNGjUAqB4KweA8UKBkMoAkvlYRAdCqpTTxmboVIjvfGPHwk8JCtZdoo8CJP9CZAMbBCD6V4biW5kWii00vK97yReyLxReKff9XnR
      q38+7m9UgiPQeJw7seXMCRgy2mIMRylb0uBo2paZcHSCVPUMDHBkhIRSkNA0JESyehsXODKyEYSjFBslOJpmYwxHQ159RQccGVUowVFKhQscTatI
      g6NBp57W6Y1E9QDCDjBwAAwAAAEDAAEAAAAUAAAAAQEDAAEAAAASAAAAAgEDAAMAAAD2AQAAAwEDAAEAAAAIAAAABgEDAAEAAAACAAAAEgEDAAEA
      AAABAAAAFQEDAAEAAAADAAAAHAEDAAEAAAABAAAAQgEDAAEAAAAQAAAAQwEDAAEAAAAQAAAARAEEAAQAAAAEAgAARQEDAAQAAAD8AQAAAAAAAAgA
      CAAIAEwAVABdAFoACAAAAFQAAACoAAAABQEAAA==
      """),
    ImageSpecimen(
      "tiles, big-endian, a plane for each colour", pixels: 256,
      """
      TU0AKgAAAFx4nGMwSpl2ggEJkMof4gAA/moH0XicY0ADNjY2NjZI/IqKiooKJP6WLVu2bGEYPgAA9LsHCXicY0AHgkrGLsh8JZe0DmS+cdrMMwzD
      BwAAXHkD/QAADAEAAAMAAAABAAUAAAEBAAMAAAABAAQAAAECAAMAAAADAAAA8gEDAAMAAAABAAgAAAEGAAMAAAABAAIAAAESAAMAAAABAAEAAAEV
      AAMAAAABAAMAAAEcAAMAAAABAAIAAAFCAAMAAAABABAAAAFDAAMAAAABABAAAAFEAAQAAAADAAAA/gFFAAMAAAADAAAA+AAAAAAACAAIAAgAFAAh
      AB4AAAAIAAAAHAAAAD0=
      """),
    ImageSpecimen(
      "a plane for each colour", pixels: 20,
      """
      SUkqAEQAAAAAMmSWyAAyZJbIADJklsgAMmSWyAAAAAAAPDw8PDx4eHh4eLS0tLS0AAAAAAAAESIzRAAiRGaIADNmmcwLAAABAwABAAAABQAAAAEB
      AwABAAAABAAAAAIBAwADAAAAzgAAAAMBAwABAAAAAQAAAAYBAwABAAAAAgAAABEBBAAGAAAA4AAAABIBAwABAAAAAQAAABUBAwABAAAAAwAAABYB
      AwABAAAAAgAAABcBAwAGAAAA1AAAABwBAwABAAAAAgAAAAAAAAAIAAgACAAKAAoACgAKAAoACgAIAAAAEgAAABwAAAAmAAAAMAAAADoAAAA=
      """),
    ImageSpecimen(
      "BigTIFF", pixels: 20,
      """
      SUkrAAgAAABMAAAAAAAAAAAAADIAAGQAAJYAAMgAAAA8ADI8EWQ8IpY8M8g8RAB4ADJ4ImR4RJZ4Zsh4iAC0ADK0M2S0Zpa0mci0zAsAAAAAAAAA
      AAEDAAEAAAAAAAAABQAAAAAAAAABAQMAAQAAAAAAAAAEAAAAAAAAAAIBAwADAAAAAAAAAAgACAAIAAAAAwEDAAEAAAAAAAAAAQAAAAAAAAAGAQMA
      AQAAAAAAAAACAAAAAAAAABEBEAABAAAAAAAAABAAAAAAAAAAEgEDAAEAAAAAAAAAAQAAAAAAAAAVAQMAAQAAAAAAAAADAAAAAAAAABYBAwABAAAA
      AAAAAAQAAAAAAAAAFwEQAAEAAAAAAAAAPAAAAAAAAAAcAQMAAQAAAAAAAAABAAAAAAAAAAAAAAAAAAAA
      """),
    ImageSpecimen(
      "BigTIFF, big-endian", pixels: 20,
      """
      TU0AKwAIAAAAAAAAAAAAJAAPHi08IzRFVmdGWWx/kmp+k6i9AAAAAAAAAAoBAAADAAAAAAAAAAEABQAAAAAAAAEBAAMAAAAAAAAAAQAEAAAAAAAA
      AQIAAwAAAAAAAAABAAgAAAAAAAABAwADAAAAAAAAAAEAAQAAAAAAAAEGAAMAAAAAAAAAAQABAAAAAAAAAREAEAAAAAAAAAABAAAAAAAAABABEgAD
      AAAAAAAAAAEAAQAAAAAAAAEWAAMAAAAAAAAAAQAEAAAAAAAAARcAEAAAAAAAAAABAAAAAAAAABQBHAADAAAAAAAAAAEAAQAAAAAAAAAAAAAAAAAA
      """),
    ImageSpecimen(
      "BigTIFF, of Pillow", pixels: 20,
      """
      SUkrAAgAAAAQAAAAAAAAAAkAAAAAAAAAAAEEAAEAAAAAAAAABQAAAAAAAAABAQQAAQAAAAAAAAAEAAAAAAAAAAIBAwABAAAAAAAAAAgAAAAAAAAA
      AwEDAAEAAAAAAAAAAQAAAAAAAAAGAQMAAQAAAAAAAAABAAAAAAAAABEBBAABAAAAAAAAANQAAAAAAAAAFgEEAAEAAAAAAAAABAAAAAAAAAAXAQQA
      AQAAAAAAAAAUAAAAAAAAABwBAwABAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAADx4tPCM0RVZnRllsf5JqfpOovQ==
      """),
    ImageSpecimen(
      "two pages", pixels: 20,
      """
      SUkqAAgAAAAKAAABBAABAAAABQAAAAEBBAABAAAABAAAAAIBAwADAAAAhgAAAAMBAwABAAAAAQAAAAYBAwABAAAAAgAAABEBBAABAAAAjAAAABUB
      AwABAAAAAwAAABYBBAABAAAABAAAABcBBAABAAAAPAAAABwBAwABAAAAAQAAANgAAAAIAAgACAAAAAAyAABkAACWAADIAAAAPAAyPBFkPCKWPDPI
      PEQAeAAyeCJkeESWeGbIeIgAtAAytDNktGaWtJnItMwAAAAAAAAAAElJKgAIAAAACQAAAQQAAQAAAAUAAAABAQQAAQAAAAQAAAACAQMAAQAAAAgA
      AAADAQMAAQAAAAEAAAAGAQMAAQAAAAEAAAARAQQAAQAAAEoBAAAWAQQAAQAAAAQAAAAXAQQAAQAAABQAAAAcAQMAAQAAAAEAAAAAAAAAAA8eLTwj
      NEVWZ0ZZbH+San6TqL0AAA==
      """),
    ImageSpecimen(
      "two pages, big-endian", pixels: 20,
      """
      TU0AKgAAAEQAAAAyAABkAACWAADIAAAAPAAyPBFkPCKWPDPIPEQAeAAyeCJkeESWeGbIeIgAtAAytDNktGaWtJnItMwACwEAAAMAAAABAAUAAAEB
      AAMAAAABAAQAAAECAAMAAAADAAAAzgEDAAMAAAABAAEAAAEGAAMAAAABAAIAAAERAAQAAAABAAAACAESAAMAAAABAAEAAAEVAAMAAAABAAMAAAEW
      AAMAAAABAAQAAAEXAAQAAAABAAAAPAEcAAMAAAABAAEAAAAAAOgACAAIAAgADx4tPCM0RVZnRllsf5JqfpOovQAKAQAAAwAAAAEABQAAAQEAAwAA
      AAEABAAAAQIAAwAAAAEACAAAAQMAAwAAAAEAAQAAAQYAAwAAAAEAAQAAAREABAAAAAEAAADUARIAAwAAAAEAAQAAARYAAwAAAAEABAAAARcABAAA
      AAEAAAAUARwAAwAAAAEAAQAAAAAAAA==
      """),
    ImageSpecimen(
      "JPEG within", pixels: 256,
      """
      SUkqADQAAAD/2P/AAAsIABAAEAEBEQD/2gAIAQEAAD8AwooDmrkVsasw24zV+G2GK//ZAAoAAAEDAAEAAAAQAAAAAQEDAAEAAAAQAAAAAgEDAAEA
      AAAIAAAAAwEDAAEAAAAHAAAABgEDAAEAAAABAAAAEQEEAAEAAAAIAAAAFgEDAAEAAAAQAAAAFwEEAAEAAAArAAAAHAEDAAEAAAABAAAAWwEHACEB
      AACyAAAAAAAAAP/Y/9sAQwAbEhQXFBEbFxYXHhwbIChCKyglJShROj0wQmBVZWRfVV1baniZgWpxkHNbXYW1hpCeo6utq2eAvMm6pseZqKuk/8QA
      HwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAk
      M2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKz
      tLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9k=
      """),
  ]

  // MARK: Files made here

  /// A field: a tag, a type, a number of values, and the values or their offset as a number of four bytes.
  private typealias Field = (tag: Int, type: Int, count: Int, value: Int)

  private static let width: Field = (256, 3, 1, 5)
  private static let length: Field = (257, 3, 1, 4)
  private static let stripOffsets: Field = (273, 4, 1, 8)
  private static let stripByteCounts: Field = (279, 4, 1, 2)
  private static let strip = [width, length, stripOffsets, stripByteCounts]

  private static func directory(_ fields: [Field], next: Int) -> [UInt8] {
    let entries = fields.flatMap { field in
      littleEndian(field.tag, 2) + littleEndian(field.type, 2) + littleEndian(field.count, 4)
        + littleEndian(field.value, 4)
    }
    return littleEndian(fields.count, 2) + entries + littleEndian(next, 4)
  }

  /// Little-endian directories behind a header and two bytes of pixels at 8; each names the next, the last one `next`.
  private static func tiff(_ directories: [Field]..., next: Int = 0, behind: [UInt8] = []) -> [UInt8] {
    var bytes = octets("II*\u{0}") + littleEndian(10, 4) + [1, 2]
    for (index, fields) in directories.enumerated() {
      let isLast = index + 1 == directories.count
      bytes += directory(fields, next: isLast ? next : bytes.count + 6 + 12 * fields.count)
    }
    return bytes + behind
  }

  /// The same in a BigTIFF, in either byte order, with one directory behind two bytes of pixels at 16.
  private static func bigTIFF(_ fields: [Field], next: Int = 0, swapped: Bool) -> [UInt8] {
    func number(_ value: Int, _ count: Int) -> [UInt8] {
      swapped ? bigEndian(value, count) : littleEndian(value, count)
    }
    var bytes = octets(swapped ? "MM" : "II") + number(43, 2) + number(8, 2) + number(0, 2) + number(18, 8) + [1, 2]
    bytes += number(fields.count, 8)
    for field in fields {
      let valueBytes = [1: 1, 3: 2, 4: 4, 16: 8][field.type] ?? 8
      bytes += number(field.tag, 2) + number(field.type, 2) + number(field.count, 8)
      bytes += number(field.value, valueBytes) + [UInt8](repeating: 0, count: 8 - valueBytes)
    }
    return bytes + number(next, 8)
  }

  private static func replacing(_ fields: [Field], _ field: Field) -> [Field] {
    fields.map { $0.tag == field.tag ? field : $0 }
  }

  private static let bigStrip: [Field] = [width, length, (273, 16, 1, 16), (279, 4, 1, 2)]
  private static let tiles: [Field] = [
    width, length, (322, 3, 1, 16), (323, 3, 1, 16), (324, 4, 1, 8), (325, 4, 1, 2),
  ]

  private static let made = [
    ImageSpecimen("the smallest", pixels: 20, bytes: tiff(strip)),
    ImageSpecimen("fields in another order", pixels: 20, bytes: tiff(strip.reversed())),
    ImageSpecimen(
      "a field of unknown type, with an offset beyond the file", pixels: 20,
      bytes: tiff(strip + [(999, 99, 77, 9999)])),
    ImageSpecimen(
      "a field that comes twice and says nothing of pixels", pixels: 20,
      bytes: tiff(strip + [(305, 2, 1, 0), (305, 2, 1, 0)])),
    ImageSpecimen("an empty field", pixels: 20, bytes: tiff(strip + [(305, 2, 0, 0)])),
    ImageSpecimen(
      "dimensions in bytes and in four bytes", pixels: 20,
      bytes: tiff([(256, 1, 1, 5), (257, 4, 1, 4)] + strip.dropFirst(2))),
    ImageSpecimen("a tile that is larger than the image", pixels: 256, bytes: tiff(tiles)),
    ImageSpecimen(
      "more strips than are needed", pixels: 20,
      bytes: tiff([width, length, (273, 3, 2, 8 | 8 << 16), (279, 3, 2, 2 | 2 << 16)])),
    ImageSpecimen(
      "two strips, two planes, lists elsewhere", pixels: 20,
      bytes: tiff(
        [width, length, (273, 3, 4, 100), (277, 3, 1, 2), (278, 3, 1, 2), (279, 3, 4, 108), (284, 3, 1, 2)],
        behind: [8, 0, 8, 0, 8, 0, 8, 0, 2, 0, 1, 0, 2, 0, 1, 0])),
    ImageSpecimen(
      "a second page", pixels: 24, bytes: tiff(strip, replacing(strip, (256, 3, 1, 6)) + [(262, 3, 1, 1)], strip)),
    ImageSpecimen("more rows in a strip than there are", pixels: 20, bytes: tiff(strip + [(278, 4, 1, 0xffff_ffff)])),
    ImageSpecimen("BigTIFF", pixels: 20, bytes: bigTIFF(bigStrip, swapped: false)),
    ImageSpecimen("BigTIFF, big-endian", pixels: 20, bytes: bigTIFF(bigStrip, swapped: true)),
  ]

  private static let faults = [
    FaultyImage(
      "no offset", octets("II*\u{0}\u{8}\u{0}\u{0}\u{0}"), "expected 2 bytes of a number of fields, found 0", at: 8),
    FaultyImage(
      "a directory beyond the file", octets("II*\u{0}\u{9}\u{0}\u{0}\u{0}"),
      "expected a directory within 8 bytes, found offset 9", at: 4),
    FaultyImage(
      "a second directory beyond the file", tiff(strip, next: 1000),
      "expected a directory within 64 bytes, found offset 1000", at: 60),
    FaultyImage("a directory without fields", tiff([]), "expected at least one field, found 0", at: 10),
    FaultyImage(
      "more fields than the file holds", tiff(strip).replacing(10, [5, 0]),
      "expected at most 4 fields in the rest of the file, found 5", at: 10),
    FaultyImage(
      "no next directory", tiff(strip).dropLast(4) + [],
      "expected 4 bytes of the offset of the next directory, found 0", at: 60),
    FaultyImage(
      "a chain that comes back", tiff(strip, next: 10),
      "expected directories that neither overlap nor come back, found such a one", at: 10),
    FaultyImage(
      "a chain that comes back later", tiff(strip, strip, next: 64),
      "expected directories that neither overlap nor come back, found such a one", at: 64),
    FaultyImage("no width", tiff(Array(strip.dropFirst())), "expected the tag 256 in a directory, found none", at: 10),
    FaultyImage(
      "no length", tiff([width] + strip.dropFirst(2)), "expected the tag 257 in a directory, found none", at: 10),
    FaultyImage(
      "a width of 0", tiff(replacing(strip, (256, 3, 1, 0))), "expected a width and a height above 0, found 0 x 4",
      at: 10),
    FaultyImage(
      "a length of 0", tiff(replacing(strip, (257, 3, 1, 0))), "expected a width and a height above 0, found 5 x 0",
      at: 10),
    FaultyImage(
      "many pixels", tiff([(256, 4, 1, 60000), (257, 4, 1, 60000)] + strip.dropFirst(2)),
      "60000 x 60000 pixels, above the limit of 1000000", at: 10),
    FaultyImage(
      "many pixels of a second page", tiff(strip, [(256, 4, 1, 60000), (257, 4, 1, 60000)] + strip.dropFirst(2)),
      "60000 x 60000 pixels, above the limit of 1000000", at: 64),
    FaultyImage(
      "a width that is a fraction", tiff(replacing(strip, (256, 5, 1, 8)), behind: [0, 0, 0, 0, 0, 0]),
      "expected integers of the tag 256, found 1 of type 5", at: 12),
    FaultyImage(
      "a width of no values", tiff(replacing(strip, (256, 3, 0, 0))),
      "expected integers of the tag 256, found 0 of type 3", at: 12),
    FaultyImage("two widths", tiff(strip + [width]), "expected the tag 256 once, found a second", at: 60),
    FaultyImage(
      "values beyond the file", tiff(strip + [(305, 2, 5, 72)]),
      "expected the values of the tag 305 within 76 bytes, found 5 bytes at offset 72", at: 68),
    FaultyImage(
      "values far away", tiff(strip + [(305, 2, 5, 0xffff_ffff)]),
      "expected the values of the tag 305 within 76 bytes, found 5 bytes at offset 4294967295", at: 68),
    FaultyImage(
      "as many values as can be written", tiff(strip + [(305, 12, 0xffff_ffff, 8)]),
      "expected the values of the tag 305 within 76 bytes, found 34359738360 bytes at offset 8", at: 68),
  ]

  private static let pixelFaults = [
    FaultyImage("no strips", tiff([width, length]), "expected the tag 273 in a directory, found none", at: 10),
    FaultyImage(
      "no sizes of strips", tiff(Array(strip.dropLast())), "expected the tag 279 in a directory, found none", at: 10),
    FaultyImage(
      "a strip that begins behind the file", tiff(replacing(strip, (273, 4, 1, 65))),
      "expected a strip or tile within 64 bytes, found 2 bytes at offset 65", at: 44),
    FaultyImage(
      "a strip that ends behind the file", tiff(replacing(strip, (279, 4, 1, 57))),
      "expected a strip or tile within 64 bytes, found 57 bytes at offset 8", at: 44),
    FaultyImage(
      "a strip as large as can be written", tiff(replacing(strip, (279, 4, 1, 0xffff_ffff))),
      "expected a strip or tile within 64 bytes, found 4294967295 bytes at offset 8", at: 44),
    FaultyImage(
      "a strip of no bytes", tiff(replacing(strip, (279, 4, 1, 0))),
      "expected a strip or tile within 64 bytes, found 0 bytes at offset 8", at: 44),
    FaultyImage(
      "a strip less than needed", tiff(strip + [(278, 3, 1, 2)]),
      "expected 2 strips or tiles, found 1 offsets and 1 sizes", at: 10),
    FaultyImage(
      "no rows in a strip", tiff(strip + [(278, 3, 1, 0)]), "expected at least one row in a strip, found 0", at: 10),
    FaultyImage(
      "a plane less than needed", tiff(strip + [(277, 3, 1, 3), (284, 3, 1, 2)]),
      "expected 3 strips or tiles, found 1 offsets and 1 sizes", at: 10),
    FaultyImage(
      "planes of no samples", tiff(strip + [(277, 3, 1, 0), (284, 3, 1, 2)]),
      "expected 0 strips or tiles, found 1 offsets and 1 sizes", at: 10),
    FaultyImage(
      "a size less than offsets", tiff([width, length, (273, 3, 2, 8 | 8 << 16), (278, 3, 1, 2), stripByteCounts]),
      "expected 2 strips or tiles, found 2 offsets and 1 sizes", at: 10),
    FaultyImage(
      "a tile without width", tiff(replacing(tiles, (322, 3, 1, 0))),
      "expected a width and a height above 0, found 0 x 16", at: 10),
    FaultyImage(
      "no tile length", tiff(tiles.filter { $0.tag != 323 }),
      "expected the tag 323 in a directory, found none", at: 10),
    FaultyImage(
      "a tile of many pixels", tiff(replacing(replacing(tiles, (322, 4, 1, 65536)), (323, 4, 1, 65536))),
      "65536 x 65536 pixels, above the limit of 1000000", at: 10),
    FaultyImage(
      "a tile less than needed", tiff(replacing(tiles, (256, 3, 1, 17))),
      "expected 2 strips or tiles, found 1 offsets and 1 sizes", at: 10),
  ]

  private static let bigFaults = [
    FaultyImage(
      "offsets of four bytes", bigTIFF(bigStrip, swapped: false).replacing(4, [4]),
      "expected offsets of 8 bytes in a BigTIFF, found others",
      at: 4),
    FaultyImage(
      "a directory at the end of the numbers",
      bigTIFF(bigStrip, swapped: true).replacing(8, [UInt8](repeating: 0xff, count: 8)),
      "expected a directory within 114 bytes, found offset 9223372036854775807", at: 8),
    FaultyImage(
      "as many fields as can be written",
      bigTIFF(bigStrip, swapped: false).replacing(18, [UInt8](repeating: 0xff, count: 8)),
      "expected at most 4 fields in the rest of the file, found 9223372036854775807", at: 18),
    FaultyImage(
      "as many values as can be written",
      bigTIFF(bigStrip + [(305, 12, -1, 8)], swapped: false),
      "expected the values of the tag 305 within 134 bytes, found 9223372036854775807 bytes at offset 8", at: 118),
    FaultyImage(
      "a strip at the end of the numbers", bigTIFF([width, length, (273, 16, 1, -1), (279, 4, 1, 2)], swapped: true),
      "expected a strip or tile within 114 bytes, found 2 bytes at offset 9223372036854775807", at: 78),
    FaultyImage(
      "a width of 2^64 - 1", bigTIFF([(256, 16, 1, -1), (257, 16, 1, -1)] + bigStrip.dropFirst(2), swapped: true),
      "9223372036854775807 x 9223372036854775807 pixels, above the limit of 1000000", at: 18),
  ]

  @Test(arguments: specimens + made)
  func isAccepted(image: ImageSpecimen) {
    // Pillow pads the last page of several.
    let count = image.bytes.count
    expectImage(image, behind: .accepted, prefixes: image.sentence == "two pages" ? count - 2...count : nil)
  }

  @Test(arguments: faults)
  func isRefused(image: FaultyImage) { expectFault(image) }

  @Test(arguments: pixelFaults + bigFaults)
  func isRefusedForItsPixels(image: FaultyImage) { expectFault(image) }

  /// Many directories that point at one long list: the second time it is too much.
  @Test func sharedListsDoNotMultiplyTheWork() {
    let list = [UInt8](repeating: 8, count: 400_000)
    let fields: [Field] = [
      (256, 3, 1, 1), (257, 4, 1, 300_000), (273, 1, list.count, 8), (278, 3, 1, 1), (279, 1, list.count, 8),
    ]
    var bytes = octets("II*\u{0}") + littleEndian(8 + list.count, 4) + list
    for _ in 0..<4000 { bytes += Self.directory(fields, next: bytes.count + 66) }
    let reason = "expected directories that neither overlap nor come back, found such a one"
    #expect(checkImage(bytes) == ContentFault(reason, offset: 8 + list.count + 66))
  }

  /// A chain that comes back is left as soon as it has read as much as the file holds.
  @Test func aChainThatComesBackIsLeft() {
    var bytes = octets("II*\u{0}") + littleEndian(10, 4) + [1, 2]
    for _ in 0..<20_000 { bytes += Self.directory(Self.strip, next: bytes.count + 54) }
    bytes.replaceSubrange(bytes.count - 4..<bytes.count, with: littleEndian(10, 4))
    let reason = "expected directories that neither overlap nor come back, found such a one"
    #expect(checkImage(bytes) == ContentFault(reason, offset: 10))
  }
}

// JPEG: images of Pillow and libjpeg-turbo, and interchange files put together from segments.

import Bytes
import Images
import TestSupport
import Testing

@Suite struct ImageJPEGTests {
  private static let specimens = [
    ImageSpecimen(
      "baseline", pixels: 20,
      """
      /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBk
      eFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wAARCAAEAAUD
      ASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKB
      kaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZ
      mqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQF
      BgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5
      OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX
      2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwB2maNZNbZMVFFFZ00nFNnRh6s/ZR1Z/9k=
      """),
    ImageSpecimen(
      "grey", pixels: 20,
      """
      /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBk
      eFxlZ2P/wAALCAAEAAUBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAAv/EABoQAAEFAQAAAAAAAAAAAAAAAAQAAQIDBRH/2gAIAQEAAD8AWZjBSG69
      S//Z
      """),
    ImageSpecimen(
      "progressive", pixels: 20,
      """
      /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBk
      eFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wgARCAAEAAUD
      ASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAH/xAAVAQEBAAAAAAAAAAAAAAAAAAACA//aAAwDAQACEAMQAAABoNP/xAAWEAEBAQAAAAAA
      AAAAAAAAAAADAhL/2gAIAQEAAQUCMYz/AP/EABgRAAIDAAAAAAAAAAAAAAAAAAABAgMS/9oACAEDAQE/Aa5PKP/EABYRAAMAAAAAAAAAAAAAAAAA
      AAACMf/aAAgBAgEBPwFYf//EABUQAQEAAAAAAAAAAAAAAAAAAAAx/9oACAEBAAY/Ao//xAAVEAEBAAAAAAAAAAAAAAAAAAAAAf/aAAgBAQABPyGw
      f//aAAwDAQACAAMAAAAQA//EABYRAAMAAAAAAAAAAAAAAAAAAAABMf/aAAgBAwEBPxCuZ//EABURAQEAAAAAAAAAAAAAAAAAAAEA/9oACAECAQE/
      EAIW/8QAFhAAAwAAAAAAAAAAAAAAAAAAAAER/9oACAEBAAE/EL1n/9k=
      """),
    ImageSpecimen(
      "restart markers", pixels: 960,
      """
      /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqm
      x5moq6T/2wBDARweHigjKE4rK06kbl1upKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKT/wAARCAAYACgD
      AREAAhEBAxEB/8QAGQAAAwADAAAAAAAAAAAAAAAAAgQFAQMG/8QAGRAAAwEBAQAAAAAAAAAAAAAAAAEDAmER/8QAGAEAAwEBAAAAAAAAAAAAAAAA
      AgMEBQH/xAAYEQEBAQEBAAAAAAAAAAAAAAAAAgEREv/dAAQAAf/aAAwDAQACEQMRAD8A5xYZzrmU/9CBnDA3TZrH/9GJmbFatmsf/9KTmbEa1JrH
      /9Oapsm42srH/9SSpE/pLlv/1Z2Y8EdLm3//1k8x4JFNv//X05jwVxTNv//QwocF8X5b/9FdTXpn9ZeU/9IMTRHmoZp//9M8TQjE80//1GsTQGBm
      n//VfUkdzDMp/9k=
      """),
    ImageSpecimen(
      "four inks", pixels: 20,
      """
      /9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAQCwwODAoQDg0OEhEQExgoGhgWFhgxIyUdKDozPTw5Mzg3QEhcTkBEV0U3OFBtUVdfYmdoZz5NcXlwZHhc
      ZWdj/8AAFAgABAAFBEMRAE0RAFkRAEsRAP/EABYAAQEBAAAAAAAAAAAAAAAAAAMEB//EACAQAAECBQUAAAAAAAAAAAAAAAAEBQECAwYhEhY1U4H/
      2gAOBEMATQBZAEsAAD8AWzeJh4Jtts6CS2WNAuboVVFLVPjJoB//2Q==
      """),
    ImageSpecimen(
      "a comment, Exif and a resolution", pixels: 20,
      """
      /9j/4AAQSkZJRgABAQEASABIAAD/4QASRXhpZgAASUkqAAgAAAAAAP/+AANj/9sAQwAQCwwODAoQDg0OEhEQExgoGhgWFhgxIyUdKDozPTw5Mzg3
      QEhcTkBEV0U3OFBtUVdfYmdoZz5NcXlwZHhcZWdj/8AACwgABAAFAQERAP/EABQAAQAAAAAAAAAAAAAAAAAAAAL/xAAaEAABBQEAAAAAAAAAAAAA
      AAAEAAECAwUR/9oACAEBAAA/AFmYwUhuvUv/2Q==
      """),
    ImageSpecimen(
      "arithmetic coding", pixels: 20,
      """
      /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBk
      eFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/yQARCAAEAAUD
      ASIAAhEBAxEB/8wACgAQEAUBEBEF/9oADAMBAAIRAxEAPwDBgzKsRqewK5J/EFXLfjuABHNovsbOr4D/2Q==
      """),
    ImageSpecimen(
      "arithmetic coding, progressive", pixels: 20,
      """
      /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBk
      eFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/ygARCAAEAAUD
      ASIAAhEBAxEB/8wABgAQARD/2gAMAwEAAhADEAAAAa+tmP/MAAQQBf/aAAgBAQABBQIa6nbk/8wABBEF/9oACAEDAQE/ARqZ6wj/zAAEEQX/2gAI
      AQIBAT8BHXT/zAAEEAX/2gAIAQEABj8CX//MAAQQBf/aAAgBAQABPyGxQP/aAAwDAQACAAMAAAAQUP/MAAQRBf/aAAgBAwEBPxAC+P/MAAQRBf/a
      AAgBAgEBPxAcMMD/zAAEEAX/2gAIAQEAAT8Q8f/Z
      """),
    ImageSpecimen(
      "a scan for each component", pixels: 20,
      """
      /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBk
      eFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wAARCAAEAAUD
      ASIAAhEBAxEB/8QAFAABAAAAAAAAAAAAAAAAAAAAAv/EABoQAAEFAQAAAAAAAAAAAAAAAAQAAQIDBRH/2gAIAQEAAD8AWZjBSG69S//EABQBAQAA
      AAAAAAAAAAAAAAAAAAP/xAAXEQEAAwAAAAAAAAAAAAAAAAABAAID/9oACAECEQA/ADzBqLP/xAAUAQEAAAAAAAAAAAAAAAAAAAAE/8QAGhEAAQUB
      AAAAAAAAAAAAAAAAAgABAwQTIf/aAAgBAxEAPwBFeU8h66//2Q==
      """),
    ImageSpecimen(
      "two pictures (MPF)", pixels: 20,
      """
      /9j/4AAQSkZJRgABAQAAAQABAAD/4gBoTVBGAElJKgAIAAAAAwAAsAcABAAAADAxMDABsAQAAQAAAAIAAAACsAcAIAAAADIAAAAAAAAAAAADABMB
      AAAAAAAAAAAAAAAAAACpAAAA9wAAAAAAAAAgICAgICAgICAgICAgICAg/9sAQwAbEhQXFBEbFxYXHhwbIChCKyglJShROj0wQmBVZWRfVV1baniZ
      gWpxkHNbXYW1hpCeo6utq2eAvMm6pseZqKuk/8AACwgABAAFAQERAP/EABQAAQAAAAAAAAAAAAAAAAAAAAH/xAAZEAABBQAAAAAAAAAAAAAAAAAE
      AAECAyH/2gAIAQEAAD8AQwB3q2C//9n/2P/gABBKRklGAAEBAAABAAEAAP/bAEMAGxIUFxQRGxcWFx4cGyAoQisoJSUoUTo9MEJgVWVkX1VdW2p4
      mYFqcZBzW12FtYaQnqOrratngLzJuqbHmairpP/AAAsIAAQABQEBEQD/xAAUAAEAAAAAAAAAAAAAAAAAAAAF/8QAGRAAAgMBAAAAAAAAAAAAAAAA
      AwQAAQIh/9oACAEBAAA/AB2nj2Tu5//Z
      """),
  ]

  // MARK: Files made here

  private static func segment(_ marker: UInt8, _ payload: [UInt8]) -> [UInt8] {
    [0xff, marker] + bigEndian(payload.count + 2, 2) + payload
  }

  private static func jpeg(_ segments: [UInt8]...) -> [UInt8] { [0xff, 0xd8] + segments.flatMap { $0 } }

  private static func frame(
    _ marker: UInt8 = 0xc0, lines: Int = 4, samples: Int = 5, precision: UInt8 = 8,
    components: [[UInt8]] = [[1, 0x11, 0]]
  ) -> [UInt8] {
    let dimensions = bigEndian(lines, 2) + bigEndian(samples, 2)
    return segment(marker, [precision] + dimensions + [UInt8(components.count)] + components.flatMap { $0 })
  }

  private static func scan(
    _ components: [[UInt8]] = [[1, 0x00]], _ parameters: [UInt8] = [0, 63, 0], data: [UInt8] = [0x12, 0x34]
  ) -> [UInt8] {
    segment(0xda, [UInt8(components.count)] + components.flatMap { $0 } + parameters) + data
  }

  /// A Huffman table: how many codes there are of 1, 2 … bits.
  private static func huffmanTable(_ place: UInt8, _ counts: [UInt8] = [1, 1]) -> [UInt8] {
    let values = counts.reduce(0) { $0 + Int($1) }
    return segment(
      0xc4,
      [place] + counts + [UInt8](repeating: 0, count: 16 - counts.count) + [UInt8](repeating: 0, count: values))
  }

  private static let quantization = segment(0xdb, [0] + [UInt8](repeating: 1, count: 64))
  private static let tables = quantization + huffmanTable(0x00) + huffmanTable(0x10)
  private static let end: [UInt8] = [0xff, 0xd9]
  private static let threeComponents: [[UInt8]] = [[1, 0x22, 0], [2, 0x11, 0], [3, 0x11, 0]]

  private static let made = [
    ImageSpecimen("the smallest", pixels: 20, bytes: jpeg(tables, frame(), scan(), end)),
    ImageSpecimen(
      "12 bits, extended sequential", pixels: 20, bytes: jpeg(tables, frame(0xc1, precision: 12), scan(), end)),
    ImageSpecimen(
      "a quantization table of 16 bits", pixels: 20,
      bytes: jpeg(
        segment(0xdb, [0x10] + [UInt8](repeating: 1, count: 128)), huffmanTable(0x00), huffmanTable(0x10), frame(),
        scan(), end)),
    ImageSpecimen(
      "fill bytes before markers", pixels: 20,
      bytes: jpeg([0xff, 0xff], tables, [0xff], frame(), scan(), [0xff, 0xff], end)),
    ImageSpecimen(
      "padding between segments", pixels: 20,
      bytes: jpeg(segment(0xe1, [1, 2, 3]), [0, 0, 0], tables, [0xff, 0x00, 0x20], frame(), scan(), end)),
    ImageSpecimen(
      "stuffed bytes, and a fill byte before one", pixels: 20,
      bytes: jpeg(tables, frame(), scan(data: [0xff, 0x00, 0x12, 0xff, 0xff, 0x00]), end)),
    ImageSpecimen(
      "restart markers, the last of them behind the last interval", pixels: 20,
      bytes: jpeg(
        tables, segment(0xdd, [0, 1]), frame(),
        scan(data: (0..<10).flatMap { [0x12, 0xff, 0xd0 | $0 & 7] }), end)),
    ImageSpecimen(
      "the number of lines behind the first scan", pixels: 20,
      bytes: jpeg(tables, frame(lines: 0), scan(), segment(0xdc, [0, 4]), scan(), end)),
    ImageSpecimen(
      "a frame of all parameters of a progressive scan", pixels: 20,
      bytes: jpeg(
        tables, frame(0xc2), scan([[1, 0x00]], [0, 0, 0x01]), scan([[1, 0x00]], [0, 0, 0x10]),
        scan([[1, 0x00]], [1, 63, 0x0d]), scan([[1, 0x00]], [1, 63, 0xdc]), end)),
    ImageSpecimen(
      "scans of a sequential frame that name no spectral selection", pixels: 20,
      bytes: jpeg(tables, frame(), scan([[1, 0x00]], [0, 0, 0]), end)),
    ImageSpecimen(
      "an arithmetic scan whose bytes are all left out", pixels: 20,
      bytes: jpeg(quantization, segment(0xcc, [0, 0x10]), frame(0xc9), scan(data: []), end)),
    ImageSpecimen(
      "a table before another scan", pixels: 20,
      bytes: jpeg(
        tables, frame(components: [[1, 0x11, 0], [2, 0x11, 0]]), scan(), huffmanTable(0x01), scan([[2, 0x10]]), end)),
    ImageSpecimen(
      "a Huffman table of 256 codes", pixels: 20,
      bytes: jpeg(
        quantization, huffmanTable(0x00), huffmanTable(0x10, [0, 0, 0, 0, 0, 0, 0, 0, 255, 1]), frame(), scan(), end)),
  ]

  private static let faults = [
    FaultyImage(
      "nothing behind SOI", [0xff, 0xd8] + end + [0, 0, 0, 0], "expected a scan before EOI, found none", at: 2),
    FaultyImage("no frame", jpeg(tables, scan(), end), "expected a frame before a scan, found none", at: 121),
    FaultyImage("no scan", jpeg(tables, frame(), end), "expected a scan before EOI, found none", at: 130),
    FaultyImage(
      "two frames", jpeg(tables, frame(), frame(), scan(), end), "expected one frame, found a second", at: 130),
    FaultyImage("no EOI", jpeg(tables, frame(), scan()), "expected the marker EOI, found the end", at: 142),
    FaultyImage(
      "no EOI behind a segment", jpeg(tables, frame(), scan(), segment(0xfe, [1])),
      "expected the marker EOI, found the end", at: 147),
    FaultyImage("an unknown marker", jpeg([0xff, 0x02], tables), "expected a known marker, found 0xff2", at: 2),
    FaultyImage("a second SOI", jpeg([0xff, 0xd8], tables), "expected a known marker, found 0xffd8", at: 2),
    FaultyImage(
      "a restart marker outside of a scan", jpeg([0xff, 0xd0], tables), "expected a known marker, found 0xffd0", at: 2),
    FaultyImage(
      "a lossless frame", jpeg(tables, frame(0xc3), scan(), end), "expected a known marker, found 0xffc3", at: 117),
    FaultyImage(
      "a hierarchical frame", jpeg(tables, frame(0xc5), scan(), end), "expected a known marker, found 0xffc5", at: 117),
    FaultyImage(
      "a segment of length 1", jpeg([0xff, 0xe0, 0, 1], tables),
      "expected a segment length of at least 2, found 1", at: 4),
    FaultyImage(
      "a segment that is longer than the rest", jpeg([0xff, 0xe0, 0, 100, 1, 2, 3]),
      "expected 98 bytes of a segment, found 3", at: 6),
    FaultyImage(
      "a precision of 16 bits", jpeg(tables, frame(0xc1, precision: 16), scan(), end),
      "expected a sample precision of 8 or 12 bits, found 16", at: 121),
    FaultyImage(
      "a baseline of 12 bits", jpeg(tables, frame(precision: 12), scan(), end),
      "expected a sample precision of 8 or 12 bits, found 12", at: 121),
    FaultyImage(
      "no samples", jpeg(tables, frame(samples: 0), scan(), end),
      "expected a width and a height above 0, found 0 x 4", at: 122),
    FaultyImage(
      "no lines, ever", jpeg(tables, frame(lines: 0), scan(), end),
      "expected DNL behind the first scan of a frame of 0 lines, found none", at: 142),
    FaultyImage(
      "lines behind the second scan", jpeg(tables, frame(), scan(), scan(), segment(0xdc, [0, 4]), end),
      "expected DNL behind the first scan, found it elsewhere", at: 154),
    FaultyImage(
      "lines before the first scan", jpeg(tables, frame(lines: 0), segment(0xdc, [0, 4]), scan(), end),
      "expected DNL behind the first scan, found it elsewhere", at: 130),
    FaultyImage(
      "lines behind a comment", jpeg(tables, frame(), scan(), segment(0xfe, []), segment(0xdc, [0, 4]), end),
      "expected DNL behind the first scan, found it elsewhere", at: 146),
    FaultyImage(
      "a number of lines of 0", jpeg(tables, frame(lines: 0), scan(), segment(0xdc, [0, 0]), end),
      "expected a width and a height above 0, found 5 x 0", at: 146),
    FaultyImage(
      "many pixels", jpeg(tables, frame(lines: 60000, samples: 60000), scan(), end),
      "60000 x 60000 pixels, above the limit of 1000000", at: 122),
    FaultyImage(
      "many pixels behind the first scan",
      jpeg(tables, frame(lines: 0, samples: 60000), scan(), segment(0xdc, [0xea, 0x60]), end),
      "60000 x 60000 pixels, above the limit of 1000000", at: 146),
    FaultyImage(
      "no components", jpeg(tables, frame(components: []), scan(), end),
      "expected 1 to 4 components, found 0", at: 126),
    FaultyImage(
      "five components", jpeg(tables, frame(components: Array(repeating: [1, 0x11, 0], count: 5)), scan(), end),
      "expected 1 to 4 components, found 5", at: 126),
    FaultyImage(
      "a component that is missing", jpeg(tables, segment(0xc0, [8, 0, 4, 0, 5, 2, 1, 0x11, 0]), scan(), end),
      "expected 1 byte of a component identifier, found 0", at: 130),
    FaultyImage(
      "bytes behind the components", jpeg(tables, segment(0xc0, [8, 0, 4, 0, 5, 1, 1, 0x11, 0, 7]), scan(), end),
      "expected the end of the segment, found 1 byte more", at: 130),
    FaultyImage(
      "a sampling factor of 0", jpeg(tables, frame(components: [[1, 0x10, 0]]), scan(), end),
      "expected sampling factors of 1 to 4, found 1 and 0", at: 128),
    FaultyImage(
      "a sampling factor of 5", jpeg(tables, frame(components: [[1, 0x51, 0]]), scan(), end),
      "expected sampling factors of 1 to 4, found 5 and 1", at: 128),
    FaultyImage(
      "a quantization table 4 of a component", jpeg(tables, frame(components: [[1, 0x11, 4]]), scan(), end),
      "expected a quantization table 0 to 3, found 4", at: 129),
  ]

  private static let tableFaults = [
    FaultyImage(
      "a quantization table 4", jpeg(segment(0xdb, [4] + [UInt8](repeating: 1, count: 64))),
      "expected a quantization table 0 to 3 of 8 or 16 bits, found 0x4", at: 6),
    FaultyImage(
      "a quantization table of 32 bits", jpeg(segment(0xdb, [0x20] + [UInt8](repeating: 1, count: 64))),
      "expected a quantization table 0 to 3 of 8 or 16 bits, found 0x20", at: 6),
    FaultyImage(
      "half a quantization table", jpeg(segment(0xdb, [0] + [UInt8](repeating: 1, count: 63))),
      "expected 64 bytes of a quantization table, found 63", at: 7),
    FaultyImage(
      "a Huffman table 4", jpeg(huffmanTable(0x04)), "expected a Huffman table 0 to 3 of class 0 or 1, found 0x4", at: 6
    ),
    FaultyImage(
      "a Huffman table of class 2", jpeg(huffmanTable(0x20)),
      "expected a Huffman table 0 to 3 of class 0 or 1, found 0x20", at: 6),
    FaultyImage(
      "a Huffman table without codes", jpeg(huffmanTable(0x00, [])), "expected 1 to 256 Huffman codes, found 0", at: 7),
    FaultyImage(
      "a Huffman table of 257 codes", jpeg(huffmanTable(0x00, [0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 2])),
      "expected 1 to 256 Huffman codes, found 257", at: 7),
    FaultyImage(
      "a Huffman table with three codes of one bit", jpeg(huffmanTable(0x00, [3])),
      "expected fewer Huffman codes of 1 bits, found 3", at: 7),
    FaultyImage(
      "a Huffman code of ones alone", jpeg(huffmanTable(0x00, [1, 2])),
      "expected fewer Huffman codes of 2 bits, found 2", at: 8),
    FaultyImage(
      "Huffman values that are missing", jpeg(segment(0xc4, [0, 1, 1] + [UInt8](repeating: 0, count: 15))),
      "expected 2 bytes of Huffman values, found 1", at: 23),
    FaultyImage(
      "half a restart interval", jpeg(segment(0xdd, [1]), tables), "expected 2 bytes of a restart interval, found 1",
      at: 6),
    FaultyImage(
      "bytes behind a restart interval", jpeg(segment(0xdd, [0, 1, 2]), tables),
      "expected the end of the segment, found 1 byte more", at: 8),
  ]

  private static let scanFaults = [
    FaultyImage(
      "a scan of no components", jpeg(tables, frame(), scan([]), end),
      "expected 1 to 1 components in a scan, found 0", at: 134),
    FaultyImage(
      "more components than the frame has", jpeg(tables, frame(), scan([[1, 0], [1, 0]]), end),
      "expected 1 to 1 components in a scan, found 2", at: 134),
    FaultyImage(
      "a component that the frame has not", jpeg(tables, frame(), scan([[2, 0]]), end),
      "expected a component of the frame, found 2", at: 135),
    FaultyImage(
      "a table 4", jpeg(tables, frame(), scan([[1, 0x04]]), end),
      "expected entropy coding tables 0 to 3, found 0 and 4", at: 136),
    FaultyImage(
      "a scan header that is too short", jpeg(tables, frame(), segment(0xda, [1, 1, 0, 0, 63]), [1], end),
      "expected 1 byte of a successive approximation, found 0", at: 139),
    FaultyImage(
      "more than ten blocks in a unit",
      jpeg(tables, frame(components: [[1, 0x42, 0], [2, 0x13, 0]]), scan([[1, 0], [2, 0]]), end),
      "expected at most 10 blocks in a unit of a scan, found 11", at: 137),
    FaultyImage(
      "no quantization table", jpeg(huffmanTable(0x00), huffmanTable(0x10), frame(), scan(), end),
      "expected the quantization table 0 before the scan, found none", at: 65),
    FaultyImage(
      "no DC table", jpeg(quantization, huffmanTable(0x10), frame(), scan(), end),
      "expected the DC Huffman table 0 before the scan, found none", at: 111),
    FaultyImage(
      "no AC table", jpeg(quantization, huffmanTable(0x00), frame(), scan(), end),
      "expected the AC Huffman table 0 before the scan, found none", at: 111),
    FaultyImage(
      "no DC table of a progressive scan",
      jpeg(quantization, huffmanTable(0x10), frame(0xc2), scan([[1, 0]], [0, 0, 0]), end),
      "expected the DC Huffman table 0 before the scan, found none", at: 111),
    FaultyImage(
      "no AC table of a progressive scan",
      jpeg(quantization, huffmanTable(0x00), frame(0xc2), scan([[1, 0]], [1, 5, 0]), end),
      "expected the AC Huffman table 0 before the scan, found none", at: 111),
    FaultyImage(
      "no entropy-coded data", jpeg(tables, frame(), scan(data: []), end),
      "expected entropy-coded data behind SOS, found a marker", at: 140),
    FaultyImage(
      "a restart marker without an interval", jpeg(tables, frame(), scan(data: [1, 0xff, 0xd0, 1]), end),
      "expected no restart marker, found RST0", at: 141),
    FaultyImage(
      "a restart marker that is not the first",
      jpeg(tables, segment(0xdd, [0, 1]), frame(), scan(data: [1, 0xff, 0xd1, 1]), end),
      "expected the restart marker 0, found RST1", at: 147),
    FaultyImage(
      "a restart marker that skips one",
      jpeg(tables, segment(0xdd, [0, 1]), frame(), scan(data: [1, 0xff, 0xd0, 1, 0xff, 0xd2, 1]), end),
      "expected the restart marker 1, found RST2", at: 150),
  ]

  /// Parameters of progressive scans that table G.1 does not have: first and last coefficient, bits before and now.
  private static let parameterFaults = [
    ("AC coefficients with the DC coefficient", 0, 1, 0, 0),
    ("coefficients that end before they begin", 5, 4, 0, 0),
    ("a coefficient 64", 64, 64, 0, 0),
    ("coefficients up to 64", 1, 64, 0, 0),
    ("a shift of 14 bits", 0, 0, 0, 14),
    ("a refinement of two bits", 0, 0, 3, 1),
    ("a refinement of no bit", 0, 0, 1, 1),
  ].map { sentence, first, last, high, low in
    let parameters = [UInt8(first), UInt8(last), UInt8(high << 4 | low)]
    return FaultyImage(
      sentence, jpeg(tables, frame(0xc2), scan([[1, 0]], parameters), end),
      "expected legal parameters of a progressive scan, found \(first) to \(last), \(high), \(low)", at: 137)
  }

  @Test(arguments: specimens + made)
  func isAccepted(image: ImageSpecimen) {
    // Where a second picture stands behind the first, the first one is an image by itself.
    let isMultiple = image.sentence.hasPrefix("two pictures")
    let firstEnd = (image.bytes.indices.first { image.bytes[$0...].starts(with: [0xff, 0xd9]) } ?? 0) + 2
    expectImage(image, behind: .accepted, prefixes: isMultiple ? firstEnd...image.bytes.count : nil)
  }

  @Test(arguments: faults + tableFaults)
  func isRefused(image: FaultyImage) { expectFault(image) }

  @Test(arguments: scanFaults + parameterFaults)
  func isRefusedForItsScans(image: FaultyImage) { expectFault(image) }

  @Test func aScanOfSeveralComponentsHasNoACCoefficients() {
    let bytes = Self.jpeg(
      Self.tables, Self.frame(0xc2, components: Self.threeComponents), Self.scan([[1, 0], [2, 0]], [1, 5, 0]), Self.end)
    let reason = "expected legal parameters of a progressive scan, found 1 to 5, 0, 0"
    #expect(checkImage(bytes) == ContentFault(reason, offset: 145))
  }

  @Test func everyMarkerIsKnownOrRefused() {
    let withSegment = Set<UInt8>(0xe0...0xef).union([0xcc, 0xfe])
    for marker in 0x01...0xfe as ClosedRange<UInt8> where !withSegment.contains(marker) {
      let bytes = Self.jpeg([0xff, marker, 0, 3, 0], Self.tables, Self.frame(), Self.scan(), Self.end)
      #expect(checkImage(bytes) != nil, "\(marker)")
    }
    for marker in withSegment {
      let bytes = Self.jpeg([0xff, marker, 0, 3, 0], Self.tables, Self.frame(), Self.scan(), Self.end)
      #expect(checkImage(bytes) == nil, "\(marker)")
    }
  }
}

// GIF: images of Pillow and ImageMagick, and data streams put together from blocks.

import Images
import TestSupport
import Testing

@Suite struct ImageGIFTests {
  private static let specimens = [
    ImageSpecimen(
      "87a", pixels: 20,
      """
      R0lGODdhBQAEAIMAAMi0zJa0mWS0Zq94d2R4RBm0GjJ4IgB4AMg8RJY8M2Q8IjI8EQA8AK8AAGQAABkAACwAAAAABQAEAAAIGQAfPHDQoAGDBQoS
      IDhggMCAAQUKCAgAICAAOw==
      """),
    ImageSpecimen(
      "89a with a comment", pixels: 20,
      """
      R0lGODlhBQAEAIMAAMi0zJa0mWS0Zq94d2R4RBm0GjJ4IgB4AMg8RJY8M2Q8IjI8EQA8AK8AAGQAABkAACH+AWMALAAAAAAFAAQAAAgZAB88cNCg
      AYMFChIgOGCAwIABBQoICAAgIAA7
      """),
    ImageSpecimen(
      "interlaced, from ImageMagick", pixels: 20,
      """
      R0lGODlhBQAEAPABAAAAAP///yH5BAAAAAAAIf8LSW1hZ2VNYWdpY2sOZ2FtbWE9MC40NTQ1NDUALAAAAAAFAAQAQAIGhB+QqssFADs=
      """),
    ImageSpecimen(
      "an animation that loops", pixels: 20,
      """
      R0lGODlhBQAEAIMAAMi0zJa0mWS0Zq94d2R4RBm0GjJ4IgB4AMg8RJY8M2Q8IjI8EQA8AK8AAGQAABkAACH/C05FVFNDQVBFMi4wAwEAAAAh+QQI
      BQAAACwAAAAABQAEAAAIGQAfPHDQoAGDBQoSIDhggMCAAQUKCAgAICAAIfkECAUAAAAsAAAAAAUABACClrSZlnhmGbQaGXgRljwzGTwJlgAAGQAA
      CBUADQg8cICAwQIFAigcMACAQwECAgIAIfkECAUAAAAsAAAAAAUABACClrSZlnhmGbQaGXgRljwzGTwJlgAAGQAACBUAAQgUICCAwQEDCCgsUMCA
      wwMHAgIAOw==
      """),
    ImageSpecimen(
      "an animation of ImageMagick", pixels: 20,
      """
      R0lGODlhBQAEAPQAAAAAADIAAAA8ADI8EWQAAGQ8IgB4ADJ4ImR4RJYAAJY8M8gAAMg8RJZ4ZgC0ADK0M2S0Zsh4iJa0mci0zAAAAAAAAAAAAAAA
      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACH5BAAFAAAAIf8LTkVUU0NBUEUyLjADAQAAACwAAAAABQAEAAAFESAQEMkiDIXCGAfSRM4DSVMIACH5
      BAAFAAAAIf8LSW1hZ2VNYWdpY2sOZ2FtbWE9MC40NTQ1NDUALAAAAAAFAAQAgAAAAP///wIHhG+REOpQAAA7
      """),
  ]

  // MARK: Data streams made here

  /// A screen without a colour table.
  private static func gif(_ width: Int = 5, _ height: Int = 4, _ blocks: [UInt8]...) -> [UInt8] {
    octets("GIF89a") + littleEndian(width, 2) + littleEndian(height, 2) + [0, 0, 0] + blocks.flatMap { $0 }
  }

  private static func frame(
    _ width: Int = 5, _ height: Int = 4, at left: Int = 0, _ top: Int = 0, packed: UInt8 = 0, codeSize: UInt8 = 2,
    data: [UInt8] = [2, 7, 7, 0]
  ) -> [UInt8] {
    let table = packed & 0x80 == 0 ? [] : [UInt8](repeating: 3, count: 3 << (Int(packed & 7) + 1))
    let numbers = [left, top, width, height].flatMap { littleEndian($0, 2) }
    return [0x2c] + numbers + [packed] + table + [codeSize] + data
  }

  private static let graphicControl: [UInt8] = [0x21, 0xf9, 4, 0, 5, 0, 0, 0]
  private static let trailer: [UInt8] = [0x3b]

  private static let made = [
    ImageSpecimen("the smallest", pixels: 20, bytes: gif(5, 4, frame(), trailer)),
    ImageSpecimen("the smallest code", pixels: 20, bytes: gif(5, 4, frame(codeSize: 2), trailer)),
    ImageSpecimen("the largest code", pixels: 20, bytes: gif(5, 4, frame(codeSize: 11), trailer)),
    ImageSpecimen(
      "frames that touch each side of the screen", pixels: 20,
      bytes: gif(5, 4, frame(1, 1, at: 4, 3), graphicControl, frame(5, 1, at: 0, 3), frame(1, 4, at: 4), trailer)),
    ImageSpecimen("a local colour table", pixels: 20, bytes: gif(5, 4, frame(packed: 0x87), trailer)),
    ImageSpecimen(
      "extensions of unusual lengths, and an unknown one", pixels: 20,
      bytes: gif(
        5, 4, [0x21, 0xff, 10] + octets("NETSCAPE2.") + [0], [0x21, 0x01, 0], [0x21, 0x77, 1, 9, 0], frame(), trailer)),
    ImageSpecimen(
      "the longest sub-block", pixels: 20,
      bytes: gif(5, 4, frame(data: [255] + [UInt8](repeating: 8, count: 255) + [1, 1, 0]), trailer)),
  ]

  private static let faults = [
    FaultyImage("no screen", octets("GIF89a\u{5}\u{0}\u{4}"), "expected 2 bytes of a screen height, found 1", at: 8),
    FaultyImage("no width", gif(0, 4, frame(), trailer), "expected a width and a height above 0, found 0 x 4", at: 6),
    FaultyImage("no height", gif(5, 0, frame(), trailer), "expected a width and a height above 0, found 5 x 0", at: 6),
    FaultyImage(
      "many pixels", gif(60000, 60000, frame(), trailer), "60000 x 60000 pixels, above the limit of 1000000", at: 6),
    FaultyImage(
      "a colour table that is cut short", gif().replacing(10, [0x81]) + [1, 2, 3],
      "expected 12 bytes of a colour table, found 3", at: 13),
    FaultyImage("nothing behind the screen", gif(), "expected 1 byte of a block or the trailer, found 0", at: 13),
    FaultyImage(
      "no image", gif(5, 4, graphicControl, trailer), "expected an image before the trailer, found none", at: 21),
    FaultyImage("no trailer", gif(5, 4, frame()), "expected 1 byte of a block or the trailer, found 0", at: 28),
    FaultyImage(
      "a byte between blocks", gif(5, 4, [0], frame(), trailer), "expected a block or the trailer, found 0x0", at: 13),
    FaultyImage(
      "a frame without width", gif(5, 4, frame(0, 4), trailer), "expected a width and a height above 0, found 0 x 4",
      at: 18),
    FaultyImage(
      "a frame without height", gif(5, 4, frame(5, 0), trailer), "expected a width and a height above 0, found 5 x 0",
      at: 18),
    FaultyImage(
      "a frame that is too wide", gif(5, 4, frame(5, 4, at: 1), trailer),
      "expected an image within the screen of 5 x 4, found 5 x 4 at (1, 0)", at: 14),
    FaultyImage(
      "a frame that is too high", gif(5, 4, frame(5, 4, at: 0, 1), trailer),
      "expected an image within the screen of 5 x 4, found 5 x 4 at (0, 1)", at: 14),
    FaultyImage(
      "a frame far away", gif(5, 4, frame(1, 1, at: 65535, 65535), trailer),
      "expected an image within the screen of 5 x 4, found 1 x 1 at (65535, 65535)", at: 14),
    FaultyImage(
      "a frame of many pixels", gif(5, 4, frame(65535, 65535), trailer),
      "65535 x 65535 pixels, above the limit of 1000000", at: 18),
    FaultyImage(
      "a code of one bit", gif(5, 4, frame(codeSize: 1), trailer),
      "expected an LZW minimum code size of 2 to 11, found 1", at: 23),
    FaultyImage(
      "a code of twelve bits", gif(5, 4, frame(codeSize: 12), trailer),
      "expected an LZW minimum code size of 2 to 11, found 12", at: 23),
    FaultyImage(
      "a frame without data", gif(5, 4, frame(data: [0]), trailer), "expected image data, found none", at: 24),
    FaultyImage(
      "a sub-block that is cut short", gif(5, 4, frame(data: [9, 1, 2])), "expected 9 bytes of a sub-block, found 2",
      at: 25),
    FaultyImage(
      "sub-blocks without a terminator", gif(5, 4, frame(data: [2, 1, 2])),
      "expected 1 byte of a sub-block or its terminator, found 0", at: 27),
    FaultyImage(
      "a graphic control extension of five bytes", gif(5, 4, [0x21, 0xf9, 5, 0, 5, 0, 0, 0, 0], frame(), trailer),
      "expected a graphic control extension of 4 bytes, found 5", at: 15),
    FaultyImage(
      "an empty graphic control extension", gif(5, 4, [0x21, 0xf9, 0], frame(), trailer),
      "expected a graphic control extension of 4 bytes, found 0", at: 15),
    FaultyImage(
      "a graphic control extension in two parts", gif(5, 4, [0x21, 0xf9, 2, 0, 5, 2, 0, 0, 0], frame(), trailer),
      "expected a graphic control extension of 4 bytes, found 4 in parts", at: 15),
    FaultyImage(
      "an extension without a label", gif(5, 4, [0x21]), "expected 1 byte of an extension label, found 0", at: 14),
  ]

  @Test(arguments: specimens + made)
  func isAccepted(image: ImageSpecimen) { expectImage(image, behind: .accepted) }

  @Test(arguments: faults)
  func isRefused(image: FaultyImage) { expectFault(image) }

  @Test func everyOtherByteBeginsNoBlock() {
    for label in 0...255 as ClosedRange<UInt8> where ![0x21, 0x2c, 0x3b].contains(label) {
      let fault = checkImage(Self.gif(5, 4, Self.frame(), [label], Self.frame(), Self.trailer))
      #expect(fault?.offset == 28)
    }
  }
}

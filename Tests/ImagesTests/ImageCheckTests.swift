// The signatures by which formats are told apart, and the limits that hold for all formats.

import Bytes
import Images
import TestSupport
import Testing

@Suite struct ImageCheckTests {
  private static let expectation =
    "expected the signature of a PNG, JPEG, GIF, WebP, BMP, TIFF, ICO, CUR, AVIF or XBM image, found "

  @Test(arguments: [
    ("", "nothing"),
    ("<html>", "the bytes 3c 68 74 6d 6c 3e"),
    ("<!DOCTYPE html>", "the bytes 3c 21 44 4f 43 54 59 50"),
    ("{\"error\":1}", "the bytes 7b 22 65 72 72 6f 72 22"),
    ("\u{89}PNG", "the bytes 89 50 4e 47"),
    ("\u{89}PNG\n\u{1a}\n\u{0}", "the bytes 89 50 4e 47 0a 1a 0a 00"),
    ("GIF88a\u{1}\u{0}\u{1}\u{0}", "the bytes 47 49 46 38 38 61 01 00"),
    ("RIFF\u{4}\u{0}\u{0}\u{0}WAVE", "the bytes 52 49 46 46 04 00 00 00"),
    ("RIFF\u{4}\u{0}\u{0}\u{0}WEB", "the bytes 52 49 46 46 04 00 00 00"),
    ("II\u{0}*\u{8}\u{0}\u{0}\u{0}", "the bytes 49 49 00 2a 08 00 00 00"),
    ("MM*\u{0}\u{0}\u{0}\u{0}\u{8}", "the bytes 4d 4d 2a 00 00 00 00 08"),
    ("\u{0}\u{0}\u{3}\u{0}\u{1}\u{0}\u{0}\u{0}", "the bytes 00 00 03 00 01 00 00 00"),
    ("\u{ff}\u{d8}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}", "the bytes ff d8 00 00 00 00 00 00"),
    ("%PDF-1.7\n", "the bytes 25 50 44 46 2d 31 2e 37"),
    ("/* a style sheet */ p {}", "the bytes 2f 2a 20 61 20 73 74 79"),
  ])
  func anUnknownSignatureIsShown(body: String, found: String) {
    #expect(checkImage(octets(body)) == ContentFault(Self.expectation + found, offset: 0))
  }

  /// A header is enough to refuse an image by its dimensions: nothing else of it need be there.
  @Test(arguments: [
    (
      "PNG",
      "\u{89}PNG\r\n\u{1a}\n\u{0}\u{0}\u{0}\u{d}IHDR\u{0}\u{0}\u{ea}\u{60}\u{0}\u{0}\u{ea}\u{60}\u{8}\u{2}"
        + "\u{0}\u{0}\u{0}\u{f}\u{b0}\u{e2}\u{15}", 16
    ),
    ("JPEG", "\u{ff}\u{d8}\u{ff}\u{c0}\u{0}\u{b}\u{8}\u{ea}\u{60}\u{ea}\u{60}\u{1}\u{1}\u{11}\u{0}", 7),
    ("GIF", "GIF89a\u{60}\u{ea}\u{60}\u{ea}\u{0}\u{0}\u{0}", 6),
    (
      "BMP",
      "BM\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{36}\u{0}\u{0}\u{0}\u{28}\u{0}\u{0}\u{0}"
        + "\u{60}\u{ea}\u{0}\u{0}\u{60}\u{ea}\u{0}\u{0}\u{1}\u{0}\u{18}\u{0}" + String(repeating: "\u{0}", count: 24),
      18
    ),
    ("XBM", "#define a_width 60000\n#define a_height 60000\nstatic char a_bits[] = {", 45),
  ])
  func aBombIsRefusedFromItsHeader(format: String, body: String, offset: Int) {
    let fault = checkImage(octets(body), maximumPixels: 100_000_000)
    #expect(fault?.reason == "60000 x 60000 pixels, above the limit of 100000000")
    #expect(fault?.offset == offset)
    // Where the limit allows it, the rest is missed.
    let missing = checkImage(octets(body), maximumPixels: 3_600_000_000)
    #expect(missing?.reason.hasPrefix("expected ") == true)
  }

  /// Bytes of chance behind each signature: refused, and nothing beyond them is looked at.
  @Test func chanceIsNoImage() {
    var generator = SeededGenerator(seed: 41)
    let memory = GuardedMemory(capacity: 4096)
    let signatures = [
      "\u{89}PNG\r\n\u{1a}\n", "\u{ff}\u{d8}\u{ff}", "GIF89a", "RIFF\u{40}\u{0}\u{0}\u{0}WEBP", "BM", "II*\u{0}",
      "MM\u{0}*", "II+\u{0}", "MM\u{0}+", "\u{0}\u{0}\u{1}\u{0}", "\u{0}\u{0}\u{0}\u{14}ftypavif", "#define ",
    ]
    for round in 0..<6000 {
      let count = Int.random(in: 0...120, using: &generator)
      // Small numbers get further than large ones.
      let most: UInt8 = round % 2 == 0 ? 255 : 4
      let tail = (0..<count).map { _ in UInt8.random(in: 0...most, using: &generator) }
      let bytes = octets(signatures[round % signatures.count]) + tail
      let fault = memory.lend(bytes) { ImageCheck.check($0, maximumPixels: usualPixels) }
      #expect(fault != nil)
      if let fault { expectSound(fault, of: bytes.count) }
    }
  }
}

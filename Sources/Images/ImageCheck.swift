// Whether a body is an image, judged by its signature and its structure, not by its pixels.
//
// The signature determines the format. One source file per format then walks through the parts of the image, down to
// its last byte. Compressed pixels are not decoded. In a PNG, the CRCs vouch for the stream in IDAT, which is not
// inflated; in the other formats, the framing does. The checks are strict where a decoder would fail or read out of
// bounds, and lenient where every decoder shows the image; each file lists both. Bytes after the image are rejected if
// no encoder writes any, and accepted if real files have some. The work is linear in the size of the body, and no
// memory is allocated for what the body only claims.
//
// Tests: ImageCheckTests and a file for each format, over images of real encoders; Tests/Fuzz/Images.

import Bytes

/// Checks images: PNG and APNG, JPEG, GIF, WebP, BMP, TIFF and BigTIFF, ICO and CUR, AVIF, XBM.
public enum ImageCheck {
  /// The first fault of `body` as an image; nil if it is one.
  ///
  /// - Parameter maximumPixels: The most pixels, width times height, of the image and of each of its frames, pages,
  ///   icons and tiles.
  public static func check(_ body: Span<UInt8>, maximumPixels: Int) -> ContentFault? {
    var reader = ImageReader(body, maximumPixels: maximumPixels)
    do throws(ContentFault) {
      switch ImageFormat.recognize(body) {
      case .png: try PNGDatastream.check(&reader)
      case .jpeg: try JPEGInterchange.check(&reader)
      case .gif: try GIFDataStream.check(&reader)
      case .webP: try WebPFile.check(&reader)
      case .bitmap: try BitmapFile.check(&reader)
      case .tiff: try TIFFFile.check(&reader)
      case .icon: try IconFile.check(&reader)
      case .avif: try AVIFFile.check(&reader)
      case .xBitmap: try XBitmap.check(&reader)
      case nil:
        let names = "a PNG, JPEG, GIF, WebP, BMP, TIFF, ICO, CUR, AVIF or XBM image"
        return ContentFault("expected the signature of \(names), found \(beginning(of: body))", offset: 0)
      }
      return nil
    } catch {
      return error
    }
  }

  /// How many bytes of an unknown signature are shown: the longest signature has eight.
  private static let bytesShown = 8

  private static func beginning(of body: Span<UInt8>) -> String {
    if body.isEmpty { return "nothing" }
    var text = "the bytes"
    for index in 0..<min(bytesShown, body.count) {
      text += body[index] < 16 ? " 0" : " "
      text += String(body[index], radix: 16)
    }
    return text
  }
}

/// The formats, as determined by their signatures.
enum ImageFormat {
  case png, jpeg, gif, webP, bitmap, tiff, icon, avif, xBitmap

  /// Every image is longer.
  private static let signatureBytes = 8

  static func recognize(_ body: Span<UInt8>) -> ImageFormat? {
    guard body.count >= signatureBytes else { return nil }
    var signature: UInt64 = 0
    for index in 0..<signatureBytes { signature = signature << 8 | UInt64(body[index]) }
    // A file type box of 256 bytes begins like an icon, so its name is checked first.
    if UInt32(truncatingIfNeeded: signature) == ISOBoxType.fileType.rawValue { return .avif }
    switch UInt32(signature >> 32) {
    case 0x0000_0100, 0x0000_0200: return .icon
    case 0x424d_0000...0x424d_ffff: return .bitmap
    case 0x4749_4638: return body.equals(4..<6, "7a") || body.equals(4..<6, "9a") ? .gif : nil
    case 0x4949_2a00, 0x4949_2b00, 0x4d4d_002a, 0x4d4d_002b: return .tiff
    case 0x5249_4646: return body.count >= 12 && body.equals(8..<12, "WEBP") ? .webP : nil
    case 0x8950_4e47: return signature == 0x8950_4e47_0d0a_1a0a ? .png : nil
    case 0xffd8_ff00...0xffd8_ffff: return .jpeg
    default: return XBitmap.isRecognized(body) ? .xBitmap : nil
    }
  }
}

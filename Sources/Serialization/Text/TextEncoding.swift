// An encoding of text other than UTF-8, as iconv(3) knows it: AFNetworking's stringEncoding.
//
// glibc keeps most encodings in modules of their own, which it loads from files. They are loaded here, when a policy is
// read, and stay loaded as long as the encoding is there: a conversion, in an event loop, opens no file. A descriptor that
// converts has a state and belongs to one thread, so whoever converts opens one of its own. Tests: TextEncodingTests.

import Bytes
import CIconv

/// An encoding in which the characters that forms are made of are what they are in ASCII.
public final class TextEncoding: Sendable {
  /// Longest name in bytes: twice the longest that is registered.
  static let longestName = 80

  public enum Fault: Error, Equatable {
    /// No name of an encoding.
    case malformed
    /// iconv(3) of this machine does not know it.
    case unknown
    /// Letters, digits or separators of forms are other bytes in it, or can be others, as in UTF-16, EBCDIC and ISO-2022-JP.
    case notASCII
  }

  /// As the configuration writes it.
  public let name: String
  /// They convert nothing, and keep glibc from unloading what it has loaded.
  private let anchors: [TextConverter.Descriptor]

  /// Looks an encoding up. It may read files.
  public static func find(_ name: String) -> Result<TextEncoding, Fault> {
    guard (1...longestName).contains(name.utf8.count), name.utf8.allSatisfy(\.isEncodingNameCharacter) else {
      return .failure(.malformed)
    }
    guard let encoding = TextEncoding(name) else { return .failure(.unknown) }
    for byte in formCharacters {
      guard encoding.encode([byte]) == .success([byte]), encoding.decode([byte]) == .success([byte]) else {
        return .failure(.notASCII)
      }
    }
    // An escape sequence after which letters are others: of what stands in a form nothing would be certain.
    return encoding.decode(escape) == .success(escape) ? .success(encoding) : .failure(.notASCII)
  }

  /// Whether the name means UTF-8, which needs no conversion.
  public static func isUTF8(_ name: String) -> Bool { MediaType.Charset(name: Array(name.utf8).span) == .utf8 }

  private static let formCharacters = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%&=+[],;. -_/?\"".utf8)
  /// Of ISO 2022: what follows is JIS X 0208.
  private static let escape: [UInt8] = [0x1b, 0x24, 0x42]
  private static let utf8 = "UTF-8"

  private init?(_ name: String) {
    guard let encoder = TextConverter.Descriptor(to: name, from: Self.utf8),
      let decoder = TextConverter.Descriptor(to: Self.utf8, from: name)
    else { return nil }
    self.name = name
    anchors = [encoder, decoder]
  }

  /// Whether `name` names this encoding, whatever its case.
  func isNamed(_ name: Span<UInt8>) -> Bool { name.string.lowercased() == self.name.lowercased() }

  /// A converter from this encoding to UTF-8.
  func decoderOrFault() throws(ContentFault) -> TextConverter {
    if let converter = TextConverter(to: Self.utf8, from: name) { return converter }
    throw ContentFault("expected to convert from \(name), found no memory for it", offset: 0)
  }

  /// A text of UTF-8 in this encoding; a failure is where a character begins that it does not have.
  func encode(_ text: [UInt8]) -> Result<[UInt8], UnfitText> { Self.convert(text, to: name, from: Self.utf8) }

  /// A text of this encoding in UTF-8; a failure is where what stands there is no character.
  func decode(_ text: [UInt8]) -> Result<[UInt8], UnfitText> { Self.convert(text, to: Self.utf8, from: name) }

  /// Whether the encoding has each character of a text of UTF-8.
  public func canEncode(_ text: [UInt8]) -> Bool { (try? encode(text).get()) != nil }

  private static func convert(_ text: [UInt8], to: String, from: String) -> Result<[UInt8], UnfitText> {
    // It could be opened when the policy was read. Where it cannot now there is no memory left.
    guard let converter = TextConverter(to: to, from: from) else { return .failure(UnfitText(index: 0)) }
    return converter.convert(text)
  }
}

/// A text that cannot be converted.
struct UnfitText: Error, Equatable {
  /// Index in bytes.
  let index: Int
}

/// Converts texts one by one.
final class TextConverter {
  /// Of iconv(3); closed with the last reference to it.
  final class Descriptor: Sendable {
    private let address: UInt

    init?(to: String, from: String) {
      guard let pointer = unsafe ciconv_open(to, from) else { return nil }
      address = UInt(bitPattern: pointer)
    }

    deinit { unsafe ciconv_close(pointer) }

    fileprivate var pointer: UnsafeMutableRawPointer? { unsafe UnsafeMutableRawPointer(bitPattern: address) }
  }

  /// Room in bytes for each byte that is left, and for what switches a state: an estimate that saves steps, no limit.
  private static let growth = 3
  private static let least = 32

  private let descriptor: Descriptor
  /// The encoding that is converted from.
  let from: String

  /// nil where an encoding is unknown.
  init?(to: String, from: String) {
    guard let descriptor = Descriptor(to: to, from: from) else { return nil }
    self.descriptor = descriptor
    self.from = from
  }

  /// Whether `name` names the encoding that is converted from, whatever its case.
  func isFrom(_ name: Span<UInt8>) -> Bool { name.string.lowercased() == from.lowercased() }

  /// A text in UTF-8, which it is already where there is no converter.
  static func utf8(_ text: [UInt8], by converter: TextConverter?) -> Result<[UInt8], UnfitText> {
    if let converter { return converter.convert(text) }
    guard let index = text.span.firstInvalidUTF8 else { return .success(text) }
    return .failure(UnfitText(index: index))
  }

  /// The whole text; a failure is where what stands there cannot be converted.
  func convert(_ text: [UInt8]) -> Result<[UInt8], UnfitText> {
    unsafe ciconv_reset(descriptor.pointer)
    var out: [UInt8] = []
    var at = 0
    while true {
      // The step behind the last byte writes what brings a state back to its beginning.
      let isLast = at == text.count
      var room = [UInt8](repeating: 0, count: (text.count - at) * Self.growth + Self.least)
      var inLeft = text.count - at
      var outLeft = room.count
      let outcome = step(text, &inLeft, into: &room, &outLeft)
      out += room[..<(room.count - outLeft)]
      at = text.count - inLeft
      switch outcome {
      case CICONV_DONE: if isLast { return .success(out) }
      case CICONV_WANTS_ROOM: break
      default: return .failure(UnfitText(index: at))
      }
    }
  }

  private func step(
    _ text: [UInt8], _ inLeft: inout Int, into room: inout [UInt8], _ outLeft: inout Int
  ) -> ciconv_outcome {
    let from = text.count - inLeft
    return unsafe text.withUnsafeBufferPointer { input in
      unsafe room.withUnsafeMutableBufferPointer { output in
        let place = unsafe input.baseAddress.map { unsafe $0 + from }
        return unsafe ciconv_step(descriptor.pointer, place, &inLeft, output.baseAddress, &outLeft)
      }
    }
  }
}

extension UInt8 {
  /// Of the names in IANA's registry and in that of glibc; no slash, behind which iconv takes orders.
  fileprivate var isEncodingNameCharacter: Bool {
    isASCIILetter || isASCIIDigit || "-._:+()".utf8.contains(self)
  }
}

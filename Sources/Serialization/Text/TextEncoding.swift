// A text encoding other than UTF-8, as supported by iconv(3): AFNetworking's stringEncoding.
//
// glibc has most encodings in separate modules, which it loads from files. They are loaded here, when a policy is read,
// and stay loaded as long as the encoding exists: a conversion in an event loop must not open a file. A conversion
// descriptor has a state and belongs to one thread, so each conversion opens its own. Tests: TextEncodingTests.

import Bytes
import CIconv

/// An encoding that represents the characters of form syntax as in ASCII.
public final class TextEncoding: Sendable {
  /// The longest name in bytes: twice the longest registered one.
  static let longestName = 80

  public enum Fault: Error, Equatable {
    /// Not the name of an encoding.
    case malformed
    /// iconv(3) of this machine does not support it.
    case unknown
    /// Letters, digits or separators of forms are other bytes in it, or can be, as in UTF-16, EBCDIC and ISO-2022-JP.
    case notASCII
  }

  /// As written in the configuration.
  public let name: String
  /// These convert nothing. They keep glibc from unloading its modules.
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
    // After this escape sequence letters mean something else, so the syntax of a form would be uncertain.
    return encoding.decode(escape) == .success(escape) ? .success(encoding) : .failure(.notASCII)
  }

  /// Whether the name means UTF-8, which needs no conversion.
  public static func isUTF8(_ name: String) -> Bool { MediaType.Charset(name: Array(name.utf8).span) == .utf8 }

  private static let formCharacters = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%&=+[],;. -_/?\"".utf8)
  /// From ISO 2022: JIS X 0208 follows.
  private static let escape: [UInt8] = [0x1b, 0x24, 0x42]
  private static let utf8 = "UTF-8"

  private init?(_ name: String) {
    guard let encoder = TextConverter.Descriptor(to: name, from: Self.utf8),
      let decoder = TextConverter.Descriptor(to: Self.utf8, from: name)
    else { return nil }
    self.name = name
    anchors = [encoder, decoder]
  }

  /// Whether `name` is the name of this encoding, in any case.
  func isNamed(_ name: Span<UInt8>) -> Bool { name.string.lowercased() == self.name.lowercased() }

  /// A converter from this encoding to UTF-8.
  func decoderOrFault() throws(ContentFault) -> TextConverter {
    if let converter = TextConverter(to: Self.utf8, from: name) { return converter }
    throw ContentFault("expected to convert from \(name), found no memory for it", offset: 0)
  }

  /// Converts UTF-8 text to this encoding. A failure has the position of a character that it lacks.
  func encode(_ text: [UInt8]) -> Result<[UInt8], UnfitText> { Self.convert(text, to: name, from: Self.utf8) }

  /// Converts text in this encoding to UTF-8. A failure has the position of bytes that are not a character.
  func decode(_ text: [UInt8]) -> Result<[UInt8], UnfitText> { Self.convert(text, to: Self.utf8, from: name) }

  /// Whether the encoding has every character of a UTF-8 text.
  public func canEncode(_ text: [UInt8]) -> Bool { (try? encode(text).get()) != nil }

  private static func convert(_ text: [UInt8], to: String, from: String) -> Result<[UInt8], UnfitText> {
    // It could be opened when the policy was read. If it cannot now, there is no memory left.
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
  /// A descriptor of iconv(3), closed with the last reference to it.
  final class Descriptor: Sendable {
    private let address: UInt

    init?(to: String, from: String) {
      guard let pointer = unsafe ciconv_open(to, from) else { return nil }
      address = UInt(bitPattern: pointer)
    }

    deinit { unsafe ciconv_close(pointer) }

    fileprivate var pointer: UnsafeMutableRawPointer? { unsafe UnsafeMutableRawPointer(bitPattern: address) }
  }

  /// The room for each remaining byte, and for a change of state, in bytes. An estimate that saves steps, not a limit.
  private static let growth = 3
  private static let least = 32

  private let descriptor: Descriptor
  /// The source encoding.
  let from: String

  /// nil if an encoding is unknown.
  init?(to: String, from: String) {
    guard let descriptor = Descriptor(to: to, from: from) else { return nil }
    self.descriptor = descriptor
    self.from = from
  }

  /// Whether `name` is the name of the source encoding, in any case.
  func isFrom(_ name: Span<UInt8>) -> Bool { name.string.lowercased() == from.lowercased() }

  /// The text in UTF-8. Without a converter, it is UTF-8 already.
  static func utf8(_ text: [UInt8], by converter: TextConverter?) -> Result<[UInt8], UnfitText> {
    if let converter { return converter.convert(text) }
    guard let index = text.span.firstNotUTF8() else { return .success(text) }
    return .failure(UnfitText(index: index))
  }

  /// Converts the whole text. A failure has the position of what cannot be converted.
  func convert(_ text: [UInt8]) -> Result<[UInt8], UnfitText> {
    unsafe ciconv_reset(descriptor.pointer)
    var out: [UInt8] = []
    var at = 0
    while true {
      // After the last byte, one more step writes the sequence that resets the state.
      let isLast = at == text.count
      var room = [UInt8](repeating: 0, count: (text.count - at) * Self.growth + Self.least)
      var inLeft = text.count - at
      var outLeft = room.count
      let outcome = step(text, left: &inLeft, into: &room, left: &outLeft)
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
    _ text: [UInt8], left inLeft: inout Int, into room: inout [UInt8], left outLeft: inout Int
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
  /// The characters of names in the registries of IANA and glibc. A slash is not allowed, because iconv reads options
  /// after it.
  fileprivate var isEncodingNameCharacter: Bool {
    isASCIILetter || isASCIIDigit || "-._:+()".utf8.contains(self)
  }
}

// Images of real encoders as rows of tables, and what holds for every one of them.

import Bytes
import Images
import TestSupport
import Testing

/// A small image, as an encoder wrote it.
struct ImageSpecimen: Sendable, CustomTestStringConvertible {
  let sentence: String
  /// Of its largest canvas, frame, page, icon or tile.
  let pixels: Int
  let bytes: [UInt8]

  init(_ sentence: String, pixels: Int, _ base64: String) {
    self.init(sentence, pixels: pixels, bytes: decodeBase64(base64))
  }

  init(_ sentence: String, pixels: Int, bytes: [UInt8]) {
    self.sentence = sentence
    self.pixels = pixels
    self.bytes = bytes
  }

  var testDescription: String { sentence }
}

/// Bytes that are no image, and the fault that they are refused with.
struct FaultyImage: Sendable, CustomTestStringConvertible {
  let sentence: String
  let bytes: [UInt8]
  let fault: ContentFault

  init(_ sentence: String, _ bytes: [UInt8], _ reason: String, at offset: Int) {
    self.sentence = sentence
    self.bytes = bytes
    fault = ContentFault(reason, offset: offset)
  }

  var testDescription: String { sentence }
}

/// What may stand behind the end of an image.
enum BytesBehind { case accepted, refused }

/// Above what any specimen has.
let usualPixels = 1_000_000

func checkImage(_ bytes: [UInt8], maximumPixels: Int = usualPixels) -> ContentFault? {
  ImageCheck.check(bytes.span, maximumPixels: maximumPixels)
}

/// A specimen is accepted whole and refused wherever it is cut, its dimensions count, and no damage has its readers
/// look beyond its bytes.
func expectImage(_ specimen: ImageSpecimen, behind: BytesBehind, prefixes: ClosedRange<Int>? = nil) {
  let bytes = specimen.bytes
  let memory = GuardedMemory(capacity: bytes.count + 8)
  func check(_ bytes: some Collection<UInt8>, maximumPixels: Int = usualPixels) -> ContentFault? {
    let fault = memory.lend(bytes) { ImageCheck.check($0, maximumPixels: maximumPixels) }
    if let fault { expectSound(fault, of: bytes.count) }
    return fault
  }
  #expect(check(bytes) == nil)
  for count in 0..<bytes.count {
    let isImage = check(bytes.prefix(count)) == nil
    #expect(isImage == (prefixes?.contains(count) ?? false), "the first \(count) bytes")
  }
  for tail in [[0x00], [0x3b], [0xff, 0xd8], [0x89, 0x50, 0x4e, 0x47]] as [[UInt8]] {
    #expect((check(bytes + tail) == nil) == (behind == .accepted), "with \(tail) behind it")
  }
  #expect(check(bytes, maximumPixels: specimen.pixels) == nil)
  let tooLarge = check(bytes, maximumPixels: specimen.pixels - 1)
  #expect(tooLarge?.reason.hasSuffix(" pixels, above the limit of \(specimen.pixels - 1)") == true)
  for index in bytes.indices {
    var damaged = bytes
    for byte in [0x00, 0x01, 0x7f, 0x80, 0xff, bytes[index] ^ 0x01, bytes[index] ^ 0x80] {
      damaged[index] = byte
      _ = check(damaged)
    }
  }
}

/// A fault says something, in printable ASCII, of a byte of the body or of its end.
func expectSound(_ fault: ContentFault, of count: Int) {
  #expect(!fault.reason.isEmpty && fault.reason.utf8.allSatisfy { 0x20..<0x7f ~= $0 })
  #expect(0...count ~= fault.offset)
}

/// A row of a table of faults: refused at that byte for that reason, and no part that reaches beyond it is accepted.
func expectFault(_ image: FaultyImage) {
  let memory = GuardedMemory(capacity: image.bytes.count + 1)
  let fault = memory.lend(image.bytes) { ImageCheck.check($0, maximumPixels: usualPixels) }
  #expect(fault?.sentence == image.fault.sentence)
  for count in 0..<image.bytes.count {
    let fault = memory.lend(image.bytes.prefix(count)) { ImageCheck.check($0, maximumPixels: usualPixels) }
    #expect(fault != nil || count <= image.fault.offset, "the first \(count) bytes")
  }
}

// MARK: Making images

extension [UInt8] {
  /// The bytes with those at `offset` and behind it replaced.
  func replacing(_ offset: Int, _ bytes: [UInt8]) -> [UInt8] {
    var copy = self
    copy.replaceSubrange(offset..<offset + bytes.count, with: bytes)
    return copy
  }

  func inserting(_ offset: Int, _ bytes: [UInt8]) -> [UInt8] {
    Array(prefix(offset)) + bytes + dropFirst(offset)
  }

  func removing(_ range: Range<Int>) -> [UInt8] {
    Array(prefix(range.lowerBound)) + dropFirst(range.upperBound)
  }

  /// Where `text` begins for the first time.
  func offset(of text: String) -> Int {
    let wanted = octets(text)
    guard let offset = indices.first(where: { self[$0...].starts(with: wanted) }) else {
      fatalError("no \(text)")
    }
    return offset
  }
}

/// A number in `count` bytes.
func bigEndian(_ value: Int, _ count: Int) -> [UInt8] {
  (0..<count).reversed().map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
}

func littleEndian(_ value: Int, _ count: Int) -> [UInt8] { bigEndian(value, count).reversed() }

/// The bytes of base64 in lines.
func decodeBase64(_ text: String) -> [UInt8] {
  let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  var bytes: [UInt8] = []
  var bits = 0
  var count = 0
  for character in text.utf8 {
    guard let value = alphabet.firstIndex(of: character) else { continue }
    bits = (bits << 6 | value) & 0xffff
    count += 6
    guard count >= 8 else { continue }
    count -= 8
    bytes.append(UInt8(truncatingIfNeeded: bits >> count))
  }
  return bytes
}

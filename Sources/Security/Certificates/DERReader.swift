// Reads the elements of distinguished encoding (X.690) one after another, without copying. For certificate extensions:
// OpenSSL decodes more forms than the standard allows, and does not report which one it found.

/// One element: its first octet, which is its class and number, and its content.
struct DERElement {
  static let boolean: UInt8 = 0x01
  static let integer: UInt8 = 0x02
  static let bitString: UInt8 = 0x03
  static let octetString: UInt8 = 0x04
  static let objectIdentifier: UInt8 = 0x06

  let tag: UInt8
  /// Valid while the bytes that were read live.
  let content: UnsafeBufferPointer<UInt8>

  /// The elements inside, for a sequence or similar; nil if malformed.
  var elements: [DERElement]? { DERReader.elements(content) }
}

struct DERReader {
  private let bytes: UnsafeBufferPointer<UInt8>
  private var at = 0

  private init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

  /// All elements of `bytes`; nil if malformed.
  static func elements(_ bytes: UnsafeBufferPointer<UInt8>) -> [DERElement]? {
    var reader = DERReader(bytes)
    var found: [DERElement] = []
    while reader.at < bytes.count {
      guard let element = reader.next() else { return nil }
      found.append(element)
    }
    return found
  }

  /// The one element of this tag that makes up `bytes`; nil if they are anything else.
  static func element(_ tag: UInt8, _ bytes: UnsafeBufferPointer<UInt8>) -> DERElement? {
    var reader = DERReader(bytes)
    guard let element = reader.next(), element.tag == tag, reader.at == bytes.count else { return nil }
    return element
  }

  /// The elements of the one sequence that makes up `bytes`.
  static func sequence(_ bytes: UnsafeBufferPointer<UInt8>) -> [DERElement]? {
    element(DER.sequence, bytes)?.elements
  }

  /// nil if no complete element follows, its number has more than one octet, or its length is not encoded in the
  /// shortest form.
  private mutating func next() -> DERElement? {
    guard bytes.count - at >= 2 else { return nil }
    let tag = bytes[at]
    guard tag & 0x1f != 0x1f, let length = length() else { return nil }
    guard length <= bytes.count - at else { return nil }
    defer { at += length }
    return DERElement(tag: tag, content: UnsafeBufferPointer(rebasing: bytes[at..<at + length]))
  }

  /// Advances to the content.
  private mutating func length() -> Int? {
    let first = Int(bytes[at + 1])
    at += 2
    if first < 0x80 { return first }
    let count = first & 0x7f
    // Nothing that OpenSSL has read is 4 GiB long.
    guard (1...4).contains(count), bytes.count - at >= count, bytes[at] != 0 else { return nil }
    var length = 0
    for _ in 0..<count {
      length = length << 8 | Int(bytes[at])
      at += 1
    }
    return length < 0x80 ? nil : length
  }
}

// The elements of distinguished encoding (X.690), one behind the other, without copying them. For the extensions of
// certificates: OpenSSL decodes more forms than the standard has, and does not say which it saw.

/// One element: its first octet, class and number, and what is in it.
struct DERElement {
  static let boolean: UInt8 = 0x01
  static let integer: UInt8 = 0x02
  static let bitString: UInt8 = 0x03
  static let octetString: UInt8 = 0x04
  static let objectIdentifier: UInt8 = 0x06

  let tag: UInt8
  /// Lives as long as the bytes that were read.
  let content: UnsafeBufferPointer<UInt8>

  /// What is inside, where it is a sequence or the like; nil where it is malformed.
  var elements: [DERElement]? { DERReader.elements(content) }
}

struct DERReader {
  private let bytes: UnsafeBufferPointer<UInt8>
  private var at = 0

  private init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

  /// All elements of `bytes`; nil where they are malformed.
  static func elements(_ bytes: UnsafeBufferPointer<UInt8>) -> [DERElement]? {
    var reader = DERReader(bytes)
    var found: [DERElement] = []
    while reader.at < bytes.count {
      guard let element = reader.next() else { return nil }
      found.append(element)
    }
    return found
  }

  /// The one element that `bytes` are, of this tag; nil where they are anything else.
  static func element(_ tag: UInt8, _ bytes: UnsafeBufferPointer<UInt8>) -> DERElement? {
    var reader = DERReader(bytes)
    guard let element = reader.next(), element.tag == tag, reader.at == bytes.count else { return nil }
    return element
  }

  /// The elements of the one sequence that `bytes` are.
  static func sequence(_ bytes: UnsafeBufferPointer<UInt8>) -> [DERElement]? {
    element(DER.sequence, bytes)?.elements
  }

  /// nil where no whole element follows, its number has more than one octet, or its length is not the shortest.
  private mutating func next() -> DERElement? {
    guard bytes.count - at >= 2 else { return nil }
    let tag = bytes[at]
    guard tag & 0x1f != 0x1f, let length = length() else { return nil }
    guard length <= bytes.count - at else { return nil }
    defer { at += length }
    return DERElement(tag: tag, content: UnsafeBufferPointer(rebasing: bytes[at..<at + length]))
  }

  /// Goes on to the content.
  private mutating func length() -> Int? {
    let first = Int(bytes[at + 1])
    at += 2
    if first < 0x80 { return first }
    let count = first & 0x7f
    // What OpenSSL has read has no 4 GiB.
    guard (1...4).contains(count), bytes.count - at >= count, bytes[at] != 0 else { return nil }
    var length = 0
    for _ in 0..<count {
      length = length << 8 | Int(bytes[at])
      at += 1
    }
    return length < 0x80 ? nil : length
  }
}

// The plaintext at the beginning of a TLS connection: records, and the handshake messages in them (RFC 8446, 4 and 5.1;
// RFC 5246, 6.2.1 and 7.4). This code reads both directions of a tunnel, up to the point where encryption begins.
//
// The input is what has arrived and has not been passed on. Each call shows it again, with more after it. The reader
// remembers its position, so slow bytes cost no more than fast ones. A message within one record is read in place; only
// a message that spans records is copied together. A record is used once it is complete. Anything wrong is refused and
// never skipped or repaired, because the peer after the proxy might read it differently.
//
// Tested in ClientHelloTests and ServerFlightTests: whole, byte by byte, and cut into records at every boundary. Fuzzed
// as ClientHello and ServerFlight.

import Bytes

/// A protocol version in wire format (RFC 8446, 4.1.2): 0x0303 is TLS 1.2.
public struct ProtocolVersion: RawRepresentable, Hashable, Comparable, Sendable, CustomStringConvertible {
  public let rawValue: UInt16

  public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let ssl30 = ProtocolVersion(rawValue: 0x0300)
  public static let tls10 = ProtocolVersion(rawValue: 0x0301)
  public static let tls11 = ProtocolVersion(rawValue: 0x0302)
  public static let tls12 = ProtocolVersion(rawValue: 0x0303)
  public static let tls13 = ProtocolVersion(rawValue: 0x0304)

  public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

  public var description: String {
    switch self {
    case .ssl30: "SSL 3.0"
    case .tls10: "TLS 1.0"
    case .tls11: "TLS 1.1"
    case .tls12: "TLS 1.2"
    case .tls13: "TLS 1.3"
    default: "version 0x" + String(rawValue, radix: 16)
    }
  }
}

/// The content type of a record (RFC 8446, 5.1).
enum ContentType: UInt8 {
  case changeCipherSpec = 20
  case alert = 21
  case handshake = 22
  case applicationData = 23
}

/// The five bytes before each record.
struct RecordHeader: Equatable {
  static let byteCount = 5
  /// The longest content of a record in plaintext (RFC 8446, 5.1).
  static let longestPlaintext = 1 << 14
  /// The longest content of an encrypted TLS 1.3 record (RFC 8446, 5.2): early data, which may follow the hello at
  /// once.
  static let longestCiphertext = longestPlaintext + 256

  let type: ContentType
  /// Bytes of content; never zero.
  let length: Int

  enum Reading: Equatable {
    case incomplete
    case complete(RecordHeader)
    case invalid(HandshakeFault)
  }

  /// Reads the header at `at`. What has arrived must match, however little it is.
  static func read(_ input: Span<UInt8>, at: Int) -> Reading {
    guard at < input.count else { return .incomplete }
    guard let type = ContentType(rawValue: input[at]) else { return .invalid(.notTLS) }
    guard at + 1 < input.count else { return .incomplete }
    // The minor version has no meaning, and clients differ in it (RFC 8446, 5.1).
    guard input[at + 1] == 3 else { return .invalid(.notTLS) }
    guard at + byteCount <= input.count else { return .incomplete }
    let length = Int(input[at + 3]) << 8 | Int(input[at + 4])
    // RFC 8446, 5.1 and RFC 5246, 6.2.1 forbid it for all but application data, and there is no empty application data
    // here.
    if length == 0 { return .invalid(.emptyRecord) }
    if length > (type == .applicationData ? longestCiphertext : longestPlaintext) { return .invalid(.oversizedRecord) }
    return .complete(RecordHeader(type: type, length: length))
  }
}

/// Walks through records and returns the handshake messages in them.
struct HandshakeMessages {
  /// How much may come before a reader gives up, and the faults for that.
  struct Limits {
    /// Bytes of one message, without its own four of type and length.
    let message: Int
    let messageFault: HandshakeFault
    /// Bytes of the input, including record headers.
    let input: Int
    let inputFault: HandshakeFault
  }

  /// Where the body of a message is.
  enum Place: Equatable {
    case input(Range<Int>)
    case joined
  }

  enum Event: Equatable {
    /// Nothing more can be read from what has arrived.
    case incomplete
    case message(type: UInt8, Place)
    /// A record without a handshake message; the range is its content in the input.
    case record(ContentType, Range<Int>)
    case invalid(HandshakeFault)
  }

  /// Type (one byte) and length (three) before each message (RFC 8446, 4).
  private static let headerBytes = 4

  private let limits: Limits
  /// The offset in the input after the last processed record.
  private(set) var position = 0
  /// What is left of that record.
  private var fragment = 0..<0
  /// A message that spans records, from its header on, as far as it has arrived.
  private var joined: [UInt8] = []
  private var handedOutJoined = false

  init(limits: Limits) { self.limits = limits }

  /// Whether the last message ended where its record ended.
  var isAtRecordEnd: Bool { fragment.isEmpty }

  /// The body of the last message that was returned.
  @_lifetime(borrow self, copy input)
  func body(_ place: Place, _ input: Span<UInt8>) -> Span<UInt8> {
    switch place {
    case .input(let range): input.extracting(range)
    case .joined: joined.span.extracting(Self.headerBytes...)
    }
  }

  mutating func next(_ input: Span<UInt8>) -> Event {
    if handedOutJoined {
      joined.removeAll()
      handedOutJoined = false
    }
    while true {
      if !fragment.isEmpty, let event = takeMessage(input) { return event }
      switch RecordHeader.read(input, at: position) {
      case .incomplete: return .incomplete
      case .invalid(let fault):
        return position == 0 && fault == .notTLS ? Opening.event(input) : .invalid(fault)
      case .complete(let header):
        let content = position + RecordHeader.byteCount..<position + RecordHeader.byteCount + header.length
        if content.upperBound > limits.input { return .invalid(limits.inputFault) }
        if content.upperBound > input.count { return .incomplete }
        position = content.upperBound
        if header.type == .handshake {
          fragment = content
        } else {
          return joined.isEmpty ? .record(header.type, content) : .invalid(.interleavedRecord)
        }
      }
    }
  }

  /// The next message of the current record; nil if it ends in a later record.
  private mutating func takeMessage(_ input: Span<UInt8>) -> Event? {
    if joined.isEmpty, fragment.count >= Self.headerBytes {
      let begin = fragment.lowerBound
      let body = begin + Self.headerBytes..<begin + Self.headerBytes + Self.length(input, at: begin)
      if body.upperBound <= fragment.upperBound {
        fragment = body.upperBound..<fragment.upperBound
        return .message(type: input[begin], .input(body))
      }
    }
    join(input, upTo: Self.headerBytes)
    guard joined.count >= Self.headerBytes else { return nil }
    let length = Self.length(joined.span, at: 0)
    if length > limits.message { return .invalid(limits.messageFault) }
    join(input, upTo: Self.headerBytes + length)
    guard joined.count == Self.headerBytes + length else { return nil }
    handedOutJoined = true
    return .message(type: joined[0], .joined)
  }

  /// Appends bytes of the current record to `joined`, until that has `count` bytes.
  private mutating func join(_ input: Span<UInt8>, upTo count: Int) {
    let end = min(fragment.upperBound, fragment.lowerBound + max(0, count - joined.count))
    for index in fragment.lowerBound..<end { joined.append(input[index]) }
    fragment = end..<fragment.upperBound
  }

  private static func length(_ bytes: Span<UInt8>, at: Int) -> Int {
    Int(bytes[at + 1]) << 16 | Int(bytes[at + 2]) << 8 | Int(bytes[at + 3])
  }
}

/// Recognises streams that are not TLS, to explain why a connection was closed.
private enum Opening {
  private static let known: [(text: [UInt8], fault: HandshakeFault)] =
    ["GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "CONNECT ", "OPTIONS ", "TRACE ", "PATCH ", "PRI ", "HTTP/"]
    .map { (Array($0.utf8), .plainHTTP) } + [(Array("SSH-".utf8), .ssh)]

  /// Waits only as long as the bytes may still become a known opening.
  static func event(_ input: Span<UInt8>) -> HandshakeMessages.Event {
    // Two bytes of length with the highest bit set, then 1 for a hello (RFC 5246, E.2).
    if input[0] & 0x80 != 0 {
      if input.count < 3 { return .incomplete }
      return .invalid(input[2] == 1 ? .sslv2 : .notTLS)
    }
    for (text, fault) in known {
      let count = min(text.count, input.count)
      guard input.extracting(0..<count).equals(text.span.extracting(0..<count)) else { continue }
      return count == text.count ? .invalid(fault) : .incomplete
    }
    return .invalid(.notTLS)
  }
}

/// Reads numbers and vectors (RFC 8446, 3.3 and 3.4) one after another, and never past the end.
struct FieldCursor: ~Escapable {
  private let bytes: Span<UInt8>
  private var at = 0
  /// The fault that is thrown if there are not enough bytes.
  private let fault: HandshakeFault

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>, otherwise fault: HandshakeFault) {
    self.bytes = bytes
    self.fault = fault
  }

  var isAtEnd: Bool { at == bytes.count }

  /// The unread bytes.
  var rest: Span<UInt8> {
    @_lifetime(copy self)
    get { bytes.extracting(at...) }
  }

  mutating func number(byteCount: Int) throws(HandshakeFault) -> Int {
    guard bytes.count - at >= byteCount else { throw fault }
    var value = 0
    for index in at..<at + byteCount { value = value << 8 | Int(bytes[index]) }
    at += byteCount
    return value
  }

  mutating func version() throws(HandshakeFault) -> ProtocolVersion {
    ProtocolVersion(rawValue: UInt16(try number(byteCount: 2)))
  }

  /// The next `count` bytes.
  @_lifetime(copy self)
  mutating func opaque(_ count: Int) throws(HandshakeFault) -> Span<UInt8> {
    guard bytes.count - at >= count else { throw fault }
    at += count
    return bytes.extracting(at - count..<at)
  }

  /// The content of a vector. Its length is in the `lengthBytes` bytes before it.
  @_lifetime(copy self)
  mutating func vector(lengthBytes: Int) throws(HandshakeFault) -> FieldCursor {
    let count = try number(byteCount: lengthBytes)
    return FieldCursor(try opaque(count), otherwise: fault)
  }
}

/// Whether the first bytes of a connection are TLS at all.
public enum TLSBeginning {
  /// Whether `input`, which is not empty, begins like a record, or like an SSL 2.0 hello, which old servers accept;
  /// nil: not decided yet.
  public static func isMet(by input: Span<UInt8>) -> Bool? {
    if input[0] & 0x80 == 0 {
      guard ContentType(rawValue: input[0]) != nil else { return false }
      if input.count < 2 { return nil }
      if input[1] == 3 { return true }
      // The version is to be ignored (RFC 8446, 5.1), and there are servers that do. What has another one counts as TLS
      // if the length does not speak against it, and is then refused.
      if input.count < RecordHeader.byteCount { return nil }
      return (1...RecordHeader.longestCiphertext).contains(Int(input[3]) << 8 | Int(input[4]))
    }
    // Two bytes of length, 1 for a hello, and the requested version (RFC 5246, E.2).
    if input.count < 3 { return nil }
    if input[2] != 1 { return false }
    if input.count < 5 { return nil }
    return input[3] >= 3 || input[3] == 0 && input[4] == 2
  }
}

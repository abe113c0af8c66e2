// Exchanges on their way from a loop to the thread that writes the history. They are appended to one buffer, so a loop
// only copies bytes and allocates nothing.
//
// An exchange consists of its numbers (low byte first), its path, and the words of its kind (`HistoryWord.written`).
// The path and each word end with a byte that occurs neither in UTF-8 nor in an HTTP head that was read. The words come
// last and together, so the thread recognises a known kind by comparing bytes. All of this stays in one process, so
// there is no version number. Tests: HistoryBatchTests.

import Bytes
import Policy

/// The data of an exchange other than its words.
public struct HistoryNumbers: Equatable, Sendable {
  /// When it ended, in milliseconds since 1970.
  public var endedWall: Int64
  /// The value of its reference.
  public var reference: UInt32
  /// 0: the client got no answer.
  public var status: UInt16
  public var bytesIn: UInt64
  public var bytesOut: UInt64
  public var totalMicroseconds: Int64

  public init(
    endedWall: Int64, reference: UInt32, status: UInt16, bytesIn: UInt64, bytesOut: UInt64, totalMicroseconds: Int64
  ) {
    self.endedWall = endedWall
    self.reference = reference
    self.status = status
    self.bytesIn = bytesIn
    self.bytesOut = bytesOut
    self.totalMicroseconds = totalMicroseconds
  }

  static let encodedBytes = 38

  public var begunWall: Int64 { endedWall - totalMicroseconds / 1000 }
}

/// A batch of exchanges for the thread.
public struct HistoryBatch: ~Copyable, Sendable {
  public private(set) var bytes = ByteBuffer()
  /// How many exchanges it contains.
  public private(set) var count = 0

  static let end: UInt8 = 0xff

  public init() {}

  public var isEmpty: Bool { count == 0 }

  public mutating func removeAll() {
    bytes.removeAll()
    count = 0
  }

  public mutating func append(contentsOf other: borrowing HistoryBatch) {
    bytes.append(contentsOf: other.bytes)
    count += other.count
  }

  // MARK: Writing

  /// Begins an exchange. All words of `HistoryWord.written` must follow, in that order.
  public mutating func begin(_ numbers: HistoryNumbers, path: Span<UInt8>) {
    count += 1
    bytes.reserve(HistoryNumbers.encodedBytes + path.count + 1)
    append(UInt64(bitPattern: numbers.endedWall), 8)
    append(UInt64(numbers.reference), 4)
    append(UInt64(numbers.status), 2)
    append(numbers.bytesIn, 8)
    append(numbers.bytesOut, 8)
    append(UInt64(bitPattern: numbers.totalMicroseconds), 8)
    bytes.append(path)
    endWord()
  }

  public mutating func word(_ text: String?) {
    if let text { bytes.append(text) }
    endWord()
  }

  public mutating func word(_ text: StaticString?) {
    if let text { bytes.append(text) }
    endWord()
  }

  public mutating func word(_ text: Span<UInt8>) {
    bytes.append(text)
    endWord()
  }

  public mutating func word(_ number: UInt32?) {
    if let number { bytes.append(decimal: UInt64(number)) }
    endWord()
  }

  public mutating func word(_ address: IPAddress?) {
    if let address { address.write { bytes.append($0) } }
    endWord()
  }

  public mutating func word(_ parts: [String], between separator: UInt8) {
    for index in parts.indices {
      if index > 0 { bytes.append(separator) }
      bytes.append(parts[index])
    }
    endWord()
  }

  public mutating func word(_ numbers: [UInt32], between separator: UInt8) {
    for index in numbers.indices {
      if index > 0 { bytes.append(separator) }
      bytes.append(decimal: UInt64(numbers[index]))
    }
    endWord()
  }

  private mutating func endWord() { bytes.append(Self.end) }

  private mutating func append(_ value: UInt64, _ count: Int) {
    var rest = value
    for _ in 0..<count {
      bytes.append(UInt8(truncatingIfNeeded: rest))
      rest >>= 8
    }
  }
}

// MARK: Reading

/// One exchange of a batch, as ranges of its bytes.
public struct HistoryEntry: Equatable, Sendable {
  public let numbers: HistoryNumbers
  public let path: Range<Int>
  /// All its words with their ends.
  public let kind: Range<Int>

  /// The exchange that begins at `start`; nil if it is incomplete or missing.
  public init?(_ bytes: Span<UInt8>, at start: Int) {
    guard start >= 0, bytes.count - start > HistoryNumbers.encodedBytes else { return nil }
    var at = start
    func number(_ count: Int) -> UInt64 {
      defer { at += count }
      return (0..<count).reduce(UInt64(0)) { $0 | UInt64(bytes[at + $1]) << UInt64(8 * $1) }
    }
    numbers = HistoryNumbers(
      endedWall: Int64(bitPattern: number(8)), reference: UInt32(number(4)), status: UInt16(number(2)),
      bytesIn: number(8), bytesOut: number(8), totalMicroseconds: Int64(bitPattern: number(8)))
    guard let pathEnd = Self.end(bytes, from: at) else { return nil }
    path = at..<pathEnd
    var end = pathEnd + 1
    for _ in HistoryWord.written {
      guard let wordEnd = Self.end(bytes, from: end) else { return nil }
      end = wordEnd + 1
    }
    kind = pathEnd + 1..<end
  }

  /// Where the next one begins.
  public var end: Int { kind.upperBound }

  private static func end(_ bytes: Span<UInt8>, from start: Int) -> Int? {
    bytes.extracting(start..<bytes.count).firstIndex(of: HistoryBatch.end).map { start + $0 }
  }
}

extension HistoryKind {
  /// The kind with these words; nil if the bytes are not valid.
  public init?(encoded bytes: Span<UInt8>) {
    self.init()
    var at = 0
    for word in HistoryWord.written {
      guard let length = bytes.extracting(at..<bytes.count).firstIndex(of: HistoryBatch.end) else { return nil }
      self[word] = bytes.extracting(at..<at + length).string
      at += length + 1
    }
    guard at == bytes.count else { return nil }
    takeApart(target: self[.host] ?? "")
  }

  /// Splits `https://a.example:8443`, `a.example:443` or `*` into scheme, host and port.
  private mutating func takeApart(target: String) {
    var rest = target[...]
    if let colon = target.firstRange(of: "://") {
      self[.scheme] = String(target[..<colon.lowerBound])
      rest = target[colon.upperBound...]
    } else if isTunnel {
      self[.scheme] = Scheme.https.rawValue
    }
    let bracket = rest.lastIndex(of: "]")
    if let colon = rest.lastIndex(of: ":"), bracket.map({ $0 < colon }) ?? true {
      self[.port] = String(rest[rest.index(after: colon)...])
      rest = rest[..<colon]
    }
    if port == nil { self[.port] = self[.scheme].flatMap(Scheme.init).map { "\($0.defaultPort)" } }
    var host = CanonicalHost()
    let isOne = host.set(Array(rest.utf8).span) == nil
    self[.host] = isOne ? String(decoding: host.bytes, as: UTF8.self) : String(rest)
  }
}

// The chunked coding: what is read out of it in whatever pieces it comes, and everything that is refused.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

/// What a whole body came to: its content and where it ended, or why it was refused.
enum DecodedBody: Equatable, Sendable, CustomStringConvertible {
  /// More has to come; this is the content so far.
  case incomplete([UInt8])
  case complete([UInt8], trailers: String, count: Int)
  case refused(MessageFault)

  var description: String {
    switch self {
    case .incomplete(let content): "incomplete, '\(shown(content))'"
    case .complete(let content, let trailers, let count):
      "'\(shown(content))', trailers '\(shown(Array(trailers.utf8)))', \(count) bytes"
    case .refused(let fault): "refused: \(fault.rawValue)"
    }
  }
}

/// Plays a connection: pieces are put behind what the decoder has left, as a session does.
func decode(_ pieces: [[UInt8]], _ memory: GuardedMemory, limits: HeadLimits = usualLimits) -> DecodedBody {
  var decoder = ChunkedDecoder()
  var kept: [UInt8] = []
  var content: [UInt8] = []
  var spent = 0
  var inTrailers = false
  for piece in pieces {
    kept += piece
    let outcome: DecodedBody? = memory.lend(kept) { bytes in
      var at = 0
      while !inTrailers {
        switch decoder.next(bytes, from: at) {
        case .data(let range):
          // Nothing is passed over but framing, and no content is empty.
          precondition(range.lowerBound >= at && !range.isEmpty && range.upperBound <= bytes.count)
          content += bytes.extracting(range).array
          at = range.upperBound
        case .needMore(let consumed):
          precondition(consumed >= at && consumed <= bytes.count)
          spent += consumed
          kept.removeFirst(consumed)
          return nil
        case .lastChunk(let consumed):
          at = consumed
          inTrailers = true
        case .invalid(let fault): return .refused(fault)
        }
      }
      var fields = FieldSection()
      switch TrailerReader.read(bytes, from: at, limits: limits, into: &fields) {
      case .incomplete:
        spent += at
        kept.removeFirst(at)
        return nil
      case .invalid(let fault): return .refused(fault)
      case .complete(let end):
        var buffer = ByteBuffer()
        fields.write(bytes, to: &buffer)
        return .complete(content, trailers: buffer.bytes.string, count: spent + end)
      }
    }
    if let outcome { return outcome }
  }
  return .incomplete(content)
}

@Suite struct ChunkedDecoderTests {
  static let longExtension = String(repeating: "x", count: ChunkedDecoder.longestSizeLine - 4)

  static let accepted: [(sentence: String, text: String, content: String, trailers: String)] = [
    ("nothing", "0\r\n\r\n", "", ""),
    ("one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello", ""),
    ("several chunks", "1\r\nh\r\n4\r\nello\r\n0\r\n\r\n", "hello", ""),
    (
      "sizes in capitals and small letters", "A\r\n0123456789\r\na\r\nabcdefghij\r\n0\r\n\r\n",
      "0123456789abcdefghij", ""
    ),
    ("leading zeros", "0005\r\nhello\r\n000\r\n\r\n", "hello", ""),
    ("content that looks like framing", "7\r\n0\r\n\r\n\r\n\r\n0\r\n\r\n", "0\r\n\r\n\r\n", ""),
    ("content of every kind of byte", "4\r\n\u{0}\u{7f}\u{ff}\n\r\n0\r\n\r\n", "\u{0}\u{7f}\u{ff}\n", ""),
    ("an extension", "5;a\r\nhello\r\n0\r\n\r\n", "hello", ""),
    ("an extension with a value", "5;a=b\r\nhello\r\n0;c=d\r\n\r\n", "hello", ""),
    ("an extension with a quoted value", "5;a=\"b;c\\\"d\te\"\r\nhello\r\n0\r\n\r\n", "hello", ""),
    ("an empty quoted value", "5;a=\"\"\r\nhello\r\n0\r\n\r\n", "hello", ""),
    ("several extensions", "5;a;b=c;d=\"e\"\r\nhello\r\n0\r\n\r\n", "hello", ""),
    ("bytes above ASCII within quotes", "5;a=\"\u{e9}\"\r\nhello\r\n0\r\n\r\n", "hello", ""),
    ("a trailer", "0\r\nX-Sum: 1\r\n\r\n", "", "X-Sum: 1\r\n"),
    ("several trailers", "1\r\na\r\n0\r\nA: 1\r\nb:2\r\n\r\n", "a", "A: 1\r\nb:2\r\n"),
    (
      "trailers of the hop are dropped",
      "0\r\nA: 1\r\nConnection: x\r\nKeep-Alive: 1\r\nUpgrade: y\r\nProxy-Connection: z\r\nB: 2\r\n\r\n", "",
      "A: 1\r\nB: 2\r\n"
    ),
    (
      "the longest size line", "5;\(longExtension)\r\nhello\r\n0\r\n\r\n", "hello", ""
    ),
  ]

  /// Beside those of Tests/Rows.
  static let refused: [(sentence: String, text: String, fault: MessageFault)] = [
    ("a size of ever more digits", String(repeating: "f", count: 40) + "\r\n", .chunkSizeOverflow),
    (
      "a size of ever more zeros", String(repeating: "0", count: ChunkedDecoder.longestSizeLine + 100),
      .chunkSizeOverflow
    ),
    ("a size line one byte too long", "5;\(longExtension)x\r\nhello", .badChunkExtension),
    ("a size line much too long", "5;\(longExtension)\(longExtension)\r\nhello", .badChunkExtension),
    ("a size line that is too long before it goes wrong", "5;\(longExtension)xx\nhello", .badChunkExtension),
  ]

  /// A row of either table, shown by its sentence.
  struct Body: Sendable, CustomTestStringConvertible {
    let sentence: String
    let bytes: [UInt8]
    var content = ""
    var trailers = ""
    var fault = MessageFault.badChunkSize

    var testDescription: String { sentence }
  }

  @Test(
    arguments: accepted.map {
      Body(sentence: $0.sentence, bytes: octets($0.text), content: $0.content, trailers: $0.trailers)
    })
  func isRead(body: Body) {
    let (bytes, content, trailers) = (body.bytes, body.content, body.trailers)
    let memory = GuardedMemory(capacity: 64 << 10)
    let expected = DecodedBody.complete(octets(content), trailers: trailers, count: bytes.count)
    for split in Split.usual {
      #expect(decode(split.pieces(bytes), memory) == expected, "\(split)")
    }
    for tail in trailingData {
      #expect(decode([bytes + octets(tail)], memory) == expected, "with \(shown(octets(tail))) behind it")
    }
    // A body that is cut short is never taken for a whole one, and what has come of its content comes out.
    for count in 0..<bytes.count {
      let part = decode([Array(bytes.prefix(count))], memory)
      guard case .incomplete(let begun) = part, octets(content).starts(with: begun) else {
        Issue.record("the first \(count) bytes: \(part)")
        return
      }
      let bytewise = decode(Split.bytewise.pieces(Array(bytes.prefix(count))), memory)
      #expect(bytewise == part, "the first \(count) bytes, one by one")
    }
  }

  @Test func theSharedRowsAreThere() { #expect(SharedRow.all("refused-bodies.txt").count > 80) }

  @Test(arguments: SharedRow.all("refused-bodies.txt").map { row in Row(row, row.text) })
  func isRefused(row: Row) {
    checkRefused(Body(sentence: row.sentence, bytes: row.bytes, fault: row.expected.fault ?? .truncated))
  }

  @Test(arguments: refused.map { Body(sentence: $0.sentence, bytes: octets($0.text), fault: $0.fault) })
  func isRefused(body: Body) { checkRefused(body) }

  private func checkRefused(_ body: Body) {
    let (bytes, fault) = (body.bytes, body.fault)
    let memory = GuardedMemory(capacity: 64 << 10)
    for split in Split.usual {
      #expect(decode(split.pieces(bytes), memory) == .refused(fault), "\(split)")
    }
    for tail in trailingData {
      #expect(
        decode([bytes + octets(tail)], memory) == .refused(fault), "with \(shown(octets(tail))) behind it")
    }
    var decided = false
    for count in 0..<bytes.count {
      let part = decode([Array(bytes.prefix(count))], memory)
      if case .incomplete = part, !decided { continue }
      decided = true
      #expect(part == .refused(fault), "the first \(count) bytes")
    }
  }

  // MARK: Every byte at every place

  private static func tryEveryByte(
    _ text: String, _ location: SourceLocation = #_sourceLocation, _ expected: (UInt8) -> MessageFault?
  ) {
    let template = octets(text)
    guard let place = template.firstIndex(of: 1) else { fatalError("no place") }
    let memory = GuardedMemory(capacity: 4096)
    for byte in 0...255 as ClosedRange<UInt8> {
      var bytes = template
      bytes[place] = byte
      let whole = decode([bytes], memory)
      let bytewise = decode(Split.bytewise.pieces(bytes), memory)
      #expect(whole == bytewise, "\(shown([byte]))", sourceLocation: location)
      switch (whole, expected(byte)) {
      case (.refused(let seen), let fault):
        #expect(seen == fault, "\(shown([byte]))", sourceLocation: location)
      case (.complete, nil), (.incomplete, nil): continue
      case (let seen, let fault?):
        Issue.record("\(shown([byte])): \(seen), expected \(fault)", sourceLocation: location)
      }
    }
  }

  private static func fault(_ byte: UInt8, otherwise: MessageFault) -> MessageFault {
    switch byte {
    case 10: .bareLineFeed
    case 13: .bareCarriageReturn
    case 9: otherwise
    case 0..<32, 127: .controlCharacter
    default: otherwise
    }
  }

  private static let hexadecimal = Set("0123456789abcdefABCDEF".utf8)
  private static let token = Set(
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)

  @Test func everyByteInAChunkSize() {
    Self.tryEveryByte("\u{1}0\r\n") { byte in
      Self.hexadecimal.contains(byte) ? nil : Self.fault(byte, otherwise: .badChunkSize)
    }
    Self.tryEveryByte("1\u{1}0\r\n") { byte in
      if Self.hexadecimal.contains(byte) { return nil }
      // "0" is a token, so that what follows a semicolon is an extension.
      return byte == 0x3b ? nil : Self.fault(byte, otherwise: .badChunkSize)
    }
    Self.tryEveryByte("1\u{1}\r\n") { byte in
      if Self.hexadecimal.contains(byte) { return nil }
      return byte == 0x3b ? .badChunkExtension : Self.fault(byte, otherwise: .badChunkSize)
    }
  }

  @Test func everyByteInAnExtension() {
    Self.tryEveryByte("1;a\u{1}b\r\nx\r\n0\r\n\r\n") { byte in
      if Self.token.contains(byte) || byte == 0x3b || byte == 0x3d { return nil }
      return Self.fault(byte, otherwise: .badChunkExtension)
    }
    Self.tryEveryByte("1;a=\u{1}b\r\nx\r\n0\r\n\r\n") { byte in
      Self.token.contains(byte) ? nil : Self.fault(byte, otherwise: .badChunkExtension)
    }
    Self.tryEveryByte("1;a=\"b\u{1}\"\r\nx\r\n0\r\n\r\n") { byte in
      switch byte {
      // A quote ends the value and leaves one too many; a backslash takes the one that should end it.
      case 0x22, 0x5c: .badChunkExtension
      case 9: nil
      case 32..<127, 128...: nil
      default: Self.fault(byte, otherwise: .badChunkExtension)
      }
    }
  }

  @Test func everyByteBehindContent() {
    Self.tryEveryByte("1\r\nx\u{1}\n0\r\n\r\n") { $0 == 13 ? nil : .badChunkEnd }
    Self.tryEveryByte("1\r\nx\r\u{1}0\r\n\r\n") { $0 == 10 ? nil : .badChunkEnd }
  }

  // MARK: Limits

  @Test func theLargestSizeIsTaken() {
    var decoder = ChunkedDecoder()
    let bytes = octets("7fffffffffffffff\r\nabc")
    #expect(decoder.next(bytes.span, from: 0) == .data(18..<21))
    #expect(decoder.next(bytes.span, from: 21) == .needMore(consumed: 21))
  }

  /// Framing may cost 16 KiB, and eight bytes for each byte of content.
  @Test func overheadIsTakenUpToExactlyItsAllowance() {
    let memory = GuardedMemory(capacity: 256 << 10)
    func body(_ lines: [Int]) -> [UInt8] {
      // Chunks of one byte whose size lines have these lengths, CR LF included.
      lines.flatMap { octets("1;" + String(repeating: "x", count: $0 - 4) + "\r\nc\r\n") }
    }
    // After n chunks of one byte the allowance is 16384 + 8 n; each chunk costs its size line and two bytes behind it.
    // The content of a chunk counts only once it has come: not yet at its own size line.
    var lines: [Int] = []
    var cost = 0
    while cost + 1000 <= 16_384 + 8 * lines.count {
      lines.append(1000)
      cost += 1002
    }
    let left = 16_384 + 8 * lines.count - cost
    #expect(left > 5 && left < 1000)
    let exact = body(lines + [left])
    let beyond = body(lines + [left + 1])
    for split in Split.usual {
      #expect(
        decode(split.pieces(exact), memory) == .incomplete([UInt8](repeating: 0x63, count: lines.count + 1)))
      #expect(decode(split.pieces(beyond), memory) == .refused(.excessiveChunkOverhead), "\(split)")
    }
  }

  @Test func singleBytesMayBeSentForEver() {
    let memory = GuardedMemory(capacity: 256 << 10)
    let count = 20_000
    let bytes = octets(String(repeating: "1\r\nx\r\n", count: count) + "0\r\n\r\n")
    #expect(
      decode([bytes], memory)
        == .complete([UInt8](repeating: 0x78, count: count), trailers: "", count: bytes.count))
  }

  @Test func aTrailerSectionOfExactlyTheLimitIsTaken() {
    let limits = HeadLimits(bytes: 100, fields: 3)
    let memory = GuardedMemory(capacity: 4096)
    for (count, fits) in [(99, true), (100, true), (101, false), (102, false), (300, false)] {
      let line = "X: " + String(repeating: "x", count: count - 7) + "\r\n"
      let bytes = octets("0\r\n" + line + "\r\n")
      let expected: DecodedBody =
        fits ? .complete([], trailers: line, count: bytes.count) : .refused(.headTooLarge)
      for split in Split.usual {
        #expect(decode(split.pieces(bytes), memory, limits: limits) == expected, "\(count) bytes, \(split)")
      }
    }
    let four = octets("0\r\na:1\r\nb:2\r\nc:3\r\nd:4\r\n\r\n")
    let three = octets("0\r\na:1\r\nb:2\r\nc:3\r\n\r\n")
    for split in Split.usual {
      #expect(decode(split.pieces(four), memory, limits: limits) == .refused(.tooManyFields), "\(split)")
      #expect(
        decode(split.pieces(three), memory, limits: limits)
          == .complete([], trailers: "a:1\r\nb:2\r\nc:3\r\n", count: three.count), "\(split)")
    }
  }

  // MARK: Random bodies

  @Test func randomBodiesInRandomPiecesComeOutAsTheyWent() {
    var generator = SeededGenerator(seed: 11)
    let memory = GuardedMemory(capacity: 256 << 10)
    for _ in 0..<150 {
      var content: [UInt8] = []
      var bytes: [UInt8] = []
      for _ in 0..<Int.random(in: 0...8, using: &generator) {
        let count = Int.random(in: 1...(Bool.random(using: &generator) ? 5 : 700), using: &generator)
        let part = (0..<count).map { _ in octets("\r\n0a;\u{0}\u{ff}").randomElement(using: &generator) ?? 0 }
        let size = String(count, radix: 16, uppercase: Bool.random(using: &generator))
        let ending = ["", ";a", ";a=b", ";q=\"\\\" \""].randomElement(using: &generator) ?? ""
        bytes += octets(
          String(repeating: "0", count: Int.random(in: 0...3, using: &generator)) + size + ending + "\r\n")
        bytes += part + octets("\r\n")
        content += part
      }
      let trailers = Bool.random(using: &generator) ? "A: b\r\n" : ""
      bytes += octets("0\r\n" + trailers + "\r\n")
      let expected = DecodedBody.complete(content, trailers: trailers, count: bytes.count)
      for seed in 1...6 as ClosedRange<UInt64> {
        let split = Split.random(seed: seed, longest: seed % 2 == 0 ? 3 : 200)
        #expect(decode(split.pieces(bytes), memory) == expected, "\(split): \(shown(bytes))")
      }
    }
  }

  @Test func randomDamageIsJudgedAlikeInAnyPieces() {
    var generator = SeededGenerator(seed: 12)
    let memory = GuardedMemory(capacity: 8192)
    let telling = octets("\r\n \t;=\"\\0159afgx+-\u{0}\u{80}")
    let specimens = Self.accepted.map { octets($0.text) }.filter { $0.count < 200 }
    for round in 0..<3000 {
      var bytes = specimens[round % specimens.count]
      for _ in 0..<Int.random(in: 1...3, using: &generator) where !bytes.isEmpty {
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: bytes[place] = telling.randomElement(using: &generator) ?? 0
        case 1: bytes.insert(telling.randomElement(using: &generator) ?? 0, at: place)
        default: bytes.remove(at: place)
        }
      }
      let whole = decode([bytes], memory)
      let bytewise = decode(Split.bytewise.pieces(bytes), memory)
      #expect(whole == bytewise, "\(shown(bytes))")
    }
  }
}

// Parts that are stored: what they answer, what may be put behind them (RFC 9111, 3.3 and 3.4), and what is asked for then.

import Bytes
import Testing

@testable import Cache

@Suite struct StoredPartTests {
  private static let tag = "ETag: \"1\""
  private static let size = UInt64(Content.chunkBytes)
  private static let all: [UInt8] = (0..<6 * Content.chunkBytes).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) }

  private static func content(_ count: UInt64, announced: UInt64? = nil, ends: Bool = true, spills: Bool = false)
    -> Content
  {
    let content = Content(announced: announced ?? count, spills: spills)
    let bytes = Array(all[..<Int(count)])
    _ = content.append(bytes.span)
    if ends { _ = content.finish() }
    return content
  }

  private static func stored(
    _ content: Content, _ lines: [String] = [tag], part: StoredPart? = StoredPart(offset: 0, total: UInt64(all.count)),
    file: UInt64? = nil
  ) -> StoredAnswer {
    StoredAnswer(
      key: CacheKey(url: Array("http://a/".utf8), rule: [], owner: ""), url: [], host: "a", rule: "r",
      answer(200, lines),
      content, part: part, file: file)
  }

  private static let reader = Content.Reader(worker: 0, slot: 1, generation: 1)

  private static func bytes(of content: Content) -> [UInt8] {
    var buffer = ByteBuffer()
    while case .bytes(let count) = content.read(reader, from: UInt64(buffer.count), most: .max, into: &buffer).read,
      count > 0
    {}
    return buffer.bytes.array
  }

  // MARK: What it answers

  struct Holding: Sendable {
    let presentation: Presentation
    let holds: Bool
  }

  static let holdings: [Holding] = [
    Holding(presentation: .whole, holds: false),
    Holding(presentation: .notModified, holds: true),
    Holding(presentation: .unsatisfiable(of: 1000), holds: true),
    Holding(presentation: .part(100..<200, of: 1000), holds: true),
    Holding(presentation: .part(150..<160, of: 1000), holds: true),
    Holding(presentation: .part(99..<200, of: 1000), holds: false),
    Holding(presentation: .part(100..<201, of: 1000), holds: false),
    Holding(presentation: .part(0..<10, of: 1000), holds: false),
    Holding(presentation: .part(900..<910, of: 1000), holds: false),
  ]

  @Test(arguments: holdings) func aPartHoldsWhatIsWithinIt(row: Holding) {
    for ends in [true, false] {
      let part = Self.stored(Self.content(100, ends: ends), part: StoredPart(offset: 100, total: 1000))
      #expect(part.holds(row.presentation, for: request()) == row.holds)
      #expect(part.holds(row.presentation, for: request([], .head)))
      #expect(part.length == 1000)
      #expect(Self.stored(Self.content(100, ends: ends), part: nil).holds(row.presentation, for: request()))
    }
  }

  // MARK: Whether two are of one representation

  struct Same: Sendable {
    let stored: [String]
    let came: [String]
    let isSame: Bool
  }

  private static let old = "Last-Modified: \(date(-3600))"
  private static let young = "Last-Modified: \(date(-59))"
  private static let now = "Date: \(date(0))"

  static let sames: [Same] = [
    Same(stored: [tag], came: [tag], isSame: true),
    Same(stored: [tag], came: ["ETag: \"2\""], isSame: false),
    Same(stored: [tag], came: ["ETag: W/\"1\""], isSame: false),
    Same(stored: ["ETag: W/\"1\""], came: ["ETag: W/\"1\""], isSame: false),
    Same(stored: [tag], came: [], isSame: false),
    Same(stored: [tag, old], came: [old], isSame: false),
    Same(stored: [now, old], came: [now, old], isSame: true),
    Same(stored: [now, young], came: [now, young], isSame: false),
    Same(stored: [now, old], came: [now, "Last-Modified: \(date(-3601))"], isSame: false),
    Same(stored: [now, old], came: [now, old, tag], isSame: false),
    Same(stored: [now], came: [now], isSame: false),
    Same(stored: [tag, "Content-Encoding: gzip"], came: [tag, "Content-Encoding: gzip"], isSame: true),
    Same(stored: [tag, "Content-Encoding: gzip"], came: [tag], isSame: false),
    Same(stored: [tag], came: [tag, "Content-Encoding: gzip"], isSame: false),
  ]

  @Test(arguments: sames) func onlyAStrongValidatorSaysSo(row: Same) {
    #expect(answer(200, row.stored).isSameRepresentation(as: fields(row.came)) == row.isSame)
  }

  // MARK: What is put behind it

  struct Meeting: Sendable {
    let came: ContentRange
    /// Bytes of what came that are there already; nil: they do not meet.
    let known: UInt64?
  }

  static let meetings: [Meeting] = [
    Meeting(came: ContentRange(200..<300, of: 1000), known: 0),
    Meeting(came: ContentRange(150..<300, of: 1000), known: 50),
    Meeting(came: ContentRange(100..<300, of: 1000), known: 100),
    Meeting(came: ContentRange(99..<300, of: 1000), known: nil),
    Meeting(came: ContentRange(201..<300, of: 1000), known: nil),
    Meeting(came: ContentRange(150..<200, of: 1000), known: nil),
    Meeting(came: ContentRange(200..<300, of: 1001), known: nil),
    Meeting(came: ContentRange(200..<300, of: nil), known: nil),
  ]

  @Test(arguments: meetings) func whatMeetsItIsPutBehindIt(row: Meeting) {
    let part = Self.stored(Self.content(100), part: StoredPart(offset: 100, total: 1000))
    let met = part.meets(row.came, fields([Self.tag]))
    #expect(met?.known == row.known)
    #expect(met.map { $0.beginning.count } == row.known.map { _ in 100 })
    #expect(part.meets(row.came, fields(["ETag: \"2\""])) == nil)
  }

  @Test(arguments: [1, 100, size - 1, size, size + 1, 3 * size, 3 * size + 17])
  func bothAreOne(_ count: UInt64) throws {
    let total = UInt64(Self.all.count)
    let part = Self.stored(Self.content(count))
    let beginning = try #require(part.beginning())
    #expect(beginning.count == count)
    let both = Content(beginning, announced: total, spills: false)
    #expect(both.attend(Self.reader, from: 0))
    #expect(Self.bytes(of: both) == Array(Self.all[..<Int(count)]))
    let rest = Array(Self.all[Int(count)...])
    _ = both.append(rest.span)
    _ = both.finish()
    #expect(both.isComplete)
    #expect(Self.bytes(of: both) == Self.all)
    // The part is as it was.
    #expect(part.content.count == count && Self.bytes(of: part.content) == Array(Self.all[..<Int(count)]))
  }

  @Test func onlyABeginningIsGoneOnWithForTheWhole() {
    #expect(Self.stored(Self.content(10)).beginning() != nil)
    #expect(Self.stored(Self.content(10), part: StoredPart(offset: 1, total: 100)).beginning() == nil)
    #expect(Self.stored(Self.content(10), ["ETag: W/\"1\""]).beginning() == nil)
    #expect(Self.stored(Self.content(10, announced: 20, ends: false)).beginning() == nil, "it is still coming")
    #expect(Self.stored(Self.content(10), part: nil).beginning() == nil)
  }

  /// What is in the file alone does not have to be read for bytes to be put behind it.
  @Test func whatIsInAFileAloneGoesOnBehindWholeChunks() throws {
    let count = 2 * Self.size + 100
    let content = Content(inFile: count, trailers: [])
    let beginning = try #require(Self.stored(content, file: 1).beginning())
    #expect((beginning.count, beginning.written) == (2 * Self.size, 2 * Self.size))
    let both = Content(beginning, announced: UInt64(Self.all.count), spills: true)
    let rest = Array(Self.all[Int(beginning.count)...])
    _ = both.append(rest.span)
    _ = both.finish()
    #expect(both.nextToWrite()?.offset == 2 * Self.size)
    #expect(both.attend(Self.reader, from: 0))
    var buffer = ByteBuffer()
    #expect(both.read(Self.reader, from: 0, most: .max, into: &buffer).read == .load(0..<2))
    _ = both.loaded(0, Array(Self.all[..<Int(Self.size)]))
    #expect(both.read(Self.reader, from: 0, most: .max, into: &buffer).read == .bytes(Int(Self.size)))
  }

  // MARK: What broke off

  @Test func whatBrokeOffIsAPart() throws {
    let content = Self.content(100, announced: 1000, ends: false)
    let broken = Self.stored(content, part: nil)
    let kept = try #require(broken.salvaged())
    _ = content.breakOff()
    #expect(kept.part == StoredPart(offset: 0, total: 1000))
    #expect(kept.content.isComplete && kept.content.count == 100)
    #expect(Self.bytes(of: kept.content) == Array(Self.all[..<100]))
    #expect(content.end == .broken, "who was promised the whole is told")
  }

  @Test func whatCannotBeGoneOnWithIsNotKept() {
    func salvaged(_ lines: [String], _ count: UInt64 = 100, announced: UInt64? = 1000) -> StoredAnswer? {
      let content = Content(announced: announced)
      let bytes = Array(Self.all[..<Int(count)])
      _ = content.append(bytes.span)
      return Self.stored(content, lines, part: nil).salvaged()
    }
    #expect(salvaged([Self.tag]) != nil)
    #expect(salvaged(["ETag: W/\"1\""]) == nil)
    #expect(salvaged([]) == nil)
    #expect(salvaged([Self.tag, "Accept-Ranges: none"]) == nil)
    #expect(salvaged([Self.tag, "Accept-Ranges: bytes"]) != nil)
    #expect(salvaged([Self.tag], 0) == nil)
    #expect(salvaged([Self.tag], announced: nil) == nil)
  }

  @Test func theRestIsAskedForUnderTheValidator() {
    let head = answer(200, [Self.tag])
    #expect(text(head.conditions(forBytesFrom: 5)) == "Range: bytes=5-\r\nIf-Range: \"1\"\r\n")
    #expect(text(head.conditions(forBytesFrom: 5, to: 10)) == "Range: bytes=5-9\r\nIf-Range: \"1\"\r\n")
  }
}

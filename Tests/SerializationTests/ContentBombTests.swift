// Bodies that come to far more than they are: they stop at the limit, at once, and cost no more than it.

import Bytes
import Glibc
import Serialization
import TestSupport
import Testing

@Suite struct ContentBombTests {
  private static let kibibyte = 1 << 10
  private static let mebibyte = 1 << 20

  struct Bomb: Sendable, CustomTestStringConvertible {
    let sentence: String
    let codings: [ContentCoding]
    let bytes: [UInt8]

    var testDescription: String { sentence }
  }

  private static func decoded(_ bytes: [UInt8], _ codings: [ContentCoding]) -> [UInt8] {
    guard case .content(let content) = decode([bytes], codings, limit: 4 << 20, GuardedMemory()) else { return [] }
    return content
  }

  /// 1 GiB of zeros each.
  static let bombs: [Bomb] = {
    let gzip = decoded(CodedSamples.bombGzipInBrotli, [.br])
    let brotli = decoded(CodedSamples.bombBrotliInZstd, [.zstd])
    let zstd = decoded(CodedSamples.bombZstdInZstd, [.zstd])
    let member = encoded([UInt8](repeating: 0, count: mebibyte), as: [.gzip])
    let members = Array([[UInt8]](repeating: member, count: 1024).joined())
    return [
      Bomb(sentence: "gzip", codings: [.gzip], bytes: gzip),
      Bomb(sentence: "gzip of many members", codings: [.gzip], bytes: members),
      Bomb(sentence: "deflate without a wrapper", codings: [.deflate], bytes: Array(gzip.dropFirst(10).dropLast(8))),
      Bomb(sentence: "brotli", codings: [.br], bytes: brotli),
      Bomb(sentence: "zstd", codings: [.zstd], bytes: zstd),
      Bomb(sentence: "gzip in gzip", codings: [.gzip, .gzip], bytes: encoded(gzip, as: [.gzip])),
      Bomb(sentence: "gzip in brotli", codings: [.gzip, .br], bytes: CodedSamples.bombGzipInBrotli),
      Bomb(sentence: "brotli in zstd", codings: [.br, .zstd], bytes: CodedSamples.bombBrotliInZstd),
      Bomb(sentence: "zstd in zstd", codings: [.zstd, .zstd], bytes: CodedSamples.bombZstdInZstd),
    ]
  }()

  @Test(arguments: bombs)
  func stopsAtTheLimit(bomb: Bomb) {
    #expect(!bomb.bytes.isEmpty)
    for limit in [0, 1, 1000, 64 * Self.kibibyte, Self.mebibyte, 3_000_001] {
      for longest in [bomb.bytes.count, 1000] {
        var decoder = ContentDecoder(bomb.codings)
        var out = ByteBuffer()
        var progress = DecodeProgress.needsMore
        var at = 0
        while progress == .needsMore, at < bomb.bytes.count {
          let end = min(bomb.bytes.count, at + longest)
          progress = decoder.decode(bomb.bytes.span.extracting(at..<end), into: &out, limit: limit)
          at = end
        }
        #expect(progress == .exceedsLimit, "limit \(limit)")
        let (count, capacity) = (out.count, out.capacity)
        #expect(count == limit, "limit \(limit)")
        // A buffer grows by doubling, from a kibibyte, and never for more than the limit.
        var most = BufferPool.smallestBlock
        while most < limit { most *= 2 }
        #expect(capacity <= most, "limit \(limit)")
      }
    }
  }

  @Test(arguments: bombs)
  func costsNoTime(bomb: Bomb) {
    let memory = GuardedMemory(capacity: 8 << 20)
    let begin = threadSeconds()
    let outcome = decode([bomb.bytes], bomb.codings, limit: Self.mebibyte, memory)
    let spent = threadSeconds() - begin
    #expect(outcome == .exceedsLimit)
    // All of it would take a second as a rule; a mebibyte, and the window that brotli fills at once, some milliseconds.
    #expect(spent < 0.3)
  }

  /// Members and blocks that stand for nothing: the outer coding makes hundreds of kibibytes of them out of little, the
  /// inner one nothing at all, at a price.
  static let nothings: [Bomb] = [
    Bomb(sentence: "stored blocks of deflate", codings: [.deflate], bytes: hexadecimal("000000ffff")),
    Bomb(sentence: "members of gzip", codings: [.gzip], bytes: CodedSamples.gzipEmpty),
    Bomb(sentence: "frames of zstd", codings: [.zstd], bytes: hexadecimal("28b52ffd 2000 010000")),
    Bomb(sentence: "frames of zstd that are skipped", codings: [.zstd], bytes: hexadecimal("502a4d1800000000")),
  ]

  @Test(arguments: nothings)
  func littleThatIsNothingIsPassedOverBetweenTwoCodingsAndMuchIsNot(unit: Bomb) {
    let memory = GuardedMemory(capacity: 2 << 20)
    func repeated(_ count: Int) -> [UInt8] {
      let units = Array([[UInt8]](repeating: unit.bytes, count: count / unit.bytes.count).joined())
      return unit.codings == [.deflate] ? units + CodedSamples.rawEmpty : units
    }
    let (little, much) = (repeated(200 * Self.kibibyte), repeated(384 * Self.kibibyte))
    #expect(decode([much], unit.codings, limit: 100, memory) == .content([]))
    let codings = unit.codings + [.br]
    for split in [Split.whole, .bytewise] {
      let few = decode(split.pieces(encoded(little, as: [.br])), codings, limit: Self.mebibyte, memory)
      let many = decode(split.pieces(encoded(much, as: [.br])), codings, limit: Self.mebibyte, memory)
      #expect(few == .content([]))
      #expect(many == .exceedsLimit)
    }
  }

  // MARK: Exactly the limit

  private static func plain(_ count: Int) -> [UInt8] {
    var generator = SeededGenerator(seed: UInt64(count))
    return (0..<count).map { _ in UInt8.random(in: 0x61...0x68, using: &generator) }
  }

  @Test(arguments: ContentCoding.allCases)
  func asManyBytesAsTheLimitAreTakenAndOneMoreIsNot(coding: ContentCoding) {
    let memory = GuardedMemory()
    for count in [0, 1, 2, 1023, 1024, 4095, 4096, 4097, 8192, 16_384, 70_000] {
      let plain = Self.plain(count)
      let bytes = encoded(plain, as: [coding])
      for split in [Split.whole, .bytewise, .random(seed: 3, longest: 50)] {
        let pieces = split.pieces(bytes)
        #expect(decode(pieces, [coding], limit: count + 1, memory) == .content(plain), "\(count), \(split)")
        #expect(decode(pieces, [coding], limit: count, memory) == .content(plain), "\(count), \(split)")
        if count == 0 { continue }
        #expect(decode(pieces, [coding], limit: count - 1, memory) == .exceedsLimit, "\(count), \(split)")
        #expect(decode(pieces, [coding], limit: 0, memory) == .exceedsLimit, "\(count), \(split)")
      }
    }
  }

  @Test(arguments: ContentCoding.allCases)
  func whatIsWrongBehindAsManyBytesAsTheLimitIsSeen(coding: ContentCoding) {
    let memory = GuardedMemory()
    let bytes = encoded(Self.plain(5000), as: [coding])
    for split in [Split.whole, .bytewise] {
      let cut = decode(split.pieces(Array(bytes.dropLast())), [coding], limit: 5000, memory)
      let end = ContentFault("expected more of the \(coding) data, found its end", offset: bytes.count - 1)
      #expect(cut == .refused(end))
      let long = decode(split.pieces(bytes + [7]), [coding], limit: 5000, memory)
      guard case .refused(let fault) = long else {
        Issue.record("\(long)")
        continue
      }
      #expect(fault.offset == bytes.count)
    }
  }

  /// A second member may not begin where the limit is spent, unless it is empty.
  @Test func membersShareTheLimit() {
    let memory = GuardedMemory()
    for coding in [ContentCoding.gzip, .zstd] {
      let member = encoded(Self.plain(3000), as: [coding])
      let empty = encoded([], as: [coding])
      for split in [Split.whole, .bytewise] {
        #expect(decode(split.pieces(member + member), [coding], limit: 6000, memory).isContent)
        #expect(decode(split.pieces(member + member), [coding], limit: 5999, memory) == .exceedsLimit)
        #expect(decode(split.pieces(member + empty + empty), [coding], limit: 3000, memory).isContent)
        #expect(decode(split.pieces(member + empty + member), [coding], limit: 3000, memory) == .exceedsLimit)
      }
    }
  }

  // MARK: Memory

  @Test func memoryIsAccountedFor() {
    let limit = Self.mebibyte
    #expect(ContentDecoder.memoryBytes(for: [.gzip], limit: limit) == 48 * Self.kibibyte)
    #expect(ContentDecoder.memoryBytes(for: [.deflate], limit: limit) == 48 * Self.kibibyte)
    #expect(ContentDecoder.memoryBytes(for: [.br], limit: limit) == 4 * Self.mebibyte)
    #expect(ContentDecoder.memoryBytes(for: [.zstd], limit: limit) == Self.mebibyte + 512 * Self.kibibyte)
    #expect(ContentDecoder.memoryBytes(for: [.br], limit: 1 << 30) == 19 * Self.mebibyte)
    #expect(ContentDecoder.memoryBytes(for: [.zstd], limit: 1 << 30) == 8 * Self.mebibyte + 512 * Self.kibibyte)
    #expect(ContentDecoder.memoryBytes(for: [.gzip, .gzip], limit: limit) == 112 * Self.kibibyte)
  }
}

// A body that is held until it has been looked at, within the memory that all held bodies may take together.
// Tests: HeldResponseTests, HeldRequestTests.

import Bytes
import Serialization

/// One body that is held, with the head that it came with. A class, so that a session that holds none pays a word.
final class HeldBody {
  /// The head as it came: it is read again when the body is let go, for nothing else keeps what stood in it.
  var head = ByteBuffer()
  /// The content as it came, without its transfer coding.
  private(set) var content = ByteBuffer()
  /// The content without its codings, where it has any.
  private var decoded = ByteBuffer()
  private var decoder: ContentDecoder? = nil
  private var codings: [ContentCoding] = []
  private(set) var isRewritten = false
  /// A serializer is to write it anew; false: it is held only so that it can leave again.
  var isForSerializer = false
  /// The codings are gone, for the client does not take them.
  private(set) var isDecoded = false
  /// The trailer section, as it may leave.
  var trailers = ByteBuffer()
  /// What the head of a response shows; nil for a request.
  var judgement: HeadJudgement? = nil
  /// When a response is rejected whose content is only waited for so that its client is told how it begins; nil: the content
  /// has still to be judged.
  var textDeadline: Int64? = nil
  /// The encoding that Content-Type names, where a serializer asks for it.
  var charset: [UInt8]? = nil
  private let budget: ByteBudget
  /// Bytes that are taken of what all held bodies share.
  private(set) var taken = 0
  /// Content that came and is in a file now, in bytes.
  private var spooledBytes = 0
  /// When content of it came first, in the loop's clock; nil: none has.
  private var begunAt: Int64? = nil
  private var decoderBytes = 0

  init(_ budget: ByteBudget) { self.budget = budget }

  deinit { budget.giveBack(taken) }

  /// What a decoder takes before it has decoded anything, in bytes. Its window grows with what it decodes: it is claimed at
  /// once, up to 4 MiB (`ContentDecoder.memoryBytes`), and memory only where it has been written to.
  private static let leastDecoderBytes = 48 << 10

  /// Accounts for what is held, and `adding` bytes more. false: all bodies together may not take so much.
  func account(ofAll limit: Int, adding: Int = 0) -> Bool {
    let window = decoderBytes > 0 ? decoderBytes + decoded.count : 0
    let wanted = content.count + decoded.count + window + adding
    if wanted <= taken { return true }
    guard budget.take(wanted - taken, limit: limit) else { return false }
    taken = wanted
    return true
  }

  /// The least rate at which a body comes that is held, in bytes a second. What is held is memory that others wait for, and
  /// a byte now and then would keep it for ever: at this rate the largest body that is held by default, 1 MiB, takes
  /// seventeen minutes. The slowest links that people still use, 9,600 bit/s, carry more.
  static let leastBytesPerSecond: Int64 = 1024

  /// The rate is looked at after this time, in milliseconds, or after one pause that the policy allows: a body of a few
  /// bytes may come in pieces.
  static let leastGraceMilliseconds: Int64 = 5_000

  /// When so much of the content must be there that the rate is kept, `grace` being how long it may pause.
  func deadline(grace: Int64) -> Int64 {
    guard let begunAt else { return .max }
    return begunAt + max(grace, Self.leastGraceMilliseconds) + Int64(spooledBytes + content.count) * 1000
      / Self.leastBytesPerSecond
  }

  func contentCame(now: Int64) { if begunAt == nil { begunAt = now } }

  func append(_ piece: Span<UInt8>, _ pool: inout BufferPool) { Self.append(piece, to: &content, &pool) }

  /// Blocks double, and come from the loop's pool, so that a steady load allocates nothing.
  private static func append(_ piece: Span<UInt8>, to buffer: inout ByteBuffer, _ pool: inout BufferPool) {
    if buffer.tailRoom < piece.count {
      var larger = pool.take(max(2 * buffer.count, buffer.count + piece.count + JSONChecker.paddingBytes))
      larger.append(contentsOf: buffer)
      pool.reclaim(&buffer)
      swap(&buffer, &larger)
    }
    buffer.append(piece)
  }

  /// Gives the content away: it counts on until `giveBack`.
  func takeContent() -> ByteBuffer {
    var taken = ByteBuffer()
    swap(&taken, &content)
    spooledBytes += taken.count
    return taken
  }

  /// Nothing is held any more.
  func giveBack() {
    budget.giveBack(taken)
    taken = 0
  }

  func dropLast(_ count: Int) { content.truncate(to: content.count - count) }

  // MARK: Content codings

  /// The content that follows is in these codings, of which the last was applied last.
  func decode(_ codings: [ContentCoding]) {
    self.codings = codings
    decoder = ContentDecoder(codings)
    decoderBytes = Self.leastDecoderBytes * codings.count
  }

  func decodeMore(_ piece: Span<UInt8>, limit: Int, _ pool: inout BufferPool) -> DecodeProgress {
    if decoder == nil { return .needsMore }
    pool.lend(&decoded, BufferPool.smallestBlock)
    return decoder!.decode(piece, into: &decoded, limit: limit)
  }

  func finishDecoding() -> ContentFault? {
    if decoder == nil { return nil }
    return decoder!.finish()
  }

  /// The content as a serializer sees it.
  var plain: ByteBuffer {
    _read { if codings.isEmpty { yield content } else { yield decoded } }
    _modify { if codings.isEmpty { yield &content } else { yield &decoded } }
  }

  /// The content is to be sent so, in the codings that it came in where the client takes them.
  func replaceContent(with plain: inout ByteBuffer, accepts: AcceptEncoding, _ pool: inout BufferPool) {
    isRewritten = true
    isDecoded = !codings.allSatisfy { accepts.accepts($0) }
    pool.reclaim(&content)
    if codings.isEmpty || isDecoded {
      swap(&content, &plain)
    } else {
      ContentEncoder.encode(plain.bytes, as: codings, to: &content)
    }
  }

  /// Gives the head away, so that it can be read while the rest is used.
  func takeHead() -> ByteBuffer {
    var taken = ByteBuffer()
    swap(&taken, &head)
    return taken
  }

  func release(_ pool: inout BufferPool) {
    pool.reclaim(&head)
    pool.reclaim(&content)
    pool.reclaim(&decoded)
    pool.reclaim(&trailers)
  }
}

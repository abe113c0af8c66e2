// A body that is held until it has been checked, within the memory that all held bodies share.
// Tests: HeldResponseTests, HeldRequestTests.

import Bytes
import Serialization

/// One held body, with its original head. A class, so a session that holds none pays one word.
final class HeldBody {
  /// The original head. It is read again when the body is released, because nothing else keeps its contents.
  var head = ByteBuffer()
  /// The original content, without its transfer coding.
  private(set) var content = ByteBuffer()
  /// The content without its content codings, if it has any.
  private var decoded = ByteBuffer()
  private var decoder: ContentDecoder? = nil
  private var codings: [ContentCoding] = []
  private(set) var isRewritten = false
  /// A serializer rewrites it; false: it is held only so that it can be sent again.
  var isForSerializer = false
  /// The codings were removed, because the client does not accept them.
  private(set) var isDecoded = false
  /// The trailer section, as it may be sent.
  var trailers = ByteBuffer()
  /// The judgement of a response's head; nil for a request.
  var judgement: HeadJudgement? = nil
  /// The response is rejected, and its content awaited only to show the client how it begins: when to stop waiting.
  /// nil: the content has yet to be checked.
  var textDeadline: Int64? = nil
  /// The encoding in Content-Type, if a serializer uses it.
  var charset: [UInt8]? = nil
  private let budget: ByteBudget
  /// Bytes taken from the memory that all held bodies share.
  private(set) var taken = 0
  /// Bytes of content that are in a file now.
  private var spooledBytes = 0
  /// When its content began to arrive, on the loop's clock; nil: none has.
  private var begunAt: Int64? = nil
  private var decoderBytes = 0

  init(_ budget: ByteBudget) { self.budget = budget }

  deinit { budget.giveBack(taken) }

  /// What a decoder takes before it has decoded anything, in bytes. Its window of up to 4 MiB is reserved at once
  /// (`ContentDecoder.memoryBytes`), but occupies memory only as far as decoding has written to it.
  private static let leastDecoderBytes = 48 << 10

  /// Accounts for what is held, and `adding` bytes more. false: this would exceed the limit of all bodies.
  func account(ofAll limit: Int, adding: Int = 0) -> Bool {
    let window = decoderBytes > 0 ? decoderBytes + decoded.count : 0
    let wanted = content.count + decoded.count + window + adding
    if wanted <= taken { return true }
    guard budget.take(wanted - taken, limit: limit) else { return false }
    taken = wanted
    return true
  }

  /// The slowest rate at which a held body may arrive, in bytes a second. Others wait for the memory of held bodies,
  /// and a byte now and then would keep it forever. At this rate the largest body that is held by default, 1 MiB, takes
  /// seventeen minutes. The slowest links still in use, 9,600 bit/s, carry more.
  static let leastBytesPerSecond: Int64 = 1024

  /// The rate is first checked after this time, in milliseconds, or after one pause that the policy allows: a body of a
  /// few bytes may come in pieces.
  static let leastGraceMilliseconds: Int64 = 5_000

  /// When the content so far falls below the rate. `grace`: how long it may pause.
  func deadline(grace: Int64) -> Int64 {
    guard let begunAt else { return .max }
    return begunAt + max(grace, Self.leastGraceMilliseconds) + Int64(spooledBytes + content.count) * 1000
      / Self.leastBytesPerSecond
  }

  func contentCame(now: Int64) { if begunAt == nil { begunAt = now } }

  func append(_ piece: Span<UInt8>, _ pool: inout BufferPool) { Self.append(piece, to: &content, &pool) }

  /// Blocks double in size, and come from the loop's pool, so a steady load allocates nothing.
  private static func append(_ piece: Span<UInt8>, to buffer: inout ByteBuffer, _ pool: inout BufferPool) {
    if buffer.tailRoom < piece.count {
      var larger = pool.take(max(2 * buffer.count, buffer.count + piece.count + JSONChecker.paddingBytes))
      larger.append(contentsOf: buffer)
      pool.reclaim(&buffer)
      swap(&buffer, &larger)
    }
    buffer.append(piece)
  }

  /// Hands over the content. It stays accounted for until `giveBack`.
  func takeContent() -> ByteBuffer {
    var taken = ByteBuffer()
    swap(&taken, &content)
    spooledBytes += taken.count
    return taken
  }

  /// Accounts for `count` bytes that the content has become, in an output or as a copy, whatever the limit is: they are
  /// there.
  func becomes(_ count: Int) {
    if count < taken { budget.giveBack(taken - count) } else { _ = budget.take(count - taken, limit: .max) }
    taken = count
  }

  /// Nothing is held any more.
  func giveBack() {
    budget.giveBack(taken)
    taken = 0
  }

  func dropLast(_ count: Int) { content.truncate(to: content.count - count) }

  // MARK: Content codings

  /// The content that follows has these codings, listed in the order in which they were applied.
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

  /// Replaces the content, in its original codings if the client accepts them.
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

  /// Hands over the head, so that it can be read while the rest is used.
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

// The content of a response that is held until it has been judged. See ResponseCheck.swift. Tests: HeldResponseTests.

import Bytes
import HTTP1
import Policy
import Serialization

extension HeldBody {
  /// What becomes of a piece of content.
  enum Taking {
    case held
    /// All that is shown of a rejected response has come.
    case enough
    /// It is not held, nor is more.
    case violation(ResponseViolation)
    /// All held bodies together would take more than they may.
    case noRoom
  }

  /// How many bytes of a rejected response's content are shown to the client, at most.
  static let textBytes = 1024
  /// How long to wait for them, in milliseconds. A responsive origin sends the first of them right after the head.
  static let textMilliseconds: Int64 = 500

  /// Begins to hold the content of the response with this head. Returns what the rule objects to.
  func begin(
    _ head: borrowing ResponseHead, _ bytes: Span<UInt8>, progress: MessageProgress, heldBytes: Int
  ) -> ResponseViolation? {
    if case .length(let length) = progress, length > UInt64(heldBytes) {
      return Self.oversize("\(length) bytes", heldBytes: heldBytes)
    }
    switch head.fields.contentCodings(bytes) {
    case .codings(let codings):
      if !codings.isEmpty { decode(codings) }
      return nil
    case .unknown(let name): return Self.uncheckable("'\(name)'")
    case .tooMany: return Self.uncheckable("more than \(ContentEncoding.mostCodings) codings")
    }
  }

  /// The response is rejected because of its head. Returns whether the beginning of its content is awaited: people look
  /// for that first.
  func awaitText(_ head: borrowing ResponseHead, _ bytes: Span<UInt8>, hasContent: Bool, now: Int64) -> Bool {
    textDeadline = now + Self.textMilliseconds
    guard hasContent, case .codings(let codings) = head.fields.contentCodings(bytes) else { return false }
    if !codings.isEmpty { decode(codings) }
    return true
  }

  /// Holds a piece of content. `ofAll`: the most that all held bodies may take.
  func take(
    _ piece: Span<UInt8>, limits: ContentLimits, ofAll limit: Int, _ pool: inout BufferPool
  ) -> Taking {
    if textDeadline != nil { return takeText(piece, limits: limits, &pool) ? .enough : .held }
    guard content.count + piece.count <= limits.heldBytes else {
      return .violation(Self.oversize("more", heldBytes: limits.heldBytes))
    }
    guard account(ofAll: limit, adding: piece.count) else { return .noRoom }
    append(piece, &pool)
    switch decodeMore(piece, limit: limits.heldBytes, &pool) {
    case .needsMore: return account(ofAll: limit) ? .held : .noRoom
    case .exceedsLimit:
      dropLast(piece.count)
      return .violation(Self.oversize("more, decoded", heldBytes: limits.heldBytes))
    case .fault(let fault):
      dropLast(piece.count)
      return .violation(Self.undecodable(fault))
    }
  }

  /// Adds a piece of a rejected response. Returns whether it is enough.
  private func takeText(_ piece: Span<UInt8>, limits: ContentLimits, _ pool: inout BufferPool) -> Bool {
    let piece = piece.extracting(first: min(piece.count, 2 * Self.textBytes))
    append(piece, &pool)
    switch decodeMore(piece, limit: limits.heldBytes, &pool) {
    case .needsMore: return max(plain.count, content.count) >= Self.textBytes
    case .exceedsLimit, .fault: return true
    }
  }

  /// All of the content has arrived. Returns what `check` objects to; it may have rewritten the content for a client
  /// that accepts these codings.
  func judge(
    by check: ResponseCheck, _ judgement: HeadJudgement, accepts: AcceptEncoding, _ tools: inout ContentTools,
    pool: inout BufferPool
  ) -> ResponseViolation? {
    if let fault = finishDecoding() { return Self.undecodable(fault) }
    var rewritten = ByteBuffer()
    let verdict = check.checks.judgeContent(
      &plain, judgement, charset: charset, limits: check.limits, tools: &tools, rewritten: &rewritten)
    switch verdict {
    case .accepted: return nil
    case .violation(let violation): return violation
    case .rewritten:
      replaceContent(with: &rewritten, accepts: accepts, &pool)
      return nil
    }
  }

  /// Writes the content. `isChunked`: the transfer coding continues after it.
  func writeContent(_ framing: ResponseHeadEdits.Framing, isChunked: Bool, to out: inout ByteBuffer) {
    guard framing == .chunked || framing == .asItCame && isChunked else { return out.append(contentsOf: content) }
    out.appendChunk(content.bytes)
    guard framing == .chunked else { return }
    out.append("0\r\n")
    out.append(contentsOf: trailers)
    out.append("\r\n")
  }

  /// What the client learns about a response that it does not get. A function with the body as its parameter: as an
  /// initializer, or as a method, the compiler releases the body once too often, or refuses the borrowed content.
  static func upstream(_ head: borrowing ResponseHead, _ bytes: Span<UInt8>, of held: HeldBody) -> Problem.Upstream {
    Problem.Upstream(
      status: head.status, type: head.fields.only(.contentType).map { bytes.extracting($0).string },
      text: text(held.plain.bytes))
  }

  /// The beginning of text content; nil if it is empty or not text.
  static func text(_ content: Span<UInt8>) -> String? {
    let begin = content.extracting(first: min(content.count, textBytes))
    if begin.isEmpty { return nil }
    var end = begin.count
    // A character that the limit cuts is left out.
    if content.count > end, let lead = (max(0, end - 4)..<end).last(where: { begin[$0] & 0xc0 != 0x80 }),
      begin[lead] >= 0xc0
    {
      end = lead
    }
    for index in 0..<end where begin[index] < 0x20 && !(0x09...0x0d).contains(begin[index]) { return nil }
    return begin.extracting(0..<end).string
  }

  // MARK: Violations

  private static func oversize(_ seen: String, heldBytes: Int) -> ResponseViolation {
    ResponseViolation(.size, expected: "content of at most \(heldBytes) bytes", seen: seen)
  }

  private static func uncheckable(_ seen: String) -> ResponseViolation {
    ResponseViolation(.contentCoding, expected: "a Content-Encoding of gzip, deflate, br or zstd", seen: seen)
  }

  private static func undecodable(_ fault: ContentFault) -> ResponseViolation {
    ResponseViolation(.contentCoding, expected: "content in its Content-Encoding", seen: "a fault at \(fault.sentence)")
  }
}

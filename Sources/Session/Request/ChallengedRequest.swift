// A request that the proxy authenticates when its origin or its parent asks for it. It is kept until its response has
// begun, so that it can be sent again with credentials (RFC 9110, 11.6).
//
//   leaves bare, or with a known nonce → 401, 407 → (choose) → leaves again with the answer → 401, stale → once more
//                                           │                                          └ 401 → passes: refused
//                                           └ nothing to choose → passes, Proxy-Status says why
//
// Its body is collected first, if it is small enough to hold. A longer body streams: at once if a nonce is known,
// otherwise after `Expect: 100-continue` and the origin's response to it. Tests: ChallengedRequestTests.

import Bytes
import HTTP1
import Policy
import Security

/// One request and its credentials. A class, so a session whose rule has none pays one word.
final class ChallengedRequest {
  enum Body {
    case none
    /// Made by the proxy, the same for all requests of the rule.
    case made([UInt8])
    /// `content`. The held body accounts for its memory.
    case held(HeldBody)
    /// It streams: it cannot be sent twice.
    case streamed
  }

  /// Attempts at the origin; nil: the client answers its challenges.
  private var origin: DigestAttempts?
  /// Attempts at the parent in use; nil: the proxy answers none of its challenges.
  private(set) var parent: DigestAttempts? = nil
  /// The head as sent to the origin, without credentials.
  private(set) var head = ByteBuffer()
  var body = Body.none
  /// The body as sent, with framing and trailers, if it was held.
  private var content = ByteBuffer()
  /// State of the body when the request was sent: while the state is unchanged, no byte of the body has been sent.
  private var begun = MessageProgress.done
  /// The request may be sent a second time if a kept connection turns out to be dead.
  private(set) var mayRetry = false
  /// Lines for the parent in use; nil: no parent.
  private(set) var parentLines: [UInt8]? = nil
  /// Bytes of challenge content that have been dropped.
  private var dropped: UInt64 = 0
  /// Why the credentials did not help, if the challenge is passed on: "were refused".
  var remark: String? = nil

  private init(_ origin: DigestAttempts?) { self.origin = origin }

  /// nil: the rule of the request answers no challenges. Not an initializer, which would allocate before it fails.
  static func of(
    _ edits: RequestPolicy, by rule: Rule?, to host: borrowing CanonicalHost, port: UInt16, isSecure: Bool
  ) -> ChallengedRequest? {
    guard edits.digest != nil || rule?.parents == .someWithDigest else { return nil }
    guard let digest = edits.digest else { return ChallengedRequest(nil) }
    let place = NonceMemory.Place(keeper: rule?.name, isSecure: isSecure, host: host.copiedBytes, port: port)
    return ChallengedRequest(DigestAttempts(digest, for: place))
  }

  /// Most bytes of challenge content that are read to keep the connection: error pages are shorter, and reading more
  /// costs more than a connection.
  static let mostDropped: UInt64 = 64 << 10

  /// How long a body that streams waits for 100 or a challenge, in milliseconds. An origin that supports the
  /// expectation responds at once; any other would wait for the body.
  static let expectationMilliseconds: Int64 = 1000

  var heldBytes: Int {
    if case .held(let held) = body { return held.taken }
    return 0
  }

  /// Its response has begun, or another body needs its memory: it cannot be sent again.
  func release(_ pool: inout BufferPool) {
    pool.reclaim(&head)
    if case .held = body {
      body = .streamed
      pool.reclaim(&content)
    }
  }

  /// The head and what is known of the body are about to leave: keeps the head.
  func keep(_ written: borrowing ByteBuffer, _ pool: inout BufferPool) {
    pool.lend(&head, written.count)
    head.append(contentsOf: written)
  }

  /// The body that was collected leaves. It is kept, provided it is whole.
  func keep(_ collected: Span<UInt8>, isWhole: Bool, _ budget: ByteBudget, pool: inout BufferPool) {
    guard isWhole else {
      body = .streamed
      return
    }
    pool.lend(&content, collected.count)
    content.append(collected)
    let copy = HeldBody(budget)
    copy.becomes(collected.count)
    body = .held(copy)
  }

  /// Lends the body that was kept.
  func takeContent() -> ByteBuffer {
    var taken = ByteBuffer()
    swap(&taken, &content)
    return taken
  }

  func putBack(_ content: inout ByteBuffer) { swap(&self.content, &content) }

  /// Whether the body is collected first, so that it can be sent again.
  func collects(_ progress: MessageProgress, heldBytes: Int) -> Bool {
    switch progress {
    case .length(let length): length <= UInt64(heldBytes)
    case .chunked: true
    case .head, .trailers, .untilClose, .done: false
    }
  }

  /// The parent that the request leaves by, if any.
  func leaves(by way: UpstreamWay) {
    parentLines = way.parent == nil ? nil : way.parentLines
    if parent?.place != way.digest?.place { parent = way.digest }
  }

  // MARK: Leaving

  /// Additional lines for `output`, the head of the request on its way to the origin and what leaves with it:
  /// credentials if a nonce is known. A body that can be sent only once gets an expectation if there are no
  /// credentials.
  func lines(
    for output: Span<UInt8>, _ written: WrittenHead, of request: borrowing RequestSide, mayRetry: Bool,
    nonces: inout NonceMemory
  ) -> (text: [UInt8], expectsContinue: Bool) {
    // Of a request that goes again a part of the body may leave with the head.
    let isHeadAlone = Self.isHeadAlone(output, from: written.behindHost)
    begun = isHeadAlone ? request.progress : .untilClose
    self.mayRetry = mayRetry
    var lines: [UInt8] = []
    let (method, target) = (output.extracting(written.method).array, output.extracting(written.target).array)
    if let answer = origin?.answer(method: method, target: target, &nonces) {
      lines = Array("Authorization: ".utf8) + answer + [0x0d, 0x0a]
    }
    let isBare = origin != nil && lines.isEmpty || parent.map { !nonces.knows($0.place) } ?? false
    guard isBare, isHeadAlone, case .streamed = body, case .length = request.progress,
      !request.traits.contains(.expectsContinue)
    else { return (lines, false) }
    return (lines + Array("Expect: 100-continue\r\n".utf8), true)
  }

  /// Whether the head that continues at `begin` ends with these bytes.
  private static func isHeadAlone(_ bytes: Span<UInt8>, from begin: Int) -> Bool {
    var at = max(0, begin - 2)
    while let end = bytes.firstIndex(of: 0x0d, from: at), end + 4 <= bytes.count {
      if bytes.equals(end..<end + 4, "\r\n\r\n") { return end + 4 == bytes.count }
      at = end + 1
    }
    return true
  }

  /// Credentials for the parent that the head in `output` was written for; nil: none.
  func parentLine(for output: Span<UInt8>, _ written: WrittenHead, nonces: inout NonceMemory) -> [UInt8]? {
    guard parent != nil else { return nil }
    let (method, target) = (output.extracting(written.method).array, output.extracting(written.target).array)
    return parent?.answer(method: method, target: target, &nonces).map { ParentRequest.authorizationLine($0) }
  }

  /// Whether it could be sent again: no byte of a body that streams has left.
  func isIntact(_ progress: MessageProgress) -> Bool {
    if case .streamed = body { return progress != .done && progress == begun }
    return true
  }

  // MARK: The challenge

  /// What a final response asks for.
  enum Challenge {
    /// It is no challenge that the proxy answers.
    case none
    case answered
    /// Why there is no answer.
    case unanswered(String)
  }

  /// Reads the head of a final response.
  func read(_ head: borrowing ResponseHead, _ bytes: Span<UInt8>, nonces: inout NonceMemory) -> Challenge {
    let fault: String?
    if head.status == 401, origin != nil {
      fault = origin?.challenged(by: head.fields.values(of: .wwwAuthenticate, bytes), &nonces)
    } else if head.status == 407, parent != nil {
      fault = parent?.challenged(by: head.fields.values(of: .proxyAuthenticate, bytes), &nonces)
    } else {
      noteNextNonces(head, bytes, nonces: &nonces)
      return .none
    }
    return fault.map { .unanswered($0) } ?? .answered
  }

  /// RFC 7616, 3.5.
  private func noteNextNonces(_ head: borrowing ResponseHead, _ bytes: Span<UInt8>, nonces: inout NonceMemory) {
    for (attempts, name) in [(origin, Self.authenticationInfo), (parent, Self.proxyAuthenticationInfo)] {
      guard let attempts, attempts.hasAnswered else { continue }
      for line in head.fields.lines where bytes.equals(line.name, ignoringCase: name.span) {
        guard let next = AuthenticationChallenge.readParameters(bytes.extracting(line.value).array)?["nextnonce"] else {
          continue
        }
        nonces.take(next: next, for: attempts.place)
      }
    }
  }

  static let notKept =
    "were not sent: the body, which had begun to leave, is longer than buffered_body, and is not kept; they go with the next "
    + "request at once"

  /// What the origin computes from the rule's password: the client could use it only to guess the password.
  var proofs: [[UInt8]] { origin == nil ? [] : [Self.authenticationInfo] }

  private static let authenticationInfo = Array("authentication-info".utf8)
  private static let proxyAuthenticationInfo = Array("proxy-authentication-info".utf8)

  // MARK: Content of the challenge

  /// What becomes of a connection whose challenge is being read to its end.
  enum Dropping {
    /// More of it is to come.
    case continues(consumed: Int)
    /// It is over: the request goes again on the same connection.
    case isOver
    /// It is too long or broken, or more than it has come: the request goes again on another.
    case fails
  }

  /// The challenge has content, which is read to keep the connection.
  func beginDropping() { dropped = 0 }

  func drop(
    _ bytes: Span<UInt8>, _ progress: inout MessageProgress, limits: HeadLimits, trailers: inout FieldSection
  ) -> Dropping {
    var consumed = 0
    switch progress {
    case .length(let remaining):
      consumed = Int(min(remaining, UInt64(bytes.count)))
      progress.moved(consumed)
    case .chunked(var decoder): consumed = dropChunks(bytes, &decoder, progress: &progress)
    case .head, .trailers, .untilClose, .done: break
    }
    if case .trailers = progress {
      switch TrailerReader.read(bytes, from: consumed, limits: limits, into: &trailers) {
      case .incomplete: return .continues(consumed: consumed)
      case .invalid: return .fails
      case .complete(let end):
        consumed = end
        progress = .done
      }
    }
    if progress == .done { return consumed == bytes.count ? .isOver : .fails }
    return progress == .head || dropped > Self.mostDropped ? .fails : .continues(consumed: consumed)
  }

  /// Returns the number of bytes consumed. A broken coding leaves `progress` at the head.
  private func dropChunks(
    _ bytes: Span<UInt8>, _ decoder: inout ChunkedDecoder, progress: inout MessageProgress
  ) -> Int {
    var at = 0
    while true {
      switch decoder.next(bytes, from: at) {
      case .data(let range):
        at = range.upperBound
        dropped += UInt64(range.count)
      case .needMore(let consumed):
        progress = .chunked(decoder)
        return consumed
      case .lastChunk(let consumed):
        progress = .trailers
        return consumed
      case .invalid:
        progress = .head
        return bytes.count
      }
    }
  }
}

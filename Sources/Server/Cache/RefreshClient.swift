// Exchanges without a client, otherwise like any other. There are three kinds: a stored answer that may be used for a
// while after it went stale is fetched again meanwhile (RFC 5861, 3); a fetch continues for those that wait for it; and
// the rest of a fetch that broke off is asked for. They repeat a client's request, under the policy in force. Tests:
// Tests/EndToEndTests/test_cache_stale.py, test_cache_parts.py.

import Bytes
import Cache
import Session
import Sharing
import Transport

/// The client's end of it: a request that has arrived, and a reader that accepts everything.
final class RefreshClient: CarriedStream {
  private var request: ByteBuffer
  /// What is still to be done.
  private(set) var errand: Errand?
  /// It asks for the rest of a download whose own exchange reports all of it.
  let isForRest: Bool

  init(_ request: consuming ByteBuffer, for errand: Errand) {
    self.request = request
    self.errand = errand
    isForRest = if case .resumption = errand { true } else { false }
  }

  /// It is done, or has become pointless.
  func takeErrand() -> Errand? {
    let taken = errand
    errand = nil
    return taken
  }

  func read(into buffer: inout ByteBuffer, atMost _: Int) -> Transfer {
    if request.isEmpty { return .wouldBlock }
    let count = request.count
    buffer.append(contentsOf: request)
    request = ByteBuffer()
    return .moved(count)
  }

  func write(_ first: borrowing ByteBuffer, then second: Span<UInt8>) -> Transfer { .moved(first.count + second.count) }
  func watch(_ interest: Interest?) {}
  var room: Int { 1 << 20 }
  var isSilent: Bool { true }
  var hasMore: Bool { false }
  var wasRefused: Bool { false }
  var wasUnsent: Bool { false }
  func shutdownWrite() {}
  func close() {}
  func abort() {}
}

/// The purpose of such a conversation.
enum Errand {
  /// Fetches a stored answer again, which no other does meanwhile.
  case refresh(CacheKey)
  /// Others wait for a fetch whose own client has left. Its request has already been sent on the line.
  case inheritance(Caching, Upstream)
  /// A fetch has broken off and continues.
  case resumption(CacheFetch)
}

extension Errand? {
  var isRefresh: Bool { if case .refresh = self { true } else { false } }
}

/// All that is needed to repeat a client's request, whether or not the client is still there.
struct Repetition {
  let caching: Caching
  let connection: Accepted
  let descriptor: Descriptor
  let origin: RequestOrigin
  let client: KnownClient

  init(of caching: Caching, by conversation: Conversation) {
    self.caching = caching
    connection = conversation.connection
    descriptor = conversation.descriptor
    origin = conversation.session.origin
    client = conversation.client.uncounted
  }

  /// A conversation without a client that repeats the request. The caller begins it.
  func conversation(for errand: Errand, _ worker: Worker) -> Conversation {
    let slot = worker.occupy(.free)
    let request = RefreshClient(caching.repeatedRequest(isInTunnel: origin.interior != nil), for: errand)
    let repeating = Conversation(
      slot: slot, connection, over: ByteStream(request, by: descriptor), of: client, worker)
    repeating.session.origin = origin
    repeating.session.origin.wire = .http11
    repeating.session.origin.tunnelIsUnchecked = origin.interior != nil
    repeating.session.expectLastExchange()
    worker.reoccupy(slot, .client(repeating))
    return repeating
  }
}

extension Caching {
  /// Asks the origin for the answer that `conversation` has just got from the store, unless that is already being asked
  /// for.
  func refresh(_ answer: StoredAnswer, for conversation: Conversation, _ worker: Worker) {
    // Of a URL that is only known in part, no one can ask again.
    guard !worker.isDraining, !conversation.session.exchange.record.text.isCut,
      cache.with({ !$0.isFlying(answer.key) && $0.beginRefresh(answer.key) })
    else { return }
    Repetition(of: self, by: conversation).conversation(for: .refresh(answer.key), worker).begin(worker)
  }

  /// The client that asked first has left. Others wait for the answer to its request, which has been sent on `line`.
  func bequeath(_ line: Upstream, from conversation: Conversation, _ worker: Worker) {
    let heir = Repetition(of: self, by: conversation).conversation(for: .inheritance(self, line), worker)
    line.owner = heir
    sharing.inherit(by: Content.Reader(worker, slot: heir.slot))
    heir.begin(worker)
  }

  /// The request as a client would send it: for the same URL, with the fields that were sent. Host is that of the URL,
  /// which a rule may have replaced.
  func repeatedRequest(isInTunnel: Bool) -> ByteBuffer {
    var text = ByteBuffer()
    text.append("GET ")
    let place = url.dropFirst(Self.originBytes(url))
    let path = place.drop { $0 != 0x2f && $0 != 0x3f }
    if isInTunnel { text.append((path.first == 0x2f ? [] : [0x2f]) + path) } else { text.append(url) }
    text.append(" HTTP/1.1\r\nHost: ")
    text.append(Array(place[..<path.startIndex]))
    text.append("\r\n")
    text.append(
      request.fields.without(["host", "via", "max-forwards", "if-none-match", "if-modified-since", "range"]).text)
    text.append("\r\n")
    return text
  }

  /// Bytes of `https://`, or of `http://`.
  private static func originBytes(_ url: [UInt8]) -> Int { url.starts(with: "https".utf8) ? 8 : 7 }
}

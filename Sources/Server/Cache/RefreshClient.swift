// A stored answer that may be used for a while after it went stale is fetched anew meanwhile (RFC 5861, 3): by an exchange like
// any other, of which the client is nobody. It asks what the last client asked, under the policy in force.

import Bytes
import Cache
import Session
import Transport

/// The client's end of it: a request that is there, and somebody who takes whatever comes.
final class RefreshClient: CarriedStream {
  private var request: ByteBuffer

  init(_ request: consuming ByteBuffer) { self.request = request }

  func read(into buffer: inout ByteBuffer) -> Transfer {
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
  func shutdownWrite() {}
  func close() {}
  func abort() {}
}

extension Worker {
  /// Asks the origin for what `conversation` has just been given out of the store, unless somebody does already.
  func refresh(_ answer: StoredAnswer, for conversation: Conversation) {
    guard let caching = conversation.caching, !isDraining, !caching.cache.with({ $0.isFlying(answer.key) }) else {
      return
    }
    let refreshing = repetition(of: caching, by: conversation)
    refreshing.isRefresh = true
    refreshing.begin(self)
  }

  /// The client that asked first has left; others wait for the answer to its request, which has left by `line`.
  func inherit(_ caching: Caching, _ line: Upstream, from conversation: Conversation) {
    let heir = repetition(of: caching, by: conversation)
    heir.inherited = (caching, line)
    line.owner = heir
    if let flight = caching.leads {
      let reader = Content.Reader(worker: index, slot: heir.slot, generation: generation(heir.slot))
      caching.cache.with { $0.inherit(flight, caching.key, by: reader) }
    }
    heir.begin(self)
  }

  /// A conversation without a client that asks the same again.
  private func repetition(of caching: Caching, by conversation: Conversation) -> Conversation {
    let slot = occupy(.free)
    let client = RefreshClient(caching.repeatedRequest(isInTunnel: conversation.session.origin.interior != nil))
    let repeating = Conversation(
      slot: slot, conversation.connection, over: ByteStream(client, by: conversation.descriptor), live: live, now: now)
    repeating.session.origin = conversation.session.origin
    repeating.session.origin.wire = .http11
    repeating.session.expectLastExchange()
    repeating.identification = conversation.identification.subtracting(.counted)
    repeating.identity = conversation.identity
    reoccupy(slot, .client(repeating))
    return repeating
  }
}

extension Conversation {
  /// Nobody waits for what it asks.
  var hasNoClient: Bool { stream.carried is RefreshClient }
}

extension Caching {
  /// The request as a client would send it: to the URL that was asked for, with the fields that left.
  func repeatedRequest(isInTunnel: Bool) -> ByteBuffer {
    var text = ByteBuffer()
    text.append("GET ")
    if isInTunnel {
      let path = url.dropFirst(Self.originBytes(url)).drop { $0 != 0x2f }
      text.append(path.isEmpty ? [0x2f] : Array(path))
    } else {
      text.append(url)
    }
    text.append(" HTTP/1.1\r\n")
    text.append(request.fields.without(["via", "max-forwards", "if-none-match", "if-modified-since", "range"]).text)
    text.append("\r\n")
    return text
  }

  /// Bytes of `https://`, or of `http://`.
  private static func originBytes(_ url: [UInt8]) -> Int { url.starts(with: "https".utf8) ? 8 : 7 }
}

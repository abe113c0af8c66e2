// The request of an exchange, as it was asked and as far as it has been read.

import Bytes
import HTTP1
import Policy

/// The state of one direction of an exchange.
enum MessageProgress: Equatable {
  case head
  case length(remaining: UInt64)
  case chunked(ChunkedDecoder)
  case trailers
  case untilClose
  case done
}

struct RequestSide: Sendable {
  var progress = MessageProgress.head
  var traits = RequestTraits()
  /// Its original query, with the question mark, if the response may be stored.
  var query: [UInt8] = []
  /// The protocol that its Upgrade asks for, in lower case; empty: none.
  var upgrade: [UInt8] = []
  var webSocketProof = WebSocketProof()
  /// Field names in Connection: trailers of those names also end at this hop.
  var namedFields: [UInt8] = []
  /// Method and target, if its body is awaited; kept after 417, since only this request may follow.
  var expectation: [UInt8] = []
  /// It has a Range. Known only if its rule checks responses.
  var asksForPart = false
  /// What was asked, if it is refused or an operator is asked about it.
  var question: Question? = nil

  static let rangeName = Array("range".utf8)
  /// In lower case, as `upgrade` is.
  static let webSocket = Array("websocket".utf8)

  /// Copies from its head what must be remembered after the bytes are gone.
  mutating func note(_ head: borrowing RequestHead, _ bytes: Span<UInt8>) {
    switch head.knownMethod {
    case .head: traits.insert(.isHead)
    case .connect: traits.insert(.isTunnel)
    default: break
    }
    switch head.framing {
    case .none, .length(0): progress = .done
    case .length(let length): progress = .length(remaining: length)
    case .chunked: progress = .chunked(ChunkedDecoder())
    case .untilClose: preconditionFailure("a request never ends with its connection")
    }
    if head.options.namesFields { namedFields = head.fields.connectionOptions(bytes) }
    if progress != .done, RefusedExpectation.isHeldBack(head, bytes) {
      traits.insert(.expectsContinue)
      expectation = head.methodAndTarget(bytes)
    }
    if let type = head.fields.only(.contentType), GRPC.isType(bytes.extracting(type)) { noteGRPC() }
  }

  /// Copies from a head that is refused what could be read of it. Its fields may not have been.
  mutating func noteReadable(_ head: borrowing RequestHead, _ bytes: Span<UInt8>) {
    switch head.knownMethod {
    case .head: traits.insert(.isHead)
    case .connect: break
    // Whoever writes `connect` takes a 200 for a tunnel, too.
    case .other where bytes.equals(head.method, ignoringCase: "connect"): break
    default: if GRPC.isAsked(inHead: bytes) { noteGRPC() }
    }
  }

  /// CONNECT is no call, and a client would take the 200 of a trailers-only response for a tunnel.
  private mutating func noteGRPC() { if !traits.contains(.isTunnel) { traits.insert(.isGRPC) } }

  /// RFC 9110, 7.8. Returns whether it asks for an Upgrade that is relayed.
  mutating func noteUpgrade(_ head: borrowing RequestHead, _ bytes: Span<UInt8>, on wire: HTTPProtocol) -> Bool {
    guard let name = head.requestedUpgrade(bytes) else { return false }
    upgrade = name.map { bytes[$0].asciiLowercased }
    traits.insert(.wantsUpgrade)
    if upgrade == Self.webSocket, wire.isMultiplexed { webSocketProof = WebSocketProof(bytes, head.fields) }
    return true
  }

  /// Whether it can be answered by a cache or invalidate what a cache has: it is neither a tunnel nor a gRPC call.
  var isForCache: Bool { traits.isDisjoint(with: [.isTunnel, .wantsUpgrade, .isGRPC]) }
}

extension MessageProgress {
  /// `count` bytes of content of known length have moved.
  mutating func moved(_ count: Int) {
    guard case .length(let remaining) = self else { return }
    let left = remaining - UInt64(count)
    self = left == 0 ? .done : .length(remaining: left)
  }

  var isChunked: Bool { if case .chunked = self { true } else { false } }

  /// What follows a head with this framing.
  init(_ framing: BodyFraming) {
    switch framing {
    case .none, .length(0): self = .done
    case .length(let length): self = .length(remaining: length)
    case .chunked: self = .chunked(ChunkedDecoder())
    case .untilClose: self = .untilClose
    }
  }

  /// The final size of a message of which `count` bytes have passed; nil if unknown.
  func expectedBytes(after count: UInt64) -> UInt64? {
    switch self {
    case .length(let remaining): count &+ remaining
    case .done: count
    case .head, .chunked, .trailers, .untilClose: nil
    }
  }
}

/// What the request is and wants.
struct RequestTraits: OptionSet {
  let rawValue: UInt8

  static let isHead = RequestTraits(rawValue: 1 << 0)
  static let isTunnel = RequestTraits(rawValue: 1 << 1)
  static let wantsUpgrade = RequestTraits(rawValue: 1 << 2)
  /// Of type application/grpc: it needs HTTP/2 on both hops, and its responses have statuses of their own.
  static let isGRPC = RequestTraits(rawValue: 1 << 3)
  /// The client holds back its body until 100, or until a response that makes the body unnecessary.
  static let expectsContinue = RequestTraits(rawValue: 1 << 4)
  /// Some of the request body has arrived.
  static let bodyBegun = RequestTraits(rawValue: 1 << 5)
}

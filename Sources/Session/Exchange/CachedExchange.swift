// What a cache has to know of an exchange. The server chooses the response (Server/Cache).
// Tests: CachedExchangeTests, Tests/EndToEndTests/test_cache.py.

import Bytes
import HTTP1
import Policy

/// How a cache took part in an exchange, as logged.
public enum CacheResult: String, Sendable, CaseIterable {
  /// Answered from the store, without contacting the origin.
  case hit
  /// Likewise, with a response that is no longer fresh.
  case stale
  /// Answered from the store, because the destination is unreachable or fails.
  case offline
  /// Answered from the store after the origin confirmed the stored response.
  case revalidated
  /// Answered by the fetch of another request.
  case collapsed
  /// Fetched, and stored.
  case stored
  /// Fetched, and not stored.
  case miss

  /// Whether the head of the response came from the origin for this request.
  var isSaidByOrigin: Bool { self == .stored || self == .miss }
}

enum CachedExchange {
  private static let safeMethods = ["GET", "HEAD", "OPTIONS", "TRACE"].map { Array($0.utf8) }

  /// Whether requests with this method change nothing (RFC 9110, 9.2.1).
  static func isSafe(_ method: Span<UInt8>) -> Bool {
    for name in safeMethods where method.equals(name.span) { return true }
    return false
  }
}

extension WrittenHead {
  /// The URL that the request with this head is sent to, in canonical form.
  func url(_ head: Span<UInt8>, _ scheme: Scheme, port: UInt16) -> [UInt8] {
    var host = authority
    if case .success(let parts) = HostAndPort.read(head, host) { host = parts.host }
    let name = head.extracting(host).array.map(\.asciiLowercased)
    let written = head.extracting(target).array
    return Array("\(scheme.rawValue)://".utf8) + name
      + Array((port == scheme.defaultPort ? "" : ":\(port)").utf8) + (written == [0x2a] ? [] : written)
  }
}

extension ExchangeRecord {
  /// What is recorded of a stored answer that is refused: it is not kept. Returns the value of Cache-Status.
  mutating func dropStored(_ cacheStatus: String) -> String {
    if answer.cache != .stored { return cacheStatus }
    answer.cache = .miss
    return String(cacheStatus.prefix { $0 != ";" })
  }

  /// Whether the outcome must not be served to other clients: the response was refused, or aborted.
  public var refusedItsAnswer: Bool { answeredItself || outcome == .malformedBody }

  /// Whether the response is the proxy's own.
  public var answeredItself: Bool {
    if case .problem = outcome { return true }
    return false
  }
}

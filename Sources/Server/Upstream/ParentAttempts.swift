// What one connector has tried with parents: credentials for a Digest challenge, and tunnels on streams that were
// refused. Tests: test_digest_parents.py, test_http2_parents_odd.py.

import Security
import Session
import Transport
import Upstream

struct ParentAttempts {
  /// How often a refused stream is asked for again: once for a connection that was about to end, and once for a parent
  /// that opens tunnels on HTTP/1.1 alone.
  private static let mostRefusals = 2
  /// How often a tunnel that found no place on a shared connection looks for another. From the second time on it opens
  /// a connection of its own, and is without a place again only if others come first on one whose limit is not known.
  private static let mostWithoutPlace = 8

  /// The Digest attempts at the parent; nil: it has not asked for Digest.
  private var digest: DigestAttempts? = nil
  /// How often a parent has refused a stream for the tunnel.
  private var refusals = 0
  /// How often the tunnel found no place on a shared connection.
  private var withoutPlace = 0
  /// When the parent was asked for the destination.
  private(set) var askedAt: Int64 = 0

  /// The parent is asked for the destination.
  mutating func begin(_ route: RouteState, now: Int64) {
    if digest?.place != route.digest?.place { digest = route.digest }
    askedAt = now
  }

  /// The credentials for CONNECT to the destination, once a nonce of the parent is known.
  mutating func authorization(for destination: Destination, _ nonces: inout NonceMemory) -> [UInt8]? {
    guard digest != nil else { return nil }
    let host = String(decoding: destination.host, as: UTF8.self)
    let authority =
      destination.literal.map { !$0.isIPv4 } == true ? "[\(host)]:\(destination.port)" : "\(host):\(destination.port)"
    return digest?.answer(method: Array("CONNECT".utf8), target: Array(authority.utf8), &nonces)
  }

  /// The parent has asked for credentials. Returns why it gets none; nil: it may get some.
  mutating func challenged(by lines: [[UInt8]], _ nonces: inout NonceMemory) -> String? {
    digest?.challenged(by: lines, &nonces)
  }

  /// Whether the parent has refused the stream and done nothing for it (RFC 9113, 8.7). One that found no place was
  /// refused by nobody: others have got the places, and there is one less to ask again.
  mutating func mayAskAgain(after line: Line) -> Bool {
    guard let stream = line.stream.carried, stream.wasRefused else { return false }
    if stream.wasUnsent {
      withoutPlace += 1
      return withoutPlace <= Self.mostWithoutPlace
    }
    guard refusals < Self.mostRefusals else { return false }
    refusals += 1
    return true
  }

  /// Whether a stream that found no place waits for another shared connection: many may ask again at once, and one
  /// connection serves them all.
  func mayShare(wasUnsent: Bool) -> Bool { !wasUnsent || withoutPlace == 1 }
}

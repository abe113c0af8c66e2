// How a request to an http parent differs from one to its origin: it has a target in absolute form, and credentials for
// the parent. Tests: ParentRequestTests.

import Bytes
import Policy

/// Writes a request for a parent.
public enum ParentRequest {
  /// `Proxy-Authorization: Basic …` with its CR LF (RFC 7617): made once per route. A secret.
  public static func authorizationLine(_ credentials: RouteCredentials) -> [UInt8] {
    authorizationLine(credentials.basic)
  }

  /// The same for a finished value.
  public static func authorizationLine(_ value: [UInt8]) -> [UInt8] {
    Array("Proxy-Authorization: ".utf8) + value + [0x0d, 0x0a]
  }

  /// Turns the head at the front of `output`, written for an origin, into one for an http parent. The target becomes
  /// absolute (RFC 9112, 3.2.2), `*` becomes the authority alone (3.2.4), and `lines`, whole ones, are added after
  /// Host. Bytes after the head stay. `head`: the positions of its parts. `pool`: the source of the memory of `output`.
  /// Returns the new positions.
  static func rewrite(
    _ output: inout ByteBuffer, _ head: WrittenHead, adding lines: [UInt8], pool: inout BufferPool
  ) -> WrittenHead {
    var rewritten = pool.take(output.count + scheme.utf8CodeUnitCount + head.authority.count + lines.count)
    rewritten.append(output.bytes.extracting(0..<head.target.lowerBound))
    rewritten.append(scheme)
    rewritten.append(output.bytes.extracting(head.authority))
    // The URI of `*` has neither path nor query; the last proxy turns it back into `*`.
    if output.bytes[head.target.lowerBound] != 0x2a { rewritten.append(output.bytes.extracting(head.target)) }
    let target = head.target.lowerBound..<rewritten.count
    rewritten.append(output.bytes.extracting(head.target.upperBound..<head.behindHost))
    let authority = rewritten.count - 2 - head.authority.count..<rewritten.count - 2
    rewritten.append(lines)
    rewritten.append(output.bytes.extracting(head.behindHost..<output.count))
    swap(&output, &rewritten)
    pool.reclaim(&rewritten)
    return WrittenHead(method: head.method, target: target, authority: authority)
  }

  /// Inserts `lines`, whole ones, after Host in the head at the front of `output`.
  static func insert(_ lines: [UInt8], into output: inout ByteBuffer, _ head: WrittenHead, pool: inout BufferPool) {
    var extended = pool.take(output.count + lines.count)
    extended.append(output.bytes.extracting(0..<head.behindHost))
    extended.append(lines)
    extended.append(output.bytes.extracting(head.behindHost..<output.count))
    swap(&output, &extended)
    pool.reclaim(&extended)
  }

  private static let scheme: StaticString = "http://"
}

/// The positions of the parts of a head that was written here, `METHOD target HTTP/1.1`, `Host: authority`, at the
/// front of the output.
struct WrittenHead: Equatable, Sendable {
  var method = 0..<0
  var target = 0..<0
  var authority = 0..<0

  /// Where the lines after Host begin.
  var behindHost: Int { authority.upperBound + 2 }
}

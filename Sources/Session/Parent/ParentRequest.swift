// What a request over an http parent has that one to its origin has not: a target in absolute form, and credentials for
// the parent. Tests: ParentRequestTests.

import Bytes
import Policy

/// How a request is written for a parent.
public enum ParentRequest {
  /// `Proxy-Authorization: Basic …` with its CR LF (RFC 7617): made once for a route. A secret.
  public static func authorizationLine(_ credentials: RouteCredentials) -> [UInt8] {
    authorizationLine(credentials.basic)
  }

  /// The same of a value that is made already.
  public static func authorizationLine(_ value: [UInt8]) -> [UInt8] {
    Array("Proxy-Authorization: ".utf8) + value + [0x0d, 0x0a]
  }

  /// Turns the head at the front of `output`, as a session prepares it for an origin, into the one for an http parent: the
  /// target becomes absolute (RFC 9112, 3.2.2), `*` the authority alone (3.2.4), and `lines`, whole ones, follow
  /// Host. What stands behind the head stays. `pool` is where the memory of `output` came from.
  ///
  /// False where no such head stands there: nothing has been changed then, and it must not be sent to the parent.
  public static func rewrite(
    _ output: inout ByteBuffer, adding lines: [UInt8], _ pool: inout BufferPool
  ) -> Bool {
    guard let parts = parts(output.bytes) else { return false }
    let added = scheme.utf8CodeUnitCount + parts.authority.count + lines.count
    var rewritten = pool.take(output.count + added)
    rewritten.append(output.bytes.extracting(0..<parts.target.lowerBound))
    rewritten.append(scheme)
    rewritten.append(output.bytes.extracting(parts.authority))
    // The URI of `*` has neither path nor query; the last proxy makes `*` of it again.
    if output.bytes[parts.target.lowerBound] != 0x2a { rewritten.append(output.bytes.extracting(parts.target)) }
    let behindHost = parts.authority.upperBound + 2
    rewritten.append(output.bytes.extracting(parts.target.upperBound..<behindHost))
    rewritten.append(lines)
    rewritten.append(output.bytes.extracting(behindHost..<output.count))
    swap(&output, &rewritten)
    pool.reclaim(&rewritten)
    return true
  }

  /// Puts `lines`, whole ones, behind Host of the head at the front of `output`, as a session prepares it for an origin.
  public static func insert(_ lines: [UInt8], into output: inout ByteBuffer, _ pool: inout BufferPool) {
    guard let first = endOfLine(output.bytes, from: 0), let second = endOfLine(output.bytes, from: first + 2) else {
      preconditionFailure("a head that was written here has no Host")
    }
    var extended = pool.take(output.count + lines.count)
    extended.append(output.bytes.extracting(0..<second + 2))
    extended.append(lines)
    extended.append(output.bytes.extracting(second + 2..<output.count))
    swap(&output, &extended)
    pool.reclaim(&extended)
  }

  private static let scheme: StaticString = "http://"
  private static let version: StaticString = " HTTP/1.1"
  private static let hostName: StaticString = "Host: "

  /// Where the target and the authority are in `METHOD target HTTP/1.1`, `Host: authority`, as `Exchange.writeRequest` puts
  /// them.
  private static func parts(_ bytes: Span<UInt8>) -> (target: Range<Int>, authority: Range<Int>)? {
    guard let lineEnd = endOfLine(bytes, from: 0), let space = bytes.firstIndex(of: 0x20),
      let target = range(space + 1, lineEnd - version.utf8CodeUnitCount),
      bytes.equals(target.upperBound..<lineEnd, version)
    else { return nil }
    let host = lineEnd + 2
    guard let hostEnd = endOfLine(bytes, from: host),
      let authority = range(host + hostName.utf8CodeUnitCount, hostEnd),
      bytes.equals(host..<authority.lowerBound, hostName)
    else { return nil }
    let isAsterisk = target.count == 1 && bytes[target.lowerBound] == 0x2a && bytes.equals(0..<space, "OPTIONS")
    return isAsterisk || bytes[target.lowerBound] == 0x2f ? (target, authority) : nil
  }

  /// Where the CR LF of the line that begins at `from` is.
  private static func endOfLine(_ bytes: Span<UInt8>, from: Int) -> Int? {
    guard let end = bytes.firstIndex(of: 0x0d, from: from), end + 1 < bytes.count, bytes[end + 1] == 0x0a else {
      return nil
    }
    return end
  }

  /// nil where it would be empty.
  private static func range(_ lower: Int, _ upper: Int) -> Range<Int>? { lower < upper ? lower..<upper : nil }
}

// Responses to requests that were sent to the `target` of their rule. URLs of the target in their heads are translated
// to the short name that the program asked for.
//
//   Location, Content-Location, Refresh   a URL below the base URL becomes one of the short name; a path of the target
//                                         outside it becomes a whole URL, since under the short name it is another's
//   Set-Cookie                            loses the target's Domain, and the base path of Path; also Secure, if the
//                                         program asked by http and policy sends its later requests over TLS
//   Strict-Transport-Security             is removed: it is about another host
//
// What does not clearly name the target (RedirectTarget) stays unchanged. Tests: MappedRequestTests, test_target.py.

import Bytes
import HTTP1
import Policy

extension FieldTranslation {
  /// A URL of the target as the program knows it; nil if it stays unchanged. `place` is the scheme and authority that
  /// the program asked for.
  static func mappedURL(_ reference: Span<UInt8>, _ target: RuleTarget, place: [UInt8]) -> [UInt8]? {
    switch RedirectTarget.read(reference) {
    case .unclear, .networkPath: return nil
    case .samePlace:
      guard reference.count > 0, reference[0] == 0x2f else { return nil }
      if let rest = rest(reference.array, target) { return [0x2f] + rest }
      return Array("\(target.scheme.rawValue)://".utf8) + target.authority + reference.array
    case .absolute(let scheme, let named):
      guard let named, scheme == target.scheme.rawValue, named.host == target.name,
        (named.port ?? target.scheme.defaultPort) == target.port
      else { return nil }
      let begin = scheme.utf8.count + 3
      var end = begin
      while end < reference.count, ![0x2f, 0x3f, 0x23].contains(reference[end]) { end += 1 }
      return rest(reference.extracting(end..<reference.count).array, target).map { place + [0x2f] + $0 }
    }
  }

  /// The part of a path and query after the base path; nil if it is not literally below the base path.
  private static func rest(_ reference: [UInt8], _ target: RuleTarget) -> [UInt8]? {
    let end = reference.firstIndex { $0 == 0x3f || $0 == 0x23 } ?? reference.count
    let path = Array(reference[..<end])
    // The base path without its slash is the base path.
    if path == target.path.dropLast() { return Array(reference[end...]) }
    guard path.starts(with: target.path), target.escape(path) == nil else { return nil }
    let rest = reference[target.path.count...]
    // After a slash, a second one would begin another host.
    return rest.first == 0x2f ? nil : Array(rest)
  }

  // MARK: Cookies

  /// A cookie for the short name; nil if it stays unchanged.
  func mappedCookie(
    _ value: Span<UInt8>, _ target: RuleTarget, asked: AskedPlace, in workspace: inout Workspace
  ) -> [UInt8]? {
    let pieces = value.array.split(separator: 0x3b, omittingEmptySubsequences: false).map { Array($0) }
    let attributes = pieces.dropFirst().map { Self.attribute($0) }
    let said = attributes.last { $0.name == "path" }?.value
    let path = said.flatMap { Self.rest($0, target).map { [0x2f] + $0 } } ?? said ?? []
    let losesSecure =
      asked.isHTTP
      && isUpgraded(asked.host, asked.port, method: Self.get, path: Self.anyPath(under: path), in: &workspace)
    var kept = pieces[0]
    for (piece, attribute) in zip(pieces.dropFirst(), attributes) {
      switch attribute.name {
      case "domain": continue
      case "path": kept += Array("; Path=".utf8) + path
      case "secure" where losesSecure, "partitioned" where losesSecure: continue
      case "samesite" where losesSecure && attribute.value.map(\.asciiLowercased).elementsEqual("none".utf8): continue
      default: kept += [0x3b] + piece
      }
    }
    return kept
  }
}

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
  /// Drops the fields that change, and returns their new lines with line ends.
  func of(_ target: RuleTarget, _ bytes: Span<UInt8>, _ workspace: inout Workspace) -> [UInt8] {
    let asked = url.span
    guard let colon = asked.firstIndex(of: 0x3a), colon + 3 <= asked.count else { return [] }
    let end = asked.firstIndex(of: 0x2f, from: colon + 3) ?? asked.count
    let place = asked.extracting(0..<end).array
    let authority = asked.extracting(colon + 3..<end).array
    var told: [UInt8] = []
    workspace.response.fields.drop(Self.transportSecurityName, in: bytes)
    for index in workspace.response.fields.lines.indices where !workspace.response.fields.lines[index].isDropped {
      let line = workspace.response.fields.lines[index]
      var replaced: [UInt8]? = nil
      if line.known == .setCookie {
        // The order of cookies with the same name matters, so all of them move.
        let value = bytes.extracting(line.value).array
        replaced = mappedCookie(value, target, authority, isClear: colon == 4, &workspace) ?? value
      } else if bytes.equals(line.name, ignoringCase: "location")
        || bytes.equals(line.name, ignoringCase: "content-location")
      {
        replaced = Self.mappedURL(bytes.extracting(line.value), target, place)
      } else if bytes.equals(line.name, ignoringCase: "refresh") {
        let said = Self.urlOfRefresh(bytes, line.value)
        if let new = Self.mappedURL(bytes.extracting(said), target, place) {
          replaced = bytes.extracting(line.value.lowerBound..<said.lowerBound).array + new
          replaced! += bytes.extracting(said.upperBound..<line.value.upperBound).array
        }
      }
      guard let replaced else { continue }
      workspace.response.fields.lines[index].isDropped = true
      told += bytes.extracting(line.name).array + [0x3a, 0x20] + replaced + [0x0d, 0x0a]
    }
    return told
  }

  /// A URL of the target as the program knows it; nil if it stays unchanged. `place` is the scheme and authority that
  /// the program asked for.
  static func mappedURL(_ reference: Span<UInt8>, _ target: RuleTarget, _ place: [UInt8]) -> [UInt8]? {
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
  private func mappedCookie(
    _ value: [UInt8], _ target: RuleTarget, _ authority: [UInt8], isClear: Bool, _ workspace: inout Workspace
  ) -> [UInt8]? {
    let pieces = value.split(separator: 0x3b, omittingEmptySubsequences: false).map { Array($0) }
    let attributes = pieces.dropFirst().map { Self.attribute($0) }
    let said = attributes.last { $0.name == "path" }?.value
    let path = said.flatMap { Self.rest($0, target).map { [0x2f] + $0 } } ?? said ?? []
    let losesSecure = isClear && leavesByTLS(authority, under: path, &workspace)
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

  /// Whether http requests of the program to `authority`, below `path`, are sent over TLS.
  private func leavesByTLS(
    _ authority: [UInt8], under path: [UInt8], _ workspace: inout Workspace
  ) -> Bool {
    guard case .success(let asked) = HostAndPort.read(authority.span, 0..<authority.count) else { return false }
    return isUpgraded(Array(authority[asked.host]), asked.port, Self.get, Self.anyPath(under: path), &workspace)
  }
}

// Responses to requests that were sent as https although the program used http (`upgrade = true`). Mentions of https in
// their heads are translated, so the program's next requests stay within the rule, its pins and its credentials.
//
//   Location, Content-Location, Refresh   https://HOST/… of the same host and port becomes http://HOST/…
//   Set-Cookie                            Secure is removed, since http clients reject it; so are SameSite=None and
//                                         Partitioned, which mean nothing without it
//   Strict-Transport-Security             is removed
//
// This must not let anything be sent in the clear: a URL is only rewritten, and Secure only removed, if policy upgrades
// the requests that the program will make then. A cookie for more hosts than the rule upgrades loses its Domain.
// Tests: test_upgraded_answers.py.

import Bytes
import HTTP1
import Policy

/// What a response says of URLs, in the words of the program, whose request was sent to another URL than it asked for.
struct FieldTranslation {
  let policy: Policy
  let sender: Sender
  /// The method and the URL without query that the program asked for.
  let method: [UInt8]
  let url: [UInt8]
  /// The port that the request was sent to.
  let port: UInt16

  private static let transportSecurityName = Array("strict-transport-security".utf8)
  /// Stands for any label of a host and any segment of a path: no rule names it.
  private static let anything = Array("any--sallyport".utf8)
  static let get = Array("GET".utf8)

  /// Drops the fields that change, and returns their new lines with line ends. `target`: where the rule sends the
  /// request; nil: to the URL that was asked for, as https.
  func translate(_ bytes: Span<UInt8>, of target: RuleTarget?, in workspace: inout Workspace) -> [UInt8] {
    guard let asked = AskedPlace(url) else { return [] }
    var told: [UInt8] = []
    workspace.response.fields.drop(Self.transportSecurityName, in: bytes)
    for index in workspace.response.fields.lines.indices where !workspace.response.fields.lines[index].isDropped {
      let line = workspace.response.fields.lines[index]
      let value = bytes.extracting(line.value)
      var replaced: [UInt8]? = nil
      if line.known == .setCookie {
        // The order of cookies with the same name matters, so all of them move.
        replaced = cookie(value, target, asked: asked, in: &workspace) ?? value.array
      } else if bytes.equals(line.name, ignoringCase: "location") {
        replaced = translated(value, target, asked: asked, methods: [method, Self.get], in: &workspace)
      } else if bytes.equals(line.name, ignoringCase: "content-location") {
        replaced = translated(value, target, asked: asked, methods: [Self.get], in: &workspace)
      } else if bytes.equals(line.name, ignoringCase: "refresh") {
        let place = Self.urlOfRefresh(value)
        if let new = translated(value.extracting(place), target, asked: asked, methods: [Self.get], in: &workspace) {
          replaced = value.extracting(first: place.lowerBound).array + new
          replaced! += value.extracting(place.upperBound...).array
        }
      }
      guard let replaced else { continue }
      workspace.response.fields.lines[index].isDropped = true
      told += bytes.extracting(line.name).array + [0x3a, 0x20] + replaced + [0x0d, 0x0a]
    }
    return told
  }

  // MARK: URLs

  /// A URL of the response as the program would use it, with one of `methods`; nil if it stays unchanged.
  private func translated(
    _ reference: Span<UInt8>, _ target: RuleTarget?, asked: AskedPlace, methods: [[UInt8]],
    in workspace: inout Workspace
  ) -> [UInt8]? {
    guard let target else { return downgraded(reference, asked, methods: methods, in: &workspace) }
    return Self.mappedURL(reference, target, place: asked.place)
  }

  /// A URL of the same server, as http; nil if it is another server's, or policy would not upgrade it.
  private func downgraded(
    _ reference: Span<UInt8>, _ asked: AskedPlace, methods: [[UInt8]], in workspace: inout Workspace
  ) -> [UInt8]? {
    let scheme = "https://".utf8.count
    guard reference.count > scheme, reference.equals(0..<scheme, ignoringCase: "https://") else { return nil }
    var end = scheme
    while end < reference.count, ![0x2f, 0x3f, 0x23, 0x5c].contains(reference[end]) { end += 1 }
    guard case .success(let parts) = HostAndPort.read(reference, scheme..<end),
      (parts.port ?? Scheme.https.defaultPort) == port,
      reference.extracting(parts.host).array.map(\.asciiLowercased) == asked.host.map(\.asciiLowercased)
    else { return nil }
    var pathEnd = end
    while pathEnd < reference.count, reference[pathEnd] != 0x3f, reference[pathEnd] != 0x23 { pathEnd += 1 }
    let path = reference.extracting(end..<pathEnd).array
    for method in methods where !isUpgraded(asked.host, asked.port, method: method, path: path, in: &workspace) {
      return nil
    }
    return asked.place + reference.extracting(end...).array
  }

  /// Whether a rule would upgrade this request of the program, like the current one.
  func isUpgraded(
    _ host: [UInt8], _ port: UInt16?, method: [UInt8], path: [UInt8], in workspace: inout Workspace
  ) -> Bool {
    guard workspace.decisions.host.set(host.span) == nil else { return false }
    let decision = policy.decide(
      RequestFacts(
        scheme: .http, port: port ?? Scheme.http.defaultPort, method: method.span, path: path.span, isTunnel: false,
        sender: sender, link: workspace.link,
        wall: workspace.wallMilliseconds), in: &workspace.decisions)
    guard decision.verdict == .allow, let rule = decision.rule else { return false }
    return policy.rules[rule].leavesByTLS
  }

  /// Position of the URL in a Refresh: `5; url=https://…`, in quotes or not.
  private static func urlOfRefresh(_ value: Span<UInt8>) -> Range<Int> {
    var at = 0
    while at < value.count, value[at] != 0x3b, value[at] != 0x2c { at += 1 }
    at = min(at + 1, value.count)
    while at < value.count, value[at].isBlank { at += 1 }
    if at + 4 <= value.count, value.equals(at..<at + 3, ignoringCase: "url") {
      var equals = at + 3
      while equals < value.count, value[equals].isBlank { equals += 1 }
      if equals < value.count, value[equals] == 0x3d { at = equals + 1 }
      while at < value.count, value[at].isBlank { at += 1 }
    }
    guard at < value.count, value[at] == 0x22 || value[at] == 0x27 else { return at..<value.count }
    let begin = at + 1
    var end = begin
    while end < value.count, value[end] != value[at] { end += 1 }
    return begin..<end
  }

  // MARK: Cookies

  /// A cookie as the program would use it; nil if it stays unchanged.
  private func cookie(
    _ value: Span<UInt8>, _ target: RuleTarget?, asked: AskedPlace, in workspace: inout Workspace
  ) -> [UInt8]? {
    guard let target else { return clearCookie(value, asked, in: &workspace) }
    return mappedCookie(value, target, asked: asked, in: &workspace)
  }

  /// A cookie for http (RFC 6265, 5.2); nil if it stays unchanged.
  private func clearCookie(_ value: Span<UInt8>, _ asked: AskedPlace, in workspace: inout Workspace) -> [UInt8]? {
    let pieces = value.array.split(separator: 0x3b, omittingEmptySubsequences: false).map { Array($0) }
    let attributes = pieces.dropFirst().map { Self.attribute($0) }
    guard attributes.contains(where: { $0.name == "secure" }) else { return nil }
    let path = attributes.last { $0.name == "path" }?.value ?? []
    guard isUpgraded(asked.host, asked.port, method: Self.get, path: Self.anyPath(under: path), in: &workspace) else {
      return nil
    }
    let domain = attributes.last { $0.name == "domain" }?.value ?? []
    let bare = domain.first == 0x2e ? Array(domain.dropFirst()) : domain
    let isWide =
      isUpgraded(bare, asked.port, method: Self.get, path: Self.anyPath(under: path), in: &workspace)
      && isUpgraded(
        Self.anything + [0x2e] + bare, asked.port, method: Self.get, path: Self.anyPath(under: path), in: &workspace)
    var kept = pieces[0]
    for (piece, attribute) in zip(pieces.dropFirst(), attributes) {
      switch attribute.name {
      case "secure", "partitioned": continue
      case "samesite" where String(decoding: attribute.value.map(\.asciiLowercased), as: UTF8.self) == "none": continue
      case "domain" where !isWide: continue
      default: kept += [0x3b] + piece
      }
    }
    return kept
  }

  static func anyPath(under path: [UInt8]) -> [UInt8] {
    (path.first == 0x2f ? path : [0x2f]) + (path.last == 0x2f ? [] : [0x2f]) + anything
  }

  static func attribute(_ piece: [UInt8]) -> (name: String, value: [UInt8]) {
    let equals = piece.firstIndex(of: 0x3d) ?? piece.count
    let name = piece.span.trimmingBlanks(0..<equals)
    let value = piece.span.trimmingBlanks(min(equals + 1, piece.count)..<piece.count)
    return (String(decoding: piece[name].map(\.asciiLowercased), as: UTF8.self), Array(piece[value]))
  }
}

/// The scheme and the server of the URL that a program asked for.
struct AskedPlace {
  /// `http://HOST:PORT`
  let place: [UInt8]
  let host: [UInt8]
  /// nil: none is written.
  let port: UInt16?

  var isHTTP: Bool { place.starts(with: "http:".utf8) }

  /// nil if `url` is none, or its host cannot be read.
  init?(_ url: [UInt8]) {
    guard let colon = url.firstIndex(of: 0x3a), colon + 3 <= url.count else { return nil }
    let end = url.span.firstIndex(of: 0x2f, from: colon + 3) ?? url.count
    guard case .success(let asked) = HostAndPort.read(url.span, colon + 3..<end) else { return nil }
    place = Array(url[..<end])
    host = Array(url[asked.host])
    port = asked.port
  }
}

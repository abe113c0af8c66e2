// Checks the head of a response against `redirects` of a rule: Location of every 3xx, and Refresh of any status, 1xx
// too. Both are checked as the origin sent them, before `upgrade` translates them. Content-Location leads no client
// anywhere, and neither does Location with another status: with 201 it names what was created. Tests:
// RedirectTargetTests, RedirectsTests, test_redirects.py.

import Bytes
import HTTP1
import Policy

extension SentURL {
  /// The URL that a request was sent to. `asked`: the target that the program asked for; `mapped`: the target of the
  /// rule, if it was sent there. If the host cannot be read it is empty, and no URL has the same host.
  init(_ asked: Span<UInt8>, _ upstream: UpstreamSide, mapped: RuleTarget?) {
    let isUpgraded = upstream.way.contains(.isUpgraded)
    let scheme: Scheme = upstream.way.contains(.isSecure) ? .https : .http
    var host: [UInt8] = []
    if let colon = asked.firstIndex(of: 0x3a), colon + 3 <= asked.count {
      let end = asked.firstIndex(of: 0x2f, from: colon + 3) ?? asked.count
      if case .success(let place) = HostAndPort.read(asked, colon + 3..<end) {
        host = asked.extracting(place.host).array.map(\.asciiLowercased)
      }
    }
    if let mapped {
      let programScheme: Scheme = asked.count > 4 && asked[4] == 0x73 ? .https : .http
      self.init(scheme: mapped.scheme, host: mapped.name, port: mapped.port, programScheme: programScheme)
    } else {
      self.init(scheme: scheme, host: host, port: upstream.port, programScheme: isUpgraded ? .http : scheme)
    }
  }

  /// Why a response with this head is refused for its redirect; nil: it is not.
  func problem(
    of head: borrowing ResponseHead, _ bytes: Span<UInt8>, by redirects: Redirects, from destination: Span<UInt8>
  ) -> Problem? {
    guard let seen = refused(by: redirects, bytes, head) else { return nil }
    let type = head.fields.only(.contentType).map { bytes.extracting($0).string }
    let difference = Difference(expected: expectation(of: redirects), seen: seen)
    return Problem(
      .redirectRefused,
      "The response of \(destination.string): expected \(difference.expected), seen \(difference.seen).",
      difference: difference, receivedStatus: head.status,
      upstream: Problem.Upstream(status: head.status, type: type, text: nil))
  }
}

extension SentURL {
  private static let locationName = Array("location".utf8)
  private static let refreshName = Array("refresh".utf8)
  /// Longest part of a reference that a problem shows, in bytes: enough for any host.
  private static let longestShownReference = 280

  /// What of a response head leads where `redirects` lets nobody go; nil: nothing does.
  func refused(by redirects: Redirects, _ bytes: Span<UInt8>, _ head: borrowing ResponseHead) -> String? {
    let isRedirect = (300..<400).contains(head.status)
    return (isRedirect ? refused(Self.locationName, by: redirects, bytes, fields: head.fields) : nil)
      ?? refused(Self.refreshName, by: redirects, bytes, fields: head.fields)
  }

  /// The refused value that was seen; nil: none. If there are two fields, clients follow the first or the last.
  private func refused(
    _ name: [UInt8], by redirects: Redirects, _ bytes: Span<UInt8>, fields: FieldSection
  ) -> String? {
    let title = name == Self.refreshName ? "Refresh" : "Location"
    var value: Range<Int>? = nil
    for index in fields.lines.indices {
      let line = fields.lines[index]
      guard bytes.equals(line.name, ignoringCase: name.span) else { continue }
      if value != nil { return "more than one \(title)" }
      value = line.value
    }
    guard let value else { return nil }
    let said = bytes.extracting(value)
    let target = name == Self.refreshName ? RedirectTarget.read(refresh: said) : RedirectTarget.read(said)
    return mayLead(to: target, by: redirects) ? nil : "\(title) '\(Self.shown(said))'"
  }

  /// A reference for people: without query and user information, and without characters that a terminal would obey.
  static func shown(_ reference: Span<UInt8>) -> String {
    var text: [UInt8] = []
    for index in 0..<min(reference.count, longestShownReference) {
      let byte = reference[index]
      if byte == 0x3f || byte == 0x23 { break }
      if byte == 0x40 {
        var begin = text.count
        while begin > 0, text[begin - 1] != 0x2f, text[begin - 1] != 0x5c { begin -= 1 }
        text.removeSubrange(begin...)
        continue
      }
      text.append(byte >= 0x20 && byte < 0x7f ? byte : 0x3f)
    }
    return text.span.string
  }
}

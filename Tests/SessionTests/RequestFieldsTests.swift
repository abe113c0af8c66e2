// Fields that a session reads for itself: credentials, Via, Accept.

import Bytes
import HTTP1
import Policy
import TestSupport
import Testing

@testable import Session

/// Calls `body` with the fields of a request that has these lines.
private func withFields<Answer>(_ lines: [String], _ body: (FieldSection, Span<UInt8>) -> Answer) throws
  -> Answer
{
  let bytes = octets("GET http://a/ HTTP/1.0\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n")
  var head = RequestHead()
  let progress = head.read(bytes.span, limits: HeadLimits(bytes: 4096, fields: 100))
  try #require(progress == .complete(count: bytes.count))
  return body(head.fields, bytes.span)
}

@Suite struct RequestFieldsTests {
  // MARK: Proxy-Authorization

  static let known = ["u:p", "kiosk:s3cret", "a:", "ü:ß"].map {
    ProxyCredential(userAndPassword: Array($0.utf8))
  }

  @Test(arguments: [
    ("the first of them", "Basic dTpw", true), ("another of them", "Basic a2lvc2s6czNjcmV0", true),
    ("an empty password", "Basic YTo=", true), ("without padding", "Basic YTo", true),
    ("above ASCII", "Basic w7w6w58=", true), ("the scheme in other letters", "bAsIc dTpw", true),
    ("several spaces", "Basic   dTpw", true), ("another password", "Basic dTpx", false),
    ("a longer password", "Basic dTpwcA==", false), ("a shorter one", "Basic dTo=", false),
    ("a password twice", "Basic dTpwdTpw", false), ("another user", "Basic djpw", false),
    ("nothing", "", false), ("a scheme alone", "Basic", false), ("a scheme and a space", "Basic ", false),
    ("another scheme", "Bearer dTpw", false), ("a scheme that sticks", "BasicdTpw", false),
    ("no Base64", "Basic u:p", false), ("a character too many", "Basic dTpwx", false),
    ("something behind it", "Basic dTpw x", false), ("a comma", "Basic dTpw,", false),
    ("URL-safe letters", "Basic w7w6w5-=", false), ("padding in the middle", "Basic YTo=YTo=", false),
    ("three signs of padding", "Basic YTo===", false),
  ]) func credentialsAreCompared(what: String, value: String, matches: Bool) throws {
    let lines = value.isEmpty ? [] : ["Proxy-Authorization: \(value)"]
    let seen = try withFields(lines) { $0.credential($1, of: Self.known) != nil }
    #expect(seen == matches)
  }

  @Test func theUserIsNamed() throws {
    let seen = try withFields(["Proxy-Authorization: Basic a2lvc2s6czNjcmV0"]) {
      $0.credential($1, of: Self.known)
    }
    #expect(seen?.user == "kiosk")
  }

  @Test func onlyTheFirstFieldCounts() throws {
    let lines = ["Proxy-Authorization: Basic eDp5", "Proxy-Authorization: Basic dTpw"]
    #expect(try withFields(lines) { $0.credential($1, of: Self.known) } == nil)
  }

  @Test func authorizationForTheOriginIsNoneForTheProxy() throws {
    #expect(try withFields(["Authorization: Basic dTpw"]) { $0.credential($1, of: Self.known) } == nil)
  }

  @Test func base64IsReadAsItIsWritten() {
    var generator = SeededGenerator(seed: 9)
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    for count in 0...40 {
      let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
      var text: [UInt8] = []
      for begin in stride(from: 0, to: count, by: 3) {
        let group = Array(bytes[begin..<min(begin + 3, count)])
        let value = (0..<3).reduce(0) { $0 << 8 | ($1 < group.count ? Int(group[$1]) : 0) }
        for place in 0...group.count { text.append(alphabet[value >> (18 - 6 * place) & 63]) }
      }
      let padding = [UInt8](repeating: 0x3d, count: (4 - text.count % 4) % 4)
      for form in [text, text + padding] {
        let decoded = Base64.decode(unpadded: form)
        #expect(decoded == bytes, "\(shown(form))")
      }
      // A character that is none of the alphabet's, at any place.
      for place in text.indices {
        var other = text
        other[place] = octets("-_ .,=\u{0}\u{80}@`[{").randomElement(using: &generator) ?? 0
        if place == 0 && (other[0] == 0x20) || place >= text.count - 2 && other[place] == 0x3d { continue }
        let decoded = Base64.decode(unpadded: other)
        #expect(decoded == nil, "\(shown(other))")
      }
    }
  }

  // MARK: Via

  @Test(
    arguments: [
      ("no Via", [], false), ("another proxy", ["1.1 other (7F3K2A9Q)"], false),
      ("this proxy", ["1.1 me (7F3K2A9Q)"], true),
      ("this proxy by HTTP/1.0", ["1.0 me (7F3K2A9Q)"], true),
      ("among others", ["1.0 a, 1.1 me (7F3K2A9Q) , 1.1 b"], true),
      ("in a second field", ["1.0 a", "1.1 me (7F3K2A9Q)"], true),
      ("the name alone, as responses carry it", ["1.1 me"], false),
      ("the name with another mark", ["1.1 me (7F3K2A9R)"], false),
      ("white space as nobody else writes it", ["1.1 \t me (7F3K2A9Q)"], true),
      ("a mark alone", ["1.1 (7F3K2A9Q)"], false), ("a protocol alone", ["1.1"], false),
      ("eight of the name without comments", [String](repeating: "1.1 me", count: 8), false),
      ("nine of the name without comments", [String](repeating: "1.1 me", count: 9), true),
      ("nine of the name, in one field", [[String](repeating: "1.0 me", count: 9).joined(separator: ", ")], true),
      ("nine of the name with other marks", (1...9).map { "1.1 me (00\($0))" }, true),
      ("nine of longer names", [String](repeating: "1.1 me.example", count: 9), false),
      ("nine of other names", [String](repeating: "1.1 you (me)", count: 9), false),
      ("eight of the name, and the mark", [String](repeating: "1.1 me", count: 8) + ["1.1 me (7F3K2A9Q)"], true),
      ("a longer name", ["1.1 xme (7F3K2A9Q)"], false), ("no protocol", ["me (7F3K2A9Q)"], false),
      ("something behind it", ["1.1 me (7F3K2A9Q) x"], false), ("empty elements", [",, ,"], false),
    ] as [(String, [String], Bool)]) func aLoopIsSeen(what: String, values: [String], isLoop: Bool) throws
  {
    let own = octets("me (7F3K2A9Q)")
    let seen = try withFields(values.map { "Via: \($0)" }) { $0.passage($1, through: octets("me"), own: own) }
    #expect((seen != .new) == isLoop)
  }

  // MARK: Accept

  @Test(
    arguments: [
      (nil, false), ("", false), ("*/*", false), ("text/html,application/xhtml+xml,*/*;q=0.8", false),
      ("application/json", false), ("application/problem+json", false), ("text/html", false),
      ("text/plain", true), ("TEXT/PLAIN", true), ("text/*", true), ("text/plain, application/json", false),
      ("text/plain, application/json;q=0.9", true), ("text/plain;q=0.9, application/json", false),
      ("text/plain;q=0.5, application/problem+json;q=0.4", true),
      ("text/plain;q=0.5, application/*;q=0.6", false),
      ("text/*;q=0.5, application/*;q=0.4", true), ("text/plain, */*", false),
      ("text/plain, */*;q=0.1", true),
      ("text/plain;q=0, */*", false), ("text/plain;q=0", false),
      ("text/*, text/plain;q=0.1, */*;q=0.5", false),
      ("application/*;q=0.1, */*", true), ("application/json;q=0, */*;q=0.1", true),
      ("application/json;q=0.2, application/problem+json;q=0.7, text/plain;q=0.5", false),
      ("text/plain;q=0.001", true), ("text/plain;q=0.000", false),
      ("text/plain; q=0.5, application/json; q=0.4", true),
      ("text/plain;format=flowed;q=0.3, application/json;q=0.4", false),
      ("text/plain;Q=0.3, */*;q=0.4", false),
      ("text/plain;q=1.000, application/json;q=0.999", true), (",,text/plain,,", true),
      ("text/plain;q=2", true),
    ] as [(String?, Bool)]) func textIsPreferred(accept: String?, prefers: Bool) throws
  {
    let lines = accept.map { ["Accept: \($0)"] } ?? []
    let seen = try withFields(lines) { $0.prefersText($1) }
    #expect(seen == prefers)
  }

  @Test func severalAcceptFieldsAreOneList() throws {
    let lines = ["Accept: application/json;q=0.4", "Accept: text/plain;q=0.5"]
    #expect(try withFields(lines) { $0.prefersText($1) })
  }
}

// Fields of a message that is kept: lines found by name, taken out, put in the place of others.

import Bytes
import HTTP1
import Testing

@testable import Cache

@Suite struct MessageFieldsTests {
  private static let sample = fields(["Host: a", "ACCEPT: x, y", "accept:", "Accept: z", "X-Accept: n"])

  @Test func linesAreKeptInTheirOrderAndSpelling() {
    #expect(text(Self.sample.text) == "Host: a\r\nACCEPT: x, y\r\naccept: \r\nAccept: z\r\nX-Accept: n\r\n")
    #expect(MessageFields().text.isEmpty)
  }

  /// RFC 9110, 5.1 and 5.3.
  @Test func namesAreFoundInAnyCase() {
    #expect(Self.sample.contains("accept"))
    #expect(Self.sample.contains("host"))
    #expect(!Self.sample.contains("accep"))
    #expect(!Self.sample.contains("x-accep"))
    let isThere = Self.sample.contains(Array("AcCePt".utf8).span)
    #expect(isThere)
    #expect(Self.sample.combined("accept").map { text($0) } == "x, y, , z")
    #expect(Self.sample.combined("host").map { text($0) } == "a")
    #expect(Self.sample.combined("date") == nil)
    #expect(Self.sample.only("host").map { text($0) } == "a")
    #expect(Self.sample.only("accept") == nil, "it comes more than once")
    #expect(Self.sample.only("date") == nil)
    #expect(fields(["A:"]).only("a")?.isEmpty == true)
    #expect(fields(["A:"]).combined("a")?.isEmpty == true)
  }

  /// RFC 9110, 5.6.1: empty elements are passed over.
  @Test func elementsOfAllLines() {
    var seen: [String] = []
    fields(["A: x, ,y\t,", "B: n", "a: ,", "a: z w"]).forEachElement("a") { seen.append($0.string) }
    #expect(seen == ["x", "y", "z w"])
  }

  @Test func linesAreTakenOut() {
    #expect(text(Self.sample.without(["accept"]).text) == "Host: a\r\nX-Accept: n\r\n")
    #expect(
      text(Self.sample.without(["date", "host"]).text) == "ACCEPT: x, y\r\naccept: \r\nAccept: z\r\nX-Accept: n\r\n")
    #expect(Self.sample.without([]) == Self.sample)
  }

  /// RFC 9111, 3.2.
  @Test func linesTakeThePlaceOfThoseOfTheSameName() {
    let updated = fields(["A: 1", "B: 2", "a: 3", "C: 4"]).updated(by: fields(["a: 5", "D: 6", "D: 7"]))
    #expect(updated.combined("a").map { text($0) } == "5")
    #expect(updated.combined("b").map { text($0) } == "2")
    #expect(updated.combined("c").map { text($0) } == "4")
    #expect(updated.combined("d").map { text($0) } == "6, 7")
    #expect(Self.sample.updated(by: MessageFields()) == Self.sample)
  }

  @Test func whatAHeadDropsIsNotKept() {
    let bytes = Array("HTTP/1.1 200 OK\r\nConnection: X\r\nA:  b \r\nX: y\r\nKeep-Alive: 5\r\nC:\r\n\r\n".utf8)
    var head = ResponseHead()
    guard case .complete = head.read(bytes.span, limits: HeadLimits(bytes: 1000, fields: 20), toHead: false) else {
      Issue.record("no head")
      return
    }
    let kept = MessageFields(head.fields, bytes.span)
    #expect(text(kept.text) == "A: b\r\nC: \r\n", "RFC 9111, 3.1")
  }

  @Test func keysDifferByEachOfTheirParts() {
    func key(_ url: String, _ credentials: String, _ owner: String) -> CacheKey {
      CacheKey(url: Array(url.utf8), rule: Array(credentials.utf8), owner: owner)
    }
    let keys: Set<CacheKey> = [
      key("http://a/", "", ""), key("http://a/x", "", ""), key("http://a/", "x", ""), key("http://a/", "", "x"),
      key("http://a/", "x", "y"), key("http://a/", "y", "x"), key("http://a/", "xy", ""), key("http://A/", "", ""),
    ]
    #expect(keys.count == 8)
    #expect(key("http://a/", "x", "y") == key("http://a/", "x", "y"))
  }
}

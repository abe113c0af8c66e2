// What an unsafe request invalidates, besides its own URL: what its answer names at the same origin, whatever rules add.

import Bytes
import Cache
import Testing

@Suite struct InvalidationTests {
  private static func key(_ url: String, added: String = "", owner: String = "") -> CacheKey {
    CacheKey(url: Array((url + added).utf8), added: added.utf8.count, rule: [7], owner: owner)
  }

  struct Reference: Sendable {
    let named: String
    /// nil: nothing else.
    let url: String?
  }

  /// The request is for `http://a.test:8080/b/c?d`.
  static let references = [
    Reference(named: "http://a.test:8080/x", url: "http://a.test:8080/x"),
    Reference(named: "http://A.Test:8080/x", url: "http://a.test:8080/x"),
    Reference(named: "http://a.test:8080/y/./../x", url: "http://a.test:8080/x"),
    Reference(named: "http://a.test:8080/y/..", url: "http://a.test:8080/"),
    Reference(named: "http://a.test:8080", url: "http://a.test:8080/"),
    Reference(named: "http://a.test:8080?q", url: "http://a.test:8080/?q"),
    Reference(named: "http://a.test:8080/x?u=http://b.test/", url: "http://a.test:8080/x?u=http://b.test/"),
    Reference(named: "/x?u=http://b.test/../y", url: "http://a.test:8080/x?u=http://b.test/../y"),
    Reference(named: "//a.test:8080/y/../x", url: "http://a.test:8080/x"),
    Reference(named: "/y/../x", url: "http://a.test:8080/x"), Reference(named: "x", url: "http://a.test:8080/b/x"),
    Reference(named: "../x#f", url: "http://a.test:8080/x"), Reference(named: "?x", url: "http://a.test:8080/b/c?x"),
    Reference(named: "http://a.test/x", url: nil), Reference(named: "https://a.test:8080/x", url: nil),
    Reference(named: "http://a.test:80801/x", url: nil), Reference(named: "http://b.test:8080/x", url: nil),
    Reference(named: "//b.test:8080/x", url: nil),
  ]

  @Test(arguments: references) func whatTheAnswerNames(reference: Reference) {
    for name in ["Location", "Content-Location"] {
      var fields = MessageFields()
      fields.append(Array(name.utf8).span, Array(reference.named.utf8).span)
      let keys = Self.key("http://a.test:8080/b/c?d").invalidated(by: fields)
      let others = keys.dropFirst().map { String(decoding: $0.url, as: UTF8.self) }
      #expect(others == (reference.url.map { [$0] } ?? []))
    }
  }

  @Test func aPortThatTheSchemeHasAnyway() {
    var fields = MessageFields()
    fields.append("Location", Array("https://a.test:443/x".utf8))
    let keys = Self.key("https://a.test/b").invalidated(by: fields)
    #expect(keys.contains(Self.key("https://a.test/x")))
  }

  @Test func whatARuleAddsIsNoOtherResource() {
    let bare = Self.key("http://a/b")
    let added = Self.key("http://a/b", added: "?k=1")
    #expect(bare != added && added != Self.key("http://a/b?k=1"))
    #expect(added.isOfSameResource(as: bare) && added.resourceHash == bare.resourceHash)
    #expect(added.isOfSameResource(as: Self.key("http://a/b", added: "?k=2", owner: "user 7")))
    #expect(!added.isOfSameResource(as: Self.key("http://a/b?k=1")), "here it is the client's")
    #expect(added.url == Array("http://a/b?k=1".utf8))
    #expect(CacheKey(bytes: added.bytes) == added, "as it is read from a file")
  }

  @Test func anAnswerMayNameAnotherUrlWithWhatTheRuleAdds() {
    for named in ["/x?k=1", "/x"] {
      var fields = MessageFields()
      fields.append("Content-Location", Array(named.utf8))
      let keys = Self.key("http://a/b", added: "?k=1").invalidated(by: fields)
      #expect(keys.contains { $0.isOfSameResource(as: Self.key("http://a/x")) }, "\(named)")
    }
  }
}

// URLs that people write in two ways (RFC 9110, 4.2.3).

import Testing

@testable import Cache

@Suite struct ComparableURLTests {
  private static func url(_ text: String) -> ComparableURL { ComparableURL(Array(text.utf8)) }

  @Test(arguments: [
    ("http://a.example/x", "HTTP://A.Example/x"), ("http://a.example/x", "http://a.example:80/x"),
    ("https://a.example/x", "https://a.example:443/x"), ("http://a.example", "http://a.example/"),
    ("http://a.example?q", "http://a.example/?q"), ("http://a.example/x#part", "http://a.example/x"),
    ("http://[::1]:80/", "http://[::1]"), ("a", "a"), ("", ""),
  ]) func areOne(left: String, right: String) { #expect(Self.url(left) == Self.url(right)) }

  @Test(arguments: [
    ("http://a.example/x", "http://a.example/X"), ("http://a.example/x", "https://a.example/x"),
    ("http://a.example:443/x", "http://a.example/x"), ("https://a.example:80/x", "https://a.example/x"),
    ("http://a.example/x", "http://a.example/x/"), ("http://a.example/x?a", "http://a.example/x?A"),
    ("http://[::80]/", "http://[:]/"), ("a.example/x", "http://a.example/x"),
  ]) func areTwo(left: String, right: String) { #expect(Self.url(left) != Self.url(right)) }
}

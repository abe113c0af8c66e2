// An outline asserts as much as the transcript that it stands for: no line of that can be missing or other.

import TestSupport
import Testing

@testable import Session

@Suite struct OutlineTests {
  private static let rules = policy("[[rule]]\nname = \"shut\"\nhosts = [\"shut.example\"]\naction = \"deny\"")

  private static func transcript() -> [String] {
    Stage(rules, .whole, isWrapped: false).play([
      .client(get), .opened, .upstream(head("HTTP/1.1 103 Early Hints", "Link: </a>") + ok),
      .client(head("GET http://b.example/ HTTP/1.1", "Host: b.example", "X: y")), .opened, .upstream(ok),
      .client(head("GET http://shut.example/ HTTP/1.1", "Host: shut.example")),
    ]).split(separator: "\n").map(String.init)
  }

  @Test func whatIsUsualIsOneLine() {
    #expect(
      Outline.of(Self.transcript()) == [
        "connect a.example:80", "> GET /x HTTP/1.1 …", "< HTTP/1.1 103 Early Hints …", "< Link: </a>",
        "< HTTP/1.1 200 OK …", "< Content-Length: 2", "< content: ok", "end (200): client keep, upstream kept",
        "connect b.example:80", "> GET / HTTP/1.1 to b.example …", "> X: y", "< HTTP/1.1 200 OK …",
        "< Content-Length: 2", "< content: ok", "end (200): client keep, upstream kept",
        "< HTTP/1.1 403 denied rule=shut ref=REF003 …",
        "< problem: Rule shut denies this request. {\"reason\":\"rule-denies\"}", "end (403 denied): client keep",
      ])
  }

  @Test func noLineCanBeMissingOrOther() {
    let whole = Self.transcript()
    let outline = Outline.of(whole)
    for index in whole.indices {
      var missing = whole
      missing.remove(at: index)
      #expect(Outline.of(missing) != outline, "\(whole[index])")
      // How long the content of an answer is, StreamReader holds to what came.
      if whole[index].hasPrefix("< Content-Length: "), whole[index] != "< Content-Length: 2" { continue }
      var other = whole
      other[index] += "."
      #expect(Outline.of(other) != outline, "\(whole[index])")
    }
  }
}

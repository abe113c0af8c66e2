// Requests that a serializer works on: parameters in the query, bodies that are made, merged and transcoded, and what
// becomes of those that cannot be.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct HeldRequestTests {
  static let rules = policy(
    """
    [proxy.limits]
    buffered_body = "1KiB"
    [[rule]]
    name = "form"
    hosts = ["form.example"]
    [rule.request]
    parameters = { k = "v w", a = [1, true] }
    [[rule]]
    name = "json"
    hosts = ["json.example"]
    [rule.request]
    serializer = "json"
    transcode = true
    parameters = { k = "v" }
    [[rule]]
    name = "passing"
    hosts = ["passing.example"]
    [rule.request]
    serializer = "json"
    on_conflict = "pass"
    parameters = { k = "v" }
    [[rule]]
    name = "watched"
    hosts = ["watched.example"]
    enforce = false
    [rule.request]
    serializer = "json"
    parameters = { k = "v" }
    [[rule]]
    name = "typed"
    hosts = ["typed.example"]
    [rule.request]
    headers.default = { Content-Type = "application/x-www-form-urlencoded; charset=utf-8" }
    parameters = { k = "v" }
    [[rule]]
    name = "transcoding"
    hosts = ["transcoding.example"]
    [rule.request]
    serializer = "json"
    transcode = true
    """)

  private func request(_ method: String, _ host: String, _ type: String?, _ body: String, _ fields: String...) -> String
  {
    var lines = ["\(method) http://\(host)/p HTTP/1.1", "Host: \(host)"] + fields
    if let type { lines.append("Content-Type: \(type)") }
    if !body.isEmpty { lines.append("Content-Length: \(body.utf8.count)") }
    return lines.map { $0 + "\r\n" }.joined() + "\r\n" + body
  }

  private let form = "application/x-www-form-urlencoded"

  @Test func parametersOfAGETStandInTheQuery() {
    play(
      .client(head("GET http://form.example HTTP/1.1", "Host: form.example")), .opened, .upstream(ok),
      .client(head("GET http://form.example/p?x=1 HTTP/1.1", "Host: form.example")), .reused, .upstream(ok),
      .client(head("DELETE http://form.example/p? HTTP/1.1", "Host: form.example")), .reused, .upstream(ok),
      .client(head("TRACE http://form.example/p HTTP/1.1", "Host: form.example")), .reused, .upstream(ok),
      policy: Self.rules,
      gives: #"""
        connect form.example:80
        > GET /?a%5B%5D=1&a%5B%5D=1&k=v%20w HTTP/1.1 to form.example …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect form.example:80
        > GET /p?x=1&a%5B%5D=1&a%5B%5D=1&k=v%20w HTTP/1.1 to form.example …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect form.example:80
        > DELETE /p?&a%5B%5D=1&a%5B%5D=1&k=v%20w HTTP/1.1 to form.example …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect form.example:80
        > TRACE /p HTTP/1.1 to form.example …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aBodyIsMadeWhereThereIsNone() {
    play(
      .client(head("POST http://form.example/ HTTP/1.1", "Host: form.example")), .opened, .upstream(ok),
      .client(head("PUT http://form.example/ HTTP/1.1", "Host: form.example", "Content-Length: 0")), .reused,
      .upstreamEnds, .opened, .upstream(ok),
      .client(head("POST http://typed.example/ HTTP/1.1", "Host: typed.example")), .opened, .upstream(ok),
      .client(head("POST http://typed.example/ HTTP/1.1", "Host: typed.example", "Content-Type: a/b")), .reused,
      .upstream(ok), policy: Self.rules,
      gives: #"""
        connect form.example:80
        > POST / HTTP/1.1 to form.example …
        > Content-Type: application/x-www-form-urlencoded
        > Content-Length: 27
        > content: a%5B%5D=1&a%5B%5D=1&k=v%20w
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect form.example:80
        > PUT / HTTP/1.1 to form.example …
        > Content-Type: application/x-www-form-urlencoded
        > Content-Length: 27
        > content: a%5B%5D=1&a%5B%5D=1&k=v%20w
        connect form.example:80 once more
        > PUT / HTTP/1.1 to form.example …
        > Content-Type: application/x-www-form-urlencoded
        > Content-Length: 27
        > content: a%5B%5D=1&a%5B%5D=1&k=v%20w
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect typed.example:80
        > POST / HTTP/1.1 to typed.example …
        > Content-Type: application/x-www-form-urlencoded; charset=utf-8
        > Content-Length: 3
        > content: k=v
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect typed.example:80
        > POST / HTTP/1.1 to typed.example …
        > Content-Type: a/b
        > Content-Length: 3
        > content: k=v
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func parametersAreMergedIntoABodyOfTheSerializersType() {
    play(
      .client(request("POST", "form.example", form, "k=mine")), .opened, .upstream(ok),
      .client(request("POST", "json.example", "application/json; charset=utf-8", "{\"k\": 1, \"a\": 1.50}")), .opened,
      .upstream(ok),
      .client(request("PATCH", "json.example", "application/merge-patch+json", "{}", "Content-MD5: x")), .reused,
      .upstream(ok), policy: Self.rules,
      gives: #"""
        connect form.example:80
        > POST /p HTTP/1.1 to form.example …
        > Content-Type: application/x-www-form-urlencoded
        > Content-Length: 34
        > content: k=mine&a%5B%5D=1&a%5B%5D=1&k=v%20w
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect json.example:80
        > POST /p HTTP/1.1 to json.example …
        > Content-Type: application/json; charset=utf-8
        > Content-Length: 21
        > content: {"k": "v", "a": 1.50}
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect json.example:80
        > PATCH /p HTTP/1.1 to json.example …
        > Content-Type: application/merge-patch+json
        > Content-Length: 9
        > content: {"k":"v"}
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aFormBecomesJSON() {
    play(
      .client(request("POST", "json.example", form, "a[b]=1&a[c][]=x%20y&k=mine")), .opened, .upstream(ok),
      .client(request("GET", "transcoding.example", form, "a=1")), .opened, .upstream(ok),
      .client(request("POST", "transcoding.example", "text/plain", "a=1")), .reused, .upstream(ok),
      policy: Self.rules,
      gives: #"""
        connect json.example:80
        > POST /p HTTP/1.1 to json.example …
        > Content-Type: application/json
        > Content-Length: 35
        > content: {"a":{"b":"1","c":["x y"]},"k":"v"}
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect transcoding.example:80
        > GET /p HTTP/1.1 to transcoding.example …
        > Content-Type: application/json
        > Content-Length: 9
        > content: {"a":"1"}
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect transcoding.example:80
        > POST /p HTTP/1.1 to transcoding.example …
        > Content-Type: text/plain
        > Content-Length: 3
        > content: a=1
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aChunkedBodyIsCollectedAndItsTrailersGo() {
    play(
      .client(
        head(
          "POST http://json.example/ HTTP/1.1", "Host: json.example", "Content-Type: application/json",
          "Transfer-Encoding: chunked", "Expect: 100-continue")),
      .client("1\r\n{\r\n"), .client("1\r\n}\r\n0\r\nX-Sum: 1\r\n\r\n"), .opened, .upstream(ok),
      .client(
        head(
          "POST http://json.example/ HTTP/1.1", "Host: json.example", "Content-Type: application/json",
          "Transfer-Encoding: chunked") + "0\r\n\r\n"), .reused, .upstream(ok),
      policy: Self.rules,
      gives: #"""
        < HTTP/1.1 100 Continue
        <
        connect json.example:80
        > POST / HTTP/1.1 to json.example …
        > Content-Type: application/json
        > Content-Length: 9
        > content: {"k":"v"}
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect json.example:80
        > POST / HTTP/1.1 to json.example …
        > Content-Type: application/json
        > Content-Length: 9
        > content: {"k":"v"}
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test(arguments: [
    ("text/plain", "x", "content type text/plain"), ("application/json", "[1]", "an array"),
    ("application/json", "{\"a\":}", "a fault at line 1, column 6"), ("a/b, c/d", "{}", "content type a/b, c/d"),
    ("multipart/form-data", "x", "multipart/form-data with a boundary, seen none"),
    ("application/x-www-form-urlencoded", "a=%zz", "a form, seen a fault at byte 2"),
  ])
  func whatCannotBeMergedIsRefused(type: String, body: String, seen: String) {
    let stage = Stage(Self.rules, .whole, isWrapped: false)
    let transcript = stage.play([.client(request("POST", "json.example", type, body))])
    #expect(transcript.contains("< HTTP/1.1 415 unsupported-body rule=json ref=REF001"), "\(transcript)")
    #expect(transcript.contains(seen), "\(transcript)")
    #expect(stage.faults.isEmpty)
  }

  @Test func aBodyThatIsCodedCannotBeMerged() {
    play(
      .client(request("POST", "json.example", "application/json", "{}", "Content-Encoding: gzip")),
      policy: Self.rules,
      gives: #"""
        < HTTP/1.1 415 unsupported-body rule=json ref=REF001 …
        < Connection: close
        < problem: Expected a body without Content-Encoding, seen one with it.
        end (415 unsupported-body): client linger
        """#)
  }

  @Test func aBodyAboveTheLimitIsRefusedBeforeItIsRead() {
    play(
      .client(request("POST", "json.example", "application/json", String(repeating: "1", count: 1025))),
      policy: Self.rules,
      gives: #"""
        < HTTP/1.1 413 request-body-too-large rule=json ref=REF001 …
        < Connection: close
        < problem: Expected a body of at most 1024 bytes, seen 1025 bytes.
        end (413 request-body-too-large): client linger
        """#)
  }

  @Test func aChunkedBodyAboveTheLimitIsRefusedOnceItIs() {
    let chunks = "200\r\n" + String(repeating: "2", count: 512) + "\r\n"
    play(
      .client(
        head(
          "POST http://json.example/ HTTP/1.1", "Host: json.example", "Content-Type: application/json",
          "Transfer-Encoding: chunked") + chunks + chunks),
      .client("1\r\n3\r\n"), policy: Self.rules,
      gives: #"""
        < HTTP/1.1 413 request-body-too-large rule=json ref=REF001 …
        < Connection: close
        < problem: Expected a body of at most 1024 bytes, seen more.
        end (413 request-body-too-large): client linger
        """#)
  }

  @Test func whatCannotBeMergedPassesAsItCame() {
    let chunks = "200\r\n" + String(repeating: "2", count: 512) + "\r\n"
    let chunked = head(
      "POST http://passing.example/ HTTP/1.1", "Host: passing.example", "Content-Type: application/json",
      "Transfer-Encoding: chunked")
    play(
      .client(request("POST", "passing.example", "text/plain", "x")), .opened, .upstream(ok),
      .client(request("POST", "passing.example", "application/json", "[1]")), .reused, .upstream(ok),
      .client(chunked + "3\r\n[1]\r\n0\r\nX-Sum: 1\r\n\r\n"), .reused, .upstream(ok),
      .client(chunked + chunks + chunks + "1\r\n"), .client("3\r\n"), .reused, .client("0\r\n\r\n"),
      .upstream(ok),
      policy: Self.rules,
      gives: #"""
        connect passing.example:80
        > POST /p HTTP/1.1 to passing.example …
        > Content-Type: text/plain
        > Content-Length: 1
        > content: x
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect passing.example:80
        > POST /p HTTP/1.1 to passing.example …
        > Content-Type: application/json
        > Content-Length: 3
        > content: [1]
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect passing.example:80
        > POST / HTTP/1.1 to passing.example …
        > Content-Type: application/json
        > Transfer-Encoding: chunked
        > chunked: [1]
        > last chunk
        > trailer X-Sum: 1
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect passing.example:80
        > POST / HTTP/1.1 to passing.example …
        > Content-Type: application/json
        > Transfer-Encoding: chunked
        > chunked: 2222222222222222222222222222222222222222222222222222222222222222222222222222222222222
            22222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222
            22222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222
            22222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222
            22222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222
            22222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222
            22222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222
            22222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222
            22222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222
            22222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222
            22222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222
            22222222222222222223
        > last chunk
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aRuleThatIsNotEnforcedRefusesNothing() {
    play(
      .client(request("POST", "watched.example", "application/json", "[1]")), .opened, .upstream(ok),
      policy: Self.rules,
      gives: #"""
        connect watched.example:80
        > POST /p HTTP/1.1 to watched.example …
        > Content-Type: application/json
        > Content-Length: 3
        > content: [1]
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aClientThatStallsOrLeavesWhileItIsCollected() {
    play(
      .client(
        head(
          "POST http://json.example/ HTTP/1.1", "Host: json.example", "Content-Type: application/json",
          "Content-Length: 9") + "{"),
      .timeOut, policy: Self.rules,
      gives: #"""
        after 60000 ms
        < HTTP/1.1 408 stalled rule=json ref=REF001 …
        < Connection: close
        < problem: No byte of the request body moved for 60000 ms.
        end (408 stalled): client linger
        """#)
  }

  /// A byte every fifty seconds is no stall; sixty seconds and a second for each KiB is what it has.
  @Test func aBodyThatDribblesIsNotHeldForEver() {
    play(
      .client(
        head(
          "POST http://json.example/ HTTP/1.1", "Host: json.example", "Content-Type: application/json",
          "Content-Length: 9") + "{"),
      .pass(50_000), .client("}"), .timeOut, policy: Self.rules,
      gives: #"""
        after 10001 ms
        < HTTP/1.1 408 stalled rule=json ref=REF001 …
        < Connection: close
        < problem: The request body came at less than 1024 bytes a second, too slowly to be held.
        end (408 stalled): client linger
        """#)
  }

  @Test func aClientThatEndsWithinABodyThatIsCollected() {
    play(
      .client(
        head(
          "POST http://json.example/ HTTP/1.1", "Host: json.example", "Content-Type: application/json",
          "Content-Length: 9") + "{"),
      .clientEnds, policy: Self.rules,
      gives: #"""
        < HTTP/1.1 400 malformed-request rule=json ref=REF001 …
        < Connection: close
        < problem: The request ends before it is complete.
        end (400 malformed-request): client linger
        """#)
  }

  @Test func pipelinedRequestsFollowACollectedBody() {
    play(
      .client(request("POST", "json.example", "application/json", "{}") + get), .opened, .upstream(ok), .opened,
      .upstream(ok), policy: Self.rules,
      gives: #"""
        connect json.example:80
        > POST /p HTTP/1.1 to json.example …
        > Content-Type: application/json
        > Content-Length: 9
        > content: {"k":"v"}
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        connect a.example:80
        > GET /x HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }
}

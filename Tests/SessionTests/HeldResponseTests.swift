// Responses that a rule looks at: judged by their head, held for their content, rejected, annotated or let go.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct HeldResponseTests {
  static let rules = policy(
    """
    [proxy.limits]
    buffered_body = "1KiB"
    held_bodies = "1MiB"
    [[rule]]
    name = "json"
    hosts = ["a.example"]
    [rule.response]
    serializer = "json"
    [[rule]]
    name = "nulls"
    hosts = ["nulls.example"]
    [rule.response]
    serializer = "json"
    remove_nulls = true
    [[rule]]
    name = "lenient"
    hosts = ["lenient.example"]
    [rule.response]
    serializer = "json"
    on_violation = { status = "annotate", content_type = "annotate", body = "annotate" }
    [[rule]]
    name = "strict"
    hosts = ["strict.example"]
    [rule.response]
    serializer = "json"
    on_violation = { status = "reject", content_type = "reject", body = "reject" }
    oversize = "reject"
    [[rule]]
    name = "watched"
    hosts = ["watched.example"]
    enforce = false
    [rule.response]
    serializer = "json"
    on_violation = { status = "reject", content_type = "reject", body = "reject" }
    oversize = "reject"
    [[rule]]
    name = "plain"
    hosts = ["plain.example"]
    [rule.response]
    acceptable_content_types = ["text/*"]
    [[rule]]
    name = "events"
    hosts = ["events.example"]
    [rule.response]
    serializer = "json"
    acceptable_content_types = ["*/*"]
    """)

  private func get(_ host: String) -> String { head("GET http://\(host)/ HTTP/1.1", "Host: \(host)") }

  private func json(_ content: String, _ fields: String...) -> String {
    (["HTTP/1.1 200 OK", "Date: today", "Content-Type: application/json", "Content-Length: \(content.utf8.count)"]
      + fields).map { $0 + "\r\n" }.joined() + "\r\n" + content
  }

  @Test func whatIsWellFormedLeavesAsItCame() {
    play(
      .client(get("a.example")), .opened, .upstream(json("{\"a\": [1, null]}", "ETag: \"x\"", "Content-MD5: y")),
      .client(get("a.example")), .reused, .upstream(json("[]")),
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < ETag: "x"
        < Content-MD5: y
        < Content-Length: 16
        < content: {"a": [1, null]}
        end (200): client keep, upstream kept
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Content-Length: 2
        < content: []
        end (200): client keep, upstream kept
        """#)
  }

  @Test func chunksBecomeALengthAndTrailersStayTrailers() {
    let chunked = ["HTTP/1.1 200 OK", "Date: today", "Content-Type: application/json", "Transfer-Encoding: chunked"]
    play(
      .client(get("a.example")), .opened,
      .upstream(chunked.map { $0 + "\r\n" }.joined() + "\r\n3\r\n{\"a\r\n3\r\n\":1\r\n1\r\n}\r\n0\r\n\r\n"),
      .client(get("a.example")), .reused,
      .upstream(chunked.map { $0 + "\r\n" }.joined() + "\r\n2\r\n[]\r\n0\r\nX-Sum: 7\r\nConnection: close\r\n\r\n"),
      .client("GET http://a.example/ HTTP/1.0\r\nHost: a.example\r\n\r\n"), .reused,
      .upstream(chunked.map { $0 + "\r\n" }.joined() + "\r\n2\r\n[]\r\n0\r\nX-Sum: 7\r\n\r\n"),
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Content-Length: 7
        < content: {"a":1}
        end (200): client keep, upstream kept
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Transfer-Encoding: chunked
        < chunked: []
        < last chunk
        < trailer X-Sum: 7
        end (200): client keep, upstream kept
        connect a.example:80
        > GET / HTTP/1.1
        > Host: a.example
        > Via: 1.0 sallyport (7F3K2A9Q)
        >
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Content-Length: 2
        < Connection: close
        < content: []
        end (200): client close, upstream kept
        """#)
  }

  @Test func contentThatEndsWithItsConnectionGetsALength() {
    play(
      .client(get("a.example")), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Type: application/json") + "[1]"), .upstreamEnds,
      .client(get("a.example")), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Type: application/json") + "[1"), .upstreamEnds,
      .client(get("a.example")), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Type: application/json") + "[1]"), .upstreamBreaks,
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Content-Length: 3
        < content: [1]
        end (200): client keep, upstream closed
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 502 malformed-content rule=json ref=REF002
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 616
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=200; details="The
             response of http://a.example/: expected well-formed JSON, seen a fault at line 1, column
             3: expected ',' or ']' behind an element, found the end of the body."; rule="json"
        <
        < content: {"type":"urn:sallyport:problem:malformed-content","title":"The content of the
             response is malformed","status":502,"detail":"The response of http://a.example/: expected
             well-formed JSON, seen a fault at line 1, column 3: expected ',' or ']' behind an element,
             found the end of the body.","rule":"json","error":"http_protocol_error","nsurlError":-1016,
            "violations":[{"subject":"body","expected":"well-formed JSON","seen":"a fault at line 1,
             column 3: expected ',' or ']' behind an element, found the end of the
             body","nsurlError":-1016}],"upstream":{"status":200,"type":"application/json","text":"[1"},
            "ref":"REF002"}\n
        end (502 malformed-content): client keep, upstream closed
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 502 incomplete-response rule=json ref=REF003 …
        < problem: http://a.example/ closed the connection within the body of the response.
        end (502 incomplete-response): client keep, upstream closed
        """#)
  }

  @Test func malformedContentIsRejectedAndTheConnectionsGoOn() {
    play(
      .client(get("a.example")), .opened, .upstream(json("{\"a\"}")),
      .client(get("a.example")), .reused, .upstream(json("[]")),
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 502 malformed-content rule=json ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 565
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=200; details="The
             response of http://a.example/: expected well-formed JSON, seen a fault at line 1, column
             5: expected ':' behind a key, found '}'."; rule="json"
        <
        < content: {"type":"urn:sallyport:problem:malformed-content","title":"The content of the
             response is malformed","status":502,"detail":"The response of http://a.example/: expected
             well-formed JSON, seen a fault at line 1, column 5: expected ':' behind a key, found
             '}'.","rule":"json","error":"http_protocol_error","nsurlError":-1016,"violations":[{"subjec
            t":"body","expected":"well-formed JSON","seen":"a fault at line 1, column 5: expected ':'
             behind a key, found '}'","nsurlError":-1016}],"upstream":{"status":200,"type":"application/
            json","text":"{\\"a\\"}"},"ref":"REF001"}\n
        end (502 malformed-content): client keep, upstream kept
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Content-Length: 2
        < content: []
        end (200): client keep, upstream kept
        """#)
  }

  @Test func statusAndTypeAreNamedTogetherStatusFirst() {
    play(
      .client(get("a.example")), .opened,
      .upstream(
        head("HTTP/1.1 503 Busy", "Date: today", "Content-Type: text/html; charset=utf-8", "Content-Length: 3") + "<p>"),
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 502 unacceptable-status rule=json ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 679
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=503; details="The
             response of http://a.example/: expected status 200-299, seen 503; expected content type
             application/json, text/json, text/javascript, seen text/html; charset=utf-8."; rule="json"
        <
        < content: {"type":"urn:sallyport:problem:unacceptable-status","title":"The status of the
             response is not acceptable","status":502,"detail":"The response of http://a.example/:
             expected status 200-299, seen 503; expected content type application/json, text/json,
             text/javascript, seen text/html; charset=utf-8.","rule":"json","error":"http_protocol_error
            ","nsurlError":-1011,"violations":[{"subject":"status","expected":"200-299","seen":"503","ns
            urlError":-1011},{"subject":"content_type","expected":"application/json, text/json,
             text/javascript","seen":"text/html; charset=utf-8","nsurlError":-1016}],"upstream":{"status
            ":503,"type":"text/html; charset=utf-8","text":"<p>"},"ref":"REF001"}\n
        end (502 unacceptable-status): client keep, upstream kept
        """#)
  }

  @Test func whatIsAnnotatedPassesAsItCame() {
    play(
      .client(get("lenient.example")), .opened,
      .upstream(
        head(
          "HTTP/1.1 404 Not Found", "Date: today", "Content-Type: text/html", "Content-Length: 3",
          "Proxy-Status: cdn; received-status=404") + "<p>"),
      .client(get("lenient.example")), .reused,
      .upstream(head("HTTP/1.1 404 Not Found", "Date: today", "Content-Type: text/html", "Content-Length: 2") + "[]"),
      .client(get("watched.example")), .opened,
      .upstream(head("HTTP/1.1 404 Not Found", "Date: today", "Content-Length: 3") + "<p>"),
      policy: Self.rules,
      gives: #"""
        connect lenient.example:80
        > GET / HTTP/1.1 to lenient.example …
        < HTTP/1.1 404 Not Found …
        < Content-Type: text/html
        < Proxy-Status: cdn; received-status=404
        < Content-Length: 3
        < Proxy-Status: sallyport; error=http_protocol_error; details="expected status 200-299, seen
             404; expected content type application/json, text/json, text/javascript, seen text/html;
             expected well-formed JSON, seen a fault at line 1, column 1: expected a value, found '<'";
             rule="lenient"
        < content: <p>
        end (404): client keep, upstream kept
        connect lenient.example:80
        > GET / HTTP/1.1 to lenient.example …
        < HTTP/1.1 404 Not Found …
        < Content-Type: text/html
        < Content-Length: 2
        < Proxy-Status: sallyport; error=http_protocol_error; details="expected status 200-299, seen
             404; expected content type application/json, text/json, text/javascript, seen text/html";
             rule="lenient"
        < content: []
        end (404): client keep, upstream kept
        connect watched.example:80
        > GET / HTTP/1.1 to watched.example …
        < HTTP/1.1 404 Not Found …
        < Content-Length: 3
        < Proxy-Status: sallyport; error=http_protocol_error; details="expected status 200-299, seen
             404; expected content type application/json, text/json, text/javascript, seen none;
             expected well-formed JSON, seen a fault at line 1, column 1: expected a value, found '<'";
             rule="watched"
        < content: <p>
        end (404): client keep, upstream kept
        """#)
  }

  @Test func withoutContentStatusAndTypeAloneAreLookedAt() {
    play(
      .client(head("HEAD http://a.example/ HTTP/1.1", "Host: a.example")), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Type: application/json", "Content-Length: 9")),
      .client(head("HEAD http://a.example/ HTTP/1.1", "Host: a.example")), .reused,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Type: text/html", "Content-Length: 9")),
      .client(get("a.example")), .opened, .upstream(head("HTTP/1.1 204 No Content", "Date: today")),
      .client(get("a.example")), .reused, .upstream(head("HTTP/1.1 304 Not Modified", "Date: today")),
      .client(get("a.example")), .reused, .upstream(head("HTTP/1.1 201 Created", "Date: today", "Content-Length: 0")),
      .client(get("a.example")), .reused,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Type: text/html", "Content-Length: 0")),
      .client(get("a.example")), .opened, .upstream(json(" ")),
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > HEAD / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Content-Length: 9
        end (200): client keep, upstream kept
        connect a.example:80
        > HEAD / HTTP/1.1 …
        < HTTP/1.1 502 unacceptable-content-type rule=json ref=REF002
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 536
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=200; details="The
             response of http://a.example/: expected content type application/json, text/json,
             text/javascript, seen text/html."; rule="json"
        <
        end (502 unacceptable-content-type): client keep, upstream kept
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 204 No Content …
        end (204): client keep, upstream kept
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 304 Not Modified …
        end (304): client keep, upstream kept
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 201 Created …
        < Content-Length: 0
        end (201): client keep, upstream kept
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 502 unacceptable-content-type rule=json ref=REF006
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 536
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=200; details="The
             response of http://a.example/: expected content type application/json, text/json,
             text/javascript, seen text/html."; rule="json"
        <
        < content: {"type":"urn:sallyport:problem:unacceptable-content-type","title":"The content type
             of the response is not acceptable","status":502,"detail":"The response of
             http://a.example/: expected content type application/json, text/json, text/javascript,
             seen text/html.","rule":"json","error":"http_protocol_error","nsurlError":-1016,"violations
            ":[{"subject":"content_type","expected":"application/json, text/json,
             text/javascript","seen":"text/html","nsurlError":-1016}],"upstream":{"status":200,"type":"t
            ext/html","text":null},"ref":"REF006"}\n
        end (502 unacceptable-content-type): client keep, upstream kept
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Content-Length: 1
        < content:  
        end (200): client keep, upstream kept
        """#)
  }

  @Test func nullsAreRemovedAndWhatSpokeOfThemToo() {
    play(
      .client(get("nulls.example")), .opened,
      .upstream(
        json(
          "{\"a\": null, \"b\": 1.50, \"c\": [null, {\"d\": null}]}", "ETag: \"x\"", "Content-MD5: y",
          "Repr-Digest: sha-256=:z:", "Accept-Ranges: bytes")),
      .client(get("nulls.example")), .reused, .upstream(json("{\"a\": \"null\"}", "ETag: \"x\"")),
      .client(get("nulls.example")), .reused, .upstream(json("[null", "ETag: W/\"x\"")),
      policy: Self.rules,
      gives: #"""
        connect nulls.example:80
        > GET / HTTP/1.1 to nulls.example …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < ETag: W/"x"
        < Content-Length: 24
        < content: { "b": 1.50, "c": [ {}]}
        end (200): client keep, upstream kept
        connect nulls.example:80
        > GET / HTTP/1.1 to nulls.example …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < ETag: "x"
        < Content-Length: 13
        < content: {"a": "null"}
        end (200): client keep, upstream kept
        connect nulls.example:80
        > GET / HTTP/1.1 to nulls.example …
        < HTTP/1.1 502 malformed-content rule=nulls ref=REF003
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 624
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_protocol_error; received-status=200; details="The
             response of http://nulls.example/: expected well-formed JSON, seen a fault at line 1,
             column 6: expected ',' or ']' behind an element, found the end of the body."; rule="nulls"
        <
        < content: {"type":"urn:sallyport:problem:malformed-content","title":"The content of the
             response is malformed","status":502,"detail":"The response of http://nulls.example/:
             expected well-formed JSON, seen a fault at line 1, column 6: expected ',' or ']' behind an
             element, found the end of the body.","rule":"nulls","error":"http_protocol_error","nsurlErr
            or":-1016,"violations":[{"subject":"body","expected":"well-formed JSON","seen":"a fault at
             line 1, column 6: expected ',' or ']' behind an element, found the end of the
             body","nsurlError":-1016}],"upstream":{"status":200,"type":"application/json","text":"[null
            "},"ref":"REF003"}\n
        end (502 malformed-content): client keep, upstream kept
        """#)
  }

  @Test func whatIsLongerThanMayBeHeldPassesUncheckedOrIsRefused() {
    let long = String(repeating: "1", count: 1025)
    let chunk = "200\r\n" + String(repeating: "2", count: 512) + "\r\n"
    let chunked = head(
      "HTTP/1.1 200 OK", "Date: today", "Content-Type: application/json", "Transfer-Encoding: chunked")
    play(
      .client(get("a.example")), .opened, .upstream(json(long)),
      .client(get("a.example")), .reused, .upstream(chunked + chunk + chunk + "3\r\nabc\r\n0\r\n\r\n"),
      .client(get("strict.example")), .opened, .upstream(json(long)),
      .client(get("strict.example")), .opened, .upstream(chunked + chunk + chunk + "3\r\nabc\r\n0\r\n\r\n"),
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Content-Length: 1025
        < Proxy-Status: sallyport; error=http_response_body_size; details="expected content of at most
             1024 bytes, seen 1025 bytes"; rule="json"
        < content: 1111111111111111111111111111111111111111111111111111111111111111111111111111111111111
            11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111
            11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111
            11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111
            11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111
            11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111
            11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111
            11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111
            11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111
            11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111
            11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111
            11111111111111111111
        end (200): client keep, upstream kept
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Transfer-Encoding: chunked
        < Proxy-Status: sallyport; error=http_response_body_size; details="expected content of at most
             1024 bytes, seen more"; rule="json"
        < chunked: 2222222222222222222222222222222222222222222222222222222222222222222222222222222222222
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
            2222222222222222222abc
        < last chunk
        end (200): client keep, upstream kept
        connect strict.example:80
        > GET / HTTP/1.1 to strict.example …
        < HTTP/1.1 502 response-body-too-large rule=strict ref=REF003
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 507
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_response_body_size; received-status=200; details="The
             response of http://strict.example/: expected content of at most 1024 bytes, seen 1025
             bytes."; rule="strict"
        <
        < content: {"type":"urn:sallyport:problem:response-body-too-large","title":"The content of the
             response is too large to be checked","status":502,"detail":"The response of
             http://strict.example/: expected content of at most 1024 bytes, seen 1025
             bytes.","rule":"strict","error":"http_response_body_size","nsurlError":-1103,"violations":[
            {"subject":"size","expected":"content of at most 1024 bytes","seen":"1025
             bytes","nsurlError":-1103}],"upstream":{"status":200,"type":"application/json","text":null}
            ,"ref":"REF003"}\n
        end (502 response-body-too-large): client keep, upstream closed
        connect strict.example:80
        > GET / HTTP/1.1 to strict.example …
        < HTTP/1.1 502 response-body-too-large rule=strict ref=REF004
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 1517
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_response_body_size; received-status=200; details="The
             response of http://strict.example/: expected content of at most 1024 bytes, seen more.";
             rule="strict"
        <
        < content: {"type":"urn:sallyport:problem:response-body-too-large","title":"The content of the
             response is too large to be checked","status":502,"detail":"The response of
             http://strict.example/: expected content of at most 1024 bytes, seen
             more.","rule":"strict","error":"http_response_body_size","nsurlError":-1103,"violations":[{
            "subject":"size","expected":"content of at most 1024
             bytes","seen":"more","nsurlError":-1103}],"upstream":{"status":200,"type":"application/json
            ","text":"2222222222222222222222222222222222222222222222222222222222222222222222222222222222
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
            2222222222222222222222"},"ref":"REF004"}\n
        end (502 response-body-too-large): client keep, upstream closed
        """#)
  }

  @Test func eventStreamsAreNeverHeld() {
    play(
      .client(get("events.example")), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Type: text/event-stream") + "data: 1\n\n"),
      .upstream("data: 2\n\n"), .upstreamEnds,
      .client(get("a.example")),
      policy: Self.rules,
      gives: #"""
        connect events.example:80
        > GET / HTTP/1.1 to events.example …
        < HTTP/1.1 200 OK …
        < Content-Type: text/event-stream
        < Proxy-Status: sallyport; error=http_response_body_size; details="expected content that ends,
             to be checked, seen an event stream"; rule="events"
        < Connection: close
        < content: data: 1\n\ndata: 2\n\n
        end (200): client close, upstream closed
        """#)
  }

  @Test func anOriginThatBreaksOffOrStallsIsAnsweredFor() {
    let begun = head("HTTP/1.1 200 OK", "Date: today", "Content-Type: application/json", "Content-Length: 9") + "[1,"
    play(
      .client(get("a.example")), .opened, .upstream(begun), .upstreamEnds,
      .client(get("a.example")), .opened, .upstream(begun), .timeOut,
      .client(get("a.example")), .opened, .upstream(begun), .clientBreaks,
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 502 incomplete-response rule=json ref=REF001 …
        < problem: http://a.example/ closed the connection within the body of the response.
        end (502 incomplete-response): client keep, upstream closed
        connect a.example:80
        > GET / HTTP/1.1 …
        after 60000 ms
        < HTTP/1.1 504 response-timeout rule=json ref=REF002 …
        < problem: http://a.example/ sent no byte of the response body for 60000 ms.
        end (504 response-timeout): client keep, upstream closed
        connect a.example:80
        > GET / HTTP/1.1 …
        end (0 client-left): client abort, upstream closed
        """#)
  }

  @Test func aContentCodingIsTakenOffToLook() {
    let unknown = head(
      "HTTP/1.1 200 OK", "Date: today", "Content-Type: application/json", "Content-Encoding: compress",
      "Content-Length: 2")
    let damaged = head(
      "HTTP/1.1 200 OK", "Date: today", "Content-Type: application/json", "Content-Encoding: gzip",
      "Content-Length: 4")
    play(
      .client(get("a.example")), .opened, .upstream(unknown + "[]"),
      .client(get("a.example")), .opened, .upstream(damaged + "\u{1f}abc"),
      .client(get("lenient.example")), .opened, .upstream(damaged + "\u{1f}abc"),
      policy: Self.rules,
      gives: #"""
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 502 undecodable-content rule=json ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 538
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_response_content_coding; received-status=200;
             details="The response of http://a.example/: expected a Content-Encoding of gzip, deflate,
             br or zstd, seen 'compress'."; rule="json"
        <
        < content: {"type":"urn:sallyport:problem:undecodable-content","title":"The content of the
             response cannot be decoded","status":502,"detail":"The response of http://a.example/:
             expected a Content-Encoding of gzip, deflate, br or zstd, seen
             'compress'.","rule":"json","error":"http_response_content_coding","nsurlError":-1016,"viola
            tions":[{"subject":"content_coding","expected":"a Content-Encoding of gzip, deflate, br or
             zstd","seen":"'compress'","nsurlError":-1016}],"upstream":{"status":200,"type":"application
            /json","text":null},"ref":"REF001"}\n
        end (502 undecodable-content): client keep, upstream closed
        connect a.example:80
        > GET / HTTP/1.1 …
        < HTTP/1.1 502 undecodable-content rule=json ref=REF002
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 656
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=http_response_content_coding; received-status=200;
             details="The response of http://a.example/: expected content in its Content-Encoding, seen
             a fault at byte 1: expected gzip data, which begins with 1f 8b 08, found 61 as byte 2.";
             rule="json"
        <
        < content: {"type":"urn:sallyport:problem:undecodable-content","title":"The content of the
             response cannot be decoded","status":502,"detail":"The response of http://a.example/:
             expected content in its Content-Encoding, seen a fault at byte 1: expected gzip data,
             which begins with 1f 8b 08, found 61 as byte
             2.","rule":"json","error":"http_response_content_coding","nsurlError":-1016,"violations":[{
            "subject":"content_coding","expected":"content in its Content-Encoding","seen":"a fault at
             byte 1: expected gzip data, which begins with 1f 8b 08, found 61 as byte
             2","nsurlError":-1016}],"upstream":{"status":200,"type":"application/json","text":null},"re
            f":"REF002"}\n
        end (502 undecodable-content): client keep, upstream closed
        connect lenient.example:80
        > GET / HTTP/1.1 to lenient.example …
        < HTTP/1.1 200 OK …
        < Content-Type: application/json
        < Content-Encoding: gzip
        < Content-Length: 4
        < Proxy-Status: sallyport; error=http_response_content_coding; details="expected content in its
             Content-Encoding, seen a fault at byte 1: expected gzip data, which begins with 1f 8b 08,
             found 61 as byte 2"; rule="lenient"
        < content: \x1fabc
        end (200): client keep, upstream kept
        """#)
  }

  @Test func aSerializerThatLooksAtNothingHoldsNothing() {
    play(
      .client(get("plain.example")), .opened,
      .upstream(head("HTTP/1.1 200 OK", "Date: today", "Content-Type: text/html", "Content-Length: 4") + "<p"),
      .upstream(">."),
      policy: Self.rules,
      gives: #"""
        connect plain.example:80
        > GET / HTTP/1.1 to plain.example …
        < HTTP/1.1 200 OK …
        < Content-Type: text/html
        < Content-Length: 4
        < content: <p>.
        end (200): client keep, upstream kept
        """#)
  }
}

// How much can be told of a head that is refused: its method, and its target.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

@Suite struct UnderstoodTests {
  private static func understood(_ text: String, _ head: inout RequestHead) -> Understood {
    let bytes = octets(text)
    _ = head.read(bytes.span, limits: usualLimits)
    return head.understood
  }

  @Test(arguments: [
    ("", Understood.nothing), ("GE", .nothing), ("G(T http://a/ HTTP/1.1\r\n", .nothing), ("GET ", .method),
    ("GET /x HTTP/1.1\r\n", .method), ("GET http://u@a/ HTTP/1.1\r\n", .method),
    ("GET http://a/ HTTP/2.0\r\n", .method),
    ("GET http://a/#f HTTP/1.1\r\n", .method), ("GET http://a/ HTTP/1.1\r\nX : y\r\n", .target),
    ("GET http://a/ HTTP/1.1\r\n\r\n", .target), ("CONNECT a:1 HTTP/1.1\r\n\r\n", .target),
    ("CONNECT a HTTP/1.1\r\n\r\n", .method), ("GET ftp://a/ HTTP/1.1\r\n\r\n", .method),
  ]) func aHeadIsUnderstoodAsFarAsItIsRight(text: String, expected: Understood) {
    var head = RequestHead()
    #expect(Self.understood(text, &head) == expected)
  }

  /// The same value reads one head after another: nothing of the one before may be told of the next.
  @Test func nothingOfTheHeadBeforeIsUnderstood() {
    var head = RequestHead()
    #expect(Self.understood("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", &head) == .target)
    #expect(Self.understood("\u{0}", &head) == .nothing)
    #expect(Self.understood("HEAD http://b/ HTTP/1.1\r\nX : y\r\n", &head) == .target)
    #expect(Self.understood("POST /", &head) == .method)
    #expect(head.knownMethod == .post)
  }
}

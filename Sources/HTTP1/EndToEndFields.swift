// Fields that Connection must not name (RFC 9110, 7.6.1: "intended for all recipients of the content").
//
// A field that Connection names ends at this hop. If the proxy used that field for a decision, for framing or for
// decoding, the receiver would get a different message from the one that was checked. For example, an answer would lose
// the Content-Type that a rule accepted, a body that was decoded for a check would lose its Content-Encoding, and a
// part of a range would look like the whole. So naming one of these fields is malformed, in requests and in responses.
// Fields that are not in this list may be named, as the RFC allows. Of the fields about the connection itself, `TE` is
// correct in requests (RFC 9110, 10.1.4) and means nothing in responses.
//
// Proxy-Connection is not a field of the RFC. Only its `close` and `keep-alive` are honoured, and nothing that it names
// is dropped. Tests: ConnectionOptionsTests.

import Bytes

enum EndToEndFields {
  /// Whether Connection must not name `name`.
  static func contains(_ bytes: Span<UInt8>, _ name: Range<Int>, isResponse: Bool) -> Bool {
    // The usual values of Connection, checked first.
    if bytes.equals(name, ignoringCase: "close") || bytes.equals(name, ignoringCase: "keep-alive") { return false }
    for field in all where bytes.equals(name, ignoringCase: field) { return true }
    return isResponse && bytes.equals(name, ignoringCase: "te")
  }

  /// In lower case.
  private static let all: [StaticString] = [
    // Framing and routing. Without them the message would be a different one, or go elsewhere.
    "host", "content-length", "transfer-encoding", "trailer", "max-forwards", "expect",
    // How the content is to be read: types, codings, parts, digests. Rules judge answers by them.
    "content-type", "content-encoding", "content-range", "content-language", "content-location",
    "content-disposition", "content-md5", "content-digest", "repr-digest", "digest",
    // Who is asking, and what a server tells the client to keep. Rules set and remove them.
    "authorization", "authentication-info", "www-authenticate", "cookie", "set-cookie", "origin", "referer",
    "user-agent",
    // What is requested.
    "accept", "accept-charset", "accept-encoding", "accept-language", "range", "if-range", "if-match", "if-none-match",
    "if-modified-since", "if-unmodified-since",
    // Where the client goes next, and how long an answer is valid: caches after the proxy would store what they must
    // not.
    "location", "refresh", "retry-after", "allow", "accept-ranges", "etag", "last-modified", "date", "age", "expires",
    "cache-control", "pragma", "vary", "warning", "strict-transport-security", "content-security-policy",
  ]
}

// Fields that Connection must not name (RFC 9110, 7.6.1: "intended for all recipients of the content").
//
// A field that Connection names ends at this hop. Had it been judged, framed or decided by before, what arrives would be
// another message than the one that was checked: an answer whose Content-Type a rule has accepted arrives without it, a body
// that was decoded to be checked arrives without its Content-Encoding, a part of a range as the whole. Naming one of these is
// malformed, in requests and in responses. Fields that nobody listed may be named, as the RFC says; of the fields of the
// connection itself `TE` is right in requests (RFC 9110, 10.1.4), and means nothing in responses.
//
// Proxy-Connection is no field of the RFC: only `close` and `keep-alive` are heeded of it, and nothing that it names is dropped.
// Tests: ConnectionOptionsTests.

import Bytes

enum EndToEndFields {
  /// Whether `name` may not be named by Connection.
  static func contains(_ bytes: Span<UInt8>, _ name: Range<Int>, isResponse: Bool) -> Bool {
    // What nearly every Connection says, at once.
    if bytes.equals(name, ignoringCase: "close") || bytes.equals(name, ignoringCase: "keep-alive") { return false }
    for field in all where bytes.equals(name, ignoringCase: field) { return true }
    return isResponse && bytes.equals(name, ignoringCase: "te")
  }

  /// In lower case.
  private static let all: [StaticString] = [
    // What frames and routes a message: without it another message would follow, or go elsewhere.
    "host", "content-length", "transfer-encoding", "trailer", "max-forwards", "expect",
    // What says how content is read: types, codings, parts, digests. Rules judge answers by them.
    "content-type", "content-encoding", "content-range", "content-language", "content-location",
    "content-disposition", "content-md5", "content-digest", "repr-digest", "digest",
    // Who asks, and what a server tells the client to keep. Rules set and remove them.
    "authorization", "authentication-info", "www-authenticate", "cookie", "set-cookie", "origin", "referer",
    "user-agent",
    // What is asked for.
    "accept", "accept-charset", "accept-encoding", "accept-language", "range", "if-range", "if-match", "if-none-match",
    "if-modified-since", "if-unmodified-since",
    // Where the client goes next, and for how long an answer holds: caches behind the proxy would keep what is none of theirs.
    "location", "refresh", "retry-after", "allow", "accept-ranges", "etag", "last-modified", "date", "age", "expires",
    "cache-control", "pragma", "vary", "warning", "strict-transport-security", "content-security-policy",
  ]
}

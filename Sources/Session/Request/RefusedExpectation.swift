// 417 in response to Expect: 100-continue, before any of the body has arrived (RFC 9110, 10.1.1 and 15.5.18). A client
// such as curl then sends its request again, without Expect and on the same connection, and the body never comes. To
// keep the connection, the proxy treats the request as over.
//
// A client that began its body at the same moment has sent bytes that would be read as a request, and a third party may
// have chosen that body. So only the refused request may follow, with exactly the same method and target; anything else
// gets 400 and the connection is closed. Tests: OddResponseTests.

import Bytes
import HTTP1

enum RefusedExpectation {
  /// 417 Expectation Failed.
  static let status = 417

  /// Whether the client holds back the body of the request.
  static func isHeldBack(_ head: borrowing RequestHead, _ bytes: Span<UInt8>) -> Bool {
    guard head.minorVersion == 1, let value = head.fields.first(.expect) else { return false }
    return bytes.equals(value, ignoringCase: "100-continue")
  }

  /// The problem with a request that follows a refused expectation and is not `awaited`; empty: any may follow.
  static func problem(
    of head: borrowing RequestHead, _ bytes: Span<UInt8>, after awaited: [UInt8]
  ) -> Problem? {
    if awaited.isEmpty || awaited == head.methodAndTarget(bytes) { return nil }
    return Problem(
      .malformedRequest,
      "After 417, on the same connection, the proxy expects the same method and target again, and saw others: "
        + "they may be the body of the request before. Send other requests on a new connection.")
  }
}

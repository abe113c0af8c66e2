// 417 in response to Expect: 100-continue, before any of the body has arrived (RFC 9110, 10.1.1 and 15.5.18). A client
// such as curl then sends its request again, without Expect and on the same connection, and the body never comes. To
// keep the connection, the proxy treats the request as over.
//
// A client that began its body at the same moment has sent bytes that would be read as a request, and a third party may
// have chosen that body. So only the refused request may follow, with exactly the same method and target; anything else
// gets 400 and the connection is closed. Tests: OddResponseTests.

import Bytes
import HTTP1

extension Exchange {
  /// 417 Expectation Failed.
  private static let expectationFailed = 417

  /// Remembers the request of a client that holds back its body.
  mutating func noteExpectation(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) {
    guard request.progress != .done, workspace.request.minorVersion == 1,
      let value = workspace.request.fields.first(.expect),
      bytes.equals(value, ignoringCase: "100-continue")
    else { return }
    request.traits.insert(.expectsContinue)
    request.expectation = workspace.request.methodAndTarget(bytes)
  }

  /// Whether the response is a refusal that ends the request before its body has begun. If so, the request is over.
  mutating func refusesExpectation(_ status: Int) -> Bool {
    guard status == Self.expectationFailed, request.traits.contains(.expectsContinue),
      !request.traits.contains(.bodyBegun),
      client.terms.contains(.persists), response.informational.isUntouched, isBodyOut
    else { return false }
    request.progress = .done
    // The upstream still waits for the body.
    upstream.carrier.remove(.persists)
    client.terms.insert(.awaitsRepeat)
    return true
  }

  /// The only request that may follow on the connection, as `requestLine` writes it; empty: any may.
  var awaitedRepeat: [UInt8] {
    client.terms.contains(.awaitsRepeat) && client.terms.contains(.persists) ? request.expectation : []
  }

  /// The problem with a request that follows a refused expectation and is not `awaited`.
  static func unawaited(_ bytes: Span<UInt8>, by awaited: [UInt8], _ workspace: borrowing Workspace) -> Problem? {
    if awaited.isEmpty || awaited == workspace.request.methodAndTarget(bytes) { return nil }
    return Problem(
      .malformedRequest,
      "After 417, on the same connection, the proxy expects the same method and target again, and saw others: "
        + "they may be the body of the request before. Send other requests on a new connection.")
  }
}

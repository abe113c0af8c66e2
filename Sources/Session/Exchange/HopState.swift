// What an exchange has to remember of the two hops of its client and its upstream once the bytes that said so are gone.

struct HopState: Sendable {
  /// What 1xx responses may still cost.
  var informational = InformationalAllowance()
  /// What Connection of the request and of the response named: such fields end at this hop among the trailers too.
  var namedInRequest: [UInt8] = []
  var namedInResponse: [UInt8] = []
  /// Method and target of a request whose body is waited for; kept after 417, since only this request may come again.
  var expectation: [UInt8] = []
}

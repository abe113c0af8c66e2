// One request and its tries to authenticate by Digest: with the nonce that is remembered, with the answer to a challenge, and
// once more where that was stale. No more: a password that is wrong is not tried until an account is locked.
// Tests: DigestAttemptsTests.

/// The tries of one request at one server or parent.
public struct DigestAttempts: Sendable {
  private enum Sent: Sendable {
    case bare
    /// With a nonce of an earlier request.
    case remembered
    /// With the answer to a challenge of this one.
    case answered
    /// The same, after the first answer was stale.
    case answeredAgain
  }

  public let credentials: DigestCredentials
  public let place: NonceMemory.Place
  private var sent = Sent.bare

  public init(_ credentials: DigestCredentials, for place: NonceMemory.Place) {
    self.credentials = credentials
    self.place = place
  }

  /// Whether the request has left with credentials.
  public var hasAnswered: Bool { sent != .bare }

  /// The value of the field that authenticates the request, a secret; nil where no nonce is known.
  public mutating func answer(method: [UInt8], target: [UInt8], _ nonces: inout NonceMemory) -> [UInt8]? {
    guard let answer = nonces.answer(for: place, method: method, target: target, credentials) else { return nil }
    if sent == .bare { sent = .remembered }
    return answer
  }

  /// A challenge came back. nil: it is remembered, and the request is to be sent again; else what became of the credentials, in
  /// words: "were refused", "were not sent: …".
  public mutating func challenged(by lines: [[UInt8]], _ nonces: inout NonceMemory) -> String? {
    switch DigestChallenge.choose(lines) {
    case .failure(let fault):
      nonces.forget(place)
      return "were not sent: \(fault.text)"
    case .success(let challenge):
      let isAnswered = sent == .answered || sent == .answeredAgain
      guard !isAnswered || challenge.isStale && sent == .answered else {
        // Sent at once they would count as another try of a wrong password with every request.
        nonces.forget(place)
        return "were refused"
      }
      nonces.remember(challenge, for: place)
      sent = isAnswered ? .answeredAgain : .answered
      return nil
    }
  }
}

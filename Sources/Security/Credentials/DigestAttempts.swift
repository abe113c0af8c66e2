// The Digest attempts of one request: with the remembered nonce, with the answer to a challenge, and once more if that
// was stale. There are no others: a wrong password must not be tried until an account is locked.
// Tests: DigestAttemptsTests.

/// The attempts of one request at one server or parent.
public struct DigestAttempts: Sendable {
  private enum Sent: Sendable {
    case bare
    /// With a nonce from an earlier request.
    case remembered
    /// With the answer to a challenge of this request.
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

  /// Whether the request has been sent with credentials.
  public var hasAnswered: Bool { sent != .bare }

  /// The value of the field that authenticates the request, a secret; nil if no nonce is known.
  public mutating func answer(method: [UInt8], target: [UInt8], _ nonces: inout NonceMemory) -> [UInt8]? {
    guard let answer = nonces.answer(for: place, method: method, target: target, credentials) else { return nil }
    if sent == .bare { sent = .remembered }
    return answer
  }

  /// Handles a challenge. nil: it is remembered, and the request must be sent again. Otherwise the fate of the
  /// credentials in words: "were refused", "were not sent: …".
  public mutating func challenged(by lines: [[UInt8]], _ nonces: inout NonceMemory) -> String? {
    switch DigestChallenge.choose(lines) {
    case .failure(let fault):
      nonces.forget(place)
      return "were not sent: \(fault.text)"
    case .success(let challenge):
      let isAnswered = sent == .answered || sent == .answeredAgain
      guard !isAnswered || challenge.isStale && sent == .answered else {
        // With the nonce, every later request would send the wrong password again, and each would count as an attempt.
        nonces.forget(place)
        return "were refused"
      }
      nonces.remember(challenge, for: place)
      sent = isAnswered ? .answeredAgain : .answered
      return nil
    }
  }
}

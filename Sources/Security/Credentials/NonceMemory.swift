// The nonces from servers and parents, so that later requests authenticate at once. One memory per loop.
// Tests: NonceMemoryTests.

import Bytes

/// Nonces by the owner of the credentials and their destination.
public struct NonceMemory: Sendable {
  /// What a nonce belongs to. A nonce is never sent to another host or for another rule.
  public struct Place: Hashable, Sendable {
    /// The name of the rule or route that has the credentials; nil: the defaults.
    public let keeper: String?
    public let isParent: Bool
    public let isSecure: Bool
    public let host: [UInt8]
    public let port: UInt16

    public init(keeper: String?, isParent: Bool = false, isSecure: Bool, host: [UInt8], port: UInt16) {
      self.keeper = keeper
      self.isParent = isParent
      self.isSecure = isSecure
      self.host = host
      self.port = port
    }
  }

  /// The most places that are remembered: more origins than one policy gives digest credentials to. A forgotten place
  /// costs its next request one more challenge.
  public static let mostPlaces = 256
  /// Random bytes of a client nonce: as many as an MD5 hash has.
  static let clientNonceBytes = 16

  private struct Entry {
    var nonce: DigestNonce
    var used: UInt64
  }

  private var entries: [Place: Entry] = [:]
  private var clock: UInt64 = 0
  /// The source of randomness: the system, except in tests.
  public var chance: @Sendable () -> UInt64 = { UInt64.random(in: .min ... .max) }

  public init() {}

  public var count: Int { entries.count }

  public func knows(_ place: Place) -> Bool { entries[place]?.nonce.isUsable ?? false }

  public mutating func remember(_ challenge: DigestChallenge, for place: Place) {
    if entries[place] == nil, entries.count >= Self.mostPlaces,
      let oldest = entries.min(by: { $0.value.used < $1.value.used })
    {
      entries[oldest.key] = nil
    }
    clock += 1
    entries[place] = Entry(nonce: DigestNonce(challenge), used: clock)
  }

  public mutating func forget(_ place: Place) { entries[place] = nil }

  /// The server's next nonce. One that is too long is ignored.
  public mutating func take(next nonce: [UInt8], for place: Place) {
    guard !nonce.isEmpty, nonce.count <= DigestChallenge.longestValue else { return }
    entries[place]?.nonce.replace(with: nonce)
  }

  /// The credentials for a request, as `DigestNonce.answer` makes them; nil if no nonce is known.
  public mutating func answer(
    for place: Place, method: [UInt8], target: [UInt8], _ credentials: DigestCredentials
  ) -> [UInt8]? {
    guard knows(place), var entry = entries[place] else { return nil }
    clock += 1
    entry.used = clock
    let answer = entry.nonce.answer(method: method, target: target, credentials, clientNonce: clientNonce())
    entries[place] = entry
    return answer
  }

  private func clientNonce() -> [UInt8] {
    var bytes: [UInt8] = []
    while bytes.count < Self.clientNonceBytes {
      let number = chance()
      for shift in stride(from: 0, to: 64, by: 8) { bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(shift))) }
    }
    return Base64.encode(bytes)
  }
}

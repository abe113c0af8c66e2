// The nonces that servers and parents gave, so that a request is authenticated at once. One a loop. Tests: NonceMemoryTests.

/// Nonces by who holds the credentials and where they go.
public struct NonceMemory: Sendable {
  /// What a nonce belongs to: nothing of one host or rule is ever shown to another.
  public struct Place: Hashable, Sendable {
    /// Name of the rule or route whose credentials they are; nil: those of the defaults.
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

  /// Places that are remembered: more origins than one policy gives digest credentials to. A place that is forgotten costs its
  /// next request one challenge.
  public static let mostPlaces = 256
  /// Bytes of chance in a client's nonce: as many as MD5 has.
  static let clientNonceBytes = 16

  private struct Entry {
    var nonce: DigestNonce
    var used: UInt64
  }

  private var entries: [Place: Entry] = [:]
  private var clock: UInt64 = 0
  /// Where chance comes from: the system, but in tests.
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

  /// The server names the nonce that follows. One that is too long is no nonce.
  public mutating func take(next nonce: [UInt8], for place: Place) {
    guard !nonce.isEmpty, nonce.count <= DigestChallenge.longestValue else { return }
    entries[place]?.nonce.replace(with: nonce)
  }

  /// The credentials for a request, as `DigestNonce.answer` makes them; nil where no nonce is known.
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
    return Array(Base64.encode(bytes).utf8)
  }
}

// How many 1xx responses an exchange may see (RFC 9110, 15.2). Any number, since 102 and 103 may come for as long as a
// server works, but no more at once, and in the long run no faster, than is cheap. Tests: InformationalAllowanceTests.

/// Bytes that 1xx responses may still cost.
struct InformationalAllowance: Sendable {
  /// The cost of one beside its own bytes: reading and writing it costs about as much as a hundred bytes.
  static let bytesOfEach = 128
  /// Bytes that are returned each second: two dozen small responses, while a server that shows progress sends one.
  static let bytesPerSecond: Int64 = 4 << 10

  /// Bytes that have been spent and not returned.
  private var spent = 0
  private var countedAt: Int64 = 0
  /// Whether none has come.
  private(set) var isUntouched = true

  /// Spends the cost of a response of `count` bytes; `burst`: how much may be spent at once. false: it is too much.
  mutating func take(_ count: Int, now: Int64, burst: Int) -> Bool {
    if !isUntouched {
      let returned = max(0, now - countedAt) * Self.bytesPerSecond / 1000
      // Time worth less than a byte is not lost.
      if returned > 0 { countedAt = now }
      spent = max(0, spent - Int(returned))
    } else {
      countedAt = now
    }
    isUntouched = false
    spent += count + Self.bytesOfEach
    return spent <= burst
  }
}

// How much of 1xx an exchange may see (RFC 9110, 15.2): any number, since 102 and 103 may come for as long as a server works,
// but no more at once, and in the long run no faster, than costs nothing. Tests: InformationalAllowanceTests.

/// Bytes that 1xx responses may still cost.
struct InformationalAllowance: Sendable {
  /// What one is counted as beside its own bytes: reading and writing it, about what a hundred bytes cost.
  static let bytesOfEach = 128
  /// Bytes that are given back each second: two dozen small responses, where a server that shows progress sends one.
  static let bytesPerSecond: Int64 = 4 << 10

  /// Bytes that have been spent and not been given back.
  private var spent = 0
  private var countedAt: Int64 = 0
  /// Whether none has come.
  private(set) var isUntouched = true

  /// Spends what a response of so many bytes costs; `burst`: how much may be spent at once. false: it is too much.
  mutating func take(_ count: Int, now: Int64, burst: Int) -> Bool {
    if !isUntouched {
      let returned = max(0, now - countedAt) * Self.bytesPerSecond / 1000
      // Less than a byte's time is not lost.
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

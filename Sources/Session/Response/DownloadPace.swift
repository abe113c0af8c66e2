// `throttle.download`: so many bytes a second, without drift. What has left moves a due time on by bytes through rate, to the
// last fraction; who comes late to send has that much more to send, up to a bound. Time is handed in.
// Tests: DownloadPaceTests.

/// The pace of what one exchange or tunnel sends to its client.
struct DownloadPace {
  /// How long a pause is at least, in milliseconds: twenty a second are smooth, and far from what timers cost.
  static let stepMilliseconds: Int64 = 50
  /// Fewest bytes that are worth a system call and the head of a packet: of a slow pace pauses last until so many are due.
  static let leastBytes: Int64 = 1 << 10
  /// Steps whose bytes may leave at once where nothing left for a while: they make up for a loop that was busy, or an origin
  /// that paused, without a burst that anyone would notice.
  static let burstSteps: Int64 = 4

  /// At least 1.
  let bytesPerSecond: Int64
  /// Of one step.
  private let milliseconds: Int64
  /// Up to when the bytes that have left were due, in milliseconds.
  private var due: Int64
  /// What has left beyond that: thousandths of a byte, less than leave in a millisecond.
  private var excess: Int64 = 0
  /// When more may leave; nil: now.
  private(set) var resumesAt: Int64? = nil

  /// One step may leave at once.
  init(bytesPerSecond: Int64, now: Int64) {
    self.bytesPerSecond = bytesPerSecond
    let slowest = (Self.leastBytes * 1000 + bytesPerSecond - 1) / bytesPerSecond
    milliseconds = max(Self.stepMilliseconds, slowest)
    due = now - milliseconds
  }

  /// Bytes that are due, or negative.
  private func credit(now: Int64) -> Int64 {
    let elapsed = min(now - due, milliseconds * Self.burstSteps)
    return (elapsed * bytesPerSecond - excess) / 1000
  }

  /// How many bytes of `count` may leave now.
  func allowance(of count: Int, now: Int64) -> Int {
    resumesAt == nil ? min(count, Int(max(0, credit(now: now)))) : 0
  }

  /// `count` bytes have left, as a rule no more than the allowance.
  mutating func spent(_ count: Int, now: Int64) {
    if now - due > milliseconds * Self.burstSteps {
      due = now - milliseconds * Self.burstSteps
      excess = 0
    }
    let total = excess + Int64(count) * 1000
    due += total / bytesPerSecond
    excess = total % bytesPerSecond
    if credit(now: now) < Self.leastBytes { resumesAt = max(now + 1, due + milliseconds + (excess > 0 ? 1 : 0)) }
  }

  /// Whether the pause is over.
  mutating func resume(now: Int64) -> Bool {
    guard let end = resumesAt, now >= end else { return false }
    resumesAt = nil
    return true
  }
}

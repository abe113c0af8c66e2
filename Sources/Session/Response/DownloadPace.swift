// `throttle.download`: a rate in bytes per second, without drift. Each byte sent moves a due time forward by the exact
// fraction of a second. A late sender may send that much more, up to a limit. The caller passes the time in.
// Tests: DownloadPaceTests.

/// The pace of what one exchange or tunnel sends to its client.
struct DownloadPace {
  /// Shortest pause, in milliseconds: twenty pauses a second are smooth, and cost few timers.
  static let stepMilliseconds: Int64 = 50
  /// Fewest bytes that are worth a system call and a packet header: at a slow pace a pause lasts until so many are due.
  static let leastBytes: Int64 = 1 << 10
  /// How many steps' worth of bytes may leave at once after a quiet time. They make up for a busy loop or a pause of
  /// the origin, without a noticeable burst.
  static let burstSteps: Int64 = 4

  /// At least 1.
  let bytesPerSecond: Int64
  /// Length of one step.
  private let milliseconds: Int64
  /// When the bytes sent so far were due, in milliseconds.
  private var due: Int64
  /// Sent beyond that: thousandths of a byte, less than one millisecond's worth.
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

  /// `count` bytes have left, normally no more than the allowance.
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

// `throttle`: AFNetworking's throttleBandwidthWithPacketSize:delay:. After each packet of a request body the client is not
// read for a while, so that the kernel's window slows it down; nothing is kept. Tests: UploadPaceTests.

import Policy

/// The pace of the upload of one exchange.
struct UploadPace {
  private let throttle: Throttle
  /// Bytes of the packet that may still leave.
  private var left: Int
  /// When the next packet may; nil: one is on its way.
  private(set) var resumesAt: Int64? = nil

  init(_ throttle: Throttle) {
    self.throttle = throttle
    left = throttle.packetBytes
  }

  /// How many bytes of `count` may leave now.
  func allowance(of count: Int) -> Int { resumesAt == nil ? min(count, left) : 0 }

  /// `count` bytes, at most the allowance, have left.
  mutating func spent(_ count: Int, now: Int64) {
    left -= count
    if left > 0 { return }
    left = throttle.packetBytes
    resumesAt = now + throttle.delayMilliseconds
  }

  /// Whether the pause is over.
  mutating func resume(now: Int64) -> Bool {
    guard let due = resumesAt, now >= due else { return false }
    resumesAt = nil
    return true
  }
}

// `throttle.packet` and `throttle.delay`: AFNetworking's throttleBandwidthWithPacketSize:delay:. After each packet the
// proxy stops reading from the client for a while, so the kernel's window slows the client down.
// Tests: UploadPaceTests.

import Policy

/// The pace of what one exchange or tunnel sends to its destination.
struct UploadPace {
  private let throttle: Throttle.Upload
  /// Bytes of the packet that may still leave.
  private var left: Int
  /// When the next packet may leave; nil: one is on its way.
  private(set) var resumesAt: Int64? = nil
  /// When the packet on its way was due; nil: it is the first.
  private var due: Int64? = nil

  init(_ throttle: Throttle.Upload) {
    self.throttle = throttle
    left = throttle.packetBytes
  }

  /// How many bytes of `count` may leave now.
  func allowance(of count: Int) -> Int { resumesAt == nil ? min(count, left) : 0 }

  /// `count` bytes have left. Bytes that cannot wait, such as the first ones of an inspected tunnel, may exceed the
  /// allowance: then each packet in them causes its own pause.
  mutating func spent(_ count: Int, now: Int64) {
    left -= count
    if left > 0 { return }
    let packets = -left / throttle.packetBytes + 1
    left += packets * throttle.packetBytes
    // A loop that wakes some milliseconds late would make every packet that much later. After a longer wait for bytes,
    // one packet is sent at once, and no more.
    var begin = now
    if throttle.keepsRate, let due { begin = max(due, now - throttle.delayMilliseconds) }
    resumesAt = max(begin, resumesAt ?? begin) + Int64(packets) * throttle.delayMilliseconds
  }

  /// Whether the pause is over.
  mutating func resume(now: Int64) -> Bool {
    guard let end = resumesAt, now >= end else { return false }
    due = end
    resumesAt = nil
    return true
  }
}

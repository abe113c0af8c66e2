// `throttle`: AFNetworking's throttleBandwidthWithPacketSize:delay:. After each packet of a request body the client is not
// read for a while, so that the kernel's window slows it down; nothing is kept. Tests: UploadPaceTests.

import Bytes
import Policy
import Reachability

extension Session {
  /// Sends as much of a body that was made here as may leave now.
  mutating func sendPaced(now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs) {
    let allowed = pace?.allowance(of: pacedBody.count) ?? pacedBody.count
    if allowed == 0 { return }
    workspace.pool.lend(&outputs.toUpstream, allowed)
    outputs.toUpstream.append(pacedBody.bytes.extracting(first: allowed))
    pacedBody.consume(allowed)
    pace?.spent(allowed, now: now)
    // Behind the last byte nothing is waited for.
    if pacedBody.isEmpty, request == .done { pace = nil }
  }

  /// A pace for certain kinds of link does not hold on others. On one of which nothing is known it does.
  mutating func adjustPace(to link: ReachabilityStatus) {
    guard let links = pace?.links, !links.isEmpty, link != .unknown else { return }
    if !links.contains(link) { pace = nil }
  }
}

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

  var links: [ReachabilityStatus] { throttle.links }

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

// `throttle` of an exchange or a tunnel: bytes for the destination pause after each packet, bytes for the client keep a
// rate. The session limits how much may move and when to continue; the server moves no more, watches neither side
// meanwhile, and sets its timer. Tests: PacingTests, UploadPaceTests, Tests/EndToEndTests/test_pace.py.

import Bytes
import Policy
import Reachability

/// The two paces. An object, so sessions without any pay one word for them.
final class Pacing {
  private let throttle: Throttle
  /// nil, both: unlimited.
  var upload: UploadPace? = nil
  var download: DownloadPace? = nil

  init(_ throttle: Throttle) { self.throttle = throttle }

  /// Whether uploads have a pace, on any link.
  var isForUploads: Bool { throttle.upload != nil }

  /// A pace for certain kinds of link does not apply on others. It does apply on a link of unknown kind.
  func begin(on link: ReachabilityStatus, now: Int64) {
    let holds = throttle.links.isEmpty || link == .unknown || throttle.links.contains(link)
    upload = holds ? throttle.upload.map { UploadPace($0) } : nil
    download = holds ? throttle.downloadBytesPerSecond.map { DownloadPace(bytesPerSecond: $0, now: now) } : nil
  }

  /// When the first pause ends that matters; nil: none does. `uploads`: more of the upload waits.
  func pauseEnd(uploads: Bool) -> Int64? {
    guard uploads, let end = upload?.resumesAt else { return download?.resumesAt }
    return min(end, download?.resumesAt ?? .max)
  }
}

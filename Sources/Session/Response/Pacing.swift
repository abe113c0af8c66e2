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
}

extension Exchange {
  /// The destination is reached, over a link of this kind: from here on bytes keep the rule's pace. `owing`: bytes for
  /// the destination that have already been read.
  public mutating func beginPace(on link: ReachabilityStatus, owing: Int = 0, now: Int64) {
    bodies.pacing?.begin(on: link, now: now)
    if owing > 0 { bodies.pacing?.upload?.spent(owing, now: now) }
  }

  // MARK: Towards the destination

  /// Whether the client's bytes have a pace, so that the session has to see them.
  public var pacesUpload: Bool { bodies.pacing?.upload != nil }

  /// How many bytes of the client can be used at once; nil: any number.
  public var uploadAllowance: Int? { bodies.pacing?.upload?.allowance(of: .max) }

  /// When the pause of the upload ends; nil: there is no pause, or nothing waits for its end.
  var uploadResumesAt: Int64? {
    guard let end = bodies.pacing?.upload?.resumesAt else { return nil }
    switch phase {
    case .tunnel: return end
    // After the last byte nothing waits.
    case .exchanging: return request.progress == .done && isBodyOut ? nil : end
    case .head, .collecting, .connecting: return nil
    }
  }

  public var uploadRests: Bool { uploadResumesAt != nil }

  /// An exchange that is ending reads no more from the client.
  mutating func endUploadPace() { bodies.pacing?.upload = nil }

  /// Sends as much of a body made here as may leave now.
  mutating func sendPaced(now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs) {
    let allowed = bodies.pacing?.upload?.allowance(of: bodies.paced.count) ?? bodies.paced.count
    if allowed == 0 { return }
    workspace.pool.lend(&outputs.toUpstream, allowed)
    outputs.toUpstream.append(bodies.paced.bytes.extracting(first: allowed))
    bodies.paced.consume(allowed)
    bodies.pacing?.upload?.spent(allowed, now: now)
  }

  // MARK: Towards the client

  /// Whether bytes for the client have a pace.
  public var pacesDownload: Bool { bodies.pacing?.download != nil }

  public var downloadRests: Bool { bodies.pacing?.download?.resumesAt != nil }

  /// How many bytes may leave for the client now; nil: any number.
  public func downloadAllowance(now: Int64) -> Int? { bodies.pacing?.download?.allowance(of: .max, now: now) }

  /// `count` bytes have left for the client.
  public mutating func clientTook(_ count: Int, now: Int64) { bodies.pacing?.download?.spent(count, now: now) }

  /// The deadline has passed. Returns whether it ended a pause, so that more may leave for the client.
  public mutating func resumeDownload(now: Int64) -> Bool {
    guard bodies.pacing?.download?.resume(now: now) ?? false else { return false }
    times.lastProgress = now
    return true
  }

  // MARK: Both

  /// When the first pause ends; nil: there is none.
  var pauseEnd: Int64? {
    guard let pacing = bodies.pacing else { return nil }
    guard let upload = uploadResumesAt else { return pacing.download?.resumesAt }
    return min(upload, pacing.download?.resumesAt ?? .max)
  }

  /// Ends the pauses that are over; false: none is. A pause does not count as idle time.
  mutating func resumePace(now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs) -> Bool {
    guard let pacing = bodies.pacing else { return false }
    let downloads = resumeDownload(now: now)
    let uploads = uploadResumesAt != nil && pacing.upload?.resume(now: now) ?? false
    if uploads {
      times.lastProgress = now
      sendPaced(now: now, &workspace, &outputs)
    }
    return uploads || downloads
  }
}

// The daemon's reports to systemd: that it is ready, reloads and stops, its state, and that its loops turn.
//
// Without systemd, no one receives them. Times are local, as `systemctl status` shows them around this line.
// Tests: ServiceStatusTests, WatchdogTests, Tests/EndToEndTests/test_service.py.

import Bytes
import HTTP1
import Transport

struct ServiceManager {
  private var status: ServiceStatus
  private var watchdog: Watchdog?
  private let mailboxes: [Mailbox<WorkerMessage>]
  private var isReloading = false
  private var isStopping = false

  init(addresses: [String], rules: Int, mailboxes: [Mailbox<WorkerMessage>]) {
    self.mailboxes = mailboxes
    status = ServiceStatus(addresses: addresses, rules: rules, at: Self.time)
    watchdog = Systemd.watchdogMilliseconds.map {
      Watchdog(limitMilliseconds: $0, workers: mailboxes.count, now: Clock.monotonic)
    }
  }

  func started() { Systemd.notify("READY=1\nSTATUS=\(status.text)") }

  mutating func reloadBegan() {
    isReloading = true
    // systemd would take two equal times for one reload (sd_notify(3), RELOADING=1).
    Systemd.notify("RELOADING=1\nMONOTONIC_USEC=\(Systemd.monotonicMicroseconds)")
  }

  /// The policy is in force from here on. `reloadEnded` informs systemd once no loop decides by the previous policy.
  mutating func reloaded(rules: Int) { status.reloaded(rules: rules, at: Self.time) }

  mutating func reloadFailed(_ fault: String) { status.reloadFailed(fault, at: Self.time) }

  mutating func reloadEnded() {
    guard isReloading, !isStopping else { return }
    isReloading = false
    started()
  }

  mutating func drained() {
    status.drain()
    Systemd.notify("STATUS=\(status.text)")
  }

  mutating func stopping(milliseconds: Int64) {
    isStopping = true
    Systemd.notify("STOPPING=1\nSTATUS=\(ServiceStatus.stopping(milliseconds: milliseconds))")
  }

  /// How tunnels are handed to systemd for the next start. systemd is asked why it stops the service: if the service is
  /// not started again, it drops what it was given, without a line in the log, and tunnels are better given the time
  /// for draining. If systemd cannot be asked, a restart is assumed, which is what a signal usually means. nil: tunnels
  /// end with the daemon.
  func keepsTunnels() -> TunnelKeeping? {
    guard keepsDescriptors() else { return nil }
    let answer = Systemd.askOfService(milliseconds: Self.answerMilliseconds)
    if let answer, !answer.isRestarted { return nil }
    return TunnelKeeping(workers: mailboxes.count, places: answer?.storePlaces ?? Systemd.storePlaces)
  }

  /// Whether systemd keeps descriptors at all. This is tried out, because systemd does not announce it before version
  /// 254.
  private func keepsDescriptors() -> Bool {
    guard case .success(let probe) = DescriptorParcel.pack([]) else { return false }
    defer { probe.receipt.close() }
    // Stored under the name of the tunnels, none of which is stored yet: if it stayed, the next start would close it.
    let isAsked = Systemd.store(probe.parcel, as: StoredTunnel.name)
    probe.parcel.close()
    guard isAsked, Systemd.waitUntilHeard(milliseconds: Self.answerMilliseconds), probe.isKept else { return false }
    Systemd.forget(StoredTunnel.name)
    return true
  }

  /// How long systemd may take to process a message, in milliseconds: it is on the same machine, and clients wait.
  private static let answerMilliseconds: Int64 = 1000

  // MARK: The watchdog

  /// Asks the workers when it is time to, and returns how long the daemon may wait, in milliseconds; -1 is for ever.
  mutating func askWorkers() -> Int32 {
    let now = Clock.monotonic
    guard watchdog != nil else { return -1 }
    while true {
      switch watchdog?.step(now: now) {
      case .ask: for mailbox in mailboxes { mailbox.post(.ping) }
      case .wait(let milliseconds): return Int32(clamping: milliseconds)
      case .waitForAnswers, nil: return -1
      }
    }
  }

  mutating func workerAnswered(_ worker: Int) {
    if watchdog?.answered(worker) == .complete { Systemd.notify("WATCHDOG=1") }
  }

  mutating func workerLeft(_ worker: Int) {
    if watchdog?.left(worker) == .complete { Systemd.notify("WATCHDOG=1") }
  }

  /// `2026-11-20 21:00:01`
  private static var time: String {
    let seconds = Clock.wall / 1000
    var text = ByteBuffer()
    CalendarTime(secondsSince1970: seconds + Clock.secondsAheadOfUTC(at: seconds)).writeRFC3339(to: &text)
    return String(text.bytes.string.map { $0 == "T" ? " " : $0 })
  }
}

// The state of the daemon, for the admin API and the service manager.

import Policy

/// Facts that the daemon's thread keeps.
struct DaemonState {
  let version: String
  let addresses: [String]
  let workers: Int
  /// Where /metrics is served over TCP; nil: nowhere.
  var metricsAddress: String? = nil
  /// Where the dashboard is; nil: nowhere.
  var webAddress: String? = nil
  /// Milliseconds since 1970.
  let startedWall: Int64
  /// The same moment by the clock that nobody sets.
  let startedMonotonic: Int64
  var policy: Policy
  /// When the certificate of its local authority expires, in seconds since 1970; nil: it needs none.
  var authorityEnds: Int64? = nil
  /// When the policy in force was read.
  private(set) var loadedWall: Int64
  /// The last reload that failed, unless one has succeeded since.
  var failure: ReloadFailure? = nil
  private(set) var reloads: UInt64 = 0
  private(set) var failedReloads: UInt64 = 0
  /// nil if the kernel cannot be asked.
  private(set) var network: NetworkView? = nil
  /// Changes of the network that showed.
  private(set) var networkChanges = 0
  private(set) var life = Life.serving

  enum Life {
    case serving
    /// Requests under way end, and it goes on running.
    case draining
    case stopping
  }

  var isDraining: Bool { life != .serving }
  var isStopping: Bool { life == .stopping }

  mutating func drains() { life = .draining }
  mutating func stops() { life = .stopping }

  /// A reload has put this policy in force.
  mutating func reloaded(_ policy: Policy, authorityEnds: Int64?, wall: Int64) {
    self.policy = policy
    self.authorityEnds = authorityEnds
    reloads += 1
    failure = nil
    loadedWall = wall
  }

  mutating func reloadFailed(_ failure: ReloadFailure) {
    failedReloads += 1
    self.failure = failure
  }

  /// `shows`: the change is one that operators hear of.
  mutating func networkChanged(_ view: NetworkView, shows: Bool) {
    network = view
    if shows { networkChanges += 1 }
  }
}

/// Why a reload changed nothing.
struct ReloadFailure {
  let wall: Int64
  /// One sentence for each mistake.
  let reasons: [String]
}

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
  var loadedWall: Int64
  /// The last reload that failed, unless one has succeeded since.
  var failure: ReloadFailure? = nil
  var reloads: UInt64 = 0
  var failedReloads: UInt64 = 0
  /// nil if the kernel cannot be asked.
  var network: NetworkView? = nil
  /// Changes of the network that showed.
  var networkChanges = 0
  var isDraining = false
  var isStopping = false
}

/// Why a reload changed nothing.
struct ReloadFailure {
  let wall: Int64
  /// One sentence for each mistake.
  let reasons: [String]
}

// When a stop hands the open tunnels over: as soon as no loop has anything else left, so that they stand still as
// briefly as possible, and only once the store has room for all of them. If it never has, the end of the drain decides.
//
// Pure: the daemon asks systemd. Tests: TunnelKeepingTests.

import Bytes

struct TunnelKeeping {
  /// Places in the store; nil if unknown: then it is tried.
  private let places: Int?
  /// For each loop, how many tunnels it has once it has nothing else. A loop that has ended has none.
  private var tunnels: [Int?]
  private var isOver = false

  init(workers: Int, places: Int?) {
    self.places = places
    tunnels = Array(repeating: nil, count: workers)
  }

  /// The loop has only `count` tunnels left. Returns true once, when it is time to hand over.
  mutating func onlyTunnels(worker: Int, _ count: Int) -> Bool {
    tunnels[worker] = count
    guard !isOver, !tunnels.contains(nil) else { return false }
    let total = tunnels.reduce(0) { $0 + ($1 ?? 0) }
    guard total > 0, total <= places ?? .max else { return false }
    isOver = true
    return true
  }

  /// The log line at the end of a daemon that has handed over this many.
  static func lastWords(_ count: Int) -> String {
    switch count {
    case 0: "stopped"
    default: "stopped; " + .counted(count, "open tunnel waits with systemd", plural: "open tunnels wait with systemd")
    }
  }

  mutating func workerLeft(_ worker: Int) -> Bool { onlyTunnels(worker: worker, 0) }
}

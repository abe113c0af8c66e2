// When a stop hands the open tunnels over: as soon as nothing else is left in any loop, so that they stand still as
// shortly as can be, and only once the store has room for all of them. Where it never has, the end of the drain decides.
//
// Pure: who asks systemd is the daemon. Tests: TunnelKeepingTests.

struct TunnelKeeping {
  /// Places in the store; nil where nobody knows: then it is tried.
  private let places: Int?
  /// Of each loop how many tunnels it has, once it has nothing else. A loop that has ended has none.
  private var tunnels: [Int?]
  private var isOver = false

  init(workers: Int, places: Int?) {
    self.places = places
    tunnels = Array(repeating: nil, count: workers)
  }

  /// Nothing but `count` tunnels is left in the loop. Answers whether it is time to hand over, once.
  mutating func onlyTunnels(worker: Int, _ count: Int) -> Bool {
    tunnels[worker] = count
    guard !isOver, !tunnels.contains(nil) else { return false }
    let total = tunnels.reduce(0) { $0 + ($1 ?? 0) }
    guard total > 0, total <= places ?? .max else { return false }
    isOver = true
    return true
  }

  /// What the log says at the end of a daemon that has handed over so many.
  static func lastWords(_ count: Int) -> String {
    switch count {
    case 0: "stopped"
    case 1: "stopped; 1 open tunnel waits with systemd"
    default: "stopped; \(count) open tunnels wait with systemd"
    }
  }

  mutating func workerLeft(_ worker: Int) -> Bool { onlyTunnels(worker: worker, 0) }
}

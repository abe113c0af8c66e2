// The permit of `connections_per_host` that one connector needs before it connects, or the connection that another
// exchange gave up for it and that already has one. Tests: test_connections_per_host.py.

import Sharing
import Upstream

struct HostPermit {
  /// Who needs it; nil: none are counted.
  private let claimant: Claimant?
  private var isHeld = false
  /// A connection that another exchange gave up for this one.
  private var reserved: Upstream? = nil

  init(for claimant: Claimant?) { self.claimant = claimant }

  /// Whether it has to be got before anything is opened.
  var isMissing: Bool { claimant != nil && !isHeld }

  /// Who waits for it, for the quota; nil: none are counted.
  func waiter(slot: Int, _ worker: Worker) -> ConnectionQuota.Waiter? {
    claimant.map {
      ConnectionQuota.Waiter(worker: worker.index, slot: slot, generation: worker.generation(slot), identity: $0)
    }
  }

  mutating func granted() { isHeld = true }

  mutating func reserve(_ upstream: Upstream) { reserved = upstream }

  /// The connection that comes with the permit, which is now this client's; nil: the permit comes alone.
  mutating func takeReserved() -> Upstream? {
    guard let upstream = reserved else { return nil }
    reserved = nil
    upstream.isReserved = false
    upstream.holder = claimant
    return upstream
  }

  /// From here on the connection has it.
  mutating func pass(to upstream: Upstream) {
    upstream.holdsPlace = isHeld
    upstream.holder = isHeld ? claimant : nil
    isHeld = false
  }

  /// It is not needed here.
  mutating func giveBack(_ place: ConnectionQuota.Place, _ worker: Worker) {
    if isHeld { worker.shared.quota.leave(place, of: claimant) }
    isHeld = false
    if let reserved {
      self.reserved = nil
      // A message with its place is on its way. It finds no waiter here and gives the place back.
      if !reserved.isClosed { worker.upstreams.close(reserved, leavesPlace: false, worker) }
    }
  }
}

// The quota of connections as all loops share it: what is granted is told to the loop of the waiter by a message.

import Bytes
import Sharing
import Transport
import Upstream

final class SharedQuota: Sendable {
  private let quota: Locked<ConnectionQuota>
  /// Tells a waiter that a place is its own now.
  private let grant: @Sendable (ConnectionQuota.Grant) -> Void

  init(limit: Int, share: Double, grant: @escaping @Sendable (ConnectionQuota.Grant) -> Void) {
    quota = Locked(ConnectionQuota(limit: limit, share: share))
    self.grant = grant
  }

  func setLimit(_ limit: Int, share: Double) {
    for granted in quota.withLock({ $0.setLimit(limit, share: share) }) { grant(granted) }
  }

  /// Gives a place back. `holder`: whose it was; nil: nobody's.
  func leave(_ place: ConnectionQuota.Place, of holder: Claimant?) {
    if let granted = quota.withLock({ $0.leave(place, of: holder) }) { grant(granted) }
  }

  // As of the quota.

  func enter(_ place: ConnectionQuota.Place, _ waiter: ConnectionQuota.Waiter) -> ConnectionQuota.Entry {
    quota.withLock { $0.enter(place, waiter) }
  }

  func claim(_ place: ConnectionQuota.Place) -> Bool { quota.withLock { $0.claim(place) } }
  func rest(_ place: ConnectionQuota.Place, of holder: Claimant) { quota.withLock { $0.rest(place, of: holder) } }
  func resume(_ place: ConnectionQuota.Place, for holder: Claimant) { quota.withLock { $0.resume(place, for: holder) } }

  func abandon(_ place: ConnectionQuota.Place, _ waiter: ConnectionQuota.Waiter) {
    quota.withLock { $0.abandon(place, waiter) }
  }

  func hasWaiters(_ place: ConnectionQuota.Place) -> Bool { quota.withLock { $0.hasWaiters(place) } }

  func mustYield(_ place: ConnectionQuota.Place, _ identity: Claimant) -> Bool {
    quota.withLock { $0.mustYield(place, identity) }
  }

  func takeFirst(_ place: ConnectionQuota.Place, of worker: Int) -> ConnectionQuota.Waiter? {
    quota.withLock { $0.takeFirst(place, of: worker) }
  }
}

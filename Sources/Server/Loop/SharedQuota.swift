// The quota of connections that all loops share. A granted place reaches the waiter's loop as a message.

import Bytes
import Sharing
import Transport
import Upstream

final class SharedQuota: Sendable {
  private let quota: Locked<ConnectionQuota>
  /// Tells a waiter that the place is now its own.
  private let grant: @Sendable (ConnectionQuota.Grant) -> Void

  init(limit: Int, share: Double, grant: @escaping @Sendable (ConnectionQuota.Grant) -> Void) {
    quota = Locked(ConnectionQuota(limit: limit, share: share))
    self.grant = grant
  }

  func setLimit(_ limit: Int, share: Double) {
    for granted in quota.withLock({ $0.setLimit(limit, share: share) }) { grant(granted) }
  }

  /// Gives a place back. `holder`: who held it; nil: no client.
  func leave(_ place: ConnectionQuota.Place, of holder: Claimant?) {
    if let granted = quota.withLock({ $0.leave(place, of: holder) }) { grant(granted) }
  }

  // These forward to the quota.

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

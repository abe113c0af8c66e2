// What one loop does when the network changes.

import Bytes
import Policy
import Transport

extension Worker {
  /// From here on, paths may differ, and waiting connectors try again, in order. Once the network has settled, kept
  /// connections that left another way are closed, and exchanges whose address is gone end.
  func take(_ change: NetworkMonitor.Change) {
    paths.take(change.view)
    workspace.link = change.view.state.status
    workspace.own = change.view.own
    for state in routeStates.values { state.outUntil = 0 }
    if change.shows { forgetNames() }
    if change.isSettled { endWhatIsLost() }
    changeConnectors(isSettled: change.isSettled)
  }

  private func endWhatIsLost() {
    // Ending one may close another.
    for slot in occupants.indices {
      switch occupants[slot] {
      case .upstream(let upstream) where upstream.owner == nil: if !stillLeads(upstream) { dropIdle(upstream) }
      case .client(let conversation): conversation.networkChanged(self)
      case .probe(let probe): probe.networkChanged(self)
      case .http2(let endpoint): if case .origin(let line) = endpoint.peer, !stillLeads(line) { endpoint.retire() }
      case .fetch(let fetch): if let line = fetch.line, hasLost(line.descriptor) { fetch.abandon() }
      case .free, .listener, .mailbox, .upstream, .connector, .attempt, .acceptPause: break
      }
    }
  }

  /// Whether the connection comes from an address that this machine no longer has.
  func hasLost(_ descriptor: Descriptor) -> Bool {
    guard let state = paths.view?.state, let local = descriptor.localAddress else { return false }
    return !state.isAssigned(IPAddress(local))
  }

  /// Whether a kept connection's path is still the one to its peer. Checked once after each change.
  func stillLeads(_ upstream: Upstream) -> Bool {
    if upstream.checkedAt == paths.generation { return true }
    guard paths.path(to: IPAddress(upstream.address), by: upstream.route.route.interface) == upstream.path,
      !hasLost(upstream.descriptor)
    else { return false }
    upstream.checkedAt = paths.generation
    return true
  }

  func forgetNames() {
    destinations.forEach { $0.validUntil = 0 }
    for state in routeStates.values { state.parent?.validUntil = 0 }
  }

  private func changeConnectors(isSettled: Bool) {
    let waited = waiting
    waiting = []
    for connector in waited { connector.networkChanged(self) }
    guard isSettled else { return }
    for case .connector(let connector) in occupants where !waited.contains(where: { $0 === connector }) {
      connector.networkChanged(self)
    }
  }
}

// The network as one loop sees it: the path to each address, and what the loop does when the network changes. Tests:
// test_reachability_following.py, test_waiting.py.

import Bytes
import Policy
import Reachability
import Transport

/// A class, because connectors come back here while they are told of a change.
final class LoopNetwork {
  @exclusivity(unchecked) private var paths: NetworkPaths
  /// Connectors that wait for the network to change, in order.
  private var waiting: [Connector] = []

  init(_ view: NetworkView?) {
    var socket: NetlinkSocket? = nil
    if view != nil, case .success(let opened) = NetlinkSocket.open(.route) { socket = opened }
    paths = NetworkPaths(socket, view)
  }

  // MARK: Paths

  /// The way by which packets leave for `address`, through `interface` if given.
  func path(to address: IPAddress, by interface: String? = nil) -> NetworkPath {
    paths.path(to: address, by: interface)
  }

  /// Whether a connection to `address` by `path` ends at this machine; nil if unknown.
  func isOwn(_ address: IPAddress, by path: NetworkPath) -> Bool? { paths.isOwn(address, by: path) }

  /// nil if the kernel cannot be asked.
  var status: ReachabilityStatus? { paths.view?.state.status }
  /// Counts the changes.
  var generation: UInt32 { paths.generation }

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
    upstream.pathChecked(at: paths.generation)
    return true
  }

  // MARK: Waiting

  /// The connector is told of the next change.
  func wait(_ connector: Connector) { waiting.append(connector) }
  func leave(_ connector: Connector) { waiting.removeAll { $0 === connector } }

  // MARK: Changes

  /// From here on, paths may differ, and waiting connectors try again, in order. Once the network has settled, kept
  /// connections that left another way are closed, and exchanges whose address is gone end.
  func take(_ change: NetworkMonitor.Change, _ worker: Worker) {
    paths.take(change.view)
    worker.workspace.setNetwork(change.view.state.status, change.view.own)
    worker.routes.reopen()
    if change.shows { worker.forgetNames() }
    if change.isSettled { endWhatIsLost(worker) }
    changeConnectors(isSettled: change.isSettled, worker)
  }

  private func endWhatIsLost(_ worker: Worker) {
    // Ending one may close another.
    for slot in worker.slots.occupants.indices {
      switch worker.slots.occupants[slot] {
      case .upstream(let upstream) where upstream.owner == nil:
        if !stillLeads(upstream) { worker.upstreams.dropIdle(upstream, worker) }
      case .client(let conversation): conversation.networkChanged(worker)
      case .probe(let probe): probe.networkChanged(worker)
      case .multiplexed(let connection):
        if case .origin(let line) = connection.peer, !stillLeads(line) { connection.retire() }
      case .fetch(let fetch): if let line = fetch.line, hasLost(line.descriptor) { fetch.abandon() }
      case .free, .listener, .mailbox, .upstream, .connector, .attempt, .acceptPause: break
      }
    }
  }

  private func changeConnectors(isSettled: Bool, _ worker: Worker) {
    let waited = waiting
    waiting = []
    for connector in waited { connector.networkChanged(worker) }
    guard isSettled else { return }
    for case .connector(let connector) in worker.slots.occupants where !waited.contains(where: { $0 === connector }) {
      connector.networkChanged(worker)
    }
  }
}

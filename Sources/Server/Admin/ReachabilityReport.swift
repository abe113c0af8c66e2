// The admin API's report on the network: how the machine is reached, its interfaces and routes, and how one destination
// is reached. The daemon fills it in. The names of its members on the wire are in AdminResources and in
// sallyport-admin(7). Tests: ReachabilityPageTests, test_admin_reachability.py.

import Policy
import Reachability

struct ReachabilityReport: Sendable, Equatable {
  /// The field of an answer about one host that gives whether it can be reached: yes or no.
  static let fieldName = "Sallyport-Reachable"

  /// The way by which a packet would leave.
  struct Path: Sendable, Equatable {
    var status = ReachabilityStatus.unknown
    /// nil if no route leads there.
    var interface: String? = nil
    /// nil if the network is on the link itself.
    var gateway: String? = nil
  }

  struct Interface: Sendable, Equatable {
    let name: String
    let kind: ReachabilityStatus
    let isUp: Bool
    let hasCarrier: Bool
    /// Without prefix lengths.
    let addresses: [String]
  }

  /// One of [routes.NAME].
  struct Route: Sendable, Equatable {
    let name: String
    /// As configured, without credentials.
    let via: String
    /// How long it is still skipped after a failure; nil if it is not.
    let deadForMilliseconds: Int64?
    /// Why it cannot be used on this network, as far as is known without a look-up; nil: it can.
    var unusable: String? = nil
  }

  /// The host that the request is about.
  struct Destination: Sendable, Equatable {
    struct Address: Sendable, Equatable {
      let address: String
      let status: ReachabilityStatus
      let interface: String?
      let source: String?
    }

    /// Canonical, as it was looked up.
    let host: String
    /// The best of its addresses.
    let status: ReachabilityStatus
    /// Why there are no addresses, in a sentence.
    var error: String? = nil
    var addresses: [Address] = []

    /// Whether there is a way to it. A way of unknown kind counts.
    var isReachable: Bool { error == nil && status != .notReachable }
  }

  /// Of the machine: the default route of IPv4, or else of IPv6.
  var status = ReachabilityStatus.unknown
  var ipv4 = Path()
  var ipv6 = Path()
  var interfaces: [Interface] = []
  var routes: [Route] = []
  /// Requests that wait for a path.
  var waiting = 0
  /// nil if only the machine was asked about.
  var destination: Destination? = nil
}

/// Counts about the network, of all loops.
struct NetworkFacts: Sendable, Equatable {
  var status = ReachabilityStatus.unknown
  /// Changes that were followed since the start.
  var changes: UInt64 = 0
  /// Requests that wait for a path now.
  var waiting = 0
}

extension ReachabilityReport {
  /// Of the machine; nil: its state is unknown.
  init(_ state: NetworkState?) {
    guard let state else { return }
    status = state.status
    ipv4 = Path(state.ipv4, state)
    ipv6 = Path(state.ipv6, state)
    interfaces = state.links.values.sorted { $0.index < $1.index }.map { link in
      Interface(
        name: link.name, kind: state.kinds[link.index] ?? .unknown, isUp: link.isUp, hasCarrier: link.hasCarrier,
        addresses: (state.addresses[link.index] ?? []).map { "\($0)" }.sorted())
    }
  }
}

extension ReachabilityReport.Path {
  fileprivate init(_ route: DefaultRoute, _ state: NetworkState) {
    status = route.status
    guard case .by(let index, _, let gateway) = route.answer else { return }
    interface = state.name(of: index)
    self.gateway = gateway.map { "\($0)" }
  }
}

extension ReachabilityReport.Route {
  init(_ route: Route, deadForMilliseconds: Int64?, unusable: String?) {
    name = route.name
    via = route.parent.map { "\($0.kind.rawValue)://\($0.authority)" } ?? "direct"
    self.deadForMilliseconds = deadForMilliseconds
    self.unusable = unusable
  }
}

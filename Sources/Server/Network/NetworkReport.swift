// The network in words, and how one host is reached, for the log, events and the admin API.

import Bytes
import Policy
import Reachability
import Transport

extension NetworkState {
  /// Whether the machine has the address, on any link, up or down.
  func isAssigned(_ address: IPAddress) -> Bool {
    let address = address.mappedIPv4 ?? address
    return address.isLoopback || addresses.values.contains { $0.contains(address) }
  }

  /// `wifi by wlan0`
  var summary: String {
    let leading = ipv4.status == .notReachable ? ipv6 : ipv4
    guard case .by(let index, _, _) = leading.answer else { return status.rawValue }
    return "\(status.rawValue) by \(name(of: index))"
  }
}

/// Finds out how a host is reached, for the daemon's thread. It has its own questions to the kernel, besides those of
/// the loops.
struct HostReachability: ~Copyable {
  private var paths: NetworkPaths
  /// What has been found out since the last change. The loops got that change earlier, so no path is reported that they
  /// would not use yet.
  private var known: [IPAddress: (path: NetworkPath, source: IPAddress?)] = [:]

  init(_ view: NetworkView?) {
    var socket: NetlinkSocket? = nil
    if view != nil, case .success(let opened) = NetlinkSocket.open(.route) { socket = opened }
    paths = NetworkPaths(socket, view)
  }

  mutating func take(_ view: NetworkView) {
    paths.take(view)
    known = [:]
  }

  /// Why a route cannot be used on this network; nil if it can, or if that is unknown. If its parent has a name, or it
  /// is direct, only a look-up would show the path, so the default route stands in.
  mutating func obstacle(of route: Route) -> String? {
    guard let state = paths.view?.state else { return nil }
    let words = route.links.map(\.rawValue).joined(separator: " or ")
    func fits(_ status: ReachabilityStatus) -> Bool { route.links.isEmpty || route.links.contains(status) }
    if let name = route.interface {
      let named = state.links.values.first { $0.name == name }
      guard let link = named else { return "there is no interface \(name)" }
      if !link.isUsable { return link.isUp ? "interface \(name) has no carrier" : "interface \(name) is down" }
    }
    if let address = route.parent?.host.address {
      let status = paths.path(to: address, by: route.interface).status
      if status == .notReachable { return "its parent is not reachable" }
      return fits(status) ? nil : "reached by \(status.rawValue), and 'when' asks for \(words)"
    }
    if route.interface != nil || fits(state.status) { return nil }
    return "the default route is \(state.status.rawValue), and 'when' asks for \(words)"
  }

  mutating func destination(_ host: String, _ answer: NameAnswer) -> ReachabilityReport.Destination {
    var error: String
    switch answer {
    case .addresses(let addresses, _): return destination(host, addresses.map { IPAddress($0) })
    case .notFound: error = "\(host) does not exist, or has no address."
    case .failed(let why): error = "\(host) could not be looked up: \(why)."
    case .timedOut: error = "No name server answered for \(host) in time."
    }
    return ReachabilityReport.Destination(host: host, status: .unknown, error: error)
  }

  mutating func destination(_ host: String, _ addresses: [IPAddress]) -> ReachabilityReport.Destination {
    var found: [ReachabilityReport.Destination.Address] = []
    for address in addresses {
      let (path, source) = known[address] ?? paths.describe(address)
      if known.count >= NetworkPaths.mostPaths { known = [:] }
      known[address] = (path, source)
      found.append(
        ReachabilityReport.Destination.Address(
          address: "\(address)", status: path.status,
          interface: path.interface.flatMap { paths.view?.state.name(of: $0) }, source: source.map { "\($0)" }))
    }
    let best = found.first { $0.status != .notReachable } ?? found.first
    return ReachabilityReport.Destination(host: host, status: best?.status ?? .unknown, addresses: found)
  }
}

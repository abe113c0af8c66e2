// The network as a loop sees it: links and addresses from the monitor, and the link to each destination. The loop asks
// the kernel for that once, and remembers it until something changes.

import Bytes
import Policy
import Reachability
import Transport

/// The state of the network at one moment, for all loops.
final class NetworkView: Sendable {
  let state: NetworkState
  let own: OwnAddresses
  private let indices: [String: Int32]

  init(_ state: NetworkState) {
    self.state = state
    own = OwnAddresses(state.addresses.values.reduce(into: []) { $0.formUnion($1) })
    indices = Dictionary(state.links.values.map { ($0.name, $0.index) }) { first, _ in first }
  }

  func index(of interface: String) -> Int32? { indices[interface] }
}

/// The way by which packets leave for an address.
struct NetworkPath: Equatable {
  let status: ReachabilityStatus
  /// Index of the interface; nil if unknown.
  let interface: Int32?

  /// Whether by the routing table they do not leave: the address is this machine's, or is routed to it.
  var leadsHome: Bool { interface == Link.loopbackIndex }

  static let loopback = NetworkPath(status: .wired, interface: nil)
  static let unknown = NetworkPath(status: .unknown, interface: nil)
  static let none = NetworkPath(status: .notReachable, interface: nil)
}

/// The paths of one loop.
struct NetworkPaths: ~Copyable {
  /// How many addresses are remembered, at some 60 bytes each.
  static let mostPaths = 4096

  private struct Key: Hashable {
    let address: IPAddress
    let interface: Int32?
  }

  /// nil if the kernel cannot be asked: then nothing is known, and everything is tried.
  private let socket: NetlinkSocket?
  private var paths: [Key: NetworkPath] = [:]
  private var sequence: UInt32 = 0
  private var request = ByteBuffer()
  private var answer = ByteBuffer()
  /// nil before the first report.
  private(set) var view: NetworkView?
  /// Counts the changes.
  private(set) var generation: UInt32 = 0

  init(_ socket: NetlinkSocket?, _ view: NetworkView?) {
    self.socket = socket
    self.view = view
  }

  /// Something has changed: remembered paths are no longer valid.
  mutating func take(_ view: NetworkView) {
    self.view = view
    generation &+= 1
    paths.removeAll(keepingCapacity: true)
  }

  /// The way by which packets leave for `address`, through `interface` if given. Asks the kernel at most once between
  /// changes.
  mutating func path(to address: IPAddress, by interface: String? = nil) -> NetworkPath {
    if interface == nil, address.isLoopback { return .loopback }
    guard let view, socket != nil else { return .unknown }
    var index: Int32? = nil
    if let interface {
      guard let found = view.index(of: interface) else { return .none }
      index = found
    }
    let key = Key(address: address, interface: index)
    if let known = paths[key] { return known }
    let found = ask(address, index, state: view.state)
    if paths.count >= Self.mostPaths { paths.removeAll(keepingCapacity: true) }
    paths[key] = found
    return found
  }

  /// Whether a connection to `address` by `path` ends at this machine; nil if unknown.
  func isOwn(_ address: IPAddress, by path: NetworkPath) -> Bool? {
    path.leadsHome ? true : (view?.own ?? .unknown).contains(address)
  }

  /// The path to an address, and the address that packets leave from, as far as known.
  mutating func describe(_ address: IPAddress) -> (NetworkPath, source: IPAddress?) {
    guard let view, let found = answer(for: address, nil) else { return (path(to: address), nil) }
    guard case .by(let index, let source, _) = found else { return (.none, nil) }
    return (NetworkPath(status: view.state.status(of: found), interface: index), source)
  }

  /// Takes a few microseconds: the kernel answers before the sending returns.
  private mutating func ask(_ address: IPAddress, _ interface: Int32?, state: NetworkState) -> NetworkPath {
    guard let found = answer(for: address, interface) else { return .unknown }
    let status = state.status(of: found)
    if case .by(let index, _, _) = found { return NetworkPath(status: status, interface: index) }
    return NetworkPath(status: status, interface: nil)
  }

  private mutating func answer(for address: IPAddress, _ interface: Int32?) -> RouteAnswer? {
    guard let socket else { return nil }
    sequence &+= 1
    request.removeAll()
    RouteRequests.write(routeTo: address, interface: interface, sequence: sequence, to: &request)
    guard socket.send(request) else { return nil }
    while socket.receive(into: &answer) == .datagram {
      if let found = RouteAnswer.read(answer.bytes, sequence: sequence, interface: interface) { return found }
    }
    return nil
  }
}

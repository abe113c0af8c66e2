// The links, addresses and default routes of this machine, as a value. Messages are applied to it, and it is compared
// with an earlier value to see whether there is a visible change.
//
// To begin, and to begin again after an overrun, the owner of the socket makes an empty state and asks for the links
// and the addresses. It applies the answers and anything else that arrives, looks up the kinds of `linksWithoutKind`,
// and asks for the two default routes. Then it replaces the old state by the new one, so nothing stale is left. The
// state is as large as the kernel's data, which has limits of its own.

import Bytes

/// How packets to the Internet leave, in one of the two families.
public struct DefaultRoute: Equatable, Sendable {
  public var answer: RouteAnswer
  /// According to the links when the route was taken from the state.
  public let status: ReachabilityStatus

  init(answer: RouteAnswer, status: ReachabilityStatus) {
    self.answer = answer
    self.status = status
  }

  /// A route to put into a state, which then determines the status.
  public init(_ answer: RouteAnswer) { self.init(answer: answer, status: .unknown) }
}

/// All data about links and addresses. Equal states look the same from outside.
public struct NetworkState: Equatable, Sendable {
  /// By interface index.
  public private(set) var links: [Int32: Link] = [:]
  /// The usable ones, by interface index; no entry is empty.
  public private(set) var addresses: [Int32: Set<IPAddress>] = [:]
  /// By interface index, set by the caller that looked them up; see `InterfaceKind`. A link that goes away or is
  /// renamed loses its kind.
  public var kinds: [Int32: ReachabilityStatus] = [:]

  private var ipv4Answer = RouteAnswer.unknown
  private var ipv6Answer = RouteAnswer.unknown
  /// The networks in which a link has an IPv4 address. The address exists until it is gone from the last one.
  private var networks: [Assignment: Set<AddressBlock>] = [:]

  private struct Assignment: Hashable, Sendable {
    let index: Int32
    let address: IPAddress
  }

  public init() {}

  public var ipv4: DefaultRoute {
    get { DefaultRoute(answer: ipv4Answer, status: status(of: ipv4Answer)) }
    set { ipv4Answer = newValue.answer }
  }

  public var ipv6: DefaultRoute {
    get { DefaultRoute(answer: ipv6Answer, status: status(of: ipv6Answer)) }
    set { ipv6Answer = newValue.answer }
  }

  public static func == (left: Self, right: Self) -> Bool {
    left.links == right.links && left.addresses == right.addresses && left.kinds == right.kinds
      && left.ipv4Answer == right.ipv4Answer && left.ipv6Answer == right.ipv6Answer
  }

  // MARK: What is asked of it

  /// The machine's status: that of IPv4's default route unless it is not reachable, otherwise IPv6's.
  public var status: ReachabilityStatus {
    let status = ipv4.status
    return status == .notReachable ? ipv6.status : status
  }

  /// A link that is down or without carrier reaches nothing; the loopback counts as wired.
  public func status(of answer: RouteAnswer) -> ReachabilityStatus {
    switch answer {
    case .unknown: return .unknown
    case .unreachable: return .notReachable
    case .by(let interface, source: _, gateway: _):
      guard let link = links[interface] else { return .unknown }
      if !link.isUsable { return .notReachable }
      return link.isLoopback ? .wired : kinds[interface] ?? .unknown
    }
  }

  /// Whether a connection from this address can continue: it belongs to the loopback, or to a link that is up. A link
  /// without carrier keeps its addresses, because the cable may be plugged in again before TCP gives up.
  public func hasAddress(_ address: IPAddress) -> Bool {
    let address = address.unmapped
    if address.isIPv4 ? address.isLoopback : address == Self.loopbackOfIPv6 { return true }
    return addresses.contains { links[$0.key]?.isUp == true && $0.value.contains(address) }
  }

  private static let loopbackOfIPv6 = IPAddress(ipv6High: 0, low: 1)

  /// Links, by index, whose kind has not been looked up.
  public var linksWithoutKind: [Link] {
    links.values.filter { kinds[$0.index] == nil }.sorted { $0.index < $1.index }
  }

  /// The name of an interface, or its number if the name is not known.
  public func name(of interface: Int32) -> String { links[interface]?.name ?? "interface \(interface)" }

  // MARK: What happened

  /// Applies a message. Returns whether something relevant changed. Routes always count, because they are not stored
  /// here: the default routes, and everything remembered about other routes, must be requested again.
  public mutating func apply(_ message: RouteMessage) -> Bool {
    switch message {
    case .link(let link): return note(link)
    case .linkGone(let index): return forget(index)
    case .address(let index, let address, let network, let isTentative):
      return isTentative
        ? remove(address, index, network: network) : add(address, index, network: network)
    case .addressGone(let index, let address, let network): return remove(address, index, network: network)
    case .routesChanged: return true
    case .done, .failed, .overrun: return false
    }
  }

  private mutating func note(_ link: Link) -> Bool {
    let known = links[link.index]
    if known == link { return false }
    if known?.name != link.name || known?.hardwareType != link.hardwareType { kinds[link.index] = nil }
    links[link.index] = link
    return true
  }

  private mutating func forget(_ index: Int32) -> Bool {
    kinds[index] = nil
    let left = addresses.removeValue(forKey: index) ?? []
    for address in left { networks[Assignment(index: index, address: address)] = nil }
    return links.removeValue(forKey: index) != nil || !left.isEmpty
  }

  private mutating func add(_ address: IPAddress, _ index: Int32, network: AddressBlock?) -> Bool {
    if let network { networks[Assignment(index: index, address: address), default: []].insert(network) }
    return addresses[index, default: []].insert(address).inserted
  }

  private mutating func remove(_ address: IPAddress, _ index: Int32, network: AddressBlock?) -> Bool {
    let assignment = Assignment(index: index, address: address)
    if let network, var left = networks[assignment] {
      left.remove(network)
      if !left.isEmpty {
        networks[assignment] = left
        return false
      }
    }
    networks[assignment] = nil
    guard var held = addresses[index], held.remove(address) != nil else { return false }
    addresses[index] = held.isEmpty ? nil : held
    return true
  }
}

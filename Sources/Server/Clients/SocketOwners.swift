// The owner of the socket at the other end of a connection. The kernel is asked (sock_diag(7)) by its addresses and
// ports, which no other socket can have while our end is open. The answer counts only if the connection is still open
// afterwards.
//
// If there is no such socket, that means something only for the address of another machine. A client with an address of
// this machine had a socket when it connected. So it has closed it since, and its owner can no longer be found. A
// socket that is bound to an interface, or has a link-local address, is found only by the number of that interface. So
// all interfaces are tried before a client counts as gone.

import Bytes
import Policy
import Reachability
import Transport

/// What one loop asks the kernel with.
struct SocketOwners: ~Copyable {
  enum Answer {
    case owner(LocalClients.Key, inode: UInt32)
    /// The client's address is not this machine's: it is elsewhere, or in another network namespace.
    case nobody
    /// The client's program is gone, and with it all that could be known about it.
    case gone
    /// The kernel could not be asked, or gave no clear answer.
    case unknown(String)
  }

  /// How many interfaces are tried in one turn of the loop, at some two microseconds each. On a machine with more, a
  /// client that none of these finds is unknown.
  static let mostInterfaces = 64
  /// How long the list of interfaces is relied on, in milliseconds. Even if a client closes connections without end,
  /// the loop reads the list no more often than this.
  static let interfacesMilliseconds: Int64 = 1000

  private var diagnosis: NetlinkSocket? = nil
  private var routes: NetlinkSocket? = nil
  private var sequence: UInt32 = 0
  private var request = ByteBuffer()
  private var answer = ByteBuffer()
  private var interfaces: [Int32] = []
  private var interfacesUntil: Int64 = .min

  /// Opens its sockets while there are descriptors; a failed one is tried again with each question.
  init() { _ = open() }

  private mutating func open() -> SystemError? {
    if diagnosis == nil {
      switch NetlinkSocket.open(.socketDiagnosis) {
      case .success(let opened): diagnosis = opened
      case .failure(let error): return error
      }
    }
    if routes == nil {
      switch NetlinkSocket.open(.route) {
      case .success(let opened): routes = opened
      case .failure(let error): return error
      }
    }
    return nil
  }

  /// The owner of the other end of an accepted connection.
  mutating func owner(of connection: Accepted, now: Int64) -> Answer {
    let answer = look(for: connection, now: now)
    // The socket that was found may belong to the port's next user.
    return connection.descriptor.isConnected ? answer : .gone
  }

  private mutating func look(for connection: Accepted, now: Int64) -> Answer {
    if let error = open() { return .unknown("netlink: \(error)") }
    guard let local = connection.localAddress else { return .unknown("the connection has no address of its own") }
    let pair = Pair(client: connection.peer, proxy: local)
    let first = ask(pair, Link.loopbackIndex)
    if case .unknown(let doubt) = first, doubt.isAbsence {
      switch isOwn(pair) {
      case nil: return .unknown("the kernel does not say whose address \(connection.peer) is")
      case false?: return .nobody
      case true?: return lookEverywhere(for: pair, now: now)
      }
    }
    return Self.answer(first)
  }

  private static func answer(_ found: SocketOwner) -> Answer {
    switch found {
    case .owner(let userID, let cgroup, let inode):
      .owner(LocalClients.Key(userID: userID, cgroup: cgroup), inode: inode)
    case .unknown(.orphan): .gone
    case .unknown(let doubt): .unknown("sock_diag: \(doubt)")
    }
  }

  /// Tries every interface. If the kernel does not find our own end either, it cannot show that a socket is missing.
  private mutating func lookEverywhere(for pair: Pair, now: Int64) -> Answer {
    if now >= interfacesUntil {
      guard let indices = Interfaces.indices() else { return .unknown("the kernel does not list its interfaces") }
      interfaces = indices
      interfacesUntil = now + Self.interfacesMilliseconds
    }
    var seesOwnEnd = false
    for interface in interfaces.prefix(Self.mostInterfaces) {
      let found = ask(pair, interface)
      if case .unknown(let doubt) = found, doubt.isAbsence {
        seesOwnEnd = seesOwnEnd || isThere(pair.reversed, interface)
      } else {
        return Self.answer(found)
      }
    }
    if !seesOwnEnd { return .unknown("sock_diag does not find the proxy's own end of the connection") }
    return interfaces.count > Self.mostInterfaces
      ? .unknown("the machine has too many interfaces to ask by each") : .gone
  }

  private mutating func isThere(_ pair: Pair, _ interface: Int32) -> Bool {
    switch ask(pair, interface) {
    case .owner, .unknown(.state), .unknown(.orphan): true
    case .unknown: false
    }
  }

  private mutating func ask(_ pair: Pair, _ interface: Int32) -> SocketOwner {
    guard let diagnosis else { return .unknown(.malformed) }
    sequence &+= 1
    request.removeAll()
    SocketDiagnosis.write(
      local: pair.client, localPort: pair.clientPort, remote: pair.proxy, remotePort: pair.proxyPort,
      interface: interface, sequence: sequence, to: &request)
    guard diagnosis.send(request) else { return .unknown(.unanswered) }
    while diagnosis.receive(into: &answer) == .datagram {
      if let found = SocketDiagnosis.read(
        answer.bytes, sequence: sequence, local: pair.client, localPort: pair.clientPort, remote: pair.proxy,
        remotePort: pair.proxyPort)
      {
        return found
      }
    }
    return .unknown(.unanswered)
  }

  /// Whether the client's address is one of this machine's; nil if the kernel does not say.
  private mutating func isOwn(_ pair: Pair) -> Bool? {
    if pair.client.isLoopback || pair.client == pair.proxy { return true }
    guard let routes else { return nil }
    sequence &+= 1
    request.removeAll()
    RouteRequests.write(routeTo: pair.client, interface: nil, sequence: sequence, to: &request)
    guard routes.send(request) else { return nil }
    while routes.receive(into: &answer) == .datagram {
      guard let found = RouteAnswer.read(answer.bytes, sequence: sequence, interface: nil) else { continue }
      switch found {
      case .by(let interface, _, _): return interface == Link.loopbackIndex
      case .unreachable: return false
      case .unknown: return nil
      }
    }
    return nil
  }
}

/// The addresses and ports of a connection.
private struct Pair {
  let client: IPAddress
  let clientPort: UInt16
  let proxy: IPAddress
  let proxyPort: UInt16

  init(client: SocketAddress, proxy: SocketAddress) {
    self.init(
      client: IPAddress(client).unmapped, clientPort: client.port, proxy: IPAddress(proxy).unmapped,
      proxyPort: proxy.port)
  }

  private init(client: IPAddress, clientPort: UInt16, proxy: IPAddress, proxyPort: UInt16) {
    self.client = client
    self.clientPort = clientPort
    self.proxy = proxy
    self.proxyPort = proxyPort
  }

  /// As the proxy's end sees them.
  var reversed: Pair { Pair(client: proxy, clientPort: proxyPort, proxy: client, proxyPort: clientPort) }
}

// Whose socket is at the other end of a connection: the kernel is asked for it (sock_diag(7)) by its addresses and
// ports, which nobody else can have as long as our end is open. The answer counts only if the connection still stands
// after it.
//
// Nobody is innocent: that there is no such socket says something only of an address that is another machine's. The
// client of an address of this machine had a socket when it connected, so it has closed it since, and whose it was
// cannot be found out any more. A socket that is bound to an interface, or has a link-local address, is found only by
// the number of that interface; so before a client counts as gone it is looked for by all of them.

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
    /// The client's program is gone, and with it what could be known of it.
    case gone
    /// The kernel could not be asked, or gave no clear answer.
    case unknown(String)
  }

  /// Interfaces by which a socket is looked for within a turn of the loop, some two microseconds each. On a machine
  /// with more of them a client that is found by none of these is unknown.
  static let mostInterfaces = 64
  /// How long the list of interfaces is relied on, in milliseconds: whoever closes connections without end makes the
  /// loop ask for it no more often than this.
  static let interfacesMilliseconds: Int64 = 1000

  private var diagnosis: NetlinkSocket? = nil
  private var routes: NetlinkSocket? = nil
  private var sequence: UInt32 = 0
  private var request = ByteBuffer()
  private var answer = ByteBuffer()
  private var interfaces: [Int32] = []
  private var interfacesUntil: Int64 = .min

  /// Opens what it asks with while there are descriptors; what fails is tried again with each question.
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

  /// Who has the other end of a connection that was accepted.
  mutating func owner(of connection: Accepted, now: Int64) -> Answer {
    let answer = look(for: connection, now: now)
    // What was found may be of the next one to have the port.
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

  /// By every interface. A kernel that does not find our own end either cannot say that a socket is not there.
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

  /// Whether the client's address is one of this machine's; nil where the kernel does not say.
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

  /// As the proxy's end has them.
  var reversed: Pair { Pair(client: proxy, clientPort: proxyPort, proxy: client, proxyPort: clientPort) }
}

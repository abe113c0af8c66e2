// The kernel of this machine understands what is asked of it, and is understood: on loopback alone, without privilege.

import Bytes
import Glibc
import TestSupport
import Testing

@testable import Reachability

/// A netlink socket. It is bound by its first message, and messages without an address go to the kernel.
private final class KernelSocket {
  /// NETLINK_ROUTE and NETLINK_SOCK_DIAG.
  enum Family: Int32 {
    case route = 0
    case diagnosis = 4
  }

  /// AF_NETLINK, SOL_NETLINK and NETLINK_ADD_MEMBERSHIP.
  private static let domain: Int32 = 16
  private static let level: Int32 = 270
  private static let addMembership: Int32 = 1

  private let descriptor: Int32

  init(_ family: Family) throws {
    let descriptor = socket(Self.domain, Int32(SOCK_RAW.rawValue) | Int32(SOCK_CLOEXEC.rawValue), family.rawValue)
    try #require(descriptor >= 0)
    self.descriptor = descriptor
  }

  deinit { close(descriptor) }

  func join(_ group: UInt32) -> Bool {
    var group = group
    return setsockopt(descriptor, Self.level, Self.addMembership, &group, 4) == 0
  }

  func send(_ request: [UInt8]) throws {
    try #require(Glibc.send(descriptor, request, request.count, 0) == request.count)
  }

  func receive() throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: NetlinkMessages.longestDatagramBytes)
    let count = recv(descriptor, &bytes, bytes.count, 0)
    try #require(count > 0)
    return Array(bytes.prefix(count))
  }
}

/// A connection over loopback: a client, and the end of it that a proxy has.
private final class Connection {
  let client: Int32
  let accepted: Int32
  let clientPort: UInt16
  let proxyPort: UInt16

  /// `client`: AF_INET, or AF_INET6, which connects to the mapped address.
  init(clientFamily: Int32 = AF_INET) throws {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(listener) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    try #require(Self.with(&address) { bind(listener, $0, $1) } == 0)
    try #require(listen(listener, 1) == 0)
    let port = try Self.port(listener)
    let client = socket(clientFamily, Int32(SOCK_STREAM.rawValue), 0)
    if clientFamily == AF_INET {
      address.sin_port = port.bigEndian
      try #require(Self.with(&address) { connect(client, $0, $1) } == 0)
    } else {
      var mapped = sockaddr_in6()
      mapped.sin6_family = sa_family_t(AF_INET6)
      mapped.sin6_port = port.bigEndian
      withUnsafeMutableBytes(of: &mapped.sin6_addr) { $0.copyBytes(from: Self.mappedLoopback) }
      try #require(Self.with(&mapped) { connect(client, $0, $1) } == 0)
    }
    let accepted = accept(listener, nil, nil)
    try #require(accepted >= 0)
    self.client = client
    self.accepted = accepted
    clientPort = try Self.port(client)
    proxyPort = port
  }

  private static let mappedLoopback: [UInt8] = [UInt8](repeating: 0, count: 10) + [255, 255, 127, 0, 0, 1]

  private static func with<Address>(
    _ address: inout Address, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) -> Int32 {
    withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<Address>.size)) }
    }
  }

  /// The port stands at the same place in the addresses of both families.
  private static func port(_ descriptor: Int32) throws -> UInt16 {
    var storage = sockaddr_storage()
    var count = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let status = withUnsafeMutablePointer(to: &storage) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &count) }
    }
    try #require(status == 0)
    return withUnsafeBytes(of: storage) { UInt16($0[2]) << 8 | UInt16($0[3]) }
  }
}

@Suite struct KernelTests {
  private static func dump(_ socket: KernelSocket, _ request: [UInt8], sequence: UInt32) throws -> [RouteMessage] {
    try socket.send(request)
    var all: [RouteMessage] = []
    while !all.contains(.done(sequence: sequence)) { all += news(try socket.receive()) }
    return all
  }

  @Test func theLoopbackIsAmongTheLinks() throws {
    let socket = try KernelSocket(.route)
    var state = NetworkState()
    for message in try Self.dump(socket, RouteRequests.dumpLinks(sequence: 5), sequence: 5) {
      _ = state.apply(message)
    }
    for message in try Self.dump(socket, RouteRequests.dumpAddresses(sequence: 6), sequence: 6) {
      _ = state.apply(message)
    }
    #expect(state.links[Link.loopbackIndex] == loopback)
    #expect(state.addresses[Link.loopbackIndex]?.contains("127.0.0.1") == true)
    let answer = try Self.ask(socket, "127.0.0.1", nil)
    #expect(state.status(of: answer ?? .unknown) == .wired)
  }

  private static func ask(_ socket: KernelSocket, _ address: IPAddress, _ interface: Int32?) throws -> RouteAnswer? {
    try socket.send(RouteRequests.route(to: address, interface: interface, sequence: 9))
    let bytes = try socket.receive()
    return RouteAnswer.read(bytes.span, sequence: 9, interface: interface)
  }

  @Test func theWayToLoopbackIsTheLoopback() throws {
    let socket = try KernelSocket(.route)
    let answer = RouteAnswer.by(interface: 1, source: "127.0.0.1", gateway: nil)
    #expect(try Self.ask(socket, "127.0.0.1", nil) == answer)
    #expect(try Self.ask(socket, "127.0.0.1", 1) == answer)
    #expect(try Self.ask(socket, "::ffff:127.0.0.1", nil) == answer)
    // By the link alone it would be reached: that no route leads there is what the entry of the table says.
    #expect(try Self.ask(socket, "255.255.255.255", 1) == .unreachable(error: RouteError.hostUnreachable))
    #expect(try Self.ask(socket, "127.0.0.1", .max) == .unreachable(error: RouteError.noDevice))
  }

  @Test func theGroupsCanBeJoined() throws {
    let socket = try KernelSocket(.route)
    for group in RouteRequests.groups { #expect(socket.join(group), "group \(group)") }
  }

  // MARK: Owners

  private static func owner(_ connection: Connection) throws -> SocketOwner? {
    let socket = try KernelSocket(.diagnosis)
    var buffer = ByteBuffer()
    SocketDiagnosis.write(
      local: "127.0.0.1", localPort: connection.clientPort, remote: "127.0.0.1", remotePort: connection.proxyPort,
      sequence: 3, to: &buffer)
    try socket.send(buffer.array)
    let bytes = try socket.receive()
    return SocketDiagnosis.read(
      bytes.span, sequence: 3, local: "127.0.0.1", localPort: connection.clientPort,
      remote: "127.0.0.1", remotePort: connection.proxyPort)
  }

  private static func isOwn(_ owner: SocketOwner?) -> Bool {
    if case .owner(let userID, cgroup: _, let inode)? = owner { return userID == getuid() && inode > 0 }
    return false
  }

  @Test(arguments: [AF_INET, AF_INET6]) func aClientOfThisProcessIsOurs(family: Int32) throws {
    let connection = try Connection(clientFamily: family)
    defer { close(connection.accepted) }
    #expect(Self.isOwn(try Self.owner(connection)))
    shutdown(connection.client, Int32(SHUT_WR))
    #expect(Self.isOwn(try Self.owner(connection)), "it has ended its writing and lives")
    close(connection.client)
    #expect(try Self.owner(connection) == .unknown(.orphan))
  }

  @Test func aClientThatIsGoneIsNobody() throws {
    let connection = try Connection()
    close(connection.client)
    close(connection.accepted)
    guard case .unknown = try Self.owner(connection) else {
      Issue.record("a connection that is closed at both ends has an owner")
      return
    }
  }
}

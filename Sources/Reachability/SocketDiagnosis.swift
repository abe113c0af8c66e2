// Finds the owner of the client's end of a connection. The kernel is asked for the socket with the client's own address
// and port (sock_diag(7), SOCK_DIAG_BY_FAMILY; struct inet_diag_req_v2 and inet_diag_msg of linux/inet_diag.h). This
// needs no privilege, but the client must be in the network namespace of the asking process.
//
// This decides who a client is, so it only reports what is certain:
// - If no connection has the four numbers, the kernel answers with a listener on the port, if there is one. So the
//   numbers of the answer are compared with those of the request, and the state must be that of a connection.
// - A socket that its program has closed lives on as an orphan in FIN_WAIT, then in TIME_WAIT. Its user ID is then 0
//   (always in TIME_WAIT, and for orphans of older kernels), and it has no inode any more. If the program has only
//   ended its writing, the socket still has its inode and its owner.
// - SYN_SENT cannot be the peer of an accepted connection. CLOSE_WAIT, CLOSING and LAST_ACK mean that the server's end
//   was closed. So they are not the peer of a connection that is being served, but perhaps of an earlier one with the
//   same numbers.
//
// A user ID without a mapping in the user namespace of the asking process is reported as 65534.
// Seen with Linux 6.18: an IPv4 request also finds the IPv6 sockets that are connected to mapped addresses. So IPv4 is
// requested if both addresses are IPv4 or mapped; the answer is then in the family of the socket.

import Bytes

/// The user and the control group of a socket.
public enum SocketOwner: Equatable, Sendable {
  /// `cgroup` is the ID of the cgroup2 in which the socket was made, which is the inode number of its directory; nil if
  /// the kernel does not report it (before 5.7, or built without). `inode` is the socket's own number, by which the
  /// processes that have it open are found.
  case owner(userID: UInt32, cgroup: UInt64?, inode: UInt32)
  case unknown(Doubt)

  /// Why there is no owner.
  public enum Doubt: Equatable, Sendable {
    /// The kernel's errno: ENOENT (2) if there is no such socket in this network namespace.
    case error(Int32)
    /// The socket is in a state (TCP_… of net/tcp_states.h) that is impossible for a client being served.
    case state(UInt8)
    /// Its program has closed it and will not read an answer.
    case orphan
    /// The answer is about another socket.
    case mismatch
    case malformed
    /// The request could not be sent, or there was no answer.
    case unanswered

    /// Whether the kernel says that there is no such connection: no socket, or one that cannot belong to a client being
    /// served.
    public var isAbsence: Bool {
      switch self {
      case .error(let number): number == Self.noEntry
      case .state, .mismatch: true
      case .orphan, .malformed, .unanswered: false
      }
    }

    /// ENOENT.
    private static let noEntry: Int32 = 2
  }
}

public enum SocketDiagnosis {
  /// Bytes of a request.
  public static let requestBytes = 72

  /// Appends the request for the TCP socket with the own address and port `local` and the peer `remote`. For the client
  /// of a proxy, these are its own and those of the proxy. Allocates nothing if the buffer has room.
  ///
  /// `interface` is the one by which the packets of the connection arrive. A socket that is bound to an interface is
  /// only found under this one, any other socket under each. Between programs of one machine it is the loopback,
  /// whatever the addresses, unless the socket is bound to another interface or the addresses are link-local.
  public static func write(
    local: IPAddress, localPort: UInt16, remote: IPAddress, remotePort: UInt16,
    interface: Int32 = Link.loopbackIndex, sequence: UInt32, to buffer: inout ByteBuffer
  ) {
    let local = local.unmapped
    let remote = remote.unmapped
    buffer.reserve(requestBytes)
    Netlink.writeHeader(
      type: byFamily, flags: Netlink.request, sequence: sequence,
      payload: requestBytes - NetlinkMessage.headerBytes, to: &buffer)
    let isIPv4 = local.isIPv4 && remote.isIPv4
    buffer.append(isIPv4 ? AddressFamily.ipv4 : AddressFamily.ipv6)
    buffer.append(tcp)
    // Neither extensions nor padding.
    buffer.append(zeros: 2)
    buffer.append(host: allStates)
    buffer.append(network: localPort)
    buffer.append(network: remotePort)
    writeWide(local, isIPv4: isIPv4, to: &buffer)
    writeWide(remote, isIPv4: isIPv4, to: &buffer)
    buffer.append(host: UInt32(bitPattern: interface))
    // INET_DIAG_NOCOOKIE: any socket with these numbers.
    buffer.append(host: UInt32.max)
    buffer.append(host: UInt32.max)
  }

  /// The answer to the request with this sequence and these numbers; nil if `datagram` has none.
  public static func read(
    _ datagram: Span<UInt8>, sequence: UInt32, local: IPAddress, localPort: UInt16, remote: IPAddress,
    remotePort: UInt16
  ) -> SocketOwner? {
    var messages = NetlinkMessages()
    while let message = messages.next(datagram) {
      if message.sequence != sequence { continue }
      if message.type == Netlink.error {
        guard let error = Netlink.errorNumber(message, datagram) else { return .unknown(.malformed) }
        if error > 0 { return .unknown(.error(error)) }
      } else if message.type == byFamily {
        guard let socket = DiagnosedSocket(datagram, message.payload) else { return .unknown(.malformed) }
        if socket.localPort != localPort || socket.remotePort != remotePort || socket.local != local.unmapped
          || socket.remote != remote.unmapped
        {
          return .unknown(.mismatch)
        }
        return socket.owner
      }
    }
    return nil
  }

  /// Sixteen bytes; an IPv4 request uses the first four.
  private static func writeWide(_ address: IPAddress, isIPv4: Bool, to buffer: inout ByteBuffer) {
    if address.isIPv4 && !isIPv4 {
      return IPAddress(ipv6High: 0, low: 0xffff_0000_0000 | address.low).writeBytes(to: &buffer)
    }
    address.writeBytes(to: &buffer)
    if isIPv4 { buffer.append(zeros: 12) }
  }

  /// SOCK_DIAG_BY_FAMILY.
  private static let byFamily: UInt16 = 20
  /// IPPROTO_TCP.
  private static let tcp: UInt8 = 6
  /// The kernel only uses the states when it lists sockets, not when it is asked for one.
  private static let allStates = UInt32.max
}

/// The kernel's report about a socket (struct inet_diag_msg, and one attribute).
private struct DiagnosedSocket {
  private static let headerBytes = 72
  /// INET_DIAG_CGROUP_ID.
  private static let cgroupAttribute: UInt16 = 21
  let local: IPAddress
  let localPort: UInt16
  let remote: IPAddress
  let remotePort: UInt16
  private let state: UInt8
  private let userID: UInt32
  private let inode: UInt32
  private let cgroup: UInt64?

  init?(_ datagram: Span<UInt8>, _ payload: Range<Int>) {
    guard payload.count >= Self.headerBytes else { return nil }
    let begin = payload.lowerBound
    let family = datagram[begin]
    let width = family == AddressFamily.ipv4 ? 4 : 16
    guard
      let local = IPAddress(datagram, begin + 8..<begin + 8 + width, family: family),
      let remote = IPAddress(datagram, begin + 24..<begin + 24 + width, family: family)
    else { return nil }
    var cgroup: UInt64? = nil
    var attributes = NetlinkAttributes(begin + Self.headerBytes..<payload.upperBound)
    while let attribute = attributes.next(datagram) {
      if attribute.type == Self.cgroupAttribute, attribute.value.count == 8 {
        cgroup = datagram.hostUInt64(at: attribute.value.lowerBound)
      }
    }
    if attributes.isMalformed { return nil }
    self.local = local.unmapped
    self.remote = remote.unmapped
    localPort = datagram.networkUInt16(at: begin + 4)
    remotePort = datagram.networkUInt16(at: begin + 6)
    state = datagram[begin + 1]
    userID = datagram.hostUInt32(at: begin + 64)
    inode = datagram.hostUInt32(at: begin + 68)
    self.cgroup = cgroup
  }

  var owner: SocketOwner {
    switch state {
    // TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_FIN_WAIT2.
    case 1, 4, 5: inode == 0 ? .unknown(.orphan) : .owner(userID: userID, cgroup: cgroup, inode: inode)
    // TCP_TIME_WAIT: the later state of an orphan.
    case 6: .unknown(.orphan)
    default: .unknown(.state(state))
    }
  }
}

// Who owns the client's end of a connection: the kernel is asked for the socket with the client's own address and port
// (sock_diag(7), SOCK_DIAG_BY_FAMILY; struct inet_diag_req_v2 and inet_diag_msg of linux/inet_diag.h). No privilege is
// needed, but the client must be in the network namespace of whoever asks.
//
// This decides who a client is, so it says only what is certain:
// - Where no connection has the four numbers, the kernel answers with a listener on the port, if there is one. So the
//   numbers of the answer are compared with those asked for, and the state must be that of a connection.
// - A socket that its program has closed lives on as an orphan in FIN_WAIT, then in TIME_WAIT, and its user ID is then
//   0 (always in TIME_WAIT, and for orphans of older kernels). It has no inode any more. One whose program has only
//   ended its writing still has its inode, and is somebody's.
// - SYN_SENT is no peer of a connection that was accepted. CLOSE_WAIT, CLOSING and LAST_ACK say that the server's end
//   was closed, so they are the peer of none that is being served: perhaps of an earlier one with the same numbers.
//
// A user ID that has no place in the user namespace of whoever asks is told as 65534.
// Seen with Linux 6.18: an IPv4 question finds the IPv6 sockets that are connected to mapped addresses, so IPv4 is
// asked for wherever both addresses are IPv4 or mapped; the answer is then in the family of the socket.

import Bytes

/// The user and the control group of a socket.
public enum SocketOwner: Equatable, Sendable {
  /// `cgroup` is the ID of the cgroup2 that the socket was made in, which is the inode number of its directory; nil
  /// where the kernel does not tell it (before 5.7, or built without). `inode` is the number of the socket's own, by which
  /// the processes are found that hold it.
  case owner(userID: UInt32, cgroup: UInt64?, inode: UInt32)
  case unknown(Doubt)

  /// Why nobody is named.
  public enum Doubt: Equatable, Sendable {
    /// The kernel's errno: ENOENT (2) where there is no such socket in this network namespace.
    case error(Int32)
    /// The socket is in a state (TCP_… of net/tcp_states.h) that no client being served is in.
    case state(UInt8)
    /// Its program has closed it, and will not read an answer.
    case orphan
    /// The answer is about another socket.
    case mismatch
    case malformed
    /// The question could not be asked, or nothing came back.
    case unanswered

    /// Whether the kernel says that there is no such connection: none, or one that no client being served is at the
    /// end of.
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

  /// Appends the question for the TCP socket whose own address and port are `local`, and whose peer's are `remote`: for
  /// the client of a proxy its own, and those of the proxy. Allocates nothing where the buffer has room.
  ///
  /// `interface` is the one that the packets of the connection come in by. A socket that is bound to an interface is
  /// found only under this, any other under each. Between programs of one machine it is the loopback, whatever the
  /// addresses, unless the socket is bound to another or the addresses are link-local.
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

  /// The answer to the question with this sequence and these numbers; nil where `datagram` has none.
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

  /// Sixteen bytes, of which an IPv4 question uses the first four.
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
  /// The kernel heeds the states only where it lists sockets, not where it is asked for one.
  private static let allStates = UInt32.max
}

/// What the kernel says of a socket (struct inet_diag_msg, and one attribute).
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
    // TCP_TIME_WAIT: what becomes of an orphan.
    case 6: .unknown(.orphan)
    default: .unknown(.state(state))
    }
  }
}

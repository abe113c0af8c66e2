// A socket to the kernel: the kernel answers a question before the sending returns.

import Bytes
import CLinux

public struct NetlinkSocket: Sendable {
  public enum `Protocol`: Sendable {
    /// Links, addresses and routes (rtnetlink(7)).
    case route
    /// Who owns a socket (sock_diag(7)).
    case socketDiagnosis
  }

  /// The outcome of a receive.
  public enum Reception: Equatable, Sendable {
    /// A datagram is in the buffer.
    case datagram
    case nothing
    /// Some were lost because they were not read in time: what is known has to be asked for again.
    case overrun
    case failed(SystemError)
  }

  /// Room for one datagram: in a dump, the kernel fills at most 32 KiB (netlink(7), NLMSG_GOODSIZE, af_netlink.c).
  public static let datagramBytes = 64 << 10

  public let descriptor: Descriptor

  /// `receiveBytes`: the most that may wait to be read, 0 for the system's default.
  public static func open(
    _ kind: Protocol, groups: [UInt32] = [], receiveBytes: Int32 = 0
  ) -> Result<NetlinkSocket, SystemError> {
    let number = cl_netlink_open(kind == .route ? CL_NETLINK_ROUTE : CL_NETLINK_SOCK_DIAG, receiveBytes)
    guard number >= 0 else { return .failure(SystemError(-number)) }
    for group in groups {
      let result = cl_netlink_join(number, group)
      if result < 0 {
        _ = cl_close(number)
        return .failure(SystemError(-result))
      }
    }
    return .success(NetlinkSocket(descriptor: Descriptor(number: number)))
  }

  public func send(_ request: borrowing ByteBuffer) -> Bool {
    if case .moved = descriptor.write(request) { return true }
    return false
  }

  /// Reads the kernel's next datagram into `buffer`, replacing its contents.
  public func receive(into buffer: inout ByteBuffer) -> Reception {
    buffer.removeAll()
    buffer.reserve(Self.datagramBytes)
    let number = descriptor.number
    var result = 0
    _ = unsafe buffer.fillTail { tail in
      result = unsafe cl_netlink_receive(number, tail.baseAddress, tail.count)
      return max(0, result)
    }
    if result > 0 { return .datagram }
    switch Int32(truncatingIfNeeded: -result) {
    case CL_EAGAIN, 0: return .nothing
    case CL_ENOBUFS, CL_EMSGSIZE: return .overrun
    case let error: return .failed(SystemError(error))
    }
  }

  public func close() { descriptor.close() }
}

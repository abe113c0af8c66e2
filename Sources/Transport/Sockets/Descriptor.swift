// A file descriptor and its operations. Nothing blocks: if an operation cannot be done now, that is a value, not an
// error.

import Bytes
import CLinux

/// The outcome of a read, write or move.
public enum Transfer: Equatable, Sendable {
  /// This many bytes; never zero for a read.
  case moved(Int)
  /// A read reached the end of the stream.
  case ended
  /// Nothing can be done until the descriptor is ready again.
  case wouldBlock
  /// The connection is broken; the error number.
  case failed(Int32)

  init(reading result: Int) {
    if result > 0 { self = .moved(result) } else if result == 0 { self = .ended } else { self.init(failure: result) }
  }

  init(writing result: Int) {
    if result >= 0 { self = .moved(result) } else { self.init(failure: result) }
  }

  private init(failure result: Int) {
    self = result == -Int(CL_EAGAIN) ? .wouldBlock : .failed(Int32(truncatingIfNeeded: -result))
  }
}

/// A descriptor number from the kernel. Its opener closes it, once.
public struct Descriptor: Equatable, Sendable {
  public let number: Int32

  public init(number: Int32) { self.number = number }

  /// Reads into the free tail of `buffer`, which must have room.
  public func read(into buffer: inout ByteBuffer) -> Transfer {
    let number = self.number
    var result = 0
    _ = unsafe buffer.fillTail { tail in
      result = unsafe cl_read(number, tail.baseAddress, tail.count)
      return max(0, result)
    }
    return Transfer(reading: result)
  }

  /// Writes `first` and then `second`, in one call.
  public func write(_ first: borrowing ByteBuffer, then second: Span<UInt8>) -> Transfer {
    let head = unsafe first.unsafeReadable
    let number = self.number
    return unsafe second.withUnsafeBufferPointer { tail in
      if head.count == 0 { return unsafe Transfer(writing: cl_write(number, tail.baseAddress, tail.count)) }
      if tail.count == 0 { return unsafe Transfer(writing: cl_write(number, head.baseAddress, head.count)) }
      return unsafe Transfer(writing: cl_write2(number, head.baseAddress, head.count, tail.baseAddress, tail.count))
    }
  }

  public func write(_ buffer: borrowing ByteBuffer) -> Transfer {
    let readable = unsafe buffer.unsafeReadable
    return unsafe Transfer(writing: cl_write(number, readable.baseAddress, readable.count))
  }

  /// Makes a listening socket from another process behave like our own: it never blocks, and its connections send at
  /// once.
  public func adopt() -> Bool { cl_adopt_listener(number) >= 0 }

  /// Moves up to `count` bytes into or out of a pipe without copying them (splice(2)).
  public func splice(to other: Descriptor, count: Int, more: Bool) -> Transfer {
    Transfer(reading: cl_splice(number, other.number, count, more))
  }

  public func shutdownWrite() { _ = cl_shutdown_write(number) }
  /// Makes `close` show the peer that what it got is not the whole.
  public func resetOnClose() { _ = cl_reset_on_close(number) }
  public func close() { _ = cl_close(number) }

  /// The pending error of a socket whose connect has finished; zero if it succeeded.
  public var connectError: Int32 { -cl_socket_error(number) }

  /// Whether a TCP connection is open: the peer is still there, or has closed only its sending direction.
  public var isConnected: Bool { cl_is_connected(number) }

  /// Whether the peer has closed its sending direction or more; seen even while bytes before that are unread.
  public var peerHasClosed: Bool { cl_peer_closed(number) }

  /// About how many bytes a TCP socket accepts at once: the room in its buffer, as long as less than `mostUnsentBytes`
  /// waits to be sent. Zero if unknown.
  public var sendRoom: Int { Int(cl_send_room(number)) }

  /// How much of the kernel's memory a client that does not read uses: twice the size of a read, so that a fast one
  /// never waits for the loop.
  public static let mostUnsentBytes = Int(CL_UNSENT_BYTES)

  public var localAddress: SocketAddress? {
    var raw = cl_address()
    return cl_local_address(number, &raw) >= 0 ? SocketAddress(raw) : nil
  }

  /// Marks packets from now on with a code point of RFC 2474. It is only a wish: a system that refuses it sends
  /// unmarked.
  public func mark(codePoint: UInt8, isIPv4: Bool) {
    _ = cl_set_traffic_class(number, isIPv4, Self.trafficClass(of: codePoint))
  }

  /// The code point is in the upper six bits; the lower two belong to the network (RFC 3168).
  static func trafficClass(of codePoint: UInt8) -> Int32 { Int32(codePoint) << 2 }

  /// Whether a connection that should be silent still is: nothing to read and no end.
  public var isSilent: Bool { cl_peek(number) == -CL_EAGAIN }
}

/// A system error, with its text.
public struct SystemError: Error, Equatable, Sendable, CustomStringConvertible {
  public let number: Int32

  public init(_ number: Int32) { self.number = number }

  /// The peer broke the connection off.
  public static let connectionReset = SystemError(CL_ECONNRESET)
  /// The name belongs to something that is not a socket.
  public static let noSocket = SystemError(CL_ENOTSOCK)
  public static let noMemory = SystemError(CL_ENOMEM)
  /// Something should have answered and did not.
  public static let noAnswer = SystemError(CL_ETIMEDOUT)
  /// A disk failed.
  public static let inputOutput = SystemError(CL_EIO)
  public static let networkUnreachable = SystemError(CL_ENETUNREACH)

  /// Something else than a file, such as a pipe, of which a reader would have to wait. The system has no number for it.
  public static let notRegular = SystemError(-1)

  /// A file that another user may have prepared.
  public static let foreign = SystemError(-2)

  public var description: String {
    switch self {
    case .notRegular: "Not a regular file"
    case .foreign: "It belongs to another user"
    default: String(cString: cl_error_text(number))
    }
  }

  /// Whether this machine does not have the address, or no address of its family.
  public var isAddressMissing: Bool { number == CL_EADDRNOTAVAIL || number == CL_EAFNOSUPPORT }
  public var isRefusal: Bool { number == CL_ECONNREFUSED }
  public var isTimeout: Bool { number == CL_ETIMEDOUT }
  public var isUnreachable: Bool {
    [CL_EHOSTUNREACH, CL_ENETUNREACH, CL_ENETDOWN, CL_ENODEV].contains(number)
  }

  /// Whether the process or the machine has no descriptor or memory left for another connection.
  public var isExhaustion: Bool {
    [CL_EMFILE, CL_ENFILE, CL_ENOBUFS, CL_ENOMEM].contains(number)
  }
}

/// A listening TCP socket.
public struct Listener: Equatable, Sendable {
  /// Who owns it: one loop, which closes it; or all loops and the opener, so no loop closes it.
  public enum Owner: Sendable { case loop, other }

  public let descriptor: Descriptor
  public let address: SocketAddress
  public let owner: Owner

  /// What to wait for.
  public var interest: Interest { owner == .loop ? .read : .sharedAccept }

  /// The length of the kernel's queue of connections; the kernel caps it at net.core.somaxconn.
  static let backlog: Int32 = 4096

  /// Opens a listener whose port other listeners of this process may share. `probes`: first checks whether the port is
  /// taken. `awaitsAddress`: the machine need not have the address yet.
  public static func open(
    _ address: SocketAddress, probes: Bool, awaitsAddress: Bool = false
  ) -> Result<Listener, SystemError> {
    var raw = address.raw
    // With SO_REUSEPORT, a second daemon of the same user would silently share the port.
    if probes, address.port != 0 {
      let probe = cl_probe_listen(&raw, awaitsAddress)
      if probe < 0 { return .failure(SystemError(-probe)) }
    }
    let number = cl_listen(&raw, backlog, true, awaitsAddress)
    guard number >= 0 else { return .failure(SystemError(-number)) }
    let descriptor = Descriptor(number: number)
    return .success(Listener(descriptor: descriptor, address: descriptor.localAddress ?? address, owner: .loop))
  }

  /// Takes over a listening socket that another process opened.
  public static func adopt(_ descriptor: Descriptor) -> Listener? {
    guard let address = descriptor.localAddress, descriptor.adopt() else { return nil }
    return Listener(descriptor: descriptor, address: address, owner: .other)
  }

  /// Accepts the next waiting connection.
  public func accept() -> Acceptance {
    var raw = cl_address()
    let number = cl_accept(descriptor.number, &raw)
    if number >= 0 {
      return .accepted(
        Accepted(descriptor: Descriptor(number: number), peer: SocketAddress(raw), listening: address))
    }
    if number == -CL_EAGAIN { return .none }
    return .failed(SystemError(-number))
  }
}

/// The outcome of accepting a connection.
public enum Acceptance: Equatable, Sendable {
  case accepted(Accepted)
  case none
  case failed(SystemError)
}

/// A connection accepted from a listener.
public struct Accepted: Equatable, Sendable {
  public let descriptor: Descriptor
  public let peer: SocketAddress
  /// nil if the listener's address does not determine it.
  private let ownAddress: SocketAddress?

  /// `listening`: the address of its listener, if known.
  public init(descriptor: Descriptor, peer: SocketAddress, listening: SocketAddress? = nil) {
    self.descriptor = descriptor
    self.peer = peer
    ownAddress = listening.flatMap { $0.isEveryAddress ? nil : $0 }
  }

  /// Its own address. The kernel is asked only if the listener does not determine it.
  public var localAddress: SocketAddress? { ownAddress ?? descriptor.localAddress }
}

/// A connection that is being opened. If it is not `isConnected` yet, it will be, or will have failed, once it is
/// writable.
public struct Outgoing: Equatable, Sendable {
  public let descriptor: Descriptor
  public let isConnected: Bool

  /// `codePoint`: the mark of every packet (RFC 2474). `interface`: the name of the interface that they leave by; nil:
  /// as the routing table says.
  public static func open(
    _ address: SocketAddress, codePoint: UInt8 = 0, interface: String? = nil
  ) -> Result<Outgoing, SystemError> {
    var raw = address.raw
    var connected = false
    // For C, a nil string is a null pointer.
    let number = cl_connect(&raw, Descriptor.trafficClass(of: codePoint), interface, &connected)
    guard number >= 0 else { return .failure(SystemError(-number)) }
    return .success(Outgoing(descriptor: Descriptor(number: number), isConnected: connected))
  }
}

/// A pipe that moves bytes from socket to socket without copying them.
public struct Pipe: Equatable, Sendable {
  public let readEnd: Descriptor
  public let writeEnd: Descriptor
  /// In bytes.
  public let capacity: Int

  /// How much one move may carry: more than a socket buffer usually has, and small enough that the pipe memory of a
  /// user without privileges (64 MiB by default) serves a few hundred streams.
  static let wantedCapacity: Int32 = 256 << 10

  public static func open() -> Pipe? {
    var readEnd: Int32 = -1
    var writeEnd: Int32 = -1
    let capacity = cl_pipe(&readEnd, &writeEnd, wantedCapacity)
    guard capacity > 0 else { return nil }
    return Pipe(
      readEnd: Descriptor(number: readEnd), writeEnd: Descriptor(number: writeEnd), capacity: Int(capacity))
  }

  public func close() {
    readEnd.close()
    writeEnd.close()
  }
}

// Sockets of the file system (unix(7)): what the admin API listens on, and how commands reach it.
// Tests: LocalSocketTests.

import Bytes
import CLinux

/// A listening socket of the file system.
public struct LocalListener: Sendable {
  public let descriptor: Descriptor

  public init(descriptor: Descriptor) { self.descriptor = descriptor }

  /// Connections that the kernel keeps waiting: commands and scrapers, never many.
  static let backlog: Int32 = 64

  /// Opens one under `path`, at most 107 bytes long. A socket that nobody listens on any more is what a process left that
  /// was killed, and makes way; one that answers does not.
  public static func open(_ path: String, mode: UInt32) -> Result<LocalListener, SystemError> {
    var number = cl_listen_local(path, mode, backlog)
    if number == -CL_EADDRINUSE {
      let other = cl_connect_local(path)
      if other >= 0 { _ = cl_close(other) }
      if other == -CL_ECONNREFUSED {
        switch cl_unlink_socket(path) {
        case 0...: number = cl_listen_local(path, mode, backlog)
        case -CL_EEXIST: return .failure(.noSocket)
        default: break
        }
      }
    }
    return number >= 0
      ? .success(LocalListener(descriptor: Descriptor(number: number))) : .failure(SystemError(-number))
  }

  /// Takes the name away, so that nobody finds what does not answer any more.
  public static func remove(_ path: String) { _ = cl_unlink_socket(path) }
}

extension Descriptor {
  /// Takes the next connection that waits on a listening socket, whoever it is from.
  public func accept() -> Descriptor? {
    var raw = cl_address()
    let number = cl_accept(self.number, &raw)
    return number >= 0 ? Descriptor(number: number) : nil
  }

  /// The user of the process that connected to this socket of the file system (SO_PEERCRED, unix(7)), as it was when it
  /// connected; nil where the kernel does not say.
  public var peerUserID: UInt32? {
    let user = cl_peer_user(number)
    return user >= 0 ? UInt32(truncatingIfNeeded: user) : nil
  }
}

/// A connection to a socket of the file system, for a program that has nothing else to do: it waits.
public struct LocalConnection {
  private let descriptor: Descriptor

  public static func open(_ path: String) -> Result<LocalConnection, SystemError> {
    let number = cl_connect_local(path)
    return number >= 0
      ? .success(LocalConnection(descriptor: Descriptor(number: number))) : .failure(SystemError(-number))
  }

  /// Sends all of `text`; false where the other side is gone.
  public func send(_ text: String) -> Bool {
    var buffer = ByteBuffer()
    buffer.append(text)
    while !buffer.isEmpty {
      guard case .moved(let count) = descriptor.write(buffer) else { return false }
      buffer.consume(count)
    }
    return true
  }

  /// Waits for something to be read, at most this long; false where nothing came.
  public func awaits(milliseconds: Int32) -> Bool { Poll.readable(descriptor, milliseconds: milliseconds) }

  /// Waits for more and appends it; false at the end.
  public func receive(into buffer: inout ByteBuffer) -> Bool {
    buffer.reserve(Self.readBytes)
    if case .moved = descriptor.read(into: &buffer) { return true }
    return false
  }

  /// Waits for more, at most this long; false where nothing comes.
  public func waits(milliseconds: Int32) -> Bool {
    Poll.either(descriptor, descriptor, milliseconds: milliseconds).one
  }

  /// Waits until there is more, or `other` can be read, at most this long, and answers which.
  public func waits(orFor other: Descriptor, milliseconds: Int32) -> (connection: Bool, other: Bool) {
    let ready = Poll.either(descriptor, other, milliseconds: milliseconds)
    return (ready.one, ready.other)
  }

  private static let readBytes = 16 << 10

  public func close() { descriptor.close() }
}

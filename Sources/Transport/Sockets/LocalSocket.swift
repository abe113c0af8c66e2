// Sockets in the file system (unix(7)): the admin API listens on one, and commands reach it there.
// Tests: LocalSocketTests.

import Bytes
import CLinux

/// A listening socket in the file system.
public struct LocalListener: Sendable {
  public let descriptor: Descriptor

  public init(descriptor: Descriptor) { self.descriptor = descriptor }

  /// How many connections the kernel keeps waiting: commands and scrapers, never many.
  static let backlog: Int32 = 64

  /// Opens one at `path`, at most 107 bytes long. It replaces a socket that no process listens on any more, left by a
  /// process that was killed, but not one that answers.
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

  /// Removes the name, so that no client finds a socket that no longer answers.
  public static func remove(_ path: String) { _ = cl_unlink_socket(path) }
}

extension Descriptor {
  /// Accepts the next waiting connection of a listening socket, from any client.
  public func accept() -> Result<Descriptor, SystemError> {
    var raw = cl_address()
    let number = cl_accept(self.number, &raw)
    return number >= 0 ? .success(Descriptor(number: number)) : .failure(SystemError(-number))
  }

  /// The user of the process that connected to this socket in the file system (SO_PEERCRED, unix(7)), as of that
  /// moment; nil if the kernel does not say.
  public var peerUserID: UInt32? {
    let user = cl_peer_user(number)
    return user >= 0 ? UInt32(truncatingIfNeeded: user) : nil
  }
}

/// A connection to a socket in the file system, for a program that has nothing else to do: it blocks.
public struct LocalConnection {
  private let descriptor: Descriptor

  public static func open(_ path: String) -> Result<LocalConnection, SystemError> {
    let number = cl_connect_local(path)
    return number >= 0
      ? .success(LocalConnection(descriptor: Descriptor(number: number))) : .failure(SystemError(-number))
  }

  /// Sends all of `text`; false if the other side is gone.
  public func send(_ text: String) -> Bool {
    var buffer = ByteBuffer()
    buffer.append(text)
    while !buffer.isEmpty {
      guard case .moved(let count) = descriptor.write(buffer) else { return false }
      buffer.consume(count)
    }
    return true
  }

  /// Waits until something can be read, at most this long; false if nothing came.
  public func awaits(milliseconds: Int32) -> Bool { Poll.readable(descriptor, milliseconds: milliseconds) }

  /// Waits for more and appends it; false at the end.
  public func receive(into buffer: inout ByteBuffer) -> Bool {
    buffer.reserve(Self.readBytes)
    if case .moved = descriptor.read(into: &buffer) { return true }
    return false
  }

  /// Waits for more, at most this long; false if nothing comes.
  public func waits(milliseconds: Int32) -> Bool {
    Poll.either(descriptor, descriptor, milliseconds: milliseconds).one
  }

  /// Waits until there is more, or `other` can be read, at most this long; returns which.
  public func waits(orFor other: Descriptor, milliseconds: Int32) -> (connection: Bool, other: Bool) {
    let ready = Poll.either(descriptor, other, milliseconds: milliseconds)
    return (ready.one, ready.other)
  }

  private static let readBytes = 16 << 10

  public func close() { descriptor.close() }
}

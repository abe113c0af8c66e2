// Sockets on loopback, and waiting for what happens to them: nothing here sleeps, and nothing waits for ever.

import Bytes
import Glibc
import TestSupport
import Testing

@testable import Transport

/// How long anything may take that is certain to happen, in milliseconds; only a test that fails waits so long.
let patienceMilliseconds: Int32 = 20_000

/// 127.0.0.1, any port.
let anyLoopback = SocketAddress(high: 0, low: 0x7f00_0001, port: 0, isIPv4: true)

/// Writing to a connection that is gone must be an error, as it is in the daemon, and not the end of the process.
let ignoresBrokenPipes: Bool = {
  signal(SIGPIPE, SIG_IGN)
  return true
}()

/// Waits until `descriptor` is ready for `interest`; nil where that does not happen.
func ready(_ descriptor: Descriptor, _ interest: Interest) -> Readiness? {
  let poller = Poller()
  guard poller.add(descriptor, interest, data: 1) else { return nil }
  defer { poller.remove(descriptor) }
  return poller.wait(milliseconds: patienceMilliseconds) > 0 ? poller.readiness(0) : nil
}

extension Poller {
  /// Adds a registration that must succeed.
  func watch(_ descriptor: Descriptor, _ interest: Interest, data: UInt64) {
    if !add(descriptor, interest, data: data) {
      Issue.record("descriptor \(descriptor.number) cannot be watched")
    }
  }
}

/// A listener with both ends of one connection to it.
final class Connection {
  let listener: Listener
  let near: Descriptor
  let far: Descriptor
  let farPeer: SocketAddress
  private var isNearOpen = true
  private var isFarOpen = true

  init(_ address: SocketAddress = anyLoopback) throws {
    #expect(ignoresBrokenPipes)
    listener = try Listener.open(address, probes: false).get()
    let outgoing = try Outgoing.open(listener.address).get()
    near = outgoing.descriptor
    _ = try #require(ready(listener.descriptor, .read))
    guard case .accepted(let connection) = listener.accept() else {
      throw SystemError(0)
    }
    far = connection.descriptor
    farPeer = connection.peer
    if !outgoing.isConnected { _ = try #require(ready(near, .write)) }
    #expect(near.connectError == 0)
  }

  deinit {
    listener.descriptor.close()
    closeNear()
    closeFar()
  }

  func closeNear() {
    if isNearOpen { near.close() }
    isNearOpen = false
  }

  func closeFar() {
    if isFarOpen { far.close() }
    isFarOpen = false
  }
}

extension Descriptor {
  /// Writes all of `bytes`, waiting where it must.
  func writeWhole(_ bytes: [UInt8]) throws {
    var buffer = ByteBuffer()
    buffer.append(bytes)
    while buffer.count > 0 {
      switch write(buffer) {
      case .moved(let count): buffer.consume(count)
      case .wouldBlock: _ = try #require(ready(self, .write))
      case .ended: throw SystemError(0)
      case .failed(let number): throw SystemError(number)
      }
    }
  }

  /// Reads until `count` bytes are there, or the end.
  func readWhole(_ count: Int) throws -> [UInt8] {
    var buffer = ByteBuffer()
    while buffer.count < count {
      buffer.reserve(min(65_536, count - buffer.count))
      switch read(into: &buffer) {
      case .moved: continue
      case .wouldBlock: _ = try #require(ready(self, .read))
      case .ended: return buffer.array
      case .failed(let number): throw SystemError(number)
      }
    }
    return buffer.array
  }

  /// What the next read comes to, once there is something to read.
  func readOnce() throws -> (transfer: Transfer, bytes: [UInt8]) {
    _ = try #require(ready(self, .read))
    var buffer = ByteBuffer()
    buffer.reserve(4096)
    let transfer = read(into: &buffer)
    return (transfer, buffer.array)
  }
}

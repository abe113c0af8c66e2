// Descriptors, listeners, outgoing connections and pipes, on loopback.

import Bytes
import Glibc
import TestSupport
import Testing

@testable import Transport

@Suite struct DescriptorTests {
  @Test func bytesGoBothWays() throws {
    let connection = try Connection()
    try connection.near.writeWhole(octets("there"))
    #expect(try connection.far.readOnce().bytes == octets("there"))
    try connection.far.writeWhole(octets("and back"))
    #expect(try connection.near.readOnce().bytes == octets("and back"))
  }

  @Test func nothingToReadIsNoError() throws {
    let connection = try Connection()
    var buffer = ByteBuffer()
    buffer.reserve(10)
    #expect(connection.near.read(into: &buffer) == .wouldBlock)
    #expect(buffer.count == 0)
  }

  @Test func aReadFillsNoMoreThanItsRoom() throws {
    let connection = try Connection()
    try connection.near.writeWhole([UInt8](repeating: 7, count: 3000))
    var buffer = ByteBuffer()
    buffer.reserve(1)
    buffer.append([1, 2])
    let room = buffer.tailRoom
    _ = try #require(ready(connection.far, .read))
    guard case .moved(let count) = connection.far.read(into: &buffer) else {
      Issue.record("nothing was read")
      return
    }
    #expect(count > 0 && count <= room)
    #expect(buffer.array == [1, 2] + [UInt8](repeating: 7, count: count))
    #expect(try connection.far.readWhole(3000 - count).count == 3000 - count)
  }

  @Test func twoPiecesLeaveInOneCall() throws {
    let connection = try Connection()
    let second = octets(", body")
    for (first, expected) in [("head", "head, body"), ("", ", body")] {
      var buffer = ByteBuffer()
      buffer.append(first)
      #expect(connection.near.write(buffer, then: second.span) == .moved(expected.utf8.count))
      #expect(try connection.far.readWhole(expected.utf8.count) == octets(expected))
    }
    var alone = ByteBuffer()
    alone.append("alone" as String)
    #expect(connection.near.write(alone, then: [UInt8]().span) == .moved(5))
    #expect(try connection.far.readWhole(5) == octets("alone"))
  }

  @Test func aPeerThatDoesNotReadStopsTheWriter() throws {
    let connection = try Connection()
    var buffer = ByteBuffer()
    buffer.append([UInt8](repeating: 0x78, count: 1 << 20))
    var sent = 0
    var transfer = connection.near.write(buffer)
    // No system buffers a gigabyte.
    while case .moved(let count) = transfer, sent < 1 << 30 {
      sent += count
      transfer = connection.near.write(buffer)
    }
    #expect(transfer == .wouldBlock)
    #expect(sent > 0)
    #expect(try connection.far.readWhole(sent).count == sent)
    #expect(ready(connection.near, .write)?.isWritable == true)
  }

  @Test func anEndIsReadOnceTheBytesAreThrough() throws {
    let connection = try Connection()
    try connection.near.writeWhole(octets("last"))
    connection.near.shutdownWrite()
    #expect(try connection.far.readWhole(10) == octets("last"))
    #expect(try connection.far.readOnce().transfer == .ended)
    // The other direction is open.
    try connection.far.writeWhole(octets("still here"))
    #expect(try connection.near.readOnce().bytes == octets("still here"))
  }

  @Test func aResetIsAFailure() throws {
    let connection = try Connection()
    connection.near.resetOnClose()
    connection.closeNear()
    let readiness = try #require(ready(connection.far, .read))
    #expect(readiness.isReadable)
    #expect(try connection.far.readOnce().transfer == .failed(ECONNRESET))
  }

  @Test func writingToAPeerThatIsGoneIsAFailure() throws {
    let connection = try Connection()
    connection.closeFar()
    var buffer = ByteBuffer()
    buffer.append("x" as String)
    var transfer = connection.near.write(buffer)
    for _ in 0..<100 {
      guard case .moved = transfer else { break }
      // The first write may be answered by a reset: its arrival is an event.
      _ = try #require(ready(connection.near, .read))
      transfer = connection.near.write(buffer)
    }
    guard case .failed(let number) = transfer else {
      Issue.record("\(transfer)")
      return
    }
    #expect(number == EPIPE || number == ECONNRESET)
  }

  @Test func aConnectionIsSilentUntilSomethingComes() throws {
    let connection = try Connection()
    #expect(connection.near.isSilent)
    try connection.far.writeWhole(octets("x"))
    _ = try #require(ready(connection.near, .read))
    #expect(!connection.near.isSilent)
    #expect(try connection.near.readOnce().bytes == octets("x"))
    #expect(connection.near.isSilent)
    connection.closeFar()
    _ = try #require(ready(connection.near, .read))
    #expect(!connection.near.isSilent)
  }

  @Test func aClosedDescriptorIsAFailureThatSaysSo() throws {
    let pipe = try #require(Pipe.open())
    pipe.close()
    var buffer = ByteBuffer()
    buffer.reserve(10)
    // Another thread may have been given the number since: then it is no pipe of ours.
    let transfer = Descriptor(number: -1).read(into: &buffer)
    #expect(transfer == .failed(EBADF))
  }

  @Test func everyTransferIsToldFromTheOthers() {
    #expect(Transfer(reading: 5) == .moved(5))
    #expect(Transfer(reading: 0) == .ended)
    #expect(Transfer(reading: -Int(EAGAIN)) == .wouldBlock)
    #expect(Transfer(reading: -Int(ECONNRESET)) == .failed(ECONNRESET))
    #expect(Transfer(writing: 0) == .moved(0))
    #expect(Transfer(writing: -Int(EAGAIN)) == .wouldBlock)
    #expect(Transfer(writing: -Int(EPIPE)) == .failed(EPIPE))
  }
}

@Suite struct ListenerTests {
  @Test func portZeroIsAnyFreePort() throws {
    let listener = try Listener.open(anyLoopback, probes: true).get()
    defer { listener.descriptor.close() }
    #expect(listener.address.port != 0)
    #expect(listener.address.low == 0x7f00_0001)
    #expect(listener.descriptor.localAddress == listener.address)
  }

  @Test func withoutAConnectionThereIsNothingToAccept() throws {
    let listener = try Listener.open(anyLoopback, probes: false).get()
    defer { listener.descriptor.close() }
    #expect(listener.accept() == .none)
  }

  @Test func bothEndsKnowEachOther() throws {
    let connection = try Connection()
    #expect(connection.near.localAddress == connection.farPeer)
    #expect(connection.far.localAddress == connection.listener.address)
  }

  @Test func severalListenersShareAPortOfOneProcess() throws {
    let first = try Listener.open(anyLoopback, probes: true).get()
    defer { first.descriptor.close() }
    let second = try Listener.open(first.address, probes: false).get()
    defer { second.descriptor.close() }
    #expect(second.address == first.address)
  }

  @Test func aPortThatAnotherListensOnIsTaken() throws {
    let first = try Listener.open(anyLoopback, probes: true).get()
    defer { first.descriptor.close() }
    #expect(Listener.open(first.address, probes: true) == .failure(SystemError(EADDRINUSE)))
  }

  @Test func aPortThatWasJustGivenUpIsFree() throws {
    let address: SocketAddress
    do {
      let connection = try Connection()
      address = connection.listener.address
      // Whoever closes first waits in TIME_WAIT.
      connection.closeFar()
      _ = try connection.near.readOnce()
    }
    let again = try Listener.open(address, probes: true).get()
    again.descriptor.close()
  }

  @Test func anAddressOfNobodyIsMissing() throws {
    // 192.0.2.1 is for documentation (RFC 5737).
    let listener = Listener.open(
      SocketAddress(high: 0, low: 0xc000_0201, port: 0, isIPv4: true), probes: false)
    guard case .failure(let error) = listener else {
      Issue.record("192.0.2.1 is an address of this machine")
      return
    }
    #expect(error.isAddressMissing)
  }

  @Test func aListenerOnIPv6TakesIPv6Alone() throws {
    let loopback = SocketAddress(high: 0, low: 1, port: 0, isIPv4: false)
    let opened = Listener.open(loopback, probes: true)
    if case .failure(let error) = opened, error.isAddressMissing { return }
    let listener = try opened.get()
    defer { listener.descriptor.close() }
    #expect(!listener.address.isIPv4)
    #expect(listener.address.low == 1)
    let connection = try Connection(loopback)
    #expect(connection.farPeer.isIPv4 == false)
    try connection.near.writeWhole(octets("six"))
    #expect(try connection.far.readOnce().bytes == octets("six"))
  }

  @Test func manyConnectionsWaitInTheQueue() throws {
    let listener = try Listener.open(anyLoopback, probes: false).get()
    defer { listener.descriptor.close() }
    let outgoing = try (0..<50).map { _ in try Outgoing.open(listener.address).get().descriptor }
    defer { for descriptor in outgoing { descriptor.close() } }
    var accepted: [Descriptor] = []
    while accepted.count < 50 {
      switch listener.accept() {
      case .accepted(let connection): accepted.append(connection.descriptor)
      case .none: _ = try #require(ready(listener.descriptor, .read))
      case .failed(let error): throw error
      }
    }
    for descriptor in accepted { descriptor.close() }
    #expect(Set(accepted.map(\.number)).count == 50)
  }
}

@Suite struct AcceptedTests {
  /// A listener on every address says nothing of a connection's own, and the kernel is asked.
  @Test(arguments: [anyLoopback, SocketAddress(high: 0, low: 0, port: 0, isIPv4: true)])
  func itsOwnAddressIsTheOneItWasConnectedTo(_ address: SocketAddress) throws {
    let listener = try Listener.open(address, probes: false).get()
    defer { listener.descriptor.close() }
    let place = SocketAddress(
      high: anyLoopback.high, low: anyLoopback.low, port: listener.address.port, isIPv4: anyLoopback.isIPv4)
    let outgoing = try Outgoing.open(place).get().descriptor
    defer { outgoing.close() }
    _ = try #require(ready(listener.descriptor, .read))
    guard case .accepted(let connection) = listener.accept() else { throw SystemError(0) }
    defer { connection.descriptor.close() }
    #expect(connection.localAddress == place)
    #expect(connection.localAddress == connection.descriptor.localAddress)
    #expect(connection.peer == outgoing.localAddress)
  }
}

@Suite struct OutgoingTests {
  @Test func aPortThatNobodyListensOnRefuses() throws {
    let listener = try Listener.open(anyLoopback, probes: false).get()
    let address = listener.address
    listener.descriptor.close()
    switch Outgoing.open(address) {
    case .failure(let error): #expect(error.isRefusal)
    case .success(let outgoing):
      defer { outgoing.descriptor.close() }
      let readiness = try #require(ready(outgoing.descriptor, .write))
      #expect(readiness.isWritable)
      #expect(SystemError(outgoing.descriptor.connectError).isRefusal)
    }
  }
}

@Suite struct PipeTests {
  @Test func bytesMoveFromSocketToSocketWithoutBeingCopied() throws {
    let source = try Connection()
    let sink = try Connection()
    let pipe = try #require(Pipe.open())
    defer { pipe.close() }
    #expect(pipe.capacity >= 4096)
    let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    let near = source.near
    startThread(named: "writer") {
      try? near.writeWhole(bytes)
      near.shutdownWrite()
    }
    var received: [UInt8] = []
    var held = 0
    var hasEnded = false
    while !hasEnded || held > 0 {
      if !hasEnded && held < pipe.capacity {
        switch source.far.splice(to: pipe.writeEnd, count: pipe.capacity - held, more: true) {
        case .moved(let count): held += count
        case .ended: hasEnded = true
        case .wouldBlock where held == 0: _ = try #require(ready(source.far, .read))
        case .wouldBlock: break
        case .failed(let number): throw SystemError(number)
        }
      }
      guard held > 0 else { continue }
      switch pipe.readEnd.splice(to: sink.near, count: held, more: false) {
      case .moved(let count):
        held -= count
        received += try sink.far.readWhole(count)
      case .wouldBlock: _ = try #require(ready(sink.near, .write))
      case .ended: throw SystemError(0)
      case .failed(let number): throw SystemError(number)
      }
    }
    #expect(received == bytes)
  }

  @Test func nothingToMoveIsNoError() throws {
    let connection = try Connection()
    let pipe = try #require(Pipe.open())
    defer { pipe.close() }
    #expect(connection.far.splice(to: pipe.writeEnd, count: 1000, more: false) == .wouldBlock)
    connection.near.shutdownWrite()
    _ = try #require(ready(connection.far, .read))
    #expect(connection.far.splice(to: pipe.writeEnd, count: 1000, more: false) == .ended)
  }
}

@Suite struct SystemErrorTests {
  @Test func anErrorSaysWhatItIs() {
    #expect("\(SystemError(ECONNREFUSED))" == "Connection refused")
    #expect("\(SystemError(ENOENT))" == "No such file or directory")
    #expect("\(SystemError(99_999))" == "unknown error")
  }

  @Test func errorsAreTold() {
    for number in 1...133 as ClosedRange<Int32> {
      let error = SystemError(number)
      #expect(error.isRefusal == (number == ECONNREFUSED))
      #expect(error.isTimeout == (number == ETIMEDOUT))
      #expect(error.isUnreachable == [EHOSTUNREACH, ENETUNREACH, ENETDOWN, ENODEV].contains(number))
      #expect(error.isAddressMissing == (number == EADDRNOTAVAIL || number == EAFNOSUPPORT))
      #expect(error.isExhaustion == [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(number))
    }
    #expect(SystemError.noMemory.isExhaustion)
  }
}

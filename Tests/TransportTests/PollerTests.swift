// epoll, as the loops use it.

import Bytes
import TestSupport
import Testing

@testable import Transport

@Suite struct PollerTests {
  @Test func theDataOfARegistrationComesBack() throws {
    let poller = Poller()
    let first = try Connection()
    let second = try Connection()
    poller.watch(first.far, .read, data: 0xfedc_ba98_7654_3210)
    poller.watch(second.far, .read, data: 7)
    #expect(poller.wait(milliseconds: 0) == 0)
    try second.near.writeWhole(octets("x"))
    #expect(poller.wait(milliseconds: patienceMilliseconds) == 1)
    #expect(poller.readiness(0).data == 7)
    try first.near.writeWhole(octets("x"))
    var seen: Set<UInt64> = []
    while seen.count < 2 {
      let count = poller.wait(milliseconds: patienceMilliseconds)
      try #require(count > 0)
      for index in 0..<count { seen.insert(poller.readiness(index).data) }
    }
    #expect(seen == [7, 0xfedc_ba98_7654_3210])
  }

  @Test func whatIsNotTakenIsToldAgain() throws {
    let poller = Poller()
    let connection = try Connection()
    poller.watch(connection.far, .read, data: 1)
    try connection.near.writeWhole(octets("x"))
    for _ in 0..<3 {
      #expect(poller.wait(milliseconds: patienceMilliseconds) == 1)
      #expect(poller.readiness(0).isReadable)
      #expect(!poller.readiness(0).isWritable)
      #expect(!poller.readiness(0).isBroken)
      #expect(!poller.readiness(0).peerClosed)
    }
    #expect(try connection.far.readOnce().bytes == octets("x"))
    #expect(poller.wait(milliseconds: 0) == 0)
  }

  @Test func theInterestDecides() throws {
    let poller = Poller()
    let connection = try Connection()
    poller.watch(connection.far, [], data: 1)
    try connection.near.writeWhole(octets("x"))
    _ = try #require(ready(connection.far, .read))
    #expect(poller.wait(milliseconds: 0) == 0)
    poller.modify(connection.far, .write, data: 2)
    #expect(poller.wait(milliseconds: patienceMilliseconds) == 1)
    #expect(poller.readiness(0).isWritable)
    #expect(!poller.readiness(0).isReadable)
    #expect(poller.readiness(0).data == 2)
    poller.modify(connection.far, [.read, .write], data: 3)
    #expect(poller.wait(milliseconds: patienceMilliseconds) == 1)
    #expect(poller.readiness(0).isReadable)
    #expect(poller.readiness(0).isWritable)
    #expect(poller.readiness(0).data == 3)
    poller.remove(connection.far)
    #expect(poller.wait(milliseconds: 0) == 0)
  }

  @Test func aPeerThatClosesItsDirectionIsSeenWhileNothingIsRead() throws {
    let poller = Poller()
    let connection = try Connection()
    poller.watch(connection.far, .peerClosed, data: 1)
    try connection.near.writeWhole(octets("x"))
    _ = try #require(ready(connection.far, .read))
    #expect(poller.wait(milliseconds: 0) == 0)
    connection.near.shutdownWrite()
    #expect(poller.wait(milliseconds: patienceMilliseconds) == 1)
    #expect(poller.readiness(0).peerClosed)
    #expect(!poller.readiness(0).isBroken)
  }

  @Test func aResetIsSeenWhateverIsAsked() throws {
    let poller = Poller()
    let connection = try Connection()
    poller.watch(connection.far, [], data: 1)
    connection.near.resetOnClose()
    connection.closeNear()
    #expect(poller.wait(milliseconds: patienceMilliseconds) == 1)
    #expect(poller.readiness(0).isBroken)
    #expect(poller.readiness(0).peerClosed)
    #expect(poller.readiness(0).isReadable)
    #expect(poller.readiness(0).isWritable)
  }

  @Test func aDescriptorThatIsClosedIsForgotten() throws {
    let poller = Poller()
    let connection = try Connection()
    poller.watch(connection.far, [.read, .write], data: 1)
    connection.closeFar()
    // A process that another test forks holds a copy of it until it executes its program.
    let until = Clock.monotonic + Int64(patienceMilliseconds)
    var count = poller.wait(milliseconds: 0)
    while count > 0, Clock.monotonic < until { count = poller.wait(milliseconds: 0) }
    #expect(count == 0)
  }

  @Test func addingTwiceIsRefused() throws {
    let poller = Poller()
    let connection = try Connection()
    poller.watch(connection.far, .read, data: 1)
    let isAdded = poller.add(connection.far, .read, data: 2)
    #expect(!isAdded)
  }

  @Test func aWaitEndsWhenItsTimeIsUp() {
    let poller = Poller()
    let begun = Clock.monotonic
    #expect(poller.wait(milliseconds: 30) == 0)
    #expect(Clock.monotonic - begun >= 29)
  }

  @Test func modifyingWhatIsNotRegisteredEndsTheProcess() async {
    await #expect(processExitsWith: .failure) {
      let poller = Poller()
      poller.modify(Descriptor(number: 0), .read, data: 1)
    }
  }

  @Test func interestsAreSets() {
    #expect(Interest.read.contains(.peerClosed))
    #expect(!Interest.write.contains(.peerClosed))
    #expect(Interest([.read, .write]).contains(.write))
  }
}

// The mailbox between threads: everything arrives, once, in order, and whoever waits is woken.

import Synchronization
import TestSupport
import Testing

@testable import Transport

@Suite struct MailboxTests {
  @Test func whatIsPostedIsTakenInOrderAndOnce() {
    let mailbox = Mailbox<Int>()
    #expect(mailbox.takeAll() == [])
    for number in 1...5 { mailbox.post(number) }
    #expect(mailbox.takeAll() == [1, 2, 3, 4, 5])
    #expect(mailbox.takeAll() == [])
  }

  @Test func itsDescriptorIsReadableWhileThereAreMessages() {
    let mailbox = Mailbox<Int>()
    let poller = Poller()
    poller.watch(mailbox.descriptor, .read, data: 1)
    for _ in 0..<3 {
      #expect(poller.wait(milliseconds: 0) == 0)
      mailbox.post(1)
      #expect(poller.wait(milliseconds: 0) == 1)
      mailbox.post(2)
      #expect(poller.wait(milliseconds: 0) == 1)
      #expect(mailbox.takeAll() == [1, 2])
    }
    #expect(poller.wait(milliseconds: 0) == 0)
  }

  /// Threads post while one takes; it waits for the descriptor alone, so that a lost wake would be for ever.
  @Test(arguments: [1, 4, 8]) func noMessageAndNoWakeIsLostBetweenThreads(threads: Int) throws {
    let mailbox = Mailbox<(thread: Int, number: Int)>()
    let each = 4_000
    for thread in 0..<threads {
      startThread(named: "poster-\(thread)") {
        for number in 0..<each { mailbox.post((thread, number)) }
      }
    }
    let poller = Poller()
    poller.watch(mailbox.descriptor, .read, data: 1)
    var next = [Int](repeating: 0, count: threads)
    var taken = 0
    while taken < threads * each {
      try #require(poller.wait(milliseconds: patienceMilliseconds) == 1, "\(taken) messages, and no wake")
      for message in mailbox.takeAll() {
        #expect(message.number == next[message.thread])
        next[message.thread] += 1
        taken += 1
      }
    }
    #expect(next == [Int](repeating: each, count: threads))
    #expect(mailbox.takeAll().isEmpty)
  }

  @Test func twoLoopsPassMessagesToEachOther() throws {
    let there = Mailbox<Int>()
    let back = Mailbox<Int>()
    startThread(named: "echo") {
      let poller = Poller()
      _ = poller.add(there.descriptor, .read, data: 1)
      while poller.wait(milliseconds: patienceMilliseconds) == 1 {
        for message in there.takeAll() {
          if message < 0 { return }
          back.post(message + 1)
        }
      }
    }
    let poller = Poller()
    poller.watch(back.descriptor, .read, data: 1)
    var value = 0
    for _ in 0..<500 {
      there.post(value)
      try #require(poller.wait(milliseconds: patienceMilliseconds) == 1)
      for message in back.takeAll() { value = message }
    }
    there.post(-1)
    #expect(value == 500)
  }

  @Test func aWakeIsKeptUntilItIsCleared() {
    let wake = Wake()
    let poller = Poller()
    poller.watch(wake.descriptor, .read, data: 1)
    #expect(poller.wait(milliseconds: 0) == 0)
    wake.signal()
    wake.signal()
    wake.wait()
    #expect(poller.wait(milliseconds: 0) == 1)
    wake.clear()
    #expect(poller.wait(milliseconds: 0) == 0)
  }
}

// The walk over the messages of a datagram, and over attributes.

import Bytes
import TestSupport
import Testing

@testable import Reachability

@Suite struct NetlinkMessagesTests {
  private let memory = GuardedMemory()

  private func walk(_ bytes: [UInt8]) -> (messages: [NetlinkMessage], isMalformed: Bool) {
    memory.lend(bytes) { datagram in
      var walk = NetlinkMessages()
      var messages: [NetlinkMessage] = []
      while let message = walk.next(datagram) { messages.append(message) }
      // An ended walk stays ended.
      #expect(walk.next(datagram) == nil)
      return (messages, walk.isMalformed)
    }
  }

  private func attributes(_ bytes: [UInt8]) -> (attributes: [NetlinkAttributes.Attribute], isMalformed: Bool) {
    memory.lend(bytes) { datagram in
      var walk = NetlinkAttributes(0..<datagram.count)
      var attributes: [NetlinkAttributes.Attribute] = []
      while let attribute = walk.next(datagram) { attributes.append(attribute) }
      #expect(walk.next(datagram) == nil)
      return (attributes, walk.isMalformed)
    }
  }

  @Test func messagesFollowEachOtherAtMultiplesOfFour() {
    let bytes = message(20, flags: 0x302, sequence: 0x0102_0304, [1]) + message(3, []) + message(16, [1, 2, 3, 4])
    let walked = walk(bytes)
    #expect(!walked.isMalformed)
    #expect(
      walked.messages == [
        NetlinkMessage(type: 20, flags: 0x302, sequence: 0x0102_0304, payload: 16..<17),
        NetlinkMessage(type: 3, flags: 0, sequence: 7, payload: 36..<36),
        NetlinkMessage(type: 16, flags: 0, sequence: 7, payload: 52..<56),
      ])
  }

  @Test func theLastMessageNeedsNoPadding() {
    let walked = walk(Array(message(20, [1]).dropLast(3)))
    #expect(walked.messages.map(\.payload) == [16..<17])
    #expect(!walked.isMalformed)
  }

  @Test func anEmptyDatagramHasNoMessage() {
    let walked = walk([])
    #expect(walked.messages.isEmpty && !walked.isMalformed)
  }

  @Test(arguments: [0, 1, 3, 4, 15, 21, 22, 65535, 0x7fff_ffff, 0x8000_0000, 0xffff_fffc, 0xffff_ffff] as [UInt32])
  func aLengthThatCannotBeEndsTheWalk(length: UInt32) {
    let walked = walk(message(20, [1]) + message(21, length: length, [5]))
    #expect(walked.messages.map(\.type) == [20])
    #expect(walked.isMalformed)
  }

  @Test func aDatagramIsReadAsFarAsItIsThere() {
    let whole = message(20, [1, 2, 3, 4]) + message(21, [5, 6, 7, 8])
    for count in 0..<whole.count {
      let walked = walk(Array(whole.prefix(count)))
      #expect(walked.messages.map(\.type) == (count < 20 ? [] : [20]), "\(count) bytes")
      #expect(walked.isMalformed == (count != 0 && count != 20), "\(count) bytes")
    }
  }

  @Test func attributesFollowEachOtherAtMultiplesOfFour() {
    let walked = attributes(attribute(1, [1, 2, 3]) + attribute(0x8002, []) + attribute(0x4003, [9, 9, 9, 9]))
    #expect(!walked.isMalformed)
    #expect(
      walked.attributes == [
        .init(type: 1, value: 4..<7), .init(type: 2, value: 12..<12), .init(type: 3, value: 16..<20),
      ])
  }

  @Test(arguments: [0, 1, 3, 9, 65535] as [UInt16]) func aLengthOfAnAttributeThatCannotBeEndsTheWalk(length: UInt16) {
    let walked = attributes(attribute(1, [1]) + attribute(2, length: length, [5, 6, 7, 8]))
    #expect(walked.attributes.map(\.type) == [1])
    #expect(walked.isMalformed)
  }

  @Test func whatIsTooShortForAnAttributeIsMalformed() {
    for count in 1...3 {
      let walked = attributes(attribute(1, [1, 2, 3, 4]) + [UInt8](repeating: 0, count: count))
      #expect(walked.attributes.count == 1)
      #expect(walked.isMalformed)
    }
  }

  /// However the bytes are, a walk takes at most one step for each header that there is room for.
  @Test func anyBytesAreWalkedInBoundedTime() {
    var generator = SeededGenerator(seed: 11)
    for _ in 0..<2000 {
      let count = Int.random(in: 0...200, using: &generator)
      // Small numbers make lengths that are often right.
      let bytes = (0..<count).map { _ in
        Bool.random(using: &generator) ? 0 : UInt8.random(in: 0...40, using: &generator)
      }
      #expect(walk(bytes).messages.count <= count / 16)
      #expect(attributes(bytes).attributes.count <= count / 4)
    }
  }
}

// The ring of recent exchanges: what is found, and what has been written over.

import Bytes
import Policy
import Testing
import Transport

@testable import Server
@testable import Session

@Suite struct RecentDecisionsTests {
  private func note(
    _ value: UInt32, _ text: String, isDenied: Bool = false, at wall: Int64 = 0, in recent: inout RecentDecisions
  ) {
    var record = ExchangeRecord()
    record.times.begunWall = wall
    if isDenied { record.outcome = .problem(.denied) }
    record.reference = Reference(value: value)
    let bytes = Array(text.utf8)
    recent.note(
      record, rule: "r", policy: Policy(), client: SocketAddress(high: 0, low: 1, port: 2, isIPv4: true),
      totalMicroseconds: 3_000, text: bytes.span)
  }

  @Test func whatWasNotedIsFound() {
    var recent = RecentDecisions()
    note(1, "GET http://a.example/", in: &recent)
    note(2, "", in: &recent)
    let found = recent.find(Reference(value: 1))
    #expect(found.map { String(decoding: $0.text, as: UTF8.self) } == "GET http://a.example/")
    #expect(found?.rule == "r" && found?.totalMicroseconds == 3_000)
    #expect(recent.find(Reference(value: 2))?.text == [])
    #expect(recent.find(Reference(value: 3)) == nil)
  }

  @Test func theOldestMakesWay() {
    var recent = RecentDecisions()
    for value in 0...UInt32(RecentDecisions.mostEntries) { note(value, "x", in: &recent) }
    #expect(recent.find(Reference(value: 0)) == nil)
    #expect(recent.find(Reference(value: 1)) != nil)
    #expect(recent.find(Reference(value: UInt32(RecentDecisions.mostEntries))) != nil)
  }

  @Test func anExchangeWhoseTextIsWrittenOverIsGone() {
    var recent = RecentDecisions()
    note(1, "first", in: &recent)
    let long = String(repeating: "y", count: RecentDecisions.textBytes / 2)
    note(2, long, in: &recent)
    #expect(recent.find(Reference(value: 1)) != nil)
    note(3, long, in: &recent)
    #expect(recent.find(Reference(value: 1)) == nil)
    #expect(recent.find(Reference(value: 2))?.text.count == long.utf8.count)
    #expect(recent.find(Reference(value: 3))?.text == Array(long.utf8))
  }

  private func references(_ found: [RecentDecision]) -> [UInt32] { found.map(\.record.reference.value) }

  @Test func theNewestComeFirst() {
    var recent = RecentDecisions()
    #expect(recent.newest(10, areRefused: nil).isEmpty)
    for value: UInt32 in 0..<5 { note(value, "text \(value)", isDenied: value % 2 == 1, in: &recent) }
    #expect(references(recent.newest(10, areRefused: nil)) == [4, 3, 2, 1, 0])
    #expect(references(recent.newest(2, areRefused: nil)) == [4, 3])
    #expect(references(recent.newest(10, areRefused: true)) == [3, 1])
    #expect(references(recent.newest(10, areRefused: false)) == [4, 2, 0])
    #expect(recent.newest(1, areRefused: true).map(\.text) == [Array("text 3".utf8)])
    for value in 5..<UInt32(RecentDecisions.mostEntries) + 3 { note(value, "", in: &recent) }
    let all = references(recent.newest(2000, areRefused: nil))
    #expect(all == (3..<UInt32(RecentDecisions.mostEntries) + 3).reversed())
  }

  @Test func whatPassesDoesNotWriteOverWhatWasRefused() {
    var recent = RecentDecisions()
    note(1, "denied", isDenied: true, in: &recent)
    for value: UInt32 in 0..<10_000 { note(value + 100, "GET http://a.example/", in: &recent) }
    #expect(references(recent.newest(10, areRefused: true)) == [1])
    #expect(recent.find(Reference(value: 1))?.text == Array("denied".utf8))
    for value in 0..<UInt32(RecentDecisions.mostRefused) { note(value + 20_000, "", isDenied: true, in: &recent) }
    #expect(recent.find(Reference(value: 1)) == nil)
    #expect(recent.newest(1000, areRefused: true).count == RecentDecisions.mostRefused)
  }

  @Test func noneIsListedWhoseTextIsWrittenOver() {
    var recent = RecentDecisions()
    let long = String(repeating: "y", count: RecentDecisions.textBytes / 2)
    for value: UInt32 in 1...3 { note(value, long, in: &recent) }
    #expect(references(recent.newest(10, areRefused: nil)) == [3, 2])
  }

  @Test func whatSeveralLoopsRememberIsOrderedByItsEnd() {
    var one = RecentDecisions()
    var other = RecentDecisions()
    for value: UInt32 in 0..<4 { note(value, "", at: Int64(value) * 10, in: &one) }
    for value: UInt32 in 10..<13 { note(value, "", at: Int64(value - 10) * 10 + 5, in: &other) }
    let loops = [one.newest(9, areRefused: nil), other.newest(9, areRefused: nil)]
    #expect(references(RecentDecision.merged(loops, limit: 5)) == [3, 12, 2, 11, 1])
  }

  @Test func whatCouldNotBeReachedIsNoRefusal() {
    var record = ExchangeRecord()
    #expect(!record.isRefusal)
    for (outcome, isRefusal): (Outcome, Bool) in [
      (.problem(.denied), true), (.problem(.pinMismatch), true), (.problem(.connectionRefused), false),
      (.problem(.nameNotFound), false), (.tunnelRefused(.certificateExpired), true), (.clientLeft, false),
    ] {
      record.outcome = outcome
      #expect(record.isRefusal == isRefusal, "\(outcome)")
    }
  }

  @Test func theDestinationOfATarget() {
    for (target, host, port): (String, String, UInt16) in [
      ("a.example:443", "a.example", 443), ("http://a.example/p:1", "a.example", 80),
      ("https://a.example?q", "a.example", 443), ("http://[::1]:8080/", "[::1]", 8080), ("[::1]:443", "[::1]", 443),
      ("http://[::1]/", "[::1]", 80),
    ] {
      let origin = NamedOrigin(target)
      #expect(origin?.host == host && origin?.port == port, "\(target)")
    }
    for target in ["", "*", "/path", ":443"] { #expect(NamedOrigin(target) == nil, "\(target)") }
  }

  @Test func aReferenceReadsBackAsItIsWritten() {
    for value: UInt32 in [0, 1, 31, 32, 0x3fff_ffff, 0x1234_5678 & 0x3fff_ffff] {
      let text = Reference(value: value).text
      #expect(Reference(text) == Reference(value: value))
      #expect(Reference(text.lowercased()) == Reference(value: value))
    }
    for text in ["", "ABCDE", "ABCDEFG", "ABCDEU", "ABC DE", "ABCDÉ"] { #expect(Reference(text) == nil, "\(text)") }
  }
}

// The ring of recent exchanges: what is found, and what has been written over.

import Bytes
import Policy
import Testing
import Transport

@testable import Server
@testable import Session

@Suite struct RecentDecisionsTests {
  private func note(_ value: UInt32, _ text: String, in recent: inout RecentDecisions) {
    var record = ExchangeRecord()
    record.reference = Reference(value: value)
    let bytes = Array(text.utf8)
    recent.note(
      record, rule: "r", policy: Policy(), client: SocketAddress(high: 0, low: 1, port: 2, isIPv4: true),
      totalMilliseconds: 3, text: bytes.span)
  }

  @Test func whatWasNotedIsFound() {
    var recent = RecentDecisions()
    note(1, "GET http://a.example/", in: &recent)
    note(2, "", in: &recent)
    let found = recent.find(Reference(value: 1))
    #expect(found.map { String(decoding: $0.text, as: UTF8.self) } == "GET http://a.example/")
    #expect(found?.rule == "r" && found?.totalMilliseconds == 3)
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

  @Test func aReferenceReadsBackAsItIsWritten() {
    for value: UInt32 in [0, 1, 31, 32, 0x3fff_ffff, 0x1234_5678 & 0x3fff_ffff] {
      let text = Reference(value: value).text
      #expect(Reference(text) == Reference(value: value))
      #expect(Reference(text.lowercased()) == Reference(value: value))
    }
    for text in ["", "ABCDE", "ABCDEFG", "ABCDEU", "ABC DE", "ABCDÉ"] { #expect(Reference(text) == nil, "\(text)") }
  }
}

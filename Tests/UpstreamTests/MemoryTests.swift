// What is relied on without another look: sessions that may be resumed, and verdicts of probes.

import Testing

@testable import Upstream

@Suite struct SessionMemoryTests {
  private struct Ticket: Resumable, Equatable {
    let name: String
    var verifiedAt: Int64 = 0
    var isForOneUse = true
  }

  private typealias Memory = SessionMemory<String, Ticket>

  @Test func theNewestIsResumedFirstAndATicketOnce() {
    var memory = Memory()
    for name in ["a", "b"] { memory.insert(Ticket(name: name), for: "host") }
    #expect(memory.take(for: "host", now: 0)?.name == "b")
    #expect(memory.take(for: "host", now: 0)?.name == "a")
    #expect(memory.take(for: "host", now: 0) == nil)
  }

  @Test func aSessionOfTLS12IsResumedAgainAndAgain() {
    var memory = Memory()
    memory.insert(Ticket(name: "a", isForOneUse: false), for: "host")
    for _ in 0..<3 { #expect(memory.take(for: "host", now: 0)?.name == "a") }
  }

  @Test func aVerdictThatIsTooOldTakesAllBeforeItAlong() {
    var memory = Memory()
    memory.insert(Ticket(name: "older", verifiedAt: 5), for: "host")
    memory.insert(Ticket(name: "old", verifiedAt: 10), for: "host")
    #expect(memory.take(for: "host", now: 9 + longestReliance)?.name == "old")
    memory.insert(Ticket(name: "old", verifiedAt: 10), for: "host")
    #expect(memory.take(for: "host", now: 10 + longestReliance) == nil)
    #expect(memory.take(for: "host", now: 0) == nil, "the older one is gone too")
  }

  @Test func oneKeySaysNothingOfAnother() {
    var memory = Memory()
    for key in ["a", "b"] { memory.insert(Ticket(name: key), for: key) }
    memory.forget("a")
    #expect(memory.take(for: "a", now: 0) == nil)
    #expect(memory.take(for: "b", now: 0)?.name == "b")
  }

  @Test func aPolicyThatIsGoneTakesItsSessionsAlong() {
    var memory = Memory()
    for key in ["a1", "a2", "b1"] { memory.insert(Ticket(name: key), for: key) }
    memory.removeAll { $0.hasPrefix("a") }
    #expect(memory.take(for: "a1", now: 0) == nil && memory.take(for: "a2", now: 0) == nil)
    #expect(memory.take(for: "b1", now: 0) != nil)
  }

  @Test func fourAHostAndAThousandHostsAreKeptTheOldestGoFirst() {
    var memory = Memory()
    for number in 0..<7 { memory.insert(Ticket(name: "\(number)"), for: "host") }
    #expect((0..<5).map { _ in memory.take(for: "host", now: 0)?.name } == ["6", "5", "4", "3", nil])
    memory = Memory()
    for number in 0...Memory.mostHosts { memory.insert(Ticket(name: "t"), for: "\(number)") }
    #expect(memory.take(for: "0", now: 0) == nil)
    #expect(memory.take(for: "1", now: 0) != nil && memory.take(for: "\(Memory.mostHosts)", now: 0) != nil)
  }
}

@Suite struct ProbeMemoryTests {
  private typealias Memory = ProbeMemory<String, Int>

  @Test func thoseThatAskAtTheSameTimeShareOneProbe() {
    var memory = Memory()
    #expect(memory.running("host") == nil)
    memory.begin(1, for: "host")
    #expect(memory.running("host") == 1 && memory.running("other") == nil)
    memory.end("host", isTrusted: true, now: 0)
    #expect(memory.running("host") == nil)
  }

  @Test func aGoodVerdictIsReliedOnForFiveMinutes() {
    var memory = Memory()
    memory.end("host", isTrusted: true, now: 1000)
    #expect(memory.isTrusted("host", now: 1000) && memory.isTrusted("host", now: 300_999))
    #expect(!memory.isTrusted("host", now: 301_000) && !memory.isTrusted("other", now: 1000))
  }

  @Test func aBadVerdictEndsAGoodOneAndIsNotRemembered() {
    var memory = Memory()
    memory.end("host", isTrusted: true, now: 0)
    memory.end("host", isTrusted: false, now: 1)
    #expect(!memory.isTrusted("host", now: 1))
    memory.end("host", isTrusted: true, now: 2)
    #expect(memory.isTrusted("host", now: 2))
  }

  @Test func aPolicyThatIsGoneTakesItsVerdictsAlong() {
    var memory = Memory()
    for key in ["a", "b"] { memory.end(key, isTrusted: true, now: 0) }
    memory.removeAll { $0 == "a" }
    #expect(!memory.isTrusted("a", now: 0) && memory.isTrusted("b", now: 0))
  }

  @Test func whatIsRememberedIsBoundedAndTheOldGoesFirst() {
    var memory = Memory()
    for number in 0..<Memory.mostVerdicts { memory.end("\(number)", isTrusted: true, now: Int64(number % 2) * 300_000) }
    memory.end("more", isTrusted: true, now: 300_000)
    #expect(memory.isTrusted("1", now: 300_000) && memory.isTrusted("more", now: 300_000))
    for number in 0..<Memory.mostVerdicts { memory.end("x\(number)", isTrusted: true, now: 300_001) }
    #expect(!memory.isTrusted("1", now: 300_001), "all were young: they make room")
    #expect(memory.isTrusted("x\(Memory.mostVerdicts - 1)", now: 300_001))
  }
}

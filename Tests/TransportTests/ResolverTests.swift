// Names to addresses, against a name server on loopback.

import Glibc
import TestSupport
import Testing

@testable import Transport

@Suite struct ResolverTests {
  private static func resolver(
    _ server: NameServer, timeout: Int64 = 10_000, cache: Int64 = 60_000
  ) -> Resolver {
    Resolver(
      ResolverSettings(servers: [server.address], timeoutMilliseconds: timeout, cacheMilliseconds: cache))
  }

  private static func lookUp(_ resolver: Resolver, _ name: String) -> Mailbox<NameAnswer> {
    let mailbox = Mailbox<NameAnswer>()
    resolver.lookUp(name) { mailbox.post($0) }
    return mailbox
  }

  private static func v4(_ address: UInt32) -> SocketAddress {
    SocketAddress(high: 0, low: UInt64(address), port: 0, isIPv4: true)
  }

  private static func v6(_ low: UInt64) -> SocketAddress {
    SocketAddress(high: 0x2001_0db8_0000_0000, low: low, port: 0, isIPv4: false)
  }

  private static func aaaa(_ low: UInt64, ttl: UInt32 = 30) -> ResourceRecord {
    .aaaa(high: 0x2001_0db8_0000_0000, low: low, ttl: ttl)
  }

  /// Both families with these times to live.
  private static func both(_ question: Question, ttl: UInt32 = 30) -> Reply {
    question.kind == .a ? .records([.a(0xc000_0201, ttl: ttl)]) : .records([aaaa(1, ttl: ttl)])
  }

  private static let bothAddresses = [v6(1), v4(0xc000_0201)]

  // MARK: Answers

  @Test func bothFamiliesAreAskedForAndTakenInTurnFromIPv6() throws {
    let server = try NameServer()
    let resolver = Self.resolver(server)
    let answers = server.serve(Self.lookUp(resolver, "a.example")) { question in
      question.kind == .a
        ? .records([.a(0xc000_0201, ttl: 30), .a(0xc000_0202, ttl: 30), .a(0xc000_0203, ttl: 30)])
        : .records([Self.aaaa(1), Self.aaaa(2)])
    }
    let expected = [Self.v6(1), Self.v4(0xc000_0201), Self.v6(2), Self.v4(0xc000_0202), Self.v4(0xc000_0203)]
    #expect(answers == [.addresses(expected, validMilliseconds: 30_000)])
    #expect(server.count(of: "a.example", .a) == 1)
    #expect(server.count(of: "a.example", .aaaa) == 1)
  }

  @Test func eitherFamilyIsEnough() throws {
    let server = try NameServer()
    let resolver = Self.resolver(server)
    let four = server.serve(Self.lookUp(resolver, "four.example")) { question in
      question.kind == .a ? .records([.a(0xc000_0201, ttl: 30)]) : .noData
    }
    #expect(four == [.addresses([Self.v4(0xc000_0201)], validMilliseconds: 30_000)])
    let six = server.serve(Self.lookUp(resolver, "six.example")) { question in
      question.kind == .aaaa ? .records([Self.aaaa(1)]) : .noData
    }
    #expect(six == [.addresses([Self.v6(1)], validMilliseconds: 30_000)])
    let broken = server.serve(Self.lookUp(resolver, "broken.example")) { question in
      question.kind == .a ? .records([.a(0xc000_0201, ttl: 30)]) : .serverFailure
    }
    #expect(broken == [.addresses([Self.v4(0xc000_0201)], validMilliseconds: 30_000)])
  }

  @Test func anAddressThatComesTwiceIsTakenOnce() throws {
    let server = try NameServer()
    let answers = server.serve(Self.lookUp(Self.resolver(server), "a.example")) { question in
      question.kind == .a ? .records([.a(0xc000_0201, ttl: 30), .a(0xc000_0201, ttl: 30)]) : .noData
    }
    #expect(answers == [.addresses([Self.v4(0xc000_0201)], validMilliseconds: 30_000)])
  }

  @Test func aNameThatDoesNotExistIsNotFoundAndNotAskedForAgain() throws {
    let server = try NameServer()
    let resolver = Self.resolver(server)
    #expect(server.serve(Self.lookUp(resolver, "none.example")) { _ in .notFound } == [.notFound])
    let asked = server.count(of: "none.example")
    #expect(asked == 2)
    #expect(server.serve(Self.lookUp(resolver, "none.example")) { _ in .notFound } == [.notFound])
    #expect(server.count(of: "none.example") == asked)
  }

  @Test func aNameWithoutAnAddressIsNotFound() throws {
    let server = try NameServer()
    #expect(server.serve(Self.lookUp(Self.resolver(server), "mail.example")) { _ in .noData } == [.notFound])
  }

  @Test(arguments: [Reply.serverFailure, .refused]) func aServerThatFailsIsAFailureThatIsNotRemembered(
    reply: Reply
  ) throws {
    let server = try NameServer()
    let resolver = Self.resolver(server)
    let answers = server.serve(Self.lookUp(resolver, "a.example")) { _ in reply }
    guard case .failed(let why)? = answers.first else {
      Issue.record("\(answers)")
      return
    }
    #expect(!why.isEmpty)
    let again = server.serve(Self.lookUp(resolver, "a.example")) { Self.both($0) }
    #expect(again == [.addresses(Self.bothAddresses, validMilliseconds: 30_000)])
  }

  @Test func aReplyThatWasNotAskedForIsPassedOver() throws {
    let server = try NameServer()
    let answers = server.serve(Self.lookUp(Self.resolver(server), "a.example")) { question in
      server.answer(question, .wrongID)
      return Self.both(question)
    }
    #expect(answers == [.addresses(Self.bothAddresses, validMilliseconds: 30_000)])
  }

  @Test func anAliasIsFollowed() throws {
    let server = try NameServer()
    let answers = server.serve(Self.lookUp(Self.resolver(server), "www.example")) { question in
      question.kind == .a
        ? .records([
          .cname("cdn.example", ttl: 40), .cname("edge.example", ttl: 40), .a(0xc000_0201, ttl: 40),
        ]) : .noData
    }
    #expect(answers == [.addresses([Self.v4(0xc000_0201)], validMilliseconds: 40_000)])
  }

  @Test func namesThatAreNoneAreAnsweredToo() throws {
    let server = try NameServer()
    let resolver = Self.resolver(server)
    for name in [String(repeating: "x", count: 64) + ".example", "a..example"] {
      let answers = server.serve(Self.lookUp(resolver, name)) { _ in .notFound }
      guard case .failed? = answers.first else {
        #expect(answers == [.notFound], "\(name)")
        continue
      }
    }
  }

  @Test(arguments: ["localhost", "a.localhost", "a.b.localhost"])
  func localhostIsNeverAskedFor(name: String) throws {
    let server = try NameServer()
    let answers = server.serve(Self.lookUp(Self.resolver(server), name)) { _ in .notFound }
    guard case .addresses(let list, _)? = answers.first else {
      Issue.record("\(answers)")
      return
    }
    #expect(list == [SocketAddress(high: 0, low: 1, port: 0, isIPv4: false), Self.v4(0x7f00_0001)])
    #expect(server.questions.isEmpty)
  }

  // MARK: How long an answer holds

  @Test(
    arguments: [
      (30, 30, 60_000, 30_000), (10, 300, 60_000, 10_000), (300, 10, 60_000, 10_000),
      (300, 300, 60_000, 60_000),
      (0, 0, 60_000, 1_000), (0, 300, 60_000, 1_000), (300, 300, 500, 500), (0, 0, 500, 500),
      (2_147_483_647, 2_147_483_647, 60_000, 60_000), (59, 61, 60_000, 59_000),
    ] as [(UInt32, UInt32, Int64, Int64)])
  func anAnswerHoldsAsLongAsItsRecordsAndTheCeilingSay(four: UInt32, six: UInt32, cache: Int64, valid: Int64)
    throws
  {
    let server = try NameServer()
    let answers = server.serve(Self.lookUp(Self.resolver(server, cache: cache), "a.example")) { question in
      Self.both(question, ttl: question.kind == .a ? four : six)
    }
    #expect(answers == [.addresses(Self.bothAddresses, validMilliseconds: valid)])
  }

  @Test(arguments: [[10, 50], [50, 10], [50, 10, 40]] as [[UInt32]])
  func anAnswerHoldsNoLongerThanTheShortestOfItsRecords(times: [UInt32]) throws {
    let server = try NameServer()
    let answers = server.serve(Self.lookUp(Self.resolver(server), "a.example")) { question in
      guard question.kind == .a else { return .noData }
      return .records(times.enumerated().map { .a(0xc000_0201 + UInt32($0), ttl: $1) })
    }
    let expected = times.indices.map { Self.v4(0xc000_0201 + UInt32($0)) }
    #expect(answers == [.addresses(expected, validMilliseconds: 10_000)])
  }

  @Test func anAnswerHoldsNoLongerThanTheAliasThatLedToIt() throws {
    let server = try NameServer()
    let answers = server.serve(Self.lookUp(Self.resolver(server), "www.example")) { question in
      question.kind == .a ? .records([.cname("edge.example", ttl: 5), .a(0xc000_0201, ttl: 50)]) : .noData
    }
    #expect(answers == [.addresses([Self.v4(0xc000_0201)], validMilliseconds: 5_000)])
  }

  @Test func anAnswerIsRememberedAndGrowsOld() throws {
    let server = try NameServer()
    let resolver = Self.resolver(server)
    _ = server.serve(Self.lookUp(resolver, "a.example")) { Self.both($0) }
    let answers = server.serve(Self.lookUp(resolver, "a.example")) { _ in .notFound }
    guard case .addresses(let list, let valid)? = answers.first else {
      Issue.record("\(answers)")
      return
    }
    #expect(list == Self.bothAddresses)
    #expect(valid <= 30_000 && valid > 5_000)
    #expect(server.questions.count == 2)
  }

  @Test func withoutACacheEveryNameIsAskedForAnew() throws {
    let server = try NameServer()
    let resolver = Self.resolver(server, cache: 0)
    for round in 1...3 {
      let answers = server.serve(Self.lookUp(resolver, "a.example")) { Self.both($0) }
      #expect(answers == [.addresses(Self.bothAddresses, validMilliseconds: 0)])
      #expect(server.questions.count == 2 * round)
    }
  }

  @Test func anAnswerThatIsTooOldIsAskedForAnew() throws {
    let server = try NameServer()
    let resolver = Self.resolver(server, cache: 20)
    _ = server.serve(Self.lookUp(resolver, "a.example")) { Self.both($0) }
    let begun = Clock.monotonic
    while server.questions.count < 4, Clock.monotonic - begun < Int64(patienceMilliseconds) {
      _ = server.serve(Self.lookUp(resolver, "a.example")) { Self.both($0) }
    }
    #expect(server.questions.count >= 4)
    #expect(Clock.monotonic - begun >= 15)
  }

  // MARK: Many at once

  @Test func lookUpsOfOneNameAreOneLookUp() throws {
    let server = try NameServer()
    let resolver = Self.resolver(server, cache: 60_000)
    let mailbox = Mailbox<NameAnswer>()
    for _ in 0..<30 { resolver.lookUp("a.example") { mailbox.post($0) } }
    let answers = server.serve(mailbox, answers: 30) { Self.both($0) }
    #expect(answers.count == 30)
    for answer in answers {
      guard case .addresses(Self.bothAddresses, _) = answer else {
        Issue.record("\(answer)")
        return
      }
    }
    #expect(server.questions.count == 2)
  }

  @Test func namesThatAreLookedUpTogetherGetTheirOwnAddresses() throws {
    let server = try NameServer()
    let resolver = Self.resolver(server)
    let mailbox = Mailbox<(Int, NameAnswer)>()
    let count = 60
    for number in 0..<count { resolver.lookUp("n\(number).example") { mailbox.post((number, $0)) } }
    let poller = Poller()
    poller.watch(server.descriptor, .read, data: 1)
    // All questions first, then all answers, the last one first.
    while server.questions.count < 2 * count {
      try #require(poller.wait(milliseconds: patienceMilliseconds) > 0, "\(server.questions.count) questions")
      while server.receive() != nil {}
    }
    for question in server.questions.reversed() {
      let number = UInt32(question.name.dropFirst().prefix { $0 != "." }) ?? 999
      server.answer(question, question.kind == .a ? .records([.a(number, ttl: 60)]) : .noData)
    }
    var seen: [Int: NameAnswer] = [:]
    while seen.count < count {
      _ = try #require(ready(mailbox.descriptor, .read))
      for (number, answer) in mailbox.takeAll() { seen[number] = answer }
    }
    for number in 0..<count {
      #expect(seen[number] == .addresses([Self.v4(UInt32(number))], validMilliseconds: 60_000))
    }
  }

  // MARK: Time

  @Test func aServerThatSaysNothingIsATimeOut() throws {
    let server = try NameServer()
    let begun = Clock.monotonic
    let answers = server.serve(Self.lookUp(Self.resolver(server, timeout: 150), "a.example")) { _ in .silence
    }
    let took = Clock.monotonic - begun
    #expect(answers == [.timedOut])
    #expect(took >= 100 && took < 5_000, "\(took) ms")
  }

  @Test func aFamilyThatSaysNothingDelaysNobody() throws {
    for silent in [Question.Kind.a, .aaaa] {
      let server = try NameServer()
      let resolver = Self.resolver(server, timeout: 15_000)
      let begun = Clock.monotonic
      let answers = server.serve(Self.lookUp(resolver, "a.example")) { question in
        question.kind == silent ? .silence : Self.both(question)
      }
      let took = Clock.monotonic - begun
      let expected = silent == .a ? Self.v6(1) : Self.v4(0xc000_0201)
      #expect(answers == [.addresses([expected], validMilliseconds: 30_000)])
      // RFC 8305, 3: 50 ms for the other family, and no more; well below the first repetition of the question.
      #expect(took >= 45 && took < 4_000, "\(took) ms")
      // What comes late harms nobody.
      for question in server.questions where question.kind == silent {
        server.answer(question, Self.both(question))
      }
      let again = server.serve(Self.lookUp(resolver, "a.example")) { _ in .silence }
      guard case .addresses([expected], _)? = again.first else {
        Issue.record("\(again)")
        continue
      }
    }
  }

  @Test func aFamilyThatDoesNotExistWaitsForTheOther() throws {
    let server = try NameServer()
    let answers = server.serve(Self.lookUp(Self.resolver(server, timeout: 150), "a.example")) { question in
      question.kind == .a ? .noData : .silence
    }
    #expect(answers == [.timedOut])
  }

  @Test func aQuestionThatWasLostIsAskedAgain() throws {
    let server = try NameServer()
    let answers = server.serve(Self.lookUp(Self.resolver(server, timeout: 900), "a.example")) { question in
      server.count(of: "a.example", question.kind) == 1 ? .silence : Self.both(question)
    }
    #expect(answers == [.addresses(Self.bothAddresses, validMilliseconds: 30_000)])
    #expect(server.questions.count == 4)
  }

  @Test func aServerThatIsNotThereIsFollowedByTheNext() throws {
    let dead = try NameServer().address
    let server = try NameServer()
    let resolver = Resolver(
      ResolverSettings(
        servers: [dead, server.address], timeoutMilliseconds: 3_000, cacheMilliseconds: 60_000))
    let answers = server.serve(Self.lookUp(resolver, "a.example")) { Self.both($0) }
    // Each family finds out by itself, and the later one may be too late to be waited for.
    guard case .addresses(let list, validMilliseconds: 30_000)? = answers.first else {
      Issue.record("\(answers)")
      return
    }
    #expect(!list.isEmpty && Set(list).isSubset(of: Self.bothAddresses), "\(list)")
  }

  // MARK: Other settings

  @Test func newSettingsForgetWhatWasKnown() throws {
    let before = try NameServer()
    let after = try NameServer()
    let resolver = Self.resolver(before)
    _ = before.serve(Self.lookUp(resolver, "a.example")) { Self.both($0) }
    resolver.configure(
      ResolverSettings(servers: [after.address], timeoutMilliseconds: 10_000, cacheMilliseconds: 60_000))
    let answers = after.serve(Self.lookUp(resolver, "a.example")) { question in
      question.kind == .a ? .records([.a(0xc000_0263, ttl: 30)]) : .noData
    }
    #expect(answers == [.addresses([Self.v4(0xc000_0263)], validMilliseconds: 30_000)])
    #expect(before.questions.count == 2)
  }

  @Test func theSameSettingsForgetNothing() throws {
    let server = try NameServer()
    let resolver = Self.resolver(server)
    _ = server.serve(Self.lookUp(resolver, "a.example")) { Self.both($0) }
    resolver.configure(
      ResolverSettings(servers: [server.address], timeoutMilliseconds: 10_000, cacheMilliseconds: 60_000))
    let answers = server.serve(Self.lookUp(resolver, "a.example")) { Self.both($0) }
    #expect(answers.count == 1)
    #expect(server.questions.count == 2)
  }

  @Test func aLookUpUnderWayIsAnsweredWhenTheSettingsChange() throws {
    let server = try NameServer()
    let other = try NameServer()
    let resolver = Self.resolver(server)
    let mailbox = Self.lookUp(resolver, "a.example")
    let poller = Poller()
    poller.watch(server.descriptor, .read, data: 1)
    while server.questions.count < 2 {
      try #require(poller.wait(milliseconds: patienceMilliseconds) > 0)
      while server.receive() != nil {}
    }
    resolver.configure(
      ResolverSettings(servers: [other.address], timeoutMilliseconds: 10_000, cacheMilliseconds: 60_000))
    let answers = other.serve(mailbox) { Self.both($0) }
    #expect(answers.count == 1)
    // And the resolver goes on.
    let next = other.serve(Self.lookUp(resolver, "b.example")) { Self.both($0) }
    #expect(next == [.addresses(Self.bothAddresses, validMilliseconds: 30_000)])
  }

  /// One look-up that a dead server never answers must not keep the others on it.
  @Test func aLookUpThatComesAfterNewSettingsIsDoneByThem() throws {
    let dead = try NameServer()
    let server = try NameServer()
    let resolver = Self.resolver(dead)
    let first = Self.lookUp(resolver, "a.example")
    let poller = Poller()
    poller.watch(dead.descriptor, .read, data: 1)
    while dead.questions.count < 2 {
      try #require(poller.wait(milliseconds: patienceMilliseconds) > 0)
      while dead.receive() != nil {}
    }
    resolver.configure(
      ResolverSettings(servers: [server.address], timeoutMilliseconds: 10_000, cacheMilliseconds: 60_000))
    let answers = server.serve(Self.lookUp(resolver, "b.example")) { Self.both($0) }
    #expect(answers == [.addresses(Self.bothAddresses, validMilliseconds: 30_000)])
    while dead.receive() != nil {}
    #expect(dead.count(of: "b.example") == 0)
    // And the one that was under way ends as well.
    let last = server.serve(first) { Self.both($0) }
    #expect(last.count == 1)
  }

  @Test func serversThatAreNoneAreAFailure() throws {
    let mailbox = Mailbox<NameAnswer>()
    let resolver = Resolver(
      ResolverSettings(servers: ["no address"], timeoutMilliseconds: 1_000, cacheMilliseconds: 0))
    resolver.lookUp("a.example") { mailbox.post($0) }
    _ = try #require(ready(mailbox.descriptor, .read))
    guard case .failed? = mailbox.takeAll().first else {
      Issue.record("an answer without a server")
      return
    }
  }
}

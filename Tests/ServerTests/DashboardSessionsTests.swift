// Links and sessions of the dashboard: once, for a while, for one user, and not many.

import Bytes
import Synchronization
import Testing

@testable import Server

@Suite struct DashboardSessionsTests {
  /// Words that are different each time.
  private static func sessions() -> DashboardSessions {
    let counter = Counter()
    return DashboardSessions { counter.next() }
  }

  private final class Counter: Sendable {
    private let value = Atomic<UInt64>(1)
    func next() -> UInt64 { value.wrappingAdd(0x9e37_79b9_7f4a_7c15, ordering: .relaxed).newValue }
  }

  private func opened(_ opening: DashboardSessions.Opening) -> WebSession? {
    if case .opened(let session, _) = opening { return session }
    return nil
  }

  @Test func aSecretIsMadeOfAllItsBits() {
    let secret = WebSecret { 0x0123_4567_89ab_cdef }
    #expect(secret.text.utf8.count == 48)
    #expect(secret.equals(secret.text))
    for index in 0..<48 {
      var other = Array(secret.text.utf8)
      other[index] ^= 1
      #expect(!secret.equals(String(decoding: other, as: UTF8.self)))
    }
    #expect(!secret.equals("") && !secret.equals(secret.text + "0") && !secret.equals(String(secret.text.dropLast())))
  }

  @Test func aLinkWorksOnce() throws {
    var sessions = Self.sessions()
    let link = sessions.link(askedBy: 1000, rights: .read, for: 1000, now: 0)
    let waits = sessions.hasLink(link.text, now: 1)
    #expect(waits)
    let session = try #require(opened(sessions.open(link.text, browser: 1000, now: 1)))
    #expect(session.rights == .read && session.askedBy == 1000 && session.browser == 1000)
    #expect(session.secret != link)
    let again = sessions.open(link.text, browser: 1000, now: 2)
    #expect(opened(again) == nil)
    let found = sessions.session(["x", session.secret.text], now: 2)
    #expect(found?.secret == session.secret)
    let byLink = sessions.session([link.text], now: 2)
    #expect(byLink == nil)
    sessions.end(session)
    let ended = sessions.session([session.secret.text], now: 3)
    #expect(ended == nil)
  }

  @Test func aLinkIsOldAfterAMinuteAndASessionAfterADay() throws {
    var sessions = Self.sessions()
    let link = sessions.link(askedBy: 0, rights: .act, for: nil, now: 0)
    let waits = sessions.hasLink(link.text, now: DashboardSessions.linkMilliseconds)
    #expect(!waits)
    let other = sessions.link(askedBy: 0, rights: .act, for: nil, now: 0)
    let session = try #require(
      opened(sessions.open(other.text, browser: 7, now: DashboardSessions.linkMilliseconds - 1)))
    let end = DashboardSessions.linkMilliseconds - 1 + DashboardSessions.sessionMilliseconds
    let last = sessions.session([session.secret.text], now: end - 1)
    let over = sessions.session([session.secret.text], now: end)
    #expect(last != nil && over == nil)
  }

  @Test func anotherUsersBrowserDoesNotUseALinkUp() {
    var sessions = Self.sessions()
    let link = sessions.link(askedBy: 1000, rights: .act, for: 1000, now: 0)
    guard case .notYours(1000) = sessions.open(link.text, browser: 1001, now: 1) else {
      Issue.record("user 1001 used it")
      return
    }
    let own = sessions.open(link.text, browser: 1000, now: 2)
    #expect(opened(own) != nil)
  }

  @Test func tooManyLinksPushOutTheOldestOfTheSameUser() {
    var sessions = Self.sessions()
    let careful = sessions.link(askedBy: 1, rights: .read, for: 1, now: 0)
    let links = (0..<DashboardSessions.mostLinks).map { _ in
      sessions.link(askedBy: 2, rights: .read, for: 2, now: 0)
    }
    let waiting = [careful, links[0], links[1]].map { sessions.hasLink($0.text, now: 1) }
    #expect(waiting == [true, false, true])
  }

  @Test func tooManySessionsPushOutTheOneThatIsUsedLeast() throws {
    var sessions = Self.sessions()
    var opened: [WebSession] = []
    for index in 0..<DashboardSessions.mostSessions {
      let link = sessions.link(askedBy: 0, rights: .act, for: nil, now: Int64(index))
      opened.append(try #require(self.opened(sessions.open(link.text, browser: 0, now: Int64(index)))))
    }
    _ = sessions.session([opened[0].secret.text], now: 100)
    let link = sessions.link(askedBy: 0, rights: .act, for: nil, now: 101)
    guard case .opened(_, let ended) = sessions.open(link.text, browser: 0, now: 101) else {
      Issue.record("there was no room")
      return
    }
    #expect(ended?.secret == opened[1].secret, "its event streams end with it")
    #expect(sessions.count == DashboardSessions.mostSessions)
    let first = sessions.session([opened[0].secret.text], now: 102)
    let second = sessions.session([opened[1].secret.text], now: 102)
    #expect(first != nil && second == nil)
  }

  @Test func strangersHaveSoManyAnswersASecond() {
    var allowance = StrangerAllowance()
    let answered = (0..<100).count { _ in allowance.takes(now: 5) }
    #expect(answered == StrangerAllowance.most)
    let early = allowance.takes(now: 5 + StrangerAllowance.milliseconds - 1)
    let late = allowance.takes(now: 5 + StrangerAllowance.milliseconds)
    #expect(!early && late)
  }
}

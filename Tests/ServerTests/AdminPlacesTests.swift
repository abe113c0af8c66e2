// Who makes way at the admin socket, and when loops are asked how far exchanges are.

import Sharing
import Testing
import Transport

@testable import Server

@Suite struct AdminPlacesTests {
  @Test(
    arguments: [
      ("nobody is there", [], nil),
      ("all are served", [.served, .served], nil),
      ("the oldest that never asked", [.silent(since: 5), .silent(since: 3), .silent(since: 4)], 1),
      ("whoever never asked before whoever did, however old", [.kept(since: 1), .silent(since: 9)], 1),
      ("the oldest of those that were answered", [.served, .kept(since: 7), .kept(since: 6)], 2),
      ("who does not read comes last", [.unread(since: 1), .kept(since: 9), .served], 1),
      ("who does not read, where nobody else is left", [.served, .unread(since: 2), .unread(since: 1)], 2),
    ] as [(String, [AdminPlace], Int?)])
  func whoMakesWay(_ name: String, _ places: [AdminPlace], _ leaver: Int?) {
    #expect(AdminPlace.whoLeaves(places) == leaver)
  }

  @Test(
    arguments: [
      ("one user has all: its silent one first", [(.served, 1, 5), (.silent(since: 9), 1, 9), (.served, 1, 1)], 2, 1),
      ("even if all of its are served", [(.served, 1, 5), (.served, 1, 3), (.served, 1, 4), (.served, 1, 9)], 2, 1),
      ("not for itself", [(.served, 1, 5), (.served, 1, 3)], 1, nil),
      (
        "where all have their share it goes by what they do",
        [(.served, 1, 1), (.kept(since: 9), 2, 9), (.served, 3, 1), (.served, 4, 1)], 5, 1
      ),
    ] as [(String, [(AdminPlace, UInt32, Int64)], UInt32, Int?)])
  func whoMakesWayToAnother(
    _ name: String, _ places: [(AdminPlace, UInt32, Int64)], _ newcomer: UInt32, _ leaver: Int?
  ) {
    let known = places.map { (place: $0.0, identity: Claimant.user($0.1), since: $0.2) }
    #expect(AdminPlace.whoLeaves(known, for: .user(newcomer), share: 0.25) == leaver)
  }

  private static let interval = ProgressSweep.intervalMilliseconds

  @Test func roundsFollowEachOtherWhileSomebodyWatches() {
    var rounds = ProgressRounds()
    #expect(rounds.due == .max)
    #expect(rounds.begins(now: 0, [0, 1]) == false)
    rounds.wanted(now: 0)
    #expect(rounds.due == Self.interval)
    #expect(rounds.begins(now: Self.interval - 1, [0, 1]) == false)
    #expect(rounds.begins(now: Self.interval, [0, 1]) == true)
    #expect(rounds.due == .max)
    #expect(rounds.begins(now: 9999, [0, 1]) == false)
    rounds.answered(1, isWanted: true, now: Self.interval + 3)
    rounds.answered(1, isWanted: true, now: Self.interval + 4)
    #expect(rounds.due == .max, "one has yet to answer")
    rounds.answered(0, isWanted: true, now: Self.interval + 5)
    #expect(rounds.due == 2 * Self.interval + 5)
  }

  @Test func anotherWatcherHurriesNoRound() {
    var rounds = ProgressRounds()
    rounds.wanted(now: 0)
    rounds.wanted(now: 100)
    #expect(rounds.due == Self.interval)
    #expect(rounds.begins(now: Self.interval, [0]) == true)
    rounds.wanted(now: Self.interval)
    #expect(rounds.due == .max)
  }

  @Test func theLastRoundIsTheLast() {
    var rounds = ProgressRounds()
    rounds.wanted(now: 0)
    #expect(rounds.begins(now: Self.interval, [0]) == true)
    rounds.answered(0, isWanted: false, now: Self.interval)
    #expect(rounds.due == .max)
    rounds.wanted(now: 7777)
    #expect(rounds.due == 7777 + Self.interval)
  }

  @Test func aLoopThatIsOverIsNotWaitedFor() {
    var rounds = ProgressRounds()
    rounds.wanted(now: 0)
    #expect(rounds.begins(now: Self.interval, [0, 1]) == true)
    rounds.answered(0, isWanted: true, now: 600)
    rounds.answered(1, isWanted: true, now: 700)
    #expect(rounds.begins(now: 700 + Self.interval, [0]) == true)
    rounds.answered(1, isWanted: true, now: 1300)
    #expect(rounds.due == .max)
    rounds.answered(0, isWanted: true, now: 1400)
    #expect(rounds.begins(now: 99999, []) == false)
  }
}

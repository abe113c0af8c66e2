// Rooms of exchanges: a connection has one for as long as it has an exchange, and the loop keeps as many as it needs.

import Bytes
import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct ExchangeRoomTests {
  private struct Setting: ~Copyable {
    var workspace = Workspace(
      name: "sallyport", mark: Stage.mark, references: ReferenceSource(seed: 0, index: 0, of: 1))
    var outputs = Outputs()
  }

  private static func ask(_ session: inout Session, _ setting: inout Setting) {
    _ = session.clientReceived(
      octets(get).span, now: 0, policy: plainPolicy, in: &setting.workspace, to: &setting.outputs)
  }

  @Test func aConnectionHasARoomForAsLongAsItHasAnExchange() {
    let rooms = ExchangeRooms()
    var setting = Setting()
    var session = Session(policy: plainPolicy, in: rooms, now: 0)
    #expect(session.room == nil && !session.exchange.isTunnel && session.exchange.record.answer.status == 0)
    #expect(session.room == nil, "looking at it takes none")
    Self.ask(&session, &setting)
    #expect(session.room != nil && session.exchange.isConnecting)
    session.exchangeEnded(now: 0, keeps: true)
    #expect(session.room == nil && rooms.free.count == 1)
    #expect(!session.exchange.isConnecting && !rooms.free[0].exchange.isConnecting, "the exchange is dropped")
    Self.ask(&session, &setting)
    #expect(rooms.free.isEmpty, "and its room is used again")
  }

  @Test func aConnectionThatIsDroppedGivesItsRoomBack() {
    let rooms = ExchangeRooms()
    var setting = Setting()
    do {
      var session = Session(policy: plainPolicy, in: rooms, now: 0)
      Self.ask(&session, &setting)
      #expect(rooms.free.isEmpty)
    }
    #expect(rooms.free.count == 1)
  }

  @Test func noMoreAreKeptThanOneTurnEnds() {
    let rooms = ExchangeRooms()
    var setting = Setting()
    func nest(_ depth: Int) {
      var session = Session(policy: plainPolicy, in: rooms, now: 0)
      Self.ask(&session, &setting)
      if depth > 0 { nest(depth - 1) }
    }
    nest(ExchangeRooms.mostFree + 10)
    #expect(rooms.free.count == ExchangeRooms.mostFree)
  }

  /// A connection without an exchange that is told of the end of the proxy shows it to no other connection.
  @Test func whatNoExchangeIsToldReachesNoOther() {
    let rooms = ExchangeRooms()
    var setting = Setting()
    var idle = Session(policy: plainPolicy, in: rooms, now: 0)
    idle.expectLastExchange()
    idle.exchange.progressed(now: 99)
    let other = Session(policy: plainPolicy, in: rooms, now: 0)
    #expect(other.exchange.times.lastProgress == 0)
    Self.ask(&idle, &setting)
    #expect(idle.exchange.client.terms.contains(.isLast))
  }
}

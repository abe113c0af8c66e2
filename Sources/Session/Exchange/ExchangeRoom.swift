// Memory for exchanges. A connection that waits for a request has none: the head of a request takes a room, and the end
// of its exchange gives it back. So a loop has about as many rooms as exchanges at a time, however many clients are
// connected, and a request allocates nothing. Tests: ExchangeRoomTests.

import Policy

public final class ExchangeRoom {
  /// Nothing in an exchange leads back to its room, so no two accesses overlap. See Conversation.swift.
  @safe @exclusivity(unchecked) @usableFromInline var exchange: Exchange

  init(_ exchange: consuming Exchange) { self.exchange = exchange }
}

/// The rooms of one loop.
public final class ExchangeRooms {
  /// What a connection without an exchange shows: one that has not begun. It is never changed.
  @usableFromInline let none: ExchangeRoom
  private let policy = Policy()
  private(set) var free: [ExchangeRoom] = []

  /// How many empty rooms are kept, of about a kilobyte each: more than the exchanges that usually end in one turn.
  static let mostFree = 256

  public init() { none = ExchangeRoom(Exchange(policy: policy, now: 0)) }

  @usableFromInline func take() -> ExchangeRoom { free.popLast() ?? ExchangeRoom(Exchange(policy: policy, now: 0)) }

  /// Drops the exchange, and with it all that it refers to.
  func takeBack(_ room: ExchangeRoom) {
    room.exchange = Exchange(policy: policy, now: 0)
    if free.count < Self.mostFree { free.append(room) }
  }
}

// Events: nobody watches, somebody does, and what a crowd of them costs.

import Testing

@testable import Server

@Suite struct EventHubTests {
  @Test func nothingIsKeptForNobody() {
    let hub = EventHub()
    hub.post(.reload, [])
    #expect(!hub.isWatched && hub.takeAll().events.isEmpty && hub.lostCount == 0)
  }

  @Test func whoWatchesGetsThemInOrder() {
    let hub = EventHub()
    hub.kinds = .all
    hub.post(.reload, [("a", .number(1))])
    hub.post(.finished, [])
    let events = hub.takeAll().events
    #expect(
      events.map { "\($0.kind.rawValue) \($0.members.map(\.0))" } == [#"reload ["time", "a"]"#, #"finished ["time"]"#])
    hub.kinds = []
    hub.post(.reload, [])
    #expect(hub.takeAll().events.isEmpty)
  }

  @Test func whatNobodyWantsIsNotPosted() {
    let hub = EventHub()
    hub.kinds = [EventKinds(.reload), EventKinds(.wait)]
    for kind in ProxyEvent.Kind.allCases {
      #expect(hub.wants(kind) == [.reload, .wait].contains(kind))
      hub.post(kind, [])
    }
    #expect(hub.takeAll().events.map(\.kind) == [.wait, .reload])
  }

  @Test func whatThereIsNoRoomForIsCountedByKind() {
    let hub = EventHub()
    hub.kinds = .all
    for _ in 0..<(EventHub.mostWaiting + 3) { hub.post(.finished, []) }
    hub.post(.reload, [])
    let (events, dropped) = hub.takeAll()
    #expect(events.count == EventHub.mostWaiting && dropped == [.finished: 3, .reload: 1])
    hub.post(.finished, [])
    let (more, none) = hub.takeAll()
    #expect(more.count == 1 && none.isEmpty)
  }

  @Test func everyKindHasAPlaceOfItsOwn() {
    let kinds = ProxyEvent.Kind.allCases.map { EventKinds($0).rawValue }
    #expect(Set(kinds).count == kinds.count && kinds.allSatisfy { $0.nonzeroBitCount == 1 })
    #expect(EventKinds.all.rawValue == kinds.reduce(0, |))
  }

  @Test(
    arguments: [
      ("reload", .success([EventKinds(.reload)])),
      ("reload,pin-mismatch,reload", .success([EventKinds(.reload), EventKinds(.pinMismatch)])),
      ("", .failure(EventKinds.UnknownKind(word: ""))), ("reload,", .failure(EventKinds.UnknownKind(word: ""))),
      ("Reload", .failure(EventKinds.UnknownKind(word: "Reload"))),
      ("reload, wait", .failure(EventKinds.UnknownKind(word: " wait"))),
      ("lost", .failure(EventKinds.UnknownKind(word: "lost"))),
    ] as [(String, Result<EventKinds, EventKinds.UnknownKind>)])
  func aListOfKinds(_ list: String, _ kinds: Result<EventKinds, EventKinds.UnknownKind>) {
    #expect(EventKinds.read(list) == kinds)
  }
}

// Events: nobody watches, somebody does, and what a crowd of them costs.

import Testing

@testable import Server

@Suite struct EventHubTests {
  @Test func nothingIsKeptForNobody() {
    let hub = EventHub()
    hub.post(.reload, json: "{}")
    #expect(!hub.isWatched && hub.takeAll().isEmpty && hub.lostCount == 0)
  }

  @Test func whoWatchesGetsThemInOrder() {
    let hub = EventHub()
    hub.watcherCame()
    hub.post(.reload, json: "{\"a\":1}\n")
    hub.post(.finished, json: "{}")
    #expect(hub.takeAll().map { "\($0.kind.rawValue) \($0.json)" } == ["reload {\"a\":1}", "finished {}"])
    hub.watcherLeft()
    hub.post(.reload, json: "{}")
    #expect(hub.takeAll().isEmpty)
  }

  @Test func whatThereIsNoRoomForIsCounted() {
    let hub = EventHub()
    hub.watcherCame()
    for _ in 0..<(EventHub.mostWaiting + 3) { hub.post(.finished, json: "{}") }
    #expect(hub.lostCount == 3)
    #expect(hub.takeAll().count == EventHub.mostWaiting)
    hub.post(.finished, json: "{}")
    #expect(hub.takeAll().count == 1 && hub.lostCount == 3)
  }
}

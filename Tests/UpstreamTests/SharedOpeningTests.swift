// Who opens a connection that may carry the requests of all, and who waits for it.

import Testing

@testable import Upstream

@Suite struct SharedOpeningTests {
  private final class Request {
    let name: String
    init(_ name: String) { self.name = name }
  }

  /// Played to one opening: what each request is told.
  private struct Stage {
    var opening = SharedOpening<Request>()
    private(set) var opened: [String] = []
    private(set) var following: [Request] = []

    mutating func begin(_ names: String..., hasFollowed: Bool = false) {
      for name in names { begin(Request(name), hasFollowed: hasFollowed) }
    }

    private mutating func begin(_ request: Request, hasFollowed: Bool) {
      switch opening.begin(request, hasFollowed: hasFollowed) {
      case .open: opened.append(request.name)
      case .follow: following.append(request)
      }
    }

    /// Those that go on begin again.
    mutating func end() -> [String] {
      let released = opening.ended()
      following.removeAll { one in released.contains { $0 === one } }
      for request in released { begin(request, hasFollowed: true) }
      return released.map(\.name)
    }

    var waiting: [String] { following.map(\.name) }
  }

  private func stage(isShared: Bool?) -> Stage {
    var stage = Stage()
    if let isShared { stage.opening.agreed(isShared: isShared) }
    return stage
  }

  @Test func oneOpensWhatIsKnownToBeShared() {
    var stage = stage(isShared: true)
    stage.begin("a", "b", "c")
    #expect(stage.opened == ["a"] && stage.waiting == ["b", "c"])
  }

  @Test func asManyOpenAsBrowsersDoWhereNothingIsKnown() {
    var stage = stage(isShared: nil)
    stage.begin("a", "b", "c", "d", "e", "f", "g", "h")
    #expect(stage.opened == ["a", "b", "c", "d", "e", "f"] && stage.waiting == ["g", "h"])
    #expect(SharedOpening<Request>.mostUnknown == 6)
  }

  @Test func allOpenWhereEachIsForOneRequest() {
    var stage = stage(isShared: false)
    for index in 0..<100 { stage.begin("\(index)") }
    #expect(stage.opened.count == 100 && stage.waiting.isEmpty)
  }

  /// By the connection that is there, if it is shared. The driver looks for that before it begins again.
  @Test func thoseThatFollowGoOnWhenItIsThere() {
    var opening = SharedOpening<Request>()
    opening.agreed(isShared: true)
    let (first, second, third) = (Request("a"), Request("b"), Request("c"))
    #expect(opening.begin(first, hasFollowed: false) == .open)
    #expect(opening.begin(second, hasFollowed: false) == .follow)
    #expect(opening.begin(third, hasFollowed: false) == .follow)
    opening.agreed(isShared: true)
    #expect(opening.ended().map(\.name) == ["b", "c"])
    // The next one is another opening.
    #expect(opening.begin(first, hasFollowed: false) == .open)
    #expect(opening.ended().isEmpty, "each is told once")
  }

  @Test func theFirstOfManyThatEndsTellsAll() {
    var stage = stage(isShared: nil)
    stage.begin("a", "b", "c", "d", "e", "f", "g", "h")
    stage.opening.agreed(isShared: true)
    #expect(stage.opening.ended().map(\.name) == ["g", "h"])
    // Five are still being opened, and one would do.
    stage.begin("i")
    #expect(stage.opened.last == "f" && stage.waiting.last == "i")
    for _ in 0..<4 { _ = stage.opening.ended() }
    stage.begin("j")
    #expect(stage.waiting.last == "j")
    _ = stage.opening.ended()
    stage.begin("k")
    #expect(stage.opened.last == "k")
  }

  @Test func whoeverFollowedOneThatFailedOpensItsOwn() {
    var stage = stage(isShared: true)
    stage.begin("a", "b", "c")
    #expect(stage.end() == ["b", "c"])
    #expect(stage.opened == ["a", "b", "c"] && stage.waiting.isEmpty)
    // Whoever comes now follows those.
    stage.begin("d")
    #expect(stage.waiting == ["d"])
    #expect(stage.end() == ["d"])
  }

  @Test func nobodyFollowsTwice() {
    var stage = stage(isShared: true)
    stage.begin("a")
    stage.begin("b", "c", hasFollowed: true)
    #expect(stage.opened == ["a", "b", "c"] && stage.waiting.isEmpty)
  }

  @Test func aFailureSaysNothingOfWhatIsSpoken() {
    for isShared in [nil, true, false] as [Bool?] {
      var failed = stage(isShared: isShared)
      failed.begin("x")
      #expect(failed.end().isEmpty)
      var fresh = stage(isShared: isShared)
      for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        failed.begin(name)
        fresh.begin(name)
      }
      #expect(failed.opened.dropFirst() == fresh.opened[...] && failed.waiting == fresh.waiting)
    }
  }

  @Test func allGoOnTheirOwnOnceItIsForOneRequestEach() {
    var stage = stage(isShared: true)
    stage.begin("a", "b", "c")
    stage.opening.agreed(isShared: false)
    // Also while others wait still.
    stage.begin("d")
    #expect(stage.opened == ["a", "d"])
    #expect(stage.end() == ["b", "c"])
    stage.begin("e", "f")
    #expect(stage.opened == ["a", "d", "b", "c", "e", "f"] && stage.waiting.isEmpty)
  }

  @Test func theLastHandshakeCounts() {
    var stage = stage(isShared: false)
    stage.begin("a", "b")
    stage.opening.agreed(isShared: true)
    stage.begin("c")
    #expect(stage.opened == ["a", "b"] && stage.waiting == ["c"])
  }

  @Test func whoeverLeavesIsNotTold() {
    var opening = SharedOpening<Request>()
    opening.agreed(isShared: true)
    let (first, second, third) = (Request("a"), Request("b"), Request("c"))
    #expect(opening.begin(first, hasFollowed: false) == .open)
    for follower in [second, third] { #expect(opening.begin(follower, hasFollowed: false) == .follow) }
    opening.leave(second)
    opening.leave(second)
    #expect(opening.ended().map(\.name) == ["c"])
    // Nobody holds those that have left.
    opening.leave(third)
    #expect(opening.begin(second, hasFollowed: false) == .open)
    #expect(opening.ended().isEmpty)
  }
}

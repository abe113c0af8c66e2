// The cache in front of the mint: what is minted again, and what makes room.

import Security
import Testing

@Suite struct LeafCacheTests {
  static let now = AuthorityTests.now
  static let day = AuthorityTests.day

  /// A cache with a mint that counts.
  final class Stage {
    let mint: LeafMint
    var cache: LeafCache
    var minted: [String] = []

    init(capacity: Int) throws {
      mint = try LeafMintTests.mint([.name("example")])
      cache = LeafCache(capacity: capacity)
    }

    @discardableResult
    func ask(_ name: String, at seconds: Int64 = now) -> Result<Leaf, MintFault> {
      cache.leaf(for: .name(name), now: seconds) { identity in
        minted.append(name)
        return mint.mint(for: identity, now: seconds)
      }
    }
  }

  @Test func aHostIsMintedOnce() throws {
    let stage = try Stage(capacity: 4)
    let first = try stage.ask("a.example").get()
    let second = try stage.ask("a.example").get()
    #expect(first === second)
    #expect(stage.minted == ["a.example"])
  }

  @Test func theOneThatWasNotAskedForTheLongestMakesRoom() throws {
    let stage = try Stage(capacity: 3)
    for name in ["a", "b", "c", "a", "d"] { stage.ask("\(name).example") }
    #expect(stage.cache.count == 3)
    stage.minted = []
    for name in ["a", "c", "d"] { stage.ask("\(name).example") }
    #expect(stage.minted == [])
    stage.ask("b.example")
    #expect(stage.minted == ["b.example"])
    stage.minted = []
    stage.ask("a.example")
    #expect(stage.minted == ["a.example"])
  }

  @Test func aCacheOfOneKeepsTheLast() throws {
    let stage = try Stage(capacity: 1)
    for name in ["a", "a", "b", "b", "a"] { stage.ask("\(name).example") }
    #expect(stage.minted == ["a.example", "b.example", "a.example"])
    #expect(stage.cache.count == 1)
  }

  @Test func aLeafIsRenewedAtHalfOfItsLifeInItsPlace() throws {
    let stage = try Stage(capacity: 2)
    let first = try stage.ask("a.example").get()
    #expect(try stage.ask("a.example", at: first.renewsAt - 1).get() === first)
    let second = try stage.ask("a.example", at: first.renewsAt).get()
    #expect(second !== first)
    #expect(try stage.ask("a.example", at: first.renewsAt).get() === second)
    #expect(stage.cache.count == 1)
  }

  @Test func aClockThatWentBackBehindALeafRenewsIt() throws {
    let stage = try Stage(capacity: 2)
    let first = try stage.ask("a.example", at: Self.now + 100 * Self.day).get()
    #expect(try stage.ask("a.example", at: Self.now).get() !== first)
  }

  @Test func aFaultIsNotRemembered() throws {
    let stage = try Stage(capacity: 2)
    for _ in 0..<2 {
      guard case .failure(.notPermitted) = stage.ask("bank.test") else {
        Issue.record("minted")
        return
      }
    }
    #expect(stage.minted == ["bank.test", "bank.test"])
    #expect(stage.cache.count == 0)
  }

  /// Against a list that is searched: the same answers for many requests.
  @Test func itAgreesWithASimpleOne() throws {
    let stage = try Stage(capacity: 5)
    var model: [String] = []
    var seed: UInt64 = 7
    for _ in 0..<600 {
      seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      let name = "h\(seed >> 33 % 12).example"
      stage.minted = []
      stage.ask(name)
      #expect(stage.minted.isEmpty == model.contains(name))
      model.removeAll { $0 == name }
      model.append(name)
      if model.count > 5 { model.removeFirst() }
      #expect(stage.cache.count == model.count)
    }
  }
}

// What is stored, by key and by use: finding and variants (RFC 9111, 4.1), taking places, growing, purging, and fetches that
// others wait for.

import Bytes
import Policy
import Sharing
import Testing

@testable import Cache

/// An index that an expectation may change.
private final class Index {
  private var index: CacheIndex

  init(limit: Int, purgeTo: Double) { index = CacheIndex(limit: limit, purgeTo: purgeTo) }

  var bytes: Int { index.bytes }
  var count: Int { index.count }
  var evictions: UInt64 { index.evictions }
  var slots: Int { index.slots }

  func find(_ name: String, _ asked: [String] = []) -> CacheIndex.Found { index.find(key(name), fields(asked)) }
  func insert(_ answer: StoredAnswer) { index.insert(answer) }
  func replace(_ answer: StoredAnswer, by fresh: StoredAnswer) { index.replace(answer, by: fresh) }
  func grow(_ answer: StoredAnswer, by added: Int) -> Bool { index.grow(answer, by: added) }
  func remove(_ answer: StoredAnswer) { index.remove(answer) }
  /// Whether anything was stored of the URL.
  func removeAll(_ name: String, now: Int64 = 0) -> Bool {
    let before = index.count
    index.removeAll(ofResource: key(name), now: now)
    return index.count < before
  }
  func forgetFiles(before now: Int64) { index.forgetFiles(before: now) }
  func restore(_ answer: StoredAnswer) -> Bool { index.restore(answer) }
  func forgetWhatWasAskedFor(before now: Int64) { index.forgetWhatWasAskedFor(before: now) }
  func answers(in range: Range<Int>) -> [StoredAnswer] { index.answers(in: range) }
  func remove(in range: Range<Int>, where isMeant: (StoredAnswer) -> Bool) -> Int {
    index.remove(in: range, where: isMeant)
  }
  func startPurging() { index.startPurging() }
  func goOnPurging() -> Bool { index.goOnPurging() }

  /// The answer that is found; nil: there is none to this request.
  func answer(_ name: String, _ asked: [String] = []) -> StoredAnswer? {
    if case .answer(let found) = find(name, asked) { found } else { nil }
  }

  func join(
    _ name: String, _ flight: Flight, _ number: Int, foundNone: Bool = false, always: Bool = false, now: Int64 = 0
  ) -> CacheIndex.Joining {
    index.join(key(name), flight, as: reader(number), foundNone: foundNone, always: always, now: now)
  }
  /// The flight that the request waits for; nil: it would lead one of its own, which ends at once.
  func follow(
    _ name: String, _ number: Int, _ asked: [String] = [], of claimant: Claimant = one, always: Bool = false,
    now: Int64 = 0
  ) -> Flight? {
    let flight = Flight(fields(asked), for: claimant)
    if case .follows(let other) = join(name, flight, number, always: always, now: now) { return other }
    #expect(index.end(flight, key(name)).isEmpty)
    return nil
  }
  func waitsAgain(_ flight: Flight) -> [Int] { index.waitsAgain(flight, key("1")).map(\.slot) }
  func sent(_ flight: Flight) { index.sent(flight, key("1")) }
  func begin(_ flight: Flight) { #expect(join("1", flight, 100) == .leads) }
  func leave(_ flight: Flight, _ number: Int) { _ = index.leave(flight, key("1"), reader: reader(number)) }
  func followers(of flight: Flight) -> Int { index.followers(of: flight, key("1")) }
  /// The slots of those who waited.
  func end(_ flight: Flight) -> [Int] { index.end(flight, key("1")).map(\.slot) }
  func noteUnstorable(_ name: String, now: Int64) { index.noteUnstorable(key(name), now: now) }
}

private let one = Claimant.user(1)
private let other = Claimant.user(2)

private func key(_ name: String) -> CacheKey { CacheKey(url: Array(name.utf8), rule: [], owner: "") }
private func reader(_ number: Int) -> Content.Reader { Content.Reader(worker: 0, slot: number, generation: 1) }

@Suite struct CacheIndexTests {
  private static func stored(
    _ name: String, _ lines: [String] = [], asked: [String] = [], content: Content = Content(announced: nil),
    file: UInt64? = nil
  ) -> StoredAnswer {
    StoredAnswer(
      key: key(name), url: Array(name.utf8), host: "a", rule: "r", answer(200, lines, to: request(asked)), content,
      file: file)
  }

  private static func index(_ limit: Int = 1 << 20, purgeTo: Double = 0.5) -> Index {
    Index(limit: limit, purgeTo: purgeTo)
  }

  // MARK: Finding

  @Test func anAnswerIsFoundByItsKey() {
    let index = Self.index()
    #expect(index.count == 0)
    let one = Self.stored("1")
    index.insert(one)
    index.insert(Self.stored("2"))
    #expect(index.count == 2)
    #expect(index.answer("1") === one)
    guard case .nothing = index.find("3") else {
      Issue.record("nothing is stored there")
      return
    }
  }

  /// RFC 9111, 4.1.
  @Test func variantsStandBesideOneAnother() {
    let index = Self.index()
    let english = Self.stored("1", ["Vary: Accept-Language"], asked: ["Accept-Language: en"])
    let german = Self.stored("1", ["Vary: Accept-Language"], asked: ["Accept-Language: de"])
    index.insert(english)
    index.insert(german)
    #expect(index.count == 2)
    #expect(index.answer("1", ["Accept-Language: EN"]) === english)
    #expect(index.answer("1", ["Accept-Language: de"]) === german)
    guard case .otherVariants = index.find("1", ["Accept-Language: fr"]) else {
      Issue.record("other variants are stored there")
      return
    }
    let younger = Self.stored("1", ["Vary: Accept-Language"], asked: ["Accept-Language: de"])
    index.insert(younger)
    #expect(index.count == 2)
    #expect(index.answer("1", ["Accept-Language: de"]) === younger)
  }

  /// RFC 9111, 4.1: of several that answer the most recent, by Date.
  @Test func ofSeveralTheMostRecent() {
    for turn in [false, true] {
      let index = Self.index()
      let old = Self.stored("1", ["Vary: X", "Date: \(date(-60))"], asked: ["X: 1", "Y: 1"])
      let new = Self.stored("1", ["Vary: Y", "Date: \(date(-30))"], asked: ["X: 1", "Y: 1"])
      for answer in turn ? [new, old] : [old, new] { index.insert(answer) }
      #expect(index.count == 2)
      #expect(index.answer("1", ["X: 1", "Y: 1"]) === new)
      #expect(index.answer("1", ["X: 1", "Y: 2"]) === old)
    }
  }

  @Test func ofTwoOfTheSameDateTheOneThatCameLast() {
    let index = Self.index()
    index.insert(Self.stored("1", ["Vary: X"]))
    let last = Self.stored("1", ["Vary: Y"])
    index.insert(last)
    #expect(index.answer("1") === last)
  }

  // MARK: Taking places

  @Test func aFreshenedHeadTakesThePlaceOfWhatItWas() {
    let index = Self.index()
    let old = Self.stored("1", ["ETag: \"1\""])
    index.insert(old)
    #expect(index.grow(old, by: 1000))
    let before = index.bytes
    let head = old.head.freshened(
      by: fields(["X: a longer head"]), answering: request(), requested: later(9), received: later(9))
    let fresh = old.freshened(head)
    index.replace(old, by: fresh)
    #expect(index.count == 1)
    #expect(index.answer("1") === fresh)
    #expect(index.bytes == before + fresh.overheadBytes - old.overheadBytes)
    #expect(index.grow(fresh, by: 1))
    index.remove(fresh)
    #expect(index.bytes == 0)
    #expect(index.count == 0)
  }

  @Test func anAnswerThatIsFreshenedWhileItComesIsStillStored() {
    let index = Self.index()
    let old = Self.stored("1", ["ETag: \"1\""])
    index.insert(old)
    let fresh = old.freshened(old.head)
    index.replace(old, by: fresh)
    let isStored = index.grow(old, by: 1000)
    #expect(index.bytes == fresh.overheadBytes + 1000)
    #expect(isStored)

  }

  /// Its URL is changed, or an operator purges, while the origin is asked about it, and then the 304 comes.
  @Test(arguments: [true, false]) func whatHasBeenChangedMeanwhileIsNotStoredAgain(isChanged: Bool) {
    let index = Self.index()
    // Its content is in a file: it can be had still.
    let old = Self.stored("1", ["ETag: \"1\""], content: Content(inFile: 9, trailers: []))
    index.insert(old)
    if isChanged { _ = index.removeAll("1", now: later(9)) } else { index.remove(old) }
    index.replace(old, by: old.freshened(old.head))
    #expect((index.answer("1") == nil) == isChanged)
  }

  /// Another loop learns of a change, or an operator purges, after this one has looked whether it may store the answer.
  @Test(arguments: [0, 9] as [Int64], [true, false])
  func whatWasAskedForBeforeAChangeIsNotStored(seconds: Int64, isPurge: Bool) {
    let index = Self.index()
    let earlier = Self.stored("1", ["ETag: \"1\""])
    if isPurge {
      index.forgetWhatWasAskedFor(before: later(seconds))
    } else {
      _ = index.removeAll("1", now: later(seconds))
    }
    index.insert(earlier)
    #expect(index.answer("1") == nil)
    #expect(index.count == 0 && index.bytes == 0)
    #expect(!earlier.content.isWhole, "what its readers have had is given up")
  }

  /// The clock is read before the lock is taken: of two that are told of a change, the later one may come first.
  @Test func aChangeThatIsToldLateChangesNothingBack() {
    let index = Self.index()
    _ = index.removeAll("1", now: later(1))
    _ = index.removeAll("1", now: later(-1))
    index.insert(Self.stored("1"))
    #expect(index.answer("1") == nil)
  }

  /// A file that the purge did not mean is still there; one whose URL has changed is no answer.
  @Test func whatIsInAFileOutlivesAPurgeAndNoChange() {
    let index = Self.index()
    let answer = Self.stored("1", content: Content(inFile: 9, trailers: []))
    index.forgetWhatWasAskedFor(before: later(9))
    #expect(index.restore(answer))
    #expect(index.answer("1") === answer)
    #expect(index.removeAll("1", now: later(9)))
    #expect(!index.restore(answer))
    #expect(index.answer("1") == nil)
  }

  @Test func nothingIsRestoredAfterAPurgeThatTheDiskHasNotDone() {
    let index = Self.index()
    index.forgetFiles(before: later(-1))
    #expect(index.restore(Self.stored("1", file: 1)))
    index.forgetFiles(before: later(0))
    #expect(!index.restore(Self.stored("2", file: 2)))
    index.insert(Self.stored("3"))
    #expect(index.count == 2, "what comes from the origin is stored")
  }

  /// An exchange has an answer that left the memory and came back from its file for another, and removes it.
  @Test func anAnswerIsRemovedByItsFileToo() {
    let index = Self.index()
    let (had, restored, other) = (Self.stored("1", file: 7), Self.stored("1", file: 7), Self.stored("1", file: 8))
    index.insert(other)
    index.remove(had)
    #expect(index.answer("1") === other)
    index.insert(restored)
    index.remove(had)
    #expect(index.answer("1") == nil)
    #expect(index.bytes == 0)
  }

  @Test func whatIsAskedForAfterAChangeIsStored() {
    let index = Self.index()
    _ = index.removeAll("1", now: later(-1))
    index.forgetWhatWasAskedFor(before: later(-1))
    let answer = Self.stored("1")
    index.insert(answer)
    #expect(index.answer("1") === answer)
  }

  /// An answer is purged while the origin is asked about it, and then the 304 comes.
  @Test func whatHasBeenPurgedIsNotStoredAgainByHalves() {
    let index = Self.index()
    let content = Content(announced: nil)
    let old = Self.stored("1", ["ETag: \"1\""], content: content)
    index.insert(old)
    let bytes = [UInt8](repeating: 7, count: 3 * Content.chunkBytes)
    _ = content.append(bytes.span)
    #expect(index.grow(old, by: bytes.count))
    _ = content.finish()
    index.remove(old)
    index.replace(old, by: old.freshened(old.head))
    guard let found = index.answer("1") else { return }
    #expect(index.bytes >= bytes.count)
    for number in 1...2 {
      let isThere = found.content.attend(reader(number), from: 0)
      #expect(isThere, "reader \(number)")
      var buffer = ByteBuffer()
      var offset: UInt64 = 0
      while case .bytes(let count) = found.content.read(reader(number), from: offset, most: .max, into: &buffer)
        .read
      {
        offset += UInt64(count)
      }
      #expect(offset == UInt64(bytes.count), "reader \(number)")
      _ = found.content.leave(reader(number))
    }

  }

  // MARK: Sizes

  @Test func bytesAreThoseOfHeadsAndContents() {
    let index = Self.index()
    let one = Self.stored("1")
    let two = Self.stored("2")
    index.insert(one)
    index.insert(two)
    #expect(index.bytes == one.overheadBytes + two.overheadBytes)
    #expect(index.grow(one, by: 500))
    #expect(index.bytes == one.overheadBytes + two.overheadBytes + 500)
    index.insert(Self.stored("1"))
    #expect(index.bytes == one.overheadBytes + two.overheadBytes, "what takes the place begins anew")
    #expect(!index.grow(one, by: 500), "it is not stored any more")
    #expect(index.bytes == one.overheadBytes + two.overheadBytes)
    #expect(index.count == 2)
  }

  @Test func whatWasUsedLongestAgoIsPurgedFirst() {
    let size = Self.stored("0").overheadBytes
    let index = Self.index(10 * size)
    for number in 0..<10 { index.insert(Self.stored("\(number)")) }
    #expect(index.count == 10)
    #expect(index.evictions == 0)
    #expect(index.answer("0") != nil)
    #expect(index.answer("3") != nil)
    // One more is too much: it is purged to the half.
    index.insert(Self.stored("x"))
    #expect(index.count == 5)
    #expect(index.evictions == 6)
    #expect(index.bytes == 5 * size)
    let left = (0..<10).map { "\($0)" } + ["x"]
    #expect(left.filter { index.answer($0) != nil } == ["0", "3", "8", "9", "x"])
  }

  @Test func whatGrowsBeyondTheStoreIsNotStored() {
    let index = Self.index(100_000)
    let large = Self.stored("1")
    index.insert(Self.stored("0"))
    index.insert(large)
    #expect(index.grow(large, by: 50_000))
    #expect(!index.grow(large, by: 60_000))
    #expect(index.count == 0)
    #expect(index.bytes == 0)
    #expect(!index.grow(large, by: 1))
    let huge = Self.stored("2")
    let small = Self.index(10)
    small.insert(huge)
    #expect(small.count == 0)
    #expect(!small.grow(huge, by: 1))
  }

  @Test func aPurgeGoesInSteps() {
    let size = Self.stored("1000").overheadBytes
    let index = Self.index(500 * size, purgeTo: 0.1)
    for number in 1000..<1500 { index.insert(Self.stored("\(number)")) }
    index.insert(Self.stored("1500"))
    #expect(index.count == 501 - CacheIndex.purgeStep)
    var steps = 1
    while index.goOnPurging(), steps < 100 { steps += 1 }
    #expect(index.count == 50)
    #expect(steps == 14)
    #expect(index.answer("1500") != nil)
    #expect(index.answer("1450") == nil)
  }

  @Test func underPressureItIsPurgedAlthoughThereIsRoom() {
    let size = Self.stored("0").overheadBytes
    let index = Self.index(20 * size)
    for number in 0..<10 { index.insert(Self.stored("\(number)")) }
    index.startPurging()
    #expect(index.count == 5, "half of what there was, for purge_to is a half")
    #expect(index.answer("4") == nil)
    #expect(index.answer("5") != nil)
    #expect(!index.goOnPurging())
    for number in 10..<100 { index.insert(Self.stored("\(number)")) }
    #expect(index.count <= 20, "its limit holds as before")
  }

  // MARK: Removing

  @Test func whatIsRemovedIsGone() {
    let index = Self.index()
    let one = Self.stored("1", ["Vary: X"], asked: ["X: 1"])
    let other = Self.stored("1", ["Vary: X"], asked: ["X: 2"])
    for answer in [one, other, Self.stored("2")] { index.insert(answer) }
    index.remove(one)
    index.remove(one)
    #expect(index.count == 2)
    #expect(index.answer("1", ["X: 1"]) == nil)
    #expect(index.answer("1", ["X: 2"]) === other)
    index.insert(one)
    // RFC 9111, 4.4: every answer to the URL.
    #expect(index.removeAll("1"))
    #expect(!index.removeAll("1"))
    #expect(index.count == 1)
    #expect(index.answer("1", ["X: 2"]) == nil)
    #expect(index.answer("2") != nil)
  }

  @Test func slotsAreWalkedInParts() {
    let index = Self.index()
    for number in 0..<10 { index.insert(Self.stored("\(number)")) }
    #expect(index.slots == 10)
    #expect(index.answers(in: 0..<4).count == 4)
    #expect(index.answers(in: 8..<100).count == 2)
    #expect(index.answers(in: 50..<100).isEmpty)
    #expect(index.remove(in: 0..<5) { $0.url != Array("2".utf8) } == 4)
    #expect(index.remove(in: 5..<100) { $0.host == "b" } == 0)
    #expect(index.count == 6)
    #expect(index.answers(in: 0..<5).map { text($0.url) } == ["2"])
    for number in 10..<14 { index.insert(Self.stored("\(number)")) }
    #expect(index.slots == 10, "free slots are taken again")
    #expect(index.count == 10)
  }

  // MARK: Fetches

  @Test func equalRequestsWaitForOneFetch() {
    let index = Self.index()
    #expect(index.follow("1", 1) == nil)
    let flight = Flight(fields([]), for: one)
    index.begin(flight)
    for number in 2...4 { #expect(index.follow("1", number) === flight) }
    #expect(index.follow("2", 9, always: true) == nil)
    index.leave(flight, 3)
    index.leave(flight, 3)
    #expect(index.followers(of: flight) == 2)
    #expect(index.end(flight) == [2, 4])
    #expect(index.end(flight).isEmpty)
    #expect(index.followers(of: flight) == 0)
    #expect(index.follow("1", 5) == nil)
  }

  /// Two loops that ask at the same moment: whoever looked in vain either waits for the other, or finds its answer.
  @Test func nothingComesBetweenLookingAndLeading() {
    let index = Self.index()
    let (first, second) = (Flight(fields([]), for: one), Flight(fields([]), for: one))
    #expect(index.join("1", first, 1, foundNone: true) == .leads)
    #expect(index.join("1", second, 2, foundNone: true) == .follows(first))
    index.insert(Self.stored("1"))
    #expect(index.end(first) == [2])
    #expect(index.join("1", second, 2, foundNone: true) == .found)
    #expect(index.join("1", second, 2) == .leads, "what it found has to be fetched again")
    #expect(index.end(second).isEmpty)
  }

  /// RFC 9111, 4.1: requests that stored answers tell apart are not equal.
  @Test func whatIsKnownOfVaryTellsFetchesApart() {
    let index = Self.index()
    index.insert(Self.stored("1", ["Vary: X"], asked: ["X: 0"]))
    let one = Flight(fields(["X: 1"]), for: one)
    let two = Flight(fields(["X: 2"]), for: other)
    index.begin(one)
    index.begin(two)
    index.sent(two)
    #expect(index.follow("1", 1, ["X: 1"]) === one)
    #expect(index.follow("1", 2, ["X: 2"]) === two)
    #expect(index.follow("1", 3, ["X: 3"]) == nil)
    #expect(index.follow("1", 4) == nil)
    #expect(index.end(one) == [1])
    #expect(index.follow("1", 5, ["X: 2"]) === two)
    #expect(index.end(two) == [2, 5])
  }

  /// A request that has no connection yet waits behind others of its client.
  @Test func nobodyWaitsInTheQueueOfAnotherClient() {
    let index = Self.index()
    let flight = Flight(fields([]), for: one)
    index.begin(flight)
    #expect(index.follow("1", 1, of: one) === flight)
    #expect(index.follow("1", 2, of: other) == nil)
    let own = Flight(fields([]), for: other)
    index.begin(own)
    #expect(index.follow("1", 2, of: other) === own)
    index.sent(flight)
    #expect(index.follow("1", 3, of: other) === flight)
    #expect(index.waitsAgain(flight) == [3], "it may wait in the queue of its client again")
    #expect(index.follow("1", 4, of: other) === own)
    index.sent(flight)
    #expect(index.follow("1", 5, of: other) === flight)
    #expect(index.end(flight) == [1, 5])
    #expect(index.end(own) == [2, 4])
  }

  @Test func nobodyWaitsForWhatCannotBeStored() {
    let index = Self.index()
    let flight = Flight(fields([]), for: one)
    index.begin(flight)
    index.noteUnstorable("1", now: 1000)
    let end = 1000 + CacheIndex.unstorableMilliseconds
    #expect(index.follow("1", 1, now: 1000) == nil)
    #expect(index.follow("1", 2, always: true, now: 1000) === flight)
    #expect(index.follow("1", 3, now: end - 1) == nil)
    #expect(index.follow("1", 4, now: end) === flight)
    index.noteUnstorable("1", now: end)
    index.insert(Self.stored("1"))
    #expect(index.follow("1", 5, now: end) === flight, "one could be stored since")
  }

  @Test func whatIsRememberedOfKeysIsBounded() {
    let index = Self.index()
    index.begin(Flight(fields([]), for: one))
    index.noteUnstorable("1", now: 0)
    for number in 0..<CacheIndex.mostUnstorable { index.noteUnstorable("x\(number)", now: 0) }
    #expect(index.follow("1", 1, now: 0) != nil, "the oldest are forgotten, not all kept")
  }

  // MARK: Chance

  /// Whatever is done, its sums are those of what is found in it.
  @Test(arguments: 1...8) func sumsHold(_ seed: Int) {
    var chance = Seeded(state: UInt64(seed))
    let index = Self.index(60_000, purgeTo: 0.6)
    var sizes: [ObjectIdentifier: Int] = [:]
    for _ in 0..<500 {
      let name = "\(Int.random(in: 0..<30, using: &chance))"
      let asked = ["X: \(Int.random(in: 0..<3, using: &chance))"]
      let present = index.answers(in: 0..<index.slots)
      let any = present.randomElement(using: &chance)
      switch Int.random(in: 0..<8, using: &chance) {
      case 0...2: index.insert(Self.stored(name, ["Vary: X"], asked: asked))
      case 3:
        guard let any else { continue }
        let added = Int.random(in: 0...5000, using: &chance)
        if index.grow(any, by: added) { sizes[ObjectIdentifier(any.content), default: 0] += added }
      case 4:
        guard let any else { continue }
        index.replace(any, by: any.freshened(any.head))
      case 5:
        if let any { index.remove(any) }
      case 6: _ = index.removeAll(name)
      default: _ = index.answer(name, asked)
      }
      let now = index.answers(in: 0..<index.slots)
      #expect(index.count == now.count)
      let sum = now.reduce(0) { $0 + $1.overheadBytes + (sizes[ObjectIdentifier($1.content)] ?? 0) }
      #expect(index.bytes == sum)
      #expect(index.bytes <= 60_000)
      let kept = Set(now.map { ObjectIdentifier($0.content) })
      sizes = sizes.filter { kept.contains($0.key) }
    }
    _ = index.remove(in: 0..<index.slots) { _ in true }
    #expect(index.bytes == 0)
    #expect(index.count == 0)
  }
}

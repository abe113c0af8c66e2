// The stored answers, by key and by last use, and the fetches under way. No clock, no lock, no I/O.
//
// Answers are in slots. A linked list through the slots keeps them in order of use, so the least recently used one is
// found at once. Listing and purging visit a few slots at a time. A full store is purged down to a part of its size, as
// AFAutoPurgingImageCache does, in steps too short to delay a loop. Tests: CacheIndexTests.

import Bytes
import Sharing

/// A fetch that other requests may wait for, from the request until the head of the answer arrives.
public final class Flight: Sendable {
  /// The values that the request has for the fields that earlier answers varied with.
  let fields: MessageFields
  /// Whose request it is.
  let claimant: Claimant

  public init(_ fields: MessageFields, for claimant: Claimant) {
    self.fields = fields
    self.claimant = claimant
  }
}

public struct CacheIndex: Sendable {
  private struct Node: Sendable {
    var answer: StoredAnswer
    var bytes: Int
    /// The neighbours in the order of use; -1: none.
    var older: Int
    var newer: Int
  }

  private struct Entry: Sendable {
    var slots: [Int] = []
  }

  private struct Follower: Sendable {
    let reader: Content.Reader
    let claimant: Claimant
  }

  private struct Flying: Sendable {
    let flight: Flight
    var followers: [Follower] = []
    /// The reader that leads it after its own client has left; nil: the leader has a client.
    var heir: Content.Reader? = nil
    /// The URL was changed after it was asked for: no one joins it any more.
    var isOutdated = false
    /// The request has a connection. Until then it may be waiting behind others of its client.
    var isSent = false

    var outdated: Flying {
      var outdated = self
      outdated.isOutdated = true
      return outdated
    }

    /// Whether a request of `claimant` may wait for it: no client waits in the queue of another.
    func serves(_ claimant: Claimant) -> Bool { isSent || claimant == flight.claimant }
  }

  private var nodes: [Node?] = []
  private var free: [Int] = []
  private var entries: [CacheKey: Entry] = [:]
  private var oldest = -1
  private var newest = -1
  private var flights: [CacheKey: [Flying]] = [:]
  /// Keys whose last answer could not be stored. Equal requests do not wait for one another.
  private var unstorable: [CacheKey: Int64] = [:]
  private var refreshing: Set<CacheKey> = []
  /// The size in bytes to purge down to; nil: no purge is under way.
  private var purgingTo: Int?
  /// The keys of each resource, by its hash, including those of other users and credentials.
  private var keys: [Int: [CacheKey]] = [:]
  /// When each resource last changed, by its hash, in milliseconds since 1970, and the latest change among those no
  /// longer listed, or the latest purge.
  private var changed: [Int: Int64] = [:]
  private var changedBefore = Int64.min
  /// Of files, nothing is restored that was asked for before.
  private var forgottenBefore = Int64.min

  public private(set) var bytes = 0
  public private(set) var count = 0
  public private(set) var evictions: UInt64 = 0
  private let limit: Int
  private let purgeTo: Double

  /// Answers that one purge step removes: some tens of microseconds.
  static let purgeStep = 32
  /// How many keys are remembered as unstorable, and for how long, in milliseconds.
  static let mostUnstorable = 4096
  /// How many URLs have their last change remembered.
  static let mostChanged = 4096
  static let unstorableMilliseconds: Int64 = 120_000

  /// `limit`: bytes of answers with their heads. `purgeTo`: the part of it that a purge leaves.
  public init(limit: Int, purgeTo: Double) {
    self.limit = limit
    self.purgeTo = purgeTo
  }

  // MARK: Finding

  public enum Found: Sendable {
    case answer(StoredAnswer)
    /// Answers to the URL are stored, but none for this request.
    case otherVariants
    case nothing

    public var isNone: Bool { if case .answer = self { false } else { true } }
  }

  /// The most recent answer for a request; it counts as used.
  public mutating func find(_ key: CacheKey, _ fields: MessageFields) -> Found {
    guard let entry = entries[key] else { return .nothing }
    var found: (slot: Int, answer: StoredAnswer)? = nil
    for slot in entry.slots {
      guard let node = nodes[slot], node.answer.head.answers(fields) else { continue }
      // RFC 9111, 4.1: the most recent of several. Dates have seconds, arrivals milliseconds.
      let head = node.answer.head
      if let found = found?.answer.head, (found.date, found.received) > (head.date, head.received) { continue }
      found = (slot, node.answer)
    }
    guard let found else { return .otherVariants }
    if found.slot != newest {
      unlink(found.slot)
      link(found.slot)
    }
    return .answer(found.answer)
  }

  // MARK: Storing

  /// Replaces the stored answers to the same request, and returns them. If the resource has changed since the request
  /// for this one was sent, it is as if it had been removed at once: another loop may learn of a change at any moment.
  @discardableResult
  public mutating func insert(_ answer: StoredAnswer) -> [StoredAnswer] {
    if wasChanged(answer.key, since: answer.head.requested) {
      answer.content.giveUp()
      return []
    }
    return place(answer)
  }

  private mutating func place(_ answer: StoredAnswer) -> [StoredAnswer] {
    if !unstorable.isEmpty { unstorable[answer.key] = nil }
    var entry = entries[answer.key] ?? Entry()
    var replaced: [StoredAnswer] = []
    for slot in entry.slots {
      guard let node = nodes[slot], node.answer.head.selecting == answer.head.selecting else { continue }
      replaced.append(node.answer)
      // The old answer may have to be put back.
      drop(slot, &entry, givesUp: false)
    }
    let slot = free.popLast() ?? nodes.count
    let node = Node(
      answer: answer, bytes: answer.overheadBytes + Int(min(answer.content.count, Content.residentBytes)), older: -1,
      newer: -1)
    if slot == nodes.count { nodes.append(node) } else { nodes[slot] = node }
    link(slot)
    entry.slots.append(slot)
    if entries.updateValue(entry, forKey: answer.key) == nil {
      keys[answer.key.resourceHash, default: []].append(answer.key)
    }
    bytes += node.bytes
    count += 1
    purge()
    return replaced
  }

  /// Inserts an answer that was restored from its file, unless there already is one for the same request, or its
  /// resource has changed. What an operator purges is removed from the files before that is over, and changes that are
  /// no longer listed were: neither counts here. Returns whether this file's answer is in the store.
  public mutating func restore(_ answer: StoredAnswer) -> Bool {
    let last = max(changed[answer.key.resourceHash] ?? .min, forgottenBefore)
    if answer.head.requested <= last { return false }
    for slot in entries[answer.key]?.slots ?? [] {
      if let node = nodes[slot], node.answer.head.selecting == answer.head.selecting {
        return node.answer.file == answer.file
      }
    }
    _ = place(answer)
    return true
  }

  /// Replaces an answer by the same one with a freshened head.
  public mutating func replace(_ answer: StoredAnswer, by fresh: StoredAnswer) {
    guard let slot = slot(of: answer), var node = nodes[slot] else {
      // The answer is gone: there was no room, the URL changed, or an operator removed it.
      if answer.content.isWhole, !wasChanged(answer.key, since: answer.head.requested) { insert(fresh) }
      return
    }
    bytes -= answer.overheadBytes
    node.bytes += fresh.overheadBytes - answer.overheadBytes
    node.answer = fresh
    nodes[slot] = node
    bytes += fresh.overheadBytes
    purge()
  }

  /// Adds the bytes that have arrived to the size of an answer. false: the answer is no longer stored, or there is no
  /// room for it.
  public mutating func grow(_ answer: StoredAnswer, by added: Int) -> Bool {
    guard let slot = slot(of: answer), let node = nodes[slot] else { return false }
    nodes[slot]?.bytes = node.bytes + added
    bytes += added
    purge()
    return nodes[slot]?.answer.content === answer.content
  }

  private func slot(of answer: StoredAnswer) -> Int? {
    // An answer that left and was restored from its file has another content.
    entries[answer.key]?.slots.first { slot in
      guard let present = nodes[slot]?.answer else { return false }
      return present.content === answer.content || answer.file != nil && present.file == answer.file
    }
  }

  // MARK: Purging

  public mutating func remove(_ answer: StoredAnswer) {
    guard let slot = slot(of: answer) else { return }
    remove(slot)
  }

  /// RFC 9111, 4.4: removes what is stored for the key's resource, for all owners. `now` is in milliseconds since 1970.
  public mutating func removeAll(ofResource key: CacheKey, now: Int64) {
    let hash = key.resourceHash
    if changed.count >= Self.mostChanged {
      changedBefore = max(changedBefore, changed.values.max() ?? changedBefore)
      changed.removeAll()
    }
    // Of two that are told at once, the later one may come first.
    changed[hash] = max(changed[hash] ?? now, now)
    // Who asks from here on wants the new state.
    for (key, flying) in flights where key.resourceHash == hash {
      flights[key] = flying.map { $0.outdated }
    }
    for key in (keys[hash] ?? []).filter({ $0.isOfSameResource(as: key) }) {
      for slot in entries[key]?.slots ?? [] { remove(slot) }
    }
  }

  /// An operator purges the store: answers to requests sent before `now` are not stored.
  public mutating func forgetWhatWasAskedFor(before now: Int64) { changedBefore = max(changedBefore, now) }

  /// A purge could not wait for the disk any longer: what it means may still be in files.
  public mutating func forgetFiles(before now: Int64) { forgottenBefore = max(forgottenBefore, now) }

  /// Whether the resource changed at or after a moment. An answer requested at that moment may be of the earlier state.
  public func wasChanged(_ key: CacheKey, since requested: Int64) -> Bool {
    requested <= changedBefore || !changed.isEmpty && changed[key.resourceHash].map { requested <= $0 } ?? false
  }

  /// Whether anything has changed since the store was opened.
  public var knowsChanges: Bool { !changed.isEmpty || changedBefore > .min }

  /// The number of slots, for walking them in steps.
  public var slots: Int { nodes.count }

  /// The answers in a range of slots.
  public func answers(in range: Range<Int>) -> [StoredAnswer] {
    nodes[range.clamped(to: 0..<nodes.count)].compactMap { $0?.answer }
  }

  /// Removes the answers in a range of slots that satisfy `isMeant`. Returns how many.
  public mutating func remove(in range: Range<Int>, where isMeant: (StoredAnswer) -> Bool) -> Int {
    var removed = 0
    for slot in range.clamped(to: 0..<nodes.count) {
      guard let node = nodes[slot], isMeant(node.answer) else { continue }
      remove(slot)
      removed += 1
    }
    return removed
  }

  /// Memory is short: starts a purge to the same part of the current size as of the limit.
  public mutating func startPurging() {
    purgingTo = Int(Double(bytes) * purgeTo)
    purge()
  }

  /// One step of a purge that has begun. Returns whether there is more to do.
  public mutating func goOnPurging() -> Bool {
    purge()
    return purgingTo != nil
  }

  private mutating func purge() {
    if bytes > limit, purgingTo == nil { purgingTo = Int(Double(limit) * purgeTo) }
    var steps = Self.purgeStep
    while let target = purgingTo, steps > 0 {
      steps -= 1
      // The newest may have come from the disk, for a request that looks for it next.
      if bytes <= target || oldest < 0 || oldest == newest && nodes[newest]?.answer.file != nil {
        purgingTo = nil
        return
      }
      evictions += 1
      remove(oldest)
    }
  }

  private mutating func remove(_ slot: Int) {
    guard let key = nodes[slot]?.answer.key, var entry = entries[key] else { return }
    drop(slot, &entry)
    entries[key] = entry.slots.isEmpty ? nil : entry
    if !entry.slots.isEmpty { return }
    guard var ofResource = keys[key.resourceHash] else { return }
    ofResource.removeAll { $0 == key }
    keys[key.resourceHash] = ofResource.isEmpty ? nil : ofResource
  }

  private mutating func drop(_ slot: Int, _ entry: inout Entry, givesUp: Bool = true) {
    guard let node = nodes[slot] else { return }
    entry.slots.removeAll { $0 == slot }
    unlink(slot)
    nodes[slot] = nil
    free.append(slot)
    bytes -= node.bytes
    count -= 1
    if givesUp { node.answer.content.giveUp() }
  }

  private mutating func link(_ slot: Int) {
    nodes[slot]?.older = newest
    nodes[slot]?.newer = -1
    if newest >= 0 { nodes[newest]?.newer = slot } else { oldest = slot }
    newest = slot
  }

  private mutating func unlink(_ slot: Int) {
    guard let node = nodes[slot] else { return }
    if node.older >= 0 { nodes[node.older]?.newer = node.newer } else { oldest = node.newer }
    if node.newer >= 0 { nodes[node.newer]?.older = node.older } else { newest = node.older }
  }

  // MARK: Fetches that others wait for

  /// How a request for what was not stored goes on.
  public enum Joining: Equatable, Sendable {
    /// It waits for this flight, which another exchange leads.
    case follows(Flight)
    /// Its own flight has begun: others may wait for it.
    case leads
    /// An answer has been stored since it was looked for.
    case found

    public static func == (left: Joining, right: Joining) -> Bool {
      switch (left, right) {
      case (.follows(let left), .follows(let right)): left === right
      case (.leads, .leads), (.found, .found): true
      default: false
      }
    }
  }

  /// Joins a fetch that is under way for a request equal to that of `flight`, or begins `flight`: in one step, because
  /// two loops may ask at the same moment. `always`: join even if the last answer could not be stored. `foundNone`:
  /// nothing was stored when the request looked for it.
  public mutating func join(
    _ key: CacheKey, _ flight: Flight, as reader: Content.Reader, foundNone: Bool, always: Bool, now: Int64
  ) -> Joining {
    if foundNone, !find(key, flight.fields).isNone { return .found }
    let isUnstorable = unstorable[key].map { $0 > now } ?? false
    guard always || !isUnstorable, var flying = flights[key],
      let index = flying.firstIndex(where: {
        !$0.isOutdated && $0.serves(flight.claimant) && isEqual($0.flight.fields, flight.fields, under: key)
      })
    else {
      flights[key, default: []].append(Flying(flight: flight))
      return .leads
    }
    // A reader that was let go and is back may be told of that only now.
    if !flying[index].followers.contains(where: { $0.reader == reader }) {
      flying[index].followers.append(Follower(reader: reader, claimant: flight.claimant))
    }
    flights[key] = flying
    return .follows(flying[index].flight)
  }

  /// Two requests are equal if they agree on the fields that the stored answers to their URL vary with. If none is
  /// stored, those fields are unknown and the requests count as equal.
  private func isEqual(_ left: MessageFields, _ right: MessageFields, under key: CacheKey) -> Bool {
    for slot in entries[key]?.slots ?? [] {
      for field in nodes[slot]?.answer.head.selecting ?? []
      where StoredHead.normalized(field.name, left) != StoredHead.normalized(field.name, right) {
        return false
      }
    }
    return true
  }

  /// Whether the URL is being fetched.
  public func isFlying(_ key: CacheKey) -> Bool { flights[key] != nil }

  /// A stored answer is about to be fetched again in the background. false: that is under way already.
  public mutating func beginRefresh(_ key: CacheKey) -> Bool { refreshing.insert(key).inserted }
  public mutating func endRefresh(_ key: CacheKey) { refreshing.remove(key) }

  /// Its request has a connection now.
  public mutating func sent(_ flight: Flight, _ key: CacheKey) {
    guard let index = flights[key]?.firstIndex(where: { $0.flight === flight }) else { return }
    flights[key]?[index].isSent = true
  }

  /// Its request waits for a connection again. Returns the readers of other clients, which it lets go.
  public mutating func waitsAgain(_ flight: Flight, _ key: CacheKey) -> [Content.Reader] {
    guard let index = flights[key]?.firstIndex(where: { $0.flight === flight }), var flying = flights[key] else {
      return []
    }
    let (followers, claimant) = (flying[index].followers, flying[index].flight.claimant)
    flying[index].isSent = false
    flying[index].followers = followers.filter { $0.claimant == claimant }
    flights[key] = flying
    return followers.filter { $0.claimant != claimant }.map(\.reader)
  }

  /// How many readers wait for it.
  public func followers(of flight: Flight, _ key: CacheKey) -> Int {
    flights[key]?.first { $0.flight === flight }?.followers.count ?? 0
  }

  /// The fetch is over, or its answer is stored. Returns the readers that waited for it.
  public mutating func end(_ flight: Flight, _ key: CacheKey) -> [Content.Reader] {
    guard var flying = flights[key], let index = flying.firstIndex(where: { $0.flight === flight }) else { return [] }
    let followers = flying.remove(at: index).followers.map(\.reader)
    flights[key] = flying.isEmpty ? nil : flying
    return followers
  }

  /// Sets the reader that now leads the fetch, only for the others.
  public mutating func inherit(_ flight: Flight, _ key: CacheKey, by heir: Content.Reader) {
    guard let index = flights[key]?.firstIndex(where: { $0.flight === flight }) else { return }
    flights[key]?[index].heir = heir
  }

  /// A reader stops waiting. Returns the leader if it now fetches for no client; nil if others wait or the leader has a
  /// client.
  public mutating func leave(_ flight: Flight, _ key: CacheKey, reader: Content.Reader) -> Content.Reader? {
    guard let index = flights[key]?.firstIndex(where: { $0.flight === flight }) else { return nil }
    flights[key]?[index].followers.removeAll { $0.reader == reader }
    guard let left = flights[key]?[index], left.followers.isEmpty else { return nil }
    return left.heir
  }

  /// The answer to this URL could not be stored, or not be used for another request. For a while, requests for it do
  /// not wait for one another.
  public mutating func noteUnstorable(_ key: CacheKey, now: Int64) {
    if unstorable.count >= Self.mostUnstorable { unstorable.removeAll() }
    unstorable[key] = now + Self.unstorableMilliseconds
  }
}

// Deadlines of many connections, at a cost that does not depend on their number.
//
// A hierarchy of four wheels with 64 slots each. A tick is 8 ms, so they reach 0.5 s, 33 s, 35 min and 37 h. Each
// connection has one entry, identified by its number. Postponing a deadline, which every byte does, only notes it: the
// entry stays in its slot, and is moved on when that slot's time comes. Only an earlier deadline moves it at once.
// Timers never fire early, and late by at most a tick and the loop's current work.

/// The deadlines of one loop, in milliseconds of its clock.
public struct TimerWheel {
  /// Length of a tick in milliseconds: a power of two, fine enough for a connect timeout, coarse enough to batch.
  static let tickMilliseconds: Int64 = 8
  private static let levels = 4
  private static let slotBits = 6
  private static let slots = 1 << slotBits
  private static let none: Int32 = -1

  private struct Entry {
    var deadline: Int64 = .max
    /// The tick that the entry is filed under; valid if `list` is set.
    var next = TimerWheel.none
    var previous = TimerWheel.none
    /// level × slots + slot; -1: not filed.
    var list = TimerWheel.none
    var filedTick: Int64 = 0
  }

  private var entries: [Entry] = []
  private var heads: [Int32]
  /// Which slots of each level contain entries.
  private var occupied: [UInt64]
  /// Ticks up to this one have been run.
  private var currentTick: Int64

  public init(now: Int64) {
    heads = Array(repeating: Self.none, count: Self.levels * Self.slots)
    occupied = Array(repeating: 0, count: Self.levels)
    currentTick = now / Self.tickMilliseconds
  }

  /// Sets when entry `id` is due; `.max`: never.
  public mutating func set(_ id: Int, _ deadline: Int64) {
    while entries.count <= id { entries.append(Entry()) }
    entries[id].deadline = deadline
    if deadline == .max { return }
    let tick = Self.tick(of: deadline)
    if entries[id].list >= 0 {
      // Its slot comes in time: then it turns out that it is not due yet.
      if entries[id].filedTick <= tick { return }
      unlink(Int32(id))
    }
    file(Int32(id), tick)
  }

  /// Forgets entry `id`.
  public mutating func clear(_ id: Int) {
    guard id < entries.count else { return }
    entries[id].deadline = .max
    if entries[id].list >= 0 { unlink(Int32(id)) }
  }

  public func deadline(_ id: Int) -> Int64 { id < entries.count ? entries[id].deadline : .max }

  /// How long a loop may wait before it has to call `expire`; nil: nothing is filed.
  public func millisecondsUntilNext(now: Int64) -> Int64? {
    var nearest: Int64? = nil
    for level in 0..<Self.levels where occupied[level] != 0 {
      let shift = Int64(Self.slotBits * level)
      let position = currentTick >> shift
      let slot = Int(position) & (Self.slots - 1)
      // Rotated so that the slot after the current one is bit 0.
      let rotation = UInt64((slot + 1) & (Self.slots - 1))
      let bits = occupied[level] >> rotation | (rotation == 0 ? 0 : occupied[level] << (64 - rotation))
      let tick = (position + 1 + Int64(bits.trailingZeroBitCount)) << shift
      nearest = min(nearest ?? .max, tick)
    }
    return nearest.map { max(0, $0 * Self.tickMilliseconds - now) }
  }

  /// Collects the entries whose deadline has passed into `due`, and removes them from their slots.
  public mutating func expire(now: Int64, into due: inout [Int]) {
    let target = now / Self.tickMilliseconds
    while currentTick < target {
      if occupied[0] == 0 && occupied[1] == 0 && occupied[2] == 0 && occupied[3] == 0 {
        currentTick = target
        return
      }
      // Nothing is on the finest wheel before its next turn: jump there.
      if occupied[0] == 0 {
        let turn = (currentTick | Int64(Self.slots - 1))
        if turn > currentTick { currentTick = min(turn, target) }
        if currentTick == target { return }
      }
      currentTick += 1
      for level in 1..<Self.levels {
        let shift = Int64(Self.slotBits * level)
        guard currentTick & (1 << shift - 1) == 0 else { break }
        takeAll(level: level, slot: Int(currentTick >> shift) & (Self.slots - 1), now: now, &due)
      }
      takeAll(level: 0, slot: Int(currentTick) & (Self.slots - 1), now: now, &due)
    }
  }

  /// The first tick that is not before the deadline.
  private static func tick(of deadline: Int64) -> Int64 { (deadline + tickMilliseconds - 1) / tickMilliseconds }

  private mutating func takeAll(level: Int, slot: Int, now: Int64, _ due: inout [Int]) {
    let list = level * Self.slots + slot
    while heads[list] != Self.none {
      let id = heads[list]
      unlink(id)
      let deadline = entries[Int(id)].deadline
      if deadline <= now {
        entries[Int(id)].deadline = .max
        due.append(Int(id))
      } else if deadline != .max {
        file(id, Self.tick(of: deadline))
      }
    }
  }

  private mutating func file(_ id: Int32, _ wanted: Int64) {
    let longest = Int64(1) << Int64(Self.slotBits * Self.levels) - 1
    let tick = min(max(wanted, currentTick + 1), currentTick + longest)
    let distance = tick - currentTick
    var level = 0
    while level < Self.levels - 1, distance >= 1 << Int64(Self.slotBits * (level + 1)) { level += 1 }
    let slot = Int(tick >> Int64(Self.slotBits * level)) & (Self.slots - 1)
    let list = Int32(level * Self.slots + slot)
    let head = heads[Int(list)]
    entries[Int(id)].list = list
    entries[Int(id)].filedTick = tick
    entries[Int(id)].previous = Self.none
    entries[Int(id)].next = head
    if head != Self.none { entries[Int(head)].previous = id }
    heads[Int(list)] = id
    occupied[level] |= 1 << UInt64(slot)
  }

  private mutating func unlink(_ id: Int32) {
    let entry = entries[Int(id)]
    let list = Int(entry.list)
    if entry.previous == Self.none {
      heads[list] = entry.next
    } else {
      entries[Int(entry.previous)].next = entry.next
    }
    if entry.next != Self.none { entries[Int(entry.next)].previous = entry.previous }
    if heads[list] == Self.none { occupied[list / Self.slots] &= ~(1 << UInt64(list % Self.slots)) }
    entries[Int(id)].list = Self.none
    entries[Int(id)].next = Self.none
    entries[Int(id)].previous = Self.none
  }
}

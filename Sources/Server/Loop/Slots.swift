// What a loop has registered: everything with a descriptor or a timer has a slot. The slot's number and its generation
// are the data of its epoll registration, and the address of messages to it: what is for a descriptor that was closed
// and reused in the meantime has an old generation, and is dropped.

import Transport

/// What an event or a timer of a slot belongs to.
enum Occupant {
  case free
  case listener(Listener)
  case mailbox
  case client(Conversation)
  case upstream(Upstream)
  case connector(Connector)
  case attempt(Connector)
  case probe(TunnelProbe)
  case multiplexed(any MultiplexedConnection)
  case fetch(CacheFetch)
  /// Accepting paused because no descriptors were left; its timer resumes it.
  case acceptPause
}

struct Slots: ~Copyable {
  private let poller: Poller
  /// By the number of their slot.
  private(set) var occupants: [Occupant] = []
  private var generations: [UInt32] = []
  private var free: [Int] = []

  init(_ poller: Descriptor) { self.poller = Poller(poller) }

  // MARK: Occupants

  mutating func occupy(_ occupant: Occupant) -> Int {
    if let slot = free.popLast() {
      occupants[slot] = occupant
      return slot
    }
    occupants.append(occupant)
    generations.append(1)
    return occupants.count - 1
  }

  mutating func vacate(_ slot: Int) {
    occupants[slot] = .free
    generations[slot] &+= 1
    free.append(slot)
  }

  mutating func reoccupy(_ slot: Int, _ occupant: Occupant) { occupants[slot] = occupant }

  func generation(_ slot: Int) -> UInt32 { generations[slot] }

  /// Whether the slot still has the occupant that it had.
  func isCurrent(_ slot: Int, _ generation: UInt32) -> Bool { generations[slot] == generation }

  // The occupant that something is meant for; nil: it is gone, and another one may be there.

  func client(_ slot: Int, _ generation: UInt32) -> Conversation? {
    if generations[slot] == generation, case .client(let conversation) = occupants[slot] { conversation } else { nil }
  }

  func connector(_ slot: Int, _ generation: UInt32) -> Connector? {
    if generations[slot] == generation, case .connector(let connector) = occupants[slot] { connector } else { nil }
  }

  // MARK: The poller

  /// Waits for events, and returns how many there are.
  mutating func wait(milliseconds: Int32) -> Int { poller.wait(milliseconds: milliseconds) }

  func readiness(_ index: Int) -> Readiness { poller.readiness(index) }

  /// The slot that an event is for; nil: its occupant is gone.
  func slot(of readiness: Readiness) -> Int? {
    let slot = Int(readiness.data & 0xffff_ffff)
    return generations[slot] == UInt32(readiness.data >> 32) ? slot : nil
  }

  func register(_ descriptor: Descriptor, _ interest: Interest, slot: Int) -> Bool {
    poller.add(descriptor, interest, data: token(slot))
  }

  func unregister(_ descriptor: Descriptor) { poller.remove(descriptor) }

  /// Changes the registration from `current` to `wanted`; nil means none.
  func update(_ descriptor: Descriptor, _ current: inout Interest?, wanted: Interest?, slot: Int) {
    if current == wanted { return }
    switch (current, wanted) {
    case (nil, let wanted?):
      // Without memory for it, nothing is registered, and the timers end whatever waits for it.
      guard register(descriptor, wanted, slot: slot) else { return }
    case (_, nil): poller.remove(descriptor)
    case (_, let wanted?): poller.modify(descriptor, wanted, data: token(slot))
    }
    current = wanted
  }

  private func token(_ slot: Int) -> UInt64 { UInt64(generations[slot]) << 32 | UInt64(slot) }
}

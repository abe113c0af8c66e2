// The listeners of one loop. If no descriptor is left for a connection, none is watched for a while: the poller would
// report the same connection again and again.

import Transport

struct Listening {
  /// How long accepting pauses if no descriptor was left, in milliseconds, unless one is freed earlier.
  private static let pauseMilliseconds: Int64 = 100

  private var listeners: [(slot: Int, listener: Listener)]
  /// Its timer ends the pause.
  private let pauseSlot: Int
  private var isPaused = false
  private var exhaustions = RepeatedEvent()

  init(_ listeners: [Listener], in slots: inout Slots) {
    self.listeners = listeners.map { (slots.occupy(.listener($0)), $0) }
    pauseSlot = slots.occupy(.acceptPause)
    for (slot, listener) in self.listeners { _ = slots.register(listener.descriptor, listener.interest, slot: slot) }
  }

  /// Watches no listener until `resume`.
  mutating func pause(_ slots: borrowing Slots, _ timers: inout TimerWheel, now: Int64) {
    if isPaused { return }
    isPaused = true
    for (_, listener) in listeners { slots.unregister(listener.descriptor) }
    timers.set(pauseSlot, now + Self.pauseMilliseconds)
  }

  /// The pause is over, or a descriptor has been freed.
  mutating func resume(_ slots: borrowing Slots, _ timers: inout TimerWheel) {
    guard isPaused else { return }
    isPaused = false
    timers.clear(pauseSlot)
    for (slot, listener) in listeners { _ = slots.register(listener.descriptor, listener.interest, slot: slot) }
  }

  /// No connection is accepted from here on, except those that a listener already has. Their slots are free.
  mutating func end(_ slots: inout Slots) -> [Listener] {
    let ended = listeners.map(\.listener)
    for (slot, _) in listeners { slots.vacate(slot) }
    listeners = []
    return ended
  }

  /// What to log about a connection that found no descriptor; nil: nothing, now.
  mutating func exhausted(_ error: SystemError, now: Int64) -> String? {
    guard let unsaid = exhaustions.happened(now: now) else { return nil }
    let more = unsaid > 0 ? " (\(String.counted(unsaid, "time")) since the last line)" : ""
    return "accept: \(error); new connections wait until one is closed\(more)"
  }
}

// Whether a loop takes new work. A stop drains: no new connection, and what is under way ends by a deadline. If others
// hold the listeners, the proxy can also be drained without a stop: then it refuses new requests and goes on running.
//
// Pure: the loop asks what is over by now, and acts. Tests: DrainingTests.

struct Draining {
  /// How long a stop waits for the first request of a client that has just connected, in milliseconds. Its connection
  /// was accepted, and a client that loses a fresh connection does not try again as it does with a kept one (RFC 9112,
  /// 9.3.1).
  static let firstRequestMilliseconds: Int64 = 1000

  private enum Stop {
    case none
    case draining(deadline: Int64)
    case over
  }

  private var stop = Stop.none
  private var firstRequestDeadline = Int64.max
  /// Clients that have just connected may still send their first request.
  private(set) var awaitsFirstRequests = true
  /// New requests are refused: the proxy has been drained, and others hold its listeners.
  private(set) var isRefusing = false
  /// How long requests that came earlier may still run; nil: there is none, or it is over.
  private var refusalDeadline: Int64? = nil

  /// The loop stops.
  var isDraining: Bool { if case .none = stop { false } else { true } }
  /// The loop has stopped.
  var isOver: Bool { if case .over = stop { true } else { false } }

  /// The next moment that something is due; nil: nothing is.
  var due: Int64? {
    if case .draining(let deadline) = stop { return min(deadline, firstRequestDeadline, refusalDeadline ?? .max) }
    return refusalDeadline
  }

  /// Returns whether the stop begins now; otherwise it only may have become shorter.
  mutating func begin(deadline: Int64, now: Int64) -> Bool {
    switch stop {
    case .none:
      stop = .draining(deadline: deadline)
      firstRequestDeadline = now + Self.firstRequestMilliseconds
      return true
    case .draining(let earlier): stop = .draining(deadline: min(deadline, earlier))
    case .over: break
    }
    return false
  }

  mutating func refuse(deadline: Int64) {
    isRefusing = true
    refusalDeadline = deadline
  }

  /// Whether the requests that came before the refusal have had their time. True once.
  mutating func refusalIsOver(now: Int64) -> Bool {
    guard let refusalDeadline, now >= refusalDeadline else { return false }
    self.refusalDeadline = nil
    return true
  }

  /// Whether no first request is awaited any longer. True once in a stop.
  mutating func firstRequestsAreOver(now: Int64) -> Bool {
    guard now >= firstRequestDeadline else { return false }
    firstRequestDeadline = .max
    awaitsFirstRequests = false
    return true
  }

  /// Whether the time of a stop is over.
  func isOverdue(now: Int64) -> Bool { if case .draining(let deadline) = stop { now >= deadline } else { false } }

  /// Ends the loop if the time is over or no client is left.
  mutating func end(now: Int64, clients: Int) { if clients == 0 || isOverdue(now: now) { stop = .over } }
}

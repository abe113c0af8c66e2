// Who has answered the watchdog. systemd hears of the daemon only while every loop turns: each is asked over its mailbox,
// and it is the loop itself that answers.
//
// A new round of questions begins only when the last is answered, so that the mailbox of a loop that hangs does not grow.
// Pure: time and answers are handed in. Tests: WatchdogTests.

struct Watchdog {
  /// What is to be done now.
  enum Step: Equatable {
    /// Ask every worker.
    case ask
    /// Come back after so many milliseconds, or with the next answer.
    case wait(milliseconds: Int64)
    /// Nothing but an answer can change anything.
    case waitForAnswers
  }

  /// How a round of questions stands.
  enum Round { case open, complete }

  private let pauseMilliseconds: Int64
  private var workers: Set<Int>
  private var unanswered: Set<Int> = []
  private var nextRound: Int64

  /// `limitMilliseconds` is how long systemd waits: half of it, as sd_watchdog_enabled(3) advises, leaves room for delays.
  init(limitMilliseconds: Int64, workers: Int, now: Int64) {
    pauseMilliseconds = max(1, limitMilliseconds / 2)
    self.workers = Set(0..<workers)
    nextRound = now
  }

  mutating func step(now: Int64) -> Step {
    guard unanswered.isEmpty else { return .waitForAnswers }
    guard now >= nextRound else { return .wait(milliseconds: nextRound - now) }
    unanswered = workers
    nextRound = now + pauseMilliseconds
    return workers.isEmpty ? .waitForAnswers : .ask
  }

  /// The last answer of a round completes it: systemd may be told.
  mutating func answered(_ worker: Int) -> Round {
    unanswered.remove(worker) != nil && unanswered.isEmpty ? .complete : .open
  }

  /// The worker has ended, as it was told to: the round goes on without it.
  mutating func left(_ worker: Int) -> Round {
    workers.remove(worker)
    return answered(worker)
  }
}

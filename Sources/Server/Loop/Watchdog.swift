// The state of the watchdog. systemd hears of the daemon only while every loop turns: each loop is asked through its
// mailbox, and the loop itself answers.
//
// A new round begins only after the last one is answered, so the mailbox of a loop that hangs does not grow. Pure: time
// and answers are handed in. Tests: WatchdogTests.

struct Watchdog {
  /// What to do now.
  enum Step: Equatable {
    /// Ask every worker.
    case ask
    /// Come back after this many milliseconds, or with the next answer.
    case wait(milliseconds: Int64)
    /// Only an answer can change anything.
    case waitForAnswers
  }

  /// Whether every worker has answered in this round.
  enum Round { case open, complete }

  private let pauseMilliseconds: Int64
  private var workers: Set<Int>
  private var unanswered: Set<Int> = []
  private var nextRound: Int64

  /// `limitMilliseconds`: how long systemd waits. Half of it, as sd_watchdog_enabled(3) advises, leaves room for
  /// delays.
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

  /// The last answer of a round completes it; systemd may then be told.
  mutating func answered(_ worker: Int) -> Round {
    unanswered.remove(worker) != nil && unanswered.isEmpty ? .complete : .open
  }

  /// The worker has ended, as it was told to: the round continues without it.
  mutating func left(_ worker: Int) -> Round {
    workers.remove(worker)
    return answered(worker)
  }
}

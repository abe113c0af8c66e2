// An event that clients can cause as often as they like: one line now and then says it, with the number of those since
// the line before. Tests: RepeatedEventTests.

struct RepeatedEvent {
  /// Between two lines, in milliseconds: six lines a minute and loop are few beside one line for each request, and enough to
  /// see that it goes on.
  static let pauseMilliseconds: Int64 = 10_000

  private var nextLineAt = Int64.min
  private var unsaid = 0

  /// It has happened. Returns how many times it happened without a line since the last line; nil: no line now.
  mutating func happened(now: Int64) -> Int? {
    guard now >= nextLineAt else {
      unsaid += 1
      return nil
    }
    nextLineAt = now + Self.pauseMilliseconds
    defer { unsaid = 0 }
    return unsaid
  }
}

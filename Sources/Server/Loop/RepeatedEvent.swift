// An event that clients can cause as often as they like. It is logged now and then, with the number of times it
// happened since the previous line. Tests: RepeatedEventTests.

struct RepeatedEvent {
  /// The time between two lines, in milliseconds. Six lines a minute from each loop are few beside one line for each
  /// request, and enough to show that it continues.
  static let pauseMilliseconds: Int64 = 10_000

  private var nextLineAt = Int64.min
  private var unsaid = 0

  /// Counts one event. Returns how many events passed without a line since the last line; nil: log no line now.
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

// Numbers with their nouns and units, in messages. Tests: CountedTests.

extension String {
  /// `1 rule`, `2 rules`; `plural` where that is not the noun with an s.
  public static func counted(_ number: some BinaryInteger, _ noun: String, plural: String? = nil) -> String {
    "\(number) \(number == 1 ? noun : plural ?? noun + "s")"
  }

  /// `3 h 12 min`; no time at all where it is negative.
  public static func duration(seconds: Int64) -> String {
    switch seconds {
    case ..<60: "\(Swift.max(0, seconds)) s"
    case ..<3_600: "\(seconds / 60) min"
    case ..<86_400: "\(seconds / 3_600) h \(seconds / 60 % 60) min"
    default: "\(seconds / 86_400) d \(seconds / 3_600 % 24) h"
    }
  }
}

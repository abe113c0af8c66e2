// Numbers with their nouns, in messages. Tests: CountedTests.

extension String {
  /// `1 rule`, `2 rules`; `plural` where that is not the noun with an s.
  public static func counted(_ number: some BinaryInteger, _ noun: String, _ plural: String? = nil) -> String {
    "\(number) \(number == 1 ? noun : plural ?? noun + "s")"
  }
}

// The words of reachability, which stand in configurations, logs and answers.

import Testing

@testable import Reachability

@Suite struct ReachabilityStatusTests {
  @Test func theWordsAreThoseOfThePolicyFile() {
    #expect(
      ReachabilityStatus.allCases.map(\.rawValue) == ["unknown", "not-reachable", "wwan", "wifi", "wired"])
  }
}

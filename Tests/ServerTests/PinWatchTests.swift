// Which pin sets are watched, and what is said of those that expire.

import Policy
import Security
import Testing

@testable import Server

@Suite struct PinWatchTests {
  private static let now: Int64 = 1_800_000_000

  private func policy(_ sets: PinSet...) -> Policy {
    let place = SourceLocation(file: "f", line: 1, column: 1)
    return Policy(
      rules: sets.enumerated().map { index, set in
        var settings = SecurityPolicy.Settings()
        settings.pinSet = set
        return Rule(name: "rule-\(index)", location: place, security: SecurityPolicy(settings))
      })
  }

  private func set(_ name: String, expires: Int64?) -> PinSet {
    var set = PinSet(name: name)
    set.expires = expires
    return set
  }

  @Test(
    arguments: [
      (nil, nil), (now + 31 * 86_400, nil), (now + 30 * 86_400, "pin set 'p' expires in 30 days"),
      (now + 1, "pin set 'p' expires in 0 days"), (now, "pin set 'p' has expired"),
    ] as [(Int64?, String?)])
  func aSetThatExpiresWithinThirtyDaysIsWarnedOf(expires: Int64?, warning: String?) {
    let watch = PinWatch(policy(set("p", expires: expires)))
    #expect(watch.warnings(at: Self.now) == (warning.map { [$0] } ?? []))
  }

  @Test func aSetIsWatchedOnceWithTheRulesThatUseIt() {
    let watch = PinWatch(policy(set("b", expires: nil), set("a", expires: nil), set("b", expires: nil)))
    #expect(watch.sets.map(\.set.name) == ["a", "b"])
    #expect(watch.sets.map(\.rules) == [["rule-1"], ["rule-0", "rule-2"]])
    #expect(PinWatch(Policy()).sets.isEmpty)
  }
}

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

  @Test(
    arguments: [
      (nil, nil), (now + 31 * 86_400, nil), (now + 86_400, "expires in 1 day"), (now - 1, "has expired"),
    ] as [(Int64?, String?)])
  func aLocalAuthorityThatExpiresWithinThirtyDaysIsWarnedOf(ends: Int64?, when: String?) {
    let warnings = PinWatch(Policy(), authorityEnds: ends).warnings(at: Self.now)
    #expect(
      warnings
        == (when.map { ["the certificate of the local authority \($0); 'sallyport ca init' makes the next one"] } ?? [])
    )
  }

  @Test func aSetIsWatchedOnceWithTheRulesThatUseIt() {
    let watch = PinWatch(policy(set("b", expires: nil), set("a", expires: nil), set("b", expires: nil)))
    #expect(watch.sets.map(\.set.name) == ["a", "b"])
    #expect(watch.sets.map(\.rules) == [["rule-1"], ["rule-0", "rule-2"]])
    #expect(PinWatch(Policy()).sets.isEmpty)
  }

  // MARK: Certificates that were seen

  private static let day: Int64 = 86_400
  private static let pinA = PublicKeyPin(bytes: [UInt8](repeating: 1, count: 32))
  private static let pinB = PublicKeyPin(bytes: [UInt8](repeating: 2, count: 32))

  private func pinned(_ pins: PublicKeyPin...) -> PinSet {
    var set = PinSet(name: "p")
    set.keys = pins
    return set
  }

  private func match(_ pin: PublicKeyPin, daysLeft: Int64) -> PinMatch {
    PinMatch(pin: pin, subject: "CN=seen", notAfter: Self.now + daysLeft * Self.day)
  }

  private func warnings(_ set: PinSet, _ sightings: PinSightings, at seconds: Int64 = now) -> [String] {
    PinWatch(policy(set), seen: sightings.all).warnings(at: seconds)
  }

  @Test func aCertificateThatWasSeenAndExpiresSoonSaysWhichPinsWouldRemain() {
    let sightings = PinSightings()
    let set = pinned(Self.pinA, Self.pinB)
    #expect(sightings.note(match(Self.pinA, daysLeft: 12), of: set, at: "a.test port 443", wall: Self.now * 1000))
    #expect(
      warnings(set, sightings) == [
        "pin set 'p': the certificate CN=seen of a.test port 443, which carries \(Self.pinA), expires in 12 days;"
          + " \(Self.pinB) would remain"
      ])
    #expect(warnings(pinned(Self.pinA), sightings)[0].hasSuffix("; no other pin would remain"))
    #expect(warnings(pinned(Self.pinB), sightings).isEmpty, "the pin is not configured any more")
  }

  @Test(arguments: [(30 * day, 1), (30 * day + 1, 0), (1, 1)] as [(Int64, Int)])
  func whatExpiresLaterIsNotWarnedOf(_ secondsLeft: Int64, _ count: Int) {
    let sightings = PinSightings()
    let match = PinMatch(pin: Self.pinA, subject: "CN=seen", notAfter: Self.now + secondsLeft)
    _ = sightings.note(match, of: pinned(Self.pinA), at: "a", wall: Self.now * 1000)
    #expect(warnings(pinned(Self.pinA), sightings).count == count)
  }

  @Test func whatHasBeenReplacedIsNotWarnedOf() {
    let sightings = PinSightings()
    let set = pinned(Self.pinA, Self.pinB)
    _ = sightings.note(match(Self.pinA, daysLeft: 12), of: set, at: "a", wall: Self.now * 1000)
    _ = sightings.note(match(Self.pinB, daysLeft: 90), of: set, at: "other", wall: Self.now * 1000)
    #expect(warnings(set, sightings).count == 1, "another server shows another certificate")
    _ = sightings.note(match(Self.pinB, daysLeft: 90), of: set, at: "a", wall: Self.now * 1000)
    #expect(warnings(set, sightings).isEmpty)
    _ = sightings.note(match(Self.pinA, daysLeft: 12), of: set, at: "a", wall: Self.now * 1000)
    #expect(warnings(set, sightings).count == 1, "it is shown again")
    _ = sightings.note(match(Self.pinA, daysLeft: 300), of: set, at: "a", wall: Self.now * 1000)
    #expect(warnings(set, sightings).isEmpty, "renewed with the same key")
  }

  @Test func whatHasExpiredAndIsNotShownAnyMoreIsNotWarnedOf() {
    let sightings = PinSightings()
    let set = pinned(Self.pinA)
    _ = sightings.note(match(Self.pinA, daysLeft: 1), of: set, at: "a", wall: Self.now * 1000)
    let later = Self.now + 2 * Self.day
    #expect(warnings(set, sightings, at: later).isEmpty)
    // Under a policy that allows invalid certificates it may still be shown.
    _ = sightings.note(match(Self.pinA, daysLeft: 1), of: set, at: "a", wall: later * 1000)
    #expect(warnings(set, sightings, at: later).first?.contains("has expired") ?? false)
  }

  @Test func onlyACertificateThatIsNewForItsPinIsNews() {
    let sightings = PinSightings()
    let set = pinned(Self.pinA)
    #expect(sightings.note(match(Self.pinA, daysLeft: 1), of: set, at: "a", wall: 1))
    #expect(!sightings.note(match(Self.pinA, daysLeft: 1), of: set, at: "a", wall: 2))
    #expect(!sightings.note(match(Self.pinA, daysLeft: 1), of: set, at: "b", wall: 3))
    #expect(sightings.note(match(Self.pinA, daysLeft: 2), of: set, at: "b", wall: 4))
    #expect(sightings.all[WatchedPin(Self.pinA, in: set)]?.wall == 4)
  }

  @Test func aReloadForgetsWhatIsNotPinnedAnyMore() {
    let sightings = PinSightings()
    let set = pinned(Self.pinA, Self.pinB)
    _ = sightings.note(match(Self.pinA, daysLeft: 1), of: set, at: "a", wall: 1)
    _ = sightings.note(match(Self.pinB, daysLeft: 1), of: set, at: "b", wall: 1)
    sightings.keep(policy(pinned(Self.pinB)))
    #expect(Array(sightings.all.keys) == [WatchedPin(Self.pinB, in: set)])
    sightings.keep(Policy())
    #expect(sightings.all.isEmpty)
  }

  @Test func whereCertificatesArePinnedARenewedOneIsAnotherPin() {
    var set = pinned()
    set.mode = .certificate
    let sightings = PinSightings()
    _ = sightings.note(match(Self.pinA, daysLeft: 1), of: set, at: "a", wall: 1)
    _ = sightings.note(match(Self.pinA, daysLeft: 300), of: set, at: "a", wall: 2)
    #expect(sightings.all.count == 2)
    #expect(sightings.all.values.filter(\.isSuperseded).map(\.wall) == [1])
  }
}

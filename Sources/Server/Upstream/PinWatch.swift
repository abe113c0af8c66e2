// Pin sets and pinned certificates of a policy, and those that are about to expire. Also certificates seen with a pin
// that are about to be replaced, and the local authority's own. Tests: PinWatchTests.

import Bytes
import Policy
import Security

/// The state of the pins that rules use.
struct PinWatch {
  /// How long before an end the warning comes, in seconds.
  static let warningSeconds = ExpiryNotice.seconds

  /// A pin set that a rule, or the defaults, use.
  struct Watched {
    let set: PinSet
    /// Names of the rules; empty if only the defaults use it.
    let rules: [String]

    /// Every pin that is configured.
    var pins: [WatchedPin] {
      return set.keys.map { WatchedPin($0, in: set) } + set.certificates.map { WatchedPin($0, in: set) }
    }
  }

  let sets: [Watched]
  private let seen: [WatchedPin: PinSighting]
  /// When the certificate of the local authority expires, in seconds since 1970; nil: there is none.
  private let authorityEnds: Int64?

  init(_ policy: Policy, seen: [WatchedPin: PinSighting] = [:], authorityEnds: Int64? = nil) {
    self.authorityEnds = authorityEnds
    var rules: [String: [String]] = [:]
    var sets: [String: PinSet] = [:]
    func note(_ security: SecurityPolicy, _ rule: String?) {
      guard let set = security.settings.pinSet else { return }
      sets[set.name] = set
      rules[set.name, default: []] += rule.map { [$0] } ?? []
    }
    note(policy.defaultSecurity, nil)
    for rule in policy.rules { note(rule.security, rule.name) }
    self.sets = sets.values.sorted { $0.name < $1.name }.map { Watched(set: $0, rules: rules[$0.name] ?? []) }
    self.seen = seen
  }

  func sighting(of key: PublicKeyPin, in set: PinSet) -> PinSighting? { seen[WatchedPin(key, in: set)] }
  func sighting(of certificate: Certificate, in set: PinSet) -> PinSighting? { seen[WatchedPin(certificate, in: set)] }

  /// What expires soon or has expired, in sentences.
  func warnings(at seconds: Int64) -> [String] {
    let authority = authorityEnds.flatMap { Self.when($0, seconds) }.map {
      "the certificate of the local authority \($0); 'sallyport ca init' makes the next one"
    }
    return [authority].compactMap { $0 } + pinWarnings(at: seconds)
  }

  private func pinWarnings(at seconds: Int64) -> [String] {
    sets.flatMap { watched -> [String] in
      let set = watched.set
      var warnings: [String] = []
      if let expires = set.expires, let when = Self.when(expires, seconds) {
        warnings.append("pin set '\(set.name)' \(when)")
      }
      for certificate in set.certificates {
        // By now its server shows another one of the set.
        if sighting(of: certificate, in: set)?.isSuperseded ?? false { continue }
        guard let when = Self.when(certificate.notAfter, seconds) else { continue }
        warnings.append(
          "pin set '\(set.name)': the pinned certificate \(certificate.subject) \(when)"
            + Self.remaining(in: set, without: WatchedPin(certificate, in: set)))
      }
      return warnings + chainWarnings(watched, at: seconds)
    }
  }

  /// Warns of certificates that servers show: their successors may not carry the pin.
  private func chainWarnings(_ watched: Watched, at seconds: Int64) -> [String] {
    let set = watched.set
    var told: Set<WatchedPin> = []
    return watched.pins.compactMap { pin -> String? in
      guard let sighting = seen[pin], !sighting.isSuperseded, told.insert(pin).inserted,
        let when = Self.when(sighting.match.notAfter, seconds)
      else { return nil }
      // A certificate that has expired and is no longer shown has been replaced, or its server is gone.
      if seconds >= sighting.match.notAfter, sighting.wall / 1000 < sighting.match.notAfter { return nil }
      // It has its own warning.
      let isConfigured = set.certificates.contains {
        $0.publicKeyPin == sighting.match.pin && $0.notAfter == sighting.match.notAfter
      }
      if isConfigured { return nil }
      return "pin set '\(set.name)': the certificate \(sighting.match.subject) of \(sighting.place), which carries"
        + " \(sighting.match.pin), \(when)\(Self.remaining(in: set, without: pin))"
    }
  }

  private static func when(_ end: Int64, _ now: Int64) -> String? {
    if now >= end { return "has expired" }
    return end - now <= warningSeconds ? "expires in \(String.counted(daysLeft(end, now), "day"))" : nil
  }

  static func daysLeft(_ end: Int64, _ now: Int64) -> Int64 { (end - now) / CalendarTime.secondsPerDay }

  /// The pins of the set that remain when the certificate with one of them is replaced.
  private static func remaining(in set: PinSet, without pin: WatchedPin) -> String {
    let others =
      set.keys.filter { WatchedPin($0, in: set) != pin }.map(\.description)
      + set.certificates.filter { WatchedPin($0, in: set) != pin }.map(\.subject)
    return others.isEmpty ? "; no other pin would remain" : "; \(others.joined(separator: ", ")) would remain"
  }
}

// Pin sets and pinned certificates of a policy, and which of them are about to expire. Tests: PinWatchTests.

import Policy
import Security

/// What is known of the pins that rules use.
struct PinWatch {
  /// How long before its end something is warned of, in seconds: time to get a certificate and to roll a policy out.
  static let warningSeconds: Int64 = 30 * 86_400
  static let secondsPerDay: Int64 = 86_400

  /// A pin set that a rule, or the defaults, use.
  struct Watched {
    let set: PinSet
    /// Names of the rules; empty where only the defaults do.
    let rules: [String]
  }

  let sets: [Watched]

  init(_ policy: Policy) {
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
  }

  /// What expires soon or has, in sentences.
  func warnings(at seconds: Int64) -> [String] {
    sets.flatMap { watched -> [String] in
      let set = watched.set
      var warnings: [String] = []
      if let expires = set.expires, let when = Self.when(expires, seconds) {
        warnings.append("pin set '\(set.name)' \(when)")
      }
      for certificate in set.certificates {
        guard let when = Self.when(certificate.notAfter, seconds) else { continue }
        warnings.append(
          "pin set '\(set.name)': the pinned certificate \(certificate.subject) \(when)\(Self.remaining(set, certificate))"
        )
      }
      return warnings
    }
  }

  private static func when(_ end: Int64, _ now: Int64) -> String? {
    if now >= end { return "has expired" }
    return end - now <= warningSeconds ? "expires in \(daysLeft(end, now)) days" : nil
  }

  static func daysLeft(_ end: Int64, _ now: Int64) -> Int64 { (end - now) / secondsPerDay }

  /// Which pins of the set stay when the certificate is replaced.
  private static func remaining(_ set: PinSet, _ certificate: Certificate) -> String {
    let others =
      set.keys.filter { $0 != certificate.publicKeyPin }.map(\.description)
      + set.certificates.filter { $0 != certificate }.map(\.subject)
    return others.isEmpty ? "; no other pin would remain" : "; \(others.joined(separator: ", ")) would remain"
  }
}

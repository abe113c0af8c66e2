// Servers that a probe has found trusted, and probes under way. A good verdict is valid for a while, and simultaneous
// requests share one probe. A bad verdict is not remembered: the next request checks whether the server has been fixed.
// Tests: ProbeMemoryTests.

public struct ProbeMemory<Key: Hashable, Probe> {
  /// How long a good verdict is valid, in milliseconds: five minutes. So the proxy may notice late that a certificate
  /// was replaced by one that the policy refuses, if TLS 1.3 hides it.
  static var verdictMilliseconds: Int64 { 300_000 }
  /// Most verdicts that are remembered: more hosts than a machine talks to in five minutes.
  static var mostVerdicts: Int { 4096 }

  /// When each was found trusted.
  private var verdicts: [Key: Int64] = [:]
  private var running: [Key: Probe] = [:]

  public init() {}

  public func isTrusted(_ key: Key, now: Int64) -> Bool {
    verdicts[key].map { now - $0 < Self.verdictMilliseconds } ?? false
  }

  /// The probe under way, to be shared.
  public func running(_ key: Key) -> Probe? { running[key] }

  public mutating func begin(_ probe: Probe, for key: Key) { running[key] = probe }

  /// `isTrusted`: the policy has no objection to what was presented. Objections are reported again for each tunnel.
  public mutating func end(_ key: Key, isTrusted: Bool, now: Int64) {
    running[key] = nil
    guard isTrusted else {
      verdicts[key] = nil
      return
    }
    if verdicts.count >= Self.mostVerdicts {
      verdicts = verdicts.filter { now - $0.value < Self.verdictMilliseconds }
      if verdicts.count >= Self.mostVerdicts { verdicts.removeAll() }
    }
    verdicts[key] = now
  }

  public mutating func removeAll(where isGone: (Key) -> Bool) { verdicts = verdicts.filter { !isGone($0.key) } }
}

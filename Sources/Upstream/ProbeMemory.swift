// Which servers a probe has found trusted, and which probes are under way. A good verdict is relied on for a while, and those
// that ask at the same time share one probe. A bad one is not remembered: the next finds out whether the server has been
// mended. Tests: ProbeMemoryTests.

public struct ProbeMemory<Key: Hashable, Probe> {
  /// How long a good verdict is relied on, in milliseconds: five minutes, by which a certificate that is replaced by one
  /// that the policy refuses may be noticed late where TLS 1.3 hides it.
  static var verdictMilliseconds: Int64 { 300_000 }
  /// Verdicts that are remembered: more hosts than a machine talks to in five minutes.
  static var mostVerdicts: Int { 4096 }

  /// When each was found trusted.
  private var verdicts: [Key: Int64] = [:]
  private var running: [Key: Probe] = [:]

  public init() {}

  public func isTrusted(_ key: Key, now: Int64) -> Bool {
    verdicts[key].map { now - $0 < Self.verdictMilliseconds } ?? false
  }

  /// The probe that is under way, to be shared.
  public func running(_ key: Key) -> Probe? { running[key] }

  public mutating func begin(_ probe: Probe, for key: Key) { running[key] = probe }

  /// `isTrusted`: the policy has nothing to say against what was shown. Whatever it has is said of each tunnel anew.
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

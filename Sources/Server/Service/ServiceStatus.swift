// The daemon's line in `systemctl status`, for a person.
//
//     127.0.0.1:3128, [::1]:3128; 12 rules; reloaded 2026-11-20 21:00:01
//
// Pure: times are handed in as text. Tests: ServiceStatusTests.

import Bytes

struct ServiceStatus {
  private enum Reload {
    case none
    case done(at: String)
    case failed(at: String, because: String)
  }

  /// A longer fault would hide what follows it; the log has all of it.
  static let longestFaultCharacters = 300

  private let addresses: [String]
  private var rules: Int
  /// Since when the policy is in force.
  private var policyTime: String
  private var reload = Reload.none
  /// It goes on running and refuses every request.
  private(set) var isDrained = false

  init(addresses: [String], rules: Int, at time: String) {
    self.addresses = addresses
    self.rules = rules
    policyTime = time
  }

  mutating func reloaded(rules: Int, at time: String) {
    self.rules = rules
    policyTime = time
    reload = .done(at: time)
  }

  mutating func reloadFailed(_ fault: String, at time: String) {
    reload = .failed(at: time, because: Self.oneLine(fault))
  }

  mutating func drain() { isDrained = true }

  var text: String { isDrained ? "drained, refuses all requests; \(policyText)" : policyText }

  private var policyText: String {
    let state = "\(addresses.joined(separator: ", ")); \(String.counted(rules, "rule"))"
    switch reload {
    case .none: return state
    case .done(let time): return "\(state); reloaded \(time)"
    // The failure comes first: status lines are cut at the right.
    case .failed(let time, let fault):
      return "reload failed \(time): \(fault); still the policy of \(policyTime); \(state)"
    }
  }

  static func stopping(milliseconds: Int64) -> String {
    guard milliseconds > 0 else { return "stopping at once" }
    return "stopping: requests under way have \((milliseconds + 999) / 1000) s"
  }

  /// A line feed would begin another variable of the protocol.
  private static func oneLine(_ text: String) -> String {
    var line = String(text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7f ? " " : Character($0) })
    if line.count > longestFaultCharacters { line = line.prefix(longestFaultCharacters) + "…" }
    return line
  }
}

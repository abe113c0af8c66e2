// A learned rule: who, where to, how, and how often it was seen; and its text. Tests: HistoryLearningTests.

import Bytes
import Policy

/// Who asked, as far as a rule can express it.
struct LearnedAsker: Hashable, Comparable, Sendable {
  /// The number of the user; nil: the client is not a program of this machine.
  let uid: String?
  let user: String?
  /// nil: no unit that a rule would name.
  let unit: String?

  /// nil if the client was not known for certain, because then no rule can match it.
  init?(_ kind: HistoryKind) {
    guard let known = kind[.known] else {
      (uid, user, unit) = (nil, nil, nil)
      return
    }
    guard known == LocalClient.Outcome.known.rawValue else { return nil }
    uid = kind[.uid]
    user = kind[.user]
    unit = kind[.unit].flatMap { UnitName.isLasting($0) ? $0 : nil }
  }

  static func < (one: LearnedAsker, other: LearnedAsker) -> Bool {
    (one.user ?? one.uid ?? "", one.unit ?? "") < (other.user ?? other.uid ?? "", other.unit ?? "")
  }

  /// `ci, ci.service`
  var text: String {
    guard let uid else { return "clients that are no programs of this machine" }
    return ((user ?? "user \(uid)") + (unit.map { ", \($0)" } ?? "")).printable
  }
}

/// How a destination was used.
enum LearnedForm: Hashable, Comparable, Sendable {
  case http
  /// Requests in an opened tunnel, or sent without one.
  case intercepted, https
  /// Bytes passed through. `isVerified`: after the certificate was checked.
  case tunnel(isVerified: Bool)

  private var order: Int {
    switch self {
    case .tunnel(true): 0
    case .tunnel(false): 1
    case .intercepted: 2
    case .https: 3
    case .http: 4
    }
  }

  static func < (one: LearnedForm, other: LearnedForm) -> Bool { one.order < other.order }
}

struct LearnedRule: Sendable {
  var asker: LearnedAsker
  var form: LearnedForm
  var hosts: [String]
  var port: UInt16
  /// Empty for a tunnel.
  var methods: [String] = []
  /// Empty: any.
  var paths: [String] = []
  var denies = false
  var count = 0
  var last: Int64 = 0
  var name = ""

  /// `nameOf`: the user in a rule, from number and name: `"ci"`, or `1001` if the name no longer exists.
  func text(_ nameOf: (String, String?) -> String) -> String {
    var rule = RuleText(name: name, hosts: hosts)
    if let uid = asker.uid { rule.users = [nameOf(uid, asker.user)] }
    if let unit = asker.unit { rule.units = [unit] }
    rule.ports = [port]
    rule.schemes = [form == .http ? .http : .https]
    rule.methods = methods
    rule.paths = paths
    if denies { rule.action = .deny }
    switch form {
    case .intercepted where !denies: rule.connect = .intercept
    case .https where !denies: rule.connect = .deny
    case .tunnel(isVerified: true) where !denies: rule.connect = .verify
    default: break
    }
    return "# \(String.counted(count, "time")), last \(HistoryMoment.text(last))\n" + rule.text
  }

  /// `learned.ci.index.example`, in the characters that a name may have.
  var plainName: String {
    let who = [asker.user ?? asker.uid, asker.unit?.split(separator: ".").first.map(String.init)].compactMap { $0 }
    return RuleText.plainName(["learned"] + who + [hosts.first ?? ""])
  }
}

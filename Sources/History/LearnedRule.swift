// A rule as it is learned: who, to where, how, and how often that was seen; and its text.
// Tests: HistoryLearningTests.

import Policy

/// Who asked: what a rule can say of it.
struct LearnedAsker: Hashable, Comparable, Sendable {
  /// Number of the user; nil: a client that is no program of this machine.
  let uid: String?
  let user: String?
  /// nil: of no unit that a rule would name.
  let unit: String?

  /// nil where the client was not known for certain, so that no rule can be about it.
  init?(_ kind: HistoryKind) {
    guard let known = kind[.known] else {
      (uid, user, unit) = (nil, nil, nil)
      return
    }
    guard known == "\(LocalClient.Outcome.known.token)" else { return nil }
    uid = kind[.uid]
    user = kind[.user]
    unit = kind[.unit].flatMap { Self.isLasting($0) ? $0 : nil }
  }

  /// Units whose name is the same tomorrow: scopes are made by logins and by `systemd-run`, with a number of their own.
  private static func isLasting(_ unit: String) -> Bool {
    unit.hasSuffix(".service") && !unit.hasPrefix("run-") && !unit.hasPrefix("user@") && UnitName.fault(unit) == nil
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
  /// Requests in a tunnel that was opened, or sent without one.
  case intercepted, https
  /// Bytes went through; `isVerified`: once the certificate had been looked at.
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
  /// Empty of a tunnel.
  var methods: [String] = []
  /// Empty: any.
  var paths: [String] = []
  var denies = false
  var count = 0
  var last: Int64 = 0
  var name = ""

  /// `nameOf`: how a rule names a user, by number and name: `"ci"`, or `1001` where nobody has the name any more.
  func text(_ nameOf: (String, String?) -> String) -> String {
    var lines = ["# \(count) \(count == 1 ? "time" : "times"), last \(HistoryMoment.text(last))", "[[rule]]"]
    func line(_ key: String, _ value: String) {
      lines.append("\(key)\(String(repeating: " ", count: max(1, 8 - key.count)))= \(value)")
    }
    func list(_ texts: [String]) -> String {
      let quoted = texts.map(Self.quoted)
      let short = "[\(quoted.joined(separator: ", "))]"
      return short.count <= 100 ? short : "[\n\(quoted.map { "  \($0),\n" }.joined())]"
    }
    line("name", Self.quoted(name))
    if let uid = asker.uid { line("users", "[\(nameOf(uid, asker.user))]") }
    if let unit = asker.unit { line("units", list([unit])) }
    line("hosts", list(hosts))
    line("ports", "[\(port)]")
    line("schemes", list([form == .http ? "http" : "https"]))
    if !methods.isEmpty { line("methods", list(methods)) }
    if !paths.isEmpty { line("paths", list(paths)) }
    if denies { line("action", Self.quoted("deny")) }
    switch form {
    case .intercepted where !denies: line("connect", Self.quoted("intercept"))
    case .https where !denies: line("connect", Self.quoted("deny"))
    case .tunnel(isVerified: true) where !denies: line("connect", Self.quoted("verify"))
    default: break
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func quoted(_ text: String) -> String { JSONText.string(text).text }

  /// `learned.ci.index.example`, of what a name may hold.
  var plainName: String {
    let host = hosts.first ?? ""
    let who = [asker.user ?? asker.uid, asker.unit?.split(separator: ".").first.map(String.init)].compactMap { $0 }
    let text = (["learned"] + who + [host]).joined(separator: ".")
    let allowed = text.utf8.map { byte -> Character in
      let isPlain = byte.isASCIIDigit || byte.isASCIILetter || byte == 0x2d || byte == 0x5f || byte == 0x2e
      return isPlain ? Character(Unicode.Scalar(byte)) : "-"
    }
    return String(allowed.prefix(Self.longestPlainName))
  }

  /// A number may follow, within the 64 bytes of a name.
  private static let longestPlainName = 56
}

// A [[rule]] as text that an operator can put into a file unchanged: what learn prints, what a refusal proposes, and
// what `sallyport allow --always` writes. Tests: RuleTextTests, HistoryLearningTests.

import Bytes

public struct RuleText: Sendable {
  public var name: String
  /// As TOML: `"ci"`, or `1001` for a user without a name.
  public var users: [String] = []
  public var units: [String] = []
  public var hosts: [String]
  public var ports: [UInt16] = []
  public var schemes: [Scheme] = []
  /// Empty for a tunnel.
  public var methods: [String] = []
  /// Empty: any.
  public var paths: [String] = []
  public var action = RuleAction.allow
  public var connect: ConnectTreatment? = nil
  /// A comment line before it; nil: none.
  public var comment: String? = nil

  public init(name: String, hosts: [String]) {
    self.name = name
    self.hosts = hosts
  }

  /// Columns of a list before each element gets its own line.
  private static let listColumns = 100
  /// Columns of the names of keys.
  private static let keyColumns = 8

  /// Ends with a newline.
  public var text: String {
    var lines = (comment.map { ["# \($0)"] } ?? []) + ["[[rule]]"]
    func line(_ key: String, _ value: String) {
      lines.append("\(key)\(String(repeating: " ", count: max(1, Self.keyColumns - key.count)))= \(value)")
    }
    line("name", Self.quoted(name))
    if !users.isEmpty { line("users", "[\(users.joined(separator: ", "))]") }
    if !units.isEmpty { line("units", Self.list(units)) }
    line("hosts", Self.list(hosts))
    if !ports.isEmpty { line("ports", "[\(ports.map { "\($0)" }.joined(separator: ", "))]") }
    if !schemes.isEmpty { line("schemes", Self.list(schemes.map(\.rawValue))) }
    if !methods.isEmpty { line("methods", Self.list(methods)) }
    if !paths.isEmpty { line("paths", Self.list(paths)) }
    if action != .allow { line("action", Self.quoted(action.rawValue)) }
    if let connect { line("connect", Self.quoted(connect.rawValue)) }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func list(_ texts: [String]) -> String {
    let quoted = texts.map(Self.quoted)
    let short = "[\(quoted.joined(separator: ", "))]"
    return short.count <= listColumns ? short : "[\n\(quoted.map { "  \($0),\n" }.joined())]"
  }

  private static func quoted(_ text: String) -> String { text.inTOML }

  /// A number may follow, within the 64 bytes of a name.
  private static let longestPlainName = 56

  /// `learned.ci.index.example`, from the characters allowed in a name.
  public static func plainName(_ parts: [String]) -> String {
    let allowed = parts.joined(separator: ".").utf8.map { byte -> Character in
      let isPlain = byte.isASCIIDigit || byte.isASCIILetter || byte == 0x2d || byte == 0x5f || byte == 0x2e
      return isPlain ? Character(Unicode.Scalar(byte)) : "-"
    }
    return String(allowed.prefix(longestPlainName))
  }
}

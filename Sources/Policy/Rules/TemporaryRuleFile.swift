// Temporary rules as text that outlives the daemon: TOML, one table per rule, written only by the daemon.
// Tests: TemporaryRuleFileTests.

import Bytes

public enum TemporaryRuleFile {
  /// In the directory that `state` of [proxy] names.
  public static let name = "temporary-rules.toml"
  /// Largest file that is read, in bytes: the largest number of rules, each with the longest path.
  public static let largestBytes = 8 << 20

  /// Why a file is not a file of temporary rules.
  public struct Fault: Error, CustomStringConvertible, Sendable {
    public let description: String
  }

  /// What is written: the rules, and the number of the next one.
  public struct Content: Equatable, Sendable {
    public var rules: [TemporaryRule]
    public var next: Int

    public init(rules: [TemporaryRule] = [], next: Int = 1) {
      self.rules = rules
      self.next = next
    }
  }

  public static func text(_ content: Content) -> String {
    "# What operators allowed and denied for a time (sallyport asks). The daemon writes this file.\nnext = \(content.next)\n"
      + content.rules.map(text).joined()
  }

  private static func text(_ rule: TemporaryRule) -> String {
    var text = "\n[[temporary]]\nid = \(rule.id)\nverdict = \(rule.verdict.rawValue.inTOML)\n"
    text += "host = \(rule.host.description.inTOML)\n"
    if let scheme = rule.scheme { text += "scheme = \(scheme.rawValue.inTOML)\n" }
    if let port = rule.port { text += "port = \(port)\n" }
    if let method = rule.method { text += "method = \(method.inTOML)\n" }
    if let path = rule.path { text += "path = \(path.inTOML)\n" }
    if let userID = rule.userID { text += "uid = \(userID)\n" }
    if let user = rule.user { text += "user = \(user.inTOML)\n" }
    if let unit = rule.unit { text += "unit = \(unit.inTOML)\n" }
    if let client = rule.client { text += "client = \("\(client)".inTOML)\n" }
    if rule.isRemembered { text += "once = true\n" }
    return text + "since = \(rule.since)\nuntil = \(rule.until)\nby = \(rule.by.inTOML)\n"
  }

  /// Every key must be known and of the right type: the extent of an unreadable rule is unknown.
  public static func read(_ bytes: [UInt8]) throws(Fault) -> Content {
    switch TOMLDocument.parse(bytes) {
    case .failure(let fault): throw Fault(description: "line \(fault.position.line): \(fault.description)")
    case .success(let root):
      guard case .table(let entries) = root.content else { return Content() }
      var content = Content()
      for entry in entries {
        switch (entry.key, entry.value.content) {
        case ("next", .integer(let next)): content.next = Int(clamping: next)
        case ("temporary", .array(let tables)): for table in tables { content.rules.append(try rule(table)) }
        default:
          throw Fault(
            description: "line \(entry.keyBegin.line): expected 'next' or [[temporary]], found '\(entry.key)' of "
              + entry.value.typeName)
        }
      }
      content.next = max(content.next, (content.rules.map(\.id).max() ?? 0) &+ 1)
      return content
    }
  }

  private static func rule(_ table: TOMLValue) throws(Fault) -> TemporaryRule {
    var table = try Reader(table)
    guard let id: Int = try table.number("id"), let since: Int64 = try table.number("since"),
      let until: Int64 = try table.number("until"), let by = try table.word("by"),
      let verdict = try table.word("verdict", as: TemporaryRule.Verdict.init),
      let host = try table.word("host", as: { try? HostPattern.parse($0).get() })
    else { throw table.fault("expected id, verdict, host, since, until and by, and one is missing") }
    var rule = TemporaryRule(id: id, verdict: verdict, host: host, since: since, until: until, by: by)
    rule.scheme = try table.word("scheme", as: Scheme.init)
    rule.port = try table.number("port")
    rule.userID = try table.number("uid")
    rule.method = try table.word("method")
    // Earlier files spell the wildcard of a shape as an asterisk, and braces as they are; a real asterisk is encoded.
    rule.path = try table.word("path").map { path in
      path.contains("*")
        ? path.split(separator: "*", omittingEmptySubsequences: false).map { PathShape.literal(String($0)) }
          .joined(separator: PathPattern.segmentWildcard) : path
    }
    rule.user = try table.word("user")
    rule.unit = try table.word("unit")
    rule.client = try table.word("client", as: { IPAddress($0) })
    rule.isRemembered = try table.truth("once")
    try table.end()
    return rule
  }

  /// A table whose keys are each read once, with none left over.
  private struct Reader {
    private var values: [String: TOMLValue.Content] = [:]
    private let line: Int

    init(_ table: TOMLValue) throws(Fault) {
      line = table.begin.line
      guard case .table(let entries) = table.content else {
        throw Fault(description: "line \(line): expected a table, found \(table.typeName)")
      }
      for entry in entries { values[entry.key] = entry.value.content }
    }

    func fault(_ sentence: String) -> Fault { Fault(description: "line \(line): \(sentence)") }

    mutating func number<Value: FixedWidthInteger>(_ key: String) throws(Fault) -> Value? {
      guard let value = values.removeValue(forKey: key) else { return nil }
      guard case .integer(let number) = value, let exact = Value(exactly: number) else {
        throw fault("expected a number as '\(key)'")
      }
      return exact
    }

    mutating func word(_ key: String) throws(Fault) -> String? { try word(key) { $0 } }

    mutating func word<Value>(_ key: String, as read: (String) -> Value?) throws(Fault) -> Value? {
      guard let value = values.removeValue(forKey: key) else { return nil }
      guard case .string(let text) = value, let read = read(text) else {
        throw fault("'\(key)' is not what the daemon writes there")
      }
      return read
    }

    mutating func truth(_ key: String) throws(Fault) -> Bool {
      guard let value = values.removeValue(forKey: key) else { return false }
      guard case .boolean(let truth) = value else { throw fault("expected true or false as '\(key)'") }
      return truth
    }

    func end() throws(Fault) {
      if let key = values.keys.sorted().first { throw fault("unknown key '\(key)'") }
    }
  }
}

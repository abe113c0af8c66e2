// Temporary rules as the text that outlives the daemon: TOML, a table for each, written by the daemon alone.
// Tests: TemporaryRuleFileTests.

import Bytes

public enum TemporaryRuleFile {
  /// Within the directory that `state` of [proxy] names.
  public static let name = "temporary-rules.toml"
  /// Largest file that is read, in bytes: as many rules as may be, each of the longest path.
  public static let largestBytes = 8 << 20

  /// Why a file is not one of these.
  public struct Fault: Error, CustomStringConvertible, Sendable {
    public let description: String
  }

  public static func text(_ rules: [TemporaryRule]) -> String {
    "# What operators allowed and denied for a time (sallyport asks). The daemon writes this file.\n"
      + rules.map(text).joined()
  }

  private static func text(_ rule: TemporaryRule) -> String {
    var text = "\n[[temporary]]\nid = \(rule.id)\nverdict = \(rule.verdict.rawValue.inTOML)\n"
    text += "host = \(rule.host.description.inTOML)\n"
    if let port = rule.port { text += "port = \(port)\n" }
    if let method = rule.method { text += "method = \(method.inTOML)\n" }
    if let path = rule.path { text += "path = \(path.inTOML)\n" }
    if let userID = rule.userID { text += "uid = \(userID)\n" }
    if let user = rule.user { text += "user = \(user.inTOML)\n" }
    if let unit = rule.unit { text += "unit = \(unit.inTOML)\n" }
    if let client = rule.client { text += "client = \("\(client)".inTOML)\n" }
    return text + "since = \(rule.since)\nuntil = \(rule.until)\nby = \(rule.by.inTOML)\n"
  }

  public static func read(_ bytes: [UInt8]) throws(Fault) -> [TemporaryRule] {
    switch TOMLDocument.parse(bytes) {
    case .failure(let fault): throw Fault(description: "line \(fault.position.line): \(fault.description)")
    case .success(let root):
      guard case .table(let entries) = root.content else { return [] }
      var rules: [TemporaryRule] = []
      for entry in entries {
        guard entry.key == "temporary", case .array(let tables) = entry.value.content else {
          throw Fault(description: "line \(entry.keyBegin.line): expected [[temporary]], found '\(entry.key)'")
        }
        for table in tables { rules.append(try rule(table)) }
      }
      return rules
    }
  }

  private static func rule(_ table: TOMLValue) throws(Fault) -> TemporaryRule {
    var words: [String: String] = [:]
    var numbers: [String: Int64] = [:]
    guard case .table(let entries) = table.content else {
      throw Fault(description: "line \(table.begin.line): expected a table, found \(table.typeName)")
    }
    for entry in entries {
      switch entry.value.content {
      case .string(let text): words[entry.key] = text
      case .integer(let number): numbers[entry.key] = number
      default: throw Fault(description: "line \(entry.keyBegin.line): '\(entry.key)' is \(entry.value.typeName)")
      }
    }
    guard let id = numbers["id"].flatMap({ Int(exactly: $0) }),
      let verdict = words["verdict"].flatMap(TemporaryRule.Verdict.init),
      let text = words["host"], case .success(let host) = HostPattern.parse(text), let since = numbers["since"],
      let until = numbers["until"], let by = words["by"]
    else {
      throw Fault(
        description: "line \(table.begin.line): expected id, verdict, host, since, until and by, and one is missing "
          + "or is none")
    }
    var rule = TemporaryRule(id: id, verdict: verdict, host: host, since: since, until: until, by: by)
    func number<Value: FixedWidthInteger>(_ key: String) throws(Fault) -> Value? {
      guard let number = numbers[key] else { return nil }
      guard let value = Value(exactly: number) else {
        throw Fault(description: "line \(table.begin.line): '\(key)' is out of range")
      }
      return value
    }
    rule.port = try number("port")
    rule.userID = try number("uid")
    rule.method = words["method"]
    rule.path = words["path"]
    rule.user = words["user"]
    rule.unit = words["unit"]
    if let client = words["client"] {
      guard let address = IPAddress(client) else {
        throw Fault(description: "line \(table.begin.line): 'client' is no address")
      }
      rule.client = address
    }
    return rule
  }
}

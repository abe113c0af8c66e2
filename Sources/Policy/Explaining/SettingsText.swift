// The table of settings in other forms: a JSON Schema for editors and TOML checkers, and the help for one key.
// Tests: SettingsTextTests, test_schema.py.

public enum Settings {
  // MARK: JSON Schema

  /// The configuration as a JSON Schema (draft-07, which TOML plug-ins of editors read), in one line.
  ///
  /// It contains names, types, words and ranges of numbers. `sallyport check` covers ranges of durations and sizes,
  /// references, and everything that depends on another key.
  public static var jsonSchema: String {
    var tables: [(String, JSONText)] = [("secret", .object(members(of: TableSchema.secret) + exactlyOne))]
    for table in TableSchema.all where table.title != TableSchema.root.title {
      tables.append((key(of: table), .object(members(of: table))))
    }
    let head: [(String, JSONText)] = [
      ("$schema", .string("http://json-schema.org/draft-07/schema#")),
      ("title", .string("sallyport.toml")),
    ]
    return JSONText.object(head + members(of: TableSchema.root) + [("definitions", .object(tables))]).text
  }

  /// A secret comes from exactly one place.
  private static let exactlyOne: [(String, JSONText)] = [("minProperties", .number(1)), ("maxProperties", .number(1))]

  /// `rule.security` for `[rule.security]`.
  private static func key(of table: TableSchema) -> String {
    table.title == TableSchema.secret.title ? "secret" : table.title.filter { $0 != "[" && $0 != "]" }
  }

  private static func members(of table: TableSchema) -> [(String, JSONText)] {
    let properties = table.settings.map { setting in
      (setting.name, JSONText.object([("description", .string(description(setting)))] + members(of: setting.kind)))
    }
    return [
      ("type", .string("object")), ("properties", .object(properties)), ("additionalProperties", .boolean(false)),
    ]
  }

  private static func description(_ setting: KnownSetting) -> String {
    let range = setting.kind.range.map { " From \($0)." } ?? ""
    return setting.sentence + range + (setting.standard.map { " Default: \($0)." } ?? "")
  }

  private static func members(of kind: SettingKind) -> [(String, JSONText)] {
    switch kind {
    case .boolean: typed("boolean")
    case .integer(let range):
      typed("integer", [("minimum", .number(Int(range.lowerBound))), ("maximum", .number(Int(range.upperBound)))])
    case .number(let range):
      typed("number", [("minimum", .real(range.lowerBound)), ("maximum", .real(range.upperBound))])
    case .text: typed("string")
    case .word(let words): [("enum", .array(words.map { .string($0) }))]
    case .duration: typed("string", [("pattern", .string(Quantity.duration.pattern))])
    case .size: typed("string", [("pattern", .string(Quantity.size.pattern))])
    case .date: typed("string", [("format", .string("date"))])
    case .secret: members(of: .oneOf([.text, .table(.secret)]))
    case .list(let element): typed("array", [("items", schema(element))])
    case .oneOf(let kinds): [("anyOf", .array(kinds.map(schema)))]
    case .never: [("const", .boolean(false))]
    case .any: []
    // In draft-07 nothing beside a reference counts, not even a description.
    case .table(let table): [("allOf", .array([reference(table)]))]
    case .tables(let table): typed("array", [("items", reference(table))])
    case .named(let table): typed("object", [("additionalProperties", reference(table))])
    case .map(let element): typed("object", [("additionalProperties", schema(element))])
    }
  }

  private static func schema(_ kind: SettingKind) -> JSONText { .object(members(of: kind)) }

  private static func typed(_ name: String, _ more: [(String, JSONText)] = []) -> [(String, JSONText)] {
    [("type", .string(name))] + more
  }

  private static func reference(_ table: TableSchema) -> JSONText {
    .object([("$ref", .string("#/definitions/\(key(of: table))"))])
  }

  // MARK: Help

  /// Every key and every table, for suggestions after a typing error.
  public static var topics: [String] { TableSchema.all.flatMap { $0.names } }

  /// The help for a key, `timeout` or `rule.request.timeout`, in each table that has it, or for a table; nil: there is
  /// none.
  public static func help(_ topic: String) -> String? {
    var topic = topic.filter { $0 != "[" && $0 != "]" }
    // [defaults.request] has the keys of [rule.request].
    let ofRule = "rule." + topic.dropFirst("defaults.".count)
    if topic.hasPrefix("defaults."), TableSchema.all.contains(where: { $0.inherited != nil && leads(ofRule, to: $0) }) {
      topic = ofRule
    }
    let tables = TableSchema.all.filter { means(topic, key(of: $0)) }
    if let table = tables.first(where: { !key(of: $0).hasSuffix(".NAME") || key(of: $0) == topic }) {
      return help(table)
    }
    let found = TableSchema.all.flatMap { table in
      table.settings.filter { $0.name == topic || means(topic, "\(key(of: table)).\($0.name)") }.map { (table, $0) }
    }
    // `routes.via` is a key rather than the table of a route with that name.
    if found.isEmpty { return tables.first.map(help) ?? helpOfEnd(topic) }
    return found.map { table, setting in "\(title(table))\n\n\(entry(setting))" }.joined(separator: "\n")
  }

  /// As people write keys: `headers.set` for `rule.request.headers.set`.
  private static func helpOfEnd(_ topic: String) -> String? {
    let keys = TableSchema.all.flatMap { table in [key(of: table)] + table.names.map { "\(key(of: table)).\($0)" } }
    return keys.first { $0.hasSuffix(".\(topic)") }.flatMap { $0 == topic ? nil : help($0) }
  }

  private static func help(_ table: TableSchema) -> String {
    "\(title(table))\n\n" + table.settings.map(entry).joined(separator: "\n")
  }

  private static func title(_ table: TableSchema) -> String {
    guard let inherited = table.inherited else { return table.title }
    return table.title
      + (table.isTakenWhole
        ? "; a rule without it has that of \(inherited)" : "; what is not set there comes from \(inherited)")
  }

  /// Whether a topic is this table or one of its keys.
  private static func leads(_ topic: String, to table: TableSchema) -> Bool {
    means(topic, key(of: table)) || table.names.contains { means(topic, "\(key(of: table)).\($0)") }
  }

  /// Whether a topic is this key. In `routes.NAME.via` the operator's name may stand, or none.
  private static func means(_ topic: String, _ key: String) -> Bool {
    let words = topic.split(separator: ".")
    let parts = key.split(separator: ".")
    if words == parts.filter({ $0 != "NAME" }) { return true }
    return words.count == parts.count && zip(words, parts).allSatisfy { $0 == $1 || $1 == "NAME" }
  }

  private static func entry(_ setting: KnownSetting) -> String {
    var text = "  \(setting.name) = \(words(setting.kind))\n      \(setting.sentence)\n"
    if let standard = setting.standard { text += "      Default: \(standard)\n" }
    return text
  }

  private static func words(_ kind: SettingKind) -> String {
    switch kind {
    case .boolean: "true or false"
    case .integer(let range): "a number, \(range.lowerBound) to \(range.upperBound)"
    case .number(let range): "a number, \(range.lowerBound) to \(range.upperBound)"
    case .text: "a string"
    case .word(let words): words.map(\.inTOML).alternatives
    case .duration: "\(Quantity.duration.expectation), \(kind.range ?? "")"
    case .size: "\(Quantity.size.expectation), \(kind.range ?? "")"
    case .date: "a date, such as 2027-01-31"
    case .secret: "a string, or a table with one of " + TableSchema.secret.names.alternatives
    case .list(let element): "a list; each: \(words(element))"
    case .oneOf(let kinds): kinds.map(words).joined(separator: "; or ")
    case .never: "false"
    case .any: "any value"
    case .table(let table): "the table \(table.title)"
    case .tables(let table), .named(let table): "tables \(table.title)"
    case .map(let element): "a table of names; each: \(words(element))"
    }
  }
}

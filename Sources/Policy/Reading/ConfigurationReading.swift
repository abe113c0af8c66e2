// The state of one load, and the small steps from which the reading of any table is composed: read a value of the type
// that a key expects, or report what was expected and found, and continue with the next key.
//
// Every step returns nil after a report, so one pass finds everything. Values and tables read themselves with these
// steps, each in its own file: `static func read(_ setting: Setting, by reading: ConfigurationReading)`. What a load
// must remember beyond its reports is in `RememberedFiles`, `SecretMemory` and `CertificateMemory`; what the files say
// is in `PolicyDraft`.

/// A table that is being read, with its name for diagnostics: `rule.request`; empty for the root.
struct ConfigurationTable {
  let source: SourceText
  let path: String
  let begin: TOMLPosition
  let entries: [TOMLEntry]

  var settings: [Setting] { entries.map { Setting(source: source, table: path, entry: $0) } }

  func path(of key: String) -> String { path.isEmpty ? key : "\(path).\(key)" }
}

/// One key of a table with its value.
struct Setting {
  let source: SourceText
  let table: String
  let key: String
  let keyBegin: TOMLPosition
  let value: TOMLValue

  init(source: SourceText, table: String, entry: TOMLEntry) {
    self.source = source
    self.table = table
    key = entry.key
    keyBegin = entry.keyBegin
    value = entry.value
  }

  private init(_ setting: Setting, element: TOMLValue) {
    source = setting.source
    table = setting.table
    key = setting.key
    keyBegin = setting.keyBegin
    value = element
  }

  /// `'connect' in [proxy.timeouts]`
  var title: String { table.isEmpty ? key.quoted : "\(key.quoted) in [\(table)]" }

  /// The same key with one element of its array as the value.
  func element(_ value: TOMLValue) -> Setting { Setting(self, element: value) }
}

/// One load: what has been found so far, and what was read for it.
final class ConfigurationReading {
  /// Most diagnostics of one load: enough for a generated file with one mistake in each rule, and memory stays bounded.
  static let mostDiagnostics = 10_000

  let files: RememberedFiles
  let secretUse: SecretUse
  let secrets = SecretMemory()
  let certificates = CertificateMemory()
  private var found: [(file: Int, position: TOMLPosition, diagnostic: Diagnostic)] = []
  private var fileNumbers: [String: Int] = [:]
  private(set) var errorCount = 0
  /// The location of each key in the tables that any file may add to.
  private var keysOfAnyFile: [String: SourceLocation] = [:]

  init(files: any PolicyFiles, secrets: SecretUse = .required) {
    self.files = RememberedFiles(files)
    secretUse = secrets
  }

  /// The table without the keys that another file sets, each of which is an error: a key of [defaults], [log] and
  /// [proxy] may be in only one file. `names` are tables whose keys are checked individually.
  func once(_ table: ConfigurationTable, besides names: Set<String> = []) -> ConfigurationTable {
    let entries = table.entries.filter { entry in
      let setting = Setting(source: table.source, table: table.path, entry: entry)
      let path = table.path(of: entry.key)
      if names.contains(entry.key) { return true }
      if let other = keysOfAnyFile[path] {
        report(
          .error, setting.source, position: setting.keyBegin,
          message: "\(setting.title) stands at \(other) already; a key of this table stands in one file")
        return false
      }
      keysOfAnyFile[path] = setting.source.location(setting.keyBegin)
      return true
    }
    return ConfigurationTable(source: table.source, path: table.path, begin: table.begin, entries: entries)
  }

  /// Diagnostics are sorted in the order in which files are announced.
  func announce(_ source: SourceText) { fileNumbers[source.name] = fileNumbers.count }

  // MARK: Reporting

  /// All diagnostics in the order of the files, their lines and columns.
  var diagnostics: [Diagnostic] {
    let ordered = found.enumerated().sorted { left, right in
      let (one, other) = (left.element, right.element)
      return (one.file, one.position, left.offset) < (other.file, other.position, right.offset)
    }
    var diagnostics = ordered.map(\.element.diagnostic)
    if diagnostics.count > Self.mostDiagnostics, let last = diagnostics.last {
      let text = "more than \(Self.mostDiagnostics) diagnostics; the others are left out"
      let file = SourceLocation(file: last.location.file, line: 0, column: 0)
      diagnostics[Self.mostDiagnostics...] = [Diagnostic(errorCount > 0 ? .error : .warning, at: file, text)]
    }
    return diagnostics
  }

  func report(
    _ severity: Diagnostic.Severity, _ source: SourceText, position: TOMLPosition, message: String
  ) {
    if severity == .error { errorCount += 1 }
    // One more than is shown, to know that there were more.
    guard found.count <= Self.mostDiagnostics else { return }
    let diagnostic = Diagnostic(
      severity, at: source.location(position), message, excerpt: source.excerpt(at: position))
    found.append((fileNumbers[source.name] ?? 0, position, diagnostic))
  }

  /// An error about a file that has no text to show.
  func error(file: String, _ message: String) {
    errorCount += 1
    let location = SourceLocation(file: file, line: 0, column: 0)
    found.append((0, TOMLPosition(line: 0, column: 0), Diagnostic(.error, at: location, message)))
  }

  /// An error about the value of a key.
  func error(_ setting: Setting, _ message: String) {
    report(.error, setting.source, position: setting.value.begin, message: "\(setting.title): \(message)")
  }

  func warning(_ setting: Setting, _ message: String) {
    report(.warning, setting.source, position: setting.value.begin, message: "\(setting.title): \(message)")
  }

  func note(_ setting: Setting, _ message: String) {
    report(.note, setting.source, position: setting.value.begin, message: "\(setting.title): \(message)")
  }

  // MARK: Names

  /// A key that no case of the reader handles.
  func unread(_ setting: Setting, of schema: TableSchema) {
    var message = "unknown key \(setting.title)"
    if setting.table.isEmpty, case .table = setting.value.content {
      message = "unknown table [\(setting.key)]"
    }
    if setting.table == "rule",
      let table = TableSchema.ofRule.first(where: { $0.schema.names.contains(setting.key) })
    {
      message += "; it stands in [rule.\(table.name)]: write '\(table.name).\(setting.key)'"
    } else {
      message += Suggestion.question(setting.key, among: schema.names)
    }
    report(.error, setting.source, position: setting.keyBegin, message: message)
  }

  // MARK: Types

  func expected(_ expectation: String, _ setting: Setting, advice: String? = nil) {
    let advice = advice.map { "; \($0)" } ?? ""
    error(setting, "expected \(expectation), found \(setting.value.typeName)\(advice)")
  }

  func string(_ setting: Setting) -> String? {
    if case .string(let text) = setting.value.content { return text }
    expected("a string", setting)
    return nil
  }

  func boolean(_ setting: Setting) -> Bool? {
    if case .boolean(let value) = setting.value.content { return value }
    expected("true or false", setting)
    return nil
  }

  func integer(_ setting: Setting, in range: ClosedRange<Int>) -> Int? {
    guard case .integer(let value) = setting.value.content else {
      expected("an integer from \(range.lowerBound) to \(range.upperBound)", setting)
      return nil
    }
    if let value = Int(exactly: value), range.contains(value) { return value }
    error(setting, "expected an integer from \(range.lowerBound) to \(range.upperBound), found \(value)")
    return nil
  }

  /// `text`: what is expected.
  func fraction(_ setting: Setting, in range: ClosedRange<Double>, _ text: String) -> Double? {
    let value: Double
    switch setting.value.content {
    case .float(let number): value = number
    case .integer(let number): value = Double(number)
    default:
      expected(text, setting)
      return nil
    }
    if range.contains(value) { return value }
    error(setting, "expected \(text), found \(value)")
    return nil
  }

  func array(_ setting: Setting, of elements: String) -> [Setting]? {
    if case .array(let values) = setting.value.content { return values.map(setting.element) }
    expected("an array of \(elements)", setting)
    return nil
  }

  /// The elements of a condition. Nothing could match an empty list.
  func elements(_ setting: Setting, of noun: String) -> [Setting] {
    guard let elements = array(setting, of: noun) else { return [] }
    if elements.isEmpty {
      error(setting, "an empty list matches nothing; leave the key out to match any")
    }
    return elements
  }

  /// The strings of an array, each with its location. Elements of another type are reported and left out.
  func strings(_ setting: Setting) -> [(text: String, setting: Setting)]? {
    array(setting, of: "strings")?.compactMap { element in string(element).map { ($0, element) } }
  }

  func table(_ setting: Setting, path: String? = nil) -> ConfigurationTable? {
    let name = path ?? (setting.table.isEmpty ? setting.key : "\(setting.table).\(setting.key)")
    guard case .table(let entries) = setting.value.content else {
      expected("a table", setting)
      return nil
    }
    return ConfigurationTable(
      source: setting.source, path: name, begin: setting.value.begin, entries: entries)
  }

  /// One of a few words.
  func choice<Choice: RawRepresentable & CaseIterable>(
    _ setting: Setting, _: Choice.Type
  ) -> Choice? where Choice.RawValue == String {
    guard let text = string(setting) else { return nil }
    if let choice = Choice(rawValue: text) { return choice }
    let words = Choice.allCases.map(\.rawValue)
    let question = Suggestion.question(text, among: words)
    error(setting, "expected \(words.alternativesInTOML), found \(text.quoted)\(question)")
    return nil
  }

  /// The tables of an array of tables: `[[rule]]`, `[[expect]]`.
  func tables(_ setting: Setting, of noun: String) -> [ConfigurationTable] {
    guard case .array(let values) = setting.value.content else {
      let isTable = setting.value.typeName == "a table"
      report(
        .error, setting.source, position: setting.keyBegin,
        message: isTable
          ? "expected [[\(setting.key)]], found [\(setting.key)]; \(noun) begins with two brackets"
          : "\(setting.title): expected an array of tables, found \(setting.value.typeName)")
      return []
    }
    return values.compactMap { table(setting.element($0), path: setting.key) }
  }

  /// Stores the value if it was read; leaves the default after an error.
  func set<Value>(_ field: inout Value, _ value: Value?) {
    if let value { field = value }
  }

  /// Warns of repeated elements in a list.
  func warnOfRepetition<Value: Hashable>(
    _ values: [(value: Value, setting: Setting)], _ name: (Value) -> String
  ) {
    var seen: Set<Value> = []
    for (value, setting) in values where !seen.insert(value).inserted {
      warning(setting, "\(name(value)) stands in the list twice")
    }
  }
}

// `parameters` of a request table: a tree of TOML values → `ParameterValue`, with the names of the secret ones.
//
// A table with the single key 'file', 'credential' or 'env' is a secret wherever a value is allowed. Values under a
// name that suggests a secret are secrets too. No value is ever quoted. The entries of a dictionary are sorted by code
// point once, here, so encoders can write them in order. Tests: ParameterReadingTests.

import Bytes
import Serialization

/// `parameters` of one table.
struct ParameterDraft {
  /// Sorted by key.
  var parameters: [GivenParameter] = []

  /// The effective parameters of a table with these and inherited ones: merged parameter by parameter.
  func inheriting(_ inherited: ParameterDraft) -> ParameterDraft {
    let own = Set(parameters.map(\.entry.key))
    let merged = parameters + inherited.parameters.filter { !own.contains($0.entry.key) }
    return ParameterDraft(parameters: merged.sorted { $0.entry.precedes($1.entry) })
  }

  var size: ParameterSize {
    parameters.reduce(into: ParameterSize()) {
      $0.values += $1.size.values
      $0.encodedBytes += $1.size.encodedBytes
    }
  }
}

/// One parameter with everything in it.
struct GivenParameter {
  let entry: ParameterEntry
  /// Form names of its secret values.
  let secretNames: Set<String>
  let size: ParameterSize
  /// The first location with a text that XML cannot contain.
  let unfitForXML: Setting?
}

/// The total size of a request's parameters.
struct ParameterSize {
  /// Most values of one request: PHP reads no more from a form (max_input_vars).
  static let mostValues = 1000
  /// Most bytes as a form, the longest notation except markup: twice the request line that common origins accept, and
  /// as much as one field of a rule may have.
  static let mostEncodedBytes = FieldSyntax.longestValue
  /// Deepest nesting of tables and arrays, including `parameters`: PHP reads no deeper (max_input_nesting_level).
  static let deepestNesting = 64

  var values = 0
  var encodedBytes = 0

  /// The limit that is exceeded; nil if none is.
  var excess: String? {
    if values > Self.mostValues { return "at most \(Self.mostValues) values" }
    if encodedBytes > Self.mostEncodedBytes { return "at most \(Self.mostEncodedBytes) bytes when written as a form" }
    return nil
  }

  /// Counts a value with its name, even an empty table or array.
  mutating func add(_ name: String, _ value: [UInt8]) {
    values += 1
    encodedBytes += Self.encodedCount(name.utf8) + Self.encodedCount(value) + "=&".utf8.count
  }

  /// Bytes of a text in percent-encoding.
  private static func encodedCount(_ bytes: some Sequence<UInt8>) -> Int {
    bytes.reduce(0) { $0 + ($1.isASCIILetter || $1.isASCIIDigit || "-._~/?".utf8.contains($1) ? 1 : 3) }
  }
}

/// Form names of values inside tables and arrays.
enum ParameterName {
  static func member(_ key: String, of table: String?) -> String { table.map { "\($0)[\(key)]" } ?? key }
  static func element(of array: String) -> String { array + "[]" }
}

extension ParameterEntry {
  /// The order of AFNetworking: by code point, which equals the order of UTF-8 bytes.
  func precedes(_ other: ParameterEntry) -> Bool { key.lexicographicallyPrecedes(other.key) }
}

extension ParameterDraft {
  static func read(_ setting: Setting, by reading: ConfigurationReading) -> ParameterDraft? {
    guard let table = reading.table(setting) else { return nil }
    var draft = ParameterDraft()
    var total = ParameterSize()
    for entry in table.settings {
      var walk = ParameterWalk(reading: reading, size: total)
      let value = walk.member(entry, of: nil, isSecret: false, depth: 1)
      if let excess = walk.size.excess {
        reading.error(setting, "expected \(excess)")
        return nil
      }
      let size = ParameterSize(
        values: walk.size.values - total.values, encodedBytes: walk.size.encodedBytes - total.encodedBytes)
      total = walk.size
      guard let value else { continue }
      draft.parameters.append(
        GivenParameter(
          entry: value, secretNames: walk.secretNames, size: size, unfitForXML: walk.unfitForXML))
    }
    draft.parameters.sort { $0.entry.precedes($1.entry) }
    return draft
  }
}

/// The walk through one parameter. It stops when the parameters become too many or too long.
private struct ParameterWalk {
  let reading: ConfigurationReading
  var size: ParameterSize
  private(set) var secretNames: Set<String> = []
  private(set) var unfitForXML: Setting? = nil

  init(reading: ConfigurationReading, size: ParameterSize) {
    self.reading = reading
    self.size = size
  }

  mutating func member(_ setting: Setting, of table: String?, isSecret: Bool, depth: Int) -> ParameterEntry? {
    if size.excess != nil { return nil }
    guard !setting.key.isEmpty else {
      let text = "[\(setting.table)]: expected a name, found ''; a form has no way to write a parameter without one"
      reading.report(.error, setting.source, position: setting.keyBegin, message: text)
      return nil
    }
    let key = Array(setting.key.utf8)
    noteUnfit(key, setting)
    let value = value(
      setting, ParameterName.member(setting.key, of: table),
      isSecret: isSecret || SecretWords.covers(setting.key), depth: depth)
    return value.map { ParameterEntry(key: key, value: $0) }
  }

  private mutating func value(_ setting: Setting, _ name: String, isSecret: Bool, depth: Int) -> ParameterValue? {
    if size.excess != nil { return nil }
    switch setting.value.content {
    case .table(let entries):
      if Self.isReference(entries) { return text(setting, name, isSecret: true) }
      return dictionary(setting, name, isSecret: isSecret, depth: depth + 1)
    case .array(let values):
      return array(values.map(setting.element), setting, name: name, isSecret: isSecret, depth: depth + 1)
    case .string: return text(setting, name, isSecret: isSecret)
    case .integer(let number): return scalar(.integer(number), text: "\(number)", name, isSecret: isSecret)
    case .boolean(let value): return scalar(.boolean(value), text: value ? "1" : "0", name, isSecret: isSecret)
    case .float(let number):
      if number.isFinite { return scalar(.real(number), text: "\(number)", name, isSecret: isSecret) }
      reading.error(setting, "expected a finite number, found \(number.isNaN ? "nan" : "inf")")
    case .dateTime:
      reading.expected("a string, a number, true, false, a table or an array", setting, advice: "write it in quotes")
    }
    return nil
  }

  /// Whether a table refers to a secret.
  private static func isReference(_ entries: [TOMLEntry]) -> Bool {
    entries.count == 1 && TableSchema.secret.names.contains(entries[0].key)
  }

  // MARK: Tables and arrays

  private mutating func dictionary(
    _ setting: Setting, _ name: String, isSecret: Bool, depth: Int
  ) -> ParameterValue? {
    guard isShallow(setting, depth), let table = reading.table(setting) else { return nil }
    if table.entries.isEmpty { size.add(name, []) }
    var entries: [ParameterEntry] = []
    for entry in table.settings {
      guard let member = member(entry, of: name, isSecret: isSecret, depth: depth) else { continue }
      entries.append(member)
    }
    return .dictionary(entries.sorted { $0.precedes($1) })
  }

  private mutating func array(
    _ elements: [Setting], _ setting: Setting, name: String, isSecret: Bool, depth: Int
  ) -> ParameterValue? {
    guard isShallow(setting, depth) else { return nil }
    if elements.isEmpty { size.add(name, []) }
    let elementName = ParameterName.element(of: name)
    var values: [ParameterValue] = []
    for element in elements {
      guard let value = value(element, elementName, isSecret: isSecret, depth: depth) else { continue }
      values.append(value)
    }
    return .array(values)
  }

  private func isShallow(_ setting: Setting, _ depth: Int) -> Bool {
    if depth <= ParameterSize.deepestNesting { return true }
    reading.error(setting, "expected at most \(ParameterSize.deepestNesting) tables and arrays inside one another")
    return false
  }

  // MARK: Texts and numbers

  private mutating func scalar(
    _ value: ParameterValue, text: String, _ name: String, isSecret: Bool
  ) -> ParameterValue {
    size.add(name, Array(text.utf8))
    if isSecret { secretNames.insert(name) }
    return value
  }

  private mutating func text(_ setting: Setting, _ name: String, isSecret: Bool) -> ParameterValue? {
    guard let given = reading.stringOrSecret(setting, mayBeSecret: isSecret) else { return nil }
    guard String(validating: given.bytes, as: UTF8.self) != nil else {
      reading.error(setting, "the secret is no UTF-8, which a parameter must be")
      return nil
    }
    size.add(name, given.bytes)
    if given.isSecret { secretNames.insert(name) }
    noteUnfit(given.bytes, setting)
    return .string(given.bytes)
  }

  private mutating func noteUnfit(_ text: [UInt8], _ setting: Setting) {
    if unfitForXML == nil, !Self.fitsXML(text) { unfitForXML = setting }
  }

  /// Whether each character is allowed in XML 1.0, 2.2. `text` is UTF-8.
  private static func fitsXML(_ text: [UInt8]) -> Bool {
    for (index, byte) in text.enumerated() {
      if byte < 0x20, byte != 0x09, byte != 0x0a, byte != 0x0d { return false }
      // U+FFFE and U+FFFF.
      if byte == 0xef, text[index + 1] == 0xbf, text[index + 2] >= 0xbe { return false }
    }
    return true
  }
}

// Trees of parameters as rows of tables write them, `["a": 1, "b": ["x", true]]`, and as failures show them.

import Serialization
import TestSupport

extension ParameterValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral,
  ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  public init(stringLiteral value: String) { self = .string(Array(value.utf8)) }
  public init(integerLiteral value: Int64) { self = .integer(value) }
  public init(floatLiteral value: Double) { self = .real(value) }
  public init(booleanLiteral value: Bool) { self = .boolean(value) }
  public init(arrayLiteral elements: ParameterValue...) { self = .array(elements) }
  public init(dictionaryLiteral elements: (String, ParameterValue)...) {
    self = .dictionary(elements.map { ParameterEntry(key: Array($0.utf8), value: $1) })
  }
}

extension ParameterValue: CustomStringConvertible {
  /// The entries of a dictionary, for a root that a literal writes.
  var entries: [ParameterEntry] {
    guard case .dictionary(let entries) = self else { fatalError("no dictionary") }
    return entries
  }

  public var description: String {
    switch self {
    case .string(let text): "\"\(shown(text))\""
    case .integer(let number): "\(number)"
    case .real(let number): "\(number)"
    case .boolean(let truth): "\(truth)"
    case .array(let elements): "[\(elements.map(\.description).joined(separator: ", "))]"
    case .dictionary(let entries):
      "{\(entries.map { "\"\(shown($0.key))\": \($0.value)" }.joined(separator: ", "))}"
    }
  }

  /// The same tree with the keys of each dictionary in order.
  var sorted: ParameterValue {
    switch self {
    case .array(let elements): .array(elements.map(\.sorted))
    case .dictionary(let entries):
      .dictionary(
        entries.map { ParameterEntry(key: $0.key, value: $0.value.sorted) }
          .sorted { $0.key.lexicographicallyPrecedes($1.key) })
    default: self
    }
  }
}

/// Random trees of strings without empty containers: what a form can hold.
struct TreeGenerator {
  var generator: SeededGenerator
  /// What an array may hold beside strings.
  enum Elements { case strings, anything }
  let elements: Elements

  private static let texts: [String] = [
    "", "a", "b", "key", "Z", "0", "-._~/?", " ", "+", "%", "&", "=", "a=b&c", "%41", "\u{0}", "\r\n", "é", "e\u{301}",
    "ß", "日本", "\u{ff5e}", "😀", "👩‍👩‍👧", "\u{feff}", "\u{10ffff}", "#", "\"'<>;",
  ]

  init(seed: UInt64, elements: Elements) {
    generator = SeededGenerator(seed: seed)
    self.elements = elements
  }

  mutating func root() -> ParameterValue { dictionary(depth: 0) }

  private mutating func text() -> [UInt8] {
    Array((Self.texts.randomElement(using: &generator) ?? "").utf8)
  }

  private mutating func dictionary(depth: Int) -> ParameterValue {
    var entries: [ParameterEntry] = []
    for _ in 0..<Int.random(in: 1...4, using: &generator) {
      let value = value(depth: depth + 1)
      // Brackets need something before and, of a dictionary, between them.
      var key = text()
      if case .string = value, depth == 0 {} else { key.append(0x6b) }
      if entries.contains(where: { $0.key == key }) { continue }
      entries.append(ParameterEntry(key: key, value: value))
    }
    return .dictionary(entries)
  }

  private mutating func value(depth: Int) -> ParameterValue {
    switch Int.random(in: 0..<(depth > 5 ? 3 : 6), using: &generator) {
    case 0...2: return .string(text())
    case 3: return dictionary(depth: depth)
    default:
      let count = Int.random(in: 1...4, using: &generator)
      return .array((0..<count).map { _ in elements == .strings ? .string(text()) : value(depth: depth + 1) })
    }
  }
}

/// The pairs of an encoded form in order, so that two forms can be compared that differ in nothing else.
func sortedPairs(_ form: [UInt8]) -> [[UInt8]] {
  form.split(separator: 0x26).map { Array($0) }.sorted { $0.lexicographicallyPrecedes($1) }
}

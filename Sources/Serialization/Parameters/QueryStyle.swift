// How a tree of parameters becomes pairs of names and values, in queries, forms and the parts of multipart bodies.
//
// AFNetworking has one style, which is the default here; servers expect others. The names of pairs are plain texts with
// brackets, which the writer escapes. Tests: QueryStyleTests, QueryEncodingTests; fuzzed by Queries.

/// `query_style`: how arrays, booleans and spaces are written. The default is AFNetworking's.
public struct QueryStyle: Sendable, Equatable {
  /// The elements of an array `a`.
  public enum Arrays: String, Sendable, CaseIterable {
    /// `a[]=1&a[]=2`, as AFNetworking writes an NSArray.
    case brackets
    /// `a=1&a=2`, as AFNetworking writes an NSSet.
    case `repeat`
    /// `a[0]=1&a[1]=2`
    case indices
    /// `a=1,2`. A comma within an element is percent-encoded. Tables and arrays within an array cannot be written.
    case comma
  }

  public enum Booleans: String, Sendable, CaseIterable {
    case digits = "1/0"
    case words = "true/false"
  }

  public enum Space: String, Sendable, CaseIterable {
    case percent = "%20"
    case plus = "+"
  }

  public let arrays: Arrays
  public let booleans: Booleans
  public let space: Space

  public init(arrays: Arrays = .brackets, booleans: Booleans = .digits, space: Space = .percent) {
    self.arrays = arrays
    self.booleans = booleans
    self.space = space
  }

  /// The name of an element of the array `array`.
  public func elementName(_ array: String, at index: Int) -> String {
    switch arrays {
    case .brackets: array + "[]"
    case .indices: "\(array)[\(index)]"
    case .repeat, .comma: array
    }
  }

  /// The pairs of a tree: dictionaries as `a[b]` with keys sorted by code point, arrays in order. Empty containers are
  /// left out. This recurses as deep as the tree, whose reader has limited its depth.
  func pairs(_ parameters: [ParameterEntry]) -> [QueryPair] {
    var list = PairList(style: self)
    list.add(parameters, of: nil)
    return list.pairs
  }
}

/// A pair of a query or form, not escaped, in UTF-8 or another encoding.
struct QueryPair: Equatable {
  /// Including brackets.
  let name: [UInt8]
  /// Several values, or one that belongs to an array. They are written with commas between them.
  let values: [[UInt8]]

  /// The same in this encoding; nil if the encoding lacks one of its characters.
  func encoded(_ encoding: TextEncoding) -> QueryPair? {
    guard let name = try? encoding.encode(name).get() else { return nil }
    let values = values.compactMap { try? encoding.encode($0).get() }
    return values.count == self.values.count ? QueryPair(name: name, values: values) : nil
  }
}

private struct PairList {
  let style: QueryStyle
  private(set) var pairs: [QueryPair] = []

  init(style: QueryStyle) { self.style = style }

  /// The keys of the root are bare, those of a table are between brackets.
  mutating func add(_ entries: [ParameterEntry], of table: [UInt8]?) {
    // UTF-8 bytes sort in the order of code points.
    for entry in entries.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      add(entry.value, table.map { $0 + "[".utf8 + entry.key + "]".utf8 } ?? entry.key)
    }
  }

  private mutating func add(_ value: ParameterValue, _ name: [UInt8]) {
    switch value {
    case .dictionary(let entries): add(entries, of: name)
    case .array(let elements): add(elements, name)
    case .string, .integer, .real, .boolean: pairs.append(QueryPair(name: name, values: [text(value)]))
    }
  }

  private mutating func add(_ elements: [ParameterValue], _ name: [UInt8]) {
    switch style.arrays {
    case .brackets: for element in elements { add(element, name + "[]".utf8) }
    case .indices: for (index, element) in elements.enumerated() { add(element, name + "[\(index)]".utf8) }
    case .repeat: for element in elements { add(element, name) }
    case .comma:
      // The configuration reader rejects containers here. If a form has some, nothing may be lost.
      if elements.contains(where: \.isContainer) { return elements.forEach { add($0, name) } }
      if !elements.isEmpty { pairs.append(QueryPair(name: name, values: elements.map(text))) }
    }
  }

  /// The text of a value that is not a container.
  private func text(_ value: ParameterValue) -> [UInt8] {
    switch value {
    case .string(let text): text
    case .integer(let number): Array(String(number).utf8)
    case .real(let number): decimal(number)
    case .boolean(let truth):
      switch style.booleans {
      case .digits: [truth ? UInt8(ascii: "1") : UInt8(ascii: "0")]
      case .words: Array((truth ? "true" : "false").utf8)
      }
    case .array, .dictionary: preconditionFailure("a container has no text")
    }
  }

  /// The shortest decimal that reads back as the same number, as in `description`. A whole number loses its `.0`.
  private func decimal(_ number: Double) -> [UInt8] {
    let text = number.description
    return Array((text.hasSuffix(".0") ? text.dropLast(2) : text[...]).utf8)
  }
}

extension ParameterValue {
  /// Whether it is an array or a dictionary.
  public var isContainer: Bool {
    switch self {
    case .array, .dictionary: true
    case .string, .integer, .real, .boolean: false
    }
  }
}

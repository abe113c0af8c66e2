// How a tree of parameters becomes pairs of names and values: in queries, forms and the parts of multipart bodies.
//
// AFNetworking has one style, which is the default here; servers read others. The names of pairs are texts with their
// brackets in place: whoever writes them escapes them. Tests: QueryStyleTests, QueryEncodingTests; fuzzed by Queries.

/// `query_style`: how arrays, booleans and spaces are written. The default is AFNetworking's.
public struct QueryStyle: Sendable, Equatable {
  /// The elements of an array `a`.
  public enum Arrays: String, Sendable, CaseIterable {
    /// `a[]=1&a[]=2`, AFNetworking's for an NSArray.
    case brackets
    /// `a=1&a=2`, AFNetworking's for an NSSet.
    case `repeat`
    /// `a[0]=1&a[1]=2`
    case indices
    /// `a=1,2`. A comma within an element is percent-encoded. It has no way to write a table or an array in an array.
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

  /// The pairs of a tree: dictionaries as `a[b]` with their keys sorted by code point, arrays in order. Containers that
  /// are empty leave no trace. Goes as deep as the tree, whose depth its reader has bounded.
  func pairs(_ parameters: [ParameterEntry]) -> [QueryPair] {
    var list = PairList(style: self)
    list.add(parameters, of: nil)
    return list.pairs
  }
}

/// A pair of a query or form, not escaped, in UTF-8 or another encoding.
struct QueryPair: Equatable {
  /// Brackets and all.
  let name: [UInt8]
  /// More than one, or one that is an array's: to be written with commas between.
  let values: [[UInt8]]

  /// The same in this encoding; nil where it does not have a character of it.
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

  /// The keys of the root stand bare, those of a table between brackets.
  mutating func add(_ entries: [ParameterEntry], of table: [UInt8]?) {
    // The bytes of UTF-8 sort as the code points do.
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
      // The reader of the configuration refuses containers here. Of a form that holds some nothing may get lost.
      if elements.contains(where: \.isContainer) { return elements.forEach { add($0, name) } }
      if !elements.isEmpty { pairs.append(QueryPair(name: name, values: elements.map(text))) }
    }
  }

  /// What a value that is no container is written as.
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

  /// The shortest decimal that reads back, as `description` has it; of a whole number without its `.0`.
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

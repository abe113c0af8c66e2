// Converts names in bracket syntax and their values to a tree of parameters. It is the inverse of AFNetworking's
// encoding, for forms and multipart bodies alike.
//
// `a[b]` is key `b` of dictionary `a`, and `a[]` is the next element of array `a`. If something follows `[]`, the
// syntax does not say whether a pair belongs to the last element or to a new one. It is read into the last element as
// long as that has no value at this place, as Rack reads it. This joins the keys of a dictionary that AFNetworking
// wrote separately. So an array in an array receives everything that follows, and what does not fit begins a new
// element. A name without brackets at its end that occurs again makes an array of its values. AFNetworking writes a set
// like this, and browsers the choices in a list. If arrays are written with indices, a dictionary whose keys are the
// numbers from 0 on, without a gap, is an array. Nothing is ever left out: what does not fit is a fault.
//
// Nodes are in one array, linked by index, and keys are in one dictionary. So the cost of a name is its length, and the
// cost of a tree is its contents. Tests: FormDecodingTests; fuzzed by Queries and Transcoding.

import Bytes

struct BracketTree {
  /// The most nested containers below the root. PHP allows as many, Rack half. The tree is read by recursive functions
  /// and stays far below `json_depth` as JSON.
  static let maximumNesting = 64
  /// The most values and containers, including the root. This is sixteen times the default of PHP and Django for
  /// fields, and takes about 5 MB of memory at most, besides the keys and values themselves.
  static let maximumNodes = 16_384

  /// Why a pair does not fit into the tree. `index` is a position in the name.
  struct Fault: Equatable {
    let reason: String
    let index: Int
  }

  private enum Kind: String {
    case value = "a plain value"
    /// Values of a name that occurred several times without brackets at its end.
    case values = "several plain values"
    case array = "an array"
    case dictionary = "a dictionary"
  }

  private struct Node {
    var kind: Kind
    var key: [UInt8]
    var value: [UInt8]
    var firstChild: Int?
    var lastChild: Int?
    var nextSibling: Int?
  }

  private struct Edge: Hashable {
    let parent: Int
    let key: [UInt8]
  }

  private static let root = 0
  private var nodes = [Node(kind: .dictionary, key: [], value: [])]
  private var edges: [Edge: Int] = [:]
  private let maximumNodes: Int
  /// Segments that pairs have passed through; tests compare it with the names.
  private(set) var steps = 0

  /// The part of the current name before the first bracket, and the parts between each pair of brackets.
  private var segments: [Range<Int>] = []

  /// How the input writes arrays.
  let arrays: QueryStyle.Arrays

  init(arrays: QueryStyle.Arrays = .brackets, maximumNodes: Int = Self.maximumNodes) {
    self.arrays = arrays
    self.maximumNodes = maximumNodes
  }

  /// The tree. Values are strings.
  var entries: [ParameterEntry] { entries(of: Self.root) }

  /// Inserts a value at the place that its name gives.
  mutating func insert(_ name: [UInt8], _ value: [UInt8]) -> Fault? {
    if let fault = split(name) { return fault }
    var node = Self.root
    /// The innermost array whose last element the pair is being read into.
    var array: (node: Int, depth: Int)?
    for depth in segments.indices {
      steps += 1
      let wanted = kind(below: depth)
      guard let child = child(of: node, at: depth, name) else {
        return append(name, value, from: depth, to: node)
      }
      if nodes[child].kind == wanted, wanted != .value {
        if isElement(depth) { array = (node, depth) }
        node = child
      } else if let array {
        return append(name, value, from: array.depth, to: array.node)
      } else {
        return repeated(name, value, at: depth, of: child)
      }
    }
    // The last segment leads to a value, and all cases of that return above.
    return nil
  }

  // MARK: Names

  /// Splits a name. Brackets come in pairs after a name, with nothing between or after the pairs.
  private mutating func split(_ name: [UInt8]) -> Fault? {
    let open = UInt8(ascii: "[")
    let close = UInt8(ascii: "]")
    var at = name.firstIndex { $0 == open || $0 == close } ?? name.count
    if at < name.count, name[at] == close { return Fault(reason: "expected '[' before ']'", index: at) }
    if at == 0, !name.isEmpty { return Fault(reason: "expected a name before '['", index: 0) }
    segments.removeAll(keepingCapacity: true)
    segments.append(0..<at)
    while at < name.count {
      guard name[at] == open else {
        let seen = Seen.byte(name[at])
        return Fault(reason: "expected '[' or the end of the name behind ']', found \(seen)", index: at)
      }
      let begin = at + 1
      at = name[begin...].firstIndex { $0 == open || $0 == close } ?? name.count
      guard at < name.count, name[at] == close else {
        let seen = Seen.byte(name.span, at: at, orEnd: "the end of the name")
        return Fault(reason: "expected ']' to close '[', found \(seen)", index: at)
      }
      if segments.count > Self.maximumNesting { return tooDeep(at: begin - 1) }
      segments.append(begin..<at)
      at += 1
    }
    return nil
  }

  /// Empty brackets. At the root, an empty name is a key.
  private func isElement(_ depth: Int) -> Bool { depth > 0 && segments[depth].isEmpty }

  /// The kind of node that the segment at `depth` leads to.
  private func kind(below depth: Int) -> Kind {
    if depth + 1 == segments.count { return .value }
    return isElement(depth + 1) ? .array : .dictionary
  }

  // MARK: Nodes

  /// The node that the segment at `depth` leads to, if it exists.
  private func child(of node: Int, at depth: Int, _ name: [UInt8]) -> Int? {
    if !isElement(depth) { return edges[Edge(parent: node, key: Array(name[segments[depth]]))] }
    // An element of another kind than the pair needs is complete. A plain value always is.
    guard let last = nodes[node].lastChild, kind(below: depth) != .value else { return nil }
    return nodes[last].kind == kind(below: depth) ? last : nil
  }

  /// Appends nodes for the segments from `depth` on.
  private mutating func append(_ name: [UInt8], _ value: [UInt8], from depth: Int, to parent: Int) -> Fault? {
    var parent = parent
    for depth in depth..<segments.count {
      let kind = kind(below: depth)
      let key = Array(name[segments[depth]])
      guard let child = append(kind, key: key, value: kind == .value ? value : [], to: parent) else { return tooMany }
      if !isElement(depth) { edges[Edge(parent: parent, key: key)] = child }
      parent = child
    }
    return nil
  }

  /// Appends a node after the children of `parent`; nil if the limit is reached.
  private mutating func append(_ kind: Kind, key: [UInt8] = [], value: [UInt8], to parent: Int) -> Int? {
    let child = nodes.count
    if child == maximumNodes { return nil }
    nodes.append(Node(kind: kind, key: key, value: value))
    if let last = nodes[parent].lastChild { nodes[last].nextSibling = child } else { nodes[parent].firstChild = child }
    nodes[parent].lastChild = child
    return child
  }

  /// Handles a name that occurred before, with another kind or another value.
  private mutating func repeated(_ name: [UInt8], _ value: [UInt8], at depth: Int, of node: Int) -> Fault? {
    let wanted = kind(below: depth)
    guard wanted == .value, nodes[node].kind == .value || nodes[node].kind == .values else {
      let end = segments[depth].upperBound + (depth > 0 ? 1 : 0)
      let path = Seen.text(name.span.extracting(0..<end))
      let held = nodes[node].kind.rawValue
      return Fault(reason: "expected \(path) to be \(held) as before, found \(wanted.rawValue)", index: end)
    }
    if nodes[node].kind == .value {
      if segments.count > Self.maximumNesting { return tooDeep(at: name.count) }
      let first = nodes[node].value
      nodes[node].kind = .values
      nodes[node].value = []
      if append(.value, value: first, to: node) == nil { return tooMany }
    }
    return append(.value, value: value, to: node) == nil ? tooMany : nil
  }

  private var tooMany: Fault {
    Fault(reason: "expected at most \(maximumNodes) values and containers, found more", index: 0)
  }

  private func tooDeep(at index: Int) -> Fault {
    Fault(reason: "expected at most \(Self.maximumNesting) containers within one another, found more", index: index)
  }

  // MARK: Reading the tree

  private func entries(of node: Int) -> [ParameterEntry] {
    var entries: [ParameterEntry] = []
    forEachChild(of: node) { entries.append(ParameterEntry(key: nodes[$0].key, value: value(of: $0))) }
    return entries
  }

  private func value(of node: Int) -> ParameterValue {
    switch nodes[node].kind {
    case .value: return .string(nodes[node].value)
    case .dictionary:
      let entries = entries(of: node)
      return (arrays == .indices ? elements(of: entries).map(ParameterValue.array) : nil) ?? .dictionary(entries)
    case .array, .values:
      var elements: [ParameterValue] = []
      forEachChild(of: node) { elements.append(value(of: $0)) }
      return .array(elements)
    }
  }

  /// The elements of an array whose keys are its indices, in any order; nil if a key is not an index, or an index is
  /// missing.
  private func elements(of entries: [ParameterEntry]) -> [ParameterValue]? {
    var elements = [ParameterValue?](repeating: nil, count: entries.count)
    for entry in entries {
      let text = String(decoding: entry.key, as: UTF8.self)
      // No key occurs twice, and an index has only one spelling.
      guard let index = Int(text), String(index) == text, elements.indices.contains(index) else { return nil }
      elements[index] = entry.value
    }
    return elements.compactMap(\.self)
  }

  private func forEachChild(of node: Int, _ body: (Int) -> Void) {
    var next = nodes[node].firstChild
    while let child = next {
      body(child)
      next = nodes[child].nextSibling
    }
  }
}

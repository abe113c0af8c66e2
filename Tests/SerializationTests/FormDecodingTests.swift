// Forms: the trees that names in brackets stand for, everything that is refused, and what hostile ones cost.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct FormDecodingTests {
  static let accepted: [(sentence: String, body: String, tree: ParameterValue)] = [
    ("nothing", "", [:]),
    ("a pair", "a=1", ["a": "1"]),
    ("pairs in the order they came in", "b=1&a=2", ["b": "1", "a": "2"]),
    ("a pair without an equals sign", "a", ["a": ""]),
    ("a pair without a value", "a=", ["a": ""]),
    ("a pair without a name", "=1", ["": "1"]),
    ("an equals sign alone", "=", ["": ""]),
    ("an equals sign in a value", "a=b=c", ["a": "b=c"]),
    ("empty pairs are passed over", "&&a=1&&b=2&", ["a": "1", "b": "2"]),
    ("empty pairs alone", "&&&", [:]),
    ("plus signs are spaces", "a+b=+c+", ["a b": " c "]),
    ("an encoded plus sign is one", "a=%2B", ["a": "+"]),
    ("digits in either case", "a=%c3%A9%2f", ["a": "é/"]),
    ("encoded separators are text", "a%26b%3D=%26%3d", ["a&b=": "&="]),
    ("UTF-8 as it is", "\u{c3}\u{a9}=\u{f0}\u{9f}\u{98}\u{80}", ["é": "😀"]),
    ("a NUL and line ends", "a=%00%0d%0A\n", ["a": "\u{0}\r\n\n"]),
    ("a semicolon separates nothing", "a=1;b=2", ["a": "1;b=2"]),
    ("a dictionary", "a[b]=1", ["a": ["b": "1"]]),
    ("encoded brackets", "a%5Bb%5D=1&a%5bc%5d=2", ["a": ["b": "1", "c": "2"]]),
    ("dictionaries within", "a[b][c]=1&a[b][d]=2&a[e]=3", ["a": ["b": ["c": "1", "d": "2"], "e": "3"]]),
    ("keys that come apart", "a[b]=1&c=2&a[d]=3", ["a": ["b": "1", "d": "3"], "c": "2"]),
    ("brackets in a value", "a=[b]", ["a": "[b]"]),
    ("numbers are keys", "a[0]=1&a[1]=2", ["a": ["0": "1", "1": "2"]]),
    ("spaces in a key", "a[b+c]=1", ["a": ["b c": "1"]]),
    ("an array", "a[]=1&a[]=2", ["a": ["1", "2"]]),
    ("an array of one", "a[]=1", ["a": ["1"]]),
    ("an array of an empty value", "a[]", ["a": [""]]),
    ("an array in a dictionary", "a[b][]=1&a[b][]=2", ["a": ["b": ["1", "2"]]]),
    ("a dictionary in an array", "a[][b]=1&a[][c]=2", ["a": [["b": "1", "c": "2"]]]),
    (
      "a key that comes again begins another element", "a[][b]=1&a[][c]=2&a[][b]=3",
      ["a": [["b": "1", "c": "2"], ["b": "3"]]]
    ),
    ("an array of an array takes all", "a[][]=1&a[][]=2", ["a": [["1", "2"]]]),
    ("a plain element ends one that is none", "a[][]=1&a[]=x&a[][]=2", ["a": [["1"], "x", ["2"]]]),
    ("elements of all kinds", "a[]=1&a[][b]=2&a[]=3&a[][]=4", ["a": ["1", ["b": "2"], "3", ["4"]]]),
    ("an array in an element takes all", "a[][b][]=1&a[][b][]=2", ["a": [["b": ["1", "2"]]]]),
    (
      "the innermost array begins the new element", "a[][b][][c]=1&a[][b][][c]=2",
      ["a": [["b": [["c": "1"], ["c": "2"]]]]]
    ),
    (
      "the outer array begins one where the inner holds no conflict", "a[][x]=1&a[][b][][c]=2&a[][x]=3&a[][b][][c]=4",
      ["a": [["x": "1", "b": [["c": "2"]]], ["x": "3", "b": [["c": "4"]]]]]
    ),
    (
      "a key of another kind begins a new element", "a[][b]=1&a[][b][c]=2&a[][b][]=3",
      ["a": [["b": "1"], ["b": ["c": "2"]], ["b": ["3"]]]]
    ),
    (
      "a key of another kind further in", "a[][b][c]=1&a[][b][c][d]=2",
      ["a": [["b": ["c": "1"]], ["b": ["c": ["d": "2"]]]]]
    ),
    ("a name that comes again makes an array", "a=1&a=2&a=3", ["a": ["1", "2", "3"]]),
    ("a name that comes again, apart", "a=1&b=x&a=2", ["a": ["1", "2"], "b": "x"]),
    ("a key within that comes again", "a[b]=1&a[b]=1", ["a": ["b": ["1", "1"]]]),
    ("names that differ in case differ", "a=1&A=2", ["a": "1", "A": "2"]),
    ("names that only look alike differ", "%C3%A9=1&e%CC%81=2", ["\u{e9}": "1", "e\u{301}": "2"]),
    ("the empty name comes again", "=1&=2", ["": ["1", "2"]]),
  ]

  static let refused: [(sentence: String, body: String, offset: Int, reason: String)] = [
    ("a percent sign alone", "a=%", 2, "expected two hexadecimal digits behind '%', found '%'"),
    ("one digit", "b&a=%4", 4, "expected two hexadecimal digits behind '%', found '%4'"),
    ("a digit in the next pair", "a=%4&1=2", 2, "expected two hexadecimal digits behind '%', found '%4'"),
    ("a digit behind the equals sign", "a%4=1", 1, "expected two hexadecimal digits behind '%', found '%4'"),
    ("no digits", "a=x%zz", 3, "expected two hexadecimal digits behind '%', found '%zz'"),
    ("a sign", "a=%+1", 2, "expected two hexadecimal digits behind '%', found '%+1'"),
    ("a byte alone that needs another", "a=%C3", 2, "expected UTF-8, found byte 0xc3"),
    ("a continuation alone", "a=b%80", 3, "expected UTF-8, found byte 0x80"),
    ("Latin-1 as it is", "a=1&b=\u{e9}", 6, "expected UTF-8, found byte 0xe9"),
    ("an overlong form", "a=%41%c0%af", 5, "expected UTF-8, found byte 0xc0"),
    ("a surrogate", "%ed%a0%80=1", 0, "expected UTF-8, found byte 0xed"),
    ("beyond Unicode", "a=%f4%90%80%80", 2, "expected UTF-8, found byte 0xf4"),
    ("a character cut by a separator", "a=%f0%9f&%98%80", 2, "expected UTF-8, found byte 0xf0"),
    ("an open bracket", "a[b=1", 3, "expected ']' to close '[', found the end of the name"),
    ("an open bracket and nothing", "x=1&a[", 6, "expected ']' to close '[', found the end of the name"),
    ("a closing bracket alone", "a]b=1", 1, "expected '[' before ']'"),
    ("a closing bracket first", "]=1", 0, "expected '[' before ']'"),
    ("brackets without a name", "[a]=1", 0, "expected a name before '['"),
    ("empty brackets without a name", "[]=1", 0, "expected a name before '['"),
    ("brackets in brackets", "a[b[c]]=1", 3, "expected ']' to close '[', found '['"),
    ("one bracket too many", "a[b]]=1", 4, "expected '[' or the end of the name behind ']', found ']'"),
    ("something behind brackets", "a[b]c=1", 4, "expected '[' or the end of the name behind ']', found 'c'"),
    ("something between brackets", "a[b].[c]=1", 4, "expected '[' or the end of the name behind ']', found '.'"),
    (
      "something behind encoded brackets", "a%5Bb%5D%C3%A9=1", 8,
      "expected '[' or the end of the name behind ']', found byte 0xc3"
    ),
    ("a value, then a dictionary", "a=1&a[b]=1", 5, "expected 'a' to be a plain value as before, found a dictionary"),
    ("a dictionary, then a value", "a[b]=1&a=1", 8, "expected 'a' to be a dictionary as before, found a plain value"),
    ("an array, then a dictionary", "a[]=1&a[b]=1", 7, "expected 'a' to be an array as before, found a dictionary"),
    ("a dictionary, then an array", "a[b]=1&a[]=1", 8, "expected 'a' to be a dictionary as before, found an array"),
    ("an array, then a value", "a[]=1&a=1", 7, "expected 'a' to be an array as before, found a plain value"),
    ("values, then an array", "a=1&a=2&a[]=3", 9, "expected 'a' to be several plain values as before, found an array"),
    (
      "a value, then a dictionary, further in", "x[a][b]=1&x[a][b][c]=2", 17,
      "expected 'x[a][b]' to be a plain value as before, found a dictionary"
    ),
    (
      "a long name is cut", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1&aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa[]=1", 63,
      "expected 'aaaaaaaaaaaaaaaaaaaaaaaa…' to be a plain value as before, found an array"
    ),
  ]

  @Test func formsBecomeTrees() throws {
    let memory = GuardedMemory(capacity: 4096)
    for row in Self.accepted {
      switch memory.lend(octets(row.body), { FormDecoding.decode($0) }) {
      case .failure(let fault): Issue.record("\(row.sentence): \(fault.sentence)")
      case .success(let entries):
        let tree = ParameterValue.dictionary(entries)
        #expect(tree == row.tree, "\(row.sentence): \(tree)")
      }
    }
  }

  @Test func whatIsNoFormIsRefused() {
    let memory = GuardedMemory(capacity: 4096)
    for row in Self.refused {
      let outcome = memory.lend(octets(row.body)) { FormDecoding.decode($0) }
      #expect(outcome == .failure(ContentFault(row.reason, offset: row.offset)), "\(row.sentence)")
    }
  }

  /// A form that is cut is a form or a fault within it; nothing is read behind its end.
  @Test func cutFormsAreReadToTheirEnd() throws {
    let memory = GuardedMemory(capacity: 4096)
    for body in Self.accepted.map({ octets($0.body) }) + Self.refused.map({ octets($0.body) }) {
      for count in 0...body.count {
        let cut = Array(body.prefix(count))
        switch memory.lend(cut, { FormDecoding.decode($0) }) {
        case .failure(let fault): #expect(fault.offset <= count, "\(shown(cut))")
        case .success(let entries):
          let pairs = cut.split(separator: 0x26).count
          #expect(QueryEncoding.encode(entries).split(separator: 0x26).count == pairs, "\(shown(cut))")
        }
      }
    }
  }

  // MARK: Limits

  static func nested(_ brackets: Int, _ inside: String = "b") -> String {
    "a" + String(repeating: "[\(inside)]", count: brackets) + "=1"
  }

  @Test func containersNestAsDeepAsTheyMayAndNoDeeper() throws {
    let deepest = BracketTree.maximumNesting
    for inside in ["", "b"] {
      let body = octets(Self.nested(deepest, inside))
      var value = ParameterValue.dictionary(try FormDecoding.decode(body).get())
      var depth = 0
      while true {
        if case .dictionary(let entries) = value {
          value = entries[0].value
        } else if case .array(let elements) = value {
          value = elements[0]
        } else {
          break
        }
        depth += 1
      }
      #expect(depth == deepest + 1)
      let deeper = octets(Self.nested(deepest + 1, inside))
      let place = 1 + deepest * (2 + inside.utf8.count)
      #expect(FormDecoding.decode(deeper) == .failure(Self.tooDeep(at: place)))
    }
    // The array that a name makes which comes again is a container, too.
    let last = Self.nested(deepest)
    let body = octets(last + "&" + last)
    #expect(FormDecoding.decode(body) == .failure(Self.tooDeep(at: body.count - 2)))
    let fits = Self.nested(deepest - 1)
    #expect((try? FormDecoding.decode(octets(fits + "&" + fits)).get()) != nil)
  }

  static func tooDeep(at offset: Int) -> ContentFault {
    ContentFault(
      "expected at most \(BracketTree.maximumNesting) containers within one another, found more", offset: offset)
  }

  @Test func aTreeHoldsAsManyNodesAsItMayAndNoMore() throws {
    let most = BracketTree.maximumNodes
    func pairs(_ count: Int) -> [UInt8] { octets((0..<count).map { "k\($0)" }.joined(separator: "&")) }
    #expect(try FormDecoding.decode(pairs(most - 1)).get().count == most - 1)
    let body = pairs(most)
    let offset = body.count - "k\(most - 1)".utf8.count
    let fault = ContentFault("expected at most \(most) values and containers, found more", offset: offset)
    #expect(FormDecoding.decode(body) == .failure(fault))
    // Containers count, and the array that a name makes which comes again.
    let deep = octets((0..<most / 32).map { "k\($0)" + String(repeating: "[a]", count: 31) }.joined(separator: "&"))
    #expect((try? FormDecoding.decode(deep).get()) == nil)
    var small = BracketTree(maximumNodes: 4)
    #expect(FormDecoding.decode(octets("a=1&a=2"), into: &small) == nil)
    #expect(FormDecoding.decode(octets("a=3"), into: &small) != nil)
    var smaller = BracketTree(maximumNodes: 3)
    #expect(FormDecoding.decode(octets("a=1&a=2"), into: &smaller) != nil)
  }

  @Test func hostileFormsAreRefusedAtOnce() {
    let million = 1_000_000
    let hostile: [(body: [UInt8], offset: Int)] = [
      ([0x61] + [UInt8](repeating: 0x5b, count: million), 2),
      ([UInt8](repeating: 0x5b, count: million), 0),
      ([UInt8](repeating: 0x5d, count: million), 0),
      ([UInt8](repeating: 0x25, count: million), 0),
      (octets("a" + String(repeating: "[]", count: million)), 129),
      (octets("a" + String(repeating: "%5B%5D", count: million)), 385),
    ]
    for (body, offset) in hostile {
      guard case .failure(let fault) = FormDecoding.decode(body) else {
        Issue.record("\(shown(body, atMost: 40)) is no form")
        continue
      }
      #expect(fault.offset == offset, "\(shown(body, atMost: 40))")
      #expect(fault.reason.utf8.count < 200)
    }
    #expect(FormDecoding.decode([UInt8](repeating: 0x26, count: million)) == .success([]))
  }

  /// A step is one look-up in a dictionary, or a look at the last element of an array.
  @Test func whatAFormCostsIsLinear() {
    let count = 100_000
    let forms: [(sentence: String, pairs: (Int) -> String, steps: Int)] = [
      ("distinct names", { "k\($0)" }, count),
      ("one name", { _ in "k" }, count),
      ("distinct keys of one dictionary", { "a[k\($0)]" }, 2 * count - 1),
      ("elements of one array", { _ in "a[]" }, 2 * count - 1),
      ("elements that are dictionaries", { _ in "a[][k]" }, 3 * count - 2),
      ("keys of an element", { "a[][k\($0)]" }, 3 * count - 2),
      ("dictionaries within", { _ in "a[][b][c][d]" }, 5 * count - 4),
    ]
    for form in forms {
      let body = octets((0..<count).map(form.pairs).joined(separator: "&"))
      var tree = BracketTree(maximumNodes: .max)
      #expect(FormDecoding.decode(body, into: &tree) == nil)
      #expect(tree.steps == form.steps, "\(form.sentence): \(tree.steps)")
    }
  }

  @Test func randomFormsLoseNothing() {
    var generator = SeededGenerator(seed: 5)
    let memory = GuardedMemory(capacity: 4096)
    let names = ["a", "b", "a[]", "a[b]", "a[][b]", "a[][c]", "a[][b][]", "b[][]", "b[][][a]", "c", "c", "%41%5B]"]
    for _ in 0..<3000 {
      let count = Int.random(in: 0...7, using: &generator)
      let form = (0..<count).map { "\(names.randomElement(using: &generator) ?? "")=\($0)" }
      let body = octets(form.joined(separator: "&"))
      guard case .success(let entries) = memory.lend(body, { FormDecoding.decode($0) }) else { continue }
      let values: [UInt8] = sortedPairs(QueryEncoding.encode(entries)).map { $0.last ?? 0 }.sorted()
      let digits: [UInt8] = (0..<count).map { UInt8(0x30 + $0) }
      #expect(values == digits, "\(shown(body))")
    }
  }
}

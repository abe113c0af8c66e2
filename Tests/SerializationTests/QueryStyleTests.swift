// The styles of queries and forms: what they write, to the byte, and that what one wrote is read back in it.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct QueryStyleTests {
  private static let repeated = QueryStyle(arrays: .repeat)
  private static let indices = QueryStyle(arrays: .indices)
  private static let comma = QueryStyle(arrays: .comma)

  static let written: [(sentence: String, style: QueryStyle, tree: ParameterValue, query: String)] = [
    (
      "the default is AFNetworking's", QueryStyle(), ["a": [1, true], "b c": "d e"], "a%5B%5D=1&a%5B%5D=1&b%20c=d%20e"
    ),
    ("a repeated field", repeated, ["nums": [1, 2]], "nums=1&nums=2"),
    ("a repeated field of a table", repeated, ["a": ["b": ["x", "y"]]], "a%5Bb%5D=x&a%5Bb%5D=y"),
    ("arrays in an array, all in one field", repeated, ["a": [[1, 2], [3]]], "a=1&a=2&a=3"),
    ("tables in a repeated field", repeated, ["a": [["b": 1], ["b": 2]]], "a%5Bb%5D=1&a%5Bb%5D=2"),
    ("an array of one", repeated, ["a": ["x"]], "a=x"),
    ("an empty array", repeated, ["a": [], "b": 1], "b=1"),
    ("indices", indices, ["a": ["x", "y"]], "a%5B0%5D=x&a%5B1%5D=y"),
    (
      "indices of arrays in an array", indices, ["a": [[1, 2], [3]]],
      "a%5B0%5D%5B0%5D=1&a%5B0%5D%5B1%5D=2&a%5B1%5D%5B0%5D=3"
    ),
    (
      "tables in an array with indices", indices, ["a": [["c": 1, "b": 2], ["b": 3]]],
      "a%5B0%5D%5Bb%5D=2&a%5B0%5D%5Bc%5D=1&a%5B1%5D%5Bb%5D=3"
    ),
    (
      "an index of more than one digit", indices, ["a": .array((0..<11).map { .integer($0) })],
      (0..<11).map { "a%5B\($0)%5D=\($0)" }.joined(separator: "&")
    ),
    ("commas between the elements", comma, ["a": [1, 2, 3]], "a=1,2,3"),
    ("a comma within an element", comma, ["a": ["x,y", "z"]], "a=x%2Cy,z"),
    ("elements that are empty", comma, ["a": ["", "", ""]], "a=,,"),
    ("a comma of a text that is no array", comma, ["a": "x,y"], "a=x%2Cy"),
    ("an array of one, with commas", comma, ["a": ["x"]], "a=x"),
    ("an empty array, with commas", comma, ["a": [], "b": 1], "b=1"),
    ("an array in a table, with commas", comma, ["a": ["b": [1, false]]], "a%5Bb%5D=1,0"),
    ("booleans in words", QueryStyle(booleans: .words), ["t": true, "f": [false]], "f%5B%5D=false&t=true"),
    (
      "booleans in words, with commas", QueryStyle(arrays: .comma, booleans: .words), ["a": [true, false]],
      "a=true,false"
    ),
    ("a text that looks like a boolean", QueryStyle(booleans: .words), ["t": "1"], "t=1"),
    ("spaces as plus signs, in names too", QueryStyle(space: .plus), ["a b": ["c d+e"]], "a+b%5B%5D=c+d%2Be"),
    ("only spaces become plus signs", QueryStyle(space: .plus), ["a": "\t\u{a0}\r\n"], "a=%09%C2%A0%0D%0A"),
  ]

  @Test func treesAreWrittenToTheByte() {
    for row in Self.written {
      #expect(QueryEncoding.encode(row.tree.entries, row.style).span.string == row.query, "\(row.sentence)")
    }
  }

  static let read: [(sentence: String, style: QueryStyle, form: String, tree: ParameterValue)] = [
    ("a field that comes again", repeated, "nums=1&x=0&nums=2", ["nums": ["1", "2"], "x": "0"]),
    ("a field of a table that comes again", repeated, "a[b]=1&a[b]=2", ["a": ["b": ["1", "2"]]]),
    ("a field that comes once", repeated, "a=1", ["a": "1"]),
    ("brackets are read in every style", repeated, "a[]=1&a[]=2", ["a": ["1", "2"]]),
    ("indices", indices, "a[0]=x&a[1]=y", ["a": ["x", "y"]]),
    ("indices in another order", indices, "a[1]=y&b=0&a[0]=x", ["a": ["x", "y"], "b": "0"]),
    ("indices within one another", indices, "a[0][0]=1&a[0][1]=2&a[1][0]=3", ["a": [["1", "2"], ["3"]]]),
    ("tables in an array", indices, "a[0][b]=1&a[1][b]=2&a[0][c]=3", ["a": [["b": "1", "c": "3"], ["b": "2"]]]),
    ("an index that is missing", indices, "a[0]=x&a[2]=y", ["a": ["0": "x", "2": "y"]]),
    ("an index with a zero before it", indices, "a[00]=x", ["a": ["00": "x"]]),
    ("an index with a sign", indices, "a[+0]=x", ["a": [" 0": "x"]]),
    ("an index and a key", indices, "a[0]=x&a[b]=y", ["a": ["0": "x", "b": "y"]]),
    ("an index beyond all", indices, "a[99999999999999999999]=x", ["a": ["99999999999999999999": "x"]]),
    ("an index that comes twice", indices, "a[0]=x&a[0]=y", ["a": [["x", "y"]]]),
    ("names of the root are no indices", indices, "0=x&1=y", ["0": "x", "1": "y"]),
    ("indices in the style of brackets", QueryStyle(), "a[0]=x&a[1]=y", ["a": ["0": "x", "1": "y"]]),
    ("commas", comma, "a=1,2,3", ["a": ["1", "2", "3"]]),
    ("a comma that is encoded", comma, "a=1%2C2,3", ["a": ["1,2", "3"]]),
    ("commas and nothing", comma, "a=,,", ["a": ["", "", ""]]),
    ("no comma", comma, "a=1", ["a": "1"]),
    ("no value", comma, "a&b=", ["a": "", "b": ""]),
    ("commas in a name", comma, "a,b=1", ["a,b": "1"]),
    ("commas and a field that comes again", comma, "a=1,2&a=3", ["a": ["1", "2", "3"]]),
    ("commas behind brackets", comma, "a[]=1,2", ["a": ["1", "2"]]),
    ("commas in the style of brackets", QueryStyle(), "a=1,2", ["a": "1,2"]),
    ("a plus sign is a space in every style", repeated, "a+b=c%20d", ["a b": "c d"]),
  ]

  @Test func formsAreReadInTheirStyle() throws {
    let memory = GuardedMemory(capacity: 4096)
    for row in Self.read {
      let entries = try memory.lend(octets(row.form), { FormDecoding.decode($0, row.style) }).get()
      #expect(ParameterValue.dictionary(entries) == row.tree, "\(row.sentence)")
    }
  }

  @Test func aFaultInAnElementIsWhereItStands() {
    let memory = GuardedMemory(capacity: 4096)
    let outcome = memory.lend(octets("a=1,2%zz")) { FormDecoding.decode($0, Self.comma) }
    #expect(
      outcome == .failure(ContentFault("expected two hexadecimal digits behind '%', found '%zz'", offset: 5)))
    let named = memory.lend(octets("b=1&a[=1,2")) { FormDecoding.decode($0, Self.comma) }
    #expect(
      named == .failure(ContentFault("expected ']' to close '[', found the end of the name", offset: 6)))
  }

  /// With indices every tree comes back, also one with containers in arrays, which brackets cannot tell apart.
  @Test func withIndicesEveryTreeComesBack() throws {
    for seed in 0..<400 as Range<UInt64> {
      var trees = TreeGenerator(seed: seed, elements: .anything)
      let tree = trees.root()
      let query = QueryEncoding.encode(tree.entries, Self.indices)
      let entries = try FormDecoding.decode(query.span, Self.indices).get()
      #expect(ParameterValue.dictionary(entries).sorted == tree.sorted, "\(shown(query))")
    }
  }

  /// Whatever the style and the tree, as many pairs come back as there were.
  @Test func inNoStyleAPairGetsLost() throws {
    for style in [Self.repeated, Self.indices, Self.comma, QueryStyle(space: .plus)] {
      for seed in 0..<200 as Range<UInt64> {
        var trees = TreeGenerator(seed: seed, elements: .strings)
        let query = QueryEncoding.encode(trees.root().entries, style)
        let entries = try FormDecoding.decode(query.span, style).get()
        #expect(sortedPairs(QueryEncoding.encode(entries, style)) == sortedPairs(query), "\(shown(query))")
      }
    }
  }
}

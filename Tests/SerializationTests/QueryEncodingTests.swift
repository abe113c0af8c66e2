// AFNetworking's encoding of parameters, to the byte, and where it goes: into a target, or behind a form.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct QueryEncodingTests {
  static let trees: [(sentence: String, tree: ParameterValue, query: String)] = [
    ("nothing", [:], ""),
    ("a pair", ["a": "1"], "a=1"),
    ("keys in order, whatever the order they came in", ["b": "2", "a": "1", "c": "3"], "a=1&b=2&c=3"),
    ("capitals before small letters", ["a": "1", "B": "2", "_": "3", "0": "4"], "0=4&B=2&_=3&a=1"),
    ("a key before one that it begins", ["ab": "1", "a": "2", "a.": "3"], "a=2&a.=3&ab=1"),
    ("accents behind ASCII, as no locale has them", ["é": "1", "z": "2", "e": "3"], "e=3&z=2&%C3%A9=1"),
    (
      "by code point where UTF-16 would sort otherwise", ["😀": "1", "\u{ff5e}": "2"],
      "%EF%BD%9E=2&%F0%9F%98%80=1"
    ),
    ("numbers sort as text", ["10": "a", "9": "b"], "10=a&9=b"),
    ("an empty key and an empty value", ["": ""], "="),
    ("an empty value", ["a": ""], "a="),
    ("a dictionary", ["a": ["b": "1"]], "a%5Bb%5D=1"),
    (
      "dictionaries in order at each level", ["z": ["b": "1", "a": ["d": "2", "c": "3"]], "a": "4"],
      "a=4&z%5Ba%5D%5Bc%5D=3&z%5Ba%5D%5Bd%5D=2&z%5Bb%5D=1"
    ),
    ("an array in its own order", ["a": ["2", "1", "3"]], "a%5B%5D=2&a%5B%5D=1&a%5B%5D=3"),
    ("an array of arrays", ["a": [["1", "2"], ["3"]]], "a%5B%5D%5B%5D=1&a%5B%5D%5B%5D=2&a%5B%5D%5B%5D=3"),
    (
      "an array of dictionaries", ["a": [["c": "1", "b": "2"], ["b": "3"]]],
      "a%5B%5D%5Bb%5D=2&a%5B%5D%5Bc%5D=1&a%5B%5D%5Bb%5D=3"
    ),
    ("a dictionary of arrays", ["a": ["b": ["1", "2"]]], "a%5Bb%5D%5B%5D=1&a%5Bb%5D%5B%5D=2"),
    ("an empty key within brackets", ["a": ["": "1"]], "a%5B%5D=1"),
    ("an empty array", ["a": []], ""),
    ("an empty dictionary", ["a": [:]], ""),
    ("empty containers at any depth", ["a": [[:], [[]], ["b": []]], "c": "1", "d": ["e": [:]]], "c=1"),
    ("booleans", ["t": true, "f": false], "f=0&t=1"),
    ("spaces and plus signs", ["a b": "c+d"], "a%20b=c%2Bd"),
    ("brackets of a key", ["a[b]": "1"], "a%5Bb%5D=1"),
    ("separators", ["a&b": "c=d&e"], "a%26b=c%3Dd%26e"),
    ("a slash and a question mark stay", ["a/b?": "/?"], "a/b?=/?"),
    ("a URL", ["u": "http://a.example/?q=1#f"], "u=http%3A//a.example/?q%3D1%23f"),
    ("a letter with its accent apart", ["a": "e\u{301}"], "a=e%CC%81"),
    ("an emoji of several scalars", ["👩‍👧": "👴🏻"], "%F0%9F%91%A9%E2%80%8D%F0%9F%91%A7=%F0%9F%91%B4%F0%9F%8F%BB"),
    ("line ends and a NUL", ["a": "\r\n\u{0}"], "a=%0D%0A%00"),
  ]

  @Test func treesAreEncodedToTheByte() {
    for row in Self.trees {
      let query = String(decoding: QueryEncoding.encode(row.tree.entries), as: UTF8.self)
      #expect(query == row.query, "\(row.sentence)")
    }
  }

  @Test func everyByteIsUnreservedOrTwoCapitalDigits() {
    let unreserved = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/?".utf8)
    for byte in UInt8.min...UInt8.max {
      let digits = (byte < 16 ? "0" : "") + String(byte, radix: 16).uppercased()
      let expected = unreserved.contains(byte) ? [byte] : Array("%\(digits)".utf8)
      let entry = ParameterEntry(key: [byte], value: .string([byte, byte]))
      #expect(QueryEncoding.encode([entry]) == expected + [0x3d] + expected + expected)
    }
  }

  static let integers: [(number: Int64, text: String)] = [
    (0, "0"), (-1, "-1"), (1_000_000, "1000000"), (.max, "9223372036854775807"), (.min, "-9223372036854775808"),
  ]

  static let reals: [(number: Double, text: String)] = [
    (0.1, "0.1"), (1.0, "1"), (-0.0, "-0"), (0.0, "0"), (-2.5, "-2.5"), (100.0, "100"), (1.05, "1.05"),
    (0.1 + 0.2, "0.30000000000000004"), (1e15, "1000000000000000"), (9_007_199_254_740_992, "9007199254740992"),
    (1e16, "1e%2B16"), (1e21, "1e%2B21"), (1.5e300, "1.5e%2B300"), (0.0001, "0.0001"), (0.00001, "1e-05"),
    (.leastNonzeroMagnitude, "5e-324"), (.greatestFiniteMagnitude, "1.7976931348623157e%2B308"),
  ]

  @Test func numbersAreTheShortestDecimalsThatReadBack() {
    for (number, text) in Self.integers {
      let query = QueryEncoding.encode([ParameterEntry(key: [0x6e], value: .integer(number))])
      #expect(query == Array("n=\(text)".utf8))
    }
    for (number, text) in Self.reals {
      let query = QueryEncoding.encode([ParameterEntry(key: [0x6e], value: .real(number))])
      #expect(query == Array("n=\(text)".utf8), "\(number): \(shown(query))")
      let plain = String(text.split(separator: "%2B").joined(separator: "+"))
      #expect(Double(plain)?.bitPattern == number.bitPattern)
    }
  }

  static let targets: [(sentence: String, target: String, query: String, expected: String)] = [
    ("a path", "/a", "q=1", "/a?q=1"),
    ("a path with a query", "/a?b=c", "q=1", "/a?b=c&q=1"),
    ("an empty query", "/a?", "q=1", "/a?&q=1"),
    ("a query that ends with an ampersand", "/a?b&", "q=1", "/a?b&&q=1"),
    ("a fragment", "/a#f", "q=1", "/a?q=1#f"),
    ("a query and a fragment", "/a?b#f", "q=1", "/a?b&q=1#f"),
    ("a question mark in the fragment", "/a#f?g", "q=1", "/a?q=1#f?g"),
    ("an empty fragment", "/a#", "q=1", "/a?q=1#"),
    ("two number signs", "/a#b#c", "q=1", "/a?q=1#b#c"),
    ("a second question mark", "/a?b?c", "q=1", "/a?b?c&q=1"),
    ("no parameters", "/a", "", "/a"),
    ("no parameters and an empty query", "/a?#f", "", "/a?#f"),
    ("nothing", "", "q=1", "?q=1"),
  ]

  @Test func theQueryGoesIntoTheTarget() {
    for row in Self.targets {
      var out = ByteBuffer()
      out.append(">")
      GuardedMemory(capacity: 4096).lend(octets(row.target)) {
        QueryEncoding.append(query: Array(row.query.utf8), to: $0, into: &out)
      }
      #expect(out.array == octets(">" + row.expected), "\(row.sentence)")
    }
  }

  static let forms: [(sentence: String, body: String, encoded: String, expected: String)] = [
    ("a form", "a=1", "b=2", "a=1&b=2"),
    ("a key that is there already", "a=1", "a=2", "a=1&a=2"),
    ("an empty form", "", "b=2", "b=2"),
    ("a form that ends with an ampersand", "a=1&", "b=2", "a=1&b=2"),
    ("an ampersand alone", "&", "b=2", "&b=2"),
    ("no parameters", "a=1&", "", "a=1&"),
    ("neither", "", "", ""),
    ("what a form should not hold stays as it is", "a=%zz\n", "b=2", "a=%zz\n&b=2"),
  ]

  @Test func aFormGetsBoth() {
    for row in Self.forms {
      var out = ByteBuffer()
      GuardedMemory(capacity: 4096).lend(octets(row.body)) {
        FormBody.merge(encoded: Array(row.encoded.utf8), into: $0, to: &out)
      }
      #expect(out.array == octets(row.expected), "\(row.sentence)")
    }
  }

  @Test func treesOfRandomShapeComeBack() throws {
    for seed in 0..<400 as Range<UInt64> {
      var trees = TreeGenerator(seed: seed, elements: .strings)
      let tree = trees.root()
      let query = QueryEncoding.encode(tree.entries)
      let entries = try FormDecoding.decode(query).get()
      #expect(ParameterValue.dictionary(entries) == tree.sorted, "\(shown(query))")
    }
  }

  /// Brackets do not say where an element of an array ends, so that not every tree comes back. But nothing is lost.
  @Test func ofTreesWithContainersInArraysEveryPairComesBack() throws {
    for seed in 0..<400 as Range<UInt64> {
      var trees = TreeGenerator(seed: seed, elements: .anything)
      let query = QueryEncoding.encode(trees.root().entries)
      let entries = try FormDecoding.decode(query).get()
      #expect(sortedPairs(QueryEncoding.encode(entries)) == sortedPairs(query), "\(shown(query))")
    }
  }
}

// Parameters as parts of a multipart body: to the byte, in each style, and what is refused.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct MultipartMergingTests {
  private static func merge(
    _ tree: ParameterValue, into body: String, boundary: String = "b", _ style: QueryStyle = QueryStyle()
  ) -> (outcome: MultipartMerging.Outcome, body: String) {
    guard let boundary = MultipartBoundary(octets(boundary)) else { fatalError("no boundary") }
    var out = ByteBuffer()
    let outcome = GuardedMemory(capacity: 8192).lend(octets(body)) {
      MultipartMerging.merge(style.pairs(tree.entries), into: $0, boundary, to: &out)
    }
    return (outcome, out.bytes.string)
  }

  private static let file =
    "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.bin\"\r\nContent-Type: image/png\r\n\r\n\u{1}\r\n--b--\r\n"

  private static func part(_ name: String, _ value: String) -> String {
    "--b\r\nContent-Disposition: form-data; name=\"\(name)\"\r\n\r\n\(value)\r\n"
  }

  static let merged: [(sentence: String, tree: ParameterValue, style: QueryStyle, parts: String)] = [
    ("a value", ["username": "123"], QueryStyle(), part("username", "123")),
    ("nothing", [:], QueryStyle(), ""),
    (
      "names of the query, in its order", ["b": ["y": "2", "x": "1"], "a": ["p", "q"]], QueryStyle(),
      part("a[]", "p") + part("a[]", "q") + part("b[x]", "1") + part("b[y]", "2")
    ),
    ("nothing is percent-encoded", ["a b&": "c+d=e%41"], QueryStyle(space: .plus), part("a b&", "c+d=e%41")),
    ("what would end a name", ["a\"\r\nb\\": "\"\\"], QueryStyle(), part("a%22%0D%0Ab\\", "\"\\")),
    ("line ends of a value stay", ["a": "1\r\n\r\n2"], QueryStyle(), part("a", "1\r\n\r\n2")),
    ("an empty value", ["a": ""], QueryStyle(), part("a", "")),
    ("booleans", ["a": true], QueryStyle(), part("a", "1")),
    ("booleans in words", ["a": true], QueryStyle(booleans: .words), part("a", "true")),
    ("a repeated field", ["a": [1, 2]], QueryStyle(arrays: .repeat), part("a", "1") + part("a", "2")),
    ("indices", ["a": [1, 2]], QueryStyle(arrays: .indices), part("a[0]", "1") + part("a[1]", "2")),
    ("commas", ["a": [1, 2]], QueryStyle(arrays: .comma), part("a", "1,2")),
  ]

  @Test func parametersStandBeforeTheBody() {
    for row in Self.merged {
      for body in [Self.file, "--b--", Self.part("own", "x") + Self.file] {
        let (outcome, out) = Self.merge(row.tree, into: body, row.style)
        #expect(outcome == .merged && out == row.parts + body, "\(row.sentence)")
      }
    }
  }

  @Test func aLineEndBeforeTheBodyStaysBeforeIt() {
    let (outcome, out) = Self.merge(["a": 1], into: "\r\n" + Self.file)
    #expect(outcome == .merged && out == "\r\n" + Self.part("a", "1") + Self.file)
  }

  /// What is merged is what the reader of multipart bodies reads.
  @Test func whatIsMergedIsReadBack() throws {
    let (_, out) = Self.merge(["k": ["x": "ä\r\n"]], into: Self.part("own", "1") + "--b--\r\n")
    let boundary = try #require(MultipartBoundary(octets("b")))
    let bytes = Array(out.utf8)
    let expected: ParameterValue = ["k": ["x": "ä\r\n"], "own": "1"]
    #expect(MultipartFormData.read(bytes.span, boundary) == .fields(expected.entries))
  }

  /// Parts that the transcoder does not read pass: it is the origin that reads them.
  @Test func whatThePartsHoldIsNotLookedAt() {
    for more in [
      "\r\nContent-Type: text/plain; charset=gbk", "\r\nContent-Type: multipart/mixed; boundary=x",
      "\r\nContent-Transfer-Encoding: base64",
    ] {
      let body = "--b\r\nContent-Disposition: form-data; name=\"a\"\(more)\r\n\r\n\u{c4}\r\n--b--\r\n"
      #expect(Self.merge(["k": 1], into: body).outcome == .merged)
    }
    let boundary = MultipartBoundary(octets("b"))
    let name = octets("--b\r\nContent-Disposition: form-data; name=\"") + [0xb2, 0xe9] + octets("\"\r\n\r\n1\r\n--b--")
    #expect(boundary.map { MultipartFormData.fault(in: name.span, $0) } == .some(nil))
  }

  static let malformed: [(sentence: String, body: String, offset: Int)] = [
    ("nothing but text", "a=1", 0),
    ("text before the parts", "x\r\n" + part("a", "1") + "--b--", 0),
    ("no end", part("a", "1"), 52),
    ("a body that is cut", String(file.dropLast(8)), 92),
    ("text behind the parts", "--b--x", 5),
    ("a part without a name", "--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--", 26),
    ("a part without fields", "--b\r\n\r\n1\r\n--b--", 5),
    ("a field that is none", "--b\r\nx\r\n\r\n1\r\n--b--", 6),
    ("a bare line feed", "--b\n", 3),
    ("a boundary that another begins with", "--bb\r\n", 3),
  ]

  @Test func whatIsMalformedIsRefusedAndNothingWritten() {
    for row in Self.malformed {
      let (outcome, out) = Self.merge(["k": 1], into: row.body)
      guard case .invalid(let fault) = outcome else {
        Issue.record("\(row.sentence): \(outcome)")
        continue
      }
      #expect(fault.offset == row.offset && out.isEmpty, "\(row.sentence): \(fault)")
    }
  }

  /// The client chooses the boundary: it must not be able to cut a parameter in two.
  @Test func aBoundaryThatStandsInAParameterIsRefused() {
    let rows: [(ParameterValue, String)] = [
      (["a": "x\r\n--b--"], "b"), (["a": "--b"], "b"), (["a": "x--by"], "b"), (["--b": "1"], "b"),
      (["a": "1"], "-"), (["a": ["1", "x--"]], "-"),
    ]
    for (tree, boundary) in rows {
      let body = "--\(boundary)--"
      let (outcome, out) = Self.merge(tree, into: body, boundary: boundary)
      switch outcome {
      case .boundaryInPart: #expect(out.isEmpty)
      // "---" stands in neither, as it is a hyphen longer.
      case .merged: #expect(boundary == "-")
      case .invalid: Issue.record("\(tree)")
      }
    }
    #expect(Self.merge(["a": "x-b"], into: "--b--").outcome == .merged)
    #expect(Self.merge(["a": "---"], into: "-----", boundary: "-").outcome == .boundaryInPart(name: octets("a")))
  }
}

// Multipart bodies: as curl, Python's requests and browsers write them, by the letter of the RFCs, and everything
// that is refused.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct MultipartFormDataTests {
  static func read(_ body: [UInt8], _ memory: GuardedMemory, boundary: String = "b") -> MultipartFormData {
    guard let boundary = MultipartBoundary(octets(boundary)) else { fatalError("no boundary") }
    return memory.lend(body) { MultipartFormData.read($0, boundary) }
  }

  /// A part behind the boundary `b`, with CR LF behind each line of its header.
  static func part(_ header: String..., value: String = "v") -> String {
    "--b\r\n" + header.map { $0 + "\r\n" }.joined() + "\r\n" + value + "\r\n"
  }

  /// A part whose disposition is `form-data` and this.
  static func named(_ parameters: String, _ value: String = "v") -> String {
    part("Content-Disposition: form-data" + parameters, value: value)
  }

  static let plain = "Content-Disposition: form-data; name=\"a\""
  static let end = "--b--\r\n"

  static let fields: [(sentence: String, body: String, tree: ParameterValue)] = [
    ("no parts, as browsers write an empty form", end, [:]),
    ("one part", part(plain) + end, ["a": "v"]),
    ("no line end at the end", part(plain) + "--b--", ["a": "v"]),
    ("a line end at the beginning", "\r\n" + part(plain) + end, ["a": "v"]),
    ("an empty value", part(plain, value: "") + end, ["a": ""]),
    ("a value of line ends", part(plain, value: "\r\n\r\n") + end, ["a": "\r\n\r\n"]),
    ("values like boundaries", part(plain, value: "--B--\r\n-b\r\n--x--b") + end, ["a": "--B--\r\n-b\r\n--x--b"]),
    ("boundaries behind no CR LF", part(plain, value: "x--b\r\r\n-\n--b\r--b") + end, ["a": "x--b\r\r\n-\n--b\r--b"]),
    ("a CR before a boundary", part(plain, value: "\r\r") + end, ["a": "\r\r"]),
    ("a NUL in a value", part(plain, value: "\u{0}") + end, ["a": "\u{0}"]),
    ("an empty name", named("; name=\"\"") + end, ["": "v"]),
    ("a name without quotes, as .NET writes it", named("; name=a") + end, ["a": "v"]),
    ("no space before the name", named(";name=\"a\"") + end, ["a": "v"]),
    ("a semicolon and nothing", named("; name=\"a\";") + end, ["a": "v"]),
    ("everything in capitals", part("CONTENT-DISPOSITION: FORM-DATA; NAME=\"a\"") + end, ["a": "v"]),
    ("no space behind the colon", part("Content-Disposition:form-data; name=\"a\"") + end, ["a": "v"]),
    ("blanks around the value", part("Content-Disposition: \t form-data; name=\"a\" \t") + end, ["a": "v"]),
    ("a tab in quotes", named("; name=\"a\tb\"") + end, ["a\tb": "v"]),
    ("a line end in a name, as browsers write it", named("; name=\"a%0D%0Ab\"") + end, ["a\r\nb": "v"]),
    ("a quotation mark in a name, as browsers write it", named("; name=\"%22a%22\"") + end, ["\"a\"": "v"]),
    ("a quotation mark in a name, as mailers write it", named("; name=\"\\\"a\\\"\"") + end, ["\"a\"": "v"]),
    ("other percent signs", named("; name=\"100%25%0d%2%\"") + end, ["100%25%0d%2%": "v"]),
    ("a backslash before a letter", named("; name=\"a\\b\"") + end, ["a\\b": "v"]),
    ("an escaped backslash at the end", named("; name=\"a\\\\\"") + end, ["a\\": "v"]),
    ("percent signs in a name without quotes", named("; name=a%22") + end, ["a%22": "v"]),
    ("a semicolon in quotes", named("; name=\"a; filename=x\"") + end, ["a; filename=x": "v"]),
    ("names come again", named("; name=\"a\"", "1") + named("; name=\"a\"", "2") + end, ["a": ["1", "2"]]),
    (
      "an array of dictionaries", named("; name=\"a[][b]\"", "1") + named("; name=\"a[][b]\"", "2") + end,
      ["a": [["b": "1"], ["b": "2"]]]
    ),
    ("plus signs and percent signs in a value", part(plain, value: "a+b%20%zz") + end, ["a": "a+b%20%zz"]),
    ("a type", part(plain, "Content-Type: text/plain") + end, ["a": "v"]),
    ("a type first", part("Content-Type: text/plain; charset=UTF-8", plain) + end, ["a": "v"]),
    ("US-ASCII", part(plain, "Content-Type: text/plain; charset=us-ascii") + end, ["a": "v"]),
    ("7bit", part(plain, "Content-Transfer-Encoding: 7bit") + end, ["a": "v"]),
    ("8bit", part(plain, "content-transfer-encoding: 8BIT") + end, ["a": "v"]),
    ("binary", part("Content-Transfer-Encoding: binary", plain) + end, ["a": "v"]),
    ("fields that mean nothing", part(plain, "Content-Length: 1", "X:") + end, ["a": "v"]),
    ("a charset field", named("; name=\"_charset_\"", "UTF-8") + end, ["_charset_": "UTF-8"]),
    ("UTF-8 in a value", part(plain, value: "\u{c3}\u{a9}") + end, ["a": "é"]),
    (
      "as many fields as a header may have",
      part(plain, (2...PartHeader.maximumFields).map { "X-\($0): y" }.joined(separator: "\r\n")) + end, ["a": "v"]
    ),
    (
      "as many bytes as a header may have",
      part(plain, "X: " + String(repeating: "y", count: PartHeader.maximumBytes - plain.utf8.count - 9)) + end,
      ["a": "v"]
    ),
  ]

  static let files: [(sentence: String, body: String)] = [
    ("a file", named("; name=\"a\"; filename=\"f\"") + end),
    ("a file before its name", named("; filename=\"f\"; name=\"a\"") + end),
    ("a file without quotes", named("; name=a; filename=f") + end),
    ("no file chosen, as browsers write it", named("; name=\"a\"; filename=\"\"", "") + end),
    ("a file name in extended notation", named("; name=\"a\"; filename*=UTF-8''%e2%82%ac") + end),
    ("both file names", named("; name=a; FileName=f; FILENAME*=UTF-8''f") + end),
    ("a file of any encoding", part(plain + "; filename=\"f\"", "Content-Transfer-Encoding: base64") + end),
    ("a file of any type", part(plain + "; filename=\"f\"", "Content-Type: junk") + end),
    ("a file behind a field", named("; name=\"b\"") + named("; name=\"a\"; filename=\"f\"") + end),
    ("a file behind which nothing is right", named("; name=\"a\"; filename=\"f\"") + "--bx"),
  ]

  private static let ended = "found the end of the body"

  static let refused: [(sentence: String, body: String, offset: Int, reason: String)] = [
    ("nothing", "", 0, "expected the boundary that the Content-Type names"),
    ("another boundary", "--c--\r\n", 0, "expected the boundary that the Content-Type names"),
    ("a preamble", "x\r\n" + part(plain) + end, 0, "expected the boundary that the Content-Type names"),
    ("two line ends before it", "\r\n\r\n" + part(plain) + end, 0, "expected the boundary that the Content-Type names"),
    ("an LF before it", "\n" + part(plain) + end, 0, "expected the boundary that the Content-Type names"),
    ("a boundary and nothing", "--b", 3, "expected CR LF or '--' behind a boundary, \(ended)"),
    ("a boundary that goes on", "--bx\r\n", 3, "expected CR LF or '--' behind a boundary, found 'x'"),
    ("a blank behind a boundary", "--b \r\n", 3, "expected CR LF or '--' behind a boundary, found ' '"),
    ("an LF behind a boundary", "--b\n", 3, "expected CR LF or '--' behind a boundary, found byte 0x0a"),
    ("a CR alone behind a boundary", "--b\r", 3, "expected CR LF or '--' behind a boundary, found byte 0x0d"),
    ("one hyphen behind a boundary", "--b-\r\n", 3, "expected CR LF or '--' behind a boundary, found '-'"),
    ("an epilogue", end + "x", 7, "expected the end of the body behind its last boundary, found 'x'"),
    ("an epilogue without a line end", "--b--x", 5, "expected the end of the body behind its last boundary, found 'x'"),
    (
      "two line ends behind it", end + "\r\n", 7,
      "expected the end of the body behind its last boundary, found byte 0x0d"
    ),
    ("a NUL behind it", end + "\u{0}", 7, "expected the end of the body behind its last boundary, found byte 0x00"),
    ("a header and nothing", "--b\r\n", 5, "expected the header of a part, \(ended)"),
    ("a header that is cut", "--b\r\nContent-", 13, "expected the header of a part, \(ended)"),
    ("a header that is cut at a CR", "--b\r\n\(plain)\r", 46, "expected the header of a part, \(ended)"),
    ("no content", "--b\r\n\(plain)\r\n\r\n", 49, "expected a boundary behind the last part, \(ended)"),
    ("no last boundary", part(plain), 52, "expected a boundary behind the last part, \(ended)"),
    (
      "a boundary with an LF before it", "--b\r\n\(plain)\r\n\r\nv\n--b--\r\n", 58,
      "expected a boundary behind the last part, \(ended)"
    ),
    (
      "no line end before a boundary", "--b\r\n\(plain)\r\n\r\n--b--\r\n", 49,
      "expected a line end before a boundary, found none"
    ),
    ("no header", part() + end, 5, "expected a Content-Disposition in the header of a part, found none"),
    (
      "no disposition", part("Content-Type: text/plain") + end, 5,
      "expected a Content-Disposition in the header of a part, found none"
    ),
    (
      "an LF in a header", "--b\r\n\(plain)\n\r\n\r\nv\r\n--b--", 45,
      "expected CR LF at the end of a line, found byte 0x0a"
    ),
    ("a CR in a header", "--b\r\nX: a\rb\r\n\r\n", 9, "expected CR LF at the end of a line, found byte 0x0d"),
    ("a NUL in a header", "--b\r\nX: \u{0}\r\n\r\n", 8, "expected CR LF at the end of a line, found byte 0x00"),
    (
      "a line without a colon", "--b\r\nX\r\n\r\n", 6,
      "expected a field name and ':' in the header of a part, found byte 0x0d"
    ),
    (
      "a line without a name", "--b\r\n: x\r\n\r\n", 5,
      "expected a field name and ':' in the header of a part, found ':'"
    ),
    (
      "a blank before the colon", "--b\r\nX : x\r\n\r\n", 6,
      "expected a field name and ':' in the header of a part, found ' '"
    ),
    (
      "a folded line", "--b\r\nX: a\r\n b\r\n\r\n", 11,
      "expected a field name and ':' in the header of a part, found ' '"
    ),
    (
      "a disposition twice", part(plain, plain) + end, 47,
      "expected a field once in the header of a part, found it again"
    ),
    (
      "a type twice", part("Content-Type: text/plain", "content-type: text/plain", plain) + end, 31,
      "expected a field once in the header of a part, found it again"
    ),
    (
      "a field too many", part(plain, (1...PartHeader.maximumFields).map { "X-\($0): y" }.joined(separator: "\r\n")), 5,
      "expected at most \(PartHeader.maximumFields) fields in the header of a part, found more"
    ),
    (
      "a byte too many",
      part(plain, "X: " + String(repeating: "y", count: PartHeader.maximumBytes - plain.utf8.count - 8)) + end,
      PartHeader.maximumBytes + 5,
      "expected at most \(PartHeader.maximumBytes) bytes in the header of a part, found more"
    ),
    (
      "another disposition", part("Content-Disposition: attachment; name=\"a\"") + end, 26,
      "expected the disposition form-data, found 'attachment; name=\"a\"'"
    ),
    ("an empty disposition", part("Content-Disposition:") + end, 25, "expected the disposition form-data, found ''"),
    ("no name", named("") + end, 26, "expected a name in Content-Disposition, found none"),
    ("two names", named("; name=\"a\"; NAME=\"b\"") + end, 47, "expected one name, found another"),
    (
      "a name in extended notation", named("; name*=UTF-8''a") + end, 37, "expected 'name' or 'filename', found 'name*'"
    ),
    ("another parameter", named("; name=\"a\"; size=1") + end, 47, "expected 'name' or 'filename', found 'size'"),
    (
      "an open quote", named("; name=\"a") + end, 44,
      "expected a parameter of Content-Disposition, found the end of the line"
    ),
    (
      "a bare backslash at the end", named("; name=\"a\\\"") + end, 46,
      "expected a parameter of Content-Disposition, found the end of the line"
    ),
    (
      "a file name behind a bare backslash", named("; name=\"a\\\"; filename=\"x\"") + end, 58,
      "expected a parameter of Content-Disposition, found 'x'"
    ),
    ("a comma", named("; name=\"a\", x") + end, 45, "expected a parameter of Content-Disposition, found ','"),
    ("a name that is no UTF-8", named("; name=\"a\u{e9}\"") + end, 43, "expected a name in UTF-8, found byte 0xe9"),
    (
      "a name with an open bracket", named("; name=\"a[\"") + end, 5,
      "expected ']' to close '[', found the end of the name"
    ),
    (
      "base64", part(plain, "Content-Transfer-Encoding: base64") + end, 74,
      "expected the transfer encoding 7bit, 8bit or binary, found 'base64'"
    ),
    (
      "no encoding", part(plain, "Content-Transfer-Encoding: ") + end, 74,
      "expected the transfer encoding 7bit, 8bit or binary, found ''"
    ),
    ("a malformed type", part(plain, "Content-Type: text") + end, 61, "expected a media type, found 'text'"),
    (
      "another charset", part(plain, "Content-Type: a/b; charset=\"latin1\"") + end, 61,
      "expected the charset UTF-8 or US-ASCII, found 'latin1'"
    ),
    (
      "parts within a part", part(plain, "Content-Type: Multipart/Mixed; boundary=c") + end, 61,
      "expected a value, found parts within a part"
    ),
    ("a value that is no UTF-8", part(plain, value: "ab\u{ff}") + end, 51, "expected UTF-8, found byte 0xff"),
    (
      "a value that is no ASCII", part(plain, "Content-Type: a/b; charset=us-ascii", value: "\u{c3}\u{a9}") + end, 86,
      "expected US-ASCII, found byte 0xc3"
    ),
    (
      "a charset field of another", named("; name=\"_charset_\"", "latin1") + end, 57,
      "expected values in UTF-8 or US-ASCII, found the charset 'latin1'"
    ),
  ]

  @Test func bodiesBecomeTrees() {
    let memory = GuardedMemory(capacity: 16 << 10)
    for row in Self.fields {
      let outcome = Self.read(octets(row.body), memory)
      #expect(outcome == .fields(row.tree.entries), "\(row.sentence): \(outcome)")
    }
  }

  @Test func filesAreLeftAlone() {
    let memory = GuardedMemory(capacity: 4096)
    for row in Self.files {
      let outcome = Self.read(octets(row.body), memory)
      #expect(outcome == .holdsFile(name: octets("a")), "\(row.sentence): \(outcome)")
    }
  }

  @Test func whatIsNoFormIsRefused() {
    let memory = GuardedMemory(capacity: 16 << 10)
    for row in Self.refused {
      let outcome = Self.read(octets(row.body), memory)
      #expect(outcome == .invalid(ContentFault(row.reason, offset: row.offset)), "\(row.sentence): \(outcome)")
    }
  }

  @Test func whatClientsSentIsRead() throws {
    let memory = GuardedMemory(capacity: 4096)
    for form in CapturedForm.all {
      let value = octets(form.type)
      let type = try #require(MediaType(value))
      let boundary = try #require(MultipartBoundary(type, in: value))
      let expected: MultipartFormData =
        switch form.outcome {
        case .fields(let tree): .fields(tree.entries)
        case .file(let name): .holdsFile(name: octets(name))
        case .fault(let reason, let offset): .invalid(ContentFault(reason, offset: offset))
        }
      let outcome = memory.lend(form.body) { MultipartFormData.read($0, boundary) }
      #expect(outcome == expected, "\(form.client): \(outcome)")
    }
  }

  @Test func cutBodiesAreRefusedAndSoIsWhatFollows() throws {
    let memory = GuardedMemory(capacity: 4096)
    for row in Self.fields where row.body.utf8.count < 1000 && row.body.hasSuffix(Self.end) {
      let body = octets(row.body)
      for count in 0..<body.count {
        let outcome = Self.read(Array(body.prefix(count)), memory)
        // The line end behind the last boundary may be missing; anything else may not.
        if count == body.count - 2 {
          #expect(outcome == .fields(row.tree.entries), "\(row.sentence), \(count) bytes")
        } else {
          guard case .invalid(let fault) = outcome else {
            Issue.record("\(row.sentence), \(count) bytes: \(outcome)")
            continue
          }
          #expect(fault.offset <= count)
        }
      }
      for tail in ["\r\n", "x", "\u{0}", "--b--\r\n", row.body] {
        guard case .invalid(let fault) = Self.read(body + octets(tail), memory) else {
          Issue.record("\(row.sentence), then \(tail)")
          continue
        }
        #expect(fault.offset == body.count, "\(row.sentence)")
      }
    }
  }

  // MARK: Boundaries

  static let boundaries: [(sentence: String, type: String, boundary: String?)] = [
    ("one character", "multipart/form-data; boundary=b", "b"),
    ("in quotes", "multipart/form-data; BOUNDARY=\"b c\"", "b c"),
    ("every character there may be", "a/b; boundary=\"'()+_,-./:=? 09azAZ\"", "'()+_,-./:=? 09azAZ"),
    ("seventy characters", "a/b; boundary=" + String(repeating: "x", count: 70), String(repeating: "x", count: 70)),
    ("none", "multipart/form-data", nil),
    ("an empty one", "multipart/form-data; boundary=\"\"", nil),
    ("a space at its end", "multipart/form-data; boundary=\"b \"", nil),
    ("seventy-one characters", "a/b; boundary=" + String(repeating: "x", count: 71), nil),
    ("a character that no boundary has", "a/b; boundary=a*b", nil),
    ("a quotation mark", "a/b; boundary=\"a\\\"b\"", nil),
    ("a tab", "a/b; boundary=\"a\tb\"", nil),
    ("a byte above ASCII", "a/b; boundary=\"\u{e9}\"", nil),
  ]

  @Test func theTypeNamesTheBoundary() throws {
    for row in Self.boundaries {
      let value = octets(row.type)
      let type = try #require(MediaType(value), "\(row.sentence)")
      let boundary = MultipartBoundary(type, in: value)
      #expect(boundary?.delimiter == row.boundary.map { octets("\r\n--" + $0) }, "\(row.sentence)")
    }
  }

  @Test func aBoundaryThatBeginsAnotherEndsAPart() {
    let body = octets("--bb\r\n\(Self.plain)\r\n\r\nv\r\n--bb--\r\n")
    let memory = GuardedMemory(capacity: 4096)
    #expect(Self.read(body, memory, boundary: "bb") == .fields([ParameterEntry(key: [0x61], value: "v")]))
    #expect(
      Self.read(body, memory)
        == .invalid(ContentFault("expected CR LF or '--' behind a boundary, found 'b'", offset: 3)))
  }

  // MARK: Limits

  @Test func hostileBodiesAreRefused() throws {
    let boundary = try #require(MultipartBoundary(octets("bbbbbbbbbbbbbbbb")))
    let delimiter = String(decoding: boundary.delimiter, as: UTF8.self)
    let opening = delimiter + "\r\n\(Self.plain)\r\n\r\n"
    let hostile: [(sentence: String, body: String)] = [
      ("a million line ends", opening + String(repeating: "\r\n", count: 1_000_000)),
      ("boundaries that are not quite", opening + String(repeating: String(delimiter.dropLast()), count: 50_000)),
      ("a header without an end", delimiter + "\r\n" + String(repeating: "X: y\r\n", count: 200_000)),
      ("a line without an end", delimiter + "\r\n" + String(repeating: "x", count: 1_000_000)),
      (
        "a name of brackets",
        delimiter + "\r\nContent-Disposition: form-data; name=\"" + String(repeating: "[", count: 5000)
      ),
      ("parts without end", String(repeating: opening.dropLast(0) + "v", count: BracketTree.maximumNodes)),
    ]
    for (sentence, body) in hostile {
      guard case .invalid(let fault) = MultipartFormData.read(octets(body).span, boundary) else {
        Issue.record("\(sentence) is no form")
        continue
      }
      #expect(fault.reason.utf8.count < 200)
    }
  }
}

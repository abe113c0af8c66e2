// JSON in every encoding that NSJSONSerialization takes: found out, judged, and written anew in its own.

import Bytes
import Testing

@testable import Serialization

@Suite struct JSONEncodingFormTests {
  private static func coded(_ text: String, _ form: JSONEncodingForm) -> [UInt8] {
    var out = ByteBuffer()
    form.encode(Array(text.utf8).span, into: &out)
    return out.bytes.array
  }

  private static let forms: [JSONEncodingForm] =
    [.utf8, .utf8Marked]
    + [true, false].flatMap { big in
      [true, false].flatMap { marked in
        [.utf16(isBigEndian: big, isMarked: marked), .utf32(isBigEndian: big, isMarked: marked)]
      }
    }

  /// Spelled out once, so that encoder and decoder cannot be wrong together.
  @Test func theBytesAreThoseOfTheStandard() {
    #expect(Self.coded("[é😀", .utf8Marked) == [0xef, 0xbb, 0xbf, 0x5b, 0xc3, 0xa9, 0xf0, 0x9f, 0x98, 0x80])
    #expect(
      Self.coded("[é😀", .utf16(isBigEndian: true, isMarked: true))
        == [0xfe, 0xff, 0, 0x5b, 0, 0xe9, 0xd8, 0x3d, 0xde, 0x00])
    #expect(
      Self.coded("[😀", .utf16(isBigEndian: false, isMarked: false)) == [0x5b, 0, 0x3d, 0xd8, 0x00, 0xde])
    #expect(
      Self.coded("[😀", .utf32(isBigEndian: true, isMarked: true))
        == [0, 0, 0xfe, 0xff, 0, 0, 0, 0x5b, 0, 1, 0xf6, 0x00])
    #expect(
      Self.coded("[", .utf32(isBigEndian: false, isMarked: true)) == [0xff, 0xfe, 0, 0, 0x5b, 0, 0, 0])
  }

  @Test(arguments: forms) func isFoundOutAndReadBack(form: JSONEncodingForm) {
    for text in ["1", "[]", "\"é\"", "{\"a\": [1, null, \"😀\u{ffff}\"]}"] {
      let bytes = Self.coded(text, form)
      #expect(JSONEncodingForm(of: bytes.span) == form, "\(text)")
      var out = ByteBuffer()
      #expect(form.decode(bytes.span, into: &out) == nil)
      #expect(out.bytes.string == text)
    }
  }

  @Test(arguments: [[], [0x31], [0xff], [0x00], [0xc3, 0xa9], [0xef, 0xbb], [0, 0], [0, 0, 0, 0]] as [[UInt8]])
  func whatShowsNoOtherEncodingIsUTF8(bytes: [UInt8]) {
    #expect(JSONEncodingForm(of: bytes.span) == .utf8)
  }

  @Test func whatIsNoTextOfItsEncodingHasItsFault() {
    for (form, bytes, offset) in [
      (.utf16(isBigEndian: true, isMarked: true), [0xfe, 0xff, 0, 0x5b, 0], 4),
      (.utf16(isBigEndian: true, isMarked: true), [0xfe, 0xff, 0xd8, 0x3d, 0, 0x5b], 2),
      (.utf16(isBigEndian: false, isMarked: true), [0xff, 0xfe, 0, 0xde], 2),
      (.utf16(isBigEndian: true, isMarked: true), [0xfe, 0xff, 0xd8, 0x3d], 2),
      (.utf32(isBigEndian: true, isMarked: true), [0, 0, 0xfe, 0xff, 0, 0x11, 0, 0], 4),
      (.utf32(isBigEndian: true, isMarked: true), [0, 0, 0xfe, 0xff, 0, 0, 0xd8, 0], 4),
      (.utf32(isBigEndian: true, isMarked: true), [0, 0, 0xfe, 0xff, 0, 0, 0], 4),
    ] as [(JSONEncodingForm, [UInt8], Int)] {
      var out = ByteBuffer()
      #expect(form.decode(bytes.span, into: &out)?.offset == offset, "\(bytes)")
    }
  }

  private static let limits = ContentLimits(heldBytes: 1 << 20, jsonDepth: 4, imagePixels: 100)

  private static func judge(_ content: [UInt8], _ serialization: ResponseSerialization) -> (ContentJudgement, [UInt8]) {
    let type = Array("application/json".utf8)
    let head = serialization.judgeHead(status: 200, contentType: 0..<type.count, in: type.span, hasContent: true)
    var buffer = ByteBuffer()
    buffer.append(content)
    var tools = ContentTools()
    var rewritten = ByteBuffer()
    let judgement = serialization.judgeContent(
      &buffer, head, charset: nil, limits: limits, tools: &tools, rewritten: &rewritten)
    return (judgement, rewritten.bytes.array)
  }

  @Test(arguments: forms) func isJudged(form: JSONEncodingForm) {
    guard case .accepted = Self.judge(Self.coded("[1, \"é\"]", form), ResponseSerialization(kinds: [.json])).0 else {
      Issue.record("a text is refused")
      return
    }
    let wrong = Self.judge(Self.coded("[1,\n ?]", form), ResponseSerialization(kinds: [.json])).0
    guard case .violation(let violation) = wrong else {
      Issue.record("a fault is not seen")
      return
    }
    #expect(violation.seen.contains("line 2, column 2"), "\(violation.seen)")
  }

  @Test(arguments: forms) func nullsGoAndTheEncodingStays(form: JSONEncodingForm) {
    let serialization = ResponseSerialization(kinds: [.json], removesNulls: true)
    let (judgement, rewritten) = Self.judge(Self.coded("[null, \"é😀\"]", form), serialization)
    guard case .rewritten = judgement else {
      Issue.record("\(judgement)")
      return
    }
    #expect(rewritten == Self.coded("[ \"é😀\"]", form), "\(rewritten)")
    guard case .accepted = Self.judge(Self.coded("[1]", form), serialization).0 else {
      Issue.record("written anew without a null")
      return
    }
  }

  @Test(
    arguments: [
      ("{}", nil), ("[]", nil), (" \n[1]", nil), ("\"a\"", "a string"), (" 1", "a number"), ("-1", "a number"),
      ("true", "a boolean"), ("false", "a boolean"), ("null", "null"),
    ] as [(String, String?)]) func theRootMayHaveToBeAContainer(text: String, seen: String?)
  {
    for removesNulls in [false, true] {
      for form in [.utf8, .utf8Marked, .utf16(isBigEndian: false, isMarked: true)] as [JSONEncodingForm] {
        let content = Self.coded(text, form)
        let any = Self.judge(content, ResponseSerialization(kinds: [.json], removesNulls: removesNulls)).0
        guard case .accepted = any else {
          Issue.record("\(text) is refused where any is taken")
          return
        }
        let container = ResponseSerialization(kinds: [.json], removesNulls: removesNulls, jsonRoot: .container)
        switch (Self.judge(content, container).0, seen) {
        case (.accepted, nil): break
        case (.violation(let violation), .some(let seen)): #expect(violation.seen.hasSuffix("found \(seen)"))
        default: Issue.record("\(text)")
        }
      }
    }
  }
}

// Encodings other than UTF-8: what parameters become in them, how forms in them are read, and which are refused. The
// expected bytes are those of Python's codecs, which share nothing with iconv(3).

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct TextEncodingTests {
  private static func encoding(_ name: String) throws -> TextEncoding { try TextEncoding.find(name).get() }

  private static func parameters(_ text: String) -> [ParameterEntry] {
    [ParameterEntry(key: Array("k".utf8), value: .string(Array(text.utf8)))]
  }

  private static func serialization(
    _ name: String, _ text: String, _ format: RequestSerialization.Format = .http, transcodes: Bool = false
  ) throws -> RequestSerialization {
    RequestSerialization(
      format: format, parameters: text.isEmpty ? [] : parameters(text), transcodes: transcodes,
      encoding: try encoding(name))
  }

  /// `urllib.parse.quote(text, safe="-._~/?", encoding=name)`
  static let texts: [(name: String, text: String, query: String)] = [
    ("gb18030", "查询€ä😀", "%B2%E9%D1%AF%A2%E3%810%8A1%949%FC6"),
    ("GBK", "查询丂", "%B2%E9%D1%AF%81%40"),
    ("big5", "許功蓋", "%B3%5C%A5%5C%BB%5C"),
    ("Shift_JIS", "表示ｱ", "%95%5C%8E%A6%B1"),
    ("latin1", "Größe÷", "Gr%F6%DFe%F7"),
    ("KOI8-R", "привет", "%D0%D2%C9%D7%C5%D4"),
    ("euc-kr", "한글", "%C7%D1%B1%DB"),
    ("windows-1252", "€œ", "%80%9C"),
    ("latin1", "plain /?&=+%", "plain%20/?%26%3D%2B%25"),
    ("gb18030", "", ""),
  ]

  @Test func textsAreWrittenAndReadBack() throws {
    for row in Self.texts {
      let encoding = try Self.encoding(row.name)
      let query = try Self.serialization(row.name, row.text).query
      #expect(query.span.string == (row.text.isEmpty ? "" : "k=" + row.query), "\(row.name)")
      let read = try FormDecoding.decode(query.span, QueryStyle(), encoding: encoding).get()
      #expect(read == (row.text.isEmpty ? [] : Self.parameters(row.text)), "\(row.name)")
    }
  }

  @Test func namesOfFieldsAreInTheEncodingToo() throws {
    let encoding = try Self.encoding("gbk")
    let tree: ParameterValue = ["查": ["询": ["1"]]]
    let serialization = RequestSerialization(parameters: tree.entries, encoding: encoding)
    #expect(serialization.query.span.string == "%B2%E9%5B%D1%AF%5D%5B%5D=1")
    let read = try FormDecoding.decode(serialization.query.span, QueryStyle(), encoding: encoding).get()
    #expect(ParameterValue.dictionary(read) == tree)
  }

  /// The second byte of `功` in Big5 is a backslash, that of `丂` in GBK `@`: no byte of a character is taken for another.
  @Test func bytesOfACharacterSeparateNothing() throws {
    let encoding = try Self.encoding("shift_jis")
    // 0x83 0x5B is ゼ, whose second byte is a bracket.
    let read = try FormDecoding.decode(octets("a%83%5B=1&%83%5B%5Bb%5D=2").span, QueryStyle(), encoding: encoding).get()
    #expect(ParameterValue.dictionary(read) == ["aゼ": "1", "ゼ": ["b": "2"]])
  }

  static let refused: [(name: String, fault: TextEncoding.Fault)] = [
    ("", .malformed), ("gbk//TRANSLIT", .malformed), ("gbk//IGNORE", .malformed), ("../gbk", .malformed),
    ("gb 18030", .malformed), ("gbk\u{0}", .malformed), ("ÜTF", .malformed),
    (String(repeating: "a", count: 81), .malformed), ("klingon", .unknown),
    (String(repeating: "a", count: 80), .unknown),
    ("UTF-16", .notASCII), ("UTF-16LE", .notASCII), ("UCS-4", .notASCII), ("UTF-7", .notASCII),
    ("EBCDIC-US", .notASCII),
    ("ISO-2022-JP", .notASCII), ("ISO-2022-KR", .notASCII),
  ]

  @Test func encodingsThatFormsCannotBeWrittenInAreRefused() {
    for row in Self.refused {
      guard case .failure(let fault) = TextEncoding.find(row.name) else {
        Issue.record("\(row.name) is taken")
        continue
      }
      #expect(fault == row.fault, "\(row.name)")
    }
    #expect(TextEncoding.isUTF8("UTF-8") && TextEncoding.isUTF8("utf8") && !TextEncoding.isUTF8("gbk"))
  }

  static let unfit: [(name: String, form: String, offset: Int, seen: String)] = [
    ("gbk", "a=%B2", 2, "the byte 0xB2"), ("gbk", "a=x%FF%FF", 3, "the byte 0xFF"),
    ("gbk", "%B2%E9=1&%FF=2", 9, "the byte 0xFF"),
    ("big5", "a=%B3", 2, "the byte 0xB3"), ("shift_jis", "a=bc%A0", 4, "the byte 0xA0"),
    ("gb18030", "a=%810%8A", 2, "the byte 0x81"),
  ]

  @Test func aFormThatIsNotInTheEncodingIsAFaultWhereItShows() throws {
    for row in Self.unfit {
      let outcome = FormDecoding.decode(octets(row.form).span, QueryStyle(), encoding: try Self.encoding(row.name))
      guard case .failure(let fault) = outcome else {
        Issue.record("\(row)")
        continue
      }
      #expect(fault.offset == row.offset && fault.reason.hasPrefix("expected \(row.name), found "), "\(row): \(fault)")
    }
  }

  @Test func whatAnEncodingDoesNotHave() throws {
    let latin = try Self.encoding("latin1")
    #expect(latin.canEncode(Array("Größe".utf8)) && !latin.canEncode(Array("1 €".utf8)))
    #expect(latin.encode(Array("ä€".utf8)) == .failure(UnfitText(index: 2)))
    // No transliteration, whatever the locale.
    #expect(!(try Self.encoding("shift_jis")).canEncode(Array("ä".utf8)))
    #expect(try Self.encoding("gb18030").canEncode(Array("ä€😀\u{10ffff}".utf8)))
    // A surrogate is no UTF-8.
    #expect(!(try Self.encoding("gb18030")).canEncode([0xed, 0xa0, 0x80]))
  }

  @Test func textsOfEveryLengthAreConvertedWhole() throws {
    let encoding = try Self.encoding("gb18030")
    for count in [0, 1, 7, 31, 32, 33, 4096, 100_000] {
      let text = Array(String(repeating: "😀a", count: count).utf8)
      let encoded = try encoding.encode(text).get()
      #expect(encoded.count == count * 5)
      #expect(try encoding.decode(encoded).get() == text)
    }
  }

  @Test func threadsConvertAtOnce() async throws {
    let encoding = try Self.encoding("big5")
    let text = Array(String(repeating: "許功蓋", count: 100).utf8)
    await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<8 {
        group.addTask {
          (0..<50).allSatisfy { _ in
            guard case .success(let encoded) = encoding.encode(text) else { return false }
            return encoding.decode(encoded) == .success(text)
          }
        }
      }
      for await isRight in group { #expect(isRight) }
    }
  }

  // MARK: Bodies

  private static let form = "application/x-www-form-urlencoded"

  private func rewrite(_ serialization: RequestSerialization, _ type: String, _ body: [UInt8]) -> String {
    let head = Array("POST\(type)".utf8)
    var out = ByteBuffer()
    let limits = ContentLimits(heldBytes: 4096, jsonDepth: 8, imagePixels: 1)
    let outcome = serialization.rewrite(
      body.span, head.span, method: 0..<4, contentType: 4..<head.count, limits: limits, to: &out)
    switch outcome {
    case .success: return String(out.array.map { Character(Unicode.Scalar($0)) })
    case .failure(let conflict): return conflict.detail
    }
  }

  @Test func aFormGetsTheParametersInItsOwnEncoding() throws {
    let serialization = try Self.serialization("gbk", "查")
    let rows: [(type: String, merged: String)] = [
      (Self.form, "a=1&k=%B2%E9"), (Self.form + "; charset=GBK", "a=1&k=%B2%E9"),
      (Self.form + "; charset=utf-8", "a=1&k=%E6%9F%A5"), (Self.form + "; charset=us-ascii", "a=1&k=%E6%9F%A5"),
      (Self.form + "; charset=big5", "Expected a form in gbk or UTF-8, seen the charset big5."),
    ]
    for row in rows { #expect(rewrite(serialization, row.type, octets("a=1")) == row.merged, "\(row.type)") }
    #expect(serialization.contentType.span.string == Self.form + "; charset=gbk")
    #expect(serialization.body.span.string == "k=%B2%E9")
  }

  @Test func aBodyThatIsMadeIsInTheEncodingThatItsTypeSays() throws {
    let serialization = try Self.serialization("gbk", "查")
    func made(_ type: String?) -> String {
      let head = octets("POST" + (type ?? ""))
      return serialization.madeBody(type.map { _ in 4..<head.count }, in: head.span).span.string
    }
    #expect(made(nil) == "k=%B2%E9" && made(Self.form) == "k=%B2%E9")
    #expect(made(Self.form + "; charset=UTF-8") == "k=%E6%9F%A5")
  }

  @Test func aFormIsTranscodedFromItsEncoding() throws {
    let serialization = try Self.serialization("gbk", "", .json, transcodes: true)
    let utf8 = "{\"a\":\"查\"}".utf8.map { Character(Unicode.Scalar($0)) }
    #expect(rewrite(serialization, Self.form, octets("a=%B2%E9")) == String(utf8))
    #expect(rewrite(serialization, Self.form, octets("a=") + [0xb2, 0xe9]) == String(utf8))
    #expect(rewrite(serialization, Self.form + "; charset=utf-8", octets("a=%E6%9F%A5")) == String(utf8))
    #expect(
      rewrite(serialization, Self.form, octets("a=%FF"))
        .hasPrefix("Expected a form, seen a fault at byte 2: expected gbk, found "))
    // JSON and property lists are UTF-8, whatever forms are.
    #expect(serialization.contentType.span.string == "application/json")
  }

  @Test func partsAreInTheEncoding() throws {
    let type = "multipart/form-data; boundary=b"
    func part(_ name: [UInt8], _ more: String, _ value: [UInt8]) -> [UInt8] {
      octets("--b\r\nContent-Disposition: form-data; name=\"") + name + octets("\"\(more)\r\n\r\n") + value
        + octets("\r\n")
    }
    let end = octets("--b--\r\n")
    let http = try Self.serialization("gbk", "查")
    #expect(
      rewrite(http, type, end) == String((part([0x6b], "", [0xb2, 0xe9]) + end).map { Character(Unicode.Scalar($0)) }))
    let json = try Self.serialization("gbk", "", .json, transcodes: true)
    let read = "{\"查\":\"查\"}".utf8.map { Character(Unicode.Scalar($0)) }
    let name: [UInt8] = [0xb2, 0xe9]
    for (more, value) in [
      ("", name), ("\r\nContent-Type: text/plain; charset=GBK", name),
      ("\r\nContent-Type: text/plain; charset=utf-8", Array("查".utf8)),
    ] {
      #expect(rewrite(json, type, part(name, more, value) + end) == String(read), "\(more)")
    }
    let charset = part(octets("_charset_"), "", octets("gbk"))
    #expect(rewrite(json, type, charset + end) == "{\"_charset_\":\"gbk\"}")
    let faults: [[UInt8]] = [
      part(octets("_charset_"), "", octets("utf-8")), part(octets("a"), "", [0xff]),
      part([0xff], "", octets("a")), part(octets("a"), "\r\nContent-Type: text/plain; charset=big5", octets("a")),
    ]
    for fault in faults {
      #expect(rewrite(json, type, fault + end).hasPrefix("Expected multipart/form-data, seen a fault"))
    }
  }
}

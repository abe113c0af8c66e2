// Tests PropertyListWriting: the bytes that NSPropertyListSerialization would write, and what cannot be written.

import Bytes
import TestSupport
import Testing

@testable import Serialization

/// A key of ASCII with its value.
func entry(_ key: String, _ value: ParameterValue) -> ParameterEntry {
  ParameterEntry(key: Array(key.utf8), value: value)
}

func string(_ text: String) -> ParameterValue { .string(Array(text.utf8)) }

@Suite struct PropertyListWritingTests {
  private func written(_ parameters: [ParameterEntry]) -> String {
    var out = ByteBuffer()
    PropertyListWriting.write(parameters, to: &out)
    #expect(PropertyListCheck.check(out.bytes, charset: nil) == nil)
    return String(decoding: out.array, as: UTF8.self)
  }

  private static let opening = """
    <?xml version="1.0" encoding="UTF-8"?>
    <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
    <plist version="1.0">

    """

  @Test func everyKindOfValue() {
    let parameters = [
      entry("z", string("text")), entry("a", .integer(-5)), entry("real", .real(1.5)), entry("yes", .boolean(true)),
      entry("no", .boolean(false)), entry("none", .array([])), entry("nothing", .dictionary([])),
      entry(
        "tree", .dictionary([entry("list", .array([.integer(1), .array([.boolean(true)]), .dictionary([])]))])),
    ]
    #expect(
      written(parameters) == Self.opening + """
        <dict>
        \t<key>z</key>
        \t<string>text</string>
        \t<key>a</key>
        \t<integer>-5</integer>
        \t<key>real</key>
        \t<real>1.5</real>
        \t<key>yes</key>
        \t<true/>
        \t<key>no</key>
        \t<false/>
        \t<key>none</key>
        \t<array/>
        \t<key>nothing</key>
        \t<dict/>
        \t<key>tree</key>
        \t<dict>
        \t\t<key>list</key>
        \t\t<array>
        \t\t\t<integer>1</integer>
        \t\t\t<array>
        \t\t\t\t<true/>
        \t\t\t</array>
        \t\t\t<dict/>
        \t\t</array>
        \t</dict>
        </dict>
        </plist>

        """)
  }

  @Test func noParameters() {
    #expect(written([]) == Self.opening + "<dict/>\n</plist>\n")
  }

  static let texts: [(text: String, written: String)] = [
    ("", ""), ("plain", "plain"), ("a & b < c > d", "a &amp; b &lt; c &gt; d"), ("\"'", "\"'"),
    ("]]>", "]]&gt;"), ("&amp;", "&amp;amp;"), ("tab\tline\n", "tab\tline\n"), ("\r\n\r", "&#13;\n&#13;"),
    ("Grüße 😀", "Grüße 😀"), ("\u{7f}\u{85}\u{fffd}", "\u{7f}\u{85}\u{fffd}"),
  ]

  @Test(arguments: zip(texts.map(\.text), texts.map(\.written)))
  func textIsEscaped(text: String, expected: String) {
    #expect(
      written([entry(text, string(text))]) == Self.opening
        + "<dict>\n\t<key>\(expected)</key>\n\t<string>\(expected)</string>\n</dict>\n</plist>\n")
    #expect(PropertyListWriting.fault(in: [entry(text, string(text))]) == nil)
  }

  static let reals: [(real: Double, text: String)] = [
    (0, "0"), (-0.0, "-0"), (5, "5"), (-1.5, "-1.5"), (0.1, "0.1"), (1e21, "1e+21"), (1e-7, "1e-07"),
    (9_007_199_254_740_991, "9007199254740991"), (.pi, "3.141592653589793"),
    (.greatestFiniteMagnitude, "1.7976931348623157e+308"), (.leastNonzeroMagnitude, "5e-324"), (100, "100"),
  ]

  @Test(arguments: zip(reals.map(\.real), reals.map(\.text)))
  func realsAreShortAndReadBack(real: Double, expected: String) {
    #expect(
      written([entry("a", .real(real))])
        == Self.opening + "<dict>\n\t<key>a</key>\n\t<real>\(expected)</real>\n</dict>\n</plist>\n")
    #expect(Double(expected)?.bitPattern == real.bitPattern)
  }

  @Test(arguments: [.min, -1, 0, .max] as [Int64])
  func integers(integer: Int64) {
    #expect(written([entry("a", .integer(integer))]).contains("<integer>\(integer)</integer>"))
  }

  // MARK: What cannot be written

  private func nested(_ count: Int) -> ParameterValue {
    (0..<count).reduce(.boolean(true)) { value, _ in .array([value]) }
  }

  @Test func everyScalarIsWrittenOrRefused() {
    for value in 0...0xffff as ClosedRange<UInt32> {
      guard let scalar = Unicode.Scalar(value) else { continue }
      let isCharacter = [0x09, 0x0a, 0x0d].contains(value) || (0x20...0xfffd).contains(value)
      let fault = PropertyListWriting.fault(in: [entry("a", string(String(scalar)))])
      #expect((fault == nil) == isCharacter, "U+\(String(value, radix: 16))")
    }
  }

  @Test func theReasonNamesTheKey() {
    func fault(_ key: String, _ value: ParameterValue) -> String? {
      PropertyListWriting.fault(in: [entry("fine", .integer(1)), entry(key, value)])
    }
    #expect(fault("a", string("x\u{1}")) == "'a': expected characters that XML can carry, found U+0001")
    #expect(fault("a\u{0}", string("x")) == "'a?': expected characters that XML can carry, found U+0000")
    #expect(fault("a", string("\u{ffff}")) == "'a': expected characters that XML can carry, found U+FFFF")
    #expect(fault("a", .string([0xff])) == "'a': expected UTF-8, found other bytes")
    #expect(fault("a", .string([0xed, 0xa0, 0x80])) == "'a': expected UTF-8, found other bytes")
    #expect(fault("a", .array([.dictionary([entry("b\u{b}", .integer(1))])])) != nil)
    #expect(fault("a", .real(.nan)) == "'a': expected a real number that is finite, found nan")
    #expect(fault("a", .real(-.infinity)) == "'a': expected a real number that is finite, found -inf")
  }

  @Test func whatIsWrittenIsNeverTooDeep() {
    let deepest = [entry("a", nested(PropertyListWriting.deepestNesting))]
    #expect(PropertyListWriting.fault(in: deepest) == nil)
    _ = written(deepest)
    let fault = PropertyListWriting.fault(in: [entry("a", nested(PropertyListWriting.deepestNesting + 1))])
    #expect(fault == "'a': expected at most 509 arrays and dictionaries inside one another, found more")
    #expect(PropertyListWriting.fault(in: [entry("a", nested(5000))]) == fault)
  }
}

// Tests in what encoding a document is read: mark, charset, declaration, and every byte of the encodings of one byte.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct XMLEncodingTests {
  private func check(_ bytes: [UInt8], _ charset: String? = nil) -> String? {
    XMLCheck.check(bytes.span, charset: charset.map { Array($0.utf8) })?.sentence
  }

  /// The text of `bytes`, which are the key of a property list.
  private func text(_ bytes: [UInt8], encoding: String) -> String? {
    let body =
      octets("<?xml version='1.0' encoding='\(encoding)'?><plist><dict><key>") + bytes
      + octets("</key><true/></dict></plist>")
    let list = PropertyListXMLReader.read(body.span, charset: nil, keeping: .membersOfRoot)
    return list.members.first.map { String(decoding: $0.key, as: UTF8.self) }
  }

  // MARK: Which encoding it is

  static let latin = octets("<a>\u{e9}</a>")
  static let declaredLatin = octets("<?xml version='1.0' encoding='ISO-8859-1'?><a>\u{e9}</a>")
  static let declaredUTF8 = Array("<?xml version='1.0' encoding='UTF-8'?><a>é</a>".utf8)
  static let mark: [UInt8] = [0xef, 0xbb, 0xbf]

  static let taken: [(sentence: String, bytes: [UInt8], charset: String?)] = [
    ("UTF-8 without a word", Array("<a>é</a>".utf8), nil),
    ("a declaration", declaredLatin, nil),
    ("a declaration in small letters", octets("<?xml version='1.0' encoding='iso-8859-1'?><a>\u{e9}</a>"), nil),
    ("a charset alone", latin, "ISO-8859-1"),
    ("a charset that overrules the declaration", declaredLatin, "windows-1252"),
    ("a charset that overrules a declaration of UTF-8", latin, "latin1"),
    ("a charset that overrules an unknown declaration", octets("<?xml version='1.0' encoding='x-y'?><a/>"), "utf-8"),
    ("a mark that overrules the charset", mark + Array("<a>é</a>".utf8), "us-ascii"),
    ("a mark that overrules an unknown charset", mark + Array("<a>é</a>".utf8), "x-unknown"),
    (
      "a mark that overrules the declaration",
      mark + octets("<?xml version='1.0' encoding='US-ASCII'?>") + Array("<a>é</a>".utf8), nil
    ),
    ("UTF-8 by the name that is not registered", Array("<a>é</a>".utf8), "utf8"),
    (
      "a declaration of the name that is not registered", Array("<?xml version='1.0' encoding='utf8'?><a>é</a>".utf8),
      nil
    ),
    (
      "a declaration of another name of ISO-8859-1", octets("<?xml version='1.0' encoding='latin1'?><a>\u{e9}</a>"), nil
    ),
    ("US-ASCII", octets("<a>e</a>"), "us-ascii"),
    ("UTF-16 with the large end first", utf16("<a>é😀</a>", bigEndian: true), nil),
    ("UTF-16 with the small end first", utf16("<a>é😀</a>", bigEndian: false), nil),
    ("UTF-16 with a declaration", utf16("<?xml version='1.0' encoding='UTF-16'?><a/>", bigEndian: false), nil),
    ("UTF-16 whose mark overrules the charset", utf16("<a>é</a>", bigEndian: true), "utf-8"),
    ("UTF-16 by charset", utf16("<a>é</a>", bigEndian: true), "UTF-16"),
    ("UTF-16BE by charset, without a mark", utf16("<a>é</a>", bigEndian: true, mark: false), "utf-16be"),
    ("UTF-16LE by charset, without a mark", utf16("<a>é</a>", bigEndian: false, mark: false), "UTF-16LE"),
    ("UTF-16 by charset, without a mark", utf16("<a>é</a>", bigEndian: true, mark: false), "utf-16"),
    ("UTF-16 without a word", utf16("<a>é</a>", bigEndian: false, mark: false), nil),
  ]

  static let refused: [(sentence: String, bytes: [UInt8], charset: String?, fault: String)] = [
    ("ISO-8859-1 without a word", latin, nil, "line 1, column 4: expected well-formed XML, found the byte 0xe9"),
    (
      "ISO-8859-1 under a mark of UTF-8", mark + latin, "ISO-8859-1",
      "line 1, column 5: expected well-formed XML, found the byte 0xe9"
    ),
    (
      "UTF-8 as US-ASCII", Array("<a>é</a>".utf8), "us-ascii",
      "line 1, column 4: expected well-formed XML, found the byte 0xc3"
    ),
    (
      "UTF-8 by charset, ISO-8859-1 by declaration and bytes", declaredLatin, "utf-8",
      "line 1, column 47: expected well-formed XML, found the byte 0xe9"
    ),
    ("an unknown charset", latin, "x-unknown", "byte 0: expected a known encoding, found 'x-unknown'"),
    ("an empty charset", latin, "", "byte 0: expected a known encoding, found ''"),
    ("a charset of no printable letters", latin, "\u{1}", "byte 0: expected a known encoding, found '?'"),
    (
      "an unknown declaration", octets("<?xml version='1.0' encoding='x-unknown'?><a/>"), nil,
      "line 1, column 1: expected a known encoding, found 'x-unknown'"
    ),
    (
      "UTF-7, which hides its markup", octets("<?xml version='1.0' encoding='UTF-7'?>+ADw-a/+AD4-"), nil,
      "line 1, column 1: expected a known encoding, found 'UTF-7'"
    ),
    (
      "EBCDIC, as bytes of nothing", octets("\u{4c}\u{6f}\u{a7}\u{94}\u{93}"), nil,
      "line 1, column 3: expected well-formed XML, found the byte 0xa7"
    ),
    (
      "UTF-32", [0xff, 0xfe, 0, 0] + octets("<\0\0\0a\0\0\0"), nil,
      "line 1, column 2: expected well-formed XML, found the byte 0x00"
    ),
    (
      "a declaration of UTF-16 in bytes of 8 bits", octets("<?xml version='1.0' encoding='UTF-16'?><a/>"), nil,
      "line 1, column 31: expected the encoding that the XML declaration names, found another"
    ),
    (
      "a declaration of UTF-16BE in UTF-16LE without a mark",
      utf16("<?xml version='1.0' encoding='UTF-16BE'?><a/>", bigEndian: false, mark: false), nil,
      "line 1, column 31: expected the encoding that the XML declaration names, found another"
    ),
    (
      "half a character of UTF-16", utf16("<a/>", bigEndian: true) + [0], nil,
      "line 1, column 6: expected the rest of what begins here, found the end"
    ),
    (
      "half of a pair of surrogates before a letter",
      utf16("<a>\r\n\nb😀", bigEndian: false) + [0, 0xd8] + utf16("c</a>", bigEndian: false, mark: false), nil,
      "line 3, column 3: expected a pair of surrogates, found one alone"
    ),
    (
      "the second half of a pair of surrogates",
      utf16("<a>", bigEndian: false) + [0, 0xdc] + utf16("</a>", bigEndian: false, mark: false), nil,
      "line 1, column 5: expected a pair of surrogates, found one alone"
    ),
    (
      "half of a pair of surrogates",
      utf16("<a>", bigEndian: true) + [0xd8, 0] + utf16("</a>", bigEndian: true, mark: false), nil,
      "line 1, column 5: expected a pair of surrogates, found one alone"
    ),
    (
      "a byte that windows-1252 leaves out", octets("<a>\u{81}</a>"), "windows-1252",
      "line 1, column 4: expected well-formed XML, found the byte 0x81"
    ),
    (
      "UTF-16 without markup", utf16("<a></b>", bigEndian: true), nil,
      "line 1, column 7: expected the end tag of the open element, found another"
    ),
    (
      "UTF-16 on a later line", utf16("<a>\n😀<</a>", bigEndian: false), nil,
      "line 2, column 3: expected well-formed XML, found '<'"
    ),
  ]

  @Test(
    arguments: taken.map {
      CheckedBody(sentence: $0.sentence, bytes: $0.bytes, charset: $0.charset.map { Array($0.utf8) })
    })
  func isTaken(body: CheckedBody) {
    let memory = GuardedMemory(capacity: 4096)
    #expect(memory.lend(body.bytes) { XMLCheck.check($0, charset: body.charset) }?.sentence == nil)
    for count in 0..<body.bytes.count {
      let fault = memory.lend(body.bytes.prefix(count)) { XMLCheck.check($0, charset: body.charset) }
      #expect(fault != nil, "the first \(count) bytes")
    }
  }

  @Test(
    arguments: refused.map {
      CheckedBody(sentence: $0.sentence, bytes: $0.bytes, charset: $0.charset.map { Array($0.utf8) }, fault: $0.fault)
    })
  func isRefused(body: CheckedBody) {
    #expect(XMLCheck.check(body.bytes.span, charset: body.charset)?.sentence == body.fault)
  }

  // MARK: Encodings of one byte

  private static let controls = String(String.UnicodeScalarView((0x80...0x9f).map { Unicode.Scalar(UInt8($0)) }))

  /// What the bytes from 0x80 and from 0xa0 on stand for; NUL: nothing.
  static let tables: [(name: String, from80: String, fromA0: String)] = [
    ("iso-8859-1", controls, String(String.UnicodeScalarView((0xa0...0xff).map { Unicode.Scalar(UInt8($0)) }))),
    (
      "windows-1250", "€\0‚\0„…†‡\0‰Š‹ŚŤŽŹ\0‘’“”•–—\0™š›śťžź",
      "\u{a0}ˇ˘Ł¤Ą¦§¨©Ş«¬\u{ad}®Ż°±˛ł´µ¶·¸ąş»Ľ˝ľżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙"
    ),
    (
      "windows-1251", "ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—\0™љ›њќћџ",
      "\u{a0}ЎўЈ¤Ґ¦§Ё©Є«¬\u{ad}®Ї°±Ііґµ¶·ё№є»јЅѕїАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя"
    ),
    (
      "windows-1252", "€\0‚ƒ„…†‡ˆ‰Š‹Œ\0Ž\0\0‘’“”•–—˜™š›œ\0žŸ",
      "\u{a0}¡¢£¤¥¦§¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ"
    ),
    (
      "iso-8859-2", controls,
      "\u{a0}Ą˘Ł¤ĽŚ§¨ŠŞŤŹ\u{ad}ŽŻ°ą˛ł´ľśˇ¸šşťź˝žżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙"
    ),
    (
      "iso-8859-9", controls,
      "\u{a0}¡¢£¤¥¦§¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏĞÑÒÓÔÕÖ×ØÙÚÛÜİŞßàáâãäåæçèéêëìíîïğñòóôõö÷øùúûüışÿ"
    ),
    (
      "iso-8859-15", controls,
      "\u{a0}¡¢£€¥Š§š©ª«¬\u{ad}®¯°±²³Žµ¶·ž¹º»ŒœŸ¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ"
    ),
  ]

  struct Table: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let scalars: [Unicode.Scalar]
  }

  @Test(
    arguments: tables.map { Table(testDescription: $0.name, scalars: Array(($0.from80 + $0.fromA0).unicodeScalars)) })
  func standsForItsTable(table: Table) {
    #expect(table.scalars.count == 128)
    for (index, scalar) in table.scalars.enumerated() {
      let expected = scalar == "\0" ? nil : String(scalar)
      #expect(text([UInt8(0x80 + index)], encoding: table.testDescription) == expected, "byte \(0x80 + index)")
    }
    let ascii = octets("azAZ09 ~")
    #expect(text(ascii, encoding: table.testDescription) == "azAZ09 ~")
  }
}

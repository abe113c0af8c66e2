// XBM: images of Pillow, ImageMagick and netpbm, and texts written here.

import Bytes
import Images
import TestSupport
import Testing

@Suite struct ImageXBMTests {
  private static let specimens = [
    ImageSpecimen(
      "from Pillow", pixels: 20,
      """
      I2RlZmluZSBpbV93aWR0aCA1CiNkZWZpbmUgaW1faGVpZ2h0IDQKc3RhdGljIGNoYXIgaW1fYml0c1tdID0gewoweDAwLDB4MDgsMHgxYSwweDBh
      Cn07Cg==
      """),
    ImageSpecimen(
      "with a hot spot", pixels: 20,
      """
      I2RlZmluZSBpbV93aWR0aCA1CiNkZWZpbmUgaW1faGVpZ2h0IDQKI2RlZmluZSBpbV94X2hvdCAxCiNkZWZpbmUgaW1feV9ob3QgMgpzdGF0aWMg
      Y2hhciBpbV9iaXRzW10gPSB7CjB4MDAsMHgwOCwweDFhLDB4MGEKfTsK
      """),
    ImageSpecimen(
      "from ImageMagick", pixels: 20,
      """
      I2RlZmluZSBpbV93aWR0aCA1CiNkZWZpbmUgaW1faGVpZ2h0IDQKc3RhdGljIGNoYXIgaW1fYml0c1tdID0gewogIDB4MUYsIDB4MTcsIDB4MDUs
      IDB4MTUsIH07Cg==
      """),
    ImageSpecimen(
      "from netpbm", pixels: 20,
      """
      I2RlZmluZSBiX3dpZHRoIDUKI2RlZmluZSBiX2hlaWdodCA0CnN0YXRpYyBjaGFyIGJfYml0c1tdID0gewogMHgxZiwweDE3LDB4MDUsMHgxNX07
      Cg==
      """),
    ImageSpecimen(
      "from netpbm, of X10", pixels: 20,
      """
      I2RlZmluZSBub25hbWVfd2lkdGggNQojZGVmaW5lIG5vbmFtZV9oZWlnaHQgNApzdGF0aWMgc2hvcnQgbm9uYW1lX2JpdHNbXSA9IHsKIDB4MDAx
      ZiwweDAwMTcsMHgwMDA1LDB4MDAxNX07Cg==
      """),
  ]

  // MARK: Texts written here

  private static let dimensions = "#define a_width 5\n#define a_height 2\n"
  private static let array = "static char a_bits[] = {"

  private static func image(_ sentence: String, _ text: String) -> ImageSpecimen {
    ImageSpecimen(sentence, pixels: 10, bytes: octets(text))
  }

  private static let made = [
    image("no more blanks than needed", dimensions + "static char a_bits[]={0x1,0x2};"),
    image("capitals", dimensions + array + "0X1F,0xaB};"),
    image("a number of values", dimensions + "static unsigned char a_bits[2] = {0x1,0x2};"),
    image("a type of its own words", dimensions + "static const unsigned char\na_bits [ 2 ] = { 0x01 , 0x02 } ;"),
    image("a comma behind the last value", dimensions + array + "0x1,0x2,};"),
    image("a name without a prefix", "#define width 5\n#define height 2\nstatic char bits[] = {0x1,0x2};"),
    image(
      "a name of a file name", "#define a-b.c_width 5\n#define a-b.c_height 2\nstatic char a-b.c_bits[] = {0x1,0x2};"),
    image(
      "lines that end with CR LF",
      "#define a_width 5\r\n#define a_height 2\r\nstatic char a_bits[] = {\r\n0x1,\r\n0x2};"),
    image("a hot spot that is none", dimensions + "#define a_x_hot -1\n#define a_y_hot -1\n" + array + "0x1,0x2};"),
    image("the height first", "#define a_height 2\n#define a_width 5\n" + array + "0x1,0x2};"),
    image(
      "comments wherever they may stand",
      "/* GIMP **/ #define a_width 5 /* c */\n/**/#define a_height 2\n"
        + "/* */static char a_bits[] = {/* 0x9, */0x1/**/,0x2};"
    ),
    image("tabs", "\t#define\ta_width\t5\n#define a_height 2\n" + array + "0x1,\t0x2};"),
    image("X10", dimensions + "static short a_bits[] = {0x1f1f,0x2};"),
  ]

  private static let faults: [(sentence: String, text: String, reason: String, place: String)] = [
    (
      "no width", "#define a_height 2\n" + array + "0x1,0x2};",
      "expected definitions of a width and a height, found 's'", "2:1"
    ),
    (
      "no height", "#define a_width 5\n" + array + "0x1,0x2};",
      "expected definitions of a width and a height, found 's'", "2:1"
    ),
    (
      "a width of 0", "#define a_width 0\n#define a_height 2\n" + array + "};",
      "expected a width and a height above 0, found 0 x 2", "3:1"
    ),
    ("a negative width", "#define a_width -5\n#define a_height 2\n", "expected one width above 0, found 0xa", "1:19"),
    ("a negative height", "#define a_width 5\n#define a_height -2\n", "expected one height above 0, found 0xa", "2:20"),
    ("two widths", dimensions + "#define b_width 5\n" + array, "expected one width above 0, found 0xa", "3:18"),
    ("two heights", dimensions + "#define b_height 5\n" + array, "expected one height above 0, found 0xa", "3:19"),
    ("a width that is no number", "#define a_width x\n", "expected a number of 1 to 9 digits, found 'x'", "1:17"),
    ("a width of ten digits", "#define a_width 1234567890\n", "expected a number of 1 to 9 digits, found '0'", "1:26"),
    ("a width with something behind it", "#define a_width 5x\n", "expected the end of a definition, found 'x'", "1:18"),
    ("a definition without a name", "#define\n", "expected a space, found 0xa", "1:8"),
    ("a definition without a value", "#define a_width\n", "expected a space, found 0xa", "1:16"),
    ("another directive", dimensions + "#include <a>\n", "expected '#define', found '#'", "3:1"),
    (
      "many pixels", "#define a_width 60000\n#define a_height 60000\n" + array,
      "60000 x 60000 pixels, above the limit of 1000000", "3:1"
    ),
    ("no array", dimensions, "expected an array of bits, found the end", "3:1"),
    (
      "an array of something else", dimensions + "static char a_data[] = {0x1,0x2};",
      "expected an array of bits, found '['", "3:19"
    ),
    (
      "an array of another type", dimensions + "static long a_bits[] = {0x1,0x2};",
      "expected an array of bits, found '['", "3:19"
    ),
    ("no name of an array", dimensions + "= {0x1,0x2};", "expected the name of an array, found '='", "3:1"),
    (
      "a comment that does not end", dimensions + "static /* char a_bits[] = {0x1,0x2};",
      "expected the name of an array, found '/'", "3:8"
    ),
    ("no bracket", dimensions + "static char a_bits = {0x1,0x2};", "expected the name of an array, found '='", "3:20"),
    ("no closing bracket", dimensions + "static char a_bits[ = {0x1,0x2};", "expected ']', found '='", "3:21"),
    ("no equals sign", dimensions + "static char a_bits[] {0x1,0x2};", "expected '=', found '{'", "3:22"),
    ("no brace", dimensions + "static char a_bits[] = 0x1,0x2};", "expected '{', found '0'", "3:24"),
    ("no values", dimensions + array + "};", "expected 2 values in hexadecimal, and behind 0, found '}'", "3:25"),
    ("a value less", dimensions + array + "0x1};", "expected ',', found '}'", "3:28"),
    (
      "a value less behind a comma", dimensions + array + "0x1,};",
      "expected 2 values in hexadecimal, and behind 1, found '}'", "3:29"
    ),
    ("a value more", dimensions + array + "0x1,0x2,0x3};", "expected '}', found '0'", "3:33"),
    (
      "a decimal value", dimensions + array + "1,2};", "expected 2 values in hexadecimal, and behind 0, found '1'",
      "3:25"
    ),
    ("a value without digits", dimensions + array + "0x,0x2};", "expected a value of 1 to 2 digits, found ','", "3:27"),
    (
      "a value of three digits", dimensions + array + "0x100,0x2};", "expected a value of 1 to 2 digits, found ','",
      "3:30"
    ),
    ("a value with a letter", dimensions + array + "0x1g,0x2};", "expected ',', found 'g'", "3:28"),
    (
      "two commas", dimensions + array + "0x1,,0x2};", "expected 2 values in hexadecimal, and behind 1, found ','",
      "3:29"
    ),
    ("no closing brace", dimensions + array + "0x1,0x2;", "expected '}', found ';'", "3:32"),
    ("no semicolon", dimensions + array + "0x1,0x2}\n", "expected ';', found the end", "4:1"),
    (
      "something behind it", dimensions + array + "0x1,0x2};\nint a;", "expected the end of the image, found 'i'", "4:1"
    ),
    ("a NUL behind it", dimensions + array + "0x1,0x2};\u{0}", "expected the end of the image, found 0x0", "3:34"),
  ]

  /// A row of the table of faults, shown by its sentence.
  struct Text: Sendable, CustomTestStringConvertible {
    let sentence: String
    let bytes: [UInt8]
    let fault: String

    var testDescription: String { sentence }
  }

  @Test(arguments: specimens + made)
  func isAccepted(image: ImageSpecimen) {
    // Line feeds behind the semicolon may be missing, and another may be there.
    let end = (image.bytes.lastIndex(of: UInt8(ascii: ";")) ?? 0) + 1
    expectImage(image, behind: .refused, prefixes: end...image.bytes.count)
  }

  @Test(
    arguments: faults.map { row in
      let numbers = row.place.split(separator: ":")
      return Text(
        sentence: row.sentence, bytes: octets(row.text),
        fault: "line \(numbers[0]), column \(numbers[1]): \(row.reason)")
    })
  func isRefused(text: Text) {
    let memory = GuardedMemory(capacity: 4096)
    func check(_ count: Int) -> ContentFault? {
      memory.lend(text.bytes.prefix(count)) { ImageCheck.check($0, maximumPixels: usualPixels) }
    }
    let fault = check(text.bytes.count)
    #expect(fault?.sentence == text.fault)
    for count in 0..<text.bytes.count {
      #expect(check(count) != nil || count <= fault?.offset ?? 0, "the first \(count) bytes")
    }
  }

  /// Comments that do not end, one within the other: each is looked for once.
  @Test func unendedCommentsDoNotMultiplyTheWork() {
    let bytes = octets(Self.dimensions + "static " + String(repeating: "/* ", count: 300_000))
    #expect(checkImage(bytes)?.offset == Self.dimensions.utf8.count + 7)
    let spaced = octets(Self.dimensions + "static " + String(repeating: "a /", count: 300_000))
    #expect(checkImage(spaced) != nil)
  }
}

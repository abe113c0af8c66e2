// JSON texts of every kind that is not valid, each with what is said of it: its line and column, what was expected
// there, and what was seen.

extension JSONText {
  static let refused: [JSONText] = structure + nesting + literals + numbers + strings + sequences

  private static let structure: [JSONText] = [
    JSONText("nothing", "", fault: "line 1, column 1: expected a value, found an empty body"),
    JSONText("a space", " ", fault: "line 1, column 2: expected a value, found nothing but white space"),
    JSONText("white space", "\n \t\r\n", fault: "line 3, column 1: expected a value, found nothing but white space"),
    JSONText(
      "a byte order mark", "\u{ef}\u{bb}\u{bf}{}",
      fault: "line 1, column 1: expected a value, found a byte order mark, which JSON does not allow"),
    JSONText(
      "a byte order mark alone", "\u{ef}\u{bb}\u{bf}",
      fault: "line 1, column 1: expected a value, found a byte order mark, which JSON does not allow"),
    JSONText(
      "a byte order mark behind a space", " \u{ef}\u{bb}\u{bf}1",
      fault: "line 1, column 2: expected a value, found the byte 0xef"),
    JSONText("UTF-16", "\u{ff}\u{fe}[\u{0}]\u{0}", fault: "line 1, column 1: expected a value, found the byte 0xff"),
    JSONText(
      "UTF-16 without a mark", "[\u{0}]\u{0}",
      fault: "line 1, column 2: expected a value or ']' behind '[', found the byte 0x00"),
    JSONText(
      "a NUL behind the value", "{}\u{0}",
      fault: "line 1, column 3: expected the end of the body behind the value, found the byte 0x00"),
    JSONText("a form feed", "\u{c}1", fault: "line 1, column 1: expected a value, found the byte 0x0c"),
    JSONText(
      "a vertical tab", "[1\u{b}]",
      fault: "line 1, column 3: expected ',' or ']' behind an element, found the byte 0x0b"),
    JSONText(
      "a no-break space", "[\u{c2}\u{a0}1]",
      fault: "line 1, column 2: expected a value or ']' behind '[', found the byte 0xc2"),
    JSONText("two values", "1 2", fault: "line 1, column 3: expected the end of the body behind the value, found '2'"),
    JSONText(
      "two objects", "{}{}", fault: "line 1, column 3: expected the end of the body behind the value, found '{'"),
    JSONText(
      "two lines", "{}\n{}\n", fault: "line 2, column 1: expected the end of the body behind the value, found '{'"),
    JSONText(
      "a comma behind the value", "[],",
      fault: "line 1, column 3: expected the end of the body behind the value, found ','"),
    JSONText(
      "a bracket too many", "[]]", fault: "line 1, column 3: expected the end of the body behind the value, found ']'"),
    JSONText(
      "a brace too many", "{}}", fault: "line 1, column 3: expected the end of the body behind the value, found '}'"),
    JSONText("a comment", "/**/1", fault: "line 1, column 1: expected a value, found '/'"),
    JSONText(
      "a comment behind the value", "1 // one",
      fault: "line 1, column 3: expected the end of the body behind the value, found '/'"),
    JSONText(
      "a comment behind an element", "[1 /* one */]",
      fault: "line 1, column 4: expected ',' or ']' behind an element, found '/'"),
    JSONText("a closing bracket alone", "]", fault: "line 1, column 1: expected a value, found ']'"),
    JSONText("a comma alone", ",", fault: "line 1, column 1: expected a value, found ','"),
    JSONText("a colon alone", ":", fault: "line 1, column 1: expected a value, found ':'"),
    JSONText("markup", "<html>", fault: "line 1, column 1: expected a value, found '<'"),
    JSONText("a callback", "callback({})", fault: "line 1, column 1: expected a value, found 'c'"),
    JSONText("the prefix against script inclusion", ")]}'\n{}", fault: "line 1, column 1: expected a value, found ')'"),

    JSONText(
      "an array without an end", "[",
      fault: "line 1, column 2: expected a value or ']' behind '[', found the end of the body"),
    JSONText(
      "an array that ends in white space", "[ \n",
      fault: "line 2, column 1: expected a value or ']' behind '[', found the end of the body"),
    JSONText(
      "an element without an end", "[1",
      fault: "line 1, column 3: expected ',' or ']' behind an element, found the end of the body"),
    JSONText(
      "a comma at the end of the body", "[1,",
      fault: "line 1, column 4: expected a value behind ',', found the end of the body"),
    JSONText("a comma before the end", "[1,]", fault: "line 1, column 4: expected a value behind ',', found ']'"),
    JSONText(
      "a comma and white space before the end", "[1,\n]",
      fault: "line 2, column 1: expected a value behind ',', found ']'"),
    JSONText("a comma first", "[,1]", fault: "line 1, column 2: expected a value or ']' behind '[', found ','"),
    JSONText(
      "a comma alone in an array", "[,]", fault: "line 1, column 2: expected a value or ']' behind '[', found ','"),
    JSONText("two commas", "[1,,2]", fault: "line 1, column 4: expected a value behind ',', found ','"),
    JSONText("no comma", "[1 2]", fault: "line 1, column 4: expected ',' or ']' behind an element, found '2'"),
    JSONText(
      "no comma between strings", "[\"a\"\"b\"]",
      fault: "line 1, column 5: expected ',' or ']' behind an element, found '\"'"),
    JSONText(
      "no comma between containers", "[[]{}]",
      fault: "line 1, column 4: expected ',' or ']' behind an element, found '{'"),
    JSONText("a semicolon", "[1;2]", fault: "line 1, column 3: expected ',' or ']' behind an element, found ';'"),
    JSONText(
      "a member in an array", "[\"a\":1]", fault: "line 1, column 5: expected ',' or ']' behind an element, found ':'"),
    JSONText(
      "an array that a brace ends", "[1}", fault: "line 1, column 3: expected ',' or ']' behind an element, found '}'"),
    JSONText(
      "an empty array that a brace ends", "[}", fault: "line 1, column 2: expected a value or ']' behind '[', found '}'"
    ),

    JSONText(
      "an object without an end", "{",
      fault: "line 1, column 2: expected a key in quotes or '}' behind '{', found the end of the body"),
    JSONText("a key alone", "{\"a\"", fault: "line 1, column 5: expected ':' behind a key, found the end of the body"),
    JSONText("a key and nothing", "{\"a\"}", fault: "line 1, column 5: expected ':' behind a key, found '}'"),
    JSONText("a key without a value", "{\"a\":}", fault: "line 1, column 6: expected a value behind ':', found '}'"),
    JSONText(
      "a key, no more", "{\"a\":", fault: "line 1, column 6: expected a value behind ':', found the end of the body"),
    JSONText(
      "a member without an end", "{\"a\":1",
      fault: "line 1, column 7: expected ',' or '}' behind a member, found the end of the body"),
    JSONText("a key without a colon", "{\"a\" 1}", fault: "line 1, column 6: expected ':' behind a key, found '1'"),
    JSONText("an equals sign", "{\"a\"=1}", fault: "line 1, column 5: expected ':' behind a key, found '='"),
    JSONText("two colons", "{\"a\"::1}", fault: "line 1, column 6: expected a value behind ':', found ':'"),
    JSONText(
      "a colon between members", "{\"a\":1:\"b\"}",
      fault: "line 1, column 7: expected ',' or '}' behind a member, found ':'"),
    JSONText(
      "a comma before the end of an object", "{\"a\":1,}",
      fault: "line 1, column 8: expected a key in quotes behind ',', found '}'"),
    JSONText(
      "a comma at the end of the body in an object", "{\"a\":1,",
      fault: "line 1, column 8: expected a key in quotes behind ',', found the end of the body"),
    JSONText(
      "a comma first in an object", "{,\"a\":1}",
      fault: "line 1, column 2: expected a key in quotes or '}' behind '{', found ','"),
    JSONText(
      "two commas in an object", "{\"a\":1,,\"b\":2}",
      fault: "line 1, column 8: expected a key in quotes behind ',', found ','"),
    JSONText(
      "no comma between members", "{\"a\":1 \"b\":2}",
      fault: "line 1, column 8: expected ',' or '}' behind a member, found '\"'"),
    JSONText(
      "a bare key", "{a:1}", fault: "line 1, column 2: expected a key in quotes or '}' behind '{', found 'a'"),
    JSONText(
      "a key in single quotes", "{'a':1}",
      fault: "line 1, column 2: expected a key in quotes or '}' behind '{', found '''"),
    JSONText(
      "a number for a key", "{1:1}", fault: "line 1, column 2: expected a key in quotes or '}' behind '{', found '1'"),
    JSONText(
      "null for a key", "{null:1}", fault: "line 1, column 2: expected a key in quotes or '}' behind '{', found 'n'"),
    JSONText(
      "an array for a key", "{[]:1}", fault: "line 1, column 2: expected a key in quotes or '}' behind '{', found '['"),
    JSONText(
      "a value in an object", "{\"a\":1,2}", fault: "line 1, column 8: expected a key in quotes behind ',', found '2'"),
    JSONText(
      "an object that a bracket ends", "{\"a\":1]",
      fault: "line 1, column 7: expected ',' or '}' behind a member, found ']'"),
    JSONText(
      "an empty object that a bracket ends", "{]",
      fault: "line 1, column 2: expected a key in quotes or '}' behind '{', found ']'"),
    JSONText(
      "containers that end crosswise", "[{\"a\":[1}]]",
      fault: "line 1, column 9: expected ',' or ']' behind an element, found '}'"),
    JSONText(
      "a fault behind containers that ended", "{\"a\":[{}],\"b\":[1}}",
      fault: "line 1, column 17: expected ',' or ']' behind an element, found '}'"),
  ]

  private static let nesting: [JSONText] = [
    JSONText(
      "an array too deep", String(repeating: "[", count: depth + 1) + String(repeating: "]", count: depth + 1),
      fault: "line 1, column 21: expected at most 20 arrays and objects inside one another, found one more"),
    JSONText(
      "an object too deep", String(repeating: "{\"a\":", count: depth) + "{}" + String(repeating: "}", count: depth),
      fault: "line 1, column 101: expected at most 20 arrays and objects inside one another, found one more"),
    JSONText(
      "a second array too deep",
      String(repeating: "[", count: depth) + "],[[" + String(repeating: "]", count: depth + 1),
      fault: "line 1, column 24: expected at most 20 arrays and objects inside one another, found one more"),
    JSONText(
      "a thousand brackets", String(repeating: "[", count: 1000),
      fault: "line 1, column 21: expected at most 20 arrays and objects inside one another, found one more"),
  ]

  private static let literals: [JSONText] = [
    JSONText("True", "True", fault: "line 1, column 1: expected a value, found 'T'"),
    JSONText("NULL", "[NULL]", fault: "line 1, column 2: expected a value or ']' behind '[', found 'N'"),
    JSONText("undefined", "[undefined]", fault: "line 1, column 2: expected a value or ']' behind '[', found 'u'"),
    JSONText("NaN", "[NaN]", fault: "line 1, column 2: expected a value or ']' behind '[', found 'N'"),
    JSONText("Infinity", "[Infinity]", fault: "line 1, column 2: expected a value or ']' behind '[', found 'I'"),
    JSONText("minus Infinity", "[-Infinity]", fault: "line 1, column 3: expected a digit behind '-', found 'I'"),
    JSONText("nan", "[nan]", fault: "line 1, column 3: expected 'null', found 'a'"),
    JSONText("a literal cut short", "[tru]", fault: "line 1, column 5: expected 'true', found ']'"),
    JSONText("a literal and the end", "nul", fault: "line 1, column 4: expected 'null', found the end of the body"),
    JSONText("a literal with a capital", "[fAlse]", fault: "line 1, column 3: expected 'false', found 'A'"),
    JSONText(
      "a literal that goes on", "[nulls]", fault: "line 1, column 6: expected ',' or ']' behind an element, found 's'"),
    JSONText(
      "a literal alone that goes on", "truee",
      fault: "line 1, column 5: expected the end of the body behind the value, found 'e'"),
    JSONText(
      "two literals", "[true false]", fault: "line 1, column 7: expected ',' or ']' behind an element, found 'f'"),
    JSONText(
      "a literal before a string", "[null\"a\"]",
      fault: "line 1, column 6: expected ',' or ']' behind an element, found '\"'"),
    JSONText(
      "a literal above ASCII", "[\u{ef}\u{bd}\u{8e}ull]",
      fault: "line 1, column 2: expected a value or ']' behind '[', found the byte 0xef"),
  ]

  private static let numbers: [JSONText] = [
    JSONText("a minus alone", "-", fault: "line 1, column 2: expected a digit behind '-', found the end of the body"),
    JSONText("a minus in an array", "[-]", fault: "line 1, column 3: expected a digit behind '-', found ']'"),
    JSONText("a minus and a space", "[- 1]", fault: "line 1, column 3: expected a digit behind '-', found a space"),
    JSONText("two minuses", "[--1]", fault: "line 1, column 3: expected a digit behind '-', found '-'"),
    JSONText("a plus", "[+1]", fault: "line 1, column 2: expected a value or ']' behind '[', found '+'"),
    JSONText("a leading zero", "[01]", fault: "line 1, column 3: expected no digit behind a leading zero, found '1'"),
    JSONText(
      "a leading zero alone", "00", fault: "line 1, column 2: expected no digit behind a leading zero, found '0'"),
    JSONText(
      "a negative leading zero", "[-012]", fault: "line 1, column 4: expected no digit behind a leading zero, found '1'"
    ),
    JSONText("a point first", "[.5]", fault: "line 1, column 2: expected a value or ']' behind '[', found '.'"),
    JSONText("a point behind a minus", "[-.5]", fault: "line 1, column 3: expected a digit behind '-', found '.'"),
    JSONText("a point last", "[1.]", fault: "line 1, column 4: expected a digit behind '.', found ']'"),
    JSONText(
      "a point and the end", "1.", fault: "line 1, column 3: expected a digit behind '.', found the end of the body"),
    JSONText("a point before an exponent", "[1.e5]", fault: "line 1, column 4: expected a digit behind '.', found 'e'"),
    JSONText("two points", "[1.2.3]", fault: "line 1, column 5: expected ',' or ']' behind an element, found '.'"),
    JSONText(
      "two points behind one another", "[1..2]", fault: "line 1, column 4: expected a digit behind '.', found '.'"),
    JSONText("an exponent of nothing", "[1e]", fault: "line 1, column 4: expected a digit behind 'e', found ']'"),
    JSONText(
      "an exponent and the end", "1E", fault: "line 1, column 3: expected a digit behind 'E', found the end of the body"
    ),
    JSONText("an exponent of a sign", "[1e+]", fault: "line 1, column 5: expected a digit behind '+', found ']'"),
    JSONText(
      "an exponent with two signs", "[1e+-1]", fault: "line 1, column 5: expected a digit behind '+', found '-'"),
    JSONText(
      "an exponent with a point", "[1e1.5]", fault: "line 1, column 5: expected ',' or ']' behind an element, found '.'"
    ),
    JSONText("two exponents", "[1e1e1]", fault: "line 1, column 5: expected ',' or ']' behind an element, found 'e'"),
    JSONText(
      "a hexadecimal number", "[0x1F]", fault: "line 1, column 3: expected ',' or ']' behind an element, found 'x'"),
    JSONText(
      "a number with a letter", "[12a]", fault: "line 1, column 4: expected ',' or ']' behind an element, found 'a'"),
    JSONText(
      "a number with an underscore", "[1_000]",
      fault: "line 1, column 3: expected ',' or ']' behind an element, found '_'"),
    JSONText(
      "a number with a space", "[1 000]", fault: "line 1, column 4: expected ',' or ']' behind an element, found '0'"),
    JSONText(
      "a number with a minus behind it", "[1-2]",
      fault: "line 1, column 3: expected ',' or ']' behind an element, found '-'"),
    JSONText(
      "a number before a string", "[1\"a\"]",
      fault: "line 1, column 3: expected ',' or ']' behind an element, found '\"'"),
    JSONText(
      "a number with a NUL behind it", "1\u{0}",
      fault: "line 1, column 2: expected the end of the body behind the value, found the byte 0x00"),
    JSONText(
      "digits above ASCII", "[\u{ef}\u{bc}\u{91}]",
      fault: "line 1, column 2: expected a value or ']' behind '[', found the byte 0xef"),
  ]

  private static let strings: [JSONText] = [
    JSONText(
      "one quote", "\"", fault: "line 1, column 2: expected '\"' at the end of a string, found the end of the body"),
    JSONText(
      "a string without an end", "[\"abc",
      fault: "line 1, column 6: expected '\"' at the end of a string, found the end of the body"),
    JSONText(
      "a key without an end", "{\"abc",
      fault: "line 1, column 6: expected '\"' at the end of a string, found the end of the body"),
    JSONText(
      "a string whose end is escaped", "[\"abc\\\"]",
      fault: "line 1, column 9: expected '\"' at the end of a string, found the end of the body"),
    JSONText(
      "a string in single quotes", "['a']", fault: "line 1, column 2: expected a value or ']' behind '[', found '''"),
    JSONText(
      "a bare string", "[a\"]", fault: "line 1, column 2: expected a value or ']' behind '[', found 'a'"),
    JSONText(
      "an escape outside of a string", "[\\n]",
      fault: "line 1, column 2: expected a value or ']' behind '[', found '\\'"),
    JSONText(
      "a line feed in a string", "[\"a\nb\"]",
      fault: "line 1, column 4: expected control characters of a string to be escaped, found the byte 0x0a"),
    JSONText(
      "a tab in a string", "[\"\t\"]",
      fault: "line 1, column 3: expected control characters of a string to be escaped, found the byte 0x09"),
    JSONText(
      "a tab in a key", "{\"a\t\":1}",
      fault: "line 1, column 4: expected control characters of a string to be escaped, found the byte 0x09"),
    JSONText(
      "a NUL in a string", "[\"a\u{0}\"]",
      fault: "line 1, column 4: expected control characters of a string to be escaped, found the byte 0x00"),
    JSONText(
      "a unit separator in a string", "[\"12345678\u{1f}\"]",
      fault: "line 1, column 11: expected control characters of a string to be escaped, found the byte 0x1f"),
    JSONText(
      "a backslash at the end", "\"\\",
      fault: "line 1, column 3: expected one of '\"\\/bfnrtu' behind '\\', found the end of the body"),
    JSONText(
      "an escape of nothing known", "[\"\\x41\"]",
      fault: "line 1, column 4: expected one of '\"\\/bfnrtu' behind '\\', found 'x'"),
    JSONText(
      "an escape of a control character", "[\"\\a\"]",
      fault: "line 1, column 4: expected one of '\"\\/bfnrtu' behind '\\', found 'a'"),
    JSONText(
      "an escape in octal", "[\"\\0\"]", fault: "line 1, column 4: expected one of '\"\\/bfnrtu' behind '\\', found '0'"
    ),
    JSONText(
      "an escape of a single quote", "[\"\\'\"]",
      fault: "line 1, column 4: expected one of '\"\\/bfnrtu' behind '\\', found '''"),
    JSONText(
      "an escape in upper case", "[\"\\N\"]",
      fault: "line 1, column 4: expected one of '\"\\/bfnrtu' behind '\\', found 'N'"),
    JSONText(
      "an escape by number in upper case", "[\"\\U0041\"]",
      fault: "line 1, column 4: expected one of '\"\\/bfnrtu' behind '\\', found 'U'"),
    JSONText(
      "an escaped line feed", "[\"\\\n\"]",
      fault: "line 1, column 4: expected one of '\"\\/bfnrtu' behind '\\', found the byte 0x0a"),
    JSONText(
      "an escape above ASCII", "[\"\\\u{c3}\u{a9}\"]",
      fault: "line 1, column 4: expected one of '\"\\/bfnrtu' behind '\\', found the byte 0xc3"),
    JSONText(
      "an escape by no number", "[\"\\u\"]",
      fault: "line 1, column 5: expected four hexadecimal digits behind '\\u', found '\"'"),
    JSONText(
      "an escape by three digits", "[\"\\u004\"]",
      fault: "line 1, column 8: expected four hexadecimal digits behind '\\u', found '\"'"),
    JSONText(
      "an escape by no hexadecimal digit", "[\"\\u00g1\"]",
      fault: "line 1, column 7: expected four hexadecimal digits behind '\\u', found 'g'"),
    JSONText(
      "an escape by a number in braces", "[\"\\u{41}\"]",
      fault: "line 1, column 5: expected four hexadecimal digits behind '\\u', found '{'"),
    JSONText(
      "an escape by number that the body ends", "\"\\u12",
      fault: "line 1, column 6: expected four hexadecimal digits behind '\\u', found the end of the body"),
    JSONText(
      "a high surrogate alone", "[\"\\ud800\"]",
      fault: "line 1, column 9: expected the low surrogate of a pair behind the high one, found '\"'"),
    JSONText(
      "a high surrogate before text", "[\"\\uDBFFx\"]",
      fault: "line 1, column 9: expected the low surrogate of a pair behind the high one, found 'x'"),
    JSONText(
      "a high surrogate before an escape", "[\"\\ud800\\n\"]",
      fault: "line 1, column 9: expected the low surrogate of a pair behind the high one, found another escape"),
    JSONText(
      "a high surrogate before a character", "[\"\\ud800\\u0041\"]",
      fault: "line 1, column 9: expected the low surrogate of a pair behind the high one, found another escape"),
    JSONText(
      "a high surrogate before what follows the low ones", "[\"\\ud800\\ue000\"]",
      fault: "line 1, column 9: expected the low surrogate of a pair behind the high one, found another escape"),
    JSONText(
      "two high surrogates", "[\"\\ud800\\ud800\"]",
      fault: "line 1, column 9: expected the low surrogate of a pair behind the high one, found another escape"),
    JSONText(
      "a high surrogate before half an escape", "[\"\\ud800\\udc0\"]",
      fault: "line 1, column 9: expected the low surrogate of a pair behind the high one, found another escape"),
    JSONText(
      "a low surrogate alone", "[\"\\udc00\"]",
      fault: "line 1, column 3: expected the high surrogate of a pair, found a low one alone"),
    JSONText(
      "a pair in the wrong order", "[\"\\ude00\\ud83d\"]",
      fault: "line 1, column 3: expected the high surrogate of a pair, found a low one alone"),
    JSONText(
      "a low surrogate behind a pair", "[\"\\ud83d\\ude00\\ude00\"]",
      fault: "line 1, column 15: expected the high surrogate of a pair, found a low one alone"),
    JSONText(
      "a lone surrogate in a key", "{\"\\udfff\":1}",
      fault: "line 1, column 3: expected the high surrogate of a pair, found a low one alone"),
  ]

  private static let sequences: [JSONText] = [
    JSONText(
      "Latin-1", "[\"\u{e9}t\u{e9}\"]", fault: "line 1, column 4: expected a continuation byte of UTF-8, found 't'"),
    JSONText(
      "a continuation alone", "[\"\u{80}\"]",
      fault: "line 1, column 3: expected UTF-8, found a continuation byte without a lead"),
    JSONText(
      "a continuation too many", "[\"\u{c3}\u{a9}\u{bf}\"]",
      fault: "line 1, column 4: expected UTF-8, found a continuation byte without a lead"),
    JSONText(
      "a byte 0xff", "[\"\u{ff}\"]", fault: "line 1, column 3: expected UTF-8, found a byte that never occurs in it"),
    JSONText(
      "a lead of five bytes", "[\"\u{f8}\u{88}\u{80}\u{80}\u{80}\"]",
      fault: "line 1, column 3: expected UTF-8, found a byte that never occurs in it"),
    JSONText(
      "a lead above U+10FFFF", "[\"\u{f5}\u{80}\u{80}\u{80}\"]",
      fault: "line 1, column 3: expected UTF-8, found a byte that never occurs in it"),
    JSONText(
      "an overlong solidus", "[\"\u{c0}\u{af}\"]", fault: "line 1, column 3: expected UTF-8, found an overlong form"),
    JSONText(
      "an overlong NUL", "[\"\u{c0}\u{80}\"]", fault: "line 1, column 3: expected UTF-8, found an overlong form"),
    JSONText(
      "an overlong quote", "[\"\u{c0}\u{a2}\"]", fault: "line 1, column 3: expected UTF-8, found an overlong form"),
    JSONText(
      "the last overlong of two bytes", "[\"\u{c1}\u{bf}\"]",
      fault: "line 1, column 3: expected UTF-8, found an overlong form"),
    JSONText(
      "the last overlong of three bytes", "[\"\u{e0}\u{9f}\u{bf}\"]",
      fault: "line 1, column 3: expected UTF-8, found an overlong form"),
    JSONText(
      "the last overlong of four bytes", "[\"\u{f0}\u{8f}\u{bf}\u{bf}\"]",
      fault: "line 1, column 3: expected UTF-8, found an overlong form"),
    JSONText(
      "the first surrogate", "[\"\u{ed}\u{a0}\u{80}\"]",
      fault: "line 1, column 3: expected UTF-8, found a surrogate, which is no character"),
    JSONText(
      "the last surrogate", "[\"\u{ed}\u{bf}\u{bf}\"]",
      fault: "line 1, column 3: expected UTF-8, found a surrogate, which is no character"),
    JSONText(
      "a pair of surrogates in UTF-8", "[\"\u{ed}\u{a0}\u{bd}\u{ed}\u{b8}\u{80}\"]",
      fault: "line 1, column 3: expected UTF-8, found a surrogate, which is no character"),
    JSONText(
      "the first above U+10FFFF", "[\"\u{f4}\u{90}\u{80}\u{80}\"]",
      fault: "line 1, column 3: expected UTF-8, found a character above U+10FFFF"),
    JSONText(
      "two bytes without the second", "[\"\u{c3}\"]",
      fault: "line 1, column 4: expected a continuation byte of UTF-8, found '\"'"),
    JSONText(
      "three bytes without the third", "[\"\u{e2}\u{82}\"]",
      fault: "line 1, column 4: expected a continuation byte of UTF-8, found '\"'"),
    JSONText(
      "four bytes without the fourth", "[\"\u{f0}\u{9f}\u{98}\"]",
      fault: "line 1, column 4: expected a continuation byte of UTF-8, found '\"'"),
    JSONText(
      "a sequence that another one cuts", "[\"\u{f0}\u{9f}\u{c3}\u{a9}\"]",
      fault: "line 1, column 4: expected a continuation byte of UTF-8, found the byte 0xc3"),
    JSONText(
      "a sequence that the body ends", "\"\u{f0}\u{9f}\u{98}",
      fault: "line 1, column 3: expected a continuation byte of UTF-8, found the end of the body"),
    JSONText(
      "bad UTF-8 in a key", "{\"\u{ff}\":1}",
      fault: "line 1, column 3: expected UTF-8, found a byte that never occurs in it"),
    JSONText(
      "bad UTF-8 behind a long run", "[\"\(String(repeating: "x", count: 33))\u{ff}\"]",
      fault: "line 1, column 36: expected UTF-8, found a byte that never occurs in it"),
    JSONText(
      "bad UTF-8 in the third line", "[\n\"\u{c3}\u{a9}\u{c3}\u{a9}\",\r\n\"\u{c3}\u{a9}\u{ff}\"]",
      fault: "line 3, column 3: expected UTF-8, found a byte that never occurs in it"),
  ]
}

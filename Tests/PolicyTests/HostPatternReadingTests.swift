// `hosts` as operators write them: what each text becomes, and what is said of those that are no pattern.

import Testing

@testable import Policy

@Suite struct HostPatternReadingTests {
  @Test(arguments: [
    ("*", "*"),
    ("a.example", "a.example"),
    ("A.Example.", "a.example"),
    ("localhost", "localhost"),
    ("*.a.example", "*.a.example"),
    ("**.a.example", "**.a.example"),
    ("**.Example.", "**.example"),
    ("_dmarc.a.example", "_dmarc.a.example"),
    ("192.0.2.1", "192.0.2.1"),
    ("2001:DB8::1", "2001:db8::1"),
    ("[2001:db8:0::1]", "2001:db8::1"),
    ("10.0.0.0/8", "10.0.0.0/8"),
    ("0.0.0.0/0", "0.0.0.0/0"),
    ("fe80::/10", "fe80::/10"),
    ("192.0.2.1/32", "192.0.2.1"),
    ("bücher.example", "xn--bcher-kva.example"),
    ("BÜCHER.example", "xn--bcher-kva.example"),
    ("*.straße.example", "*.xn--strae-oqa.example"),
    ("**.例え.テスト", "**.xn--r8jz45g.xn--zckzah"),
    ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
    ("bu\u{308}cher.example", "xn--bcher-kva.example"),
    ("xn--bcher-kva.example", "xn--bcher-kva.example"),
  ]) func aPatternIsCanonical(text: String, description: String) throws {
    #expect(try HostPattern.parse(text).get().description == description)
  }

  static let wildcard =
    "has a wildcard in a place where none may stand; "
    + "write '*', '*.a.example' (one label more) or '**.a.example' (the name and all below it)"
  static let number =
    "expected a host name or a dotted quad of four decimal numbers; "
    + "this is a number that some resolvers read as an address, found "

  @Test(arguments: [
    ("", "expected a host name, but the host is empty"),
    ("a.*.b", "'a.*.b' \(wildcard)"),
    ("a*.b", "'a*.b' \(wildcard)"),
    ("**", "'**' \(wildcard)"),
    ("***.a", "'***.a' \(wildcard)"),
    ("*.*.a", "'*.*.a' \(wildcard)"),
    ("*a", "'*a' \(wildcard)"),
    ("a.*", "'a.*' \(wildcard)"),
    ("*.", "expected a host name, but the host is empty, found '*.'"),
    (".a.example", "'.a.example' begins with a dot; did you mean '**.a.example'?"),
    ("a..b", "expected labels of 1 to 63 letters, digits, '-' or '_' between dots, found 'a..b'"),
    ("a b", "'a b' holds white space or a control character"),
    ("a\u{7}", "'a\u{7}' holds white space or a control character"),
    ("0x7f.1", number + "'0x7f.1'"),
    ("2130706433", number + "'2130706433'"),
    ("127.1", number + "'127.1'"),
    ("*.0x7f", number + "'*.0x7f'"),
    ("1.2.3.256", number + "'1.2.3.256'"),
    ("01.2.3.4", number + "'01.2.3.4'"),
    ("*.10.0.0.1", "'*.10.0.0.1' has a wildcard before an address; write a CIDR block, such as '10.0.0.0/8'"),
    ("10.0.0.1/8", "'10.0.0.1/8' has bits behind the first 8; did you mean '10.0.0.0/8'?"),
    ("2001:db8::1/32", "'2001:db8::1/32' has bits behind the first 32; did you mean '2001:db8::/32'?"),
    ("10.0.0.0/33", "expected a prefix length from 0 to 32 behind '/', found '33'"),
    ("::/x", "expected a prefix length from 0 to 128 behind '/', found 'x'"),
    ("10.0.0.0/", "expected a prefix length from 0 to 32 behind '/', found ''"),
    ("a.example:443", "'a.example:443' holds a port; write 'a.example' here and ports = [443]"),
    ("[::1]:80", "'[::1]:80' holds a port; write '[::1]' here and ports = [80]"),
    ("192.0.2.1:80", "'192.0.2.1:80' holds a port; write '192.0.2.1' here and ports = [80]"),
    (
      "https://a.example/x?y",
      "'https://a.example/x?y' is a URL; write 'a.example': schemes, ports and paths have keys of their own"
    ),
    (
      "http://u@a.example:80",
      "'http://u@a.example:80' is a URL; write 'a.example': schemes, ports and paths have keys of their own"
    ),
    ("http://", "'http://' is a URL; write the host alone"),
    (
      "a.example/x",
      "'a.example/x' holds a path; write 'a.example': schemes, ports and paths have keys of their own"
    ),
    (
      "user@a.example",
      "expected letters, digits, '-', '_' and dots in a host name (other scripts as A-labels, xn--…), "
        + "found 'user@a.example'"
    ),
    ("[::1", "expected an IPv6 address between brackets, found '[::1'"),
    (
      String(repeating: "a", count: 64) + ".example",
      "expected labels of 1 to 63 letters, digits, '-' or '_' between dots, "
        + "found '\(String(repeating: "a", count: 64)).example'"
    ),
  ]) func whatIsNoPatternIsAnswered(text: String, message: String) {
    guard case .failure(let fault) = HostPattern.parse(text) else {
      Issue.record("'\(text)' was taken")
      return
    }
    #expect(fault.description == message)
  }

  @Test func aNameThatIDNARefusesIsAnError() {
    for text in ["\u{378}.example", "-ü.example", String(repeating: "ü", count: 200)] {
      guard case .failure(let fault) = HostPattern.parse(text) else {
        Issue.record("'\(text)' was taken")
        continue
      }
      #expect(fault.description.contains("is no internationalized host name: "))
    }
  }

  @Test func theLoaderReportsEachAtItsPlace() {
    LoadRow(
      "three faults of one list",
      "[[rule]]\nname = \"a\"\nhosts = [\"ok.example\", \"a*\", 3, \"b:1\", \"ok.example.\"]",
      "3:24: error: 'hosts' in [rule]: 'a*' \(Self.wildcard)",
      "3:30: error: 'hosts' in [rule]: expected a string, found an integer",
      "3:33: error: 'hosts' in [rule]: 'b:1' holds a port; write 'b' here and ports = [1]",
      "3:40: warning: 'hosts' in [rule]: 'ok.example' stands in the list twice"
    ).check()
  }
}

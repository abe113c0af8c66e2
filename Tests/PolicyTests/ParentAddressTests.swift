// `via`: where a parent proxy is, and what is answered for what people write instead.

import Testing

@testable import Policy

@Suite struct ParentAddressTests {
  @Test(
    arguments: [
      ("http://proxy.example:3128", .http, "proxy.example", 3128), ("http://proxy.example", .http, "proxy.example", 80),
      ("https://proxy.example", .https, "proxy.example", 443),
      ("socks5://proxy.example", .socks5, "proxy.example", 1080),
      ("HTTP://Proxy.Example.:8080/", .http, "proxy.example", 8080), ("http://10.0.0.1:1", .http, "10.0.0.1", 1),
      ("https://[2001:DB8::1]:65535", .https, "2001:db8::1", 65535), ("socks5://[::1]", .socks5, "::1", 1080),
      ("http://bücher.example", .http, "xn--bcher-kva.example", 80),
      ("http://xn--bcher-kva.example", .http, "xn--bcher-kva.example", 80), ("http://proxy", .http, "proxy", 80),
    ] as [(String, Route.Parent.Kind, String, UInt16)])
  func aURLIsRead(text: String, kind: Route.Parent.Kind, host: String, port: UInt16) throws {
    let address = try ParentAddress(text)
    #expect(address.kind == kind && address.port == port)
    #expect(String(decoding: address.host.bytes, as: UTF8.self) == host)
  }

  private static let expected = ParentAddress.expectation
  private static let userinfo =
    "a user name and a password do not stand in the URL; put them into 'credentials', where the password is a secret"
  private static let number =
    "expected a host name or a dotted quad of four decimal numbers; this is a number that some resolvers read as an address"

  @Test(arguments: [
    ("", "\(expected), found ''"), ("Direct", "\(expected), found 'Direct'; did you mean 'direct'?"),
    ("dirct", "\(expected), found 'dirct'; did you mean 'direct'?"),
    ("proxy.example:3128", "\(expected), found 'proxy.example:3128'; did you mean 'http://proxy.example:3128'?"),
    ("10.0.0.1", "\(expected), found '10.0.0.1'; did you mean 'http://10.0.0.1'?"),
    ("a b", "\(expected), found 'a b'"), ("//proxy", "\(expected), found '//proxy'"),
    ("socks5h://p:1", "\(expected), found 'socks5h://p:1'; did you mean 'socks5://p:1'?"),
    ("socks://p", "\(expected), found 'socks://p'; did you mean 'socks5://p'?"),
    ("htpp://p", "\(expected), found 'htpp://p'; did you mean 'http://p'?"),
    ("ftp://p", "\(expected), found 'ftp://p'"), ("quic+x://p", "\(expected), found 'quic+x://p'"),
    ("http://u:hunter2@proxy", userinfo), ("http://u@proxy", userinfo), ("u:hunter2@proxy:3128", userinfo),
    ("http://u:a/hunter2@proxy", userinfo), ("http://@proxy", userinfo),
    ("http://proxy:1/path", "'http://proxy:1/path' has a path, and a proxy has none; write 'http://proxy:1'"),
    ("http://proxy?x", "'http://proxy?x' has a path, and a proxy has none; write 'http://proxy'"),
    ("http://proxy/#x", "'http://proxy/#x' has a path, and a proxy has none; write 'http://proxy'"),
    ("http://", "'http://' names no host"),
    ("http://:80", "'http://:80' names no host"),
    ("http://proxy:", "expected a port from 1 to 65535, found ''"),
    ("http://proxy:0", "expected a port from 1 to 65535, found '0'"),
    ("http://proxy:65536", "expected a port from 1 to 65535, found '65536'"),
    ("http://proxy:080", "expected a port from 1 to 65535, found '080'"),
    ("http://proxy:+80", "expected a port from 1 to 65535, found '+80'"),
    ("http://[::1]:x", "expected a port from 1 to 65535, found 'x'"),
    (
      "http://2001:db8::1:80",
      "expected an IPv6 address between brackets, as in 'http://[2001:db8::1]:3128', found 'http://2001:db8::1:80'"
    ),
    ("http://[::1", "expected an IPv6 address between brackets, found 'http://[::1'"),
    ("http://[::1]80", "expected an IPv6 address between brackets, found 'http://[::1]80'"),
    ("http://[fe80::1%eth0]", "expected an IPv6 address between brackets, found 'http://[fe80::1%eth0]'"),
    ("http://2130706433", "\(number), found 'http://2130706433'"),
    ("http://0x7f.1:80", "\(number), found 'http://0x7f.1:80'"),
    ("http://a..b", "expected labels of 1 to 63 letters, digits, '-' or '_' between dots, found 'http://a..b'"),
    (
      "http://a%62",
      "expected letters, digits, '-', '_' and dots in a host name (other scripts as A-labels, xn--…), found 'http://a%62'"
    ),
  ]) func anythingElseIsAnswered(text: String, fault: String) {
    #expect(throws: ParentAddressFault(fault)) { try ParentAddress(text) }
  }

  @Test func noFaultHoldsAPassword() {
    for text in ["http://u:hunter2@p", "hunter2@p", "://hunter2@", "http:/u:hunter2@p", "http://p/hunter2@x"] {
      let fault = #expect(throws: ParentAddressFault.self) { try ParentAddress(text) }
      #expect(fault?.description.contains("hunter2") == false)
    }
  }
}

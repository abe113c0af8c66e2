// What is taken for a request in the clear, and what is not: requests as they should be and as lenient servers take them,
// and the first bytes of other protocols. Each row whole and byte by byte, with trailing data.

import Bytes
import TestSupport
import Testing

@testable import Session

@Suite struct ClearRequestTests {
  /// What comes of bytes that are shown byte by byte, and after how many.
  private static func read(_ bytes: [UInt8], isLast: Bool = false) -> (reading: ClearRequestReader.Reading, after: Int)
  {
    var reader = ClearRequestReader()
    for count in 1..<max(2, bytes.count) {
      let reading = reader.read(bytes.span.extracting(0..<count), isLast: false)
      if reading != .incomplete { return (reading, count) }
    }
    return (reader.read(bytes.span, isLast: isLast), bytes.count)
  }

  private static func readWhole(_ bytes: [UInt8], isLast: Bool = false) -> ClearRequestReader.Reading {
    var reader = ClearRequestReader()
    return reader.read(bytes.span, isLast: isLast)
  }

  // MARK: Requests

  static let requests: [(sentence: String, bytes: String, method: String)] = [
    ("a GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET"),
    ("a DELETE with a URL", "DELETE http://a.example/x HTTP/1.1\r\n\r\n", "DELETE"),
    ("HTTP/1.0", "HEAD /x HTTP/1.0\r\n\r\n", "HEAD"),
    ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRI"),
    ("a method that nobody knows", "FROBNICATE /x HTTP/1.1\r\n\r\n", "FROBNICATE"),
    ("a method in small letters", "delete /x HTTP/1.1\r\n\r\n", "delete"),
    ("a method of other characters", "!#$%&'*+-.^_`|~09 /x HTTP/1.1\r\n\r\n", "!#$%&'*+-.^_`|~09"),
    ("OPTIONS *", "OPTIONS * HTTP/1.1\r\n\r\n", "OPTIONS"),
    ("a CONNECT in it", "CONNECT a:1 HTTP/1.1\r\n\r\n", "CONNECT"),
    ("an empty line before it", "\r\nGET / HTTP/1.1\r\n\r\n", "GET"),
    ("many empty lines before it", "\n\n\r\n\nGET / HTTP/1.1\r\n\r\n", "GET"),
    ("a space before it", " DELETE / HTTP/1.1\r\n\r\n", "DELETE"),
    ("several spaces", "GET   /   HTTP/1.1\r\n\r\n", "GET"),
    ("tabs", "GET\t/\tHTTP/1.1\r\n\r\n", "GET"),
    ("other white space", "GET\u{b}/\u{c}HTTP/1.1\r\n\r\n", "GET"),
    ("carriage returns for spaces", "DELETE\r/x\rHTTP/1.1\r\n\r\n", "DELETE"),
    ("the version in small letters", "GET / http/1.1\r\n\r\n", "GET"),
    ("bare LF", "GET / HTTP/1.1\n\n", "GET"),
    ("a space in the target", "GET /a b HTTP/1.1\r\n\r\n", "GET"),
    ("a version twice", "GET /HTTP/ HTTP/1.1\r\n\r\n", "GET"),
    ("a version that breaks off before one", "GET /x HTTP/ HTTP/1.1\r\n\r\n", "GET"),
    ("a NUL in the target", "DELETE /x\u{0}y HTTP/1.1\r\n\r\n", "DELETE"),
    ("no target", "GET HTTP/1.1\r\n\r\n", "GET"),
    ("HTTP/0.9", "GET /secret\r\n", "GET"),
    ("HTTP/0.9 without a slash", "GET secret\r\n", "GET"),
    ("HTTP/0.9 with bare LF", "GET /\n", "GET"),
    ("HTTP/0.9 of another method", "DELETE /x\r\n", "DELETE"),
    ("HTTP/0.9 with a URL", "POST HTTP://a/x\r\n", "POST"),
    ("a long method", String(repeating: "A", count: 300) + " / HTTP/1.1\r\n", String(repeating: "A", count: 24)),
    ("a long target", "GET /" + String(repeating: "a", count: 9000) + " HTTP/1.1\r\n", "GET"),
  ]

  @Test(arguments: requests.indices) func isARequest(index: Int) {
    let row = Self.requests[index]
    let bytes = octets(row.bytes)
    #expect(Self.read(bytes).reading == .request(method: row.method), "\(row.sentence)")
    #expect(Self.readWhole(bytes + octets("trailing")) == .request(method: row.method), "\(row.sentence)")
  }

  @Test func whiteSpaceOfPythonsStringsIsWhiteSpace() {
    for byte: UInt8 in [0x1c, 0x1d, 0x1e, 0x1f, 0x85, 0xa0] {
      let bytes = octets("DELETE") + [byte] + octets("/x") + [byte] + octets("HTTP/1.1\r\n")
      #expect(Self.read(bytes).reading == .request(method: "DELETE"))
    }
  }

  @Test func aVersionIsEnough() {
    // Nothing is waited for that cannot change the answer.
    let line = octets("GET / HTTP/1.1\r\n")
    #expect(Self.read(line).after == octets("GET / HTTP/1").count)
  }

  @Test func aLineWithoutEndCountsAsARequest() {
    let endless = [UInt8](repeating: 0x41, count: ClearRequestReader.longest)
    #expect(Self.readWhole(Array(endless.dropLast())) == .incomplete)
    #expect(Self.readWhole(endless) == .request(method: String(repeating: "A", count: 24)))
  }

  // MARK: Other protocols

  /// `after`: how many bytes it takes to see that it is none. What a client of the protocol sends at once is never held.
  static let others: [(sentence: String, bytes: [UInt8], after: Int)] = [
    ("TLS", [22, 3, 1, 0, 5, 1], 1), ("SSH", octets("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), 32),
    ("SSH without a comment", octets("SSH-2.0-Go\r\n"), 12),
    ("SMTP", octets("EHLO a.example\r\n"), 16), ("FTP", octets("USER anonymous\r\n"), 16),
    ("FTP's change of directory", octets("CWD pub\r\n"), 9), ("POP3", octets("CAPA\r\n"), 6),
    ("IMAP", octets("a001 CAPABILITY\r\n"), 17), ("IRC", octets("NICK someone\r\n"), 14),
    ("NNTP", octets("MODE READER\r\n"), 13), ("VNC", octets("RFB 003.008\n"), 12), ("finger", octets("/W root\r\n"), 1),
    ("rsync", octets("@RSYNCD: 31.0\n"), 1), ("git", octets("0035git-upload-pack /x.git\0host=a\0"), 27),
    ("RTSP", octets("OPTIONS rtsp://a/x RTSP/1.0\r\n"), 29), ("SIP", octets("REGISTER sip:a SIP/2.0\r\n"), 24),
    ("ICAP", octets("OPTIONS icap://a/x ICAP/1.0\r\n"), 29), ("Redis", octets("*1\r\n$4\r\nPING\r\n"), 4),
    ("Redis by hand", octets("PING\r\n"), 6), ("memcached", octets("get key\r\n"), 9),
    ("NATS", octets("CONNECT {}\r\n"), 12),
    ("STOMP", octets("CONNECT\naccept-version:1.2\n\n\0"), 8), ("XMPP", octets("<?xml version='1.0'?>"), 1),
    ("JSON", octets("{\"a\":1}"), 1), ("LDAP", [0x30, 0x0c, 2, 1, 1, 0x60, 7], 3),
    ("LDAP of another length", [0x30, 0x20, 2, 1, 1], 3), ("PostgreSQL", [0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f], 1),
    ("AMQP", octets("AMQP") + [0, 0, 9, 1], 5), ("MongoDB", [0x41, 1, 0, 0], 2), ("DNS", [0, 0x1d, 0x12, 0x34], 1),
    ("MQTT", [0x10, 0x0e, 0, 4], 1), ("RDP", [3, 0, 0, 0x13], 1), ("SOCKS5", [5, 1, 0], 1),
    ("X11", [0x6c, 0, 11, 0], 2),
    ("BitTorrent", [0x13] + octets("BitTorrent protocol"), 1), ("Telnet", [0xff, 0xfd, 3], 1),
    ("a hello of SSL 2.0", [0x80, 0x2e, 1, 3, 1], 1), ("a line that quotes a request", octets("QUOTE HTTP\r\n"), 12),
    ("a version within a word", octets("SAY xHTTP/1.1\r\n"), 15),
  ]

  @Test(arguments: others.indices) func isNone(index: Int) {
    let row = Self.others[index]
    let (reading, after) = Self.read(row.bytes)
    #expect(reading == .other, "\(row.sentence)")
    #expect(after == row.after, "\(row.sentence)")
    #expect(Self.readWhole(row.bytes + octets("GET / HTTP/1.1\r\n")) == .other, "\(row.sentence)")
  }

  @Test func atTheEndWhatIsNoRequestPasses() {
    for text in ["hello", "hello there", "SSH-2.0", "\r\n", "POST", "GET"] {
      #expect(Self.read(octets(text)).reading == .incomplete)
      #expect(Self.read(octets(text), isLast: true).reading == .other, "\(text)")
    }
    for text in ["GET /x", "DELETE /x"] {
      #expect(Self.read(octets(text)).reading == .incomplete)
      #expect(Self.read(octets(text), isLast: true).reading != .other, "\(text)")
    }
  }
}

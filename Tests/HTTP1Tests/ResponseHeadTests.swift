// Response heads: what is taken and as what, and everything that is refused.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

private func readResponse(
  _ bytes: Span<UInt8>, limits: HeadLimits = usualLimits, toHead: Bool = false, toConnect: Bool = false
) -> Verdict {
  var head = ResponseHead()
  switch head.read(bytes, limits: limits, toHead: toHead, toConnect: toConnect) {
  case .incomplete: return .incomplete
  case .invalid(let fault): return .refused(fault)
  case .complete(let count): return .accepted(count: count, summary(head, bytes))
  }
}

private func summary(_ head: borrowing ResponseHead, _ bytes: Span<UInt8>) -> String {
  let body =
    switch head.framing {
    case .none: "no body"
    case .length(let length): "\(length) bytes"
    case .chunked: "chunked"
    case .untilClose: "until close"
    }
  let reason = shown(bytes.extracting(head.reason).array)
  return
    "1.\(head.minorVersion) \(head.status) '\(reason)' \(body), \(head.isPersistent ? "keeps" : "closes")"
}

/// A status line with fields.
private func response(_ line: String, _ lines: String...) -> String {
  line + "\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n"
}

private func ok(_ lines: String..., version: String = "1.1") -> String {
  "HTTP/\(version) 200 OK\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n"
}

@Suite struct ResponseHeadTests {
  static let accepted: [Row] = [
    Row("nothing but a status line", ok(), "1.1 200 'OK' until close, closes"),
    Row("a length", ok("Content-Length: 12"), "1.1 200 'OK' 12 bytes, keeps"),
    Row("a length of zero", ok("Content-Length: 0"), "1.1 200 'OK' 0 bytes, keeps"),
    Row("chunks", ok("Transfer-Encoding: Chunked"), "1.1 200 'OK' chunked, keeps"),
    Row(
      "the same length twice", ok("Content-Length: 12", "content-length: 12"), "1.1 200 'OK' 12 bytes, keeps"),
    Row("no reason", response("HTTP/1.1 200 ", "Content-Length: 1"), "1.1 200 '' 1 bytes, keeps"),
    Row(
      "a reason of several words, tabs and bytes above ASCII",
      response("HTTP/1.1 200 a  b\tc \u{80}\u{ff}", "Content-Length: 1"),
      "1.1 200 'a  b\\x09c \\x80\\xff' 1 bytes, keeps"),
    Row(
      "a server that closes", ok("Content-Length: 1", "Connection: close"), "1.1 200 'OK' 1 bytes, closes"),
    Row("HTTP/1.0", ok("Content-Length: 1", version: "1.0"), "1.0 200 'OK' 1 bytes, closes"),
    Row(
      "HTTP/1.0 that keeps", ok("Content-Length: 1", "Connection: keep-alive", version: "1.0"),
      "1.0 200 'OK' 1 bytes, keeps"),
    Row(
      "HTTP/1.0 that keeps and has no length closes all the same",
      ok("Connection: keep-alive", version: "1.0"),
      "1.0 200 'OK' until close, closes"),
    Row("HTTP/1.2 is read as HTTP/1.1", ok("Content-Length: 1", version: "1.2"), "1.1 200 'OK' 1 bytes, keeps"),
    Row("HTTP/1.9, too", ok("Transfer-Encoding: chunked", version: "1.9"), "1.1 200 'OK' chunked, keeps"),
    Row("100", response("HTTP/1.1 100 Continue"), "1.1 100 'Continue' no body, keeps"),
    Row(
      "103 with a field", response("HTTP/1.1 103 Early Hints", "Link: </a>"),
      "1.1 103 'Early Hints' no body, keeps"),
    Row(
      "101", response("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: websocket"),
      "1.1 101 'Switching Protocols' no body, keeps"),
    Row("204", response("HTTP/1.1 204 No Content"), "1.1 204 'No Content' no body, keeps"),
    Row(
      "204 with chunks", response("HTTP/1.1 204 x", "Transfer-Encoding: chunked"),
      "1.1 204 'x' no body, keeps"),
    Row("304", response("HTTP/1.1 304 Not Modified"), "1.1 304 'Not Modified' no body, keeps"),
    Row("304 with a length", response("HTTP/1.1 304 x", "Content-Length: 9"), "1.1 304 'x' no body, keeps"),
    Row("205 is no exception", response("HTTP/1.1 205 x", "Content-Length: 0"), "1.1 205 'x' 0 bytes, keeps"),
    Row("the smallest status", response("HTTP/1.1 100 "), "1.1 100 '' no body, keeps"),
    Row("a status above 599", response("HTTP/1.1 999 x", "Content-Length: 1"), "1.1 999 'x' 1 bytes, keeps"),
    Row(
      "a field of every token character", ok("!#$%&'*+-.^_`|~09azAZ:", "Content-Length: 1"),
      "1.1 200 'OK' 1 bytes, keeps"),
  ]

  static let refused =
    SharedRow.all("refused-responses.txt").map { row in
      let ok = octets("HTTP/1.1 200 OK\r\n")
      return switch row.form {
      case "line": Row(row, row.text + octets("\r\nContent-Length: 5\r\n\r\nhello"))
      case "ok": Row(row, ok + row.section("hello"))
      default: Row(row, row.text)
      }
    } + [
      Row(
        "33 connection options", ok("Connection: " + (1...33).map { "o\($0)" }.joined(separator: ",")),
        refused: .tooManyConnectionOptions)
    ]

  @Test(arguments: accepted) func isTaken(row: Row) { examine(row) { readResponse($0) } }
  @Test(arguments: refused) func isRefused(row: Row) { examine(row) { readResponse($0) } }

  @Test func theSharedRowsAreThere() { #expect(Self.refused.count > 100) }

  @Test(arguments: [
    ("a length", ok("Content-Length: 12")), ("chunks", ok("Transfer-Encoding: chunked")), ("neither", ok()),
  ]) func anAnswerToHeadHasNoBody(what: String, text: String) {
    let bytes = octets(text)
    let verdict = readResponse(bytes.span, toHead: true)
    #expect(verdict == .accepted(count: bytes.count, "1.1 200 'OK' no body, keeps"), "\(what)")
  }

  @Test func anAnswerToHeadMustMakeSenseAllTheSame() {
    let bytes = octets(ok("Content-Length: 5", "Transfer-Encoding: chunked"))
    let verdict = readResponse(bytes.span, toHead: true)
    #expect(verdict == .refused(.lengthWithTransferEncoding))
  }

  private static func framing(_ status: Int, _ lines: String) -> [UInt8] {
    octets("HTTP/1.1 \(status) x\r\n\(lines)\r\n")
  }

  /// RFC 9112, 6.3, step 2: a tunnel follows, whatever the fields say.
  @Test(arguments: [
    "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: x\r\n", "Transfer-Encoding: gzip\r\n",
    "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "",
  ]) func aConnectThatIsGrantedHasNoBody(lines: String) {
    for status in [200, 204, 299] {
      let bytes = Self.framing(status, lines)
      let verdict = readResponse(bytes.span, toConnect: true)
      #expect(verdict == .accepted(count: bytes.count, "1.1 \(status) 'x' no body, keeps"))
    }
    for status in [199, 300, 403, 407, 500] {
      let bytes = Self.framing(status, lines)
      let verdict = readResponse(bytes.span, toConnect: true)
      #expect(verdict == readResponse(bytes.span), "\(status) is read as any other answer")
    }
  }

  /// What is wrong elsewhere is wrong in a grant too.
  @Test func aConnectIsGrantedByAHeadThatMakesSense() {
    for (lines, fault) in [
      ("X : y\r\n", .spaceBeforeColon), ("Connection: content-length\r\n", .connectionNamesContent),
      ("X: \u{0}\r\n", .controlCharacter),
    ] as [(String, MessageFault)] {
      let verdict = readResponse(Self.framing(200, lines).span, toConnect: true)
      #expect(verdict == .refused(fault))
    }
  }

  @Test func everyStatusIsRead() {
    for status in 0...999 {
      let digits = String(status)
      let text = String(repeating: "0", count: 3 - digits.utf8.count) + digits
      let bytes = octets("HTTP/1.1 \(text) x\r\nContent-Length: 5\r\n\r\n")
      let verdict = readResponse(bytes.span)
      let body = status < 200 || status == 204 || status == 304 ? "no body" : "5 bytes"
      let expected: Verdict =
        status < 100
        ? .refused(.badStatusLine) : .accepted(count: bytes.count, "1.1 \(status) 'x' \(body), keeps")
      #expect(verdict == expected)
    }
  }

  // MARK: Every byte at every place

  private static func fault(_ byte: UInt8, otherwise: MessageFault) -> MessageFault {
    switch byte {
    case 10: .bareLineFeed
    case 13: .bareCarriageReturn
    case 9: otherwise
    case 0..<32, 127: .controlCharacter
    default: otherwise
    }
  }

  private static func tryEveryByte(
    _ template: [UInt8], at place: Int, _ location: SourceLocation = #_sourceLocation,
    _ expected: (UInt8) -> MessageFault?
  ) {
    let memory = GuardedMemory(capacity: 4096)
    for byte in 0...255 as ClosedRange<UInt8> {
      var bytes = template
      bytes[place] = byte
      let verdict = memory.lend(bytes) { readResponse($0) }
      let fault = expected(byte)
      switch verdict {
      case .incomplete: Issue.record("\(shown([byte])): incomplete", sourceLocation: location)
      case .accepted: #expect(fault == nil, "\(shown([byte])) is taken", sourceLocation: location)
      case .refused(let seen): #expect(seen == fault, "\(shown([byte]))", sourceLocation: location)
      }
      examinePrefixes(bytes, verdict, memory, location) { readResponse($0) }
    }
  }

  @Test func everyByteInTheStatusLine() {
    let template = octets("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n")
    for place in 0..<13 {
      Self.tryEveryByte(template, at: place) { byte in
        switch place {
        case 7 where (0x30...0x39).contains(byte): nil
        case 9 where (0x31...0x39).contains(byte): nil
        case 10 where (0x30...0x39).contains(byte), 11 where (0x30...0x39).contains(byte): nil
        default: byte == template[place] ? nil : Self.fault(byte, otherwise: .badStatusLine)
        }
      }
    }
  }

  @Test func everyByteInTheReason() {
    let template = octets("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n")
    for place in [13, 14] {
      Self.tryEveryByte(template, at: place) { byte in
        if byte == 9 || (byte >= 32 && byte != 127) { return nil }
        // A CR before the CR that ends the line is as bare as any other.
        return Self.fault(byte, otherwise: .controlCharacter)
      }
    }
  }

  @Test func everyByteInAFieldNameAndValue() {
    let template = octets("HTTP/1.1 200 OK\r\nXYZ: abc\r\nContent-Length: 1\r\n\r\n")
    let token = Set("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
    Self.tryEveryByte(template, at: 18) { byte in
      if token.contains(byte) || byte == 0x3a { return nil }
      return byte == 32 || byte == 9 ? .spaceBeforeColon : Self.fault(byte, otherwise: .badFieldName)
    }
    Self.tryEveryByte(template, at: 23) { byte in
      byte == 9 || (byte >= 32 && byte != 127) ? nil : Self.fault(byte, otherwise: .controlCharacter)
    }
  }

  // MARK: Limits

  @Test func aHeadOfExactlyTheLimitIsTakenAndOneByteMoreIsNot() {
    let limits = HeadLimits(bytes: 1024, fields: 128)
    let memory = GuardedMemory(capacity: 8192)
    for (count, fits) in [
      (1023, true), (1024, true), (1025, false), (1026, false), (1027, false), (5000, false),
    ] {
      let begin = "HTTP/1.1 204 x\r\nX: "
      let bytes = octets(begin + String(repeating: "x", count: count - begin.utf8.count - 4) + "\r\n\r\n")
      let verdict = memory.lend(bytes) { readResponse($0, limits: limits) }
      let expected: Verdict =
        fits ? .accepted(count: count, "1.1 204 'x' no body, keeps") : .refused(.headTooLarge)
      #expect(verdict == expected, "\(count) bytes")
      examinePrefixes(bytes, verdict, memory) { readResponse($0, limits: limits) }
      let longer = memory.lend(bytes + octets("body")) { readResponse($0, limits: limits) }
      #expect(longer == expected, "\(count) bytes with a body behind them")
    }
  }

  @Test func aReasonThatNeverEndsIsCut() {
    let limits = HeadLimits(bytes: 1024, fields: 128)
    let bytes = octets("HTTP/1.1 200 " + String(repeating: "x", count: 2000))
    let verdicts = [
      readResponse(Array(bytes.prefix(1023)).span, limits: limits),
      readResponse(Array(bytes.prefix(1024)).span, limits: limits),
      readResponse(bytes.span, limits: limits),
    ]
    #expect(verdicts == [.incomplete, .refused(.headTooLarge), .refused(.headTooLarge)])
  }

  @Test func exactlyAsManyFieldsAsTheLimitAreTaken() {
    let limits = HeadLimits(bytes: 8192, fields: 5)
    let memory = GuardedMemory(capacity: 8192)
    for (count, fits) in [(0, true), (5, true), (6, false), (9, false)] {
      let bytes = octets("HTTP/1.1 204 x\r\n" + (0..<count).map { "F\($0): v\r\n" }.joined() + "\r\n")
      let verdict = memory.lend(bytes) { readResponse($0, limits: limits) }
      let expected: Verdict =
        fits ? .accepted(count: bytes.count, "1.1 204 'x' no body, keeps") : .refused(.tooManyFields)
      #expect(verdict == expected, "\(count) fields")
      examinePrefixes(bytes, verdict, memory) { readResponse($0, limits: limits) }
    }
  }

  @Test func nothingOfAHeadIsLeftInTheNext() {
    var head = ResponseHead()
    for row in Self.accepted + Self.refused + Self.accepted.reversed() {
      let progress = head.read(row.bytes.span, limits: usualLimits, toHead: false)
      switch row.expected {
      case .failure(let fault): #expect(progress == .invalid(fault), "\(row.sentence)")
      case .success(let expected):
        #expect(progress == .complete(count: row.bytes.count), "\(row.sentence)")
        #expect(summary(head, row.bytes.span) == expected)
      }
    }
  }
}

// What a mended head becomes, byte by byte, and what is not mended. The wider table is ResponseCorpusTests'.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

@Suite struct HeadMenderTests {
  private static func mend(_ text: String, limits: HeadLimits = usualLimits) -> (HeadProgress, String, String) {
    let bytes = octets(text)
    var head = ResponseHead()
    var mended = ByteBuffer()
    let progress = head.readMending(bytes.span, limits: limits, toHead: false, into: &mended)
    return (progress, mended.bytes.string, head.mendings.text)
  }

  private static let rows: [(String, String, String)] = [
    ("HTTP/1.1 200 OK\nX: a\n\n", "HTTP/1.1 200 OK\r\nX: a\r\n\r\n", "bare-lf"),
    ("HTTP/1.1 200\n\n", "HTTP/1.1 200 \r\n\r\n", "bare-lf,bad-status-line"),
    ("HTTP/1.1   404  No \r\n\r\n", "HTTP/1.1 404  No \r\n\r\n", "bad-status-line"),
    ("HTTP/1.1 200 OK\r\nX \t : \t a \r\nY:b\r\n\r\n", "HTTP/1.1 200 OK\r\nX: a\r\nY: b\r\n\r\n", "space-before-colon"),
    ("HTTP/1.1 200 OK\r\nX: a \r\n\t b\r\n  c \r\n\r\n", "HTTP/1.1 200 OK\r\nX: a b c\r\n\r\n", "obs-fold"),
    ("HTTP/1.1 200 OK\r\nX: a\u{7}\u{7f}\tb\r\n\r\n", "HTTP/1.1 200 OK\r\nX: a  \tb\r\n\r\n", "control-character"),
    ("HTTP/1.1 200 OK\nX:\n\n", "HTTP/1.1 200 OK\r\nX: \r\n\r\n", "bare-lf"),
    (
      "HTTP/1.0 200\nServer : x\n y\u{1}\n\n", "HTTP/1.0 200 \r\nServer: x y \r\n\r\n",
      "bare-lf,bad-status-line,space-before-colon,obs-fold,control-character"
    ),
  ]

  @Test(arguments: rows) func isWrittenAsItShouldBe(came: String, written: String, words: String) {
    let (progress, text, mended) = Self.mend(came)
    #expect(progress == .complete(count: came.utf8.count))
    #expect(text == written)
    #expect(mended == words)
  }

  @Test func whatIsStrictIsNotWrittenAgain() {
    let (progress, text, mended) = Self.mend("HTTP/1.1 200 OK\r\nX:  a \r\n\r\n")
    #expect(progress == .complete(count: 27))
    #expect(text.isEmpty && mended.isEmpty)
  }

  @Test(arguments: [
    "Content-Length", "content-length", "Transfer-Encoding", "Connection", "Keep-Alive", "Proxy-Connection", "TE",
    "Trailer", "Upgrade",
  ]) func whatFramesIsNeverMended(name: String) {
    for (line, fault) in [
      ("\(name) : x\r\n", .spaceBeforeColon), ("\(name)\t: x\r\n", .spaceBeforeColon),
      ("\(name): x\r\n y\r\n", .obsoleteLineFolding), ("\(name):\r\n\ty\r\n", .obsoleteLineFolding),
      ("\(name): x\u{1}\r\n", .controlCharacter), ("\(name): x\n y\n", .obsoleteLineFolding),
    ] as [(String, MessageFault)] {
      for before in ["", "X: a\n", "X: a\r\n b\r\n"] {
        #expect(Self.mend("HTTP/1.1 200 OK\r\n\(before)\(line)\r\n").0 == .invalid(fault), "\(line)")
      }
    }
  }

  /// A CR is never a line's end alone, and never one of two.
  @Test func aBareCarriageReturnIsRefusedWhereverItStands() {
    let text = octets("HTTP/1.1 200 OK\nX: a\n b\nY : c\n\n")
    for place in 9..<text.count {
      var bytes = text
      bytes.insert(contentsOf: [0x0d, 0x20], at: place)
      var head = ResponseHead()
      var mended = ByteBuffer()
      let progress = head.readMending(bytes.span, limits: usualLimits, toHead: false, into: &mended)
      guard case .invalid = progress else {
        Issue.record("at \(place): \(progress)")
        continue
      }
    }
  }

  @Test func theLimitsAreThoseOfWhatCame() {
    let head = "HTTP/1.1 200 OK\n" + (0..<10).map { "F\($0): v\n" }.joined() + "\n"
    let count = head.utf8.count
    #expect(Self.mend(head, limits: HeadLimits(bytes: count, fields: 10)).0 == .complete(count: count))
    #expect(Self.mend(head, limits: HeadLimits(bytes: count - 1, fields: 10)).0 == .invalid(.headTooLarge))
    #expect(Self.mend(head, limits: HeadLimits(bytes: count, fields: 9)).0 == .invalid(.tooManyFields))
    let endless = "HTTP/1.1 200 OK\nX: " + String(repeating: "x", count: 2000)
    #expect(Self.mend(endless, limits: HeadLimits(bytes: 1024, fields: 9)).0 == .invalid(.headTooLarge))
  }
}

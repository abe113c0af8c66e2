// CONNECT to a parent: what is sent, what opens the way, and every answer that does not.

import Bytes
import HTTP1
import Policy
import TestSupport
import Testing

@testable import Session

private let office = Route.Parent(kind: .http, host: canonical("proxy.example"), port: 3128)
private let secret = Route.Parent(
  kind: .https, host: canonical("[2001:db8::7]"), port: 443,
  credentials: .password(RouteCredentials("Aladdin", "open sesame")))

/// What is sent for a.example:443 without credentials.
private let request = octets(
  "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nVia: 1.1 sallyport (7F3K2A9Q)\r\n\r\n")
private let requestWithCredentials = octets(
  "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nProxy-Authorization: Basic "
    + "QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\nVia: 1.1 sallyport (7F3K2A9Q)\r\n\r\n")

private func opens(_ sentence: String, _ heads: String...) -> ParentScript {
  ParentScript(sentence: sentence, parent: office, says: heads.map(octets), sends: request, outcome: .open)
}

private func refuses(
  _ sentence: String, _ text: String, _ detail: String, allowsNext: Bool = false, status: Int
) -> ParentScript {
  ParentScript(
    sentence: sentence, parent: office, says: [octets(text)], sends: request,
    outcome: .refused(ParentRefusal(.parentRefused, detail, allowsNext: allowsNext, status: status)))
}

private func asks(
  _ sentence: String, _ fields: String, _ detail: String, of parent: Route.Parent = office
) -> ParentScript {
  ParentScript(
    sentence: sentence, parent: parent, says: [octets("HTTP/1.1 407 Who?\r\n\(fields)\r\n")],
    sends: parent == office ? request : requestWithCredentials,
    outcome: .refused(ParentRefusal(.parentAuthentication, detail, status: 407)))
}

private func fails(
  _ sentence: String, _ heads: [String], _ detail: String, limits: HeadLimits = HeadLimits(bytes: 1024, fields: 8)
) -> ParentScript {
  ParentScript(
    sentence: sentence, parent: office, limits: limits, says: heads.map(octets), sends: request,
    outcome: .refused(
      ParentRefusal(
        .parentFailed, "The answer of the parent http://proxy.example:3128 to CONNECT a.example:443 \(detail).")))
}

@Suite struct ConnectDialogueTests {
  static let opened: [ParentScript] = [
    opens("200", "HTTP/1.1 200 Connection established\r\n\r\n"),
    opens("200 without a reason", "HTTP/1.1 200 \r\n\r\n"),
    opens("HTTP/1.0", "HTTP/1.0 200 OK\r\nProxy-Agent: old\r\n\r\n"),
    opens("204", "HTTP/1.1 204 No Content\r\n\r\n"), opens("299", "HTTP/1.1 299 x\r\n\r\n"),
    opens("a length, which means nothing here", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
    opens("chunks, which mean nothing here", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    opens(
      "a framing that would be refused elsewhere",
      "HTTP/1.1 200 OK\r\nContent-Length: x\r\nContent-Length: 7\r\nTransfer-Encoding: gzip\r\n\r\n"),
    opens("a connection that is said to close", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
    opens("100 first", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
    opens(
      "103 and 102 first", "HTTP/1.1 103 x\r\nLink: <a>\r\n\r\n", "HTTP/1.1 102 x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
    ParentScript(
      sentence: "as many 1xx as are passed over", parent: office,
      says: [[UInt8]](repeating: octets("HTTP/1.1 100 x\r\n\r\n"), count: 16) + [octets("HTTP/1.1 200 x\r\n\r\n")],
      sends: request, outcome: .open),
    ParentScript(
      sentence: "credentials, and an https parent", parent: secret, says: [octets("HTTP/1.1 200 OK\r\n\r\n")],
      sends: requestWithCredentials, outcome: .open),
    ParentScript(
      sentence: "an IPv6 address stands between brackets", parent: office, host: "[2001:DB8::1]", port: 8443,
      says: [octets("HTTP/1.1 200 OK\r\n\r\n")],
      sends: octets(
        "CONNECT [2001:db8::1]:8443 HTTP/1.1\r\nHost: [2001:db8::1]:8443\r\nVia: 1.1 sallyport (7F3K2A9Q)\r\n\r\n"),
      outcome: .open),
    ParentScript(
      sentence: "an IPv4 address stands as it is", parent: office, host: "192.0.2.1", port: 22,
      says: [octets("HTTP/1.1 200 OK\r\n\r\n")],
      sends: octets("CONNECT 192.0.2.1:22 HTTP/1.1\r\nHost: 192.0.2.1:22\r\nVia: 1.1 sallyport (7F3K2A9Q)\r\n\r\n"),
      outcome: .open),
  ]

  private static let expected =
    "2xx was expected in answer to CONNECT a.example:443, and the parent http://proxy.example:3128 answered"

  static let refused: [ParentScript] = [
    refuses("403", "HTTP/1.1 403 Forbidden\r\n\r\n", "\(expected) 403 (Forbidden).", status: 403),
    refuses(
      "a body is not waited for", "HTTP/1.1 403 No\r\nContent-Length: 99\r\n\r\n", "\(expected) 403 (No).", status: 403),
    refuses("no reason", "HTTP/1.1 404 \r\n\r\n", "\(expected) 404.", status: 404),
    refuses("a reason of blanks", "HTTP/1.1 404  \t \r\n\r\n", "\(expected) 404.", status: 404),
    refuses(
      "a redirection is not followed", "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", "\(expected) 302 (Found).",
      status: 302),
    refuses("401 is not 407", "HTTP/1.1 401 x\r\n\r\n", "\(expected) 401 (x).", status: 401),
    refuses("499", "HTTP/1.1 499 x\r\n\r\n", "\(expected) 499 (x).", status: 499),
    refuses("500", "HTTP/1.1 500 x\r\n\r\n", "\(expected) 500 (x).", allowsNext: true, status: 500),
    refuses("502", "HTTP/1.1 502 Bad Gateway\r\n\r\n", "\(expected) 502 (Bad Gateway).", allowsNext: true, status: 502),
    refuses("503 of HTTP/1.0", "HTTP/1.0 503 x\r\n\r\n", "\(expected) 503 (x).", allowsNext: true, status: 503),
    refuses("599", "HTTP/1.1 599 x\r\n\r\n", "\(expected) 599 (x).", allowsNext: true, status: 599),
    refuses(
      "what is above 599 counts as 5xx", "HTTP/1.1 999 x\r\n\r\n", "\(expected) 999 (x).", allowsNext: true, status: 999
    ),
    refuses(
      "a reason that is not for a terminal", "HTTP/1.1 403 a\tb\u{80}\u{ff}\"<c>\r\n\r\n",
      "\(expected) 403 (a?b??\"<c>).", status: 403),
    refuses(
      "a reason of eighty bytes", "HTTP/1.1 403 \(String(repeating: "x", count: 80))\r\n\r\n",
      "\(expected) 403 (\(String(repeating: "x", count: 80))).", status: 403),
    refuses(
      "a reason that is a page", "HTTP/1.1 403 \(String(repeating: "x", count: 81))\r\n\r\n",
      "\(expected) 403 (\(String(repeating: "x", count: 80))...).", status: 403),
  ]

  private static let wants =
    "Credentials are expected by the parent http://proxy.example:3128, and its route has none (407)"
  private static let others =
    "The Basic credentials of its route are not what the parent https://[2001:db8::7]:443 takes (407)"

  static let authentication: [ParentScript] = [
    asks(
      "407, and there are no credentials", "Proxy-Authenticate: Basic realm=\"x\"\r\n", "\(wants); it asks for Basic."),
    asks("407 that does not say what for", "", "\(wants)."),
    asks("407 with an empty challenge", "Proxy-Authenticate: \r\nProxy-Authenticate: =\r\n", "\(wants)."),
    asks(
      "407 for other credentials",
      "Proxy-Authenticate: Negotiate\r\nProxy-Authenticate: NTLM\r\nProxy-Authenticate: Negotiate x\r\n",
      "\(others); it asks for Negotiate or NTLM.", of: secret),
    asks("407 for the same", "Proxy-Authenticate: Basic realm=\"x\"\r\n", "\(others); it asks for Basic.", of: secret),
    asks(
      "407 with more schemes than there are", (0..<8).map { "Proxy-Authenticate: S\($0)\r\n" }.joined(),
      "\(wants); it asks for S0 or S1 or S2 or S3 or S4 or S5 or S6 or S7."),
    asks(
      "407 with a scheme that is a page", "Proxy-Authenticate: \(String(repeating: "s", count: 90))\r\n",
      "\(wants); it asks for \(String(repeating: "s", count: 80))...."),
  ]

  private static let badLine = MessageFault.badStatusLine.sentence

  static let failed: [ParentScript] = [
    fails("a SOCKS server", ["\u{5}\u{ff}"], MessageFault.controlCharacter.sentence + "; it sent a SOCKS 5 answer"),
    fails(
      "a TLS server", ["\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}\u{46}"],
      MessageFault.controlCharacter.sentence + "; it sent a TLS record"),
    fails("a mail server", ["220 mail.example\r\n"], badLine + "; it sent the byte 0x32"),
    fails("a header without a status line", ["<html>"], badLine + "; it sent the byte 0x3c"),
    fails("HTTP/2", ["HTTP/2 200\r\n\r\n"], badLine),
    fails("no space behind the status", ["HTTP/1.1 200\r\n\r\n"], badLine),
    fails("lines that end with LF", ["HTTP/1.1 200 OK\n\n"], MessageFault.bareLineFeed.sentence),
    fails("a folded line", ["HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n"], MessageFault.obsoleteLineFolding.sentence),
    fails(
      "a framing of two minds, where it matters",
      ["HTTP/1.1 403 x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"],
      MessageFault.lengthWithTransferEncoding.sentence),
    fails(
      "101", ["HTTP/1.1 101 x\r\nUpgrade: y\r\nConnection: upgrade\r\n\r\n"], MessageFault.unexpectedSwitch.sentence),
    fails(
      "more 1xx than are passed over", [String](repeating: "HTTP/1.1 100 x\r\n\r\n", count: 17),
      MessageFault.unexpectedInformational.sentence),
    fails(
      "a malformed answer behind 100", ["HTTP/1.1 100 x\r\n\r\n", "\u{16}"],
      MessageFault.controlCharacter.sentence + "; it sent a TLS record"),
    fails(
      "a head above the limit", ["HTTP/1.1 200 OK\r\nX: \(String(repeating: "x", count: 100))\r\n\r\n"],
      MessageFault.headTooLarge.sentence, limits: HeadLimits(bytes: 64, fields: 8)),
    fails(
      "more fields than the limit", ["HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n"],
      MessageFault.tooManyFields.sentence, limits: HeadLimits(bytes: 64, fields: 2)),
  ]

  @Test(arguments: opened) func theWayIsOpened(script: ParentScript) { rehearse(script) }
  @Test(arguments: refused) func theParentRefuses(script: ParentScript) { rehearse(script) }
  @Test(arguments: authentication) func theParentWantsToKnowWhoAsks(script: ParentScript) { rehearse(script) }
  @Test(arguments: failed) func theAnswerMakesNoSense(script: ParentScript) { rehearse(script) }

  /// Each head is held to the limits for itself: what was passed over is gone.
  @Test func informationalHeadsDoNotAddUp() {
    let hint = octets("HTTP/1.1 103 x\r\nLink: \(String(repeating: "x", count: 60))\r\n\r\n")
    rehearse(
      ParentScript(
        sentence: "", parent: office, limits: HeadLimits(bytes: 100, fields: 1),
        says: [hint, hint, hint, octets("HTTP/1.1 200 OK\r\n\r\n")], sends: request, outcome: .open))
  }

  @Test func noCredentialsAreInWhatIsTold() {
    for text in ["HTTP/1.1 407 x\r\n\r\n", "HTTP/1.1 403 x\r\n\r\n", "x"] {
      var handshake = ParentHandshake(
        secret, host: canonical("a.example"), port: 443, via: [], limits: HeadLimits(bytes: 1024, fields: 8))
      var output = ByteBuffer()
      guard case .refused(let refusal) = handshake.received(octets(text).span, &output) else {
        Issue.record("'\(text)' was not refused")
        continue
      }
      for form in ["Aladdin", "sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ"] { #expect(!refusal.detail.contains(form)) }
    }
  }
}

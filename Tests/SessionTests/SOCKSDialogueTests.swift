// SOCKS 5 with a parent: methods, credentials, requests by name and address, and every reply.

import Bytes
import HTTP1
import Policy
import TestSupport
import Testing

@testable import Session

private let plain = Route.Parent(kind: .socks5, host: canonical("socks.example"), port: 1080)
private let known = Route.Parent(
  kind: .socks5, host: canonical("socks.example"), port: 1080,
  credentials: .password(RouteCredentials("kiosk", "s3cret")))

private let place = "the parent socks5://socks.example:1080"
private let hello: [UInt8] = [5, 1, 0]
private let helloWithCredentials: [UInt8] = [5, 2, 2, 0]
private let login: [UInt8] = [1, 5] + octets("kiosk") + [6] + octets("s3cret")
/// CONNECT to a.example:443.
private let request: [UInt8] = [5, 1, 0, 3, 9] + octets("a.example") + [1, 187]
private let granted: [UInt8] = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]

private func opens(_ sentence: String, _ reply: [UInt8]) -> ParentScript {
  ParentScript(sentence: sentence, parent: plain, says: [[5, 0], reply], sends: hello + request, outcome: .open)
}

private func asks(_ sentence: String, _ host: String, _ port: UInt16, _ address: [UInt8]) -> ParentScript {
  ParentScript(
    sentence: sentence, parent: plain, host: host, port: port, says: [[5, 0], granted],
    sends: hello + [5, 1, 0] + address, outcome: .open)
}

/// Names of this many bytes, which is at most 253.
private func name(of count: Int) -> String {
  let labels = (0..<4).map { _ in String(repeating: "n", count: 62) }.joined(separator: ".")
  return String((labels + ".nn").prefix(count))
}

@Suite struct SOCKSDialogueTests {
  static let opened: [ParentScript] = [
    opens("a reply with an IPv4 address", [5, 0, 0, 1, 192, 0, 2, 1, 31, 144]),
    opens("a reply with an IPv6 address", [5, 0, 0, 4] + [UInt8](1...16) + [31, 144]),
    opens("a reply with a name", [5, 0, 0, 3, 4] + octets("name") + [0, 1]),
    opens("a reply with a name of no bytes", [5, 0, 0, 3, 0, 0, 0]),
    opens("a reply with the longest name", [5, 0, 0, 3, 255] + [UInt8](repeating: 0xff, count: 255) + [0, 1]),
    ParentScript(
      sentence: "user name and password are asked for", parent: known, says: [[5, 2], [1, 0], granted],
      sends: helloWithCredentials + login + request, outcome: .open),
    ParentScript(
      sentence: "a server that asks nobody is not told who asks", parent: known, says: [[5, 0], granted],
      sends: helloWithCredentials + request, outcome: .open),
    ParentScript(
      sentence: "the longest credentials",
      parent: Route.Parent(
        kind: .socks5, host: canonical("socks.example"), port: 1080,
        credentials: .password(
          RouteCredentials(
            username: [UInt8](repeating: 0, count: 255), password: [UInt8](repeating: 0xff, count: 255)))),
      says: [[5, 2], [1, 0], granted],
      sends: helloWithCredentials + [1, 255] + [UInt8](repeating: 0, count: 255) + [255]
        + [UInt8](repeating: 0xff, count: 255) + request, outcome: .open),
    asks("an IPv4 address", "192.0.2.1", 80, [1, 192, 0, 2, 1, 0, 80]),
    asks(
      "an IPv6 address", "[2001:db8::102:304]", 65535,
      [4, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 255, 255]),
    asks(
      "an IPv4-mapped address stays what it is", "[::ffff:192.0.2.1]", 1,
      [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 192, 0, 2, 1, 0, 1]),
    asks("a name in lower case, without the root's dot", "A.Example.", 443, [3, 9] + octets("a.example") + [1, 187]),
    asks("a name of one letter", "a", 256, [3, 1, 0x61, 1, 0]),
    asks("the longest name", name(of: 253), 443, [3, 253] + octets(name(of: 253)) + [1, 187]),
  ]

  private static func failed(
    _ sentence: String, _ says: [[UInt8]], _ detail: String, kind: Problem.Kind = .parentFailed,
    parent: Route.Parent = plain, sends: [UInt8] = hello
  ) -> ParentScript {
    ParentScript(
      sentence: sentence, parent: parent, says: says, sends: sends, outcome: .refused(ParentRefusal(kind, detail)))
  }

  private static let version = "Version 5 of SOCKS was expected of \(place), and it sent"
  private static let reply = "A SOCKS reply with"

  static let refused: [ParentScript] = [
    failed(
      "no method, and no credentials", [[5, 255]],
      "Credentials, or more, are expected by \(place), and its route has none.",
      kind: .parentAuthentication),
    failed(
      "no method, for all the credentials", [[5, 255]],
      "User name and password, or no authentication, were offered to \(place), and it takes neither.",
      kind: .parentAuthentication, parent: known, sends: helloWithCredentials),
    failed(
      "a method that was not offered", [[5, 2]],
      "One of the authentication methods that were offered was expected of \(place), and it chose 2."),
    failed(
      "GSSAPI", [[5, 1]],
      "One of the authentication methods that were offered was expected of \(place), and it chose 1.",
      parent: known, sends: helloWithCredentials),
    failed("an HTTP server", [octets("HTTP/1.1 400 Bad Request\r\n\r\n")], "\(version) an HTTP answer."),
    failed("a SOCKS 4 server", [[0, 91, 0, 0, 0, 0, 0, 0]], "\(version) a SOCKS 4 answer."),
    failed("the version of SOCKS 4", [[4, 0]], "\(version) a SOCKS 4 answer."),
    failed("a TLS server", [[0x15, 3, 1, 0, 2, 2, 70]], "\(version) a TLS record."),
    failed("nothing known", [[0xab]], "\(version) the byte 0xab."),
    failed("a low byte", [[1, 0]], "\(version) the byte 0x01."),
    failed(
      "an HTTP answer to the request", [[5, 0], octets("HTTP/1.1")], "\(version) an HTTP answer.",
      sends: hello + request),
    failed(
      "credentials that are not taken", [[5, 2], [1, 1]],
      "The user name and password of its route are not what \(place) takes (status 1).", kind: .parentAuthentication,
      parent: known, sends: helloWithCredentials + login),
    failed(
      "any status but zero is a refusal", [[5, 2], [1, 255]],
      "The user name and password of its route are not what \(place) takes (status 255).", kind: .parentAuthentication,
      parent: known, sends: helloWithCredentials + login),
    failed(
      "another version of the answer to credentials", [[5, 2], [5, 0]],
      "Version 1 of the answer to user name and password (RFC 1929) was expected of \(place), and it sent 5.",
      parent: known, sends: helloWithCredentials + login),
    failed(
      "a reserved byte with something in it", [[5, 0], [5, 0, 7]],
      "A SOCKS reply with zero in its reserved byte was expected of \(place) for a.example:443, and it sent 7.",
      sends: hello + request),
    failed(
      "an address of no type", [[5, 0], [5, 0, 0, 2]],
      "A SOCKS reply with the address type 1, 3 or 4 was expected of \(place) for a.example:443, and it sent 2.",
      sends: hello + request),
  ]

  @Test(arguments: opened) func theWayIsOpened(script: ParentScript) { rehearse(script) }
  @Test(arguments: refused) func theAnswerIsRefused(script: ParentScript) { rehearse(script) }

  @Test(
    arguments: [
      (1, "general failure", true), (2, "not allowed by its rules", false), (3, "network unreachable", true),
      (4, "host unreachable", true), (5, "connection refused", true), (6, "time to live expired", true),
      (7, "command not supported", false), (8, "address type not supported", false),
      (9, "a code that is not assigned", false), (255, "a code that is not assigned", false),
    ] as [(UInt8, String, Bool)]) func everyReplyIsToldInWords(code: UInt8, words: String, allowsNext: Bool)
  {
    let detail = "A connection to a.example:443 was refused by \(place): \(words) (SOCKS reply \(code))."
    // Some servers leave the address away, and what it would be does not matter.
    for rest in [[], [0, 1, 0, 0, 0, 0, 0, 0], [7, 9]] as [[UInt8]] {
      rehearse(
        ParentScript(
          sentence: "", parent: plain, says: [[5, 0], [5, code] + rest], sends: hello + request,
          outcome: .refused(ParentRefusal(.parentRefused, detail, allowsNext: allowsNext))))
    }
  }

  /// RFC 1929 gives a length of 1 to 255 to each: nothing is sent that would mean something else.
  @Test(arguments: [(0, 1), (1, 0), (256, 1), (1, 256), (1000, 1000)])
  func credentialsThatCannotBeSaidAreNotSaid(username: Int, password: Int) {
    let credentials = RouteCredentials(
      username: [UInt8](repeating: 0x75, count: username), password: [UInt8](repeating: 0x70, count: password))
    let parent = Route.Parent(
      kind: .socks5, host: canonical("socks.example"), port: 1080, credentials: .password(credentials))
    var handshake = ParentHandshake(
      parent, host: canonical("a.example"), port: 443, via: [], limits: HeadLimits(bytes: 1024, fields: 8))
    var output = ByteBuffer()
    let progress = handshake.received([UInt8]().span, &output)
    #expect(
      progress
        == .refused(
          ParentRefusal(
            .parentAuthentication,
            "A user name and a password of 1 to 255 bytes each are expected for \(place) (RFC 1929).")))
    #expect(output.array == [])
  }

  @Test func aParentThatClosesAtOnceAllowsTheNext() {
    for parent in [plain, known, Route.Parent(kind: .http, host: canonical("proxy.example"), port: 1)] {
      var handshake = ParentHandshake(
        parent, host: canonical("a.example"), port: 443, via: [], limits: HeadLimits(bytes: 1024, fields: 8))
      let refusal = handshake.ended()
      #expect(refusal.kind == .parentFailed && refusal.allowsNext)
    }
  }
}

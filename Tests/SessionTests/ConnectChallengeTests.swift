// CONNECT at a parent that asks for Digest: the challenge with its content, however it is cut, and what is asked next.

import Bytes
import HTTP1
import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct ConnectChallengeTests {
  private func handshake(_ authorization: String? = nil, scheme: AuthorizationScheme = .digest) -> ParentHandshake {
    ParentHandshake(
      Route.Parent(
        kind: .http, host: canonical("p.example"), port: 3128,
        credentials: .password(RouteCredentials(username: octets("u"), password: octets("p"), scheme: scheme))),
      host: canonical("a.example"), port: 443, via: octets("1.1 x"), limits: HeadLimits(bytes: 1024, fields: 8),
      authorization: authorization.map { octets($0) })
  }

  private static let challenged =
    "HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=a\r\nproxy-authenticate: Digest realm=b\r\n"
  private static let lines = ["Basic realm=a", "Digest realm=b"].map { octets($0) }

  @Test func nothingIsSentUnasked() {
    var output = ByteBuffer()
    let nothing: [UInt8] = []
    var bare = handshake()
    _ = bare.received(nothing.span, &output)
    #expect(characters(output.array) == "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nVia: 1.1 x\r\n\r\n")
    output.removeAll()
    var known = handshake("Digest x")
    _ = known.received(nothing.span, &output)
    #expect(characters(output.array).contains("\r\nProxy-Authorization: Digest x\r\nVia"))
  }

  @Test(arguments: [1, 2, 7, 1000])
  func theContentIsReadPast(step: Int) {
    var talk = handshake()
    var output = ByteBuffer()
    let said = octets(Self.challenged + "Content-Length: 9\r\n\r\nwho is it" + "HTTP/1.1 200 OK\r\n\r\nrest")
    var consumed = 0
    var shown = 0
    var challenges = 0
    while true {
      switch talk.received(said.span.extracting(consumed..<shown), &output) {
      case .wants(let count):
        consumed += count
        shown = min(said.count, shown + step)
      case .challenged(let count, let lines, let isKept):
        consumed += count
        challenges += 1
        #expect(lines == Self.lines && isKept && talk.unfinishedChallenge == nil)
        #expect(characters(Array(said[..<consumed])).hasSuffix("who is it"))
        output.removeAll()
        talk.ask(with: octets("Digest y"))
      case .open(let count):
        #expect(challenges == 1 && characters(output.array).contains("\r\nProxy-Authorization: Digest y\r\n"))
        #expect(characters(Array(said[..<(consumed + count)])).hasSuffix("200 OK\r\n\r\n"))
        return
      case .refused(let refusal):
        Issue.record("\(refusal)")
        return
      }
    }
  }

  @Test(arguments: [
    "Content-Length: 3\r\nConnection: close\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n", "\r\n",
    "Content-Length: 65537\r\n\r\n",
  ])
  func whatNeedsAnotherConnection(rest: String) {
    var talk = handshake()
    var output = ByteBuffer()
    let said = octets(Self.challenged + rest)
    #expect(
      talk.received(said.span, &output) == .challenged(consumed: said.count, lines: Self.lines, isKept: false))
  }

  @Test func anEndWithinTheContentLeavesTheChallenge() {
    var talk = handshake()
    var output = ByteBuffer()
    _ = talk.received(octets(Self.challenged + "Content-Length: 3\r\n\r\nx").span, &output)
    #expect(talk.unfinishedChallenge == Self.lines)
  }

  @Test func whatEndsAfterItWasAskedAgainMayBeAskedElsewhere() {
    var talk = handshake()
    var output = ByteBuffer()
    #expect(!talk.mayAskElsewhere)
    _ = talk.received(octets(Self.challenged + "Content-Length: 0\r\n\r\n").span, &output)
    talk.ask(with: octets("Digest y"))
    #expect(talk.mayAskElsewhere)
    _ = talk.received(octets("HTTP/1.1 2").span, &output)
    #expect(!talk.mayAskElsewhere)
  }

  @Test func basicIsNotAskedAgain() {
    var talk = handshake(scheme: .basic)
    var output = ByteBuffer()
    guard case .refused(let refusal) = talk.received(octets(Self.challenged + "\r\n").span, &output) else {
      Issue.record("not refused")
      return
    }
    #expect(refusal.detail.contains("it asks for Basic or Digest") && !refusal.allowsNext)
  }

  @Test func whatIsToldOfCredentialsThatWillNotDo() {
    var talk = handshake()
    let refusal = talk.refused(credentials: "were refused")
    #expect(refusal.kind == .parentAuthentication && refusal.status == 407)
    #expect(
      refusal.detail == "The digest credentials of its route were refused, by the parent http://p.example:3128 (407).")
  }
}

// `buffer_uploads`: chunked bodies that leave with their length, from memory or through a file that the test plays.

import Bytes
import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct SpooledBodyTests {
  static let rules = policy(
    """
    [proxy.limits]
    buffered_body = "1KiB"
    [[rule]]
    name = "whole"
    [rule.request]
    buffer_uploads = true
    """)

  // MARK: In memory

  @Test func aChunkedBodyLeavesWithItsLengthAndWithoutItsTrailers() {
    play(
      .client(
        head(
          "POST http://a.example/p HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked", "Trailer: X-Sum",
          "Expect: 100-continue", "Repr-Digest: sha-256=:AAAA:")
          + "3\r\nabc\r\n5\r\ndefgh\r\n0\r\nX-Sum: 1\r\n\r\n"),
      .opened, .upstream(ok), policy: Self.rules,
      gives: #"""
        < HTTP/1.1 100 Continue
        <
        connect a.example:80
        > POST /p HTTP/1.1 …
        > Repr-Digest: sha-256=:AAAA:
        > Content-Length: 8
        > content: abcdefgh
        < HTTP/1.1 200 OK …
        < Content-Length: 2
        < content: ok
        end (200): client keep, upstream kept
        """#)
  }

  /// Also where the announcement would be written anew, because the rule takes out one of what it names.
  @Test func noTrailersAreAnnouncedThatDoNotCome() {
    let rules = policy("[[rule]]\nname = \"r\"\n[rule.request]\nbuffer_uploads = true\nheaders.remove = [\"X-Other\"]")
    let transcript = Stage(rules, .whole).play([
      .client(
        head(
          "PUT http://a.example/p HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked", "Trailer: X-Sum, X-Other")
          + "3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"),
      .opened, .upstream(ok),
    ])
    #expect(transcript.contains("> Content-Length: 3") && !transcript.contains("Trailer"), "\(transcript)")
  }

  @Test func anEmptyBodyHasALengthToo() {
    let transcript = Stage(Self.rules, .whole).play([
      .client(head("PUT http://a.example/p HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + "0\r\n\r\n"),
      .opened, .upstream(ok),
    ])
    #expect(transcript.contains("> Content-Length: 0") && !transcript.contains("Transfer-Encoding"), "\(transcript)")
  }

  @Test func aBodyThatIsMalformedNeverReachesTheOrigin() {
    let transcript = Stage(Self.rules, .whole).play([
      .client(
        head("PUT http://a.example/p HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + "3\r\nabcd\r\n")
    ])
    #expect(transcript.contains("end (400 malformed-request)") && !transcript.contains("connect"), "\(transcript)")
  }

  // MARK: By a file

  /// What a server has of one session.
  fileprivate struct Setting: ~Copyable {
    let rules: Policy
    var session: Session
    var workspace: Workspace
    var outputs = Outputs()
    let budget: ByteBudget
    var now: Int64 = 1000

    init(_ rules: Policy = SpooledBodyTests.rules) {
      budget = ByteBudget()
      self.rules = rules
      session = Session(policy: rules, in: ExchangeRooms(), now: 1000)
      workspace = Workspace(
        name: "sallyport", mark: Stage.mark, references: ReferenceSource(seed: 0, index: 0, of: 1), heldBytes: budget)
    }

    /// Shows all of it, and answers what the session says last.
    mutating func says(_ text: [UInt8]) -> Action {
      let step = session.clientReceived(
        text.span, now: now, policy: rules, in: &workspace, to: &outputs)
      #expect(step.consumed == text.count)
      return step.action
    }

    mutating func upload(_ count: Int) -> Action {
      says(octets("\(String(count, radix: 16))\r\n") + [UInt8](repeating: 0x61, count: count) + octets("\r\n"))
    }

    mutating func open() -> Action {
      session.exchange.upstreamOpened(
        reused: false, address: IPAddress(ipv4: 0xc000_0201), port: 80, now: now, in: &workspace, to: &outputs)
    }
  }

  fileprivate static let begin = octets(
    head("POST http://a.example/p HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked"))
  fileprivate static let end = octets("0\r\n\r\n")
  private static let piece = SpooledBody.pieceBytes

  @Test func whatIsMoreThanMayBeHeldGoesThroughTheFileInOrder() {
    var setting = Setting()
    var written = ByteBuffer()
    #expect(setting.says(Self.begin) == .read)
    // More than may be held, but not worth a write.
    #expect(setting.upload(2000) == .read)
    #expect(setting.session.exchange.takeForSpool(&written) == nil)
    #expect(setting.upload(Self.piece) == .read)
    #expect(setting.session.exchange.takeForSpool(&written) == 0)
    #expect(written.count == Self.piece + 2000)
    let reads = setting.session.wantsClientBytes
    #expect(!reads && setting.session.exchange.takeForSpool(&written) == nil)
    setting.session.exchange.spoolWritten(now: 1000)
    #expect(setting.budget.count == 0)
    // The last of it stays.
    #expect(setting.upload(500) == .read)
    #expect(setting.says(Self.end) == .connect)
    #expect(setting.open() == .hold)
    let length = Self.piece + 2500
    let head = setting.outputs.toUpstream.bytes.string
    #expect(head.contains("Content-Length: \(length)\r\n") && head.hasSuffix("\r\n\r\n"), "\(head)")
    setting.outputs.toUpstream.removeAll()
    var sent = 0
    while let next = setting.session.exchange.takeFromSpool() {
      #expect(next.offset == UInt64(sent) && setting.session.exchange.takeFromSpool() == nil)
      let bytes = [UInt8](repeating: 0x62, count: next.count)
      setting.session.exchange.spoolRead(bytes, now: 1000, in: &setting.workspace, to: &setting.outputs)
      sent += next.count
      let isLast = sent == Self.piece + 2000
      #expect(setting.outputs.toUpstream.count == next.count + (isLast ? 500 : 0))
      setting.outputs.toUpstream.removeAll()
    }
    let spools = setting.session.exchange.spools
    #expect(sent == Self.piece + 2000 && !spools)
  }

  @Test func whereNothingMayBeHeldEveryPieceIsWritten() {
    let rules = policy(
      "proxy.limits = { buffered_body = \"1KiB\", held_bodies = \"1KiB\" }\nrule = [{ name = \"r\", request = { buffer_uploads = true } }]"
    )
    var setting = Setting(rules)
    _ = setting.budget.take(1 << 10, limit: 1 << 10)
    #expect(setting.says(Self.begin) == .read)
    #expect(setting.upload(10) == .read)
    var written = ByteBuffer()
    #expect(setting.session.exchange.takeForSpool(&written) == 0)
    #expect(written.count == 10 && setting.budget.count == 1 << 10)
  }

  @Test func anAnswerBeforeTheBodyIsOutKeepsNoConnection() {
    var setting = Setting()
    setting.fill()
    #expect(setting.open() == .hold)
    let answer = octets("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    let step = setting.session.exchange.upstreamReceived(
      answer.span, now: 1000, in: &setting.workspace, to: &setting.outputs)
    #expect(step.action == .end(Ending(client: .keep, keepsUpstream: false)))
  }

  @Test func aFileThatFailsIsA507AndNeverACutBody() {
    for exchanges in [false, true] {
      var setting = Setting()
      setting.fill(whole: exchanges)
      if exchanges {
        #expect(setting.open() == .hold)
        _ = setting.session.exchange.takeFromSpool()
      }
      let action = setting.session.exchange.spoolFailed(
        "in /x: No space left on device", in: &setting.workspace, to: &setting.outputs)
      guard case .end(let ending) = action else {
        Issue.record("\(action)")
        continue
      }
      #expect(!ending.keepsUpstream)
      #expect(
        setting.session.exchange.record.answer.status == 507
          && setting.session.exchange.record.outcome == .problem(.spoolFailed))
      let spools = setting.session.exchange.spools
      #expect(!spools)
    }
  }

  @Test func aDiskThatHangsIsNotWaitedForForEver() {
    var setting = Setting()
    setting.fill(whole: false, writes: false)
    var written = ByteBuffer()
    _ = setting.session.exchange.takeForSpool(&written)
    let due = setting.session.deadline
    #expect(due == 1000 + setting.session.exchange.ruling.timeouts.bodyStallMilliseconds)
    _ = setting.session.timedOut(now: due, in: &setting.workspace, to: &setting.outputs)
    #expect(setting.session.exchange.record.answer.status == 507)
  }

  @Test func anUploadOfAnHourIsNotTooSlow() {
    var setting = Setting()
    setting.fill(whole: false)
    setting.now += 100_000
    _ = setting.upload(100)
    // A quarter of a MiB has come, which at the least rate takes 256 s.
    #expect(setting.session.deadline == setting.now + setting.session.exchange.ruling.timeouts.bodyStallMilliseconds)
  }
}

extension SpooledBodyTests.Setting {
  /// A body of which a piece is in the file.
  fileprivate mutating func fill(whole: Bool = true, writes: Bool = true) {
    _ = says(SpooledBodyTests.begin)
    _ = upload(SpooledBody.pieceBytes)
    if !writes { return }
    var written = ByteBuffer()
    _ = session.exchange.takeForSpool(&written)
    session.exchange.spoolWritten(now: now)
    if whole { _ = says(SpooledBodyTests.end) }
  }
}

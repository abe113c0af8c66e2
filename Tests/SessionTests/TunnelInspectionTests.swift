// The beginning of a tunnel, as playbooks: what each side sends and what becomes of it, in whatever pieces it comes.

import Bytes
import TestSupport
import Testing

@testable import Session
@testable import TLSWire

@Suite struct TunnelInspectionTests {
  /// What happens to a tunnel.
  enum Event {
    case client([UInt8])
    case server([UInt8])
    case accepted
    case clientEnds
    case serverEnds
  }

  /// Plays the server's part: keeps what has not been passed on, and writes down what becomes of it.
  struct Tunnel {
    var inspection: TunnelInspection
    private(set) var lines: [String] = []
    private(set) var toServer: [UInt8] = []
    private(set) var toClient: [UInt8] = []
    private var fromClient: [UInt8] = []
    private var fromServer: [UInt8] = []
    private var passedToServer = 0
    private var passedToClient = 0
    private(set) var isOver = false

    init(names: [String], wantsStaple: Bool = false) {
      inspection = TunnelInspection(serverNames: names.map(octets), for: .certificates(wantsStaple: wantsStaple))
    }

    mutating func happens(_ event: Event, _ split: Split, _ memory: GuardedMemory) {
      switch event {
      case .client(let bytes):
        for piece in split.pieces(bytes) where !isOver {
          fromClient += piece
          pumpClient(memory)
        }
      case .server(let bytes):
        for piece in split.pieces(bytes) where !isOver {
          fromServer += piece
          pumpServer(memory)
        }
      case .accepted:
        inspection.accept()
        lines.append("accepted")
        pumpServer(memory)
        if !fromClient.isEmpty { pumpClient(memory) }
      case .clientEnds: end(inspection.clientEnded(), "the client ended")
      case .serverEnds: end(inspection.upstreamEnded(), "the server ended")
      }
      noteAll()
      // The same again changes nothing.
      if !isOver, !fromClient.isEmpty { pumpClient(memory) }
    }

    /// Shows bytes without passing any on.
    mutating func show(client bytes: [UInt8]) -> ClientStep { inspection.clientReceived(bytes.span) }
    mutating func show(server bytes: [UInt8]) -> UpstreamStep { inspection.upstreamReceived(bytes.span) }

    private mutating func end(_ fault: TunnelFault?, _ otherwise: String) {
      noteAll()
      lines.append(fault.map { "refused: \($0.token)" } ?? otherwise)
      isOver = fault != nil
    }

    private mutating func noteAll() {
      Self.note(&passedToServer, toServer, ">", &lines)
      Self.note(&passedToClient, toClient, "<", &lines)
    }

    private static func note(_ passed: inout Int, _ sent: [UInt8], _ sign: String, _ lines: inout [String]) {
      if sent.count > passed { lines.append("\(sign) \(sent.count - passed)") }
      passed = sent.count
    }

    private mutating func pumpClient(_ memory: GuardedMemory) {
      while !isOver {
        switch memory.lend(fromClient, { inspection.clientReceived($0) }) {
        case .hold: return
        case .forward(let count):
          precondition(count > 0 && count <= fromClient.count, "forward \(count) of \(fromClient.count)")
          toServer += fromClient.prefix(count)
          fromClient.removeFirst(count)
          if fromClient.isEmpty { return }
        case .refuse(let fault): end(fault, "")
        }
      }
    }

    private mutating func pumpServer(_ memory: GuardedMemory) {
      switch memory.lend(fromServer, { inspection.upstreamReceived($0) }) {
      case .hold: return
      case .pass:
        toClient += fromServer
        fromServer = []
      case .evaluate(let presented):
        let staple = presented.stapledResponse.map { ", \($0.count) bytes of OCSP" } ?? ""
        lines.append("evaluate \(presented.certificates.map(\.count))\(staple)")
      case .resumed: lines.append("resumed")
      case .passThenClose(let count):
        toClient += fromServer.prefix(count)
        fromServer = []
        noteAll()
        lines.append("closed")
        isOver = true
      case .refuse(let fault): end(fault, "")
      }
    }
  }

  private let memory = GuardedMemory(capacity: 512 << 10)

  /// Plays `events` in all the usual pieces, and expects the same lines each time: `> 5` five bytes to the server, `< 5`
  /// five to the client.
  private func play(
    names: [String] = ["a.example"], wantsStaple: Bool = false, _ events: Event..., gives expected: [String],
    thenComplete: Bool? = nil, location: SourceLocation = #_sourceLocation
  ) {
    let isLong = events.contains { event in
      if case .client(let bytes) = event { return bytes.count > 8192 }
      return false
    }
    for split in isLong ? [Split.whole, .random(seed: 5, longest: 9000)] : Split.usual {
      var tunnel = Tunnel(names: names, wantsStaple: wantsStaple)
      for event in events where !tunnel.isOver { tunnel.happens(event, split, memory) }
      #expect(tunnel.lines == expected, "\(split)", sourceLocation: location)
      #expect(Self.sent(events).client.starts(with: tunnel.toServer), sourceLocation: location)
      #expect(Self.sent(events).server.starts(with: tunnel.toClient), sourceLocation: location)
      if let thenComplete { #expect(tunnel.inspection.isComplete == thenComplete, sourceLocation: location) }
    }
  }

  private static func sent(_ events: [Event]) -> (client: [UInt8], server: [UInt8]) {
    events.reduce(into: ([], [])) { sent, event in
      switch event {
      case .client(let bytes): sent.0 += bytes
      case .server(let bytes): sent.1 += bytes
      case .accepted, .clientEnds, .serverEnds: break
      }
    }
  }

  private static let hello13 = BuiltHello(named("a.example") + versions(0x0304)).asRecords
  private static let other13 = BuiltHello(named("b.example") + versions(0x0304)).asRecords
  private static let hello12 = BuiltHello(named("a.example")).asRecords
  private static let answer13 = records(BuiltAnswer.tls13.asMessage)
  private static let retry = records(BuiltAnswer.retryRequest.asMessage)
  private static let answer12 = records(BuiltAnswer().asMessage + certificates([[1, 2], [3]]) + serverHelloDone)

  // MARK: How it goes

  @Test func tls13() {
    play(
      .client(CapturedHello.chromium), .server(CapturedFlight.tls13), .client(changeCipherSpec + record(23, [1])),
      .server(octets("whatever")), .client(octets("follows")),
      gives: ["> 1981", "< 161", "> 12", "< 8", "> 7"], thenComplete: true)
  }

  @Test func tls12WithCertificatesThatAreAccepted() {
    let leaf = CapturedFlight.leafP256.count
    let root = CapturedFlight.root.count
    play(
      .client(CapturedHello.openssl12), .server(CapturedFlight.p256Staple), .accepted,
      .client(record(22, [16, 0, 0, 0])),
      .server(changeCipherSpec),
      gives: ["> 215", "evaluate [\(leaf), \(root)]", "accepted", "< 1775", "> 9", "< 6"], thenComplete: true)
    play(
      wantsStaple: true, .client(CapturedHello.openssl12), .server(CapturedFlight.p256Staple), .accepted,
      gives: [
        "> 215", "evaluate [\(leaf), \(root)], \(CapturedFlight.ocspP256.count) bytes of OCSP", "accepted", "< 1775",
      ], thenComplete: true)
  }

  @Test func nothingReachesTheClientBeforeItsServerIsAccepted() {
    play(
      .client(Self.hello12), .server(Self.answer12), .server(octets("more")), .server(alert(2, 40)),
      gives: ["> \(Self.hello12.count)", "evaluate [2, 1]"], thenComplete: false)
    play(
      .client(CapturedHello.openssl12Ticket), .server(CapturedFlight.resumesTicket), .server(octets("more")),
      gives: ["> 414", "resumed"], thenComplete: false)
  }

  @Test func aSessionThatIsResumed() {
    play(
      .client(CapturedHello.openssl12Ticket), .server(CapturedFlight.resumesTicket), .accepted,
      .client(changeCipherSpec),
      gives: ["> 414", "resumed", "accepted", "< 141", "> 6"], thenComplete: true)
  }

  @Test func earlyDataFollowsTheHelloAtOnce() {
    play(
      .client(CapturedHello.openssl13EarlyData), .server(CapturedFlight.tls13), .client(octets("x")),
      gives: ["> 465", "< 161", "> 1"], thenComplete: true)
    let early = (0..<20).flatMap { _ in record(23, [UInt8](repeating: 5, count: RecordHeader.longestCiphertext)) }
    play(
      .client(Self.hello13 + changeCipherSpec + early), .server(Self.answer13),
      gives: ["> \(Self.hello13.count + 6 + early.count)", "< \(Self.answer13.count)"], thenComplete: true)
  }

  @Test func anAlertOfTheServerIsTheLastThatPasses() {
    play(
      .client(Self.hello12), .server(alert(2, 40) + Self.answer12), .server(octets("more")), .client(octets("more")),
      gives: ["> \(Self.hello12.count)", "< 7", "closed"], thenComplete: false)
    play(
      .client(Self.hello12), .server(alert(1, 112) + Self.answer12), .accepted,
      gives: [
        "> \(Self.hello12.count)", "evaluate [2, 1]", "accepted", "< \(7 + Self.answer12.count)",
      ], thenComplete: true)
  }

  // MARK: A second hello

  @Test func aHelloRetryRequestAndASecondHello() {
    let first = Array(CapturedHello.openssl13Retried[..<315])
    let second = Array(CapturedHello.openssl13Retried[315...])
    let retry = Array(CapturedFlight.tls13Retry[..<99])
    let answer = Array(CapturedFlight.tls13Retry[99...])
    play(.client(first), .server(retry), gives: ["> 315", "< 99"], thenComplete: false)
    play(
      .client(first), .server(retry), .client(second), .server(answer), .client(octets("x")),
      gives: ["> 315", "< 99", "> 422", "< 228", "> 1"], thenComplete: true)
  }

  @Test func aSecondHelloAfterEarlyDataThatWasRejected() {
    let early = changeCipherSpec + record(23, [1, 2, 3])
    let count = Self.hello13.count
    play(
      .client(Self.hello13 + early), .server(Self.retry), .client(record(23, [4]) + Self.hello13 + record(23, [5])),
      .server(octets("x")),
      gives: ["> \(count + early.count)", "< \(Self.retry.count)", "> \(6 + count + 6)", "< 1"], thenComplete: true)
  }

  @Test func aSecondHelloNamesTheSameServer() {
    let none = BuiltHello(versions(0x0304)).asRecords
    let count = Self.hello13.count
    for other in [Self.other13, none] {
      play(
        .client(Self.hello13), .server(Self.retry), .client(changeCipherSpec + other),
        gives: ["> \(count)", "< \(Self.retry.count)", "> 6", "refused: changed-server-name"])
      play(
        names: ["a.example", "b.example"], .client(Self.hello13 + other), .server(Self.answer13),
        gives: ["> \(count)", "refused: changed-server-name"])
    }
    play(
      names: [], .client(none), .server(Self.retry), .client(Self.hello13),
      gives: ["> \(none.count)", "< \(Self.retry.count)", "refused: changed-server-name"])
    play(
      .client(Self.hello13), .server(Self.retry), .client(records(message(2, []))),
      gives: ["> \(count)", "< \(Self.retry.count)", "refused: client-not-client-hello"])
  }

  @Test func aSecondHelloThatNobodyAskedFor() {
    let count = Self.hello13.count
    play(
      .client(Self.hello13 + Self.hello13), .server(Self.answer13), .client(octets("x")),
      gives: ["> \(2 * count)", "< \(Self.answer13.count)", "> 1"], thenComplete: true)
    // Half of one is held until the answer makes it no matter.
    play(
      .client(Self.hello13 + Self.other13.dropLast()), .server(Self.answer13), .client(octets("x")),
      gives: ["> \(count)", "< \(Self.answer13.count)", "> \(count)"], thenComplete: true)
  }

  // MARK: Names

  @Test(
    arguments: [
      (["a.example"], "a.example", nil),
      (["a.example"], "A.EXAMPLE", nil),
      (["A.Example"], "a.example", nil),
      (["a.example."], "a.example", nil),
      (["a.example", "b.example"], "b.example", nil),
      (["a.example"], "b.example", "other-server-name"),
      (["a.example"], "a.example.b.example", "other-server-name"),
      (["a.example"], "b.a.example", "other-server-name"),
      (["a.example"], "xa.example", "other-server-name"),
      (["*.example"], "a.example", "other-server-name"),
      (["a.example"], nil, "missing-server-name"),
      ([], nil, nil),
      ([], "a.example", "unexpected-server-name"),
      ([], "192.0.2.7", "unexpected-server-name"),
      (["192.0.2.7"], "192.0.2.7", nil),
      (["a.example"], "a.example.", "client-server-name-ends-in-dot"),
    ] as [([String], String?, String?)])
  func isHeldAgainstTheCONNECT(names: [String], seen: String?, token: String?) {
    let hello = BuiltHello((seen.map(named) ?? []) + versions(0x0304)).asRecords
    play(names: names, .client(hello), gives: [token.map { "refused: \($0)" } ?? "> \(hello.count)"])
  }

  @Test func ofRealClients() {
    play(.client(CapturedHello.curl), gives: ["> 517"])
    play(names: [], .client(CapturedHello.curlToAddress), gives: ["> 517"])
    play(names: [], .client(CapturedHello.chromiumToAddress), gives: ["> 1931"])
    play(names: [], .client(CapturedHello.chromium), gives: ["refused: unexpected-server-name"])
    play(.client(CapturedHello.chromiumToAddress), gives: ["refused: missing-server-name"])
    // With ECH the outer name counts.
    play(names: ["b.example"], .client(CapturedHello.chromium), gives: ["refused: other-server-name"])
  }

  // MARK: What is refused

  @Test func theClientIsNoTLSClient() {
    play(.client(octets("GET / HTTP/1.1\r\n")), gives: ["refused: client-plain-http"])
    play(.client(octets("SSH-2.0-x\r\n")), gives: ["refused: client-ssh"])
    play(.client(alert(2, 40)), gives: ["refused: client-alert-before-hello"])
    play(.client(records(message(1, [3, 3]))), gives: ["refused: client-malformed-client-hello"])
  }

  @Test func somethingElseBehindTheHello() {
    let count = Self.hello13.count
    for (bytes, token) in [
      (octets("GET / HTTP/1.1\r\n"), "client-not-tls"), (record(22, []), "client-empty-record"),
      (record(20, []), "client-empty-record"), ([23, 3, 3, 0x41, 0x01], "client-oversized-record"),
      (records(message(16, [])), "client-not-client-hello"),
    ] {
      play(.client(Self.hello13 + bytes), gives: ["> \(count)", "refused: \(token)"])
      play(.client(Self.hello13), .client(bytes), gives: ["> \(count)", "refused: \(token)"])
      play(
        .client(Self.hello13 + changeCipherSpec), .client(record(23, [1]) + bytes),
        gives: ["> \(count + 6)", "> 6", "refused: \(token)"])
    }
  }

  @Test func theServerIsNoTLSServer() {
    let count = Self.hello13.count
    play(
      .client(Self.hello13), .server(octets("HTTP/1.1 400 Bad Request\r\n")),
      gives: ["> \(count)", "refused: server-plain-http"])
    play(.client(Self.hello13), .server(Self.hello13), gives: ["> \(count)", "refused: server-not-server-hello"])
    play(
      .client(Self.hello12), .server(Self.answer13),
      gives: ["> \(Self.hello12.count)", "refused: server-version-not-offered"])
    play(
      .client(CapturedHello.openssl12), .server(CapturedFlight.preSharedKey),
      gives: ["> 215", "refused: server-no-certificate"])
  }

  @Test func theServerSpeaksFirst() {
    for bytes in [octets("220 a.example ESMTP\r\n"), alert(2, 40), Self.answer13] {
      play(.server(bytes), gives: ["refused: server-spoke-first"])
      play(.client(Array(Self.hello13.dropLast())), .server(bytes), gives: ["refused: server-spoke-first"])
    }
  }

  @Test func oneSideEnds() {
    let count = Self.hello13.count
    play(.clientEnds, gives: ["refused: client-truncated"])
    play(.client(Array(Self.hello13.dropLast())), .clientEnds, gives: ["refused: client-truncated"])
    play(.serverEnds, gives: ["refused: server-truncated"])
    play(.client(Self.hello13), .clientEnds, gives: ["> \(count)", "the client ended"])
    play(.client(Self.hello13), .serverEnds, gives: ["> \(count)", "refused: server-truncated"])
    play(
      .client(Self.hello13), .server(Array(Self.answer13.dropLast())), .serverEnds,
      gives: ["> \(count)", "refused: server-truncated"])
    play(
      .client(Self.hello13), .server(Self.answer13), .serverEnds, .clientEnds,
      gives: ["> \(count)", "< \(Self.answer13.count)", "the server ended", "the client ended"])
    play(
      .client(Self.hello12), .server(Self.answer12), .serverEnds, .accepted,
      gives: [
        "> \(Self.hello12.count)", "evaluate [2, 1]", "the server ended", "accepted", "< \(Self.answer12.count)",
      ])
    play(
      .client(Self.hello13), .server(Self.retry), .client([22]), .clientEnds,
      gives: ["> \(count)", "< \(Self.retry.count)", "the client ended"])
    play(
      .client(Self.hello13), .server(Self.retry), .client(Array(Self.hello13.dropLast())), .clientEnds,
      gives: ["> \(count)", "< \(Self.retry.count)", "refused: client-truncated"])
  }

  @Test func whatIsRefusedStaysRefused() {
    let reasons: [[Event]] = [
      [.client(octets("GET / HTTP/1.1\r\n"))], [.client(records(message(1, [3, 3])))], [.client(Self.other13)],
      [.client(Self.hello13), .server(octets("HTTP/1.1 400 Bad Request\r\n"))], [.server([22])], [.clientEnds],
      [.client(Self.hello13), .server(records(message(2, [])))], [.client(Self.hello13), .serverEnds],
    ]
    for events in reasons {
      var tunnel = Tunnel(names: ["a.example"])
      for event in events { tunnel.happens(event, .whole, memory) }
      let refused = tunnel.show(client: Self.hello13)
      guard case .refuse(let fault) = refused else {
        Issue.record("\(events): \(refused)")
        continue
      }
      #expect(tunnel.show(client: changeCipherSpec) == .refuse(fault))
      #expect(tunnel.show(server: Self.answer13) == .refuse(fault))
      #expect(tunnel.show(server: Self.answer12) == .refuse(fault))
      #expect(tunnel.inspection.clientEnded() == fault)
      #expect(tunnel.inspection.upstreamEnded() == fault)
      #expect(!tunnel.inspection.isComplete)
    }
  }

  @Test func nothingPassesBehindAnAlert() {
    var tunnel = Tunnel(names: ["a.example"])
    tunnel.happens(.client(Self.hello12), .whole, memory)
    tunnel.happens(.server(alert(2, 40)), .whole, memory)
    #expect(tunnel.show(server: Self.answer12) == .passThenClose(count: 0))
    #expect(tunnel.show(server: Self.answer13) == .passThenClose(count: 0))
  }

  @Test func onlyWhatWasShownCanBeAccepted() async {
    await #expect(processExitsWith: .failure) {
      var inspection = TunnelInspection(serverNames: [], for: .certificates(wantsStaple: false))
      inspection.accept()
    }
  }

  // MARK: What is known of it

  @Test func theVersionAndTheHelloAreKnown() {
    for (answer, version) in [(Self.answer13, ProtocolVersion.tls13), (Self.answer12, .tls12)] {
      var tunnel = Tunnel(names: ["a.example"])
      #expect(tunnel.inspection.hello == nil)
      tunnel.happens(.client(CapturedHello.chromium), .whole, memory)
      #expect(tunnel.inspection.hello == hello(CapturedHello.chromium))
      #expect(tunnel.inspection.version == nil)
      tunnel.happens(.server(answer), .whole, memory)
      #expect(tunnel.inspection.version == version)
    }
    #expect(
      (0x02ff...0x0305).map { ProtocolVersion(rawValue: $0).description } == [
        "version 0x2ff", "SSL 3.0", "TLS 1.0", "TLS 1.1", "TLS 1.2", "TLS 1.3", "version 0x305",
      ])
    #expect(ProtocolVersion.tls11 < .tls12 && ProtocolVersion.ssl30 < .tls10)
  }

  @Test(
    arguments: [
      (.client(.plainHTTP), "The client's TLS handshake is plain HTTP where TLS was expected."),
      (.server(.noCertificate), "The server's TLS handshake goes on without a certificate of the server."),
      (
        .missingServerName(expected: "a.example"),
        "The client's ClientHello names no server, where a.example was expected."
      ),
      (
        .unexpectedServerName(seen: "a.example"),
        "The client's ClientHello names the server a.example, where none was expected for the CONNECT was to an address."
      ),
      (
        .otherServerName(seen: "b.example", expected: "a.example or c.example"),
        "The client's ClientHello names the server b.example, where a.example or c.example was expected."
      ),
      (
        .changedServerName(seen: "b.example", expected: "a.example"),
        "The client's second ClientHello names the server b.example, where its first named a.example."
      ),
    ] as [(TunnelFault, String)])
  func aFaultIsASentence(fault: TunnelFault, sentence: String) {
    #expect(fault.sentence == sentence)
  }
}

// TLS on both ends of a loopback connection: handshakes, records, sessions, ends.

import Bytes
import COpenSSL
import Glibc
import TestSupport
import Testing

@testable import Transport

/// A client's and a server's end over one connection.
private final class Pair {
  let connection: Connection
  let client: TLSStream
  let server: TLSStream
  /// The chains that the judge was shown, and the OCSP answers.
  var judged: [(certificates: Int, status: [UInt8]?)] = []
  var verdict = true

  init(
    client settings: TLSClientSettings = TLSClientSettings(), server context: TLSContext? = nil,
    clientContext: TLSContext? = nil, resuming session: TLSSession? = nil, prefix: [UInt8] = [], now: Int64 = 0
  ) throws {
    connection = try Connection()
    let certificate = Self.certificate
    let clientContext = try clientContext ?? TLSContext.client(settings).get()
    let serverContext = try context ?? TLSContext.server().get()
    let box = Box()
    client = try #require(
      TLSStream.client(
        clientContext, over: ByteStream(connection.near), serverName: "a.test", resuming: session, now: now
      ) {
        box.pair?.judged.append(($0.count, $1))
        return box.pair?.verdict ?? false
      })
    let accepting = TLSStream.server(
      serverContext, connection.far, prefix: prefix.span, certificate: certificate.x509,
      key: certificate.key.pointer, now: now)
    server = try #require(accepting)
    box.pair = self
  }

  private final class Box { weak var pair: Pair? }

  static let certificate = TestCertificate(.leaf(["DNS:a.test"], at: 1_800_000_000))

  /// Turns both ends until each is through or has failed.
  @discardableResult
  func shakeHands() -> (client: TLSStream.HandshakeProgress, server: TLSStream.HandshakeProgress) {
    var ours = client.handshake()
    var theirs = server.handshake()
    var turns = 0
    while turns < 1000, ours.isPending || theirs.isPending {
      if theirs.isPending { theirs = server.handshake() }
      if ours.isPending { ours = client.handshake() }
      if case .failed = ours, !theirs.isPending { break }
      if case .failed = theirs, !ours.isPending { break }
      turns += 1
    }
    return (ours, theirs)
  }
}

extension TLSStream.HandshakeProgress {
  fileprivate var isPending: Bool { self == .wantsRead || self == .wantsWrite }
}

extension TLSStream {
  /// Reads until something comes.
  fileprivate func readSome(_ descriptor: Descriptor, room: Int = 64 << 10) throws -> (Transfer, [UInt8]) {
    var buffer = ByteBuffer()
    buffer.reserve(room)
    var result = read(into: &buffer)
    while result == .wouldBlock {
      _ = try #require(ready(descriptor, .read))
      result = read(into: &buffer)
    }
    return (result, buffer.array)
  }

  fileprivate func writeAll(_ bytes: [UInt8]) throws {
    var buffer = ByteBuffer()
    buffer.append(bytes)
    #expect(write(buffer) == .moved(bytes.count))
  }
}

@Suite struct TLSStreamTests {
  @Test func bytesGoBothWaysOnceTheChainIsJudged() throws {
    let pair = try Pair()
    let ends = pair.shakeHands()
    #expect(ends.client == .done && ends.server == .done)
    #expect(pair.judged.count == 1 && pair.judged.first?.certificates == 1)
    #expect(!pair.client.isResumed && pair.client.isTLS13)
    try pair.client.writeAll(octets("there"))
    #expect(try pair.server.readSome(pair.connection.far).1 == octets("there"))
    try pair.server.writeAll(octets("and back"))
    #expect(try pair.client.readSome(pair.connection.near).1 == octets("and back"))
  }

  /// Whatever part of a record has come, what was read of it is still there when the rest comes: its head alone, too.
  @Test(arguments: [0, TLSContext.recordBytes, TLSContext.readAheadBytes])
  func recordsThatComeByteByByte(ahead: Int) throws {
    let pair = try Pair()
    pair.shakeHands()
    pair.client.readAhead(ahead)
    var buffer = ByteBuffer()
    buffer.reserve(1000)
    // The tickets that follow the handshake.
    while pair.client.read(into: &buffer) != .wouldBlock {}
    try pair.server.writeAll(octets("first"))
    try pair.server.writeAll(octets(", second"))
    _ = try #require(ready(pair.connection.near, .read))
    var record = [UInt8](repeating: 0, count: 4096)
    let count = recv(pair.connection.near.number, &record, record.count, 0)
    #expect(count > 40)
    for index in 0..<count {
      #expect(send(pair.connection.far.number, [record[index]], 1, 0) == 1)
      _ = try #require(ready(pair.connection.near, .read))
      // What lies where a block was given back is overwritten by what takes it next.
      let next = (0..<4).map { _ in [UInt8](repeating: 0xff, count: 16 << 10) }
      let result = pair.client.read(into: &buffer)
      #expect(next.count == 4)
      if case .moved = result { continue }
      #expect(result == .wouldBlock, "byte \(index)")
    }
    #expect(buffer.array == octets("first, second"))
  }

  @Test func aRefusedChainEndsTheHandshakeBeforeAnythingElseLeaves() throws {
    let pair = try Pair()
    pair.verdict = false
    let ends = pair.shakeHands()
    guard case .failed(let failure) = ends.client else {
      Issue.record("the handshake did not fail")
      return
    }
    #expect(failure.kind == .refusedByJudge)
    guard case .failed(let theirs) = ends.server, case .alert = theirs.kind else {
      Issue.record("the server was not told: \(ends.server)")
      return
    }
  }

  @Test func whatIsNoTLSIsAProtocolError() throws {
    let pair = try Pair()
    _ = pair.client.handshake()
    try pair.connection.far.writeWhole(octets("HTTP/1.1 400 Bad Request\r\n\r\n"))
    _ = ready(pair.connection.near, .read)
    guard case .failed(let failure) = pair.client.handshake() else {
      Issue.record("plain text passed for TLS")
      return
    }
    #expect(failure.kind == .protocolError)
  }

  @Test func anEndWithinTheHandshakeIsNamed() throws {
    let pair = try Pair()
    _ = pair.client.handshake()
    pair.connection.far.shutdownWrite()
    _ = ready(pair.connection.near, .read)
    guard case .failed(let failure) = pair.client.handshake() else {
      Issue.record("a closed connection passed for TLS")
      return
    }
    #expect(failure.kind == .closed)
  }

  @Test func aReadWithLittleRoomSaysThatThereIsMore() throws {
    let pair = try Pair()
    pair.shakeHands()
    let content = (0..<40_000).map { UInt8(truncatingIfNeeded: $0) }
    try pair.server.writeAll(content)
    var got: [UInt8] = []
    while got.count < content.count {
      let (result, bytes) = try pair.client.readSome(pair.connection.near, room: 1024)
      guard case .moved = result else {
        Issue.record("\(result)")
        return
      }
      got += bytes
    }
    #expect(got == content)
    #expect(!pair.client.hasMore || pair.client.isSilent)
  }

  @Test func headAndBodyLeaveTogether() throws {
    let pair = try Pair()
    pair.shakeHands()
    for (head, body) in [(10, 20), (0, 5), (5, 0), (1000, 16 << 10), (16 << 10, 16 << 10)] {
      let first = [UInt8](repeating: 1, count: head)
      let second = [UInt8](repeating: 2, count: body)
      var buffer = ByteBuffer()
      buffer.append(first)
      #expect(pair.client.write(buffer, then: second.span) == .moved(head + body))
      var got: [UInt8] = []
      while got.count < head + body { got += try pair.server.readSome(pair.connection.far).1 }
      #expect(got == first + second)
    }
  }

  @Test func closeNotifyIsAnEndAndItsAbsenceIsNot() throws {
    let orderly = try Pair()
    orderly.shakeHands()
    orderly.server.shutdownWrite()
    #expect(try orderly.client.readSome(orderly.connection.near).0 == .ended)

    let cut = try Pair()
    cut.shakeHands()
    cut.connection.far.shutdownWrite()
    #expect(try cut.client.readSome(cut.connection.near).0 == .failed(EPROTO))
  }

  @Test func contentThatComesWithTheEndIsReadFirst() throws {
    let pair = try Pair()
    pair.shakeHands()
    try pair.server.writeAll(octets("last words"))
    pair.server.shutdownWrite()
    _ = ready(pair.connection.near, .read)
    #expect(try pair.client.readSome(pair.connection.near).1 == octets("last words"))
    #expect(try pair.client.readSome(pair.connection.near).0 == .ended)
  }

  @Test func ticketsAreNoContent() throws {
    let pair = try Pair()
    pair.shakeHands()
    // TLS 1.3: the server's tickets lie in the socket now.
    #expect(pair.client.isSilent)
    #expect(pair.client.takeSessions().count >= 1)
    try pair.server.writeAll([1])
    _ = ready(pair.connection.near, .read)
    #expect(!pair.client.isSilent)
  }

  /// A KeyUpdate costs 20 µs and 27 bytes: without a limit, a peer keeps a loop busy for as long as it likes.
  @Test(arguments: [(TLSStream.mostKeyUpdatesAtOnce, true), (TLSStream.mostKeyUpdatesAtOnce + 1, false)])
  func aFloodOfNewKeysEndsTheConnection(count: Int, lives: Bool) throws {
    let pair = try Pair()
    pair.shakeHands()
    for _ in 0..<count {
      #expect(SSL_key_update(pair.server.ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
      #expect(SSL_do_handshake(pair.server.ssl) == 1)
    }
    try pair.server.writeAll([1])
    let (result, bytes) = try pair.client.readSome(pair.connection.near)
    if lives { #expect(bytes == [1]) } else { #expect(result == .failed(EPROTO)) }
  }

  @Test func newKeysNowAndThenAreNoFloodButNotForEver() throws {
    let pair = try Pair()
    pair.shakeHands()
    for round in 0..<TLSStream.mostKeyUpdatesEver {
      #expect(SSL_key_update(pair.server.ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
      try pair.server.writeAll([UInt8(truncatingIfNeeded: round)])
      #expect(try pair.client.readSome(pair.connection.near).1 == [UInt8(truncatingIfNeeded: round)])
    }
    #expect(SSL_key_update(pair.server.ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
    try pair.server.writeAll([1])
    #expect(try pair.client.readSome(pair.connection.near).0 == .failed(EPROTO))
  }

  /// A handshake over a finite field of the peer's choice takes up to a second.
  @Test func noFieldIsFinite() throws {
    var settings = TLSClientSettings()
    for (ciphers, isLeft) in [("DHE-RSA-AES256-GCM-SHA384", false), ("DHE-RSA-AES256-GCM-SHA384:AES128-SHA", true)] {
      settings.ciphers = ciphers
      let made = TLSContext.client(settings)
      #expect(((try? made.get()) != nil) == isLeft)
    }
    let context = try TLSContext.client(TLSClientSettings()).get()
    #expect(cossl_set_groups(context.raw, "ffdhe2048"))
    let pair = try Pair(clientContext: context)
    guard case .failed = pair.shakeHands().server else {
      Issue.record("a client that has only finite fields was served")
      return
    }
  }

  @Test func aResumedSessionAsksNoJudgeAndKeepsTheTimeOfItsVerdict() throws {
    let server = try TLSContext.server().get()
    let context = try TLSContext.client(TLSClientSettings()).get()
    let first = try Pair(server: server, clientContext: context, now: 100)
    first.shakeHands()
    #expect(first.client.isSilent)
    let session = try #require(first.client.takeSessions().last)
    #expect(session.verifiedAt == 100 && session.isForOneUse)
    first.client.shutdownWrite()
    let second = try Pair(server: server, clientContext: context, resuming: session, now: 500)
    let ends = second.shakeHands()
    #expect(ends.client == .done && second.client.isResumed)
    #expect(second.judged.isEmpty)
    #expect(second.client.isSilent)
    #expect(second.client.takeSessions().allSatisfy { $0.verifiedAt == 100 })
  }

  @Test func whereAnOCSPAnswerIsAskedForItsAbsenceIsJudgedToo() throws {
    for maximum in [TLSProtocolVersion.tls12, .tls13] {
      var settings = TLSClientSettings()
      settings.asksForStatus = true
      settings.maximumVersion = maximum
      let pair = try Pair(client: settings)
      let ends = pair.shakeHands()
      #expect(ends.client == .done, "\(maximum)")
      #expect(pair.judged.count == 1 && pair.judged.first?.status == nil, "\(maximum)")
      let refused = try Pair(client: settings)
      refused.verdict = false
      guard case .failed(let failure) = refused.shakeHands().client else {
        Issue.record("refused, and yet done under \(maximum)")
        continue
      }
      #expect(failure.kind == .refusedByJudge)
    }
  }

  @Test func whatWasReadOfTheClientAlreadyIsTheBeginning() throws {
    let pair = try Pair()
    _ = pair.client.handshake()
    _ = try #require(ready(pair.connection.far, .read))
    let hello = try pair.connection.far.readOnce().bytes
    let context = try TLSContext.server().get()
    let accepting = TLSStream.server(
      context, pair.connection.far, prefix: hello.span, certificate: Pair.certificate.x509,
      key: Pair.certificate.key.pointer, now: 0)
    let server = try #require(accepting)
    var theirs = server.handshake()
    var ours = pair.client.handshake()
    while ours.isPending || theirs.isPending {
      if ours.isPending { ours = pair.client.handshake() }
      if theirs.isPending { theirs = server.handshake() }
    }
    #expect(ours == .done && theirs == .done)
  }

  @Test func ciphersAreSetForTheirVersions() throws {
    var settings = TLSClientSettings()
    settings.ciphers = "ECDHE-ECDSA-AES256-GCM-SHA384"
    settings.cipherSuites = "TLS_CHACHA20_POLY1305_SHA256"
    #expect(throws: Never.self) { try TLSContext.client(settings).get() }
    settings.ciphers = "NO-SUCH-CIPHER"
    #expect(throws: TLSSetupFault.self) { try TLSContext.client(settings).get() }
  }
}

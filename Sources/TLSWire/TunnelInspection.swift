// Inspects the beginning of the TLS connection that passes through a tunnel. `connect = "verify"` requires the server's
// certificates; a plain tunnel only requires the name in the client's hello.
//
//   client   hello ──→ watched ──→ opaque
//                        │  ↑ another hello, after a HelloRetryRequest
//   server   flight ─┬→ opaque                          TLS 1.3
//                    ├→ awaiting ──accept()──→ opaque   certificates, or a session that is resumed
//                    └→ closed                          an alert
//
// Nothing from the client is passed on before its hello is read and names the right server. Nothing from the server
// reaches the client before its version is known and, up to TLS 1.2, the caller has accepted its certificates. What is
// refused stays refused, whatever else arrives.
//
// The server that answers may ask for a second hello. RFC 8446, 4.1.2 requires the same name in it, but a server might
// use the name in the second. So the client's records are watched until the server has answered, and any hello among
// them must name the same server as the first.
//
// If only the name is required, nothing from the server is held back. Its bytes pass, and the first few are remembered,
// because they show whether it asks for a second hello.
//
// Tested by playbooks in TunnelInspectionTests: whole, byte by byte and cut at random.

import Bytes

/// What to do with the client's bytes.
public enum ClientStep: Equatable, Sendable {
  /// Pass none of them; show them again when more have arrived.
  case hold
  /// Pass the first `count` bytes, at least one, and show the rest again.
  case forward(count: Int)
  /// Pass none of them, and end the tunnel.
  case refuse(TunnelFault)
}

/// What to do with the server's bytes.
public enum UpstreamStep: Equatable, Sendable {
  /// Pass none of them; show them again when more have arrived.
  case hold
  /// Pass all of them, and everything that follows.
  case pass
  /// Pass none of them until the certificates satisfy the policy. Then call `accept()`, or else end the tunnel.
  case evaluate(PresentedCertificates)
  /// A session of TLS 1.2 or below is resumed without certificates. A caller that accepts this relies on the probe
  /// alone, as under TLS 1.3, and calls `accept()`. Refusing it would break every client that resumes.
  case resumed
  /// Pass the first `count` bytes, which end with the server's last message, and end the tunnel.
  case passThenClose(count: Int)
  /// Pass none of them, and end the tunnel.
  case refuse(TunnelFault)
}

/// Why a tunnel is refused.
public enum TunnelFault: Error, Equatable, Sendable {
  case client(HandshakeFault)
  case server(HandshakeFault)
  case missingServerName(expected: String)
  case unexpectedServerName(seen: String)
  case otherServerName(seen: String, expected: String)
  /// The server chose a version that the policy does not allow.
  case versionNotAllowed(seen: String, expected: String)
  /// The server chose a cipher suite that the policy does not allow.
  case cipherNotAllowed(seen: String, expected: String)
  /// The hello after a HelloRetryRequest names a different server from the first.
  case changedServerName(seen: String, expected: String)
  /// The client sends an unencrypted HTTP request, and rules apply to requests to the host.
  case clearRequest(method: String)

  /// The stable word for logs and tests.
  public var token: String {
    switch self {
    case .client(let fault): "client-" + fault.rawValue
    case .server(let fault): "server-" + fault.rawValue
    case .missingServerName: "missing-server-name"
    case .unexpectedServerName: "unexpected-server-name"
    case .otherServerName: "other-server-name"
    case .changedServerName: "changed-server-name"
    case .versionNotAllowed: "tls-version-not-allowed"
    case .cipherNotAllowed: "tls-cipher-not-allowed"
    case .clearRequest: "clear-request"
    }
  }

  /// Both in a few words, if it is about an expected value.
  public var difference: Difference? {
    switch self {
    case .client, .server: nil
    case .missingServerName(let expected): Difference(expected: expected, seen: "no server name")
    case .unexpectedServerName(let seen): Difference(expected: "no server name", seen: seen)
    case .otherServerName(let seen, let expected), .changedServerName(let seen, let expected),
      .versionNotAllowed(let seen, let expected), .cipherNotAllowed(let seen, let expected):
      Difference(expected: expected, seen: seen)
    case .clearRequest(let method): Difference(expected: "TLS or another protocol than HTTP", seen: method)
    }
  }

  /// What was expected and what was seen. Names are printable ASCII.
  public var sentence: String {
    switch self {
    case .client(let fault): "The client's TLS handshake \(fault.sentence)."
    case .server(let fault): "The server's TLS handshake \(fault.sentence)."
    case .missingServerName(let expected):
      "The client's ClientHello names no server, where \(expected) was expected."
    case .unexpectedServerName(let seen):
      "The client's ClientHello names the server \(seen), where none was expected for the CONNECT was to an address."
    case .otherServerName(let seen, let expected):
      "The client's ClientHello names the server \(seen), where \(expected) was expected."
    case .versionNotAllowed(let seen, let expected):
      "The server chose \(seen), where TLS \(expected) was expected."
    case .cipherNotAllowed(let seen, let expected):
      "The server chose the cipher suite \(seen), where one of \(expected) was expected."
    case .changedServerName(let seen, let expected):
      "The client's second ClientHello names the server \(seen), where its first named \(expected)."
    case .clearRequest(let method):
      "The client sends an HTTP request in the clear (\(method)), where TLS or another protocol was expected: rules speak of "
        + "requests to this host, and none of them sees a request in a tunnel."
    }
  }
}

public struct TunnelInspection: Sendable {
  private enum ClientPhase {
    case hello, watched, opaque
  }

  private enum UpstreamPhase {
    case flight, awaiting, opaque, closed
  }

  /// What is required.
  public enum Subject: Equatable, Sendable {
    /// The certificates of the server. `wantsStaple`: the policy also requires a stapled OCSP answer.
    case certificates(wantsStaple: Bool)
    /// The name in the client's hello.
    case name
  }

  private let serverNames: [[UInt8]]
  private let allowsNone: Bool
  private let subject: Subject
  private var clientPhase = ClientPhase.hello
  private var helloReader = ClientHelloReader()
  /// Bytes of the watched record that have not arrived yet.
  private var recordBytesLeft = 0
  private var upstreamPhase = UpstreamPhase.flight
  /// nil before there is a hello to answer, and once the answer has been read.
  private var flightReader: ServerFlightReader? = nil
  /// The same if only the name is required.
  private var answerReader = FirstServerHello()
  private var awaitsSecondHello = false
  private var fault: TunnelFault? = nil

  /// The client's first hello, once it has been read and names the right server.
  public private(set) var hello: ClientHello? = nil
  /// The version that the server chose, once it is known.
  public private(set) var version: ProtocolVersion? = nil
  /// The cipher suite that the server chose (IANA, TLS Cipher Suites), once it is known.
  public private(set) var cipherSuite: UInt16? = nil

  /// Begins when a CONNECT has been answered. The hello must name one of `serverNames`: A-labels, where case and a
  /// trailing dot do not matter. If there are none, because the CONNECT was to an address, it must name none.
  /// `allowsNone`: it may name none.
  public init(serverNames: [[UInt8]], allowsNone: Bool = false, for subject: Subject) {
    self.serverNames = serverNames
    self.allowsNone = allowsNone
    self.subject = subject
  }

  /// Whether both directions are opaque from here on and no longer need to be shown.
  public var isComplete: Bool { clientPhase == .opaque && upstreamPhase == .opaque }

  /// `input`: all bytes of the client that have not been passed on.
  public mutating func clientReceived(_ input: Span<UInt8>) -> ClientStep {
    if let fault { return .refuse(fault) }
    switch clientPhase {
    case .hello: return readHello(input)
    case .watched: return watch(input, from: 0)
    case .opaque: return input.isEmpty ? .hold : .forward(count: input.count)
    }
  }

  /// `input`: all bytes of the server that have not been passed on.
  public mutating func upstreamReceived(_ input: Span<UInt8>) -> UpstreamStep {
    if let fault { return .refuse(fault) }
    switch upstreamPhase {
    case .flight where subject == .name:
      return readAnswer(input)
    case .flight:
      guard let reading = flightReader?.read(input) else {
        return input.isEmpty ? .hold : .refuse(refuse(.server(.spokeFirst)))
      }
      cipherSuite = flightReader?.cipherSuite
      return conclude(reading)
    case .awaiting: return .hold
    case .opaque: return .pass
    case .closed: return .passThenClose(count: 0)
    }
  }

  /// The caller accepts the server's certificates, or the resumed session.
  public mutating func accept() {
    precondition(upstreamPhase == .awaiting && fault == nil, "nothing was shown that could be accepted")
    becomeOpaque()
  }

  /// The client sends no more. If that is a fault, returns it: the tunnel is then refused.
  public mutating func clientEnded() -> TunnelFault? {
    fault ?? (clientPhase == .hello ? refuse(.client(.truncated)) : nil)
  }

  /// The server sends no more. If that is a fault, returns it: the tunnel is then refused.
  public mutating func upstreamEnded() -> TunnelFault? {
    fault ?? (upstreamPhase == .flight && subject != .name ? refuse(.server(.truncated)) : nil)
  }

  // MARK: The client's side

  private mutating func readHello(_ input: Span<UInt8>) -> ClientStep {
    switch helloReader.read(input) {
    case .incomplete: return .hold
    case .invalid(let fault): return .refuse(refuse(.client(fault)))
    case .complete(let seen, let end):
      if let fault = nameFault(of: seen) { return .refuse(refuse(fault)) }
      helloReader = ClientHelloReader()
      if hello == nil {
        hello = seen
        if case .certificates(let wantsStaple) = subject {
          flightReader = ServerFlightReader(answering: seen, wantsStaple: wantsStaple)
        }
      }
      clientPhase = awaitsSecondHello ? .opaque : .watched
      return clientPhase == .opaque ? .forward(count: input.count) : watch(input, from: end)
    }
  }

  /// Walks through the records after a hello: early data, a ChangeCipherSpec for middleboxes, an alert (RFC 8446,
  /// 4.2.10 and D.4). They pass as they arrive. Of a further hello, nothing passes before it is read.
  private mutating func watch(_ input: Span<UInt8>, from: Int) -> ClientStep {
    var at = from
    while true {
      let count = min(recordBytesLeft, input.count - at)
      at += count
      recordBytesLeft -= count
      // The valid part is passed first. What stops the walk is then found again, at the front.
      switch RecordHeader.read(input, at: at) {
      case .incomplete:
        return at == 0 ? .hold : .forward(count: at)
      case .invalid(let fault):
        return at == 0 ? .refuse(refuse(.client(fault))) : .forward(count: at)
      case .complete(let header) where header.type == .handshake:
        if at > 0 { return .forward(count: at) }
        clientPhase = .hello
        return readHello(input)
      case .complete(let header):
        recordBytesLeft = RecordHeader.byteCount + header.length
      }
    }
  }

  private func nameFault(of seen: ClientHello) -> TunnelFault? {
    if let hello, hello.serverName != seen.serverName {
      return .changedServerName(
        seen: seen.serverName.map(Self.text) ?? "none", expected: hello.serverName.map(Self.text) ?? "none")
    }
    guard let name = seen.serverName else {
      return serverNames.isEmpty || allowsNone ? nil : .missingServerName(expected: expectedNames)
    }
    if serverNames.isEmpty { return .unexpectedServerName(seen: Self.text(name)) }
    return isExpected(name) ? nil : .otherServerName(seen: Self.text(name), expected: expectedNames)
  }

  private func isExpected(_ name: [UInt8]) -> Bool {
    serverNames.contains { expected in
      let count = expected.last == 0x2e ? expected.count - 1 : expected.count
      return expected.span.equals(0..<count, ignoringCase: name.span)
    }
  }

  private var expectedNames: String { serverNames.map(Self.text).joined(separator: " or ") }

  private static func text(_ name: [UInt8]) -> String { String(decoding: name, as: UTF8.self) }

  // MARK: The server's side

  /// If only the name is required: what the server sends before it has a hello to answer does not matter.
  private mutating func readAnswer(_ input: Span<UInt8>) -> UpstreamStep {
    guard hello != nil, let isRetryRequest = answerReader.asksForAnotherHello(input) else {
      return input.isEmpty ? .hold : .pass
    }
    if isRetryRequest && clientPhase != .opaque {
      awaitsSecondHello = true
      upstreamPhase = .opaque
    } else {
      becomeOpaque()
    }
    return .pass
  }

  private mutating func conclude(_ reading: ServerFlightReading) -> UpstreamStep {
    switch reading {
    case .incomplete:
      return .hold
    case .invalid(let fault):
      return .refuse(refuse(.server(fault)))
    case .encrypted(let isRetryRequest):
      version = .tls13
      if isRetryRequest && clientPhase != .opaque {
        awaitsSecondHello = true
        upstreamPhase = .opaque
        flightReader = nil
      } else {
        becomeOpaque()
      }
      return .pass
    case .resumed(let version):
      awaitAcceptance(version)
      return .resumed
    case .certificates(let version, let presented):
      awaitAcceptance(version)
      return .evaluate(presented)
    case .alerted(let end):
      upstreamPhase = .closed
      flightReader = nil
      return .passThenClose(count: end)
    }
  }

  private mutating func awaitAcceptance(_ version: ProtocolVersion) {
    self.version = version
    upstreamPhase = .awaiting
    flightReader = nil
  }

  private mutating func becomeOpaque() {
    clientPhase = .opaque
    upstreamPhase = .opaque
    flightReader = nil
    helloReader = ClientHelloReader()
  }

  /// Refuses the tunnel permanently. The first fault stays.
  private mutating func refuse(_ fault: TunnelFault) -> TunnelFault {
    self.fault = fault
    flightReader = nil
    helloReader = ClientHelloReader()
    return fault
  }
}

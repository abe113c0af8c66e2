// The first message of a TLS client (RFC 8446, 4.1.2; RFC 5246, 7.4.1.2): what a rule has to know of it.
//
// The hello is read as strictly as a server reads it, for a hello that two readers understand differently would name
// one server to the proxy and another to the one behind it. What is not acted on here is only walked over: values of
// GREASE (RFC 8701) are unknown like any other.
//
// With Encrypted Client Hello (RFC 9849) the name that is seen is that of the outer hello. Browsers send the extension
// filled with chance all the time, and nobody but the server can tell the two apart, so that its presence refuses
// nothing; it is only reported. It is the outer name that is held against the CONNECT: a client that truly hides
// another name behind it has chosen to, and has to name the public one in its CONNECT. The server that then answers is
// one that holds the ECH keys of the public name, whose certificate was evaluated.
//
// Tested in ClientHelloTests with the hellos of real clients and with built ones; fuzzed as ClientHello.

import Bytes

public struct ClientHello: Equatable, Sendable {
  /// Longest hello in bytes. With post-quantum keys it passes 16 KiB, the longest record; keys for every group and a long
  /// list of tickets stay below this.
  public static let longest = 64 << 10
  /// Longest run of records that a hello may come in, in bytes: as much again as the longest hello, for hellos that are
  /// cut small on purpose.
  public static let longestInput = 2 * longest

  /// Of TLS 1.3 it says 1.2: see `offersTLS13`.
  public let legacyVersion: ProtocolVersion
  /// The host name in lower case (RFC 6066, 3); nil where there is none.
  public private(set) var serverName: [UInt8]? = nil
  public private(set) var offersTLS13 = false
  /// Whether a server of TLS 1.2 or below may resume a session. Clients of TLS 1.3 fill the session id with chance, so
  /// that this is true of most.
  public private(set) var offersResumption = false
  /// Whether a stapled OCSP answer is asked for; without, no server sends one.
  public private(set) var asksForStaple = false
  /// Whether there is an encrypted ClientHello, or something made to look like one.
  public private(set) var hasEncryptedClientHello = false
  /// ProtocolNameList of ALPN (RFC 7301, 3.1) without its length.
  private var protocolNames: [UInt8] = []

  /// The protocols that the client offers to speak, in its order, as it sent them: whoever shows them must escape them.
  public var applicationProtocols: [String] {
    var names: [String] = []
    var at = 0
    while at < protocolNames.count {
      let end = at + 1 + Int(protocolNames[at])
      names.append(String(decoding: protocolNames[at + 1..<end], as: UTF8.self))
      at = end
    }
    return names
  }
}

// MARK: Its fields

extension ClientHello {
  /// The extensions that are read (IANA, TLS ExtensionType Values).
  private enum Extension {
    static let serverName = 0
    static let statusRequest = 5
    static let applicationProtocols = 16
    static let severalStatusRequests = 17
    static let sessionTicket = 35
    static let supportedVersions = 43
    static let encryptedClientHello = 0xfe0d
  }

  /// Which of them have been seen: none may come twice (RFC 8446, 4.2).
  private struct Seen: OptionSet {
    let rawValue: UInt8

    static let serverName = Seen(rawValue: 1 << 0)
    static let statusRequest = Seen(rawValue: 1 << 1)
    static let applicationProtocols = Seen(rawValue: 1 << 2)
    static let severalStatusRequests = Seen(rawValue: 1 << 3)
    static let sessionTicket = Seen(rawValue: 1 << 4)
    static let supportedVersions = Seen(rawValue: 1 << 5)
    static let encryptedClientHello = Seen(rawValue: 1 << 6)
  }

  /// Longest name in bytes that is taken for one of a host (RFC 1035, 2.3.4).
  private static let longestServerName = 255

  /// Reads the body of a ClientHello message, all of it.
  init(_ body: Span<UInt8>) throws(HandshakeFault) {
    let fault = HandshakeFault.malformedClientHello
    var fields = FieldCursor(body, otherwise: fault)
    legacyVersion = try fields.version()
    guard legacyVersion.rawValue >> 8 == 3 else { throw fault }
    _ = try fields.opaque(32)
    let session = try fields.vector(lengthBytes: 1).rest
    guard session.count <= 32 else { throw fault }
    offersResumption = !session.isEmpty
    let suites = try fields.vector(lengthBytes: 2).rest
    guard !suites.isEmpty, suites.count % 2 == 0 else { throw fault }
    let compression = try fields.vector(lengthBytes: 1).rest
    guard !compression.isEmpty else { throw fault }
    // Before TLS 1.3 a hello may end here (RFC 5246, 7.4.1.2).
    if fields.isAtEnd { return }
    var extensions = try fields.vector(lengthBytes: 2)
    guard fields.isAtEnd else { throw fault }
    var seen = Seen()
    while !extensions.isAtEnd {
      let type = try extensions.number(byteCount: 2)
      try readExtension(type, try extensions.vector(lengthBytes: 2), &seen)
    }
  }

  private mutating func readExtension(
    _ type: Int, _ content: consuming FieldCursor, _ seen: inout Seen
  ) throws(HandshakeFault) {
    let this: Seen
    switch type {
    case Extension.serverName:
      this = .serverName
      serverName = try Self.hostName(content)
    case Extension.statusRequest:
      this = .statusRequest
      asksForStaple = true
    case Extension.applicationProtocols:
      this = .applicationProtocols
      protocolNames = try Self.protocolNames(content)
    case Extension.severalStatusRequests:
      this = .severalStatusRequests
      asksForStaple = true
    case Extension.sessionTicket:
      this = .sessionTicket
      if !content.isAtEnd { offersResumption = true }
    case Extension.supportedVersions:
      this = .supportedVersions
      offersTLS13 = try Self.holdsTLS13(content)
    case Extension.encryptedClientHello:
      this = .encryptedClientHello
      hasEncryptedClientHello = true
    default: return
    }
    guard seen.insert(this).inserted else { throw .repeatedExtension }
  }

  /// ServerNameList with exactly one host_name (RFC 6066, 3), in lower case. No other type of name was ever defined.
  private static func hostName(_ content: consuming FieldCursor) throws(HandshakeFault) -> [UInt8] {
    var list = try content.vector(lengthBytes: 2)
    guard content.isAtEnd, try list.number(byteCount: 1) == 0 else { throw .malformedServerName }
    let name = try list.vector(lengthBytes: 2).rest
    guard list.isAtEnd else { throw .severalServerNames }
    guard !name.isEmpty, name.count <= longestServerName else { throw .malformedServerName }
    var lowercase: [UInt8] = []
    lowercase.reserveCapacity(name.count)
    for index in 0..<name.count {
      let byte = name[index].asciiLowercased
      guard byte > 0x20, byte < 0x7f else { throw .malformedServerName }
      lowercase.append(byte)
    }
    guard lowercase.last != 0x2e else { throw .serverNameEndsInDot }
    return lowercase
  }

  /// ProtocolNameList (RFC 7301, 3.1): at least one name, none of them empty.
  private static func protocolNames(_ content: consuming FieldCursor) throws(HandshakeFault) -> [UInt8] {
    var list = try content.vector(lengthBytes: 2)
    guard content.isAtEnd, !list.isAtEnd else { throw .malformedClientHello }
    let bytes = list.rest.array
    while !list.isAtEnd {
      guard try !list.vector(lengthBytes: 1).isAtEnd else { throw .malformedClientHello }
    }
    return bytes
  }

  private static func holdsTLS13(_ content: consuming FieldCursor) throws(HandshakeFault) -> Bool {
    var list = try content.vector(lengthBytes: 1)
    guard content.isAtEnd, !list.isAtEnd else { throw .malformedClientHello }
    var holds = false
    while !list.isAtEnd {
      if try list.version() == .tls13 { holds = true }
    }
    return holds
  }
}

// MARK: Its records

/// What the beginning of a client's bytes says.
enum ClientHelloReading: Equatable {
  /// More bytes are needed.
  case incomplete
  /// The hello ends before `end`.
  case complete(ClientHello, end: Int)
  case invalid(HandshakeFault)
}

/// Finds the hello in the records that it comes in.
struct ClientHelloReader {
  private static let limits = HandshakeMessages.Limits(
    message: ClientHello.longest, messageFault: .clientHelloTooLong,
    input: ClientHello.longestInput, inputFault: .clientHelloTooScattered)
  private static let messageType: UInt8 = 1

  private var messages = HandshakeMessages(limits: limits)

  /// `input` begins with the first record, and with each call there is more of it. Not to be called again once it has
  /// come to an end.
  mutating func read(_ input: Span<UInt8>) -> ClientHelloReading {
    switch messages.next(input) {
    case .incomplete: return .incomplete
    case .invalid(let fault): return .invalid(fault)
    case .record(.alert, _): return .invalid(.alertBeforeHello)
    case .record: return .invalid(.unexpectedRecord)
    case .message(let type, let place):
      guard type == Self.messageType else { return .invalid(.notClientHello) }
      // Keys change behind a hello with early data, and a message must not share a record across that (RFC 8446, 5.1).
      guard messages.isAtRecordEnd else { return .invalid(.bytesBehindClientHello) }
      do throws(HandshakeFault) {
        return .complete(try ClientHello(messages.body(place, input)), end: messages.position)
      } catch {
        return .invalid(error)
      }
    }
  }
}

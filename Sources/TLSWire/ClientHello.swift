// The first message of a TLS client (RFC 8446, 4.1.2; RFC 5246, 7.4.1.2): what a rule needs to know of it.
//
// The hello is read as strictly as a server reads it. If two readers could understand a hello differently, the proxy
// and the server after it could see different names. Parts that are not needed here are only skipped, and GREASE values
// (RFC 8701) are unknown like any others.
//
// With Encrypted Client Hello (RFC 9849) the visible name is that of the outer hello. Browsers always send the
// extension, filled with random bytes, and only the server can distinguish the two. So its presence is reported but
// refuses nothing. The outer name is compared with the CONNECT. A client that really hides another name has chosen to
// do so, and must name the public one in its CONNECT. The server that then answers has the ECH keys of the public name,
// whose certificate was evaluated.
//
// Tested in ClientHelloTests with the hellos of real clients and with built ones; fuzzed as ClientHello.

import Bytes

public struct ClientHello: Equatable, Sendable {
  /// The longest hello in bytes. With post-quantum keys it exceeds 16 KiB, the longest record. Keys for every group and
  /// a long list of tickets stay below this limit.
  public static let longest = 64 << 10
  /// The longest run of records that may contain a hello, in bytes: twice the longest hello, because some clients split
  /// it into small records on purpose.
  public static let longestInput = 2 * longest

  /// TLS 1.3 clients say 1.2 here: see `offersTLS13`.
  public let legacyVersion: ProtocolVersion
  /// The host name in lower case (RFC 6066, 3); nil if there is none.
  public private(set) var serverName: [UInt8]? = nil
  public private(set) var offersTLS13 = false
  /// Whether a server of TLS 1.2 or below may resume a session. TLS 1.3 clients fill the session id with random bytes,
  /// so this is true for most.
  public private(set) var offersResumption = false
  /// Whether the client asks for a stapled OCSP answer. Otherwise no server sends one.
  public private(set) var asksForStaple = false
  /// Whether there is an encrypted ClientHello, or something that looks like one.
  public private(set) var hasEncryptedClientHello = false
  /// ProtocolNameList of ALPN (RFC 7301, 3.1) without its length.
  private var protocolNames: [UInt8] = []

  /// The protocols that the client offers, in its order and as it sent them. They must be escaped before they are
  /// shown.
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
  private enum Extension: Int {
    case serverName = 0
    case statusRequest = 5
    case applicationProtocols = 16
    case severalStatusRequests = 17
    case sessionTicket = 35
    case supportedVersions = 43
    case encryptedClientHello = 0xfe0d
  }

  /// The longest host name in bytes (RFC 1035, 2.3.4).
  private static let longestServerName = 255

  /// Reads the complete body of a ClientHello message.
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
    var seen: [Extension] = []
    while !extensions.isAtEnd {
      let type = try extensions.number(byteCount: 2)
      let content = try extensions.vector(lengthBytes: 2)
      guard let known = Extension(rawValue: type) else { continue }
      // RFC 8446, 4.2: none may occur twice.
      guard !seen.contains(known) else { throw .repeatedExtension }
      seen.append(known)
      try read(known, content)
    }
  }

  private mutating func read(_ known: Extension, _ content: consuming FieldCursor) throws(HandshakeFault) {
    switch known {
    case .serverName: serverName = try Self.hostName(content)
    case .statusRequest, .severalStatusRequests: asksForStaple = true
    case .applicationProtocols: protocolNames = try Self.protocolNames(content)
    case .sessionTicket: if !content.isAtEnd { offersResumption = true }
    case .supportedVersions: offersTLS13 = try Self.holdsTLS13(content)
    case .encryptedClientHello: hasEncryptedClientHello = true
    }
  }

  /// A ServerNameList with exactly one host_name (RFC 6066, 3), in lower case. No other type of name was ever defined.
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

/// The result for the beginning of a client's bytes.
enum ClientHelloReading: Equatable {
  /// More bytes are needed.
  case incomplete
  /// The hello ends before `end`.
  case complete(ClientHello, end: Int)
  case invalid(HandshakeFault)
}

/// Finds the hello in the records that contain it.
struct ClientHelloReader {
  private static let limits = HandshakeMessages.Limits(
    message: ClientHello.longest, messageFault: .clientHelloTooLong,
    input: ClientHello.longestInput, inputFault: .clientHelloTooScattered)
  private static let messageType: UInt8 = 1

  private var messages = HandshakeMessages(limits: limits)

  /// `input` begins with the first record, and grows with each call. Must not be called again after a final result.
  mutating func read(_ input: Span<UInt8>) -> ClientHelloReading {
    switch messages.next(input) {
    case .incomplete: return .incomplete
    case .invalid(let fault): return .invalid(fault)
    case .record(.alert, _): return .invalid(.alertBeforeHello)
    case .record: return .invalid(.unexpectedRecord)
    case .message(let type, let place):
      guard type == Self.messageType else { return .invalid(.notClientHello) }
      // Keys change after a hello with early data, and a message must not share a record across that (RFC 8446, 5.1).
      guard messages.isAtRecordEnd else { return .invalid(.bytesBehindClientHello) }
      do throws(HandshakeFault) {
        return .complete(try ClientHello(messages.body(place, input)), end: messages.position)
      } catch {
        return .invalid(error)
      }
    }
  }
}

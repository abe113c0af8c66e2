// What the next process needs to know about a tunnel that outlives this one: everything except its two sockets.
//
// The stopping daemon writes it, and whatever version starts next reads it. So it contains its version and is read
// strictly: a value that no session of this version could have left is refused, and nothing is repaired. Numbers are
// big-endian. A text is preceded by its length in four bytes, and an optional one by one more byte.
// Tests: TunnelStateTests.

import Bytes
import Policy
import TLSWire

/// A tunnel without its sockets. Times are milliseconds. Those that are not calendar times are of CLOCK_BOOTTIME, which
/// the next process uses too.
public struct TunnelState: Equatable, Sendable {
  public struct Flags: OptionSet, Sendable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// Opened by Upgrade, not by CONNECT.
    public static let isUpgrade = Flags(rawValue: 1 << 0)
    /// The upstream accepts no more bytes.
    public static let dropsRequest = Flags(rawValue: 1 << 5)
    public static let isReused = Flags(rawValue: 1 << 6)
    public static let isRetried = Flags(rawValue: 1 << 7)
    public static let isForgiven = Flags(rawValue: 1 << 8)

    static var all: Flags { [.isUpgrade, .dropsRequest, .isReused, .isRetried, .isForgiven] }
  }

  /// What is over of its two directions. In a record these are bits of the same number as the flags.
  public struct Ends: OptionSet, Sendable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// The end of this side's stream has been read.
    public static let clientEnded = Ends(rawValue: 1 << 1)
    public static let upstreamEnded = Ends(rawValue: 1 << 2)
    /// The proxy has yet to shut down its sending direction to this side, after the pending bytes.
    public static let closesClientWrite = Ends(rawValue: 1 << 3)
    public static let closesUpstreamWrite = Ends(rawValue: 1 << 4)

    static var all: Ends { [.clientEnded, .upstreamEnded, .closesClientWrite, .closesUpstreamWrite] }
  }

  /// The program at the client's end.
  public struct Owner: Equatable, Sendable {
    public var userID: UInt32
    public var user: String?
    public var unit: String?
  }

  public struct Place: Equatable, Sendable {
    public var address: IPAddress
    public var port: UInt16

    public init(_ address: IPAddress, port: UInt16) {
      self.address = address
      self.port = port
    }
  }

  public var flags: Flags = []
  public var ends: Ends = []
  public var reference = Reference(value: 0)
  public var begun: Int64 = 0
  public var begunWall: Int64 = 0
  /// When a byte last moved.
  public var lastProgress: Int64 = 0
  public var status = 0
  public var bytesIn: UInt64 = 0
  public var bytesOut: UInt64 = 0
  /// How long steps took; -1 if one did not happen.
  public var nameMilliseconds: Int64 = -1
  public var connectMilliseconds: Int64 = -1
  public var tlsMilliseconds: Int64 = -1
  public var firstByteMilliseconds: Int64 = -1
  public var client: Place
  public var upstream: Place
  /// The requested host, canonical.
  public var host: [UInt8]
  public var port: UInt16
  public var method: [UInt8] = []
  public var target: [UInt8] = []
  /// The rule that allowed the tunnel, by name, because the next policy may have other rules.
  public var rule: String? = nil
  public var reason = Decision.Reason.defaultAllow
  public var route: String? = nil
  public var owner: Owner? = nil
  public var assurance: Assurance? = nil
  public var report: Problem.Kind? = nil
  public var reportedFault: TunnelFault? = nil
  /// Bytes that were read from one side and could not be sent to the other yet.
  public var toClient: [UInt8] = []
  public var toUpstream: [UInt8] = []

  public init(client: Place, upstream: Place, host: [UInt8], port: UInt16) {
    self.client = client
    self.upstream = upstream
    self.host = host
    self.port = port
  }

  /// The beginning of every record.
  static let mark: StaticString = "sallyport tunnel"
  static let version: UInt16 = 1
  /// Most bytes of one direction: twice what a session can hold, which is two reads of the loop and a pipe.
  public static let longestPending = 1 << 20
  /// Most bytes of a name, a method or a target: in a log line none of them can be as long.
  static let longestText = 4096
  /// The end of the year 9999: the log writes no later time.
  static let lastWall: Int64 = 253_402_300_799_999
  /// Most bytes of a record.
  public static let longestRecord = 2 * longestPending + 64 << 10
}

/// Why a record is refused.
public enum TunnelStateFault: Error, Equatable, Sendable, CustomStringConvertible {
  case noRecord
  case otherVersion(UInt16)
  case truncated
  case trailingBytes(Int)
  /// A value that no tunnel has.
  case invalid(StaticString)

  public var description: String {
    switch self {
    case .noRecord: "a record of a tunnel was expected, which begins with '\(TunnelState.mark)'"
    case .otherVersion(let version):
      "a record of version \(TunnelState.version) was expected, this is of version \(version)"
    case .truncated: "the record ends too early"
    case .trailingBytes(let count): "\(count) bytes follow the record"
    case .invalid(let what): "its \(what) cannot be right"
    }
  }

  public static func == (left: Self, right: Self) -> Bool { left.description == right.description }
}

extension TunnelState {
  // MARK: Writing

  public func write(to out: inout ByteBuffer) {
    out.append(Self.mark)
    out.append(number: Self.version)
    out.append(number: flags.rawValue | ends.rawValue)
    out.append(number: reference.value)
    for time in [begun, begunWall, lastProgress] { out.append(number: time) }
    out.append(number: UInt16(truncatingIfNeeded: status))
    out.append(number: bytesIn)
    out.append(number: bytesOut)
    for time in [nameMilliseconds, connectMilliseconds, tlsMilliseconds, firstByteMilliseconds] {
      out.append(number: time)
    }
    write(client, to: &out)
    write(upstream, to: &out)
    out.append(counted: host)
    out.append(number: port)
    out.append(counted: method)
    out.append(counted: target)
    out.append(optional: rule)
    out.append(counted: Array(reason.rawValue.utf8))
    out.append(optional: route)
    writeOwner(to: &out)
    out.append(optional: assurance?.rawValue)
    out.append(optional: report?.token.description)
    writeFault(to: &out)
    out.append(counted: toClient)
    out.append(counted: toUpstream)
  }

  private func write(_ place: Place, to out: inout ByteBuffer) {
    out.append(number: UInt8(place.address.isIPv4 ? 4 : 6))
    out.append(number: place.address.high)
    out.append(number: place.address.low)
    out.append(number: place.port)
  }

  private func writeOwner(to out: inout ByteBuffer) {
    out.append(number: UInt8(owner == nil ? 0 : 1))
    guard let owner else { return }
    out.append(number: owner.userID)
    out.append(optional: owner.user)
    out.append(optional: owner.unit)
  }

  private func writeFault(to out: inout ByteBuffer) {
    func write(_ kind: FaultKind, _ texts: String...) {
      out.append(number: kind.rawValue)
      for text in texts { out.append(counted: Array(text.utf8)) }
    }
    switch reportedFault {
    case nil: write(.none)
    case .client(let fault): write(.client, fault.rawValue)
    case .server(let fault): write(.server, fault.rawValue)
    case .missingServerName(let expected): write(.missingServerName, expected)
    case .unexpectedServerName(let seen): write(.unexpectedServerName, seen)
    case .otherServerName(let seen, let expected): write(.otherServerName, seen, expected)
    case .versionNotAllowed(let seen, let expected): write(.versionNotAllowed, seen, expected)
    case .changedServerName(let seen, let expected): write(.changedServerName, seen, expected)
    case .clearRequest(let method): write(.clearRequest, method)
    case .cipherNotAllowed(let seen, let expected): write(.cipherNotAllowed, seen, expected)
    }
  }

  private enum FaultKind: UInt8 {
    case none, client, server, missingServerName, unexpectedServerName, otherServerName, versionNotAllowed
    case changedServerName, clearRequest, cipherNotAllowed
  }

  // MARK: Reading

  /// Reads a record that makes up all of `bytes`.
  public init(reading bytes: Span<UInt8>) throws(TunnelStateFault) {
    var reader = FieldReader()
    guard try reader.starts(bytes, with: Self.mark) else { throw .noRecord }
    let version: UInt16 = try reader.number(bytes)
    guard version == Self.version else { throw .otherVersion(version) }
    let states: UInt16 = try reader.number(bytes)
    let reference: UInt32 = try reader.number(bytes)
    let times: [Int64] = try reader.numbers(bytes, count: 3)
    let status: UInt16 = try reader.number(bytes)
    let counts: [UInt64] = try reader.numbers(bytes, count: 2)
    let steps: [Int64] = try reader.numbers(bytes, count: 4)
    let client = try reader.place(bytes)
    let upstream = try reader.place(bytes)
    let host = try reader.counted(bytes, atMost: CanonicalHost.longestName)
    self.init(client: client, upstream: upstream, host: host, port: try reader.number(bytes))
    flags = Flags(rawValue: states & ~Ends.all.rawValue)
    ends = Ends(rawValue: states & Ends.all.rawValue)
    self.reference = Reference(value: reference)
    (begun, begunWall, lastProgress) = (times[0], times[1], times[2])
    self.status = Int(status)
    (bytesIn, bytesOut) = (counts[0], counts[1])
    (nameMilliseconds, connectMilliseconds) = (steps[0], steps[1])
    (tlsMilliseconds, firstByteMilliseconds) = (steps[2], steps[3])
    method = try reader.counted(bytes, atMost: Self.longestText)
    target = try reader.counted(bytes, atMost: Self.longestText)
    rule = try reader.optionalText(bytes, of: "rule")
    reason = try Self.reason(try reader.text(bytes, of: "reason"))
    route = try reader.optionalText(bytes, of: "route")
    owner = try Self.owner(bytes, &reader)
    assurance = try Self.assurance(try reader.optionalText(bytes, of: "assurance"))
    report = try Self.report(try reader.optionalText(bytes, of: "report"))
    reportedFault = try Self.fault(bytes, &reader)
    toClient = try reader.counted(bytes, atMost: Self.longestPending)
    toUpstream = try reader.counted(bytes, atMost: Self.longestPending)
    if reader.at < bytes.count { throw .trailingBytes(bytes.count - reader.at) }
    try check()
  }

  private static func reason(_ word: String) throws(TunnelStateFault) -> Decision.Reason {
    switch Decision.Reason(rawValue: word) {
    case .some(let reason) where [.rule, .ruleWouldDeny, .defaultAllow].contains(reason): reason
    default: throw .invalid("reason")
    }
  }

  private static func owner(
    _ bytes: Span<UInt8>, _ reader: inout FieldReader
  ) throws(TunnelStateFault) -> Owner? {
    guard try reader.isPresent(bytes, "owner") else { return nil }
    return Owner(
      userID: try reader.number(bytes), user: try reader.optionalText(bytes, of: "user"),
      unit: try reader.optionalText(bytes, of: "unit"))
  }

  private static func assurance(_ word: String?) throws(TunnelStateFault) -> Assurance? {
    guard let word else { return nil }
    guard let assurance = Assurance(rawValue: word) else { throw .invalid("assurance") }
    return assurance
  }

  private static func report(_ word: String?) throws(TunnelStateFault) -> Problem.Kind? {
    guard let word else { return nil }
    guard let kind = Problem.Kind.allCases.first(where: { $0.token.description == word }) else {
      throw .invalid("report")
    }
    return kind
  }

  private static func fault(
    _ bytes: Span<UInt8>, _ reader: inout FieldReader
  ) throws(TunnelStateFault) -> TunnelFault? {
    let kind: UInt8 = try reader.number(bytes)
    func text() throws(TunnelStateFault) -> String { try reader.text(bytes, of: "fault") }
    func handshake() throws(TunnelStateFault) -> HandshakeFault {
      guard let fault = HandshakeFault(rawValue: try text()) else { throw .invalid("fault") }
      return fault
    }
    switch FaultKind(rawValue: kind) {
    case .none?: return nil
    case .client: return .client(try handshake())
    case .server: return .server(try handshake())
    case .missingServerName: return .missingServerName(expected: try text())
    case .unexpectedServerName: return .unexpectedServerName(seen: try text())
    case .otherServerName: return .otherServerName(seen: try text(), expected: try text())
    case .versionNotAllowed: return .versionNotAllowed(seen: try text(), expected: try text())
    case .changedServerName: return .changedServerName(seen: try text(), expected: try text())
    case .clearRequest: return .clearRequest(method: try text())
    case .cipherNotAllowed: return .cipherNotAllowed(seen: try text(), expected: try text())
    case nil: throw .invalid("fault")
    }
  }

  /// Checks each value by itself, and in relation to the others.
  private func check() throws(TunnelStateFault) {
    guard flags.subtracting(.all).isEmpty else { throw .invalid("flags") }
    // Such a tunnel would have ended.
    guard !ends.isSuperset(of: [.clientEnded, .upstreamEnded]) else { throw .invalid("ends") }
    guard !ends.contains(.closesClientWrite) || ends.contains(.upstreamEnded),
      !ends.contains(.closesUpstreamWrite) || ends.contains(.clientEnded)
    else { throw .invalid("ends") }
    guard reference.value < 1 << Reference.bits else { throw .invalid("reference") }
    guard begun >= 0, lastProgress >= begun, 0...Self.lastWall ~= begunWall else { throw .invalid("times") }
    for step in [nameMilliseconds, connectMilliseconds, tlsMilliseconds, firstByteMilliseconds] where step < -1 {
      throw .invalid("times")
    }
    guard status == (flags.contains(.isUpgrade) ? 101 : 200) else { throw .invalid("status") }
    guard client.port > 0 else { throw .invalid("client") }
    guard upstream.port > 0, port > 0 else { throw .invalid("port") }
    guard canonicalHost != nil else { throw .invalid("host") }
    guard !method.isEmpty, method.allSatisfy(\.isTokenCharacter) else { throw .invalid("method") }
    guard !target.isEmpty, target.allSatisfy({ 0x21...0x7e ~= $0 }) else { throw .invalid("target") }
  }

  /// The host as decisions and connections use it; nil if it is not in canonical form.
  public var canonicalHost: CanonicalHost? {
    // Only IPv6 addresses contain a colon, and they are read only in brackets.
    let text = host.contains(0x3a) ? [0x5b] + host + [0x5d] : host
    var canonical = CanonicalHost()
    guard canonical.set(text.span) == nil, canonical.bytes == host else { return nil }
    return canonical
  }
}

extension ByteBuffer {
  fileprivate mutating func append<Number: FixedWidthInteger>(number: Number) {
    var shift = Number.bitWidth
    while shift > 0 {
      shift -= 8
      append(UInt8(truncatingIfNeeded: number >> Number(shift)))
    }
  }

  fileprivate mutating func append(counted bytes: [UInt8]) {
    append(number: UInt32(truncatingIfNeeded: bytes.count))
    append(bytes)
  }

  fileprivate mutating func append(optional text: String?) {
    append(number: UInt8(text == nil ? 0 : 1))
    if let text { append(counted: Array(text.utf8)) }
  }
}

/// Reads one field after the other.
private struct FieldReader {
  var at = 0

  mutating func starts(_ bytes: Span<UInt8>, with mark: StaticString) throws(TunnelStateFault) -> Bool {
    let count = mark.utf8CodeUnitCount
    guard bytes.count >= count else { return false }
    at = count
    return bytes.extracting(0..<count).string == mark.description
  }

  mutating func number<Number: FixedWidthInteger>(_ bytes: Span<UInt8>) throws(TunnelStateFault) -> Number {
    let count = Number.bitWidth / 8
    guard bytes.count - at >= count else { throw .truncated }
    var value: Number = 0
    for index in at..<at + count { value = (count > 1 ? value << 8 : 0) | Number(truncatingIfNeeded: bytes[index]) }
    at += count
    return value
  }

  mutating func numbers<Number: FixedWidthInteger>(
    _ bytes: Span<UInt8>, count: Int
  ) throws(TunnelStateFault) -> [Number] {
    var found: [Number] = []
    for _ in 0..<count { found.append(try number(bytes)) }
    return found
  }

  mutating func place(_ bytes: Span<UInt8>) throws(TunnelStateFault) -> TunnelState.Place {
    let family: UInt8 = try number(bytes)
    let parts: [UInt64] = try numbers(bytes, count: 2)
    let port: UInt16 = try number(bytes)
    switch family {
    case 4:
      guard parts[0] == 0, let low = UInt32(exactly: parts[1]) else { throw .invalid("address") }
      return TunnelState.Place(IPAddress(ipv4: low), port: port)
    case 6: return TunnelState.Place(IPAddress(ipv6High: parts[0], low: parts[1]), port: port)
    default: throw .invalid("address")
    }
  }

  mutating func counted(_ bytes: Span<UInt8>, atMost limit: Int) throws(TunnelStateFault) -> [UInt8] {
    let count = Int(try number(bytes) as UInt32)
    guard bytes.count - at >= count else { throw .truncated }
    guard count <= limit else { throw .invalid("length") }
    var taken: [UInt8] = []
    taken.reserveCapacity(count)
    for index in at..<at + count { taken.append(bytes[index]) }
    at += count
    return taken
  }

  /// UTF-8 without control characters: it may appear in a log line.
  mutating func text(_ bytes: Span<UInt8>, of what: StaticString) throws(TunnelStateFault) -> String {
    let raw = try counted(bytes, atMost: TunnelState.longestText)
    guard raw.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }), let text = String(validating: raw, as: UTF8.self) else {
      throw .invalid(what)
    }
    return text
  }

  mutating func isPresent(_ bytes: Span<UInt8>, _ what: StaticString) throws(TunnelStateFault) -> Bool {
    switch try number(bytes) as UInt8 {
    case 0: return false
    case 1: return true
    default: throw .invalid(what)
    }
  }

  mutating func optionalText(_ bytes: Span<UInt8>, of what: StaticString) throws(TunnelStateFault) -> String? {
    try isPresent(bytes, what) ? try text(bytes, of: what) : nil
  }
}

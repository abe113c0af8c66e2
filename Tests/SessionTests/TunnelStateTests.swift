// Records of tunnels: what is written is read, and nothing else is.

import Bytes
import Policy
import TestSupport
import Testing

@testable import Session
@testable import TLSWire

@Suite struct TunnelStateTests {
  /// One with a value of its own in every field.
  static func full() -> TunnelState {
    var state = plain()
    state.flags = [.dropsRequest, .isReused, .isRetried, .isForgiven]
    state.ends = [.clientEnded, .closesUpstreamWrite]
    state.reference = Reference(value: 0x2abc_def1)
    (state.begun, state.begunWall, state.lastProgress) = (1001, 784_111_777_000, 5005)
    (state.bytesIn, state.bytesOut) = (.max, 1 << 40)
    (state.nameMilliseconds, state.connectMilliseconds) = (1, 2)
    (state.tlsMilliseconds, state.firstByteMilliseconds) = (3, 4)
    state.client = TunnelState.Place(IPAddress(ipv6High: 0x2001_0db8 << 32, low: 7), port: 50_000)
    state.rule = "payments"
    state.reason = .rule
    state.route = "office"
    state.owner = TunnelState.Owner(userID: 1001, user: "kiosk", unit: "kiosk.service")
    state.assurance = .exact
    state.report = .pinMismatch
    state.reportedFault = .otherServerName(seen: "b.example", expected: "a.example")
    state.toClient = Array(0...255)
    state.toUpstream = [1, 2, 3]
    return state
  }

  /// One with as little as there can be.
  static func plain() -> TunnelState {
    var state = TunnelState(
      client: TunnelState.Place(IPAddress(ipv4: 0x7f00_0001), port: 40_000),
      upstream: TunnelState.Place(IPAddress(ipv4: 0xc000_0201), port: 443), host: Array("a.example".utf8), port: 443)
    state.status = 200
    state.method = Array("CONNECT".utf8)
    state.target = Array("a.example:443".utf8)
    return state
  }

  static func record(_ state: TunnelState) -> [UInt8] {
    var out = ByteBuffer()
    state.write(to: &out)
    return octets(out.bytes)
  }

  private static func octets(_ span: Span<UInt8>) -> [UInt8] { (0..<span.count).map { span[$0] } }

  private static func read(_ bytes: [UInt8]) -> Result<TunnelState, TunnelStateFault> {
    do throws(TunnelStateFault) {
      return .success(try TunnelState(reading: bytes.span))
    } catch {
      return .failure(error)
    }
  }

  private static func fault(_ bytes: [UInt8]) -> TunnelStateFault? {
    if case .failure(let fault) = read(bytes) { return fault }
    return nil
  }

  @Test func whatIsWrittenIsRead() {
    #expect(Self.read(Self.record(Self.plain())) == .success(Self.plain()))
    #expect(Self.read(Self.record(Self.full())) == .success(Self.full()))
  }

  static let faults: [TunnelFault] =
    HandshakeFault.allCases.flatMap { [.client($0), .server($0)] } + [
      .missingServerName(expected: "a"), .unexpectedServerName(seen: "b"), .otherServerName(seen: "c", expected: "d"),
      .versionNotAllowed(seen: "TLS 1.0", expected: "1.2 to 1.3"), .changedServerName(seen: "e", expected: "f"),
      .cipherNotAllowed(seen: "0x002F", expected: "g"), .clearRequest(method: "GET"),
    ]

  @Test(arguments: faults) func everyReportedFaultIsRead(_ fault: TunnelFault) {
    var state = Self.plain()
    state.reportedFault = fault
    #expect(Self.read(Self.record(state)) == .success(state))
  }

  @Test(arguments: Problem.Kind.allCases) func everyReportIsRead(_ kind: Problem.Kind) {
    var state = Self.plain()
    state.report = kind
    #expect(Self.read(Self.record(state)) == .success(state))
  }

  @Test func hostsOfAllKindsAreRead() {
    for host in ["a.example", "xn--bcher-kva.example", "127.0.0.1", "::1", "2001:db8::7", "_dmarc.a", "localhost"] {
      var state = Self.plain()
      state.host = Array(host.utf8)
      #expect(Self.read(Self.record(state)) == .success(state), "\(host)")
    }
  }

  @Test(arguments: [plain(), full()]) func everyTruncationIsRefused(_ state: TunnelState) {
    let record = Self.record(state)
    for count in 0..<record.count {
      let expected: TunnelStateFault = count < 16 ? .noRecord : .truncated
      #expect(Self.fault(Array(record.prefix(count))) == expected, "\(count) bytes")
    }
  }

  @Test func whatFollowsARecordIsRefused() {
    #expect(Self.fault(Self.record(Self.plain()) + [0]) == .trailingBytes(1))
    #expect(Self.fault(Self.record(Self.plain()) + Self.record(Self.plain())) != nil)
  }

  @Test func otherVersionsAreRefused() {
    for version: UInt16 in [0, 2, .max] {
      var record = Self.record(Self.plain())
      record.replaceSubrange(16..<18, with: [UInt8(version >> 8), UInt8(version & 0xff)])
      #expect(Self.fault(record) == .otherVersion(version))
    }
  }

  @Test func junkIsRefused() {
    #expect(Self.fault([]) == .noRecord)
    #expect(Self.fault(Array("sallyport tunnek".utf8)) == .noRecord)
    #expect(Self.fault(Array("sallyport tunnel".utf8)) == .truncated)
    #expect(Self.fault([UInt8](repeating: 0xff, count: 1000)) == .noRecord)
  }

  /// A row: what is wrong, how it came to be, and what is said.
  private struct Row {
    let name: String
    let alter: (inout TunnelState) -> Void
    let fault: TunnelStateFault

    init(_ name: String, _ fault: StaticString, _ alter: @escaping (inout TunnelState) -> Void) {
      self.name = name
      self.alter = alter
      self.fault = .invalid(fault)
    }
  }

  @Test func whatNoTunnelCouldHaveLeftIsRefused() {
    let rows = [
      Row("unknown flags", "flags") { $0.flags = TunnelState.Flags(rawValue: 1 << 9) },
      Row("both ends over", "ends") { $0.ends = [.clientEnded, .upstreamEnded] },
      Row("an end to be told that did not come", "ends") { $0.ends = [.closesClientWrite] },
      Row("the other one", "ends") { $0.ends = [.closesUpstreamWrite, .upstreamEnded] },
      Row("a reference of seven digits", "reference") { $0.reference = Reference(value: 1 << 30) },
      Row("a beginning before the clock's", "times") { $0.begun = -1 },
      Row("a beginning before 1970", "times") { $0.begunWall = -1 },
      Row("a beginning in the year 10000", "times") { $0.begunWall = 253_402_300_800_000 },
      Row("a byte before the beginning", "times") { $0.begun = $0.lastProgress + 1 },
      Row("a step of negative length", "times") { $0.connectMilliseconds = -2 },
      Row("a CONNECT that was answered 101", "status") { $0.status = 101 },
      Row("an Upgrade that was answered 200", "status") { $0.flags = .isUpgrade },
      Row("no client", "client") { $0.client.port = 0 },
      Row("no port", "port") { $0.port = 0 },
      Row("no port of the upstream", "port") { $0.upstream.port = 0 },
      Row("no host", "host") { $0.host = [] },
      Row("a host with a line feed", "host") { $0.host = Array("a\nb".utf8) },
      Row("a host that is not canonical", "host") { $0.host = Array("A.example".utf8) },
      Row("a host with a dot at its end", "host") { $0.host = Array("a.example.".utf8) },
      Row("a number for a host", "host") { $0.host = Array("0x7f.1".utf8) },
      Row("an address that is not canonical", "host") { $0.host = Array("0:0:0:0:0:0:0:1".utf8) },
      Row("a host that is too long", "length") { $0.host = [UInt8](repeating: 0x61, count: 254) },
      Row("no method", "method") { $0.method = [] },
      Row("a method with a space", "method") { $0.method = Array("GE T".utf8) },
      Row("no target", "target") { $0.target = [] },
      Row("a target with a line feed", "target") { $0.target = Array("a\n:443".utf8) },
      Row("a target with a byte above ASCII", "target") { $0.target = [0xe4] },
      Row("a target that is too long", "length") { $0.target = [UInt8](repeating: 0x61, count: 4097) },
      Row("a rule with a line feed", "rule") { $0.rule = "a\nb" },
      Row("a denial", "reason") { $0.reason = .ruleDenies },
      Row("a denied address", "reason") { $0.reason = .addressDenied },
      Row("a route with a delete", "route") { $0.route = "\u{7f}" },
      Row("a user with an escape", "user") { $0.owner = TunnelState.Owner(userID: 1, user: "\u{1b}[1m", unit: nil) },
      Row("a unit with a tab", "unit") { $0.owner = TunnelState.Owner(userID: 1, user: nil, unit: "\t") },
      Row("a fault with a line feed", "fault") { $0.reportedFault = .missingServerName(expected: "\n") },
      Row("too many bytes that wait", "length") {
        $0.toClient = [UInt8](repeating: 0, count: TunnelState.longestPending + 1)
      },
    ]
    for row in rows {
      var state = Self.plain()
      row.alter(&state)
      #expect(Self.fault(Self.record(state)) == row.fault, "\(row.name)")
    }
  }

  /// The longest record there can be is within what is read of a file.
  @Test func theLongestRecordFits() {
    var state = Self.full()
    let text = String(repeating: "a", count: TunnelState.longestText)
    state.rule = text
    state.route = text
    state.owner = TunnelState.Owner(userID: .max, user: text, unit: text)
    state.method = Array(text.utf8)
    state.target = Array(text.utf8)
    state.reportedFault = .otherServerName(seen: text, expected: text)
    state.toClient = [UInt8](repeating: 1, count: TunnelState.longestPending)
    state.toUpstream = [UInt8](repeating: 2, count: TunnelState.longestPending)
    let record = Self.record(state)
    #expect(record.count <= TunnelState.longestRecord)
    #expect(Self.read(record) == .success(state))
  }

  /// Whatever is altered: a record is read or refused, and what is read is written as it was.
  @Test func alteredRecordsAreReadExactlyOrRefused() {
    var generator = SeededGenerator(seed: 8)
    let records = [Self.record(Self.plain()), Self.record(Self.full())]
    var accepted = 0
    for round in 0..<20_000 {
      var record = records[round % 2]
      for _ in 0..<Int.random(in: 1...3, using: &generator) {
        record[Int.random(in: 0..<record.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
      }
      guard case .success(let state) = Self.read(record) else { continue }
      accepted += 1
      #expect(Self.record(state) == record)
    }
    #expect(accepted > 100)
  }
}

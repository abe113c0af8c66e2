// A tunnel that leaves this process, and one that comes from another. Tests: TunnelTransferTests.
//
// A tunnel can be handed over only if its bytes are no longer inspected. What remains of it is where its two ends are,
// and what its log line will say.

import Bytes
import Policy
import TLSWire

extension TunnelState {
  /// What the next process needs of a tunnel. The caller supplies the facts of the connections. nil: it is none, or its
  /// bytes are still inspected.
  public init?(_ exchange: borrowing Exchange, client: Place, host: [UInt8], text: Span<UInt8>) {
    let record = exchange.record
    guard exchange.isPlainTunnel, let address = record.upstream, let decision = record.decision else { return nil }
    self.init(
      client: client, upstream: Place(address, port: record.upstreamPort), host: host, port: exchange.upstream.port)
    if !exchange.isTunnel { flags.insert(.isUpgrade) }
    if exchange.dropsRequest { flags.insert(.dropsRequest) }
    if record.isReused { flags.insert(.isReused) }
    if record.isRetried { flags.insert(.isRetried) }
    if record.isForgiven { flags.insert(.isForgiven) }
    if exchange.tunnel.ends.contains(.client) { ends.insert(.clientEnded) }
    if exchange.tunnel.ends.contains(.upstream) { ends.insert(.upstreamEnded) }
    reference = record.reference
    (begun, begunWall, lastProgress) = (record.begun, record.begunWall, exchange.times.lastProgress)
    status = record.status
    (bytesIn, bytesOut) = (record.bytesIn, record.bytesOut)
    // Records of tunnels have milliseconds, and are passed on between versions of the proxy.
    func inMilliseconds(_ microseconds: Int64) -> Int64 { microseconds < 0 ? -1 : microseconds / 1000 }
    nameMilliseconds = inMilliseconds(record.nameMicroseconds)
    connectMilliseconds = inMilliseconds(record.connectMicroseconds)
    tlsMilliseconds = inMilliseconds(record.tlsMicroseconds)
    firstByteMilliseconds = inMilliseconds(record.firstByteMicroseconds)
    method = text.extracting(record.method).octets
    target = text.extracting(record.target).octets
    rule = exchange.ruleName
    reason = decision.reason
    route = record.route
    owner = record.client.map { Owner(userID: $0.userID, user: $0.user, unit: $0.unit) }
    assurance = record.assurance
    report = record.report
    if case .tunnelFaultReported(let fault) = record.outcome { reportedFault = fault }
  }
}

extension ExchangeRecord {
  /// The record of a tunnel of an earlier process. It was allowed when it was opened and stays allowed, as after a
  /// reload. `rule`: its place among the rules in force.
  init(resuming state: TunnelState, rule: Int?, now: Int64) {
    decision = Decision(verdict: .allow, reason: state.reason, rule: rule)
    isReused = state.flags.contains(.isReused)
    isRetried = state.flags.contains(.isRetried)
    isForgiven = state.flags.contains(.isForgiven)
    reference = state.reference
    // If the clock had gone back, an idle tunnel would be kept forever.
    begun = min(state.begun, now)
    begunWall = state.begunWall
    status = state.status
    (bytesIn, bytesOut) = (state.bytesIn, state.bytesOut)
    // A damaged record may have any number.
    func inMicroseconds(_ milliseconds: Int64) -> Int64 {
      milliseconds < 0 ? -1 : min(milliseconds, .max / 1000) * 1000
    }
    nameMicroseconds = inMicroseconds(state.nameMilliseconds)
    connectMicroseconds = inMicroseconds(state.connectMilliseconds)
    tlsMicroseconds = inMicroseconds(state.tlsMilliseconds)
    firstByteMicroseconds = inMicroseconds(state.firstByteMilliseconds)
    upstream = state.upstream.address
    upstreamPort = state.upstream.port
    route = state.route
    client = state.owner.map { owner in
      LocalClient(
        userID: owner.userID, user: owner.user,
        cgroup: owner.unit == LocalClient.unknownName ? nil : owner.unit.map { [$0] } ?? [])
    }
    assurance = state.assurance
    report = state.report
    if let fault = state.reportedFault {
      outcome = .tunnelFaultReported(fault)
      finding = Finding(fault)
    }
    method = 0..<state.method.count
    target = state.method.count..<state.method.count + state.target.count
  }
}

extension Outputs {
  /// The bytes of a tunnel of an earlier process that wait to be sent, and the text of its log line.
  mutating func resume(_ state: TunnelState, _ pool: inout BufferPool) {
    pool.lend(&text, BufferPool.smallestBlock)
    text.append(state.method)
    text.append(state.target)
    Self.resume(state.toClient, &toClient, &pool)
    Self.resume(state.toUpstream, &toUpstream, &pool)
  }

  private static func resume(_ bytes: [UInt8], _ output: inout ByteBuffer, _ pool: inout BufferPool) {
    if bytes.isEmpty { return }
    pool.lend(&output, bytes.count)
    output.append(bytes)
  }
}

extension Span where Element == UInt8 {
  fileprivate var octets: [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(count)
    for index in 0..<count { result.append(self[index]) }
    return result
  }
}

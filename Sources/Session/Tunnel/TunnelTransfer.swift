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
    guard exchange.isPlainTunnel, let address = record.way.upstream, let decision = record.ruled.decision else {
      return nil
    }
    self.init(
      client: client, upstream: Place(address, port: record.way.upstreamPort), host: host, port: exchange.upstream.port)
    if !exchange.request.traits.contains(.isTunnel) { flags.insert(.isUpgrade) }
    if exchange.dropsRequest { flags.insert(.dropsRequest) }
    if record.way.isReused { flags.insert(.isReused) }
    if record.way.isRetried { flags.insert(.isRetried) }
    if record.found.isForgiven { flags.insert(.isForgiven) }
    if exchange.tunnel.ends.contains(.client) { ends.insert(.clientEnded) }
    if exchange.tunnel.ends.contains(.upstream) { ends.insert(.upstreamEnded) }
    reference = record.reference
    (begun, begunWall, lastProgress) = (record.times.begun, record.times.begunWall, exchange.times.lastProgress)
    status = record.answer.status
    (bytesIn, bytesOut) = (record.traffic.bytesIn, record.traffic.bytesOut)
    // Records of tunnels have milliseconds, and are passed on between versions of the proxy.
    func inMilliseconds(_ microseconds: Int64) -> Int64 { microseconds < 0 ? -1 : microseconds / 1000 }
    nameMilliseconds = inMilliseconds(record.times.nameMicroseconds)
    connectMilliseconds = inMilliseconds(record.times.connectMicroseconds)
    tlsMilliseconds = inMilliseconds(record.times.tlsMicroseconds)
    firstByteMilliseconds = inMilliseconds(record.times.firstByteMicroseconds)
    method = text.extracting(record.text.method).octets
    target = text.extracting(record.text.target).octets
    rule = exchange.ruleName
    reason = decision.reason
    route = record.way.route
    owner = record.sender.client.map { Owner(userID: $0.userID, user: $0.user, unit: $0.unit) }
    assurance = record.way.assurance
    report = record.found.report
    if case .tunnelFaultReported(let fault) = record.outcome { reportedFault = fault }
  }
}

extension ExchangeRecord {
  /// The record of a tunnel of an earlier process. It was allowed when it was opened and stays allowed, as after a
  /// reload. `rule`: its place among the rules in force.
  init(resuming state: TunnelState, rule: Int?, now: Int64) {
    ruled.decision = Decision(verdict: .allow, reason: state.reason, rule: rule)
    way.isReused = state.flags.contains(.isReused)
    way.isRetried = state.flags.contains(.isRetried)
    found.isForgiven = state.flags.contains(.isForgiven)
    reference = state.reference
    // If the clock had gone back, an idle tunnel would be kept forever.
    times.begun = min(state.begun, now)
    times.begunWall = state.begunWall
    answer.status = state.status
    (traffic.bytesIn, traffic.bytesOut) = (state.bytesIn, state.bytesOut)
    // A damaged record may have any number.
    func inMicroseconds(_ milliseconds: Int64) -> Int64 {
      milliseconds < 0 ? -1 : min(milliseconds, .max / 1000) * 1000
    }
    times.nameMicroseconds = inMicroseconds(state.nameMilliseconds)
    times.connectMicroseconds = inMicroseconds(state.connectMilliseconds)
    times.tlsMicroseconds = inMicroseconds(state.tlsMilliseconds)
    times.firstByteMicroseconds = inMicroseconds(state.firstByteMilliseconds)
    way.upstream = state.upstream.address
    way.upstreamPort = state.upstream.port
    way.route = state.route
    sender.client = state.owner.map { owner in
      LocalClient(
        userID: owner.userID, user: owner.user,
        cgroup: owner.unit == LocalClient.unknownName ? nil : owner.unit.map { [$0] } ?? [])
    }
    way.assurance = state.assurance
    found.report = state.report
    if let fault = state.reportedFault {
      outcome = .tunnelFaultReported(fault)
      found.finding = Finding(fault)
    }
    text.method = 0..<state.method.count
    text.target = state.method.count..<state.method.count + state.target.count
  }
}

extension Outputs {
  /// The bytes of a tunnel of an earlier process that wait to be sent, and the text of its log line.
  mutating func resume(_ state: TunnelState, _ pool: inout BufferPool) {
    pool.lend(&text, BufferPool.smallestBlock)
    text.append(state.method)
    text.append(state.target)
    Self.resume(state.toClient, to: &toClient, pool: &pool)
    Self.resume(state.toUpstream, to: &toUpstream, pool: &pool)
  }

  private static func resume(_ bytes: [UInt8], to output: inout ByteBuffer, pool: inout BufferPool) {
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

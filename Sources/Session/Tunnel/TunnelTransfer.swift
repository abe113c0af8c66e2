// A tunnel that leaves this process, and one that comes from another. Tests: TunnelTransferTests.
//
// A tunnel can be handed over only if its bytes are no longer inspected. What remains of it is where its two ends are,
// and what its log line will say.

import Bytes
import Policy
import TLSWire

extension Exchange {
  /// Whether moving bytes both ways is all that is left to do. The server knows whether it terminates TLS on either
  /// side.
  public var isPlainTunnel: Bool { phase == .tunnel && tunnel.inspected == nil && tunnel.interior == nil }

  /// Whether the client's bytes are read and dropped, because the upstream accepts no more.
  public var dropsRequest: Bool { upstream.carrier.contains(.dropsRequest) }

  /// What the next process needs. The caller supplies the facts of the connections. The session stays unchanged.
  public func tunnelState(
    client: TunnelState.Place, host: [UInt8], text: Span<UInt8>
  ) -> TunnelState? {
    guard isPlainTunnel, let address = record.upstream, let decision = record.decision else { return nil }
    var state = TunnelState(
      client: client, upstream: TunnelState.Place(address, port: record.upstreamPort), host: host, port: upstream.port)
    state.flags = transferFlags
    if tunnel.ends.contains(.client) { state.ends.insert(.clientEnded) }
    if tunnel.ends.contains(.upstream) { state.ends.insert(.upstreamEnded) }
    state.reference = record.reference
    (state.begun, state.begunWall, state.lastProgress) = (record.begun, record.begunWall, times.lastProgress)
    state.status = record.status
    (state.bytesIn, state.bytesOut) = (record.bytesIn, record.bytesOut)
    // Records of tunnels have milliseconds, and are passed on between versions of the proxy.
    func inMilliseconds(_ microseconds: Int64) -> Int64 { microseconds < 0 ? -1 : microseconds / 1000 }
    state.nameMilliseconds = inMilliseconds(record.nameMicroseconds)
    state.connectMilliseconds = inMilliseconds(record.connectMicroseconds)
    state.tlsMilliseconds = inMilliseconds(record.tlsMicroseconds)
    state.firstByteMilliseconds = inMilliseconds(record.firstByteMicroseconds)
    state.method = text.extracting(record.method).octets
    state.target = text.extracting(record.target).octets
    state.rule = ruleName
    state.reason = decision.reason
    state.route = record.route
    state.owner = record.client.map { TunnelState.Owner(userID: $0.userID, user: $0.user, unit: $0.unit) }
    state.assurance = record.assurance
    state.report = record.report
    if case .tunnelFaultReported(let fault) = record.outcome { state.reportedFault = fault }
    return state
  }

  private var transferFlags: TunnelState.Flags {
    var result: TunnelState.Flags = []
    if !request.traits.contains(.isTunnel) { result.insert(.isUpgrade) }
    if upstream.carrier.contains(.dropsRequest) { result.insert(.dropsRequest) }
    if record.isReused { result.insert(.isReused) }
    if record.isRetried { result.insert(.isRetried) }
    if record.isForgiven { result.insert(.isForgiven) }
    return result
  }

  /// A tunnel of an earlier process, under this process's policy. It was allowed when it was opened and stays allowed,
  /// as after a reload. Waiting bytes are in `outputs` again. It gets the pace of the rule in force when the caller
  /// reports its link with `beginPace`.
  init(
    resuming state: TunnelState, policy: Policy, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    self.init(policy: policy, now: now)
    phase = .tunnel
    upstream.port = state.port
    // If the clock had gone back, an idle tunnel would be kept forever.
    times.lastProgress = min(state.lastProgress, now)
    resumeFlags(state.flags)
    if state.ends.contains(.clientEnded) { tunnel.ends.insert(.client) }
    if state.ends.contains(.upstreamEnded) { tunnel.ends.insert(.upstream) }
    let rule = state.rule.flatMap { name in policy.rules.firstIndex { $0.name == name } }
    if rule == nil { tunnel.formerRule = state.rule }
    record.decision = Decision(verdict: .allow, reason: state.reason, rule: rule)
    resumeRecord(state, now: now)
    if let decision = record.decision { bodies.pacing = policy.request(of: decision).throttle.map { Pacing($0) } }
    workspace.pool.lend(&outputs.text, BufferPool.smallestBlock)
    outputs.text.append(state.method)
    outputs.text.append(state.target)
    record.method = 0..<state.method.count
    record.target = state.method.count..<outputs.text.count
    Self.resume(state.toClient, &outputs.toClient, &workspace)
    Self.resume(state.toUpstream, &outputs.toUpstream, &workspace)
  }

  private mutating func resumeFlags(_ transferred: TunnelState.Flags) {
    if !transferred.contains(.isUpgrade) { request.traits.insert(.isTunnel) }
    if transferred.contains(.dropsRequest) { upstream.carrier.insert(.dropsRequest) }
    record.isReused = transferred.contains(.isReused)
    record.isRetried = transferred.contains(.isRetried)
    record.isForgiven = transferred.contains(.isForgiven)
  }

  private mutating func resumeRecord(_ state: TunnelState, now: Int64) {
    record.reference = state.reference
    record.begun = min(state.begun, now)
    record.begunWall = state.begunWall
    record.status = state.status
    (record.bytesIn, record.bytesOut) = (state.bytesIn, state.bytesOut)
    // A damaged record may have any number.
    func inMicroseconds(_ milliseconds: Int64) -> Int64 {
      milliseconds < 0 ? -1 : min(milliseconds, .max / 1000) * 1000
    }
    record.nameMicroseconds = inMicroseconds(state.nameMilliseconds)
    record.connectMicroseconds = inMicroseconds(state.connectMilliseconds)
    record.tlsMicroseconds = inMicroseconds(state.tlsMilliseconds)
    record.firstByteMicroseconds = inMicroseconds(state.firstByteMilliseconds)
    record.upstream = state.upstream.address
    record.upstreamPort = state.upstream.port
    record.route = state.route
    record.client = state.owner.map { owner in
      LocalClient(
        userID: owner.userID, user: owner.user,
        cgroup: owner.unit == LocalClient.unknownName ? nil : owner.unit.map { [$0] } ?? [])
    }
    record.assurance = state.assurance
    record.report = state.report
    if let fault = state.reportedFault {
      record.outcome = .tunnelFaultReported(fault)
      record.finding = Finding(fault)
    }
  }

  private static func resume(_ bytes: [UInt8], _ output: inout ByteBuffer, _ workspace: inout Workspace) {
    if bytes.isEmpty { return }
    workspace.pool.lend(&output, bytes.count)
    output.append(bytes)
  }

  /// The name of the rule that decided the current exchange, even if the policy in force no longer has it.
  public var ruleName: String? { rule?.name ?? tunnel.formerRule }
}

extension Span where Element == UInt8 {
  fileprivate var octets: [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(count)
    for index in 0..<count { result.append(self[index]) }
    return result
  }
}

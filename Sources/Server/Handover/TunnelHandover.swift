// A stop that leaves the open tunnels to systemd, for the next daemon that it starts.
//
// Only plain bytes in both directions can be left: a CONNECT tunnel or an upgraded connection that is not inspected,
// with no TLS of the proxy on either side. Everything else drains as usual. Tunnels move until only tunnels are left,
// or the time for draining is over. From then until the next daemon runs they stand still.
//
// A tunnel that systemd does not accept, because its store is full, ends as without a store.

import Bytes
import Session
import Transport

extension Conversation {
  var canBeHandedOver: Bool {
    session.exchange.isPlainTunnel && ending == nil && clientHandshake == nil && !flags.contains(.closed)
      && stream.isBare
      && upstream?.stream.isBare ?? false && destination != nil
  }

  /// Gives a copy of the tunnel to systemd; nil: this is not such a tunnel, or copying failed. From here on none of its
  /// bytes may move.
  fileprivate func handOver(_ worker: Worker) -> DescriptorParcel? {
    guard canBeHandedOver, let upstream, let destination else { return nil }
    gatherWaiting(worker)
    guard
      var state = session.exchange.tunnelState(
        client: TunnelState.Place(IPAddress(peer), port: peer.port), host: destination.host,
        text: outputs.text.bytes)
    else { return nil }
    state.toClient = Array(outputs.toClient.bytes)
    state.toUpstream = Array(outputs.toUpstream.bytes)
    guard max(state.toClient.count, state.toUpstream.count) <= TunnelState.longestPending else { return nil }
    if clientSide.state.contains(.closesWrite) { state.ends.insert(.closesClientWrite) }
    if upstreamSide.state.contains(.closesWrite) { state.ends.insert(.closesUpstreamWrite) }
    guard let packed = StoredTunnel(state: state, client: descriptor, upstream: upstream.descriptor).pack() else {
      return nil
    }
    defer { packed.parcel.close() }
    if Systemd.store(packed.parcel, as: StoredTunnel.name) { return packed }
    packed.receipt.close()
    return nil
  }

  /// All that has been read from one side and not yet sent to the other, in the order of arrival: first what waits to
  /// be sent, then what is in a pipe or was not looked at.
  private func gatherWaiting(_ worker: Worker) {
    if let pipe = upstreamSide.pipe, upstreamSide.holdsPiped {
      session.exchange.upstreamForwarded(pipe.empty(upstreamSide.piped, into: &outputs.toClient), now: worker.now)
      upstreamSide.piped = 0
    }
    if !upstreamInput.isEmpty {
      outputs.toClient.append(contentsOf: upstreamInput)
      session.exchange.upstreamForwarded(upstreamInput.count, now: worker.now)
      worker.workspace.pool.reclaim(&upstreamInput)
    }
    if let pipe = clientSide.pipe, clientSide.holdsPiped {
      session.exchange.clientForwarded(pipe.empty(clientSide.piped, into: &outputs.toUpstream), now: worker.now)
      clientSide.piped = 0
    }
    if !clientInput.isEmpty {
      if !session.exchange.dropsRequest { outputs.toUpstream.append(contentsOf: clientInput) }
      session.exchange.clientForwarded(clientInput.count, now: worker.now)
      worker.workspace.pool.reclaim(&clientInput)
    }
  }

  /// systemd has the tunnel: here it ends without a word to either side.
  fileprivate func leave(_ worker: Worker) {
    // Closed here, the sockets stay open there, and the poller would go on reporting events for them.
    worker.update(descriptor, &interest, nil, slot)
    if let upstream { worker.watch(upstream.stream, &upstream.interest, nil, upstream.slot) }
    close(worker)
  }
}

/// What one loop does of it.
struct TunnelHandover {
  /// How long systemd may take to process what it was given, in milliseconds. It compares each descriptor with all that
  /// it has; for a thousand, that takes some tenths of a second.
  private static let storeMilliseconds: Int64 = 5000

  /// systemd keeps tunnels.
  var isWanted = false
  /// The number of remaining tunnels last reported to the daemon; nil: not reported yet.
  private var reported: Int? = nil

  /// How many tunnels are left when nothing else is; nil: something is, or nothing has changed since the last report.
  mutating func news(_ occupants: [Occupant]) -> Int? {
    guard isWanted else { return nil }
    var tunnels = 0
    for case .client(let conversation) in occupants {
      guard conversation.canBeHandedOver else { return nil }
      tunnels += 1
    }
    if tunnels == reported { return nil }
    reported = tunnels
    return tunnels
  }

  /// Hands over what can be handed over, and ends what systemd does not accept. Returns how many it keeps; nil: there
  /// was none.
  func handOver(_ worker: Worker) -> Int? {
    guard isWanted else { return nil }
    var given: [(conversation: Conversation, packed: DescriptorParcel)] = []
    for case .client(let conversation) in worker.slots.occupants {
      guard let packed = conversation.handOver(worker) else { continue }
      given.append((conversation, packed))
    }
    if given.isEmpty { return nil }
    _ = Systemd.waitUntilHeard(milliseconds: Self.storeMilliseconds)
    var kept = 0
    for (conversation, packed) in given {
      if packed.isKept {
        kept += 1
        conversation.leave(worker)
      } else {
        conversation.shutDown(worker)
      }
      packed.receipt.close()
    }
    return kept
  }
}

extension Pipe {
  /// Takes out the `count` bytes that are in it; returns how many there were.
  fileprivate func empty(_ count: Int, into buffer: inout ByteBuffer) -> Int {
    var taken = 0
    while taken < count {
      buffer.reserve(count - taken)
      guard case .moved(let moved) = readEnd.read(into: &buffer) else { break }
      taken += moved
    }
    return taken
  }
}

extension Array where Element == UInt8 {
  fileprivate init(_ bytes: Span<UInt8>) {
    self = bytes.withUnsafeBufferPointer { Array($0) }
  }
}

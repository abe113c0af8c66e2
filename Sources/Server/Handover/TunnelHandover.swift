// A stop that leaves the open tunnels to systemd, for the daemon that it starts next.
//
// Only what is bytes both ways can be left: a CONNECT tunnel or an upgraded connection that nobody looks into, neither
// side of which is under TLS that ends here. Everything else drains as without a store. Tunnels move until nothing but
// tunnels is left, or the time for draining is over: from then on until the next daemon runs they stand still.
//
// A tunnel that systemd does not take, for its store is full, ends as one without a store does.

import Bytes
import Session
import Transport

extension Conversation {
  var canBeHandedOver: Bool {
    session.exchange.isPlainTunnel && ending == nil && clientHandshake == nil && !flags.contains(.closed)
      && stream.isBare
      && upstream?.stream.isBare ?? false && destination != nil
  }

  /// Gives a copy of the tunnel to systemd; nil: there is none to give, or no way to. Nothing of it may move from here on.
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
    if clientSide.state.contains(.closesWrite) { state.flags.insert(.closesClientWrite) }
    if upstreamSide.state.contains(.closesWrite) { state.flags.insert(.closesUpstreamWrite) }
    guard let packed = StoredTunnel(state: state, client: descriptor, upstream: upstream.descriptor).pack() else {
      return nil
    }
    defer { packed.parcel.close() }
    if Systemd.store(packed.parcel, as: StoredTunnel.name) { return packed }
    packed.receipt.close()
    return nil
  }

  /// All that has been read of one side and not been sent to the other, in the order in which it came: what waits to be
  /// sent, then what is in a pipe or was not looked at.
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

  /// Systemd has the tunnel: here it ends without a word to anybody.
  fileprivate func leave(_ worker: Worker) {
    // Closed here, the sockets are open there, and the poller would go on to tell of them.
    worker.update(descriptor, &interest, nil, slot)
    if let upstream { worker.update(upstream.descriptor, &upstream.interest, nil, upstream.slot) }
    close(worker)
  }
}

extension Worker {
  /// How long systemd may take to note what it was given, in milliseconds: it compares each descriptor with all that it
  /// has, which for a thousand takes some tenths of a second.
  static let storeMilliseconds: Int64 = 5000

  /// Tells the daemon when nothing but tunnels is left that can be handed over, and how many.
  func reportTunnels() {
    guard drainDeadline != nil, handsOver else { return }
    var tunnels = 0
    for case .client(let conversation) in occupants {
      guard conversation.canBeHandedOver else { return }
      tunnels += 1
    }
    if tunnels == reportedTunnels { return }
    reportedTunnels = tunnels
    shared.reports.post(.onlyTunnels(worker: index, tunnels))
  }

  /// Hands over what can be, and ends what systemd does not take.
  func handOver() {
    guard handsOver else { return }
    var given: [(conversation: Conversation, packed: DescriptorParcel)] = []
    for case .client(let conversation) in occupants {
      guard let packed = conversation.handOver(self) else { continue }
      given.append((conversation, packed))
    }
    if given.isEmpty { return }
    _ = Systemd.waitUntilHeard(milliseconds: Self.storeMilliseconds)
    var kept = 0
    for (conversation, packed) in given {
      if packed.isKept {
        kept += 1
        conversation.leave(self)
      } else {
        conversation.shutDown(self)
      }
      packed.receipt.close()
    }
    shared.reports.post(.handedOver(kept))
  }
}

extension Pipe {
  /// Takes out the `count` bytes that are in it; answers how many they were.
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

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

extension StoredTunnel {
  /// The tunnel of a conversation that can be handed over, from whose sockets nothing is read any more. nil: too much
  /// waits to be sent.
  fileprivate init?(of conversation: Conversation) {
    guard let upstream = conversation.upstream, let destination = conversation.search.destination,
      var state = TunnelState(
        conversation.session.exchange,
        client: TunnelState.Place(IPAddress(conversation.peer), port: conversation.peer.port),
        host: destination.host, text: conversation.outputs.text.bytes)
    else { return nil }
    state.toClient = conversation.outputs.toClient.bytes.array
    state.toUpstream = conversation.outputs.toUpstream.bytes.array
    guard max(state.toClient.count, state.toUpstream.count) <= TunnelState.longestPending else { return nil }
    if conversation.clientSide.state.contains(.closesWrite) { state.ends.insert(.closesClientWrite) }
    if conversation.upstreamSide.state.contains(.closesWrite) { state.ends.insert(.closesUpstreamWrite) }
    self.init(state: state, client: conversation.descriptor, upstream: upstream.descriptor)
  }

  /// Gives a copy of the tunnel to systemd; nil: copying failed.
  fileprivate func handOver() -> DescriptorParcel? {
    guard let packed = pack() else { return nil }
    defer { packed.parcel.close() }
    if Systemd.store(packed.parcel, as: StoredTunnel.name) { return packed }
    packed.receipt.close()
    return nil
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
      guard conversation.canBeHandedOver else { continue }
      // From here on none of its bytes may move.
      conversation.gatherWaiting(worker)
      guard let packed = StoredTunnel(of: conversation)?.handOver() else { continue }
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

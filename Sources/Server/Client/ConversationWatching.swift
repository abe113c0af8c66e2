// What the poller watches of a conversation's two connections, and the blocks for what has been read from them.

import Bytes
import Session
import Transport

extension Conversation {
  func watchClient(_ worker: Worker) {
    if let handshake, handshake.isUnderWay { return worker.update(descriptor, &interest, handshake.wants, slot) }
    if canReadClient { clientSide.state.remove([.unwatched, .broken]) }
    if clientSide.state.contains(.broken) {
      // The poller will never announce that it accepts bytes. A write shows that it does not.
      awaitsRoom = false
      return worker.watch(stream, &interest, nil, slot)
    }
    var wanted: Interest = []
    if clientSide.state.contains(.ended) {
      wanted = []
    } else if !clientSide.state.contains(.unwatched) {
      wanted = .read
    } else if session.exchange.awaitsOnlyUpstream || session.exchange.awaitsOperator
      || client.isAwaited, !isHalfClosed
    {
      wanted = .peerClosed
    }
    let hasMore = !outputs.toClient.isEmpty || awaitsRoom || upstreamSide.holdsPiped
    if hasMore, !session.exchange.downloadRests { wanted.insert(.write) }
    worker.watch(stream, &interest, wanted, slot)
  }

  func watchUpstream(_ worker: Worker) {
    guard let upstream else { return }
    if canReadUpstream { upstreamSide.state.remove([.unwatched, .broken]) }
    var wanted: Interest? = []
    if upstreamSide.state.contains(.broken) {
      wanted = nil
    } else if !upstreamSide.state.contains(.ended), !upstreamSide.state.contains(.unwatched) {
      wanted = .read
    }
    if !outputs.toUpstream.isEmpty || clientSide.holdsPiped { wanted?.insert(.write) }
    worker.watch(upstream.stream, &upstream.interest, wanted, upstream.slot)
  }

  // MARK: Input buffers

  func takeInput(_ kept: inout ByteBuffer, _ room: Int, _ worker: Worker) -> ByteBuffer {
    if kept.isEmpty { return worker.workspace.pool.take(room) }
    var input = ByteBuffer()
    swap(&input, &kept)
    if input.tailRoom < Self.leastReadBytes { input.reserve(max(Self.leastReadBytes, input.count)) }
    return input
  }

  /// Keeps the rest in a block of fitting size.
  func keepInput(_ input: inout ByteBuffer, _ kept: inout ByteBuffer, _ worker: Worker) {
    if !input.isEmpty, !flags.contains(.closed) {
      if input.capacity >= Worker.readBytes, input.count < input.capacity / 2 {
        kept = worker.workspace.pool.take(input.count)
        kept.append(contentsOf: input)
      } else {
        swap(&input, &kept)
      }
    }
    worker.workspace.pool.reclaim(&input)
  }
}

// Bodies of an exchange that do not simply pass: held, spooled, made here, or at a pace.

import Bytes

struct ExchangeBodies: ~Copyable {
  /// A body that is held until it has been checked: the request's while it is collected, otherwise the response's.
  var held: HeldBody? = nil
  /// The request, and the credentials with which the proxy answers a challenge; nil: the client answers challenges.
  var challenged: ChallengedRequest? = nil
  /// The part of a body in a file, until all of it has been read back: it is buffered whole to learn its length.
  var spooled: SpooledBody? = nil
  /// Accounts for the memory of a body that was held, or is sent in place of a response, until the client has it.
  var toClient: HeldBody? = nil
  /// The same for a rewritten body, until the upstream has it.
  var toUpstream: HeldBody? = nil
  /// The pace of each direction; nil: unlimited.
  var pacing: Pacing? = nil
  /// The rest of a rewritten body that leaves at a pace.
  var paced = ByteBuffer()

  /// Whether a body that was held is still on its way.
  var areOnTheirWay: Bool { toClient != nil || toUpstream != nil }

  /// Whether all of a body that was made or buffered here has left.
  var areOut: Bool { paced.isEmpty && spooled == nil }

  /// How much they take of the memory for all held bodies.
  var heldBytes: Int {
    (held?.taken ?? 0) + (toClient?.taken ?? 0) + (toUpstream?.taken ?? 0) + (challenged?.heldBytes ?? 0)
  }

  /// Nothing waits for one end any more.
  mutating func sentAll(toClient isForClient: Bool) {
    if isForClient { toClient = nil } else if paced.isEmpty { toUpstream = nil }
  }

  /// What is left of the request is not sent.
  mutating func dropUpload() {
    paced = ByteBuffer()
    toUpstream = nil
  }

  /// Releases the memory of a held body, if there is one.
  mutating func releaseHeld(_ pool: inout BufferPool) {
    held?.release(&pool)
    held = nil
    challenged?.release(&pool)
  }

  /// Sends as much of a body made here as may leave now.
  mutating func sendPaced(now: Int64, to outputs: inout Outputs, _ pool: inout BufferPool) {
    let allowed = pacing?.upload?.allowance(of: paced.count) ?? paced.count
    if allowed == 0 { return }
    pool.lend(&outputs.toUpstream, allowed)
    outputs.toUpstream.append(paced.bytes.extracting(first: allowed))
    paced.consume(allowed)
    pacing?.upload?.spent(allowed, now: now)
  }

  // MARK: Bodies of requests that were made or held here

  /// Sends such a body, at the rule's pace if it sets one. A long one is sent once.
  mutating func sendMade(_ body: Span<UInt8>, to outputs: inout Outputs, _ carrier: inout CarrierTraits) {
    if pacing?.isForUploads ?? false {
      paced.append(body)
      carrier.remove(.mayRetry)
    } else {
      outputs.toUpstream.append(body)
      if body.count > UpstreamSide.longestReplayedBody { carrier.remove(.mayRetry) }
    }
  }

  /// The held body leaves as `body`, in `outputs`. If a challenge may be answered, the body is kept, provided it is
  /// whole.
  mutating func endCollecting(
    _ body: Span<UInt8>, isWhole: Bool, _ outputs: borrowing Outputs, in workspace: inout Workspace
  ) {
    guard let held else { return }
    held.release(&workspace.pool)
    self.held = nil
    accountForUpload(as: held, outputs)
    challenged?.keep(body, isWhole: isWhole, workspace.heldBytes, pool: &workspace.pool)
  }

  /// The body is in the output.
  private mutating func accountForUpload(as held: HeldBody, _ outputs: borrowing Outputs) {
    held.becomes(outputs.toUpstream.count + paced.count)
    toUpstream = held
  }

  /// Writes a request that was challenged, and its body, again as sent without credentials; false: it is no longer
  /// kept.
  mutating func writeAgain(
    _ challenged: ChallengedRequest, _ progress: MessageProgress, carrier: inout CarrierTraits,
    workspace: inout Workspace, outputs: inout Outputs
  ) -> Bool {
    outputs.toUpstream.removeAll()
    workspace.pool.lend(&outputs.toUpstream, challenged.head.count)
    outputs.toUpstream.append(contentsOf: challenged.head)
    switch challenged.body {
    case .none: break
    case .made(let body): sendMade(body.span, to: &outputs, &carrier)
    case .held:
      var content = challenged.takeContent()
      sendMade(content.bytes, to: &outputs, &carrier)
      challenged.putBack(&content)
      accountForUpload(as: HeldBody(workspace.heldBytes), outputs)
    case .streamed: return challenged.isIntact(progress)
    }
    return progress == .done
  }
}

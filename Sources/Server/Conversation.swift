// One client's connection: carries out what its session says, and feeds the session with what happens.
//
// Bytes are read into a large block that the loop lends for the turn. What the session leaves is kept in a block of its
// own size, so that a connection which waits holds little and an idle one holds none. What cannot be sent at once is
// kept too, and as long as there is any of it the other side is not read.
//
// Interest in reading is given up lazily: only when an event comes that cannot be used is the registration changed.

import Bytes
import Policy
import Session
import Transport

final class Conversation {
  private let slot: Int
  private let descriptor: Descriptor
  private let peer: SocketAddress
  private var session: Session
  private var outputs = Outputs()
  /// Bytes that the session has not consumed; whether it has seen all of them and wants more.
  private var clientInput = ByteBuffer()
  private var upstreamInput = ByteBuffer()
  private var flags = Flags()
  private var interest: Interest? = .read
  private var upstream: Upstream?
  private var connector: Connector?
  private var destination: Destination?
  /// What is to be done once everything has been sent to the client.
  private var ending: Ending?
  private var streams: SplicedStreams?

  private struct Flags: OptionSet {
    let rawValue: UInt16

    static let sawClientInput = Flags(rawValue: 1 << 0)
    static let sawUpstreamInput = Flags(rawValue: 1 << 1)
    /// A readable event came that could not be used, and the registration was changed.
    static let clientUnwatched = Flags(rawValue: 1 << 2)
    static let upstreamUnwatched = Flags(rawValue: 1 << 3)
    /// The end of the stream has been read.
    static let clientEnded = Flags(rawValue: 1 << 4)
    static let upstreamEnded = Flags(rawValue: 1 << 5)
    /// The client's end was announced while its bytes were not read.
    static let clientHalfClosed = Flags(rawValue: 1 << 6)
    /// Both directions of the upstream are gone while its bytes cannot be read yet: nothing at all is registered.
    static let upstreamBroken = Flags(rawValue: 1 << 7)
    /// The sending direction is to be shut down once everything has been sent.
    static let closesClientWrite = Flags(rawValue: 1 << 8)
    static let closesUpstreamWrite = Flags(rawValue: 1 << 9)
    static let closed = Flags(rawValue: 1 << 10)
    /// The last read brought so much that moving without copying pays.
    static let requestIsBulk = Flags(rawValue: 1 << 11)
    static let responseIsBulk = Flags(rawValue: 1 << 12)
  }

  /// Smallest room for a read behind bytes that are kept.
  private static let leastReadBytes = 1024

  init(slot: Int, descriptor: Descriptor, peer: SocketAddress, policy: Policy, now: Int64) {
    self.slot = slot
    self.descriptor = descriptor
    self.peer = peer
    session = Session(policy: policy, now: now)
  }

  // MARK: What happens

  func begin(_ worker: Worker) {
    readClient(worker)
    settle(worker)
  }

  func clientReady(_ readiness: Readiness, _ worker: Worker) {
    if readiness.isWritable, interest?.contains(.write) ?? false { clientWritable(worker) }
    if readiness.isReadable, !flags.contains(.closed) {
      if canReadClient {
        readClient(worker)
      } else {
        clientUnreadable(readiness, worker)
      }
    }
    settle(worker)
  }

  func upstreamReady(_ readiness: Readiness, _ worker: Worker) {
    guard let upstream else { return }
    if readiness.isWritable, upstream.interest?.contains(.write) ?? false { upstreamWritable(worker) }
    if readiness.isReadable, self.upstream != nil {
      if canReadUpstream {
        readUpstream(worker)
      } else {
        flags.insert(.upstreamUnwatched)
        if readiness.isBroken { flags.insert(.upstreamBroken) }
      }
    }
    settle(worker)
  }

  func timerFired(_ worker: Worker) {
    if worker.now < deadline {
      settle(worker)
      return
    }
    if ending != nil {
      // What is left cannot be sent: the client does not read.
      perform(session.clientFailed(), worker)
      giveUpSending(worker)
    } else {
      perform(session.timedOut(now: worker.now, &worker.workspace, &outputs), worker)
    }
    settle(worker)
  }

  func connected(_ upstream: Upstream, connectMilliseconds: Int64, _ worker: Worker) {
    connector = nil
    session.noteConnectTime(connectMilliseconds)
    attach(upstream, reused: false, worker)
  }

  func connectFailed(_ failure: UpstreamFailure, _ worker: Worker) {
    connector = nil
    perform(session.upstreamFailed(failure, &worker.workspace, &outputs), worker)
  }

  func noteNameTime(_ milliseconds: Int64) { session.noteNameTime(milliseconds) }

  /// The proxy is stopping.
  func drain(_ worker: Worker) {
    // A request that is here already gets its answer.
    if session.isIdle, canReadClient { readClient(worker) }
    if flags.contains(.closed) { return }
    if ending == nil { perform(session.drain(), worker) }
    settle(worker)
  }

  func shutDown(_ worker: Worker) {
    if flags.contains(.closed) { return }
    if ending == nil { perform(session.shutDown(), worker) }
    giveUpSending(worker)
  }

  // MARK: The client's bytes

  private var canReadClient: Bool {
    ending == nil && !flags.contains(.clientEnded) && session.wantsClientBytes && outputs.toUpstream.isEmpty
      && !(streams?.holdsRequest ?? false)
  }

  private func readClient(_ worker: Worker) {
    if spliceRequest(worker) { return }
    var input = takeInput(&clientInput, Worker.readBytes, worker)
    switch descriptor.read(into: &input) {
    case .moved(let count):
      if count >= Self.bulkBytes { flags.insert(.requestIsBulk) }
      pumpClient(&input, worker)
      keepInput(&input, &clientInput, worker)
    case .wouldBlock:
      keepInput(&input, &clientInput, worker)
    case .ended:
      keepInput(&input, &clientInput, worker)
      clientStreamEnded(worker)
    case .failed:
      keepInput(&input, &clientInput, worker)
      perform(session.clientFailed(), worker)
    }
  }

  private func clientStreamEnded(_ worker: Worker) {
    flags.insert(.clientEnded)
    let action = session.clientEnded(now: worker.now, &worker.workspace, &outputs)
    perform(action, otherIsUpstream: true, worker)
  }

  /// Shows the session what there is until it can use no more of it.
  private func pumpClient(_ input: inout ByteBuffer, _ worker: Worker) {
    flags.remove(.sawClientInput)
    var goesOn = true
    while goesOn, !flags.contains(.closed), ending == nil {
      let step = session.clientReceived(
        input.bytes, now: worker.now, policy: worker.policy, &worker.workspace, &outputs)
      input.consume(step.consumed)
      switch step.action {
      case .read:
        flags.insert(.sawClientInput)
        goesOn = false
      case .hold:
        goesOn = false
      case .forward(let count):
        forwardToUpstream(&input, count, worker)
        goesOn = !input.isEmpty && outputs.toUpstream.isEmpty
      case .end, .connect, .reconnect, .tunnel, .closeOtherWrite, .close:
        perform(step.action, worker)
        goesOn = !input.isEmpty && session.wantsClientBytes && outputs.toUpstream.isEmpty
      }
    }
    flushUpstream(worker)
  }

  /// The next `count` bytes of the input go to the upstream, behind what waits already.
  private func forwardToUpstream(_ input: inout ByteBuffer, _ count: Int, _ worker: Worker) {
    guard let upstream else { preconditionFailure("bytes for an upstream that is not there") }
    let head = outputs.toUpstream.count
    var sent = 0
    if session.keepsReplay { outputs.replay.append(input.bytes.extracting(0..<count)) }
    switch upstream.descriptor.write(outputs.toUpstream, then: input.bytes.extracting(0..<count)) {
    case .moved(let moved):
      outputs.toUpstream.consume(min(head, moved))
      sent = max(0, moved - head)
    case .wouldBlock: break
    case .ended, .failed:
      // Consumed first: what can be sent again stands in the replay, the rest is dropped.
      input.consume(count)
      session.clientForwarded(count, now: worker.now)
      perform(session.upstreamWriteFailed(&worker.workspace, &outputs), worker)
      return
    }
    if sent < count {
      worker.workspace.pool.lend(&outputs.toUpstream, count - sent)
      outputs.toUpstream.append(input.bytes.extracting(sent..<count))
    } else {
      worker.workspace.pool.reclaim(&outputs.toUpstream)
    }
    input.consume(count)
    session.clientForwarded(count, now: worker.now)
  }

  private func flushUpstream(_ worker: Worker) {
    guard let upstream, !outputs.toUpstream.isEmpty else { return }
    switch upstream.descriptor.write(outputs.toUpstream) {
    case .moved(let count):
      outputs.toUpstream.consume(count)
      session.progressed(now: worker.now)
    case .wouldBlock: return
    case .ended, .failed:
      perform(session.upstreamWriteFailed(&worker.workspace, &outputs), worker)
      return
    }
    if outputs.toUpstream.isEmpty { upstreamSent(worker) }
  }

  private func upstreamSent(_ worker: Worker) {
    worker.workspace.pool.reclaim(&outputs.toUpstream)
    if flags.contains(.closesUpstreamWrite), !(streams?.holdsRequest ?? false) {
      flags.remove(.closesUpstreamWrite)
      upstream?.descriptor.shutdownWrite()
    }
  }

  private func upstreamWritable(_ worker: Worker) {
    flushUpstream(worker)
    if outputs.toUpstream.isEmpty, streams?.holdsRequest ?? false { drainRequestPipe(worker) }
  }

  /// An event of a client whose bytes cannot be used now.
  private func clientUnreadable(_ readiness: Readiness, _ worker: Worker) {
    if readiness.isBroken {
      if ending == nil { perform(session.clientFailed(), worker) }
      giveUpSending(worker)
      return
    }
    if readiness.peerClosed, session.awaitsOnlyUpstream, ending == nil, !flags.contains(.clientHalfClosed) {
      flags.insert(.clientHalfClosed)
      perform(session.clientEnded(now: worker.now, &worker.workspace, &outputs), worker)
    }
    flags.insert(.clientUnwatched)
  }

  // MARK: The upstream's bytes

  private var canReadUpstream: Bool {
    ending == nil && !flags.contains(.upstreamEnded) && upstream != nil && outputs.toClient.isEmpty
      && !(streams?.holdsResponse ?? false)
  }

  private func readUpstream(_ worker: Worker) {
    if spliceResponse(worker) { return }
    guard let upstream else { return }
    // Behind the head of a long body the rest is better not copied: then little more than the head is read.
    let isAtHead = session.awaitsResponseHead
    let room = isAtHead && upstream.sendsLongBodies ? Self.headBytes : Worker.readBytes
    var input = takeInput(&upstreamInput, room, worker)
    switch upstream.descriptor.read(into: &input) {
    case .moved(let count):
      if count >= Self.bulkBytes { flags.insert(.responseIsBulk) }
      pumpUpstream(&input, worker)
      keepInput(&input, &upstreamInput, worker)
      if isAtHead {
        upstream.sendsLongBodies = UInt64(count) &+ session.unchangedResponseBytes >= Self.leastSplicedBytes
        if upstream.sendsLongBodies, self.upstream === upstream, canReadUpstream { _ = spliceResponse(worker) }
      }
    case .wouldBlock:
      keepInput(&input, &upstreamInput, worker)
    case .ended:
      keepInput(&input, &upstreamInput, worker)
      upstreamStreamEnded(broken: false, worker)
    case .failed:
      keepInput(&input, &upstreamInput, worker)
      upstreamStreamEnded(broken: true, worker)
    }
  }

  private func upstreamStreamEnded(broken: Bool, _ worker: Worker) {
    flags.insert(.upstreamEnded)
    let action = session.upstreamEnded(broken: broken, now: worker.now, &worker.workspace, &outputs)
    perform(action, otherIsUpstream: false, worker)
  }

  private func pumpUpstream(_ input: inout ByteBuffer, _ worker: Worker) {
    flags.remove(.sawUpstreamInput)
    var goesOn = true
    while goesOn, upstream != nil, ending == nil {
      let step = session.upstreamReceived(input.bytes, now: worker.now, &worker.workspace, &outputs)
      input.consume(step.consumed)
      switch step.action {
      case .read:
        goesOn = step.consumed > 0 && !input.isEmpty
        if !goesOn { flags.insert(.sawUpstreamInput) }
      case .hold:
        goesOn = false
      case .forward(let count):
        forwardToClient(&input, count, worker)
        if let action = session.endIfComplete() {
          finish(action, leaves: !input.isEmpty, worker)
          goesOn = false
        } else {
          goesOn = !input.isEmpty && outputs.toClient.isEmpty
        }
      case .end:
        finish(step.action, leaves: !input.isEmpty, worker)
        goesOn = false
      case .connect, .reconnect, .tunnel, .closeOtherWrite, .close:
        perform(step.action, worker)
        goesOn = !input.isEmpty && outputs.toClient.isEmpty
      }
    }
    // Nobody will ask for what is left of a response that is over.
    if upstream == nil { input.removeAll() }
    if ending == nil { flushClient(worker) }
  }

  private func forwardToClient(_ input: inout ByteBuffer, _ count: Int, _ worker: Worker) {
    let head = outputs.toClient.count
    var sent = 0
    switch descriptor.write(outputs.toClient, then: input.bytes.extracting(0..<count)) {
    case .moved(let moved):
      outputs.toClient.consume(min(head, moved))
      sent = max(0, moved - head)
    case .wouldBlock: break
    case .ended, .failed:
      perform(session.clientFailed(), worker)
      return
    }
    if sent < count {
      worker.workspace.pool.lend(&outputs.toClient, count - sent)
      outputs.toClient.append(input.bytes.extracting(sent..<count))
    } else {
      worker.workspace.pool.reclaim(&outputs.toClient)
    }
    input.consume(count)
    session.upstreamForwarded(count, now: worker.now)
  }

  private func flushClient(_ worker: Worker) {
    if flags.contains(.closed) { return }
    if !outputs.toClient.isEmpty {
      switch descriptor.write(outputs.toClient) {
      case .moved(let count):
        outputs.toClient.consume(count)
        session.progressed(now: worker.now)
      case .wouldBlock: return
      case .ended, .failed:
        if ending == nil { perform(session.clientFailed(), worker) }
        giveUpSending(worker)
        return
      }
    }
    if outputs.toClient.isEmpty { clientSent(worker) }
  }

  private func clientSent(_ worker: Worker) {
    worker.workspace.pool.reclaim(&outputs.toClient)
    if streams?.holdsResponse ?? false { return }
    if flags.contains(.closesClientWrite) {
      flags.remove(.closesClientWrite)
      descriptor.shutdownWrite()
    }
    if let ending { complete(ending, worker) }
  }

  private func clientWritable(_ worker: Worker) {
    flushClient(worker)
    if outputs.toClient.isEmpty, streams?.holdsResponse ?? false { drainResponsePipe(worker) }
  }

  // MARK: Actions

  private func perform(_ action: Action, otherIsUpstream: Bool = true, _ worker: Worker) {
    switch action {
    case .read, .hold: break
    case .forward: preconditionFailure("bytes can only be forwarded where they were read")
    case .connect: connect(fresh: false, worker)
    case .reconnect:
      dropUpstream(worker)
      connect(fresh: true, worker)
    case .tunnel: flushClient(worker)
    case .closeOtherWrite:
      flags.insert(otherIsUpstream ? .closesUpstreamWrite : .closesClientWrite)
      if otherIsUpstream {
        if outputs.toUpstream.isEmpty { upstreamSent(worker) }
      } else {
        flushClient(worker)
      }
    case .end: finish(action, leaves: false, worker)
    case .close: close(worker)
    }
  }

  private func connect(fresh: Bool, _ worker: Worker) {
    let destination = self.destination ?? worker.acquireDestination(port: session.port)
    self.destination = destination
    let rule = session.record.decision?.rule
    if !fresh, !session.isTunnel,
      let kept = worker.takeIdle(destination, rule: rule, session.policy, mustBeSilent: !session.mayRetry)
    {
      attach(kept, reused: true, worker)
      return
    }
    let connector = Connector(destination, for: self, rule: rule, session.policy, worker)
    self.connector = connector
    connector.start(worker)
  }

  private func attach(_ upstream: Upstream, reused: Bool, _ worker: Worker) {
    upstream.owner = self
    self.upstream = upstream
    flags.remove([.upstreamEnded, .upstreamUnwatched, .upstreamBroken, .sawUpstreamInput])
    let action = session.upstreamOpened(
      reused: reused, address: IPAddress(upstream.address), port: upstream.address.port, now: worker.now,
      &worker.workspace, &outputs)
    perform(action, worker)
  }

  /// Lets go of a connection that is of no use any more.
  private func dropUpstream(_ worker: Worker) {
    if let upstream { worker.close(upstream) }
    upstream = nil
    worker.workspace.pool.reclaim(&upstreamInput)
  }

  /// The exchange is over: parts with the upstream, and with the client once it has everything.
  private func finish(_ action: Action, leaves: Bool, _ worker: Worker) {
    guard case .end(let ending) = action else { return perform(action, worker) }
    connector?.cancel(worker)
    connector = nil
    if let upstream {
      let isClean =
        ending.keepsUpstream && !leaves && upstreamInput.isEmpty && outputs.toUpstream.isEmpty
        && !flags.contains(.upstreamEnded) && !flags.contains(.upstreamBroken)
      if isClean { worker.keep(upstream) } else { worker.close(upstream) }
      self.upstream = nil
    }
    if let destination { worker.releaseDestination(destination) }
    destination = nil
    worker.workspace.pool.reclaim(&outputs.toUpstream)
    worker.workspace.pool.reclaim(&outputs.replay)
    worker.workspace.pool.reclaim(&upstreamInput)
    streams?.abandonRequest(&worker.pipes)
    if ending.client == .abort {
      outputs.toClient.removeAll()
      streams?.abandonResponse(&worker.pipes)
    }
    self.ending = ending
    flushClient(worker)
  }

  /// Everything has been sent.
  private func complete(_ ending: Ending, _ worker: Worker) {
    self.ending = nil
    log(worker)
    worker.workspace.pool.reclaim(&outputs.text)
    streams?.abandon(&worker.pipes)
    let keeps = ending.client == .keep && (!flags.contains(.clientEnded) || !clientInput.isEmpty)
    session.reset(now: worker.now, keeps: keeps)
    flags.remove([.sawClientInput, .clientHalfClosed, .closesClientWrite, .closesUpstreamWrite])
    switch ending.client {
    case .keep:
      if !keeps { close(worker) }
    case .close:
      close(worker)
    case .linger:
      worker.workspace.pool.reclaim(&clientInput)
      descriptor.shutdownWrite()
      if flags.contains(.clientEnded) { close(worker) }
    case .abort:
      descriptor.resetOnClose()
      close(worker)
    }
  }

  /// The rest of an answer cannot be delivered.
  private func giveUpSending(_ worker: Worker) {
    guard let ending else { return }
    outputs.toClient.removeAll()
    streams?.abandonResponse(&worker.pipes)
    complete(Ending(client: .abort, keepsUpstream: ending.keepsUpstream), worker)
  }

  private func log(_ worker: Worker) {
    let policy = session.policy
    guard policy.configuration.log.access else { return }
    AccessLine(
      record: session.record, policy: policy, client: peer, totalMilliseconds: worker.now - session.record.begun
    ).write(worker.shared.log.format, text: outputs.text, to: &worker.logLines)
  }

  func close(_ worker: Worker) {
    if flags.contains(.closed) { return }
    flags.insert(.closed)
    connector?.cancel(worker)
    connector = nil
    dropUpstream(worker)
    if let destination { worker.releaseDestination(destination) }
    destination = nil
    streams?.abandon(&worker.pipes)
    streams = nil
    worker.workspace.pool.reclaim(&clientInput)
    worker.workspace.pool.reclaim(&outputs.toClient)
    worker.workspace.pool.reclaim(&outputs.toUpstream)
    worker.workspace.pool.reclaim(&outputs.replay)
    worker.workspace.pool.reclaim(&outputs.text)
    descriptor.close()
    worker.clientClosed(slot)
  }

  // MARK: After every event

  private var deadline: Int64 { session.deadline }

  /// Goes on with bytes that waited, then says what the poller and the timers are to watch.
  func settle(_ worker: Worker) {
    while !flags.contains(.closed) {
      if !clientInput.isEmpty, !flags.contains(.sawClientInput), ending == nil, session.wantsClientBytes,
        outputs.toUpstream.isEmpty
      {
        var input = ByteBuffer()
        swap(&input, &clientInput)
        pumpClient(&input, worker)
        keepInput(&input, &clientInput, worker)
      } else if !upstreamInput.isEmpty, !flags.contains(.sawUpstreamInput), canReadUpstream {
        var input = ByteBuffer()
        swap(&input, &upstreamInput)
        pumpUpstream(&input, worker)
        keepInput(&input, &upstreamInput, worker)
      } else {
        break
      }
    }
    if flags.contains(.closed) { return }
    watchClient(worker)
    watchUpstream(worker)
    worker.timers.set(slot, deadline)
  }

  private func watchClient(_ worker: Worker) {
    if canReadClient { flags.remove(.clientUnwatched) }
    var wanted: Interest = []
    if flags.contains(.clientEnded) {
      wanted = []
    } else if !flags.contains(.clientUnwatched) {
      wanted = .read
    } else if session.awaitsOnlyUpstream, !flags.contains(.clientHalfClosed) {
      wanted = .peerClosed
    }
    if !outputs.toClient.isEmpty || streams?.holdsResponse ?? false { wanted.insert(.write) }
    worker.update(descriptor, &interest, wanted, slot)
  }

  private func watchUpstream(_ worker: Worker) {
    guard let upstream else { return }
    if canReadUpstream { flags.remove([.upstreamUnwatched, .upstreamBroken]) }
    var wanted: Interest? = []
    if flags.contains(.upstreamBroken) {
      wanted = nil
    } else if !flags.contains(.upstreamEnded), !flags.contains(.upstreamUnwatched) {
      wanted = .read
    }
    if !outputs.toUpstream.isEmpty || streams?.holdsRequest ?? false { wanted?.insert(.write) }
    worker.update(upstream.descriptor, &upstream.interest, wanted, upstream.slot)
  }

  // MARK: Input buffers

  private func takeInput(_ kept: inout ByteBuffer, _ room: Int, _ worker: Worker) -> ByteBuffer {
    if kept.isEmpty { return worker.workspace.pool.take(room) }
    var input = ByteBuffer()
    swap(&input, &kept)
    if input.tailRoom < Self.leastReadBytes { input.reserve(max(Self.leastReadBytes, input.count)) }
    return input
  }

  /// Keeps what is left in a block of fitting size.
  private func keepInput(_ input: inout ByteBuffer, _ kept: inout ByteBuffer, _ worker: Worker) {
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

  // MARK: Bytes that move without being copied

  /// How many bytes of content, at least, are still to come when it pays to move them through a pipe: below, one or two
  /// reads into the loop's block are cheaper than three system calls and a pipe.
  private static let leastSplicedBytes: UInt64 = 32 << 10
  /// What is read at first of a response that is expected to be long: the head, and little of the body.
  private static let headBytes = 4 << 10
  /// A read of a tunnel that brings this much shows a bulk transfer; a move of less than a fraction of it, its end.
  private static let bulkBytes = 64 << 10
  private static let trickleBytes = 8 << 10

  /// Moves a long body, or the bulk of a tunnel, from the upstream through a pipe. false: it is to be copied.
  private func spliceResponse(_ worker: Worker) -> Bool {
    guard let upstream, upstreamInput.isEmpty, outputs.toClient.isEmpty else { return false }
    let remaining: UInt64
    if session.isInTunnel {
      guard flags.contains(.responseIsBulk) else { return false }
      remaining = .max
    } else {
      remaining = session.unchangedResponseBytes
      guard remaining >= Self.leastSplicedBytes || streams?.responsePipe != nil && remaining > 0 else { return false }
    }
    guard let pipe = openStreams().takeResponsePipe(&worker.pipes) else { return false }
    let wanted = Int(min(remaining, UInt64(pipe.capacity)))
    switch upstream.descriptor.splice(to: pipe.writeEnd, count: wanted, more: false) {
    case .moved(let count):
      if session.isInTunnel, count < Self.trickleBytes { flags.remove(.responseIsBulk) }
      streams?.responseBytes = count
      drainResponsePipe(worker)
    case .wouldBlock: break
    case .ended: upstreamStreamEnded(broken: false, worker)
    case .failed: upstreamStreamEnded(broken: true, worker)
    }
    return true
  }

  private func drainResponsePipe(_ worker: Worker) {
    guard let streams, let pipe = streams.responsePipe, streams.holdsResponse else { return }
    switch pipe.readEnd.splice(to: descriptor, count: streams.responseBytes, more: false) {
    case .moved(let count):
      streams.responseBytes -= count
      session.upstreamForwarded(count, now: worker.now)
    case .wouldBlock: return
    case .ended, .failed:
      perform(session.clientFailed(), worker)
      return
    }
    if streams.holdsResponse { return }
    if session.isInTunnel, !flags.contains(.responseIsBulk) { streams.abandonResponse(&worker.pipes) }
    if let action = session.endIfComplete() {
      finish(action, leaves: false, worker)
    } else {
      clientSent(worker)
    }
  }

  /// As `spliceResponse`, the other way.
  private func spliceRequest(_ worker: Worker) -> Bool {
    guard upstream != nil, clientInput.isEmpty, outputs.toUpstream.isEmpty else { return false }
    let remaining: UInt64
    if session.isInTunnel {
      guard flags.contains(.requestIsBulk) else { return false }
      remaining = .max
    } else {
      remaining = session.unchangedRequestBytes
      guard remaining >= Self.leastSplicedBytes || streams?.requestPipe != nil && remaining > 0 else { return false }
    }
    guard let pipe = openStreams().takeRequestPipe(&worker.pipes) else { return false }
    let wanted = Int(min(remaining, UInt64(pipe.capacity)))
    switch descriptor.splice(to: pipe.writeEnd, count: wanted, more: false) {
    case .moved(let count):
      if session.isInTunnel, count < Self.trickleBytes { flags.remove(.requestIsBulk) }
      streams?.requestBytes = count
      drainRequestPipe(worker)
    case .wouldBlock: break
    case .ended: clientStreamEnded(worker)
    case .failed: perform(session.clientFailed(), worker)
    }
    return true
  }

  private func drainRequestPipe(_ worker: Worker) {
    guard let upstream, let streams, let pipe = streams.requestPipe, streams.holdsRequest else { return }
    switch pipe.readEnd.splice(to: upstream.descriptor, count: streams.requestBytes, more: false) {
    case .moved(let count):
      streams.requestBytes -= count
      session.clientForwarded(count, now: worker.now)
    case .wouldBlock: return
    case .ended, .failed:
      // The bytes in the pipe are lost to the upstream, and count as dropped.
      session.clientForwarded(streams.requestBytes, now: worker.now)
      streams.abandonRequest(&worker.pipes)
      perform(session.upstreamWriteFailed(&worker.workspace, &outputs), worker)
      return
    }
    if streams.holdsRequest { return }
    // An idle tunnel keeps no pipe.
    if session.isInTunnel, !flags.contains(.requestIsBulk) { streams.abandonRequest(&worker.pipes) }
    upstreamSent(worker)
  }

  private func openStreams() -> SplicedStreams {
    if let streams { return streams }
    let opened = SplicedStreams()
    streams = opened
    return opened
  }
}

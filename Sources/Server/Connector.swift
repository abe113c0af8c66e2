// Finds an upstream for one exchange: a place where connections to a host are counted, name, addresses, a race of
// connections (RFC 8305, "Happy Eyeballs"), and TLS where the destination is under it.
//
// Each address is held against `deny_addresses` and against the proxy's own listeners before anything is sent to it, and
// the address that was judged is the address that is connected to.

import Policy
import Security
import Session
import Transport

final class Connector {
  /// RFC 8305, 5: the next address is tried when the one before it has not answered for this long.
  static let attemptDelayMilliseconds: Int64 = 250
  /// Addresses of one name that are tried, so that a name with hundreds cannot make the proxy knock at all of them.
  static let longestCandidates = 16

  private struct Attempt {
    let slot: Int
    let descriptor: Descriptor
    let address: SocketAddress
  }

  let destination: Destination
  /// Has the timer of the whole.
  let slot: Int
  private var conversation: Conversation?
  private let policy: Policy
  private let rule: Int?
  private let begunAt: Int64
  private var connectBegunAt: Int64 = 0
  private var deadline: Int64 = .max
  private var timerDue: Int64 = .max
  private var candidates: [SocketAddress] = []
  private var next = 0
  private var attempts: [Attempt] = []
  private var lastError: SystemError? = nil
  private var hasPlace = false
  private var waits = false
  /// A connection that another exchange gave up for this one.
  var reserved: Upstream? = nil
  private var handshake: (attempt: Attempt, tls: OriginHandshake, interest: Interest?, begunAt: Int64)? = nil
  private let needsFresh: Bool
  /// What the packets of the connection are marked with.
  private let codePoint: UInt8
  /// By what the destination of a tunnel is to be verified before it is opened.
  private let verification: OriginSecurity?
  /// The probe that is waited for; `attempt` nil: it was given this connector's own connection.
  private var probing:
    (attempt: Attempt?, address: SocketAddress, probe: TunnelProbe, interest: Interest?, begunAt: Int64)? = nil
  private var isVerified = false

  /// `fresh`: no kept connection will do.
  init(
    _ destination: Destination, for conversation: Conversation, rule: Int?, fresh: Bool,
    verifying verification: OriginSecurity?, _ policy: Policy, _ worker: Worker
  ) {
    self.verification = verification
    codePoint = (rule.map { policy.rules[$0].request } ?? policy.defaultRequest).serviceType.codePoint
    self.destination = destination
    self.conversation = conversation
    self.policy = policy
    self.rule = rule
    needsFresh = fresh
    begunAt = worker.now
    slot = worker.occupy(.free)
    worker.reoccupy(slot, .connector(self))
  }

  // MARK: A place

  /// Begins. The outcome may come before this returns.
  func start(_ worker: Worker) {
    guard policy.configuration.limits.connectionsPerHost > 0 else { return lookUp(worker) }
    enter(worker, first: false)
  }

  private func enter(_ worker: Worker, first: Bool) {
    if worker.shared.quota.enter(destination.place, waiter(worker), first: first) {
      hasPlace = true
      return lookUp(worker)
    }
    waits = true
    timerDue = worker.now + policy.configuration.timeouts.responseHeaderMilliseconds
    deadline = timerDue
    worker.timers.set(slot, timerDue)
    // Kept connections that nobody uses give way. Those that are kept later see who waits.
    for mailbox in worker.shared.mailboxes { mailbox.post(.yieldIdle(destination.place)) }
  }

  private func waiter(_ worker: Worker) -> ConnectionQuota.Waiter {
    ConnectionQuota.Waiter(worker: worker.index, slot: slot, generation: worker.generation(slot))
  }

  /// Whether a connection that has become free serves this exchange.
  func canUse(_ upstream: Upstream) -> Bool {
    !needsFresh && upstream.destination === destination
      && policy.denyingBlock(IPAddress(upstream.address), rule: rule) == nil
  }

  private func mayRely(_ worker: Worker) -> Bool { destination.security?.mayRely(at: worker.seconds) ?? true }

  /// The turn has come: a place, or a connection with its place.
  func placeGranted(_ worker: Worker) {
    settling(worker) {
      waits = false
      timerDue = .max
      worker.timers.set(slot, .max)
      guard let upstream = reserved else {
        hasPlace = true
        return lookUp(worker)
      }
      reserved = nil
      upstream.isReserved = false
      if upstream.isClosed {
        hasPlace = true
        return lookUp(worker)
      }
      if !mayRely(worker) {
        worker.close(upstream, leavesPlace: false)
        hasPlace = true
        return lookUp(worker)
      }
      guard let conversation else { return worker.keep(upstream) }
      cancel(worker)
      conversation.handedOver(upstream, worker)
    }
  }

  // MARK: Name

  private func lookUp(_ worker: Worker) {
    if let literal = destination.literal {
      connect([SocketAddress(literal, port: destination.port)], worker)
    } else if destination.validUntil > worker.now {
      connect(destination.addresses, worker)
    } else {
      let slot = self.slot
      let generation = worker.generation(slot)
      let mailbox = worker.shared.mailboxes[worker.index]
      worker.shared.resolver.lookUp(destination.name) {
        mailbox.post(.resolved(slot: slot, generation: generation, $0))
      }
    }
  }

  func resolved(_ answer: NameAnswer, _ worker: Worker) {
    settling(worker) { take(answer, worker) }
  }

  func attemptReady(_ attemptSlot: Int, _ worker: Worker) {
    settling(worker) { finishAttempt(attemptSlot, worker) }
  }

  func timerFired(_ worker: Worker) {
    settling(worker) { passTime(worker) }
  }

  /// An event of its own: afterwards the conversation looks at what it has to do next.
  private func settling(_ worker: Worker, _ body: () -> Void) {
    let conversation = self.conversation
    body()
    conversation?.settle(worker)
  }

  private func take(_ answer: NameAnswer, _ worker: Worker) {
    conversation?.noteNameTime(worker.now - begunAt)
    switch answer {
    case .addresses(let addresses, let valid):
      destination.addresses = addresses
      destination.validUntil = worker.now + valid
      connect(addresses, worker)
    case .notFound:
      fail(.nameNotFound, "\(destination.name) does not exist, or has no address.", worker)
    case .failed(let why):
      fail(.nameFailed, "\(destination.name) could not be looked up: \(why).", worker)
    case .timedOut:
      let limit = policy.configuration.dns.timeoutMilliseconds
      fail(.nameTimeout, "No name server answered for \(destination.name) within \(limit) ms.", worker)
    }
  }

  // MARK: Connections

  private func connect(_ addresses: [SocketAddress], _ worker: Worker) {
    connectBegunAt = worker.now
    deadline = worker.now + policy.configuration.timeouts.connectMilliseconds
    var denied: String? = nil
    for address in addresses.prefix(Self.longestCandidates) {
      let candidate = address.with(port: destination.port)
      let ip = IPAddress(candidate)
      if let block = policy.denyingBlock(ip, rule: rule) {
        denied = "\(destination.name) is at \(ip), which is in \(block), which deny_addresses lists."
      } else if isOwnListener(candidate, worker) {
        return fail(.loop, "\(destination.name) port \(destination.port) is this proxy itself.", worker)
      } else {
        candidates.append(candidate)
      }
    }
    if candidates.isEmpty {
      return fail(.addressDenied, denied ?? "\(destination.name) has no address.", worker)
    }
    attemptNext(worker)
  }

  /// A listener on all addresses is met on any address of this machine; loopback is known, others show when connected.
  private func isOwnListener(_ candidate: SocketAddress, _ worker: Worker) -> Bool {
    let ip = IPAddress(candidate).embeddedIPv4 ?? IPAddress(candidate)
    for listener in worker.shared.listenAddresses where listener.port == candidate.port {
      let own = IPAddress(listener)
      if own == ip || (own.isUnspecified && (ip.isLoopback || ip.isUnspecified)) || (ip.isUnspecified && own.isLoopback)
      {
        return true
      }
    }
    return false
  }

  private func isOwnMachine(_ descriptor: Descriptor, _ address: SocketAddress, _ worker: Worker) -> Bool {
    guard
      worker.shared.listenAddresses.contains(where: { $0.port == address.port && IPAddress($0).isUnspecified }),
      let local = descriptor.localAddress
    else { return false }
    return IPAddress(local) == IPAddress(address)
  }

  private func attemptNext(_ worker: Worker) {
    while next < candidates.count {
      let address = candidates[next]
      next += 1
      switch Outgoing.open(address, codePoint: codePoint) {
      case .failure(let error):
        lastError = error
        if error.isExhaustion, worker.closeIdleUpstreams() { next -= 1 }
      case .success(let outgoing):
        let slot = worker.occupy(.attempt(self))
        let attempt = Attempt(slot: slot, descriptor: outgoing.descriptor, address: address)
        guard worker.register(outgoing.descriptor, outgoing.isConnected ? .read : .write, slot) else {
          outgoing.descriptor.close()
          worker.vacate(slot)
          lastError = SystemError.noMemory
          continue
        }
        if outgoing.isConnected { return won(attempt, interest: .read, worker) }
        attempts.append(attempt)
        armTimer(worker)
        return
      }
    }
    if attempts.isEmpty { failWithLastError(worker) } else { armTimer(worker) }
  }

  private func armTimer(_ worker: Worker) {
    timerDue = min(deadline, next < candidates.count ? worker.now + Self.attemptDelayMilliseconds : .max)
    worker.timers.set(slot, timerDue)
  }

  private func finishAttempt(_ attemptSlot: Int, _ worker: Worker) {
    if handshake?.attempt.slot == attemptSlot { return proceed(worker) }
    // What the server says before the tunnel is granted waits.
    if let attempt = probing?.attempt, attempt.slot == attemptSlot { return unwatch(attempt, worker) }
    guard let index = attempts.firstIndex(where: { $0.slot == attemptSlot }) else { return }
    let attempt = attempts.remove(at: index)
    let error = attempt.descriptor.connectError
    if error == 0 { return won(attempt, interest: .write, worker) }
    lastError = SystemError(error)
    attempt.descriptor.close()
    worker.vacate(attempt.slot)
    attemptNext(worker)
  }

  private func passTime(_ worker: Worker) {
    // The timer of whoever had the slot before, taken from the wheel in the same turn.
    if worker.now < timerDue { return }
    if waits {
      let limit = policy.configuration.limits.connectionsPerHost
      let time = policy.configuration.timeouts.responseHeaderMilliseconds
      fail(
        .hostBusy,
        "\(destination.name) has \(limit) connections, as many as connections_per_host allows, and none came free in \(time) ms.",
        worker)
    } else if handshake != nil {
      let limit = policy.configuration.timeouts.tlsHandshakeMilliseconds
      fail(
        .tlsTimeout,
        "\(destination.name) port \(destination.port) did not finish the TLS handshake within \(limit) ms.", worker)
    } else if worker.now >= deadline {
      let limit = policy.configuration.timeouts.connectMilliseconds
      fail(
        .connectionTimeout, "\(destination.name) port \(destination.port) did not answer within \(limit) ms.", worker)
    } else {
      attemptNext(worker)
    }
  }

  private func won(_ attempt: Attempt, interest: Interest, _ worker: Worker) {
    guard let conversation else { return }
    if isOwnMachine(attempt.descriptor, attempt.address, worker) {
      attempt.descriptor.close()
      worker.vacate(attempt.slot)
      return fail(.loop, "\(destination.name) port \(destination.port) is this proxy itself.", worker)
    }
    if !isVerified { conversation.noteConnectTime(worker.now - connectBegunAt) }
    if let verification, !isVerified { return probe(verification, attempt, interest: interest, worker) }
    guard let security = destination.security else {
      return deliver(ByteStream(attempt.descriptor), attempt, interest: interest, worker)
    }
    begin(security, attempt, interest: interest, worker)
  }

  private func deliver(
    _ stream: ByteStream, _ attempt: Attempt, interest: Interest?, after tls: OriginHandshake? = nil, _ worker: Worker
  ) {
    guard let conversation else { return }
    let upstream = worker.adopt(stream, slot: attempt.slot, address: attempt.address, destination)
    upstream.interest = interest
    worker.update(upstream.descriptor, &upstream.interest, .read, upstream.slot)
    upstream.holdsPlace = hasPlace
    upstream.report = tls?.report.map { Problem.Kind($0.kind) }
    upstream.isForgiven = tls?.isForgiven ?? false
    hasPlace = false
    cancel(worker)
    conversation.connected(upstream, worker)
  }

  // MARK: Probe

  private func probe(_ security: OriginSecurity, _ attempt: Attempt, interest: Interest, _ worker: Worker) {
    abandonAttempts(worker)
    next = candidates.count
    let key = ProbeKey(
      host: destination.host, port: destination.port, address: attempt.address, security: ObjectIdentifier(security))
    if worker.probes.isTrusted(key, now: worker.now, seconds: worker.seconds) {
      return deliver(ByteStream(attempt.descriptor), attempt, interest: interest, worker)
    }
    timerDue = .max
    worker.timers.set(slot, .max)
    if let running = worker.probes.running(key) {
      probing = (attempt, attempt.address, running, interest, worker.now)
      running.join(self)
    } else {
      let limit = policy.configuration.timeouts.tlsHandshakeMilliseconds
      let started = TunnelProbe(key, security, destination, handshakeMilliseconds: limit)
      probing = (nil, attempt.address, started, nil, worker.now)
      worker.statistics.handshakes += 1
      started.start(for: self, over: attempt.descriptor, slot: attempt.slot, interest: interest, worker)
    }
  }

  /// The probe that this connector waits for is over.
  func probed(_ outcome: TunnelProbe.Outcome, _ worker: Worker) {
    settling(worker) {
      guard let (attempt, address, _, interest, begunAt) = probing else { return }
      conversation?.noteTLSTime(worker.now - begunAt)
      switch outcome {
      case .abandoned: return
      case .failed(let failure):
        if verification?.enforces ?? true { return fail(failure, worker) }
        conversation?.report(failure.problem.kind, failure.problem.detail, isForgiven: true, worker)
      case .seen(let report?, let isForgiven):
        conversation?.report(
          Problem.Kind(report.kind), "\(destination.name): \(report.detail)", isForgiven: isForgiven, worker)
      case .seen(nil, _): break
      }
      probing = nil
      isVerified = true
      if let attempt { return deliver(ByteStream(attempt.descriptor), attempt, interest: interest, worker) }
      // The verdict is about this address, and the tunnel goes to no other.
      candidates = [address]
      next = 0
      deadline = worker.now + policy.configuration.timeouts.connectMilliseconds
      attemptNext(worker)
    }
  }

  // MARK: TLS

  private func begin(_ security: OriginSecurity, _ attempt: Attempt, interest: Interest?, _ worker: Worker) {
    abandonAttempts(worker)
    next = candidates.count
    let seconds = worker.seconds
    let session = security.mayRely(at: seconds) ? worker.sessions.take(for: destination, now: worker.now) : nil
    guard let tls = OriginHandshake.begin(attempt.descriptor, to: destination, security, resuming: session, worker)
    else {
      attempt.descriptor.close()
      worker.vacate(attempt.slot)
      return fail(.tlsFailed, "\(destination.name) port \(destination.port): no TLS connection could be made.", worker)
    }
    handshake = (attempt, tls, interest, worker.now)
    timerDue = worker.now + policy.configuration.timeouts.tlsHandshakeMilliseconds
    worker.timers.set(slot, timerDue)
    proceed(worker)
  }

  private func proceed(_ worker: Worker) {
    guard let (attempt, tls, _, begunAt) = handshake else { return }
    switch tls.proceed() {
    case .wants(let wanted):
      worker.update(attempt.descriptor, &handshake!.interest, wanted, attempt.slot)
    case .failed(let failure):
      worker.sessions.forget(destination)
      fail(failure, worker)
    case .done:
      let interest = handshake?.interest
      handshake = nil
      if tls.stream.isResumed { worker.statistics.resumptions += 1 } else { worker.statistics.handshakes += 1 }
      conversation?.noteTLSTime(worker.now - begunAt)
      if let report = tls.report {
        conversation?.report(
          Problem.Kind(report.kind), "\(destination.name): \(report.detail)", isForgiven: tls.isForgiven, worker)
      }
      deliver(ByteStream(attempt.descriptor, tls: tls.stream), attempt, interest: interest, after: tls, worker)
    }
  }

  private func failWithLastError(_ worker: Worker) {
    let place = "\(destination.name) port \(destination.port)"
    guard let lastError else { return fail(.connectionFailed, "\(place) has no address to connect to.", worker) }
    if lastError.isRefusal {
      fail(.connectionRefused, "\(place) refused the connection.", worker)
    } else if lastError.isTimeout {
      fail(.connectionTimeout, "\(place) did not answer.", worker)
    } else if lastError.isUnreachable {
      fail(.notReachable, "\(place): \(lastError).", worker)
    } else {
      fail(.connectionFailed, "\(place): \(lastError).", worker)
    }
  }

  private func fail(_ kind: Problem.Kind, _ detail: String, _ worker: Worker) {
    fail(UpstreamFailure(kind, detail), worker)
  }

  private func fail(_ failure: UpstreamFailure, _ worker: Worker) {
    guard let conversation else { return }
    cancel(worker)
    conversation.connectFailed(failure, worker)
  }

  /// Gives up what is under way; nobody is told.
  func cancel(_ worker: Worker) {
    abandonAttempts(worker)
    if let handshake {
      handshake.attempt.descriptor.close()
      worker.vacate(handshake.attempt.slot)
    }
    handshake = nil
    if let probing {
      probing.probe.abandon(self, worker)
      if let attempt = probing.attempt {
        attempt.descriptor.close()
        worker.vacate(attempt.slot)
      }
    }
    probing = nil
    if hasPlace { worker.shared.quota.leave(destination.place) }
    hasPlace = false
    if waits { worker.shared.quota.abandon(destination.place, waiter(worker)) }
    waits = false
    if let reserved {
      self.reserved = nil
      // Closed, its place is the waiter's, which is leaving.
      if reserved.isClosed { worker.shared.quota.leave(destination.place) } else { worker.keep(reserved) }
    }
    if conversation != nil {
      conversation = nil
      worker.vacate(slot)
    }
  }

  private func unwatch(_ attempt: Attempt, _ worker: Worker) {
    guard probing?.interest != nil else { return }
    worker.update(attempt.descriptor, &probing!.interest, nil, attempt.slot)
  }

  private func abandonAttempts(_ worker: Worker) {
    for attempt in attempts {
      attempt.descriptor.close()
      worker.vacate(attempt.slot)
    }
    attempts = []
  }
}

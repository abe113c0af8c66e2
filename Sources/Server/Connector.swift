// Finds an upstream for one exchange: name, addresses, and a race of connections (RFC 8305, "Happy Eyeballs").
//
// Each address is held against `deny_addresses` and against the proxy's own listeners before anything is sent to it, and
// the address that was judged is the address that is connected to.

import Policy
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

  init(_ destination: Destination, for conversation: Conversation, rule: Int?, _ policy: Policy, _ worker: Worker) {
    self.destination = destination
    self.conversation = conversation
    self.policy = policy
    self.rule = rule
    begunAt = worker.now
    slot = worker.occupy(.free)
    worker.reoccupy(slot, .connector(self))
  }

  // MARK: Name

  /// Begins. The outcome may come before this returns.
  func start(_ worker: Worker) {
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
      switch Outgoing.open(address) {
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
    if worker.now >= deadline {
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
    let upstream = worker.adopt(attempt.descriptor, slot: attempt.slot, address: attempt.address, destination)
    upstream.interest = interest
    worker.update(upstream.descriptor, &upstream.interest, .read, upstream.slot)
    cancel(worker)
    conversation.connected(upstream, connectMilliseconds: worker.now - connectBegunAt, worker)
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
    guard let conversation else { return }
    cancel(worker)
    conversation.connectFailed(UpstreamFailure(kind, detail), worker)
  }

  /// Gives up what is under way; nobody is told.
  func cancel(_ worker: Worker) {
    for attempt in attempts {
      attempt.descriptor.close()
      worker.vacate(attempt.slot)
    }
    attempts = []
    if conversation != nil {
      conversation = nil
      worker.vacate(slot)
    }
  }
}

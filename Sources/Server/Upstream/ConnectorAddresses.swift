// The part of a connector that finds addresses: it resolves the name, and decides for each address whether it may be
// connected to and by which path.

import Bytes
import Policy
import Reachability
import Session
import Transport

extension Connector {
  // MARK: Name

  func lookUp(_ worker: Worker) {
    begunAt = worker.workspace.turnMicroseconds
    if let literal = target.literal {
      connect([SocketAddress(literal, port: target.port)], worker)
    } else if target.validUntil > worker.now {
      connect(target.addresses, worker)
    } else {
      guard let conversation else { return }
      let client = conversation.knownIdentity(worker)
      if conversation.client.hasLeft { return conversation.endLeft(worker) }
      stage = .naming
      let slot = self.slot
      let generation = worker.generation(slot)
      let mailbox = worker.shared.mailboxes[worker.index]
      lookUp = worker.shared.resolver.lookUp(target.name, for: client) {
        mailbox.post(.resolved(slot: slot, generation: generation, $0))
      }
    }
  }

  func resolved(_ answer: NameAnswer, _ worker: Worker) {
    settling(worker) { if case .naming = stage { take(answer, worker) } }
  }

  private func take(_ answer: NameAnswer, _ worker: Worker) {
    stage = .idle
    lookUp = nil
    conversation?.noteNameTime(worker.workspace.turnMicroseconds - begunAt)
    let name = target.name
    // Without a network there is no resolver to ask, so this says nothing about the name.
    let cause: Cause = worker.network.status == .notReachable ? .unusable : .failed
    switch answer {
    case .addresses(let addresses, let valid):
      target.addresses = addresses
      target.validUntil = worker.now + valid
      connect(addresses, worker)
    case .notFound:
      routeFailed(UpstreamFailure(.nameNotFound, "\(name) does not exist, or has no address."), .failed, on: worker)
    case .failed(let why):
      let detail = "\(name) could not be looked up: \(why)."
      routeFailed(UpstreamFailure(.nameFailed, detail), cause, on: worker)
    case .timedOut:
      let limit = policy.configuration.dns.timeoutMilliseconds
      let detail = "No name server answered for \(name) within \(limit) ms."
      routeFailed(UpstreamFailure(.nameTimeout, detail), cause, on: worker)
    }
  }

  // MARK: Connections

  private func connect(_ addresses: [SocketAddress], _ worker: Worker) {
    var candidates: [Candidate] = []
    var refusal: (failure: UpstreamFailure, cause: Cause)? = nil
    for address in addresses.prefix(ConnectionRace.longestCandidates) {
      let candidate = address.with(port: target.port)
      let path = worker.network.path(to: IPAddress(candidate), by: route.route.interface)
      if route.parent == nil, let match = denial(of: candidate, by: path, worker) {
        let detail = "\(target.name) is at \(IPAddress(candidate)), which \(match.sentence)."
        refusal = (UpstreamFailure(.addressDenied, detail), .final)
      } else if let dashboard = worker.shared.dashboard.withLock({ $0 }), Self.reaches(dashboard, candidate) {
        let detail = "\(place) is this proxy's dashboard, which is not reached through the proxy."
        return routeFailed(UpstreamFailure(.addressDenied, detail), .final, on: worker)
      } else if worker.shared.listenAddresses.contains(where: { Self.reaches($0, candidate) }) {
        return routeFailed(UpstreamFailure(.loop, "\(place) is this proxy itself."), .final, on: worker)
      } else {
        if let failure = unusable(path, IPAddress(candidate)) {
          if refusal?.cause != .final { refusal = (failure, .unusable) }
        } else {
          candidates.append(Candidate(address: candidate, path: path))
        }
      }
    }
    if candidates.isEmpty {
      let (failure, cause) = refusal ?? (UpstreamFailure(.nameNotFound, "\(target.name) has no address."), .failed)
      return routeFailed(failure, cause, on: worker)
    }
    race(candidates, worker)
  }

  func race(_ candidates: [Candidate], _ worker: Worker) {
    var race = ConnectionRace(
      candidates, ConnectionRace.Manner(codePoint: codePoint, interface: route.route.interface), at: worker.now,
      within: timeouts.connectMilliseconds)
    begunAt = worker.workspace.turnMicroseconds
    let outcome = race.begin(for: self, worker)
    go(on: race, outcome, worker)
  }

  /// Why the route cannot be used by this path; nil if it can.
  private func unusable(_ path: NetworkPath, _ address: IPAddress) -> UpstreamFailure? {
    let name = route.route.name == Route.direct.name ? "" : " by route '\(route.route.name)'"
    let what = route.place ?? "\(destination.name)\(name)"
    if path.status == .notReachable {
      let interface = route.route.interface.map { " by \($0)" } ?? ""
      return UpstreamFailure(.notReachable, "\(what) at \(address) cannot be reached\(interface).")
    }
    let links = route.route.links
    if !links.isEmpty, !links.contains(path.status) {
      let words = links.map(\.rawValue).joined(separator: " or ")
      return UpstreamFailure(
        .notReachable, "\(what) at \(address) is reached by \(path.status.rawValue), and the route asks for \(words).")
    }
    if !allowsCellular, path.status == .wwan {
      return UpstreamFailure(
        .cellularNotAllowed, "\(what) at \(address) is reached by a cellular link, which the rule does not allow.")
    }
    return nil
  }

  /// A listener on all addresses is reached by any address of this machine. Loopback is known beforehand, others show
  /// once connected.
  private static func reaches(_ listener: SocketAddress, _ candidate: SocketAddress) -> Bool {
    if listener.port != candidate.port { return false }
    let own = IPAddress(listener)
    return IPAddress(candidate).anyReading { ip in
      own == ip || (own.isUnspecified && (ip.isLoopback || ip.isUnspecified)) || (ip.isUnspecified && own.isLoopback)
    }
  }
}

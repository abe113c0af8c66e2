// What is sent on a connection before it leads to the destination: TLS with the parent, the request that opens the way
// through it, the probe of a tunnel that is verified, and TLS with the destination itself.

import Bytes
import HTTP1
import Policy
import Security
import Session
import Transport
import Upstream

extension Connector {
  /// A connection has won the race.
  func won(_ line: Line, _ race: ConnectionRace, on worker: Worker) {
    var race = race
    race.abandon(worker)
    stage = .idle
    setTimer(.max, worker)
    if isOwnMachine(line, worker) {
      line.close(worker)
      return routeFailed(UpstreamFailure(.loop, "\(place) is this proxy itself."), .final, on: worker)
    }
    if route.parent == nil, policy.deniedAddresses(rule: rule).includesOwn, line.comesFromItself {
      line.close(worker)
      let detail = "\(target.name) is at \(IPAddress(line.address)), which \(AddressMatch.own.sentence)."
      return routeFailed(UpstreamFailure(.addressDenied, detail), .final, on: worker)
    }
    if !isVerified { conversation?.noteConnectTime(worker.workspace.turnMicroseconds - begunAt) }
    if route.parent != nil { conversation?.noteParent(line.address, route: route.route.name) }
    if let security = route.security, let parent = route.parent {
      guard let tls = beginTLS(line, with: parent, security, on: worker) else {
        line.close(worker)
        return routeFailed(
          UpstreamFailure(.tlsFailed, "\(place): no TLS connection could be made."), .failed, on: worker)
      }
      stage = .parentHandshake(line, tls)
      return proceedWithParent(line, tls, on: worker)
    }
    greet(line, worker)
  }

  private func isOwnMachine(_ line: Line, _ worker: Worker) -> Bool {
    guard
      worker.shared.listenAddresses.contains(where: { $0.port == line.address.port && IPAddress($0).isUnspecified })
    else { return false }
    return line.comesFromItself
  }

  // MARK: The parent

  func proceedWithParent(_ line: Line, _ tls: OriginHandshake, on worker: Worker) {
    switch tls.proceed() {
    case .wants(let wanted): worker.watch(line.stream, &line.interest, wanted: wanted, slot: line.slot)
    case .failed(let failure):
      if let key = route.parent?.key { worker.upstreams.forgetSessions(of: key) }
      routeFailed(UpstreamFailure(failure.problem.kind, "\(place): \(failure.problem.detail)"), .dead, on: worker)
    case .done:
      note(tls, line, of: place, on: worker)
      line.report = CertificateReport(tls, of: place, isParent: true)
      line.stream.tls = tls.stream
      stage = .idle
      setTimer(.max, worker)
      guard let parent = route.parent else { return }
      let offer = offer(to: parent)
      let agreed = tls.stream.negotiatedProtocol ?? .http11
      guard offer.contains(agreed) else {
        line.close(worker)
        return refuseProtocol(
          parent, offer, why: "it was offered and not taken (ALPN)", seen: agreed.rawValue, on: worker)
      }
      if offer.includeMultiplexed { parent.opening.agreed(isShared: agreed.isMultiplexed) }
      if !agreed.isMultiplexed {
        endOpening(of: parent, worker)
        return greet(line, worker)
      }
      // A request goes on a stream as it is; a tunnel has to be asked for there.
      if carrier.isParent {
        deliver(line, after: tls, worker)
      } else {
        multiplex(line, on: agreed, with: parent, worker)
      }
    }
  }

  /// The parent speaks a protocol with streams: the tunnel is a stream of the connection.
  private func multiplex(_ line: Line, on wire: HTTPProtocol, with parent: Destination, _ worker: Worker) {
    guard let conversation else { return line.close(worker) }
    let upstream = worker.upstreams.adopt(line, parent, by: route, on: worker)
    worker.watch(upstream.stream, &upstream.interest, wanted: .read, slot: upstream.slot)
    upstream.codePoint = codePoint
    upstream.report = line.report
    guard let connection = worker.upstreams.multiplex(upstream, on: wire, for: conversation, worker) else {
      worker.upstreams.close(upstream, worker)
      return routeFailed(UpstreamFailure(.tlsFailed, "\(place): no memory for \(wire.name)."), .failed, on: worker)
    }
    let line = worker.upstreams.line(of: connection, upstream, for: self, worker)
    endOpening(of: parent, worker)
    greet(line, worker)
  }

  /// Opens the way to the destination, if the parent needs that before a request.
  func greet(_ line: Line, _ worker: Worker) {
    if let parent = route.route.parent, let client = parent.kerberos, line.token == nil {
      return askForToken(client, parent, line: line, on: worker)
    }
    guard let parent = route.route.parent, !carrier.isParent else { return verify(line, worker) }
    let via = (conversation?.session.exchange.upstream.passedVia ?? []) + Array("1.1 ".utf8) + worker.workspace.via
    let limits = policy.configuration.limits
    parents.begin(route, now: worker.now)
    let talk = ParentHandshake(
      parent, host: CanonicalHost(canonical: destination.host, address: destination.literal), port: destination.port,
      via: via, limits: HeadLimits(bytes: limits.headerBytes, fields: limits.headers),
      authorization: line.token ?? parents.authorization(for: destination, &worker.workspace.nonces))
    setTimer(worker.now + timeouts.connectMilliseconds, worker)
    hear(line, talk, on: worker)
  }

  /// The ticket is asked for once the connection is open: a connection that the parent refuses then costs no ticket.
  private func askForToken(_ client: KerberosClient, _ parent: Route.Parent, line: Line, on worker: Worker) {
    let request = LookUp()
    stage = .awaitingToken(line, request)
    setTimer(worker.now + timeouts.connectMilliseconds, worker)
    let mailbox = worker.shared.mailboxes[worker.index]
    let slot = self.slot
    let generation = worker.generation(slot)
    worker.shared.tokens.mint(for: client, at: parent).make(request) {
      mailbox.post(.token(slot: slot, generation: generation, request, $0))
    }
  }

  func tokenMade(_ outcome: TokenMint.Outcome, for request: LookUp, _ worker: Worker) {
    settling(worker) {
      // It may wait for another one by now.
      guard case .awaitingToken(let line, let awaited) = stage, awaited === request else { return }
      setTimer(.max, worker)
      switch outcome {
      case .success(let token):
        line.token = token
        stage = .idle
        greet(line, worker)
      case .failure(let fault):
        let client = route.route.parent?.kerberos?.principal.map { " as \($0)" } ?? ""
        let detail = "\(place): no Kerberos ticket for it\(client): \(fault.description)."
        routeFailed(UpstreamFailure(.parentAuthentication, detail), .failed, on: worker)
      }
    }
  }

  /// A parent has asked for credentials with `lines`. Returns whether `talk` goes on.
  private func answerChallenge(
    _ lines: [[UInt8]], isKept: Bool, _ line: Line, talk: inout ParentHandshake, on worker: Worker
  ) -> Bool {
    worker.shared.health.answered(route.route, now: worker.now)
    stage = .greeting(line, talk)
    if let fault = parents.challenged(by: lines, &worker.workspace.nonces) {
      refused(talk.refused(credentials: fault), worker)
      return false
    }
    // A stream serves one request.
    guard isKept, line.stream.carried == nil, line.early.isEmpty,
      let answer = parents.authorization(for: destination, &worker.workspace.nonces)
    else {
      askElsewhere(line, worker)
      return false
    }
    talk.ask(with: answer)
    return true
  }

  /// Asks on a new connection to the same address, or on a new stream.
  private func askElsewhere(_ line: Line, _ worker: Worker) {
    let candidate = line.candidate
    let wasStream = line.stream.carried != nil
    let wasUnsent = line.stream.carried?.wasUnsent ?? false
    stage = .idle
    line.close(worker)
    if refusesParent(worker) { return }
    guard wasStream, let parent = route.parent, offer(to: parent).includeMultiplexed else {
      return race([candidate], worker)
    }
    if parents.mayShare(wasUnsent: wasUnsent) { openings.forgetFollowed(parent) }
    // It may come by another address, at which nothing has been probed.
    isVerified = false
    reach(worker)
  }

  /// Sends and reads as far as both go at once.
  func hear(_ line: Line, _ talk: ParentHandshake, on worker: Worker) {
    var talk = talk
    while true {
      switch talk.received(line.early.bytes, &line.toParent) {
      case .wants(let consumed): line.early.consume(consumed)
      case .open(let consumed):
        line.early.consume(consumed)
        setTimer(.max, worker)
        stage = .idle
        return verify(line, worker)
      case .challenged(let consumed, let lines, let isKept):
        line.early.consume(consumed)
        guard answerChallenge(lines, isKept: isKept, line, talk: &talk, on: worker) else { return }
        continue
      case .refused(let refusal):
        worker.shared.health.answered(route.route, now: worker.now)
        stage = .greeting(line, talk)
        return refused(refusal, worker)
      }
      stage = .greeting(line, talk)
      switch line.sendAndRead() {
      case .moved: continue
      case .wouldBlock:
        let wanted: Interest = line.toParent.isEmpty ? .read : [.read, .write]
        return worker.watch(line.stream, &line.interest, wanted: wanted, slot: line.slot)
      case .ended, .failed:
        if let lines = talk.unfinishedChallenge {
          _ = answerChallenge(lines, isKept: false, line, talk: &talk, on: worker)
          return
        }
        return talk.mayAskElsewhere || parents.mayAskAgain(after: line)
          ? askElsewhere(line, worker) : refused(talk.ended(isStream: line.stream.carried != nil), worker)
      }
    }
  }

  private func refused(_ refusal: ParentRefusal, _ worker: Worker) {
    let failure = UpstreamFailure(
      refusal.kind, "Route '\(route.route.name)': \(refusal.detail)", receivedStatus: refusal.status)
    routeFailed(failure, refusal.allowsNext ? .failed : .final, on: worker)
  }

  // MARK: Probe

  private func verify(_ line: Line, _ worker: Worker) {
    guard let verification, !isVerified else { return secure(line, worker) }
    let origin = OriginKey(host: destination.host, port: destination.port, security: verification)
    let key = ProbeKey(origin: origin, address: line.address, route: route.route)
    if verification.mayRely(at: worker.seconds), worker.upstreams.probes.isTrusted(key, now: worker.now) {
      return deliver(line, worker)
    }
    if let running = worker.upstreams.probes.running(key) {
      stage = .probing(line, line.candidate, running)
      begunAt = worker.workspace.turnMicroseconds
      return running.join(self)
    }
    let limit = timeouts.tlsHandshakeMilliseconds
    let probe = TunnelProbe(key, destination, handshakeMilliseconds: limit)
    stage = .probing(nil, line.candidate, probe)
    begunAt = worker.workspace.turnMicroseconds
    worker.statistics.handshakes += 1
    probe.start(for: self, over: line, worker)
  }

  /// The probe that this connector waits for has ended.
  func probed(_ outcome: TunnelProbe.Outcome, _ worker: Worker) {
    settling(worker) {
      guard case .probing(let line, let candidate, _) = stage else { return }
      conversation?.noteTLSTime(worker.workspace.turnMicroseconds - begunAt)
      switch outcome {
      case .abandoned: return
      case .failed(let failure):
        if verification?.enforces ?? true { return routeFailed(failure, .failed, on: worker) }
        conversation?.report(
          failure.problem.kind, Finding(failure.problem.detail, failure.problem.difference), isForgiven: true,
          on: worker)
      case .seen(let report?, let isForgiven):
        conversation?.report(
          Problem.Kind(report.kind), Finding(report, of: destination.name), isForgiven: isForgiven, on: worker)
      case .seen(nil, _): break
      }
      stage = .idle
      isVerified = true
      if let line { return deliver(line, worker) }
      // The verdict is about this address, and the tunnel goes to no other.
      if let stream = lineOfParent(at: candidate.address, worker) { return greet(stream, worker) }
      race([candidate], worker)
    }
  }

  // MARK: TLS

  private func secure(_ line: Line, _ worker: Worker) {
    guard let security = carrier.security, !carrier.isParent else {
      if protocols.contains(.http11) { return deliver(line, worker) }
      line.close(worker)
      return refuseProtocol(
        destination, policy.protocols(of: rule), why: "the connection is not under TLS, which HTTP/2 needs",
        seen: "http/1.1", on: worker)
    }
    if offer(to: destination).isEmpty {
      line.close(worker)
      return refuseOffer(to: destination, policy.protocols(of: rule), worker)
    }
    guard line.early.isEmpty else {
      line.close(worker)
      let detail = "\(place) sent bytes of \(destination.name) before its TLS handshake, which no TLS server does."
      return routeFailed(UpstreamFailure(.tlsFailed, detail), .final, on: worker)
    }
    guard let tls = beginTLS(line, with: destination, security, on: worker) else {
      line.close(worker)
      return routeFailed(
        UpstreamFailure(.tlsFailed, "\(destination.name) port \(destination.port): no TLS connection could be made."),
        .final, on: worker)
    }
    stage = .handshake(line, tls)
    proceed(line, tls, on: worker)
  }

  private func beginTLS(
    _ line: Line, with peer: Destination, _ security: OriginSecurity, on worker: Worker
  ) -> OriginHandshake? {
    let mayResume = security.mayRely(at: worker.seconds)
    let session = mayResume ? peer.key.flatMap { worker.upstreams.takeSession(for: $0, now: worker.now) } : nil
    begunAt = worker.workspace.turnMicroseconds
    setTimer(worker.now + timeouts.tlsHandshakeMilliseconds, worker)
    return OriginHandshake.begin(
      line.stream, to: peer, security, offering: offer(to: peer), resuming: session, on: worker)
  }

  func proceed(_ line: Line, _ tls: OriginHandshake, on worker: Worker) {
    switch tls.proceed() {
    case .wants(let wanted): worker.watch(line.stream, &line.interest, wanted: wanted, slot: line.slot)
    case .failed(let failure):
      if let key = destination.key { worker.upstreams.forgetSessions(of: key) }
      routeFailed(failure, .failed, on: worker)
    case .done:
      note(tls, line, of: destination.name, on: worker)
      line.stream.tls = tls.stream
      let agreed = tls.stream.negotiatedProtocol ?? .http11
      if protocols.contains(agreed) { return deliver(line, after: tls, worker) }
      refuseProtocol(
        destination, policy.protocols(of: rule), why: "it was offered and not taken (ALPN)", seen: agreed.rawValue,
        on: worker)
    }
  }

  /// Refuses the route if nothing is left to offer its parent.
  func refusesParent(_ worker: Worker) -> Bool {
    guard let parent = route.parent, parent.security != nil, offer(to: parent).isEmpty,
      let offered = route.route.parent?.protocols
    else { return false }
    let byRule = policy.protocols(of: rule)
    if parent === carrier, !byRule.contains(where: offered.contains) {
      let seen = offered.map(\.rawValue).joined(separator: ", ")
      refuseProtocol(parent, byRule, why: "its route offers \(seen) alone", seen: seen, on: worker)
    } else {
      refuseOffer(to: parent, parent === carrier ? byRule.filter(offered.contains) : offered, worker)
    }
    return true
  }

  /// `peer` cannot be offered any of the protocols that its rule or its route allows.
  private func refuseOffer(to peer: Destination, _ allowed: [HTTPProtocol], _ worker: Worker) {
    if peer.speaksHTTP11Alone {
      refuseProtocol(peer, allowed, why: "it asks for HTTP/1.1", seen: HTTPProtocol.http11.rawValue, on: worker)
    } else if webSocketProtocols != nil, peer.opensNoTunnels {
      refuseProtocol(
        peer, allowed, why: "it opens no WebSocket on a stream (RFC 8441), and HTTP/1.1 is not allowed",
        seen: "Upgrade",
        on: worker)
    } else {
      refuseProtocol(peer, allowed, why: "a request that asks for Upgrade needs HTTP/1.1", seen: "Upgrade", on: worker)
    }
  }

  /// No protocol is left to use with `peer`. `expected`: those that its rule or its route allows.
  private func refuseProtocol(
    _ peer: Destination, _ allowed: [HTTPProtocol], why: String, seen: String, on worker: Worker
  ) {
    let expected = allowed.map(\.rawValue).joined(separator: " or ")
    let name = peer.isParent ? place : "\(destination.name) port \(destination.port)"
    let detail = "\(name) is to be spoken to by \(expected): \(why)."
    let failure = UpstreamFailure(
      .protocolNotOffered, detail, difference: Difference(expected: expected, seen: seen))
    routeFailed(failure, peer.isParent ? .failed : .final, on: worker)
  }

  private func note(_ tls: OriginHandshake, _ line: Line, of name: String, on worker: Worker) {
    if tls.stream.isResumed { worker.statistics.resumptions += 1 } else { worker.statistics.handshakes += 1 }
    conversation?.noteTLSTime(worker.workspace.turnMicroseconds - begunAt)
    guard let report = tls.report else { return }
    conversation?.report(Problem.Kind(report.kind), Finding(report, of: name), isForgiven: tls.isForgiven, on: worker)
  }
}

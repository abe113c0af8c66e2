// The daemon: opens what it listens on, starts a worker for each core, and answers signals.
//
// SIGHUP reads the configuration again, on this thread, and hands a new policy to the workers; with an error in it
// nothing changes. SIGTERM drains: no new connections, requests under way finish, up to `timeouts.drain`. A second one
// ends at once.

import Policy
import Session
import Transport

/// What the program gives the daemon to run with.
public struct DaemonSettings: Sendable {
  public let loaded: LoadedPolicy
  /// Reads the configuration again: the policy, or why there is none. It has said everything that is wrong.
  public let reload: @Sendable (LogWriter) -> Result<LoadedPolicy, ReloadFault>
  public let log: LogWriter
  let inherited: InheritedSockets

  /// The socket for the admin API, where one was passed.
  public var inheritedAdmin: Descriptor? { inherited.admin }
  var policy: Policy { loaded.policy }

  public init(
    _ loaded: LoadedPolicy, log: LogWriter, inherited: InheritedSockets = .none,
    reload: @escaping @Sendable (LogWriter) -> Result<LoadedPolicy, ReloadFault>
  ) {
    self.loaded = loaded
    self.log = log
    self.inherited = inherited
    self.reload = reload
  }
}

/// Why a reload changes nothing, in one sentence.
public struct ReloadFault: Error, CustomStringConvertible {
  public let description: String

  public init(_ description: String) { self.description = description }
}

/// Why the daemon could not start.
public struct StartFailure: Error, CustomStringConvertible {
  public let description: String
}

public final class Daemon {
  private let settings: DaemonSettings
  private let signals: Signals
  private let poller = Poller.open()
  private let shared: SharedState
  private var maker = LivePolicyMaker()
  /// Workers that have yet to take over the policy of a reload.
  private var awaited = 0
  private var service: ServiceManager

  /// Opens the listeners. Called before any thread is started, for threads inherit which signals are blocked.
  public init(_ settings: DaemonSettings, signals: Signals) throws(StartFailure) {
    self.settings = settings
    self.signals = signals
    let proxy = settings.policy.configuration.proxy
    let workers = proxy.workers ?? Process.processors
    let descriptors = Process.raiseDescriptorLimit()
    let inherited = settings.inherited.listeners
    if let fault = settings.inherited.fault(under: proxy) { throw StartFailure(description: fault) }
    let first =
      inherited.isEmpty
      ? try Self.openAll(proxy.listen.map { SocketAddress($0.address, port: $0.port) }, settings.log) : inherited
    let bound = first.map(\.address)
    shared = SharedState(
      listenAddresses: bound, resolver: Resolver(Self.resolverSettings(settings.policy)), log: settings.log,
      workers: workers, descriptors: descriptors,
      connectionsPerHost: settings.policy.configuration.limits.connectionsPerHost)
    service = ServiceManager(
      addresses: bound.map(Self.text), rules: settings.policy.rules.count, mailboxes: shared.mailboxes)
    let live: LivePolicy
    switch maker.make(settings.loaded, complain: { settings.log.event(.warning, $0) }) {
    case .success(let made): live = made
    case .failure(let fault): throw StartFailure(description: "TLS cannot be set up: \(fault)")
    }
    let via = Self.text(bound[0])
    // Clients come as soon as the first loop runs, and may take every descriptor. Each loop has listeners of its own on the
    // same ports: the kernel deals the connections out. Sockets that were passed have one queue each, which all loops take
    // from: listeners beside them would take connections along when the process ends.
    var ends: [(poller: Descriptor, listeners: [Listener])] = []
    for index in 0..<workers {
      let shares = index == 0 || !inherited.isEmpty
      ends.append((Poller.open(), shares ? first : try Self.openShared(bound)))
    }
    for (index, (poller, listeners)) in ends.enumerated() {
      let shared = self.shared
      startThread(named: "worker-\(index)") {
        Worker(index: index, poller: poller, listeners: listeners, live: live, shared: shared, via: via).run()
      }
    }
  }

  /// The addresses that are listened on.
  public var addresses: [String] { shared.listenAddresses.map(Self.text) }

  private static func text(_ address: SocketAddress) -> String {
    "\(ListenAddress(address: IPAddress(address), port: address.port))"
  }

  private static func openAll(_ addresses: [SocketAddress], _ log: LogWriter) throws(StartFailure) -> [Listener] {
    var listeners: [Listener] = []
    for address in addresses {
      switch Listener.open(address, probes: true) {
      case .success(let listener): listeners.append(listener)
      case .failure(let error):
        // A machine without IPv6 still has a proxy.
        if error.isAddressMissing, addresses.count > 1 {
          log.event(.warning, "not listening on \(text(address)): \(error)")
          continue
        }
        throw StartFailure(description: "cannot listen on \(text(address)): \(error)")
      }
    }
    guard !listeners.isEmpty else { throw StartFailure(description: "none of the listen addresses exists here") }
    return listeners
  }

  private static func openShared(_ addresses: [SocketAddress]) throws(StartFailure) -> [Listener] {
    var listeners: [Listener] = []
    for address in addresses {
      switch Listener.open(address, probes: false) {
      case .success(let listener): listeners.append(listener)
      case .failure(let error): throw StartFailure(description: "cannot listen on \(text(address)): \(error)")
      }
    }
    return listeners
  }

  private static func resolverSettings(_ policy: Policy) -> ResolverSettings {
    let dns = policy.configuration.dns
    return ResolverSettings(
      servers: dns.servers.map(\.description), timeoutMilliseconds: dns.timeoutMilliseconds,
      cacheMilliseconds: dns.cacheMilliseconds)
  }

  /// Runs until a signal has ended it.
  public func run() {
    let poller = Poller(poller)
    _ = poller.add(signals.descriptor, .read, data: 0)
    _ = poller.add(shared.reports.descriptor, .read, data: 1)
    var policy = settings.policy
    var working = shared.mailboxes.count
    var isDraining = false
    service.started()
    while working > 0 {
      _ = poller.wait(milliseconds: service.askWorkers())
      for report in shared.reports.takeAll() {
        switch report {
        case .drained(let worker):
          working -= 1
          service.workerLeft(worker)
        case .answeredPing(let worker): service.workerAnswered(worker)
        case .tookPolicy: notePolicyTaken(policy)
        }
      }
      while let signal = signals.next() {
        switch signal {
        case .hangUp:
          if !isDraining { policy = reload(policy) }
        case .terminate:
          stop(after: isDraining ? 0 : policy.configuration.timeouts.drainMilliseconds)
          isDraining = true
        }
      }
    }
    settings.log.event(.info, "stopped")
    settings.log.flush()
  }

  /// A reload is done when no worker decides by the policy before it any more.
  private func notePolicyTaken(_ policy: Policy) {
    awaited -= 1
    guard awaited == 0 else { return }
    settings.log.event(.info, "reload: \(policy.rules.count) rules")
    service.reloadEnded()
  }

  private func stop(after milliseconds: Int64) {
    settings.log.event(
      .info, milliseconds > 0 ? "stopping: requests under way have \(milliseconds) ms" : "stopping at once")
    service.stopping(milliseconds: milliseconds)
    shared.drain(deadline: Clock.monotonic + milliseconds)
  }

  private func reload(_ current: Policy) -> Policy {
    service.reloadBegan()
    switch prepare() {
    case .success(let (policy, live)):
      put(policy, live, inPlaceOf: current)
      service.reloaded(rules: policy.rules.count)
      return policy
    case .failure(let fault):
      service.reloadFailed(fault.description)
      // One that began earlier may still be on its way to the loops, and ends when they have it.
      if awaited == 0 { service.reloadEnded() }
      return current
    }
  }

  /// Everything that can fail of a reload. What failed has been logged.
  private func prepare() -> Result<(Policy, LivePolicy), ReloadFault> {
    let loaded: LoadedPolicy
    switch settings.reload(settings.log) {
    case .success(let read): loaded = read
    case .failure(let fault):
      settings.log.event(.error, "reload: the configuration has errors; nothing has changed")
      return .failure(fault)
    }
    if let fault = settings.inherited.fault(under: loaded.policy.configuration.proxy) {
      settings.log.event(.error, "reload: \(fault); nothing has changed")
      return .failure(ReloadFault(fault))
    }
    switch maker.make(loaded, complain: { settings.log.event(.warning, $0) }) {
    case .success(let live): return .success((loaded.policy, live))
    case .failure(let fault):
      settings.log.event(.error, "reload: TLS cannot be set up: \(fault); nothing has changed")
      return .failure(ReloadFault("TLS cannot be set up: \(fault)"))
    }
  }

  private func put(_ policy: Policy, _ live: LivePolicy, inPlaceOf current: Policy) {
    let old = current.configuration.proxy
    let new = policy.configuration.proxy
    if old.listen != new.listen || old.workers != new.workers || old.name != new.name {
      settings.log.event(.warning, "reload: listen, workers and name take effect only at a restart")
    }
    settings.log.setLevel(policy.configuration.log.level)
    shared.resolver.configure(Self.resolverSettings(policy))
    shared.quota.setLimit(policy.configuration.limits.connectionsPerHost)
    for mailbox in shared.mailboxes { mailbox.post(.policy(live)) }
    awaited += shared.mailboxes.count
  }
}

// The daemon: opens its listeners, starts a worker for each core, and handles signals.
//
// On SIGHUP, this thread reads the configuration again and hands the new policy to the workers. If it has an error,
// nothing changes. On SIGTERM the daemon drains: it accepts no new connections, and open requests may finish, for
// `timeouts.drain` at most. A second SIGTERM ends it at once.

import Bytes
import Policy
import Reachability
import Session
import Transport

/// What the program starts the daemon with.
public struct DaemonSettings: Sendable {
  public let loaded: LoadedPolicy
  public let version: String
  /// Reads the configuration again: the policy, or why there is none. It has logged all mistakes itself.
  public let reload: @Sendable (LogWriter) -> Result<LoadedPolicy, ReloadFault>
  public let log: LogWriter
  let inherited: InheritedSockets

  /// The socket for the admin API, if one was passed.
  public var inheritedAdmin: Descriptor? { inherited.admin }
  var policy: Policy { loaded.policy }

  public init(
    _ loaded: LoadedPolicy, version: String, log: LogWriter, inherited: InheritedSockets = .none,
    reload: @escaping @Sendable (LogWriter) -> Result<LoadedPolicy, ReloadFault>
  ) {
    self.loaded = loaded
    self.version = version
    self.log = log
    self.inherited = inherited
    self.reload = reload
  }
}

/// Why a reload changes nothing.
public struct ReloadFault: Error, Equatable, CustomStringConvertible {
  /// One sentence for each mistake; at least one.
  public let reasons: [String]
  /// A summary of all of them.
  public let summary: String

  public init(_ reasons: [String], summary: String = "the configuration has errors") {
    self.reasons = reasons
    self.summary = summary
  }

  /// The first reason, and how many more there are.
  public var description: String {
    let first = reasons.first ?? "the configuration cannot be read"
    return reasons.count > 1 ? "\(first) (and \(reasons.count - 1) more)" : first
  }
}

/// Why the daemon could not start.
public struct StartFailure: Error, CustomStringConvertible {
  public let description: String
}

public final class Daemon: AdminHost {
  private let settings: DaemonSettings
  private let signals: Signals
  private let poller = Poller.open()
  private let shared: SharedState
  private var maker = LivePolicyMaker()
  /// Workers that have not yet adopted the policy of a reload.
  private var awaited = 0
  private(set) var state: DaemonState
  private var admin: AdminServer? = nil
  /// When pins are next checked, on the monotonic clock.
  private var nextPinWatch: Int64 = 0
  /// When memory that only the start or a reload needed is given back.
  private var releaseAt = Int64.max
  /// The warnings logged at the last check of pins.
  private var pinWarnings: Set<String> = []

  /// How often the log warns of pins that expire, in milliseconds.
  private static let pinWatchMilliseconds: Int64 = 86_400_000
  /// The numbers that the daemon's own descriptors are registered under.
  private enum Data {
    static let signals: UInt64 = 0
    static let reports: UInt64 = 1
    static let events: UInt64 = 2
    /// The first of the admin API's listeners.
    static let listeners: UInt64 = 16
  }
  private var service: ServiceManager
  private let monitor: NetworkMonitor
  private var hosts: HostReachability
  /// For the watch on memory pressure.
  /// When it stops: how open tunnels are handed over; nil if they are not kept.
  private var keeping: TunnelKeeping? = nil
  private var handedOver = 0
  /// Of the loops.
  private var threads: [FiniteThread] = []

  /// Opens the listeners. Called before any thread starts, because threads inherit which signals are blocked.
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
      ? try ListenAddresses.open(proxy.listen.map { SocketAddress($0.address, port: $0.port) }, settings.log)
      : inherited
    let bound = first.map(\.address)
    shared = SharedState(
      listenAddresses: bound, resolver: Resolver(Self.resolverSettings(settings.policy)), log: settings.log,
      workers: workers, descriptors: descriptors,
      limits: settings.policy.configuration.limits)
    try shared.desk.open(directory: OperatorDesk.directory(proxy))
    monitor = Self.monitor(settings, shared)
    hosts = HostReachability(monitor.first)
    service = ServiceManager(
      addresses: bound.map(Self.text), rules: settings.policy.rules.count, mailboxes: shared.mailboxes)
    state = DaemonState(
      version: settings.version, addresses: bound.map(Self.text), workers: workers, startedWall: Clock.wall,
      startedMonotonic: Clock.monotonic, policy: settings.policy, loadedWall: Clock.wall)
    let log = settings.log
    let mailboxes = shared.mailboxes
    maker.store = { storage in
      SharedCache(storage, mailboxes: mailboxes) { sentence in log.event(.warning, sentence) }
    }
    let live: LivePolicy
    switch maker.make(settings.loaded, complain: { settings.log.event(.warning, $0) }) {
    case .success(let made): live = made
    case .failure(let fault): throw StartFailure(description: "TLS cannot be set up: \(fault)")
    }
    state.authorityEnds = live.authorityEnds
    let shared = shared
    shared.cache = live.cache
    PressureWatch.start(log: log) { shared.cache }
    let mark = ViaMark(random: Process.random)
    let administration = try AdminListener.open(
      settings.policy.configuration.admin, passed: settings.inheritedAdmin, settings.log)
    state.metricsAddress = administration.metrics.map(Self.text)
    state.webAddress = administration.web.map(Self.text)
    shared.dashboard.withLock { $0 = administration.web }
    // Clients come as soon as the first loop runs, and may use up every descriptor, so all are opened before. Each loop
    // has its own listeners on the same ports, and the kernel distributes the connections. Sockets that were passed
    // have one queue each, shared by all loops: connections on further listeners would be lost when the process ends.
    var ends: [(poller: Descriptor, listeners: [Listener])] = []
    for index in 0..<workers {
      let shares = index == 0 || !inherited.isEmpty
      ends.append((Poller.open(), shares ? first : try ListenAddresses.openShared(bound)))
    }
    StoredTunnel.takeOver(settings.inherited.tunnels, for: shared)
    shared.history.configure(settings.policy.configuration.history)
    for (index, (poller, listeners)) in ends.enumerated() {
      let shared = self.shared
      let network = monitor.first
      threads.append(
        FiniteThread(named: "worker-\(index)") {
          Worker(
            index: index, poller: poller, listeners: listeners, live: live, shared: shared, mark: mark, network: network
          ).run()
        })
    }
    if !administration.listeners.isEmpty { admin = AdminServer(administration.listeners, shared, host: self) }
  }

  private static func monitor(_ settings: DaemonSettings, _ shared: SharedState) -> NetworkMonitor {
    let monitor = NetworkMonitor(named: settings.policy.configuration.reachability.interfaces) { change in
      shared.health.forget()
      if change.shows { shared.resolver.networkChanged() }
      for mailbox in shared.mailboxes { mailbox.post(.network(change)) }
      if change.isSettled { shared.reports.post(.networkChanged(change)) }
    }
    if let fault = monitor.fault {
      settings.log.event(
        .warning,
        "reachability: the kernel cannot be asked (\(fault)); everything is tried, and 'when' sees \"unknown\"")
    }
    return monitor
  }

  /// The addresses of the listeners.
  public var addresses: [String] { shared.listenAddresses.map(Self.text) }

  static func text(_ address: SocketAddress) -> String {
    "\(ListenAddress(address: IPAddress(address), port: address.port))"
  }

  private static func resolverSettings(_ policy: Policy) -> ResolverSettings {
    let dns = policy.configuration.dns
    return ResolverSettings(
      servers: dns.servers.map(\.description), timeoutMilliseconds: dns.timeoutMilliseconds,
      cacheMilliseconds: dns.cacheMilliseconds)
  }

  /// Runs until a signal ends it.
  public func run() {
    let poller = Poller(poller)
    _ = poller.add(signals.descriptor, .read, data: Data.signals)
    _ = poller.add(shared.reports.descriptor, .read, data: Data.reports)
    if let admin {
      for (index, listener) in admin.listeners.enumerated() {
        _ = poller.add(listener.descriptor, .read, data: Data.listeners + UInt64(index))
      }
      _ = poller.add(shared.events.mailbox.descriptor, .read, data: Data.events)
    }
    nextPinWatch = Clock.monotonic
    service.started()
    releaseAt = Clock.monotonic + Self.settlingMilliseconds
    var working = shared.mailboxes.count
    var callers: [Int] = []
    while working > 0 {
      watchPins()
      releaseUnused()
      let count = poller.wait(milliseconds: waitMilliseconds())
      callers.removeAll(keepingCapacity: true)
      for index in 0..<count {
        let readiness = poller.readiness(index)
        switch readiness.data {
        case Data.signals: takeSignals()
        case Data.reports: working -= takeReports(poller)
        case Data.events: admin?.deliverEvents(poller)
        case Data.listeners..<AdminServer.firstData: callers.append(Int(readiness.data - Data.listeners))
        default: admin?.ready(readiness, poller)
        }
      }
      // Last, so that clients that have already left have freed their places.
      for caller in callers { admin?.accept(caller, poller) }
      admin?.expire(now: Clock.monotonic, poller)
    }
    // A socket that was passed belongs to its opener.
    if admin != nil, settings.inheritedAdmin == nil {
      LocalListener.remove(settings.policy.configuration.admin.socket)
    }
    shared.desk.retry()
    shared.history.finish()
    settings.log.event(.info, TunnelKeeping.lastWords(handedOver))
    settings.log.flush()
    // Complete answers are kept.
    shared.cache?.disk?.operate(milliseconds: Self.storeMilliseconds) { _ in }
    for thread in threads { thread.join() }
  }

  /// How long the end waits for answers that are being written to the disk.
  private static let storeMilliseconds: Int32 = 3000

  /// How long after the start, and after a reload, what only they needed is given back: all loops run by then.
  private static let settlingMilliseconds: Int64 = 1000

  private func releaseUnused() {
    guard Clock.monotonic >= releaseAt else { return }
    releaseAt = .max
    Process.releaseUnused()
  }

  private func waitMilliseconds() -> Int32 {
    let next = min(admin?.deadline ?? .max, nextPinWatch, releaseAt)
    let due = Int32(clamping: max(0, next - Clock.monotonic))
    let asks = service.askWorkers()
    return asks < 0 ? due : min(due, asks)
  }

  private func takeSignals() {
    while let signal = signals.next() {
      switch signal {
      case .hangUp: _ = reloadNow()
      case .terminate: stop(after: state.isStopping ? 0 : state.policy.configuration.timeouts.drainMilliseconds)
      }
    }
  }

  /// Returns how many workers have drained.
  private func takeReports(_ poller: borrowing Poller) -> Int {
    var drained = 0
    for report in shared.reports.takeAll() {
      switch report {
      case .drained(let worker, let statistics):
        drained += 1
        service.workerLeft(worker)
        if keeping?.workerLeft(worker) ?? false { shared.handOver() }
        admin?.workerLeft(worker, statistics, poller: poller)
      case .answeredPing(let worker): service.workerAnswered(worker)
      case .tookPolicy: notePolicyTaken()
      case .answered(let worker, let answer, let inquiry):
        admin?.answered(worker, answer, inquiry: inquiry, poller: poller)
      case .sawExpiringCertificate: warnOfPins()
      case .networkChanged(let change): take(change)
      case .lookedUp(let host, let answer, let inquiry): lookedUp(host, answer, inquiry: inquiry, poller: poller)
      case .onlyTunnels(let worker, let tunnels):
        if keeping?.onlyTunnels(worker: worker, tunnels) ?? false { shared.handOver() }
      case .handedOver(let tunnels): handedOver += tunnels
      }
    }
    return drained
  }

  /// A reload is done once no worker decides by the previous policy any more.
  private func notePolicyTaken() {
    awaited -= 1
    guard awaited == 0 else { return }
    settings.log.event(.info, "reload: \(state.policy.rules.count) rules")
    service.reloadEnded()
    releaseAt = Clock.monotonic + Self.settlingMilliseconds
  }

  private func take(_ change: NetworkMonitor.Change) {
    state.networkChanged(change.view, shows: change.shows)
    hosts.take(change.view)
    guard change.shows else { return }
    settings.log.event(.info, "reachability: \(change.view.state.summary): \(change.reasons)")
    if shared.events.wants(.reachability) {
      shared.events.post(
        .reachability, AdminResources.reachability(ReachabilityReport(change.view.state), because: change.reasons))
    }
  }

  private func stop(after milliseconds: Int64) {
    let isRepeated = state.isStopping
    state.stops()
    settings.log.event(
      .info, milliseconds > 0 ? "stopping: requests under way have \(milliseconds) ms" : "stopping at once")
    let deadline = Clock.monotonic + milliseconds
    service.stopping(milliseconds: milliseconds)
    if !isRepeated { keeping = service.keepsTunnels() }
    shared.drain(deadline: deadline, handsOver: keeping != nil)
  }

  /// Once a day, logs which pins and certificates expire soon.
  private func watchPins() {
    guard Clock.monotonic >= nextPinWatch else { return }
    nextPinWatch = Clock.monotonic + Self.pinWatchMilliseconds
    pinWarnings = []
    warnOfPins()
  }

  private func warnOfPins() {
    let watch = PinWatch(state.policy, seen: shared.pins.all, authorityEnds: state.authorityEnds)
    for warning in watch.warnings(at: Clock.wall / 1000) where pinWarnings.insert(warning).inserted {
      settings.log.event(.warning, warning)
    }
  }

  // MARK: What the admin API asks

  func ask(_ question: Question, inquiry: UInt64) {
    for mailbox in shared.mailboxes { mailbox.post(.ask(question, inquiry: inquiry)) }
  }

  private var networkState: NetworkState? { (state.network ?? monitor.first)?.state }
  private var waitingRequests: Int { shared.waitingRequests.load(ordering: .relaxed) }

  var network: NetworkFacts {
    NetworkFacts(
      status: networkState?.status ?? .unknown, changes: UInt64(state.networkChanges), waiting: waitingRequests)
  }

  func reachability(of host: String?, inquiry: UInt64) -> ReachabilityReport? {
    var report = ReachabilityReport(networkState)
    let now = Clock.monotonic
    report.routes = state.policy.routes.map { route in
      ReachabilityReport.Route(
        route, deadForMilliseconds: shared.health.deadUntil(route, now: now).map { $0 - now },
        unusable: hosts.obstacle(of: route))
    }
    report.waiting = waitingRequests
    guard let host else { return report }
    if let literal = IPAddress(host) {
      report.destination = hosts.destination(host, [literal])
      return report
    }
    let reports = shared.reports
    shared.resolver.lookUp(host) { reports.post(.lookedUp(host, $0, inquiry: inquiry)) }
    return nil
  }

  /// The look-up of a host's name has ended.
  private func lookedUp(_ host: String, _ answer: NameAnswer, inquiry: UInt64, poller: borrowing Poller) {
    guard var report = reachability(of: nil, inquiry: inquiry) else { return }
    report.destination = hosts.destination(host, answer)
    admin?.answered(report, inquiry: inquiry, poller)
  }

  func drainNow() {
    if state.isDraining { return }
    let milliseconds = state.policy.configuration.timeouts.drainMilliseconds
    if settings.inherited.listeners.isEmpty { return stop(after: milliseconds) }
    // The owner of the sockets starts the next daemon at the next connection, so this one has to go on running to stay
    // drained.
    state.drains()
    settings.log.event(
      .info,
      "drained: requests under way have \(milliseconds) ms, and others are refused until the service is restarted")
    service.drained()
    for mailbox in shared.mailboxes { mailbox.post(.refuse(deadline: Clock.monotonic + milliseconds)) }
  }

  func reloadNow() -> ReloadOutcome {
    if state.isStopping { return .stopping }
    service.reloadBegan()
    let fault: ReloadFault?
    var warnings: [String] = []
    switch prepare(&warnings) {
    case .success(let (policy, live)):
      put(policy, live, warnings: &warnings)
      fault = nil
      service.reloaded(rules: policy.rules.count)
    case .failure(let found):
      fault = found
      state.reloadFailed(ReloadFailure(wall: Clock.wall, reasons: found.reasons))
      service.reloadFailed(found.description)
      // An earlier reload may still be on its way to the loops; it ends when they have it.
      if awaited == 0 { service.reloadEnded() }
    }
    shared.events.post(
      .reload,
      [
        ("done", .boolean(fault == nil)), ("rules", .number(state.policy.rules.count)),
        ("errors", .array((fault?.reasons ?? []).map { .string($0) })),
        ("warnings", .array(warnings.map { .string($0) })),
      ])
    return fault.map { .failed($0) } ?? .done(warnings: warnings)
  }

  /// Every step of a reload that can fail. Failures have been logged.
  private func prepare(_ warnings: inout [String]) -> Result<(Policy, LivePolicy), ReloadFault> {
    let loaded: LoadedPolicy
    switch settings.reload(settings.log) {
    case .success(let read): loaded = read
    case .failure(let fault):
      settings.log.event(.error, "reload: \(fault.summary); nothing has changed")
      return .failure(fault)
    }
    if let fault = settings.inherited.fault(under: loaded.policy.configuration.proxy) {
      settings.log.event(.error, "reload: \(fault); nothing has changed")
      return .failure(ReloadFault([fault]))
    }
    warnings = loaded.warnings
    let complain: (String) -> Void = {
      self.settings.log.event(.warning, $0)
      warnings.append($0)
    }
    switch maker.make(loaded, complain: complain) {
    case .success(let live): return .success((loaded.policy, live))
    case .failure(let fault):
      settings.log.event(.error, "reload: TLS cannot be set up: \(fault); nothing has changed")
      return .failure(ReloadFault(["TLS cannot be set up: \(fault)"]))
    }
  }

  private func put(_ policy: Policy, _ live: LivePolicy, warnings: inout [String]) {
    // What runs, whatever was read since then.
    let old = settings.policy.configuration
    let new = policy.configuration
    if old.proxy.listen != new.proxy.listen || old.proxy.workers != new.proxy.workers
      || old.proxy.name != new.proxy.name || old.admin.socket != new.admin.socket
      || old.admin.metrics != new.admin.metrics || old.admin.web != new.admin.web
      || old.log.format != new.log.format
    {
      let warning =
        "listen, workers, name, the socket, metrics and web of [admin] and the log's format "
        + "take effect only at a restart"
      settings.log.event(.warning, "reload: \(warning)")
      warnings.append(warning)
    }
    settings.log.setLevel(policy.configuration.log.level)
    shared.desk.moved(to: OperatorDesk.directory(policy.configuration.proxy))
    shared.desk.retry()
    shared.history.configure(new.history)
    shared.resolver.configure(Self.resolverSettings(policy))
    shared.quota.setLimit(policy.configuration.limits.connectionsPerHost, share: policy.configuration.limits.share)
    monitor.name(policy.configuration.reachability.interfaces)
    // A parent that was corrected has not failed yet.
    if Set(policy.rules.flatMap(\.routes)) != Set(state.policy.rules.flatMap(\.routes)) { shared.health.forget() }
    // This comes before any loop asks again who its clients are.
    shared.clients.forget()
    // This comes before any loop stores under the new policy: what others change under the old one counts there too.
    let (former, cache) = (shared.cache, live.cache)
    shared.cache = cache
    for mailbox in shared.mailboxes { mailbox.post(.policy(live)) }
    awaited += shared.mailboxes.count
    shared.pins.keep(policy)
    state.reloaded(policy, authorityEnds: live.authorityEnds, wall: Clock.wall)
    // From here on, the directory belongs to another store.
    if let former, former !== cache { former.disk?.stop { cache?.disk?.retry() } }
    nextPinWatch = Clock.monotonic
  }
}

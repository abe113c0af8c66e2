// What the loops of a daemon have in common, and the messages to them and from them.

import Asking
import Bytes
import Cache
import Policy
import Security
import Session
import Sharing
import Synchronization
import Transport
import Upstream

/// Messages of other threads to a worker.
enum WorkerMessage: Sendable {
  case policy(LivePolicy)
  case resolved(slot: Int, generation: UInt32, NameAnswer)
  /// The names of a client.
  case identified(slot: Int, generation: UInt32, LookUp, LocalClient, program: String?)
  /// A Kerberos token for a parent.
  case token(slot: Int, generation: UInt32, LookUp, TokenMint.Outcome)
  /// A step of the file of a body is done.
  case spooled(slot: Int, generation: UInt32, SpoolFile, Spooler.Outcome)
  /// Links, addresses or routes have changed.
  case network(NetworkMonitor.Change)
  /// Another client waits for a connection: the idlest of this client's is closed.
  case yieldClient(Claimant)
  /// The same for a body that is held, and for a connection to a host.
  case yieldHeldBody(Claimant)
  case yieldPlace(ConnectionQuota.Place, Claimant)
  /// A place of `connections_per_host`, for a connector that waits for it.
  case place(slot: Int, generation: UInt32, ConnectionQuota.Place, of: Claimant)
  /// The connection that this connector waited for is open, or will never open.
  case opened(slot: Int, generation: UInt32)
  /// More of a stored answer is ready for an upstream that reads it.
  case storedContent(slot: Int, generation: UInt32)
  /// A reader of a fetch has left, or has caught up.
  case readersMoved(slot: Int, generation: UInt32)
  /// The disk has been asked for the part of an answer that memory does not have.
  case restored(slot: Int, generation: UInt32)
  /// No client waits any longer for a fetch whose own client has left.
  case deserted(slot: Int, generation: UInt32)
  /// The outcome of a fetch that a client waited for.
  case flightEnded(slot: Int, generation: UInt32, Flight, FlightOutcome)
  /// A connector waits for a place: idle connections there are to give up theirs.
  case yieldIdle(ConnectionQuota.Place)
  /// An operator's connection waits for a descriptor: idle connections are to give up theirs.
  case yieldDescriptors
  /// A connection that another worker accepted from a socket that all share. None comes after `drain`.
  case accepted(Accepted)
  /// Operators have allowed or denied something for a time, or such a temporary rule has ended.
  case temporary(TemporaryRules)
  /// An operator has answered a request that waits.
  case operatorAnswered(QuestionWaiter, TemporaryRule.Verdict, by: String)
  /// The watchdog asks whether the loop turns; the loop has to answer.
  case ping
  /// A tunnel of the previous daemon. None comes after the start.
  case tunnel(StoredTunnel)
  /// Accept no more connections, end idle ones, and let the others finish until the deadline. `handsOver`: systemd
  /// keeps tunnels.
  case drain(deadline: Int64, handsOver: Bool)
  /// Refuse new requests, end idle connections, and let the others finish until the deadline. The loop goes on running.
  case refuse(deadline: Int64)
  /// Only tunnels are left, in every loop.
  case handOver
  /// The answer goes to `SharedState.reports`, with the number of the inquiry.
  case ask(Question, inquiry: UInt64)
}

/// Messages of workers to the daemon.
enum WorkerReport: Sendable {
  /// From here on, every request is decided by the policy that was sent last.
  case tookPolicy
  case answeredPing(worker: Int)
  /// The loop has ended; its counts stay.
  case drained(worker: Int, Statistics)
  case answered(worker: Int, Answer, inquiry: UInt64)
  /// A server shows a certificate that carries a pin and expires soon, and did not before.
  case sawExpiringCertificate
  case networkChanged(NetworkMonitor.Change)
  /// The addresses of a host that the admin API was asked about.
  case lookedUp(String, NameAnswer, inquiry: UInt64)
  /// While it drains: the loop has only tunnels left, this many, and can hand them over.
  case onlyTunnels(worker: Int, Int)
  /// This many tunnels now belong to systemd.
  case handedOver(Int)
}

/// State that the workers of a daemon share.
final class SharedState: Sendable {
  let listenAddresses: [SocketAddress]
  /// Where the dashboard is, set before the loops start. It knows its users by who owns their connections, and one of
  /// the proxy's is the daemon's.
  let dashboard = Locked<SocketAddress?>(nil)
  let resolver: Resolver
  let log: LogWriter
  let history: HistoryWriter
  /// The client connections of all workers, and those that wait for a place.
  let places: ClientPlaces
  let mailboxes: [Mailbox<WorkerMessage>]
  let reports = Mailbox<WorkerReport>()
  let quota: SharedQuota
  let events = EventHub()
  let heldBytes = ByteBudget()
  /// How much of this each client uses.
  let heldShares = Locked(Shares<Claimant>())
  let tokens = TokenMints()
  let spooler = Spooler(directory: Spooler.usualDirectory)
  let pins = PinSightings()
  private let cacheInForce = Locked<SharedCache?>(nil)
  /// Requests that wait for the network.
  let waitingRequests = Atomic<Int>(0)
  let health = SharedHealth()
  let desk: OperatorDesk
  let clients = LocalClients()
  private let dealing: Locked<Dealing>

  /// Which loop gets the next connection of a socket that all share.
  private enum Dealing {
    case to(worker: Int)
    case over
  }

  init(
    listenAddresses: [SocketAddress], resolver: Resolver, log: LogWriter, workers: Int, descriptors: Int,
    limits: Limits
  ) {
    places = ClientPlaces(descriptors: descriptors)
    self.listenAddresses = listenAddresses
    self.resolver = resolver
    self.log = log
    history = HistoryWriter(log)
    let mailboxes = (0..<workers).map { _ in Mailbox<WorkerMessage>() }
    self.mailboxes = mailboxes
    desk = OperatorDesk(mailboxes, log, events: events)
    dealing = Locked(.to(worker: 0))
    quota = SharedQuota(limit: limits.connectionsPerHost, share: limits.share) { granted in
      let waiter = granted.waiter
      mailboxes[waiter.worker].post(
        .place(slot: waiter.slot, generation: waiter.generation, granted.place, of: waiter.identity))
    }
  }

  /// The store of the policy in force; nil: nothing is stored.
  var cache: SharedCache? {
    get { cacheInForce.withLock { $0 } }
    set { cacheInForce.withLock { $0 = newValue } }
  }

  /// Hands a connection to the worker whose turn it is. Returns false if that is `worker` itself, or if no other may
  /// get one.
  ///
  /// Without this, the loop that began to wait last would get nearly all of them: the kernel wakes that one.
  func deal(_ connection: Accepted, from worker: Int) -> Bool {
    dealing.withLock { dealing in
      guard case .to(let next) = dealing else { return false }
      dealing = .to(worker: (next + 1) % mailboxes.count)
      guard next != worker else { return false }
      // Within the lock, so it comes before `drain`: a worker that has ended reads no message.
      mailboxes[next].post(.accepted(connection))
      return true
    }
  }

  /// Tells the workers to drain.
  func drain(deadline: Int64, handsOver: Bool) {
    dealing.withLock { $0 = .over }
    for mailbox in mailboxes { mailbox.post(.drain(deadline: deadline, handsOver: handsOver)) }
  }

  /// Remembers which pin a chain was trusted by. The daemon is told of a certificate that is new and yet near its end.
  func notePins(_ success: TrustSuccess, _ policy: SecurityPolicy, at place: String, seconds: Int64) {
    guard let match = success.match, let set = policy.settings.pinSet else { return }
    let isNew = pins.note(match, of: set, at: place, wall: seconds * 1000)
    if isNew, match.notAfter - seconds <= PinWatch.warningSeconds { reports.post(.sawExpiringCertificate) }
  }

  func handOver() { for mailbox in mailboxes { mailbox.post(.handOver) } }
}

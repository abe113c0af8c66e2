// What the loops of a daemon have in common, and the messages by which they are reached and by which they report.

import Asking
import Bytes
import Policy
import Session
import Sharing
import Synchronization
import Transport
import Upstream

/// What other threads tell a worker.
enum WorkerMessage: Sendable {
  case policy(LivePolicy)
  case resolved(slot: Int, generation: UInt32, NameAnswer)
  /// The names of a client.
  case identified(slot: Int, generation: UInt32, LookUp, LocalClient, program: String?)
  /// A token of Kerberos for a parent.
  case token(slot: Int, generation: UInt32, LookUp, TokenMint.Outcome)
  /// A step of the file of a body is done.
  case spooled(slot: Int, generation: UInt32, SpoolFile, Spooler.Outcome)
  /// Links, addresses or routes have changed.
  case network(NetworkMonitor.Change)
  /// Another client waits for a connection: the idlest of this one's is closed.
  case yieldClient(Claimant)
  /// The same of a body that is held, and of a connection to a host.
  case yieldHeldBody(Claimant)
  case yieldPlace(ConnectionQuota.Place, Claimant)
  /// A place of `connections_per_host` for a connector that waits for it.
  case place(slot: Int, generation: UInt32, ConnectionQuota.Place, of: Claimant)
  /// A connection that this one waited for is open, or will not be.
  case opened(slot: Int, generation: UInt32)
  /// More of a stored answer is there for an upstream that reads it.
  case storedContent(slot: Int, generation: UInt32)
  /// A reader of a fetch has left, or has caught up.
  case readersMoved(slot: Int, generation: UInt32)
  /// The disk has been asked for what memory does not have of an answer.
  case restored(slot: Int, generation: UInt32)
  /// Nobody waits any more for a fetch whose own client has left.
  case deserted(slot: Int, generation: UInt32)
  /// What came of a fetch that a client waited for.
  case flightEnded(slot: Int, generation: UInt32, FlightOutcome)
  /// Someone waits for a place: kept connections there are to give up theirs.
  case yieldIdle(ConnectionQuota.Place)
  /// A connection that another worker took from a socket that all share. None comes behind `drain`.
  case accepted(Accepted)
  /// Operators have allowed or denied something for a time, or such a rule is over.
  case temporary(TemporaryRules)
  /// An operator has answered a request that waits.
  case operatorAnswered(QuestionWaiter, TemporaryRule.Verdict, by: String)
  /// Is to be answered: the watchdog asks whether the loop turns.
  case ping
  /// A tunnel of the daemon before this one. None comes after the start.
  case tunnel(StoredTunnel)
  /// Takes no more connections, ends idle ones, and lets the others finish until the deadline. `handsOver`: systemd keeps
  /// tunnels.
  case drain(deadline: Int64, handsOver: Bool)
  /// Refuses new requests, ends idle connections, and lets the others finish until the deadline. Goes on running.
  case refuse(deadline: Int64)
  /// Nothing but tunnels is left anywhere.
  case handOver
  /// The answer goes to `SharedState.reports`, with the number of the inquiry.
  case ask(Question, inquiry: UInt64)
}

/// What workers tell the daemon.
enum WorkerReport: Sendable {
  /// Every request from here on is decided by the policy that was sent last.
  case tookPolicy
  case answeredPing(worker: Int)
  /// The loop is over; what it has counted stays.
  case drained(worker: Int, Statistics)
  case answered(worker: Int, Answer, inquiry: UInt64)
  /// A server shows a certificate that carries a pin and expires soon, and did not before.
  case sawExpiringCertificate
  case networkChanged(NetworkMonitor.Change)
  /// A host of which the admin API was asked.
  case lookedUp(String, NameAnswer, inquiry: UInt64)
  /// While it drains: all that it has left are so many tunnels, which can be handed over.
  case onlyTunnels(worker: Int, Int)
  /// So many tunnels are systemd's.
  case handedOver(Int)
}

/// What is common to the workers of a daemon.
final class SharedState: Sendable {
  let listenAddresses: [SocketAddress]
  let resolver: Resolver
  let log: LogWriter
  let history: HistoryWriter
  /// Open client connections of all workers.
  let connections = Atomic<Int>(0)
  /// Client connections by who they belong to, as far as that has been asked, and those that wait for a place.
  let places = ClientPlaces()
  /// Clients that may be open at once whatever the limits say, so that descriptors are left for upstreams.
  let mostClients: Int
  let mailboxes: [Mailbox<WorkerMessage>]
  let reports = Mailbox<WorkerReport>()
  let quota: SharedQuota
  let events = EventHub()
  let heldBytes = ByteBudget()
  /// What of these each client holds.
  let heldShares = Locked(Shares<Claimant>())
  let tokens = TokenMints()
  let spooler = Spooler(directory: Spooler.usualDirectory)
  let pins = PinSightings()
  /// Requests that wait for the network.
  let waitingRequests = Atomic<Int>(0)
  let health = SharedHealth()
  let desk: OperatorDesk
  let clients = LocalClients()
  private let dealing: Locked<Dealing>

  /// Who gets the next connection of a socket that all share.
  private enum Dealing {
    case to(worker: Int)
    case over
  }

  /// Connections that wait for a place at once, of the whole process: as many as the kernel's queue usually holds for one
  /// listener (net.core.somaxconn was 128 for long) times eight, at some 100 bytes each. Of what they take of the
  /// descriptors that are kept from clients, half is left.
  private static let mostWaiting = 1024
  /// The same as far as the descriptors reach.
  let mostWaiting: Int

  /// Part of the descriptors, and at least so many, that are kept from clients.
  private static let reservedFraction = 10
  private static let leastReserved = 24

  init(
    listenAddresses: [SocketAddress], resolver: Resolver, log: LogWriter, workers: Int, descriptors: Int,
    limits: Limits
  ) {
    let reserved = max(Self.leastReserved, descriptors / Self.reservedFraction)
    mostClients = max(1, descriptors - reserved)
    mostWaiting = min(Self.mostWaiting, reserved / 2)
    self.listenAddresses = listenAddresses
    self.resolver = resolver
    self.log = log
    history = HistoryWriter(log)
    let mailboxes = (0..<workers).map { _ in Mailbox<WorkerMessage>() }
    self.mailboxes = mailboxes
    desk = OperatorDesk(mailboxes, log, events)
    dealing = Locked(.to(worker: 0))
    quota = SharedQuota(limit: limits.connectionsPerHost, share: limits.share) { granted in
      let waiter = granted.waiter
      mailboxes[waiter.worker].post(
        .place(slot: waiter.slot, generation: waiter.generation, granted.place, of: waiter.identity))
    }
  }

  /// Hands a connection to the worker whose turn it is; false where that is `worker` itself, or no other may get one.
  ///
  /// The kernel wakes the loop that began to wait last, which would get nearly all of them.
  func deal(_ connection: Accepted, from worker: Int) -> Bool {
    dealing.withLock { dealing in
      guard case .to(let next) = dealing else { return false }
      dealing = .to(worker: (next + 1) % mailboxes.count)
      guard next != worker else { return false }
      // Within the lock, so that it comes before `drain`: a worker that has ended reads no message.
      mailboxes[next].post(.accepted(connection))
      return true
    }
  }

  /// Tells the workers to drain.
  func drain(deadline: Int64, handsOver: Bool) {
    dealing.withLock { $0 = .over }
    for mailbox in mailboxes { mailbox.post(.drain(deadline: deadline, handsOver: handsOver)) }
  }

  func handOver() { for mailbox in mailboxes { mailbox.post(.handOver) } }
}

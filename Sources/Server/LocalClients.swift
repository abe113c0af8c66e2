// Who the programs are that connect: the kernel is asked whose socket is at the other end (sock_diag(7)), and what it
// answers, a user id and the id of a control group, is turned into names on a thread of its own, once for each pair.
//
// A socket is asked for while the connection stands, and the answer counts only if the connection still stands behind it:
// its two ends are one pair of addresses and ports, which nobody else can have as long as ours is open.

import Bytes
import Policy
import Reachability
import Transport

/// Names for ids, of all loops.
final class LocalClients: Sendable {
  struct Key: Hashable, Sendable {
    let userID: UInt32
    let cgroup: UInt64?
  }

  private struct Known {
    let client: LocalClient
    let until: Int64
  }

  /// How long names are relied on, in milliseconds: users are renamed rarely, and control groups never.
  static let namesMilliseconds: Int64 = 60_000
  /// The same of a control group that was not found, for it may have been too young to be seen.
  static let missingMilliseconds: Int64 = 1000
  /// Pairs that are remembered: services and sessions of a large machine.
  static let mostKnown = 4096

  private let known = Locked<[Key: Known]>([:])
  private let requests = Mailbox<@Sendable () -> Void>()

  /// The thread is started when it is first needed.
  private let isStarted = Locked(false)

  func find(_ key: Key, now: Int64) -> LocalClient? {
    known.withLock { known in known[key].flatMap { $0.until > now ? $0.client : nil } }
  }

  /// Looks the names up; `completion` runs on another thread and must only pass the answer on.
  func lookUp(_ key: Key, completion: @escaping @Sendable (LocalClient) -> Void) {
    let wasStarted = isStarted.withLock { started in
      defer { started = true }
      return started
    }
    let requests = self.requests
    if !wasStarted {
      startThread(named: "clients") { while true { Self.answer(requests) } }
    }
    requests.post { completion(self.names(of: key)) }
  }

  /// See `startThread`.
  @inline(never)
  private static func answer(_ requests: Mailbox<@Sendable () -> Void>) {
    _ = Poll.either(requests.descriptor, requests.descriptor, milliseconds: -1)
    for request in requests.takeAll() { request() }
  }

  private func names(of key: Key) -> LocalClient {
    if let client = find(key, now: Clock.monotonic) { return client }
    let path = key.cgroup.flatMap(ControlGroups.path)
    let client = LocalClient(userID: key.userID, user: Accounts.userName(key.userID), cgroup: path ?? [])
    let isWhole = path != nil || key.cgroup == nil
    known.withLock { known in
      if known.count >= Self.mostKnown { known = [:] }
      let time = isWhole ? Self.namesMilliseconds : Self.missingMilliseconds
      known[key] = Known(client: client, until: Clock.monotonic + time)
    }
    return client
  }
}

/// What one loop asks the kernel with.
struct SocketOwners: ~Copyable {
  private let socket: NetlinkSocket?
  private var sequence: UInt32 = 0
  private var request = ByteBuffer()
  private var answer = ByteBuffer()
  /// Clients that left before they were known.
  var departures = RepeatedEvent()

  init() {
    if case .success(let opened) = NetlinkSocket.open(.socketDiagnosis) { socket = opened } else { socket = nil }
  }

  enum Answer {
    case owner(LocalClients.Key)
    /// Nobody on this machine has it, or not for certain.
    case unknown
    /// The client's program is gone, and with it what could be known of it.
    case left
  }

  /// Who has the other end of a connection that was accepted.
  mutating func owner(of connection: Accepted) -> Answer {
    let answer = ask(connection)
    // What was found may be of the next one to have the port.
    return connection.descriptor.isConnected ? answer : .left
  }

  private mutating func ask(_ connection: Accepted) -> Answer {
    guard let socket, let local = connection.localAddress else { return .unknown }
    let peer = connection.peer
    sequence &+= 1
    request.removeAll()
    SocketDiagnosis.write(
      local: IPAddress(peer), localPort: peer.port, remote: IPAddress(local), remotePort: local.port,
      sequence: sequence, to: &request)
    guard socket.send(request) else { return .unknown }
    while socket.receive(into: &answer) == .datagram {
      let found = SocketDiagnosis.read(
        answer.bytes, sequence: sequence, local: IPAddress(peer), localPort: peer.port, remote: IPAddress(local),
        remotePort: local.port)
      switch found {
      case nil: continue
      case .owner(let userID, let cgroup): return .owner(LocalClients.Key(userID: userID, cgroup: cgroup))
      case .unknown(.orphan): return .left
      case .unknown: return .unknown
      }
    }
    return .unknown
  }
}

extension Conversation {
  /// Whether the client is known as far as the policy asks; where its names have to be looked up, it waits, and where it is
  /// gone, so is the connection.
  func knowsClient(_ worker: Worker) -> Bool {
    if flags.contains(.identified) || !worker.policy.asksForClient { return true }
    if flags.contains(.awaitsNames) { return false }
    let key: LocalClients.Key
    switch worker.owners.owner(of: connection) {
    case .owner(let found): key = found
    case .unknown:
      flags.insert(.identified)
      return true
    case .left:
      // Else whoever closes behind a request would pass the rules that deny it. Nobody is left to read an answer.
      noteDeparture(worker)
      close(worker)
      return false
    }
    if let client = worker.shared.clients.find(key, now: worker.now) {
      flags.insert(.identified)
      session.client = client
      return true
    }
    flags.insert(.awaitsNames)
    let mailbox = worker.shared.mailboxes[worker.index]
    let slot = self.slot
    let generation = worker.generation(slot)
    worker.shared.clients.lookUp(key) { mailbox.post(.identified(slot: slot, generation: generation, $0)) }
    return false
  }

  private func noteDeparture(_ worker: Worker) {
    guard let others = worker.owners.departures.happened(now: worker.now) else { return }
    let more = others == 0 ? "" : "; \(others) more since the last such line"
    worker.shared.log.event(
      .info, "the client at \(text(of: peer)) left before it was known who it is, and is not served\(more)")
  }

  func identified(_ client: LocalClient, _ worker: Worker) {
    flags.remove(.awaitsNames)
    flags.insert(.identified)
    session.client = client
    settle(worker)
  }
}

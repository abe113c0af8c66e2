// Identifies a client before its requests are decided: once for a connection or, if the answer is incomplete, again for
// each request, because unknown parts are not remembered. If no rule asks and only the log wants the names, no request
// is refused for them, and none waits long.

import Bytes
import Policy
import Session
import Sharing
import Transport

/// What is known about the client that owns a connection.
struct KnownClient {
  struct Facts: OptionSet {
    let rawValue: UInt8

    /// The owner of the client's socket is known.
    static let identified = Facts(rawValue: 1 << 0)
    /// Only some facts about the client are known, and they hold only for its next request.
    static let identifiedForNext = Facts(rawValue: 1 << 1)
    /// The names of the client are being looked up; meanwhile nothing is read from it.
    static let awaited = Facts(rawValue: 1 << 2)
    /// It counts for its client in `limits.connections`.
    static let counted = Facts(rawValue: 1 << 3)
    /// The kernel was asked who the client is, but the client was already gone.
    static let left = Facts(rawValue: 1 << 4)
    /// Its program was searched for: once per connection and policy, because a second search would find no more.
    static let programSought = Facts(rawValue: 1 << 5)
  }

  /// What the conversation does next with a request.
  enum Step {
    /// As much is known as the policy and the log need.
    case known
    /// The names are being looked up: the request waits.
    case awaited
    /// The client is gone, and a rule asks who it was: its connection is closed. Otherwise a client that closes right
    /// after a request would get past the rules that deny it.
    case gone
  }

  private var facts: Facts = []
  /// Whose connection it is; nil until that has to be known.
  private(set) var claimant: Claimant?
  /// The look-up of its names, in progress until the deadline at most.
  private var lookUp: LookUp?
  private(set) var deadline = Int64.max

  init(_ claimant: Claimant? = nil) { self.claimant = claimant }

  var isIdentified: Bool { facts.contains(.identified) }
  var isAwaited: Bool { facts.contains(.awaited) }
  /// It was gone when the kernel was asked who it is.
  var hasLeft: Bool { facts.contains(.left) }

  // MARK: Its names

  /// `slot`: that of the conversation, which gets the outcome of a look-up as a message.
  mutating func identify(
    _ connection: Accepted, slot: Int, _ origin: inout RequestOrigin, on worker: Worker
  ) -> Step {
    if isAwaited { return .awaited }
    if facts.contains(.identifiedForNext) {
      facts.remove(.identifiedForNext)
      return .known
    }
    switch worker.owners.owner(of: connection, now: worker.now) {
    case .owner(let key, let inode): return findNames(of: key, inode, slot: slot, &origin, on: worker)
    case .nobody:
      origin.client = nil
      facts.insert(.identified)
    case .unknown(let reason):
      origin.client = .unknown
      if worker.asksForClient {
        worker.owners.tellOfUnknown(connection.peer, reason, now: worker.now)
      } else {
        facts.insert(.identified)
      }
    case .gone where worker.asksForClient: return .gone
    case .gone:
      // It has sent its request, and does not wait for the answer.
      origin.client = .unknown
      facts.insert(.identified)
    }
    return .known
  }

  /// The names of a client may be known already. If not, they are looked up, and its program with them if there is
  /// time.
  private mutating func findNames(
    of key: LocalClients.Key, _ inode: UInt32, slot: Int, _ origin: inout RequestOrigin, on worker: Worker
  ) -> Step {
    if claimant == nil { claimant = .user(worker.shared.clients.principal(of: key.userID)) }
    let wantsProgram =
      worker.policy.identity.namesPrograms && !facts.contains(.programSought)
      && (worker.policy.identity.asksForProgram || worker.shared.clients.mayLookForPrograms(now: worker.now))
    if !wantsProgram, let client = worker.shared.clients.find(key, now: worker.now) {
      take(client, &origin, on: worker)
      facts.remove(.identifiedForNext)
      return .known
    }
    facts.insert(.awaited)
    if wantsProgram { facts.insert(.programSought) }
    let lookUp = LookUp()
    self.lookUp = lookUp
    let patience =
      worker.asksForClient ? LocalClients.deadlineMilliseconds : LocalClients.logDeadlineMilliseconds
    deadline = worker.now + patience
    origin.client = LocalClient(userID: key.userID, user: nil, cgroup: nil)
    let mailbox = worker.shared.mailboxes[worker.index]
    let generation = worker.generation(slot)
    let request = LocalClients.Request(
      lookUp: lookUp, inode: wantsProgram ? inode : nil, needsProgram: worker.policy.identity.asksForProgram
    ) { client, program in
      mailbox.post(.identified(slot: slot, generation: generation, lookUp, client, program: program))
    }
    worker.shared.clients.lookUp(key, request)
    return .awaited
  }

  /// Whether this look-up is in progress: one that was called off may have just ended.
  func awaits(_ lookUp: LookUp) -> Bool { self.lookUp === lookUp }

  /// If a rule asks for something that is in doubt, it is looked up again for the next request. The log uses what is
  /// known.
  mutating func take(_ client: LocalClient, _ origin: inout RequestOrigin, on worker: Worker) {
    origin.client = client
    facts.insert(client.outcome == .known || !worker.asksForClient ? .identified : .identifiedForNext)
  }

  /// The look-up has ended, or the request no longer waits for it.
  mutating func endLookUp() {
    lookUp?.callOff()
    lookUp = nil
    deadline = .max
    facts.remove(.awaited)
  }

  /// The client cannot be identified in time. nil: only the log wanted its names, and it has its number; otherwise, why
  /// the request is refused.
  mutating func giveUp(_ origin: inout RequestOrigin, _ worker: Worker) -> Problem? {
    guard worker.asksForClient else {
      facts.insert(.identified)
      return nil
    }
    origin.client = .unknown
    return Problem(
      .clientNotIdentified,
      "Rules of the policy ask which user, unit or program sends the request, and the look-up did not end within "
        + "\(LocalClients.deadlineMilliseconds) ms. Try again.")
  }

  /// Another policy is in force: users may have other names now, and subordinate users other owners.
  mutating func forgetNames() { facts.remove([.identified, .identifiedForNext, .programSought]) }

  // MARK: Its share

  /// The owner of the connection. The kernel is asked once.
  mutating func claimant(of connection: Accepted, _ worker: Worker) -> Claimant {
    if let claimant { return claimant }
    let found = worker.owners.identity(of: connection, now: worker.now)
    if found == nil { facts.insert(.left) }
    let claimant = found ?? Claimant(IPAddress(connection.peer))
    self.claimant = claimant
    return claimant
  }

  /// Counts the connection for its client in `limits.connections`.
  mutating func count(_ connection: Accepted, _ worker: Worker) {
    if facts.contains(.counted) { return }
    worker.shared.places.count(claimant(of: connection, worker))
    facts.insert(.counted)
  }

  /// The connection is gone.
  func discount(_ worker: Worker) {
    if facts.contains(.counted), let claimant { worker.shared.places.discount(claimant) }
  }

  /// The same client, for a conversation that is no connection of its own: it is not counted.
  var uncounted: KnownClient {
    var other = KnownClient(claimant)
    other.facts = facts.subtracting(.counted)
    return other
  }
}

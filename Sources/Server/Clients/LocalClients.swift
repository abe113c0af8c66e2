// Names of the programs that connect. The kernel gives a user id and a control group id for a socket. A separate thread
// turns them into names, once for each pair.
//
// Users take turns, so a user with thousands of clients does not keep another's waiting. Unknown ids of control groups
// wait for a walk of the tree, which finds all of them. A walk is made in steps, and known clients are answered in
// between. A control group that a walk does not find, if it began after the question, does not exist: the client's unit
// is then unknown.

import Bytes
import Policy
import Transport

/// Names for ids, shared by all loops.
final class LocalClients: Sendable {
  struct Key: Hashable, Sendable {
    let userID: UInt32
    let cgroup: UInt64?
  }

  struct Request: Sendable {
    let lookUp: LookUp
    /// The socket whose program is to be found; nil: none.
    let inode: UInt32?
    /// A rule asks for the program: it is searched for however long that takes.
    let needsProgram: Bool
    /// Runs on the look-up thread, and must only pass the answer on: the client, and its program if it was found.
    let completion: @Sendable (LocalClient, String?) -> Void
  }

  private struct Known {
    let client: LocalClient
    let until: Int64
  }

  private struct Memory {
    var clients: [Key: Known] = [:]
    var subordinates = SubordinateUsers.read()
    /// Counts the reloads: results of look-ups from before a reload are not kept after it.
    var generation = 0
  }

  /// How long names are relied on, in milliseconds: users are rarely renamed, and control groups never.
  static let namesMilliseconds: Int64 = 60_000
  /// How long a missing control group counts as missing, so that a client in one does not cost a walk for each request.
  static let missingMilliseconds: Int64 = 1000
  /// How many pairs are remembered: the services and sessions of a large machine.
  static let mostKnown = 4096
  /// How long a client waits for its look-up, in milliseconds: a directory service answers in well under a second, or
  /// is not there.
  static let deadlineMilliseconds: Int64 = 5000
  /// The same if only the log asks: a slower answer is not worth the wait of a request.
  static let logDeadlineMilliseconds: Int64 = 100

  private let memory = Locked(Memory())
  private let queue = Locked(LookUpQueue<Key, UInt32, Request>())
  private let allowance = Locked(LookUpAllowance())
  private let wake = Wake()
  /// The thread is started when first needed.
  private let isStarted = Locked(false)

  func find(_ key: Key, now: Int64) -> LocalClient? {
    memory.withLock { memory in memory.clients[key].flatMap { $0.until > now ? $0.client : nil } }
  }

  /// The user that a user counts as, for turns and shares: the owner, if it is a subordinate user.
  func principal(of userID: UInt32) -> UInt32 { memory.withLock { $0.subordinates.principal(of: userID) } }

  /// Whether there is time to look for programs.
  func mayLookForPrograms(now: Int64) -> Bool { allowance.withLock { $0.allows(now: now) } }

  /// Looks the names up.
  func lookUp(_ key: Key, _ request: Request) {
    let owner = principal(of: key.userID)
    let wasEmpty = queue.withLock { queue in
      defer { queue.add(request, for: key, of: owner) }
      return queue.isEmpty
    }
    if wasEmpty { wake.signal() }
    isStarted.withLock { started in
      if started { return }
      // Otherwise the clients that ask stay unknown, and the next one tries again.
      started =
        tryStartThread(named: "clients") {
          let thread = LookUpThread(self)
          while true { Self.turn(thread) }
        } == nil
    }
  }

  /// Reads the subordinate users again; names are looked up again. This reads a file, so no loop calls it.
  func forget() {
    let subordinates = SubordinateUsers.read()
    memory.withLock { memory in
      memory.subordinates = subordinates
      memory.clients = [:]
      memory.generation += 1
    }
  }

  /// See `startThread`.
  @inline(never)
  private static func turn(_ thread: LookUpThread) { thread.turn() }
}

// MARK: For the thread

extension LocalClients {
  typealias Entry = LookUpQueue<Key, UInt32, Request>.Entry

  fileprivate func spend(microseconds: Int64) { allowance.withLock { $0.spend(microseconds: microseconds) } }

  fileprivate func next() -> Entry? { queue.withLock { $0.next() } }

  /// Waits for a look-up, at most this long (-1: for ever).
  fileprivate func wait(milliseconds: Int32) {
    _ = Poll.either(wake.descriptor, wake.descriptor, milliseconds: milliseconds)
    wake.clear()
  }

  fileprivate var state: (generation: Int, subordinates: SubordinateUsers) {
    memory.withLock { ($0.generation, $0.subordinates) }
  }

  fileprivate func keep(_ client: LocalClient, for key: Key, milliseconds: Int64, generation: Int) {
    memory.withLock { memory in
      guard memory.generation == generation else { return }
      if memory.clients.count >= Self.mostKnown { memory.clients = [:] }
      memory.clients[key] = Known(client: client, until: Clock.monotonic + milliseconds)
    }
  }
}

/// The state of the look-up thread, and its current walk.
private final class LookUpThread {
  private typealias Waiting = [UInt64: [LocalClients.Entry]]

  private struct User {
    let name: String?
    let owners: [UInt32]
    let isInDoubt: Bool
    let until: Int64
  }

  /// How many look-ups begin before the walk continues, and how many directories are read before the next look-ups.
  private static let lookUpsPerTurn = 64
  private static let directoriesPerTurn = 64
  /// The longest pause between two walks, in milliseconds. Each pause is as long as the walk was, so a client that
  /// creates control groups without end uses at most half a core.
  private static let longestRestMilliseconds: Int64 = 250

  private let clients: LocalClients
  private var tree = ControlGroupTree()
  private var users: [UInt32: User] = [:]
  private var programs = ProgramFinder()
  private var generation = 0
  private var subordinates = SubordinateUsers()
  private var walk: ControlGroupWalk?
  private var walkBegan: Int64 = 0
  private var nextWalk: Int64 = 0
  /// Those whose group the current walk finds if it exists, and those that came after the walk began.
  private var waiting: Waiting = [:]
  private var late: Waiting = [:]
  /// Whether the queue may have more entries than the last turn took: only the first of them wakes the thread.
  private var hasMore = false

  init(_ clients: LocalClients) { self.clients = clients }

  func turn() {
    if walk == nil, !hasMore {
      let rest = max(0, nextWalk - Clock.monotonic)
      clients.wait(milliseconds: late.isEmpty ? -1 : Int32(clamping: rest))
    }
    let state = clients.state
    if state.generation != generation {
      generation = state.generation
      users = [:]
    }
    subordinates = state.subordinates
    hasMore = false
    for _ in 0..<Self.lookUpsPerTurn {
      guard let entry = clients.next() else { break }
      begin(entry)
      hasMore = true
    }
    if walk == nil, !late.isEmpty, Clock.monotonic >= nextWalk { beginWalk() }
    goOn()
  }

  private func begin(_ entry: LocalClients.Entry) {
    guard entry.requests.contains(where: \.lookUp.isWanted) else { return }
    if let client = clients.find(entry.key, now: Clock.monotonic) { return tell(client, entry) }
    guard let id = entry.key.cgroup else { return finish(entry, cgroup: nil, isCertain: true) }
    if let path = tree.path(of: id) ?? walk?.tree.path(of: id) {
      return finish(entry, cgroup: path, isCertain: true)
    }
    late[id, default: []].append(entry)
  }

  // MARK: The walk

  private func beginWalk() {
    waiting = late.compactMapValues { entries in
      let wanted = entries.filter { $0.requests.contains(where: \.lookUp.isWanted) }
      return wanted.isEmpty ? nil : wanted
    }
    late = [:]
    if waiting.isEmpty { return }
    walk = ControlGroupWalk()
    walkBegan = Clock.monotonic
  }

  private func goOn() {
    guard walk != nil else { return }
    var found: [UInt64] = []
    for _ in 0..<Self.directoriesPerTurn {
      if walk?.isOver ?? true { break }
      walk?.step { id in if waiting[id] != nil || late[id] != nil { found.append(id) } }
    }
    guard let walk else { return }
    for id in found { finish(id, cgroup: walk.tree.path(of: id)) }
    if walk.isOver { end(walk) }
  }

  private func end(_ walk: ControlGroupWalk) {
    self.walk = nil
    tree = walk.tree
    let now = Clock.monotonic
    nextWalk = now + min(now - walkBegan, Self.longestRestMilliseconds)
    let missing = waiting
    waiting = [:]
    for (id, entries) in missing {
      let path = tree.path(of: id)
      for entry in entries { finish(entry, cgroup: path, isCertain: path != nil || walk.isWhole) }
    }
  }

  private func finish(_ id: UInt64, cgroup: [String]?) {
    let entries = (waiting.removeValue(forKey: id) ?? []) + (late.removeValue(forKey: id) ?? [])
    for entry in entries { finish(entry, cgroup: cgroup, isCertain: true) }
  }

  // MARK: The names

  /// `cgroup`: the components of its path; nil if there is none. `isCertain`: whether another walk would find the same.
  private func finish(_ entry: LocalClients.Entry, cgroup: [String]?, isCertain: Bool) {
    let user = user(entry.key.userID)
    let client = LocalClient(
      userID: entry.key.userID, user: user.name, owners: user.owners, cgroup: cgroup, isUserInDoubt: user.isInDoubt)
    if isCertain, !user.isInDoubt {
      let time = cgroup == nil ? LocalClients.missingMilliseconds : LocalClients.namesMilliseconds
      clients.keep(client, for: entry.key, milliseconds: time, generation: generation)
    }
    tell(client, entry)
  }

  private func tell(_ client: LocalClient, _ entry: LocalClients.Entry) {
    for request in entry.requests where request.lookUp.isWanted {
      request.completion(client, program(of: request, entry.key.userID))
    }
  }

  private func program(of request: LocalClients.Request, _ userID: UInt32) -> String? {
    guard let inode = request.inode, request.needsProgram || clients.mayLookForPrograms(now: Clock.monotonic) else {
      return nil
    }
    let begun = Clock.monotonicMicroseconds
    defer { clients.spend(microseconds: Clock.monotonicMicroseconds - begun) }
    return programs.program(
      holding: inode, of: userID,
      within: request.needsProgram ? ProgramFinder.longestNeededMicroseconds : ProgramFinder.longestMicroseconds)
  }

  private func user(_ number: UInt32) -> User {
    if let known = users[number], known.until > Clock.monotonic { return known }
    let owners = subordinates.ownerNumbers(of: number)
    let user = User(
      name: Accounts.userName(number), owners: owners ?? [],
      isInDoubt: owners == nil || number == Accounts.ambiguousUser,
      until: Clock.monotonic + LocalClients.namesMilliseconds)
    // What could not be looked up is tried again.
    if !user.isInDoubt {
      if users.count >= LocalClients.mostKnown { users = [:] }
      users[number] = user
    }
    return user
  }
}

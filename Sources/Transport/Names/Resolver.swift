// Resolves names to addresses, on its own thread.
//
// c-ares asks the servers without blocking, but reads /etc/hosts and /etc/resolv.conf as files, and a hosts file may
// have a hundred thousand lines: no loop waits for that. The loops post a name and what to do with the answer, and keep
// answers until they expire. The cache here is shared by all loops, and concurrent look-ups of one name are one
// look-up.
//
// Both families are asked for at once. The answer is given when both are there or, so that a broken AAAA delays no one,
// 50 ms after the first that has addresses (RFC 8305, 3).

import CCAres
import CLinux
import Glibc
import Sharing
import Synchronization

/// The outcome of a look-up.
public enum NameAnswer: Sendable, Equatable {
  /// Addresses, IPv6 first and then alternating (RFC 8305, 4), and how long they are valid. Ports are zero.
  case addresses([SocketAddress], validMilliseconds: Int64)
  /// The name does not exist or has no address.
  case notFound
  /// No server gave a usable answer; the reason, in c-ares' words.
  case failed(String)
  case timedOut
}

/// How names are looked up.
public struct ResolverSettings: Sendable, Equatable {
  /// Empty: resolv.conf and the hosts file.
  public let servers: [String]
  public let timeoutMilliseconds: Int64
  /// The ceiling for a record's own TTL.
  public let cacheMilliseconds: Int64

  /// `servers` in the form `address:port`, IPv6 in brackets.
  public init(servers: [String], timeoutMilliseconds: Int64, cacheMilliseconds: Int64) {
    self.servers = servers
    self.timeoutMilliseconds = timeoutMilliseconds
    self.cacheMilliseconds = cacheMilliseconds
  }
}

/// The handle for the loops. Its thread runs as long as the process.
public final class Resolver: Sendable {
  public typealias Completion = @Sendable (NameAnswer) -> Void

  enum Message: Sendable {
    case lookUp(LookUp, String, Claimant?, Completion)
    case cancel(LookUp)
    case configure(ResolverSettings)
    case networkChanged
  }

  /// Identifies a question, so that it can be cancelled.
  public struct LookUp: Hashable, Sendable {
    let number: UInt64
  }

  private let mailbox = Mailbox<Message>()
  private let lookUps = Atomic<UInt64>(0)

  public init(_ settings: ResolverSettings) {
    let mailbox = self.mailbox
    startThread(named: "resolver") { ResolverLoop(mailbox, settings).run() }
  }

  /// Looks `name` up. `completion` runs on the resolver's thread and must only pass the answer on. `client`: who asks;
  /// nil is the daemon itself.
  @discardableResult
  public func lookUp(_ name: String, for client: Claimant? = nil, completion: @escaping Completion) -> LookUp {
    let lookUp = LookUp(number: lookUps.add(1, ordering: .relaxed).newValue)
    mailbox.post(.lookUp(lookUp, name, client, completion))
    return lookUp
  }

  /// The answer is no longer needed. It may already be on its way.
  public func cancel(_ lookUp: LookUp) { mailbox.post(.cancel(lookUp)) }

  /// Changes the settings and empties the cache.
  public func configure(_ settings: ResolverSettings) { mailbox.post(.configure(settings)) }

  /// On another network, names may have other addresses, and other servers may know them. Empties the cache, reads
  /// resolv.conf again, and repeats the questions in progress.
  public func networkChanged() { mailbox.post(.networkChanged) }
}

/// One name being looked up.
private final class Query {
  let name: String
  var completions: [(lookUp: Resolver.LookUp, completion: Resolver.Completion)]
  /// The client whose turn sent the question to the servers; nil: it has not been sent.
  var asker: Claimant? = nil
  let deadline: Int64
  /// When a first family with addresses is used alone.
  var settleAt = Int64.max
  var families: [SocketFamily: FamilyAnswer] = [:]
  unowned let loop: ResolverLoop

  init(_ name: String, deadline: Int64, _ loop: ResolverLoop) {
    self.name = name
    completions = []
    self.deadline = deadline
    self.loop = loop
  }
}

private enum SocketFamily: Hashable { case ipv4, ipv6 }

private enum FamilyAnswer {
  case addresses([SocketAddress], ttlSeconds: Int64)
  case notFound
  case failed(Int32)
}

/// What c-ares hands back: which query, and which family.
private final class QueryTicket {
  let query: Query
  let family: SocketFamily
  let generation: Int

  init(_ query: Query, _ family: SocketFamily, generation: Int) {
    self.query = query
    self.family = family
    self.generation = generation
  }
}

private final class ResolverLoop {
  /// How many names the servers are asked for at once, and how many of these for one client, whether others wait or
  /// not. A question to the servers cannot be taken back, and if a client's servers do not answer, it blocks a place
  /// for seconds. Four such clients together still leave the others theirs; 256 names at a time are 2,500 a second from
  /// a server 100 ms away.
  static let mostAsked = 1280
  static let mostAskedOfOne = 256
  /// How many questions are sent in one turn, so that the turn, which serves everyone, takes only some milliseconds.
  static let mostBegunInTurn = 64
  /// How many cancelled questions may be in the queue before it is cleaned up.
  static let mostLeft = 1024

  /// RFC 8305, 8: how long the second family is waited for.
  static let resolutionDelayMilliseconds: Int64 = 50
  /// How long a negative answer is kept: long enough to break a storm, short enough to see a new name.
  static let negativeMilliseconds: Int64 = 5_000
  /// Records with no or almost no TTL still serve requests that come together.
  static let shortestMilliseconds: Int64 = 1_000
  /// How many names are remembered: at about 200 bytes each, 2 MB.
  static let longestCache = 10_000
  /// How often resolv.conf is checked at most.
  static let checkMilliseconds: Int64 = 1_000
  /// How many sockets of c-ares are polled at once: one for each server and family, and TCP; more wait for the next
  /// turn.
  static let longestPoll = 60

  private struct Remembered {
    let answer: NameAnswer
    let until: Int64
  }

  private let mailbox: Mailbox<Resolver.Message>
  private var settings: ResolverSettings
  private var channel: ares_channel?
  private var channelError: Int32 = 0
  private var sockets: [Int32: (read: Bool, write: Bool)] = [:]
  private var queries: [String: Query] = [:]
  /// Names that wait to be asked for; a name may be in the queue for several clients.
  private var waiting = FairQueue<Claimant, Query>()
  private var asked = Shares<Claimant>()
  private var left = 0
  /// The earliest time when a query has waited long enough.
  private var nextDue = Int64.max
  /// The name that each look-up waits for.
  private var names: [Resolver.LookUp: String] = [:]
  /// Queries that were answered because their time was over, while c-ares still works on them.
  private var outstanding = 0
  private var cache: [String: Remembered] = [:]
  /// Counts the channels.
  private var generation = 0
  private var checkedAt: Int64 = 0
  private var modified: Int64 = 0

  init(_ mailbox: Mailbox<Resolver.Message>, _ settings: ResolverSettings) {
    self.mailbox = mailbox
    self.settings = settings
    guard ares_library_init(ARES_LIB_INIT_ALL) == 0 else { fatalError("c-ares could not be initialised") }
  }

  func run() -> Never { while true { turn() } }

  /// See `startThread`.
  @inline(never)
  private func turn() {
    var entries = [
      cl_poll_entry(
        fd: mailbox.descriptor.number, wants_read: true, wants_write: false, can_read: false, can_write: false)
    ]
    for (number, wants) in sockets.prefix(Self.longestPoll) {
      entries.append(
        cl_poll_entry(fd: number, wants_read: wants.read, wants_write: wants.write, can_read: false, can_write: false)
      )
    }
    let count = Int32(entries.count)
    _ = cl_poll(&entries, count, Int32(clamping: millisecondsToWait()))
    if entries[0].can_read { takeMessages() }
    if let channel {
      for entry in entries.dropFirst() where entry.can_read || entry.can_write {
        // Processing the previous socket may have closed this one.
        guard sockets[entry.fd] != nil else { continue }
        ares_process_fd(
          channel, entry.can_read ? entry.fd : ARES_SOCKET_BAD, entry.can_write ? entry.fd : ARES_SOCKET_BAD)
      }
      ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD)
    }
    askMore()
    settle(now: Clock.monotonic)
  }

  private func millisecondsToWait() -> Int64 {
    let now = Clock.monotonic
    var wait: Int64 = queries.isEmpty && outstanding == 0 ? -1 : 60_000
    if !queries.isEmpty { wait = min(wait, max(0, nextDue - now)) }
    if mayAskMore { wait = 0 }
    if let channel, !sockets.isEmpty {
      var room = timeval()
      if let next = ares_timeout(channel, nil, &room) {
        wait = min(wait < 0 ? .max : wait, Int64(next.pointee.tv_sec) * 1000 + Int64(next.pointee.tv_usec) / 1000 + 1)
      }
    }
    return wait
  }

  private func takeMessages() {
    for message in mailbox.takeAll() {
      switch message {
      case .lookUp(let number, let name, let client, let completion):
        lookUp(number, name, client: client, completion: completion)
      case .cancel(let number): cancel(number)
      case .configure(let new):
        guard new != settings else { continue }
        settings = new
        askAnew()
      case .networkChanged: askAnew()
      }
    }
  }

  /// Repeats the look-ups in progress, with the servers that are valid from now on.
  private func askAnew() {
    // Answers from the old channel while it is destroyed are ignored.
    generation += 1
    forget()
    guard !queries.isEmpty, let channel = openChannel() else { return }
    for query in Array(queries.values) where query.asker != nil {
      query.families = [:]
      query.settleAt = .max
      ask(channel, query, family: .ipv6)
      ask(channel, query, family: .ipv4)
    }
  }

  private func lookUp(
    _ number: Resolver.LookUp, _ name: String, client: Claimant?, completion: @escaping Resolver.Completion
  ) {
    let now = Clock.monotonic
    if let local = Self.localhost(name) { return completion(local) }
    reopenIfChanged(now: now)
    if let known = cache[name], known.until > now { return completion(known.answer.aged(by: now, until: known.until)) }
    if openChannel() == nil { return completion(.failed(String(cString: ares_strerror(channelError)))) }
    let query = queries[name] ?? Query(name, deadline: now + settings.timeoutMilliseconds, self)
    queries[name] = query
    nextDue = min(nextDue, query.deadline)
    query.completions.append((number, completion))
    names[number] = name
    // A second client that asks for the same name has its own turn: it does not wait for the first one's.
    if query.asker == nil { waiting.append(query, of: client ?? .daemon) }
  }

  /// The asker has left. A question that has been sent goes on, and its answer is remembered for the next look-up.
  private func cancel(_ number: Resolver.LookUp) {
    guard let name = names.removeValue(forKey: number), let query = queries[name] else { return }
    query.completions.removeAll { $0.lookUp == number }
    guard query.completions.isEmpty, query.asker == nil else { return }
    queries[name] = nil
    left += 1
    guard left > Self.mostLeft, left > waiting.count / 2 else { return }
    waiting.removeAll { self.queries[$0.name] !== $0 }
    left = 0
  }

  private var mayAskMore: Bool {
    guard channel != nil, asked.total < Self.mostAsked else { return false }
    let asked = self.asked
    guard let next = waiting.next(by: { asked.held(by: $0) }) else { return false }
    return asked.held(by: next.identity) < Self.mostAskedOfOne
  }

  /// Sends waiting questions to the servers: first those of the client with the fewest in progress.
  private func askMore() {
    if waiting.isEmpty { return }
    var begun = 0
    while begun < Self.mostBegunInTurn, mayAskMore, let channel = openChannel() {
      let asked = self.asked
      guard let (query, client) = waiting.takeNext(by: { asked.held(by: $0) }) else { return }
      // It has been answered, or sent in another client's turn, or no one waits for it any more.
      guard queries[query.name] === query, query.asker == nil else { continue }
      begun += 1
      query.asker = client
      self.asked.take(for: client)
      ask(channel, query, family: .ipv6)
      ask(channel, query, family: .ipv4)
    }
  }

  private func ask(_ channel: ares_channel, _ query: Query, family: SocketFamily) {
    var hints = ares_addrinfo_hints()
    hints.ai_family = family == .ipv4 ? AF_INET : AF_INET6
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = Int32(ARES_AI_NOSORT)
    outstanding += 1
    let ticket = Unmanaged.passRetained(QueryTicket(query, family, generation: generation))
    ares_getaddrinfo(
      channel, query.name, nil, &hints,
      { argument, status, _, result in
        guard let argument else { return }
        let ticket = Unmanaged<QueryTicket>.fromOpaque(argument).takeRetainedValue()
        ticket.query.loop.answered(ticket, ResolverLoop.read(status, result))
        if let result { ares_freeaddrinfo(result) }
      }, ticket.toOpaque())
  }

  private static func read(_ status: Int32, _ result: UnsafeMutablePointer<ares_addrinfo>?) -> FamilyAnswer {
    guard status == Int32(ARES_SUCCESS), let result else {
      let missing = [ARES_ENOTFOUND, ARES_ENODATA].map { Int32($0) }
      return missing.contains(status) ? .notFound : .failed(status)
    }
    var addresses: [SocketAddress] = []
    var ttl = Int64.max
    var node = result.pointee.nodes
    while let current = node {
      if let address = SocketAddress(current.pointee.ai_addr), !addresses.contains(address) {
        addresses.append(address)
        ttl = min(ttl, Int64(current.pointee.ai_ttl))
      }
      node = current.pointee.ai_next
    }
    // An alias on the way is valid no longer than its own TTL, whatever it led to.
    var alias = result.pointee.cnames
    while let current = alias {
      ttl = min(ttl, Int64(current.pointee.ttl))
      alias = current.pointee.next
    }
    return addresses.isEmpty ? .notFound : .addresses(addresses, ttlSeconds: ttl)
  }

  private func answered(_ ticket: QueryTicket, _ answer: FamilyAnswer) {
    outstanding -= 1
    guard ticket.generation == generation else { return }
    let query = ticket.query
    let family = ticket.family
    query.families[family] = answer
    guard queries[query.name] === query else { return }
    if query.families.count == 2 {
      finish(query)
    } else if case .addresses = answer {
      query.settleAt = min(query.deadline, Clock.monotonic + Self.resolutionDelayMilliseconds)
      nextDue = min(nextDue, query.settleAt)
    }
  }

  /// Ends the queries that have waited long enough.
  private func settle(now: Int64) {
    if now >= nextDue {
      nextDue = .max
      for query in Array(queries.values) {
        let due = min(query.settleAt, query.deadline)
        if now >= due { finish(query) } else { nextDue = min(nextDue, due) }
      }
    }
    if cache.count > Self.longestCache {
      cache = cache.filter { $0.value.until > now }
      // If all entries are fresh, a client is walking through names. Starting over costs one look-up each, no more.
      if cache.count > Self.longestCache { cache = [:] }
    }
  }

  private func finish(_ query: Query) {
    queries[query.name] = nil
    if let asker = query.asker { asked.giveBack(of: asker) }
    let now = Clock.monotonic
    let (answer, milliseconds) = merge(query)
    if milliseconds > 0 { cache[query.name] = Remembered(answer: answer, until: now + milliseconds) }
    for (lookUp, completion) in query.completions {
      names[lookUp] = nil
      completion(answer)
    }
  }

  /// The combined answer of both families, and how long it may be remembered.
  private func merge(_ query: Query) -> (NameAnswer, Int64) {
    var lists: [SocketFamily: [SocketAddress]] = [:]
    var ttl = Int64.max
    var failure: Int32? = nil
    for (family, answer) in query.families {
      switch answer {
      case .addresses(let addresses, let seconds):
        lists[family] = addresses
        ttl = min(ttl, seconds)
      case .notFound: continue
      case .failed(let status): failure = status
      }
    }
    let addresses = Self.interleave(lists[.ipv6] ?? [], lists[.ipv4] ?? [])
    if !addresses.isEmpty {
      let valid = min(settings.cacheMilliseconds, max(Self.shortestMilliseconds, ttl > 1 << 31 ? .max : ttl * 1000))
      return (.addresses(addresses, validMilliseconds: valid), valid)
    }
    if query.families.count < 2 { return (.timedOut, 0) }
    if let failure {
      if failure == Int32(ARES_ETIMEOUT) { return (.timedOut, 0) }
      return (.failed(String(cString: ares_strerror(failure))), 0)
    }
    return (.notFound, min(settings.cacheMilliseconds, Self.negativeMilliseconds))
  }

  private static func interleave(_ first: [SocketAddress], _ second: [SocketAddress]) -> [SocketAddress] {
    var result: [SocketAddress] = []
    for index in 0..<max(first.count, second.count) {
      if index < first.count { result.append(first[index]) }
      if index < second.count { result.append(second[index]) }
    }
    return result
  }

  /// RFC 6761, 6.3: servers are never asked for it.
  private static func localhost(_ name: String) -> NameAnswer? {
    guard name == "localhost" || name.hasSuffix(".localhost") else { return nil }
    return .addresses(
      [
        SocketAddress(high: 0, low: 1, port: 0, isIPv4: false),
        SocketAddress(high: 0, low: 0x7f00_0001, port: 0, isIPv4: true),
      ], validMilliseconds: shortestMilliseconds)
  }

  // MARK: The channel

  private func openChannel() -> ares_channel? {
    if channel != nil { return channel }
    var options = ares_options()
    let mask = Int32(ARES_OPT_FLAGS | ARES_OPT_SOCK_STATE_CB | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS)
    options.sock_state_cb = { data, number, readable, writable in
      guard let data else { return }
      let loop = Unmanaged<ResolverLoop>.fromOpaque(data).takeUnretainedValue()
      loop.sockets[number] = readable != 0 || writable != 0 ? (readable != 0, writable != 0) : nil
    }
    options.sock_state_cb_data = Unmanaged.passUnretained(self).toOpaque()
    // Two tries, the second twice as long, fit into the total time.
    options.timeout = Int32(clamping: max(1, settings.timeoutMilliseconds / 3))
    options.tries = 2
    // Names are looked up as they are: a suffix from a search list would make it another name than the one that was
    // decided on.
    options.flags = Int32(ARES_FLAG_NOSEARCH)
    let lookups = strdup(settings.servers.isEmpty ? "fb" : "b")
    defer { free(lookups) }
    options.lookups = lookups
    var opened: ares_channel? = nil
    channelError = ares_init_options(&opened, &options, mask)
    guard channelError == 0, let opened else { return nil }
    if !settings.servers.isEmpty {
      channelError = ares_set_servers_ports_csv(opened, settings.servers.joined(separator: ","))
      guard channelError == 0 else {
        ares_destroy(opened)
        return nil
      }
    }
    channel = opened
    modified = cl_modified_nanoseconds("/etc/resolv.conf")
    return opened
  }

  /// A changed resolv.conf means another network: the cache is emptied.
  private func reopenIfChanged(now: Int64) {
    guard settings.servers.isEmpty, now - checkedAt >= Self.checkMilliseconds else { return }
    checkedAt = now
    let current = cl_modified_nanoseconds("/etc/resolv.conf")
    if channel != nil && current != modified && outstanding == 0 { forget() }
  }

  private func forget() {
    cache = [:]
    if let old = channel {
      channel = nil
      // This answers the queries in progress as cancelled, from within.
      ares_destroy(old)
    }
    sockets = [:]
  }
}

// Follows the network: turns rtnetlink's messages about links, addresses and routes into a state, and informs all loops
// of each change at once. It has its own thread because reading sysfs may take a while. Nothing is polled.
//
// Messages are passed on to the loops at once, because the paths that they remember may now be wrong. A burst of
// messages is one change (ChangeSettler), which is reported once it has settled. If messages were lost, everything is
// asked for again. A change that does not show, of a route to somewhere or of a rule, is passed on too.

import Bytes
import Policy
import Reachability
import Transport

final class NetworkMonitor: Sendable {
  /// Something is different.
  struct Change: Sendable {
    let view: NetworkView
    /// false: more may follow at once, and addresses may come back.
    let isSettled: Bool
    /// Whether links, addresses or the default route have changed. Otherwise only something beyond them may have.
    let shows: Bool
    /// In words; empty if the change does not show.
    let reasons: String
  }

  fileprivate enum Message: Sendable {
    case named([String: ReachabilityStatus])
  }

  /// The state at the start; nil if the kernel cannot be asked.
  let first: NetworkView?
  /// Why the kernel cannot be asked.
  let fault: SystemError?
  private let mailbox = Mailbox<Message>()

  /// `named`: kinds that the operator gave to interfaces. `publish` is called on the monitor's thread.
  init(named: [String: ReachabilityStatus], publish: @escaping @Sendable (Change) -> Void) {
    switch MonitorSockets.open() {
    case .failure(let error):
      first = nil
      fault = error
    case .success(let sockets):
      var reading = NetworkReading(sockets, named: named)
      guard let state = reading.readAll() else {
        first = nil
        fault = .noAnswer
        return
      }
      first = NetworkView(state)
      fault = nil
      let mailbox = self.mailbox
      startThread(named: "network") {
        MonitorLoop(sockets, mailbox, named: named, state: state, publish: publish).run()
      }
    }
  }

  /// The operator has given other kinds to interfaces.
  func name(_ interfaces: [String: ReachabilityStatus]) { mailbox.post(.named(interfaces)) }
}

/// This machine's addresses, for a command.
public enum MachineAddresses {
  /// Asks the kernel, and waits for the answer.
  public static func read() -> OwnAddresses {
    guard case .success(let sockets) = MonitorSockets.open() else { return .unknown }
    defer { sockets.close() }
    var reading = NetworkReading(sockets, named: [:])
    return reading.readAll().map { NetworkView($0).own } ?? .unknown
  }
}

private struct MonitorSockets: Sendable {
  /// Buffer for waiting messages: some thousands of route changes.
  static let receiveBytes: Int32 = 4 << 20

  /// Reports changes.
  let changes: NetlinkSocket
  /// Answers questions.
  let questions: NetlinkSocket

  static func open() -> Result<MonitorSockets, SystemError> {
    let changes = NetlinkSocket.open(.route, groups: RouteRequests.groups, receiveBytes: receiveBytes)
    return changes.flatMap { changes in
      switch NetlinkSocket.open(.route, receiveBytes: receiveBytes) {
      case .success(let questions): return .success(MonitorSockets(changes: changes, questions: questions))
      case .failure(let error):
        changes.close()
        return .failure(error)
      }
    }
  }

  func close() {
    changes.close()
    questions.close()
  }
}

/// The questions to the kernel and to sysfs.
private struct NetworkReading: ~Copyable {
  /// How often a dump is repeated because something changed under it: more would go on for as long as a storm of
  /// changes does.
  private static let mostDumps = 8

  private let sockets: MonitorSockets
  var named: [String: ReachabilityStatus]
  private var sequence: UInt32 = 0
  private var request = ByteBuffer()
  private var answer = ByteBuffer()

  init(_ sockets: MonitorSockets, named: [String: ReachabilityStatus]) {
    self.sockets = sockets
    self.named = named
  }

  /// Reads everything again; nil if the kernel did not deliver all of it consistently.
  mutating func readAll() -> NetworkState? {
    for _ in 0..<Self.mostDumps {
      var state = NetworkState()
      if dump(into: &state, RouteRequests.dumpLinks), dump(into: &state, RouteRequests.dumpAddresses) {
        complete(&state)
        return state
      }
    }
    return nil
  }

  /// Adds what no message contains: kinds of links that have none, and where the default routes lead.
  mutating func complete(_ state: inout NetworkState) {
    for link in state.linksWithoutKind { state.kinds[link.index] = kind(of: link) }
    state.ipv4 = DefaultRoute(route(to: Self.publicIPv4))
    state.ipv6 = DefaultRoute(route(to: Self.publicIPv6))
  }

  /// Addresses that only a default route covers, on any conceivable machine: a.root-servers.net. Nothing is sent to
  /// them.
  private static let publicIPv4 = IPAddress(ipv4: 0xc629_0004)
  private static let publicIPv6 = IPAddress(ipv6High: 0x2001_0503_ba3e_0000, low: 0x0000_0000_0002_0030)

  private mutating func next() -> UInt32 {
    sequence &+= 1
    return sequence
  }

  /// false if it has to be asked again: something changed under it, or was lost. It is read to its end all the same,
  /// because the kernel begins no other before (EBUSY).
  private mutating func dump(into state: inout NetworkState, _ question: (UInt32) -> [UInt8]) -> Bool {
    let number = next()
    request.removeAll()
    request.append(question(number))
    guard sockets.questions.send(request) else { return false }
    var isWhole = true
    while sockets.questions.receive(into: &answer) == .datagram {
      var isOver = false
      RouteMessages.read(answer.bytes) { message in
        switch message {
        case .done(number): isOver = true
        case .failed(_, number):
          isOver = true
          isWhole = false
        case .done, .failed: break
        case .overrun: isWhole = false
        default: _ = state.apply(message)
        }
      }
      if isOver { return isWhole }
    }
    return false
  }

  private mutating func route(to address: IPAddress) -> RouteAnswer {
    let number = next()
    request.removeAll()
    RouteRequests.write(routeTo: address, interface: nil, sequence: number, to: &request)
    guard sockets.questions.send(request) else { return .unknown }
    while sockets.questions.receive(into: &answer) == .datagram {
      if let found = RouteAnswer.read(answer.bytes, sequence: number, interface: nil) { return found }
    }
    return .unknown
  }

  /// The longest `uevent` of a link in bytes; it has a few short lines.
  private static let longestEvent = 4096

  private func kind(of link: Link) -> ReachabilityStatus {
    let directory = "/sys/class/net/\(link.name)"
    var deviceType: String? = nil
    var isWireless = false
    // In another network namespace, the same name may belong to another link.
    if case .success(let index) = Files.read("\(directory)/ifindex", limit: 64),
      String(decoding: index, as: UTF8.self).prefix(while: \.isNumber) == "\(link.index)"
    {
      if case .success(let event) = Files.read("\(directory)/uevent", limit: Self.longestEvent) {
        deviceType = InterfaceKind.deviceType(inUevent: event.span)
      }
      isWireless = Files.exists("\(directory)/wireless") || Files.exists("\(directory)/phy80211")
    }
    return InterfaceKind.of(
      name: link.name, hardwareType: link.hardwareType, deviceType: deviceType, isWireless: isWireless, named: named)
  }
}

private final class MonitorLoop {
  private let sockets: MonitorSockets
  private let mailbox: Mailbox<NetworkMonitor.Message>
  private let publish: @Sendable (NetworkMonitor.Change) -> Void
  private var reading: NetworkReading
  /// The state as last published, and as it is now.
  private var published: NetworkState
  private var state: NetworkState
  private var settler = ChangeSettler()
  /// Messages were lost.
  private var isBehind = false
  private var datagram = ByteBuffer()

  init(
    _ sockets: MonitorSockets, _ mailbox: Mailbox<NetworkMonitor.Message>, named: [String: ReachabilityStatus],
    state: NetworkState, publish: @escaping @Sendable (NetworkMonitor.Change) -> Void
  ) {
    self.sockets = sockets
    self.mailbox = mailbox
    self.publish = publish
    reading = NetworkReading(sockets, named: named)
    published = state
    self.state = state
  }

  func run() -> Never { while true { turn() } }

  /// See `startThread`.
  @inline(never)
  private func turn() {
    let wait = settler.due.map { Int32(clamping: max(0, $0 - Clock.monotonic)) } ?? -1
    let (hasChanges, hasMessages) = Poll.either(sockets.changes.descriptor, mailbox.descriptor, milliseconds: wait)
    if hasMessages { takeMessages() }
    if hasChanges, takeChanges() { passOn() }
    if settler.take(now: Clock.monotonic) { settle() }
  }

  private func takeMessages() {
    for message in mailbox.takeAll() {
      switch message {
      case .named(let named):
        guard named != reading.named else { continue }
        reading.named = named
        state.kinds = [:]
        settler.noted(now: Clock.monotonic)
      }
    }
  }

  /// How many datagrams are read before the clock is checked again: a storm does not delay the report of a change.
  private static let datagramsAtOnce = 64

  /// Returns whether there is something to pass on.
  private func takeChanges() -> Bool {
    var counts = false
    for _ in 0..<Self.datagramsAtOnce {
      switch sockets.changes.receive(into: &datagram) {
      case .nothing: return counts
      case .overrun, .failed:
        isBehind = true
        settler.noted(now: Clock.monotonic)
        return false
      case .datagram:
        var isNews = false
        RouteMessages.read(datagram.bytes) { if state.apply($0) { isNews = true } }
        if isNews { settler.noted(now: Clock.monotonic) }
        counts = counts || isNews
      }
    }
    return counts
  }

  /// How many datagrams are thrown away at once: more than the buffer of the socket holds.
  private static let mostStale = 65_536

  private func passOn() {
    if isBehind { return }
    reading.complete(&state)
    publish(NetworkMonitor.Change(view: NetworkView(state), isSettled: false, shows: false, reasons: ""))
  }

  private func settle() {
    if isBehind {
      // The waiting messages are older than the answers will be. Those that arrive meanwhile are read after the
      // answers, too old or not.
      for _ in 0..<Self.mostStale where sockets.changes.receive(into: &datagram) != .nothing {}
      guard let whole = reading.readAll() else {
        // A storm goes on: the previous state stays valid until it has passed.
        settler.noted(now: Clock.monotonic)
        return
      }
      isBehind = false
      state = whole
    } else {
      reading.complete(&state)
    }
    let shows = state != published
    let reasons = shows ? state.reasons(since: published) : ""
    published = state
    publish(NetworkMonitor.Change(view: NetworkView(state), isSettled: true, shows: shows, reasons: reasons))
  }
}

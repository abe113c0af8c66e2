// epoll, level-triggered. The caller chooses the data of a registration, and each event carries it.

import CLinux

/// What a registration asks for.
public struct Interest: OptionSet, Hashable, Sendable {
  public let rawValue: UInt32

  public init(rawValue: UInt32) { self.rawValue = rawValue }

  public static let read = Interest(rawValue: CL_READABLE | CL_PEER_CLOSED)
  public static let write = Interest(rawValue: CL_WRITABLE)
  /// A listening socket that several pollers wait on: a connection wakes one of them (EPOLLEXCLUSIVE of epoll_ctl(2)).
  public static let sharedAccept = Interest(rawValue: CL_READABLE | CL_EXCLUSIVE)
  /// The peer closed its sending direction: reported even while nothing is read.
  public static let peerClosed = Interest(rawValue: CL_PEER_CLOSED)
}

/// An event of a descriptor.
public struct Readiness: Sendable {
  public let data: UInt64
  let events: UInt32

  /// An event of a stream that is in no poller.
  public static func carried(isReadable: Bool, isWritable: Bool, isBroken: Bool) -> Readiness {
    Readiness(
      data: 0,
      events: (isReadable ? CL_READABLE : 0) | (isWritable ? CL_WRITABLE : 0) | (isBroken ? CL_HANGUP : 0))
  }

  public var isReadable: Bool { events & (CL_READABLE | CL_HANGUP | CL_ERROR | CL_PEER_CLOSED) != 0 }
  public var isWritable: Bool { events & (CL_WRITABLE | CL_HANGUP | CL_ERROR) != 0 }
  /// Both directions are gone.
  public var isBroken: Bool { events & (CL_HANGUP | CL_ERROR) != 0 }
  public var peerClosed: Bool { events & (CL_PEER_CLOSED | CL_HANGUP | CL_ERROR) != 0 }
}

@safe
public struct Poller: ~Copyable {
  /// How many events one wait returns: enough to spread the call's cost, few enough that none waits long.
  static let eventsPerWait: Int32 = 256

  private let number: Int32
  private let events: UnsafeMutableRawPointer

  public init() { self.init(Self.open()) }

  /// Uses a descriptor that `open` returned.
  public init(_ descriptor: Descriptor) {
    number = descriptor.number
    guard let events = unsafe cl_epoll_events_create(Self.eventsPerWait) else { fatalError("no memory for events") }
    unsafe self.events = events
  }

  /// The descriptor of a poller that another thread will make: opened while descriptors are still available.
  public static func open() -> Descriptor {
    let number = cl_epoll_create()
    guard number >= 0 else { fatalError("epoll: \(SystemError(-number))") }
    return Descriptor(number: number)
  }

  deinit {
    unsafe cl_epoll_events_destroy(events)
    _ = cl_close(number)
  }

  /// false if the kernel has no memory for another registration.
  public func add(_ descriptor: Descriptor, _ interest: Interest, data: UInt64) -> Bool {
    cl_epoll_add(number, descriptor.number, interest.rawValue, data) >= 0
  }

  public func modify(_ descriptor: Descriptor, _ interest: Interest, data: UInt64) {
    let result = cl_epoll_modify(number, descriptor.number, interest.rawValue, data)
    // A descriptor that is not registered here is our own mistake and would hang a connection: fail at once.
    if result < 0 { fatalError("epoll: descriptor \(descriptor.number): \(SystemError(-result))") }
  }

  public func remove(_ descriptor: Descriptor) { _ = cl_epoll_remove(number, descriptor.number) }

  /// Waits until something is ready, at most this long (-1: for ever), and returns how many events there are.
  public func wait(milliseconds: Int32) -> Int {
    let result = unsafe cl_epoll_wait(number, events, Self.eventsPerWait, milliseconds)
    if result < 0 { fatalError("epoll: \(SystemError(-result))") }
    return Int(result)
  }

  public func readiness(_ index: Int) -> Readiness {
    precondition(index >= 0 && index < Int(Self.eventsPerWait), "no such event")
    let event = unsafe cl_epoll_event(events, Int32(index))
    return Readiness(data: event.data, events: event.events)
  }
}

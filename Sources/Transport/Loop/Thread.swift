// Threads, without a library: the loops, the resolver and the log writer run as long as the process.

import CLinux
import Glibc

private final class ThreadBody {
  let run: @Sendable () -> Void

  init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// Starts a thread that runs `body`; `name` is what `top -H` shows, 15 bytes at most.
///
/// A body that never returns has to run each turn of its loop in a separate function that is not inlined: Swift 6.3.1
/// at -O leaves out the releases at the end of a turn if nothing follows the loop. LeakSanitizer sees this only in a
/// release build.
public func startThread(named name: String, _ body: @escaping @Sendable () -> Void) {
  if let error = tryStartThread(named: name, body) { endWithoutThread(name, error) }
}

/// The process cannot do its work: it ends with a message, and not in a trap, since the system's limit is at fault.
private func endWithoutThread(_ name: String, _ error: SystemError) -> Never {
  Files.write("sallyport: the thread '\(name)' could not be started: \(error)\n", to: 2)
  _exit(1)
}

/// The same for a thread that starts while clients are served: the system may allow no more. Returns why.
public func tryStartThread(named name: String, _ body: @escaping @Sendable () -> Void) -> SystemError? {
  switch start(name, body) {
  case .success(let thread):
    pthread_detach(thread)
    return nil
  case .failure(let error): return error
  }
}

/// A thread that ends before the process does.
public final class FiniteThread: Sendable {
  private let thread: pthread_t

  public init(named name: String, _ body: @escaping @Sendable () -> Void) {
    switch start(name, body) {
    case .success(let started): thread = started
    case .failure(let error): endWithoutThread(name, error)
    }
  }

  /// Waits until it has returned and everything of it is freed: exit(3) takes the ground from under a thread that still
  /// frees what belongs to a library, such as TLS connections. To be called once.
  public func join() { pthread_join(thread, nil) }
}

private func start(_ name: String, _ body: @escaping @Sendable () -> Void) -> Result<pthread_t, SystemError> {
  var thread = pthread_t()
  let argument = Unmanaged.passRetained(ThreadBody(body))
  let result = pthread_create(
    &thread, nil,
    { argument in
      guard let argument else { return nil }
      Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().run()
      return nil
    }, argument.toOpaque())
  guard result == 0 else {
    argument.release()
    return .failure(SystemError(result))
  }
  cl_thread_name(UInt(thread), name)
  return .success(thread)
}

/// Tells one thread that another has done something. Without a descriptor, so there is always one.
public final class Completion: Sendable {
  private nonisolated(unsafe) let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

  public init() { sem_init(semaphore, 0, 0) }

  deinit {
    sem_destroy(semaphore)
    semaphore.deallocate()
  }

  public func signal() { sem_post(semaphore) }

  /// Waits until it is signalled, at most this long. Returns whether it was.
  @discardableResult
  public func wait(milliseconds: Int32) -> Bool {
    let end = Clock.wall + Int64(milliseconds)
    var time = timespec(tv_sec: Int(end / 1000), tv_nsec: Int(end % 1000) * 1_000_000)
    while sem_timedwait(semaphore, &time) < 0 {
      if errno != EINTR { return false }
    }
    return true
  }
}

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
  pthread_detach(start(name, body))
}

/// A thread that ends before the process does.
public final class FiniteThread: Sendable {
  private let thread: pthread_t

  public init(named name: String, _ body: @escaping @Sendable () -> Void) { thread = start(name, body) }

  /// Waits until it has returned and everything of it is freed: exit(3) takes the ground from under a thread that still
  /// frees what belongs to a library, such as TLS connections. To be called once.
  public func join() { pthread_join(thread, nil) }
}

private func start(_ name: String, _ body: @escaping @Sendable () -> Void) -> pthread_t {
  var thread = pthread_t()
  let argument = Unmanaged.passRetained(ThreadBody(body))
  let result = pthread_create(
    &thread, nil,
    { argument in
      guard let argument else { return nil }
      Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().run()
      return nil
    }, argument.toOpaque())
  guard result == 0 else { fatalError("a thread could not be started: \(SystemError(result))") }
  cl_thread_name(UInt(thread), name)
  return thread
}

// A value behind a lock. POSIX's mutex rather than Synchronization.Mutex, for ThreadSanitizer knows what it orders; the
// futex of the other is invisible to it, so that every use would be reported as a race.

import Glibc

/// A value that one thread at a time may look at.
public final class Locked<Value: ~Copyable>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private var value: Value

  public init(_ value: consuming sending Value) {
    mutex = .allocate(capacity: 1)
    mutex.initialize(to: pthread_mutex_t())
    self.value = value
    let result = pthread_mutex_init(mutex, nil)
    guard result == 0 else { fatalError("a lock could not be made: \(SystemError(result))") }
  }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  public func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return body(&value)
  }
}

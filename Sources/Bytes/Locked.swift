// A value behind a lock. POSIX's mutex rather than Synchronization.Mutex, for ThreadSanitizer knows what it orders; the
// futex of the other is invisible to it, so that every use would be reported as a race.

import Glibc

/// A value that one thread at a time may look at.
@safe public final class Locked<Value: ~Copyable>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private var value: Value

  public init(_ value: consuming sending Value) {
    unsafe mutex = .allocate(capacity: 1)
    unsafe mutex.initialize(to: pthread_mutex_t())
    self.value = value
    let result = unsafe pthread_mutex_init(mutex, nil)
    guard result == 0 else { fatalError("a lock could not be made: error \(result)") }
  }

  deinit {
    unsafe pthread_mutex_destroy(mutex)
    unsafe mutex.deallocate()
  }

  public func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    return body(&value)
  }
}

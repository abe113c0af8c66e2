// A value protected by a lock. It uses a POSIX mutex because ThreadSanitizer understands that. It does not see the
// futex in Synchronization.Mutex, and would report every use as a race.

import Glibc

/// A value that only one thread at a time may access.
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

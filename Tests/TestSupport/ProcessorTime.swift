// How long something takes, whatever else the machine does meanwhile.

import Glibc

/// The seconds of CPU that the calling thread has used.
public func threadSeconds() -> Double {
  var time = timespec()
  _ = unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
}

// Time, signals and the process, as the loops need them.

import CLinux
import Glibc

/// Clocks, in milliseconds.
public enum Clock {
  /// Never goes back; its zero has no meaning.
  public static var monotonic: Int64 { cl_monotonic_milliseconds() }
  /// The same clock in microseconds.
  public static var monotonicMicroseconds: Int64 { cl_monotonic_microseconds() }
  /// Since 1970.
  public static var wall: Int64 { cl_wall_milliseconds() }
  /// How far local time is ahead of UTC at a given time in seconds since 1970.
  public static func secondsAheadOfUTC(at seconds: Int64) -> Int64 {
    var time = time_t(seconds)
    var local = tm()
    return localtime_r(&time, &local) == nil ? 0 : Int64(local.tm_gmtoff)
  }

  /// Sleeps, for threads without a loop.
  public static func rest(milliseconds: Int32) { _ = cl_poll_readable(-1, milliseconds) }
}

/// Facts and settings of the process.
public enum Process {
  /// Raises the soft limit of descriptors to the hard one and returns it.
  public static func raiseDescriptorLimit() -> Int { Int(cl_raise_descriptor_limit()) }
  /// Processors that this process may run on.
  public static var processors: Int { Int(cl_processors()) }
  /// Resident memory, in bytes.
  public static var residentBytes: Int64 { cl_resident_bytes() }
  public static var isRoot: Bool { userID == 0 }
  /// The user whose rights the process has.
  public static var userID: UInt32 { geteuid() }
  /// Unpredictable.
  public static var random: UInt64 { cl_random() }

  /// Gives back what only the start, or a reload, needed: free memory, and code that does not run again, which would
  /// stay mapped and count as ours for as long as the process lives. Takes about a millisecond.
  public static func releaseUnused() {
    cl_give_back_memory()
    if !isTraced { cl_unmap_code() }
  }

  /// Whether a debugger is attached. Unknown counts as such.
  private static var isTraced: Bool {
    guard case .success(let status) = Files.read("/proc/self/status", limit: 64 << 10) else { return true }
    return !String(decoding: status, as: UTF8.self).contains("TracerPid:\t0\n")
  }
}

/// SIGHUP, SIGTERM and SIGINT as bytes to read (signalfd). Created before any thread, because threads inherit the mask.
public struct Signals: Sendable {
  public enum Signal: Sendable { case hangUp, terminate }

  public let descriptor: Descriptor

  public init() {
    let number = cl_signals()
    guard number >= 0 else { fatalError("signalfd: \(SystemError(-number))") }
    descriptor = Descriptor(number: number)
  }

  /// The next signal, if one has come.
  public func next() -> Signal? {
    switch cl_signal_read(descriptor.number) {
    case CL_SIGHUP: .hangUp
    case CL_SIGTERM, CL_SIGINT: .terminate
    default: nil
    }
  }
}

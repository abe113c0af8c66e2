// Waiting for a few descriptors, for threads that have no loop.

import CLinux

public enum Poll {
  /// Waits until the descriptor can be read, at most this long (-1: for ever); false if it cannot.
  public static func readable(_ one: Descriptor, milliseconds: Int32) -> Bool {
    var entry = cl_poll_entry(fd: one.number, wants_read: true, wants_write: false, can_read: false, can_write: false)
    return cl_poll(&entry, 1, milliseconds) > 0
  }

  /// Waits until one of the two can be read, at most this long (-1: for ever), and returns which can.
  public static func either(
    _ one: Descriptor, _ other: Descriptor, milliseconds: Int32
  ) -> (one: Bool, other: Bool) {
    var entries = [one, other].map {
      cl_poll_entry(fd: $0.number, wants_read: true, wants_write: false, can_read: false, can_write: false)
    }
    _ = cl_poll(&entries, 2, milliseconds)
    return (entries[0].can_read, entries[1].can_read)
  }
}

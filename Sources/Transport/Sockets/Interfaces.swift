// The interfaces of this network namespace, by number.

import Glibc

public enum Interfaces {
  /// The indices of all; nil if the kernel does not list them. Takes some ten microseconds if there are few.
  public static func indices() -> [Int32]? {
    guard let list = if_nameindex() else { return nil }
    defer { if_freenameindex(list) }
    var indices: [Int32] = []
    var next = list
    while next.pointee.if_index != 0 {
      indices.append(Int32(bitPattern: next.pointee.if_index))
      next += 1
    }
    return indices
  }
}

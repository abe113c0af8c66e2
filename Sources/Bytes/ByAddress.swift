// If the bits of a struct could be moved, Swift 6.3 passes it to functions that only read it as a copy on the stack,
// even if it is noncopyable. Dozens of small functions read the state of a conversation for each request. That came to
// 60 copies of 700 bytes. A struct with an atomic has a fixed address and is passed by that.

import Synchronization

/// A member for large noncopyable structs, which are then passed by address.
public struct ByAddress: ~Copyable, Sendable {
  private let pin = Atomic<UInt8>(0)

  public init() {}
}

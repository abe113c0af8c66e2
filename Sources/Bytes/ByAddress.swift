// Swift 6.3 hands a struct to what only reads it as a copy of its bits on the stack, if its bits could be moved; being
// noncopyable does not change that. For the state of a conversation, which dozens of small functions look at for each request,
// that came to 60 copies of 700 bytes. What holds an atomic has an address that counts, and is handed on by it.

import Synchronization

/// A member of large noncopyable structs, which are then handed on by their address.
public struct ByAddress: ~Copyable, Sendable {
  private let pin = Atomic<UInt8>(0)

  public init() {}
}

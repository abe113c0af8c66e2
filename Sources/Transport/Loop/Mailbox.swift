// The only way into another thread's loop: a queue under a lock, and an eventfd that the loop waits on.

import Bytes
import CLinux

/// Wakes a loop that waits for its descriptor (eventfd). Any thread may signal.
public final class Wake: Sendable {
  public let descriptor: Descriptor

  public init() {
    let number = cl_eventfd()
    guard number >= 0 else { fatalError("eventfd: \(SystemError(-number))") }
    descriptor = Descriptor(number: number)
  }

  deinit { descriptor.close() }

  public func signal() { _ = cl_eventfd_signal(descriptor.number) }
  public func clear() { _ = cl_eventfd_clear(descriptor.number) }
  /// Waits until it is signalled.
  public func wait() { _ = cl_poll_readable(descriptor.number, -1) }
  /// The same, but at most this many milliseconds; below 0: without limit.
  public func wait(milliseconds: Int32) { _ = cl_poll_readable(descriptor.number, milliseconds) }
}

/// Messages for one loop. Posting blocks only for as long as appending takes.
public final class Mailbox<Message: Sendable>: Sendable {
  private let queue = Locked<[Message]>([])
  private let wake = Wake()

  public init() {}

  /// Readable while there are messages.
  public var descriptor: Descriptor { wake.descriptor }

  public func post(_ message: Message) {
    let wasEmpty = queue.withLock { queue in
      queue.append(message)
      return queue.count == 1
    }
    // One wake for everything that is there when the loop gets to it.
    if wasEmpty { wake.signal() }
  }

  /// Takes everything that has been posted.
  public func takeAll() -> [Message] {
    wake.clear()
    return queue.withLock { queue in
      let messages = queue
      queue = []
      return messages
    }
  }
}

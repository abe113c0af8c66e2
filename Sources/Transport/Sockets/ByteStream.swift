// One end of an exchange: a socket, bare or under TLS. What moves bytes need not know which.

import Bytes

public struct ByteStream {
  public let descriptor: Descriptor
  public var tls: TLSStream?

  public init(_ descriptor: Descriptor, tls: TLSStream? = nil) {
    self.descriptor = descriptor
    self.tls = tls
  }

  /// Reads into the tail of `buffer`, which must have room.
  public func read(into buffer: inout ByteBuffer) -> Transfer {
    if let tls { return tls.read(into: &buffer) }
    return descriptor.read(into: &buffer)
  }

  public func write(_ first: borrowing ByteBuffer, then second: Span<UInt8>) -> Transfer {
    if let tls { return tls.write(first, then: second) }
    return descriptor.write(first, then: second)
  }

  public func write(_ buffer: borrowing ByteBuffer) -> Transfer {
    if let tls { return tls.write(buffer) }
    return descriptor.write(buffer)
  }

  /// Whether bytes may be there although the descriptor gives no sign of them.
  public var hasMore: Bool { tls?.hasMore ?? false }

  /// Whether it can be spliced.
  public var isBare: Bool { tls == nil }

  /// Whether a connection that should be silent still is: nothing to read and no end.
  public var isSilent: Bool { tls.map(\.isSilent) ?? descriptor.isSilent }

  /// Says that nothing more will be sent.
  public func shutdownWrite() {
    tls?.shutdownWrite()
    descriptor.shutdownWrite()
  }

  /// Closes in order: a peer under TLS is told.
  public func close() {
    tls?.shutdownWrite()
    descriptor.close()
  }

  /// Closes so that the peer cannot take what it got for the whole.
  public func abort() {
    descriptor.resetOnClose()
    descriptor.close()
  }
}

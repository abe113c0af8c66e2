// One end of an exchange: a socket or a stream of a connection that carries many, bare or under TLS. Code that moves
// bytes need not know which.

import Bytes

/// A stream without a descriptor of its own. Interest in it goes to the stream itself, not to the poller.
public protocol CarriedStream: AnyObject {
  /// Reads at most `count` bytes into the free tail of `buffer`, which must have room.
  func read(into buffer: inout ByteBuffer, atMost count: Int) -> Transfer
  func write(_ first: borrowing ByteBuffer, then second: Span<UInt8>) -> Transfer
  /// nil: nothing is awaited.
  func watch(_ interest: Interest?)
  /// How many bytes it accepts at once.
  var room: Int { get }
  var isSilent: Bool { get }
  /// Whether it can be read and no event will announce that.
  var hasMore: Bool { get }
  /// The peer has reported that it did nothing of what was asked.
  var wasRefused: Bool { get }
  /// The peer has not even seen the request.
  var wasUnsent: Bool { get }
  /// How the peer ended it without ending what carries it; nil: it did not.
  var abortion: CarriedAbortion? { get }
  /// The TLS connection that carries it, if one does.
  var carrierTLS: TLSStream? { get }
  /// What it brings is made or kept here: no network carries it.
  var isOfThisProcess: Bool { get }
  /// The two carry one exchange.
  func pair(with other: any CarriedStream)
  /// How long what carries it may stay idle, in milliseconds, by the rule of the exchange that it served; nil: that
  /// rule sets none.
  func noteIdle(_ milliseconds: Int64?)
  func shutdownWrite()
  func close()
  func abort()
}

extension CarriedStream {
  public var carrierTLS: TLSStream? { nil }
  public var isOfThisProcess: Bool { false }
  public var abortion: CarriedAbortion? { nil }
  public func pair(with other: any CarriedStream) {}
  public func noteIdle(_ milliseconds: Int64?) {}
}

public enum CarriedAbortion: Sendable {
  /// What came makes no sense.
  case malformed
  /// Reset, with a code.
  case reset(String)
}

public struct ByteStream {
  /// For a carried stream, the descriptor of its carrier.
  public let descriptor: Descriptor
  public var tls: TLSStream?
  public let carried: (any CarriedStream)?

  public init(_ descriptor: Descriptor, tls: TLSStream? = nil) {
    self.descriptor = descriptor
    self.tls = tls
    carried = nil
  }

  public init(_ carried: any CarriedStream, by carrier: Descriptor) {
    descriptor = carrier
    tls = nil
    self.carried = carried
  }

  /// Reads into the free tail of `buffer`, which must have room.
  public func read(into buffer: inout ByteBuffer) -> Transfer {
    if let tls { return tls.read(into: &buffer) }
    if let carried { return carried.read(into: &buffer, atMost: .max) }
    return descriptor.read(into: &buffer)
  }

  public func write(_ first: borrowing ByteBuffer, then second: Span<UInt8>) -> Transfer {
    if let tls { return tls.write(first, then: second) }
    if let carried { return carried.write(first, then: second) }
    return descriptor.write(first, then: second)
  }

  public func write(_ buffer: borrowing ByteBuffer) -> Transfer {
    if let tls { return tls.write(buffer) }
    if let carried { return carried.write(buffer, then: ByteBuffer().bytes) }
    return descriptor.write(buffer)
  }

  /// About how many bytes it accepts at once.
  public var sendRoom: Int { carried?.room ?? descriptor.sendRoom }

  /// Whether bytes may be available although the descriptor does not signal them.
  public var hasMore: Bool { tls?.hasMore ?? carried?.hasMore ?? false }

  /// Whether it can be spliced.
  public var isBare: Bool { tls == nil && carried == nil }

  /// Whether a connection that should be silent still is: nothing to read and no end.
  public var isSilent: Bool {
    guard let tls else { return carried?.isSilent ?? descriptor.isSilent }
    // The common case, in which OpenSSL need not look.
    return carried == nil && tls.holdsNothing && descriptor.isSilent || tls.isSilent
  }

  /// Announces that nothing more will be sent.
  public func shutdownWrite() {
    tls?.shutdownWrite()
    if let carried { return carried.shutdownWrite() }
    descriptor.shutdownWrite()
  }

  /// Closes in order: under TLS, the peer gets a close_notify.
  public func close() {
    tls?.shutdownWrite()
    if let carried { return carried.close() }
    descriptor.close()
  }

  /// Closes so that the peer cannot take what it got for the whole.
  public func abort() {
    if let carried { return carried.abort() }
    descriptor.resetOnClose()
    descriptor.close()
  }
}

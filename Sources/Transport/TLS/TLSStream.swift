// One TLS connection over a non-blocking socket.
//
// OpenSSL reads and writes the descriptor itself. A read takes records until the buffer is full or the socket is empty.
// `hasMore`: OpenSSL has bytes that the socket no longer signals.

import Bytes
import COpenSSL
import Glibc

/// A session that may be resumed, and the time when its chain was judged.
public final class TLSSession: @unchecked Sendable {
  let raw: OpaquePointer
  /// When its chain was verified, by the clock of the stream's creator.
  public let verifiedAt: Int64

  init(adopting raw: OpaquePointer, verifiedAt: Int64) {
    self.raw = raw
    self.verifiedAt = verifiedAt
  }

  deinit { SSL_SESSION_free(raw) }

  /// A TLS 1.3 ticket is for one use (RFC 8446, C.4).
  public var isForOneUse: Bool { SSL_SESSION_get_protocol_version(raw) >= TLSProtocolVersion.tls13.rawValue }
}

/// Why a handshake failed.
public struct TLSFailure: Error, Equatable, Sendable {
  public enum Kind: Equatable, Sendable {
    /// The judge refused the chain and knows why.
    case refusedByJudge
    /// The peer sent an alert: its number (RFC 8446, 6).
    case alert(Int)
    /// The peer sent something that is not TLS, or not allowed here.
    case protocolError
    /// The connection ended.
    case closed
  }

  public let kind: Kind
  /// OpenSSL's words.
  public let text: String
}

public final class TLSStream {
  public enum HandshakeProgress: Equatable {
    case done
    case wantsRead
    case wantsWrite
    case failed(TLSFailure)
  }

  /// Largest content of a record in bytes (RFC 8446, 5.1): bytes written together leave as one record up to this size.
  public static let recordBytes = 16 << 10

  /// Judges the chain that a server showed: borrowed X509 objects, leaf first, and a stapled OCSP response. Called at
  /// most once, during `handshake`; not at all if a session is resumed.
  public typealias Judge = ([OpaquePointer], [UInt8]?) -> Bool

  let ssl: OpaquePointer
  /// The TLS connection that carries it, if it is not over a bare socket: the connection to a parent proxy.
  public let carrier: TLSStream?
  /// The stream that carries it instead of a socket. OpenSSL holds no reference.
  private var bridge: StreamBridge? = nil
  let asksForStatus: Bool
  private var judging: Judge?
  private var wasRefused = false
  /// A judge was asked and accepted the chain; server streams have none.
  private var wasTrusted = false
  private let isClient: Bool
  /// Sessions that the server has offered since the last `takeSessions`, the newest last.
  @exclusivity(unchecked) private var offered: [TLSSession] = []
  private var offeredCount = 0
  private var keyUpdates = 0
  /// `keyUpdates` when the current read began.
  private var keyUpdatesBefore = 0
  /// When the chain was judged, by the clock of the stream's creator; for a resumed session, the original time.
  public private(set) var verifiedAt: Int64
  /// Bytes may be available although the descriptor is not readable.
  @exclusivity(unchecked) public private(set) var hasMore = false
  private var ahead = TLSContext.readAheadBytes
  private var isOver = false
  /// The alert that the peer ended the connection with after the handshake, in OpenSSL's words.
  public private(set) var alert: String? = nil

  /// How many sessions may be of use at a time: browsers open no more connections at once.
  static let mostOffered = 4
  /// The most sessions that a server may offer on one connection. OpenSSL and others send two, and two more with each
  /// new key. A server that goes on beyond that is after memory or time, and its connection is ended.
  static let mostOfferedEver = 256
  /// The most new keys that a peer may announce within one read. Each costs 20 µs, and peers announce one after 2^24
  /// records (RFC 8446, 5.5).
  static let mostKeyUpdatesAtOnce = 16
  /// The same for the whole connection: after months at full speed.
  static let mostKeyUpdatesEver = 1024

  private init(
    _ ssl: OpaquePointer, _ context: TLSContext, isClient: Bool, carrier: TLSStream? = nil, now: Int64
  ) {
    self.ssl = ssl
    self.carrier = carrier
    self.isClient = isClient
    asksForStatus = context.asksForStatus
    verifiedAt = now
    cossl_set_owner(ssl, Unmanaged.passUnretained(self).toOpaque())
  }

  deinit { SSL_free(ssl) }

  /// The client's side of a connection over `bytes`, which may themselves be under TLS. `serverName`: SNI; nil if the
  /// server is an address. `protocols`: the offer (ALPN), the preferred one first. nil if memory is short.
  public static func client(
    _ context: TLSContext, over bytes: ByteStream, serverName: String?, protocols: [HTTPProtocol] = [.http11],
    resuming session: TLSSession?, now: Int64, judge: @escaping Judge
  ) -> TLSStream? {
    TLSErrors.clear()
    guard let ssl = SSL_new(context.raw) else { return nil }
    let stream = TLSStream(ssl, context, isClient: true, carrier: bytes.tls, now: now)
    if let carrier = bytes.tls {
      guard cossl_set_carrier(ssl, carrier.ssl) else { return nil }
    } else if let carried = bytes.carried {
      let bridge = StreamBridge(carried)
      stream.bridge = bridge
      guard bridge.carry(ssl) else { return nil }
    } else {
      guard SSL_set_fd(ssl, bytes.descriptor.number) == 1 else { return nil }
    }
    let offer = HTTPProtocol.offer(protocols)
    if !offer.isEmpty, SSL_set_alpn_protos(ssl, offer, UInt32(offer.count)) != 0 { return nil }
    if let serverName, !cossl_set_server_name(ssl, serverName) { return nil }
    if context.asksForStatus { cossl_ask_for_status(ssl) }
    if let session {
      // OpenSSL takes its own reference; until then, this may be the only one.
      withExtendedLifetime(session) {
        if SSL_set_session(ssl, session.raw) == 1 { stream.verifiedAt = session.verifiedAt }
      }
    }
    stream.judging = judge
    SSL_set_connect_state(ssl)
    return stream
  }

  /// The server's side, with the certificate (X509) and its key (EVP_PKEY); it takes references to both. `prefix`:
  /// bytes of the client that have already been read.
  public static func server(
    _ context: TLSContext, _ descriptor: Descriptor, prefix: Span<UInt8>, certificate: OpaquePointer,
    intermediate: OpaquePointer? = nil, key: OpaquePointer, now: Int64
  ) -> TLSStream? {
    TLSErrors.clear()
    guard let ssl = SSL_new(context.raw) else { return nil }
    let stream = TLSStream(ssl, context, isClient: false, now: now)
    if let intermediate, !cossl_add_intermediate(ssl, intermediate) { return nil }
    guard SSL_set_fd(ssl, descriptor.number) == 1, SSL_use_certificate(ssl, certificate) == 1,
      SSL_use_PrivateKey(ssl, key) == 1, cossl_bind_sessions(ssl, certificate)
    else { return nil }
    if !prefix.isEmpty {
      let source = prefix.withUnsafeBytes { cossl_prefixed_socket(descriptor.number, $0.baseAddress, $0.count) }
      guard let source else { return nil }
      SSL_set0_rbio(ssl, source)
    }
    SSL_set_accept_state(ssl)
    return stream
  }

  // MARK: Handshake

  public func handshake() -> HandshakeProgress {
    TLSErrors.clear()
    let result = SSL_do_handshake(ssl)
    if result == 1 {
      judging = nil
      // Under a cipher without authentication there is no chain, and OpenSSL does not ask the judge.
      if isClient, !wasTrusted, !isResumed {
        return failed(.refusedByJudge, "the server showed no certificate")
      }
      // The record after the handshake may have come along with it.
      hasMore = hasPending
      return .done
    }
    switch SSL_get_error(ssl, result) {
    case SSL_ERROR_WANT_READ: return .wantsRead
    case SSL_ERROR_WANT_WRITE: return .wantsWrite
    case SSL_ERROR_ZERO_RETURN: return failed(.closed, "the peer closed the connection within the handshake")
    default:
      if wasRefused {
        TLSErrors.clear()
        return failed(.refusedByJudge, "the certificate is refused")
      }
      guard let error = TLSErrors.take() else {
        return failed(.closed, "the peer closed the connection within the handshake")
      }
      if let alert = error.alert { return failed(.alert(alert), error.text) }
      return error.isTruncation
        ? failed(.closed, "the peer closed the connection within the handshake") : failed(.protocolError, error.text)
    }
  }

  /// Bytes have been read from the socket and not yet taken, here or in the carrier.
  private var hasPending: Bool { SSL_has_pending(ssl) == 1 || carrier?.hasPending ?? false }

  private func failed(_ kind: TLSFailure.Kind, _ text: String) -> HandshakeProgress {
    isOver = true
    judging = nil
    return .failed(TLSFailure(kind: kind, text: text))
  }

  /// OpenSSL calls this during `handshake`.
  func judge(_ chain: OpaquePointer?, status: [UInt8]?) -> Bool {
    var certificates: [OpaquePointer] = []
    if let chain {
      for index in 0..<cossl_count(chain) { if let one = cossl_at(chain, index) { certificates.append(one) } }
    }
    let isTrusted = judging?(certificates, status) ?? false
    wasRefused = !isTrusted
    wasTrusted = isTrusted
    return isTrusted
  }

  /// Whether the handshake resumed a session, so no chain was judged.
  public var isResumed: Bool { SSL_session_reused(ssl) == 1 }
  /// What both sides agreed on (ALPN); nil if nothing.
  public var negotiatedProtocol: HTTPProtocol? {
    var name: UnsafePointer<UInt8>? = nil
    var count: UInt32 = 0
    SSL_get0_alpn_selected(ssl, &name, &count)
    guard let name else { return nil }
    return HTTPProtocol(rawValue: String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self))
  }

  /// `TLSv1.3`
  public var versionName: String { String(cString: SSL_get_version(ssl)) }
  public var isTLS13: Bool { SSL_version(ssl) >= TLSProtocolVersion.tls13.rawValue }

  // MARK: What the peer sends besides content

  func take(_ session: OpaquePointer) -> Bool {
    offeredCount += 1
    if offeredCount > Self.mostOfferedEver {
      breakOff()
      return false
    }
    guard SSL_SESSION_is_resumable(session) == 1 else { return false }
    if offered.count == Self.mostOffered { offered.removeFirst() }
    offered.append(TLSSession(adopting: session, verifiedAt: verifiedAt))
    return true
  }

  func receivedKeyUpdate() {
    keyUpdates += 1
    if keyUpdates > Self.mostKeyUpdatesEver || keyUpdates - keyUpdatesBefore > Self.mostKeyUpdatesAtOnce { breakOff() }
  }

  /// The only way to stop OpenSSL during a read.
  private func breakOff() {
    isOver = true
    SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN)
  }

  /// Sessions that the server has offered since the last call: those of TLS 1.3 come after the handshake.
  public func takeSessions() -> [TLSSession] {
    if offered.isEmpty { return [] }
    defer { offered = [] }
    return offered
  }

  // MARK: Bytes

  /// How many bytes one read(2) may bring, at most `TLSContext.readAheadBytes`. This means fewer reads, but bytes that
  /// are not taken yet stay in memory. 0: a record is read in two steps, and nothing beyond it.
  public func readAhead(_ bytes: Int) {
    carrier?.readAhead(bytes)
    if ahead == bytes { return }
    ahead = bytes
    SSL_set_read_ahead(ssl, bytes > 0 ? 1 : 0)
    // For one record, OpenSSL's own length does.
    SSL_set_default_read_buffer_len(ssl, bytes > TLSContext.recordBytes ? bytes : 0)
  }

  /// Reads into the free tail of `buffer`, which must have room.
  public func read(into buffer: inout ByteBuffer) -> Transfer {
    var total = 0
    var end: Transfer? = nil
    hasMore = false
    keyUpdatesBefore = keyUpdates
    let ssl = self.ssl
    while true {
      var count = 0
      var wasFull = false
      TLSErrors.clear()
      var status: Int32 = 0
      _ = unsafe buffer.fillTail { tail in
        if tail.count == 0 {
          wasFull = true
          return 0
        }
        status = unsafe SSL_read_ex(ssl, tail.baseAddress, tail.count, &count)
        return status == 1 ? count : 0
      }
      if wasFull {
        hasMore = true
        break
      }
      if status != 1 {
        end = endOfRead()
        break
      }
      total += count
      // The poller reports what else the socket has. Another look would cost a call and a buffer for each response.
      if SSL_has_pending(ssl) == 0 {
        hasMore = carrier?.hasPending ?? false
        break
      }
    }
    if total > 0 {
      // The error or end that stopped the read shows again at the next one.
      if let end, end != .wouldBlock { hasMore = true }
      return .moved(total)
    }
    return end ?? .wouldBlock
  }

  private func endOfRead() -> Transfer {
    switch SSL_get_error(ssl, 0) {
    case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
      // The look that found nothing took a buffer of the largest size, and an idle connection would keep it.
      SSL_free_buffers(ssl)
      return .wouldBlock
    case SSL_ERROR_ZERO_RETURN: return isOver ? .failed(EPROTO) : .ended
    default:
      // Without close_notify it is unclear whether the peer had more to send (RFC 8446, 6.1).
      isOver = true
      if let error = TLSErrors.take(), error.alert != nil { alert = error.text }
      return .failed(EPROTO)
    }
  }

  public func write(_ buffer: borrowing ByteBuffer) -> Transfer {
    unsafe write(buffer.unsafeReadable)
  }

  /// Writes `first` and then `second`: as one record if they fit.
  public func write(_ first: borrowing ByteBuffer, then second: Span<UInt8>) -> Transfer {
    let head = unsafe first.unsafeReadable
    return unsafe second.withUnsafeBytes { tail in
      if head.isEmpty { return unsafe write(tail) }
      if tail.isEmpty { return unsafe write(head) }
      if head.count + tail.count <= Self.recordBytes {
        return unsafe withUnsafeTemporaryAllocation(byteCount: head.count + tail.count, alignment: 1) { whole in
          unsafe whole.copyMemory(from: head)
          unsafe UnsafeMutableRawBufferPointer(rebasing: whole[head.count...]).copyMemory(from: tail)
          return unsafe write(UnsafeRawBufferPointer(whole))
        }
      }
      let first = unsafe write(head)
      guard case .moved(let moved) = first, moved == head.count else { return first }
      guard case .moved(let more) = unsafe write(tail) else { return .moved(moved) }
      return .moved(moved + more)
    }
  }

  /// Writes record after record until the socket accepts no more. What was tried and not accepted must be tried again
  /// first.
  private func write(_ bytes: UnsafeRawBufferPointer) -> Transfer {
    var sent = 0
    while sent < bytes.count {
      var count = 0
      TLSErrors.clear()
      let status = unsafe SSL_write_ex(ssl, bytes.baseAddress?.advanced(by: sent), bytes.count - sent, &count)
      if status == 1 {
        sent += count
        continue
      }
      switch SSL_get_error(ssl, 0) {
      case SSL_ERROR_WANT_WRITE, SSL_ERROR_WANT_READ: return sent > 0 ? .moved(sent) : .wouldBlock
      default:
        isOver = true
        TLSErrors.clear()
        return sent > 0 ? .moved(sent) : .failed(EPROTO)
      }
    }
    return .moved(sent)
  }

  /// Everything that was read from the socket has been taken, here and in the carrier, and neither peer has announced
  /// an end.
  var holdsNothing: Bool {
    SSL_has_pending(ssl) == 0 && SSL_get_shutdown(ssl) == 0 && carrier?.holdsNothing ?? true
  }

  /// Whether a connection that should be silent still is: tickets may come, but no content and no end.
  public var isSilent: Bool {
    var byte: UInt8 = 0
    var count = 0
    TLSErrors.clear()
    if SSL_peek_ex(ssl, &byte, 1, &count) == 1 { return false }
    if SSL_get_error(ssl, 0) == SSL_ERROR_WANT_READ { return true }
    TLSErrors.clear()
    return false
  }

  /// Gives back the record buffers, some ten kilobytes, if they are empty; the next read or write takes new ones.
  public func rest() {
    SSL_free_buffers(ssl)
    carrier?.rest()
  }

  /// Announces that nothing more will be sent (close_notify).
  public func shutdownWrite() {
    if !isOver, SSL_in_init(ssl) == 0 {
      TLSErrors.clear()
      _ = SSL_shutdown(ssl)
      TLSErrors.clear()
    }
    carrier?.shutdownWrite()
  }
}

/// OpenSSL's error queue, one for each thread.
enum TLSErrors {
  struct Entry {
    let text: String
    let alert: Int?
    let isTruncation: Bool
  }

  /// The first error; the queue is empty afterwards.
  static func take() -> Entry? {
    let code = ERR_get_error()
    defer { clear() }
    if code == 0 { return nil }
    let reason = Int(cossl_reason(code))
    let offset = Int(cossl_alert_offset())
    let text = ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)"
    return Entry(
      text: text, alert: reason >= offset && reason < offset + 256 ? reason - offset : nil,
      isTruncation: cossl_is_truncation(code))
  }

  /// Empties the queue. `SSL_get_error` reads it, so it must be empty before each operation. It nearly always is, and
  /// to look costs a quarter of clearing its sixteen places.
  static func clear() { if ERR_peek_error() != 0 { ERR_clear_error() } }
}

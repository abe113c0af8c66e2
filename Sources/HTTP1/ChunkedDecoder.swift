// The chunked coding (RFC 9112, 7.1), decoded from whatever has arrived.
//
// The decoder keeps no bytes. An incomplete size line or trailer section stays with the caller, who passes it again
// when more has arrived. The length of both is limited, and so is what the caller must keep.

import Bytes

public struct ChunkedDecoder: Sendable, Equatable {
  public enum Event: Equatable, Sendable {
    /// These bytes of the input are content; everything before them is consumed.
    case data(Range<Int>)
    /// Nothing more can be decoded yet; the first `consumed` bytes are consumed.
    case needMore(consumed: Int)
    /// The last chunk has been read; a trailer section begins after `consumed` bytes.
    case lastChunk(consumed: Int)
    case invalid(MessageFault)
  }

  private enum Phase: Sendable, Equatable {
    case size
    case data(remaining: UInt64)
    case dataEnd
  }

  private var phase = Phase.size
  private var overheadBytes: UInt64 = 0
  private var contentBytes: UInt64 = 0

  /// The longest size line in bytes, including extensions and CR LF. No extension in use comes near it.
  public static let longestSizeLine = 1024
  /// Framing may take this many bytes, plus eight for each byte of content: a sender of one-byte chunks needs five.
  static let overheadAllowance: UInt64 = 16 << 10
  static let overheadPerContentByte: UInt64 = 8

  public init() {}

  /// Continues at `from`.
  public mutating func next(_ bytes: Span<UInt8>, from: Int) -> Event {
    var at = from
    while true {
      switch phase {
      case .data(let remaining):
        if at == bytes.count { return .needMore(consumed: at) }
        let count = Int(min(remaining, UInt64(bytes.count - at)))
        contentBytes &+= UInt64(count)
        phase = remaining == UInt64(count) ? .dataEnd : .data(remaining: remaining - UInt64(count))
        return .data(at..<at + count)
      case .dataEnd:
        if at == bytes.count { return .needMore(consumed: at) }
        guard bytes[at] == 0x0d else { return .invalid(.badChunkEnd) }
        if at + 1 == bytes.count { return .needMore(consumed: at) }
        guard bytes[at + 1] == 0x0a else { return .invalid(.badChunkEnd) }
        at += 2
        overheadBytes += 2
        phase = .size
      case .size:
        switch Self.readSize(bytes, from: at) {
        case .incomplete: return .needMore(consumed: at)
        case .invalid(let fault): return .invalid(fault)
        case .complete(let size, let end):
          overheadBytes += UInt64(end - at)
          if overheadBytes > Self.overheadAllowance + Self.overheadPerContentByte * contentBytes {
            return .invalid(.excessiveChunkOverhead)
          }
          at = end
          if size == 0 { return .lastChunk(consumed: at) }
          phase = .data(remaining: size)
        }
      }
    }
  }

  private enum SizeProgress {
    case complete(size: UInt64, end: Int)
    case incomplete
    case invalid(MessageFault)
  }

  /// 1*HEXDIG [ chunk-ext ] CR LF. No sign, no space, no prefix.
  private static func readSize(_ bytes: Span<UInt8>, from: Int) -> SizeProgress {
    var size: UInt64 = 0
    var at = from
    while at < bytes.count, let digit = bytes[at].hexadecimalValue {
      if size >> 59 != 0 { return .invalid(.chunkSizeOverflow) }
      size = size << 4 | UInt64(digit)
      at += 1
      if at - from == longestSizeLine { return .invalid(.chunkSizeOverflow) }
    }
    guard at < bytes.count else { return .incomplete }
    if at == from || (bytes[at] != 0x0d && bytes[at] != 0x3b) {
      if case .invalid(let fault) = breakOff(bytes, at, otherwise: .badChunkSize) { return .invalid(fault) }
      return .incomplete
    }
    // The limit applies to a line that is fine so far. A line that is already wrong gets its own fault.
    let window = bytes.extracting(0..<min(bytes.count, from + longestSizeLine))
    switch readLineEnd(window, from: at) {
    case .incomplete:
      return window.count - from == longestSizeLine ? .invalid(.badChunkExtension) : .incomplete
    case .invalid(let fault):
      return .invalid(fault)
    case .complete(let end):
      return isExtension(bytes, at..<end) ? .complete(size: size, end: end + 2) : .invalid(.badChunkExtension)
    }
  }

  /// *( ";" name [ "=" value ] ) without the bad white space that senders must not generate (RFC 9112, 7.1.1).
  private static func isExtension(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
    var at = range.lowerBound
    func skipToken() -> Bool {
      let begin = at
      while at < range.upperBound, bytes[at].isTokenCharacter { at += 1 }
      return at > begin
    }
    while at < range.upperBound {
      guard bytes[at] == 0x3b else { return false }
      at += 1
      guard skipToken() else { return false }
      guard at < range.upperBound, bytes[at] == 0x3d else { continue }
      at += 1
      if at < range.upperBound, bytes[at] == 0x22 {
        at += 1
        while at < range.upperBound, bytes[at] != 0x22 { at += bytes[at] == 0x5c ? 2 : 1 }
        guard at < range.upperBound else { return false }
        at += 1
      } else if !skipToken() {
        return false
      }
    }
    return true
  }
}

/// A trailer section (RFC 9112, 7.1.2), read as a whole.
public struct TrailerReader {
  /// Reads the section that begins at `from` into `fields`, and drops the hop-by-hop fields.
  public static func read(
    _ bytes: Span<UInt8>, from: Int, limits: HeadLimits, into fields: inout FieldSection
  ) -> HeadProgress {
    let end = min(bytes.count, from + limits.bytes)
    let progress = fields.read(bytes.extracting(0..<end), from: from, limits: limits)
    if progress == .incomplete && bytes.count - from >= limits.bytes { return .invalid(.headTooLarge) }
    guard case .complete = progress else { return progress }
    for index in fields.lines.indices {
      switch fields.lines[index].known {
      // RFC 9110, 6.5.1: fields for framing, routing or authentication are not allowed as trailers.
      case .contentLength, .transferEncoding, .host, .authorization, .proxyAuthorization, .maxForwards, .te, .trailer,
        .expect:
        return .invalid(.forbiddenTrailer)
      case .connection, .keepAlive, .proxyConnection, .proxyAuthenticate, .proxyAuthenticationInfo, .upgrade:
        fields.lines[index].isDropped = true
      case .other, .accept, .contentEncoding, .contentType, .cookie, .date, .setCookie, .via, .wwwAuthenticate: continue
      }
    }
    return progress
  }
}

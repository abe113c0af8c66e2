// The head of a response as a proxy reads it (RFC 9112, 4): as strict as a request's. If its reader asks for it, the
// head is mended first (HeadMender).

import Bytes

/// A response head. Ranges are offsets into the bytes that were read.
public struct ResponseHead: Sendable {
  public private(set) var status = 0
  /// The reason phrase, which may be empty.
  public private(set) var reason: Range<Int> = 0..<0
  public private(set) var minorVersion = 1
  public var fields = FieldSection()
  public private(set) var options = ConnectionOptions()
  public private(set) var framing = BodyFraming.none
  /// What had to be mended before the head could be read.
  public private(set) var mendings: HeadMendings = []

  public init() {}

  /// Reads a head from the beginning of `bytes`. `toHead` and `toConnect`: it answers a request with that method.
  public mutating func read(
    _ bytes: Span<UInt8>, limits: HeadLimits, toHead: Bool, toConnect: Bool = false
  ) -> HeadProgress {
    mendings = []
    let window = bytes.count > limits.bytes ? bytes.extracting(0..<limits.bytes) : bytes
    let progress = readLines(window, limits: limits, toHead: toHead, toConnect: toConnect)
    if progress == .incomplete && bytes.count >= limits.bytes { return .invalid(.headTooLarge) }
    return progress
  }

  /// Reads a head like `read`. A head that breaks the grammar but can be mended is written to `mended`, which must be
  /// empty, and the ranges are then offsets into that. Otherwise nothing is written. `complete`: how many of `bytes` it
  /// used.
  public mutating func readMending(
    _ bytes: Span<UInt8>, limits: HeadLimits, toHead: Bool, into mended: inout ByteBuffer
  ) -> HeadProgress {
    let progress = read(bytes, limits: limits, toHead: toHead)
    guard case .invalid(let fault) = progress, fault.mayBeMended else { return progress }
    var mender = HeadMender(bytes.count > limits.bytes ? bytes.extracting(0..<limits.bytes) : bytes)
    let result = mender.mend(fields: limits.fields, into: &mended)
    guard case .complete = result else {
      mended.removeAll()
      return result == .incomplete && bytes.count >= limits.bytes ? .invalid(.headTooLarge) : result
    }
    // Each LF has gained a CR. The received head was within the limit, so the limit must not apply again.
    let again = read(
      mended.bytes, limits: HeadLimits(bytes: mended.count, fields: limits.fields), toHead: toHead)
    if case .invalid = again {
      mended.removeAll()
      return again
    }
    mendings = mender.mendings
    return result
  }

  private mutating func readLines(
    _ bytes: Span<UInt8>, limits: HeadLimits, toHead: Bool, toConnect: Bool
  ) -> HeadProgress {
    // "HTTP/1." DIGIT SP 3DIGIT SP [reason] CR LF. What has arrived must match, however little it is.
    let fixed = min(bytes.count, 13)
    for index in 0..<fixed where !Self.mayStand(bytes[index], at: index) {
      return breakOff(bytes, index, otherwise: .badStatusLine)
    }
    guard bytes.count > 12 else { return .incomplete }
    // The messages of a higher minor version have the same format (RFC 9110, 2.5).
    minorVersion = bytes[7] == 0x30 ? 0 : 1
    status = Int(bytes[9] & 0xf) * 100 + Int(bytes[10] & 0xf) * 10 + Int(bytes[11] & 0xf)
    // No status above 599 is defined, but servers send them and clients read them as 5xx (RFC 9110, 15).
    if status < 100 { return .invalid(.badStatusLine) }
    let reasonStart = 13
    switch readLineEnd(bytes, from: reasonStart) {
    case .incomplete: return .incomplete
    case .invalid(let fault): return .invalid(fault)
    case .complete(let end):
      reason = reasonStart..<end
      let progress = fields.read(bytes, from: end + 2, limits: limits)
      guard case .complete = progress else { return progress }
      options = ConnectionOptions()
      if let fault = fields.dropHopByHop(bytes, &options, isResponse: true) { return .invalid(fault) }
      let framing = BodyFraming.ofResponse(
        fields, bytes, status: status, minorVersion: minorVersion, toHead: toHead, toConnect: toConnect)
      switch framing {
      case .failure(let fault): return .invalid(fault)
      case .success(let framing): self.framing = framing
      }
      return progress
    }
  }

  /// The length of the version at the beginning of a status line.
  static let versionBytes = 8

  static func mayStand(_ byte: UInt8, at index: Int) -> Bool {
    switch index {
    case 0: byte == 0x48
    case 1, 2: byte == 0x54
    case 3: byte == 0x50
    case 4: byte == 0x2f
    case 5: byte == 0x31
    case 6: byte == 0x2e
    case 7: byte.isASCIIDigit
    case 8, 12: byte == 0x20
    default: byte.isASCIIDigit
    }
  }

  public var isInformational: Bool { status < 200 }

  /// Whether the server keeps the connection (RFC 9112, 9.3).
  public var isPersistent: Bool {
    if options.close || framing == .untilClose { return false }
    return minorVersion == 1 || options.keepAlive
  }
}

// Why streams and connections end early.

/// RFC 9113, 7.
public struct ErrorCode: RawRepresentable, Equatable, Sendable {
  public let rawValue: UInt32

  public init(rawValue: UInt32) { self.rawValue = rawValue }

  public static let noError = ErrorCode(rawValue: 0)
  public static let protocolError = ErrorCode(rawValue: 1)
  public static let internalError = ErrorCode(rawValue: 2)
  public static let streamClosed = ErrorCode(rawValue: 5)
  public static let refusedStream = ErrorCode(rawValue: 7)
  public static let cancel = ErrorCode(rawValue: 8)
  public static let enhanceYourCalm = ErrorCode(rawValue: 11)
  public static let http11Required = ErrorCode(rawValue: 13)

  /// RFC 9113, 7.
  private static let names = [
    "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
    "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
  ]

  /// `ENHANCE_YOUR_CALM`
  public var name: String { Int(rawValue) < Self.names.count ? Self.names[Int(rawValue)] : "error \(rawValue)" }
}

/// Why a connection cannot continue.
public struct ConnectionFault: Error, Equatable, Sendable {
  public let code: ErrorCode
  /// A sentence without its full stop, for people.
  public let detail: String

  public init(code: ErrorCode, detail: String) {
    self.code = code
    self.detail = detail
  }
}

extension ConnectionFault {
  static let flooded = ConnectionFault(
    code: .enhanceYourCalm,
    detail: "the peer sent more than \(ConnectionLimits.idleFrames.burst) frames that move nothing")
}

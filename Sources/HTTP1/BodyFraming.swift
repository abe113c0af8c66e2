// How the length of a message body is determined (RFC 9112, 6.3): one pure function for requests, one for responses.

import Bytes

public enum BodyFraming: Equatable, Sendable {
  case none
  /// Content-Length, in bytes.
  case length(UInt64)
  case chunked
  /// A response that ends when its connection closes.
  case untilClose

  /// Steps 3 to 7 of RFC 9112, 6.3, for a request.
  static func ofRequest(
    _ fields: FieldSection, _ bytes: Span<UInt8>, minorVersion: Int
  ) -> Result<BodyFraming, MessageFault> {
    explicit(fields, bytes, minorVersion: minorVersion).map { $0 ?? .none }
  }

  /// RFC 9112, 6.3, for a response. The fields must be consistent even if the status allows no body. The exception is a
  /// successful CONNECT: a client must ignore them there (step 2), because the tunnel follows.
  static func ofResponse(
    _ fields: FieldSection, _ bytes: Span<UInt8>, status: Int, minorVersion: Int, toHead: Bool, toConnect: Bool = false
  ) -> Result<BodyFraming, MessageFault> {
    if toConnect, (200..<300).contains(status) { return .success(.none) }
    return explicit(fields, bytes, minorVersion: minorVersion).map { framing in
      if toHead || status < 200 || status == 204 || status == 304 { return .none }
      return framing ?? .untilClose
    }
  }

  /// The framing given by the fields; nil if they give none.
  private static func explicit(
    _ fields: FieldSection, _ bytes: Span<UInt8>, minorVersion: Int
  ) -> Result<BodyFraming?, MessageFault> {
    var length: UInt64? = nil
    var codings = 0
    for index in fields.lines.indices {
      let value = fields.lines[index].value
      switch fields.lines[index].known {
      case .contentLength:
        guard let number = decimal(bytes, value) else { return .failure(.malformedContentLength) }
        if let length, length != number { return .failure(.differingContentLengths) }
        length = number
      case .transferEncoding:
        codings += 1
        if codings > 1 || !bytes.equals(value, ignoringCase: "chunked") { return .failure(.badTransferEncoding) }
      default: continue
      }
    }
    if codings > 0 {
      if minorVersion == 0 { return .failure(.transferEncodingInHTTP10) }
      return length == nil ? .success(.chunked) : .failure(.lengthWithTransferEncoding)
    }
    return .success(length.map { .length($0) })
  }

  /// 1*DIGIT below 2^63.
  static func decimal(_ bytes: Span<UInt8>, _ range: Range<Int>) -> UInt64? {
    if range.isEmpty || range.count > 19 { return nil }
    var number: UInt64 = 0
    for index in range {
      guard bytes[index].isASCIIDigit else { return nil }
      number = number &* 10 &+ UInt64(bytes[index] & 0xf)
    }
    return number <= UInt64(Int64.max) ? number : nil
  }
}

// How a stored answer is presented to a client: whole, as 304 if the client's condition holds (RFC 9110, 13), or as the
// part that it asks for (14.2). Tests: PresentationTests.

import Bytes
import HTTP1

/// The form in which a request gets a stored answer.
public enum Presentation: Sendable, Equatable {
  case whole
  case notModified
  /// The bytes of `range`, out of this total.
  case part(Range<UInt64>, of: UInt64)
  /// The range contains no existing byte.
  case unsatisfiable(of: UInt64)
}

extension Presentation {
  /// `length` is the length of the content in bytes; nil if it is not known yet.
  public init(of head: StoredHead, for request: CacheRequest, length: UInt64?) {
    if head.status == 200, Self.isUnchanged(head, for: request) {
      self = .notModified
    } else if head.status == 200, request.method == .get, let length, let range = request.fields.only("range"),
      Self.mayBeCut(head, for: request)
    {
      self = Self.part(range, of: length)
    } else {
      self = .whole
    }
  }

  /// RFC 9110, 13.2.2: If-None-Match takes precedence over If-Modified-Since.
  private static func isUnchanged(_ head: StoredHead, for request: CacheRequest) -> Bool {
    if let list = request.fields.combined("if-none-match") {
      if list == [0x2a] { return true }
      guard let entityTag = head.entityTag else { return false }
      return EntityTag.list(list).contains { $0.matchesWeakly(entityTag) }
    }
    guard let text = request.fields.only("if-modified-since"),
      let since = HTTPDate.read(text.span, now: head.received / 1000)
    else { return false }
    return (head.lastModified ?? head.date) <= since
  }

  /// RFC 9110, 13.1.5: a part is only sent of the representation that the client already has a part of.
  private static func mayBeCut(_ head: StoredHead, for request: CacheRequest) -> Bool {
    guard let condition = request.fields.only("if-range") else { return !request.fields.contains("if-range") }
    if condition.first == 0x22 || condition.starts(with: [0x57, 0x2f]) {
      guard let entityTag = head.entityTag, let given = EntityTag(condition) else { return false }
      return entityTag.matchesStrongly(given)
    }
    // A date as a validator must match exactly, and must be old enough to be strong (8.8.2.2).
    guard let given = HTTPDate.read(condition.span, now: head.received / 1000), let lastModified = head.lastModified
    else { return false }
    return given == lastModified && head.date >= lastModified + StoredHead.strongSeconds
  }

  /// One byte range. Several ranges, and values that are not a range, get the whole answer (RFC 9110, 14.2).
  static func part(_ value: [UInt8], of length: UInt64) -> Presentation {
    let bytes = value.span
    guard bytes.count > 6, bytes.equals(0..<6, ignoringCase: "bytes=") else { return .whole }
    let set = bytes.trimmingBlanks(6..<bytes.count)
    guard let dash = (set).first(where: { bytes[$0] == 0x2d }), !set.contains(where: { bytes[$0] == 0x2c }) else {
      return .whole
    }
    let first = Decimal.number(value[set.lowerBound..<dash])
    let last = Decimal.number(value[dash + 1..<set.upperBound])
    if dash == set.lowerBound {
      guard let last else { return .whole }
      if last == 0 { return .unsatisfiable(of: length) }
      if length == 0 { return .whole }
      return .part(length - min(last, length)..<length, of: length)
    }
    guard let first, dash + 1 == set.upperBound || last != nil else { return .whole }
    if let last, last < first { return .whole }
    if first >= length { return .unsatisfiable(of: length) }
    return .part(first..<min(last ?? .max, length - 1) + 1, of: length)
  }

  /// Writes `stored` in this form. `age` is in seconds; `length` is that of the whole content, nil if it is not known.
  public func write(_ stored: StoredHead, age: Int64, length: UInt64?, to buffer: inout ByteBuffer) {
    buffer.append("HTTP/1.1 ")
    switch self {
    case .whole:
      buffer.append(decimal: UInt64(stored.status), width: 3)
      buffer.append(0x20)
      buffer.append(stored.reason)
      buffer.append("\r\n")
      buffer.append(stored.fields.text)
    case .notModified:
      buffer.append("304 Not Modified\r\n")
      buffer.append(Self.fieldsOfNotModified(stored.fields).text)
    case .part(let range, let total):
      buffer.append("206 Partial Content\r\n")
      buffer.append(stored.fields.text)
      buffer.append("Content-Range: bytes ")
      buffer.append(decimal: range.lowerBound)
      buffer.append("-")
      buffer.append(decimal: range.upperBound - 1)
      buffer.append("/")
      buffer.append(decimal: total)
      buffer.append("\r\n")
    case .unsatisfiable(let total):
      buffer.append("416 Range Not Satisfiable\r\nContent-Range: bytes */")
      buffer.append(decimal: total)
      buffer.append("\r\n")
    }
    buffer.append("Age: ")
    buffer.append(decimal: UInt64(max(0, age)))
    buffer.append("\r\n")
    writeFraming(status: stored.status, length, to: &buffer)
    buffer.append("\r\n")
  }

  private func writeFraming(status: Int, _ length: UInt64?, to buffer: inout ByteBuffer) {
    let count: UInt64?
    switch self {
    case .whole where status == 204: return
    case .notModified: return
    case .whole: count = length
    case .part(let range, _): count = UInt64(range.count)
    case .unsatisfiable: count = 0
    }
    guard let count else { return buffer.append("Transfer-Encoding: chunked\r\n") }
    buffer.append("Content-Length: ")
    buffer.append(decimal: count)
    buffer.append("\r\n")
  }

  /// RFC 9110, 15.4.5.
  private static func fieldsOfNotModified(_ fields: MessageFields) -> MessageFields {
    let kept: [StaticString] = [
      "cache-control", "content-location", "date", "etag", "expires", "last-modified", "vary",
    ]
    return fields.without { name in !kept.contains { name.equals(0..<name.count, ignoringCase: $0) } }
  }
}

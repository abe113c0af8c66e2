// Stored answers that are incomplete: from a 206, or from an aborted download. The stored bytes are one contiguous run,
// and the origin is asked for what follows. Both are combined only if a strong validator proves that they belong to the
// same representation (RFC 9111, 3.3 and 3.4; RFC 9110, 15.3.7.3). Tests: StoredPartTests.

import Bytes
import HTTP1

/// Which part of a representation a stored answer contains: where it begins, and how long the whole is, in bytes.
public struct StoredPart: Sendable, Equatable {
  public let offset: UInt64
  public let total: UInt64

  public init(offset: UInt64, total: UInt64) {
    self.offset = offset
    self.total = total
  }
}

extension StoredAnswer {
  /// The length of the representation in bytes; nil if it is not known yet.
  public var length: UInt64? { part?.total ?? content.length }

  /// Whether everything that this presentation needs is stored or still arriving.
  public func holds(_ presentation: Presentation, for request: CacheRequest) -> Bool {
    guard let part, request.method != .head else { return true }
    switch presentation {
    case .notModified, .unsatisfiable: return true
    case .whole: return false
    case .part(let range, _):
      guard let count = content.announced, range.lowerBound >= part.offset else { return false }
      return range.upperBound <= part.offset + count
    }
  }

  /// What remains of the answer when its fetch ended early; nil if the rest could not be requested later.
  public func salvaged() -> StoredAnswer? {
    guard head.status == 200, head.strongValidator != nil, head.acceptsRanges,
      let total = part?.total ?? content.announced, let kept = content.salvaged()
    else { return nil }
    return StoredAnswer(
      key: key, url: url, host: host, rule: rule, head, kept, part: StoredPart(offset: part?.offset ?? 0, total: total),
      file: file)
  }

  /// The stored bytes to which the rest can be added; nil if they do not begin with the first byte, or cannot be
  /// combined.
  public func beginning() -> Content.Beginning? {
    guard let part, part.offset == 0, head.strongValidator != nil else { return nil }
    return content.beginning()
  }

  /// The stored bytes that an arriving part continues, and how many bytes of that part are already stored. nil if they
  /// do not meet, or may be of different representations.
  public func meets(_ range: ContentRange, _ fields: MessageFields) -> (beginning: Content.Beginning, known: UInt64)? {
    guard let part, range.total == part.total, head.isSameRepresentation(as: fields),
      range.bytes.lowerBound >= part.offset,
      let beginning = content.beginning()
    else { return nil }
    let end = part.offset + beginning.count
    guard range.bytes.lowerBound <= end, range.bytes.upperBound > end else { return nil }
    return (beginning, end - range.bytes.lowerBound)
  }
}

extension StoredHead {
  /// The validator for a range request (RFC 9110, 13.1.5): a strong entity tag, or a strong date (8.8.2.2).
  public var strongValidator: [UInt8]? {
    if let entityTag { return entityTag.matchesStrongly(entityTag) ? entityTag.text : nil }
    guard let lastModified, date >= lastModified + Self.strongSeconds else { return nil }
    return fields.only("last-modified")
  }

  /// How much older than the answer Last-Modified must be to identify one representation, in seconds.
  static let strongSeconds: Int64 = 60

  /// Whether the origin may send parts: it has not said otherwise (RFC 9110, 14.3).
  public var acceptsRanges: Bool {
    guard let unit = fields.combined("accept-ranges") else { return true }
    return !unit.span.equals(0..<unit.count, ignoringCase: "none")
  }

  /// Whether an answer with these fields is of exactly the same representation.
  public func isSameRepresentation(as fields: MessageFields) -> Bool {
    guard let validator = strongValidator else { return false }
    // Two codings of one document are two representations, even if a careless origin gives both the same tag.
    guard fields.combined("content-encoding") == self.fields.combined("content-encoding") else { return false }
    if let entityTag {
      return fields.only("etag").flatMap { EntityTag($0) }.map { entityTag.matchesStrongly($0) } ?? false
    }
    return !fields.contains("etag") && fields.only("last-modified") == validator
  }

  /// The lines that ask for the bytes from `offset` on, each with its line end. `end`: one past the last byte; nil for
  /// everything that follows.
  public func conditions(forBytesFrom offset: UInt64, to end: UInt64? = nil) -> [UInt8] {
    var lines = ByteBuffer()
    lines.append("Range: bytes=")
    lines.append(decimal: offset)
    lines.append("-")
    if let end { lines.append(decimal: end - 1) }
    lines.append("\r\nIf-Range: ")
    lines.append(strongValidator ?? [])
    lines.append("\r\n")
    return lines.bytes.array
  }
}

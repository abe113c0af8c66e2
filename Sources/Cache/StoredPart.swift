// Stored answers that are parts: of a 206, or of a download that broke off. What of a representation is there is one run of bytes;
// what is asked of the origin is what is missing behind it, and both are put together only where a strong validator says that they
// are of the same representation (RFC 9111, 3.3 and 3.4; RFC 9110, 15.3.7.3). Tests: StoredPartTests.

import Bytes
import HTTP1

/// What of a representation the content of a stored answer is: where it begins, and how long the whole is, in bytes.
public struct StoredPart: Sendable, Equatable {
  public let offset: UInt64
  public let total: UInt64

  public init(offset: UInt64, total: UInt64) {
    self.offset = offset
    self.total = total
  }
}

extension StoredAnswer {
  /// Of the representation, in bytes; nil where it is not known yet.
  public var length: UInt64? { part?.total ?? content.length }

  /// Whether all that a request is to get of it is there, or is coming.
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

  /// What is left of the answer where its fetch has ended too early; nil: nothing that could be gone on with.
  public func salvaged() -> StoredAnswer? {
    guard head.status == 200, head.strongValidator != nil, head.acceptsRanges,
      let total = part?.total ?? content.announced, let kept = content.salvaged()
    else { return nil }
    return StoredAnswer(
      key: key, url: url, host: host, rule: rule, head, kept, part: StoredPart(offset: part?.offset ?? 0, total: total),
      file: file)
  }

  /// What can be gone on with by asking for the rest; nil: it does not begin with the first byte, or cannot be put together.
  public func beginning() -> Content.Beginning? {
    guard let part, part.offset == 0, head.strongValidator != nil else { return nil }
    return content.beginning()
  }

  /// What of it a part that has come goes on from, and how many bytes of that part are there already; nil: they do not meet, or
  /// are not known to be of the same representation.
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
  /// What a range may be asked for by (RFC 9110, 13.1.5): an entity tag that is strong, or a date that is (8.8.2.2).
  public var strongValidator: [UInt8]? {
    if let entityTag { return entityTag.matchesStrongly(entityTag) ? entityTag.text : nil }
    guard let lastModified, date >= lastModified + Self.strongSeconds else { return nil }
    return fields.only("last-modified")
  }

  /// How much older than an answer its Last-Modified must be in order to be of that one representation, in seconds.
  static let strongSeconds: Int64 = 60

  /// Whether the origin has not said that it gives no parts (RFC 9110, 14.3).
  public var acceptsRanges: Bool {
    guard let unit = fields.combined("accept-ranges") else { return true }
    return !unit.span.equals(0..<unit.count, ignoringCase: "none")
  }

  /// Whether an answer with these fields is of the very same representation.
  public func isSameRepresentation(as fields: MessageFields) -> Bool {
    guard let validator = strongValidator else { return false }
    // Two codings of one document are two representations, whatever tag a careless origin gives both.
    guard fields.combined("content-encoding") == self.fields.combined("content-encoding") else { return false }
    if let entityTag {
      return fields.only("etag").flatMap { EntityTag($0) }.map { entityTag.matchesStrongly($0) } ?? false
    }
    return !fields.contains("etag") && fields.only("last-modified") == validator
  }

  /// The lines that ask for what comes behind `offset`, each with its line end. `end`: behind the last byte; nil: all that follows.
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

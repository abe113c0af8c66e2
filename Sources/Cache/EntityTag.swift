// Entity tags and their comparison (RFC 9110, 8.8.3). Tests: EntityTagTests.

import Bytes

public struct EntityTag: Sendable, Equatable {
  public let isWeak: Bool
  /// With its quotation marks.
  public let opaque: [UInt8]

  /// nil if `text` is empty. A tag without quotation marks, as old servers send it, is its own text and never matches
  /// strongly.
  public init?(_ text: [UInt8]) {
    if text.isEmpty { return nil }
    isWeak = text.starts(with: [0x57, 0x2f])
    opaque = isWeak ? Array(text.dropFirst(2)) : text
  }

  public var text: [UInt8] { (isWeak ? [0x57, 0x2f] : []) + opaque }

  private var isQuoted: Bool { opaque.count >= 2 && opaque.first == 0x22 && opaque.last == 0x22 }

  public func matchesWeakly(_ other: EntityTag) -> Bool { opaque == other.opaque }

  public func matchesStrongly(_ other: EntityTag) -> Bool {
    !isWeak && !other.isWeak && isQuoted && opaque == other.opaque
  }

  /// The tags of a list; `*` stays as it is. A tag may contain a comma.
  static func list(_ text: [UInt8]) -> [EntityTag] {
    var tags: [EntityTag] = []
    var current: [UInt8] = []
    var isQuoted = false
    for byte in text + [0x2c] {
      if byte == 0x22 { isQuoted.toggle() }
      guard byte == 0x2c, !isQuoted else {
        current.append(byte)
        continue
      }
      let trimmed = current.span.trimmingBlanks(0..<current.count)
      if let tag = EntityTag(Array(current[trimmed])) { tags.append(tag) }
      current = []
    }
    return tags
  }
}

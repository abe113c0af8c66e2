// Cache-Control (RFC 9111, 5.2), and the targeted fields of RFC 9213, which are read the same way.
//
// A value that cannot be read counts as the most restrictive one: an age that is not a number is zero, and the shortest
// of several ages applies (4.2.1). A directive with a list of field names (`private="Set-Cookie"`) is read as if it
// covered every field, as 5.2.2.4 and 5.2.2.7 allow. Tests: CacheDirectivesTests.

import Bytes

/// The Cache-Control directives of a message. Times are in seconds.
public struct CacheDirectives: Sendable, Equatable {
  public internal(set) var noStore = false
  public internal(set) var noCache = false
  public internal(set) var isPrivate = false
  public internal(set) var isPublic = false
  public internal(set) var revalidation = Revalidation.none
  public internal(set) var mustUnderstand = false
  public internal(set) var onlyIfCached = false
  public internal(set) var maxAge: Int64? = nil
  public internal(set) var sharedMaxAge: Int64? = nil
  public internal(set) var minFresh: Int64? = nil
  /// `Int64.max` if max-stale has no number: any age is accepted.
  public internal(set) var maxStale: Int64? = nil
  public internal(set) var staleWhileRevalidate: Int64? = nil
  public internal(set) var staleIfError: Int64? = nil

  /// By whom a stale answer must not be used without asking the origin.
  public enum Revalidation: Sendable, Comparable {
    case none
    /// proxy-revalidate
    case byProxies
    /// must-revalidate
    case byAll
  }

  /// The longest time that is represented. Longer values, and values too long to parse, become this one (RFC 9111,
  /// 1.2.2).
  public static let longest: Int64 = 1 << 31

  public init() {}

  /// Reads Cache-Control.
  public init(_ fields: MessageFields) {
    guard let list = fields.combined("cache-control") else { return }
    read(list)
  }

  /// Reads the first of the `targets` (lower case) that is present and readable (RFC 9213, 2.2), or else Cache-Control.
  /// If `isTargeted`, a targeted field was used and Expires does not count.
  static func ofResponse(_ fields: MessageFields, targets: [[UInt8]]) -> (directives: CacheDirectives, isTargeted: Bool)
  {
    for target in targets {
      guard let list = fields.combined(target.span), let read = TargetedField.read(list) else { continue }
      return (read, true)
    }
    return (CacheDirectives(fields), false)
  }

  mutating func read(_ list: [UInt8]) {
    let bytes = list.span
    var at = 0
    while at < bytes.count {
      while at < bytes.count, bytes[at].isBlank || bytes[at] == 0x2c { at += 1 }
      let begin = at
      while at < bytes.count, bytes[at].isTokenCharacter { at += 1 }
      let name = begin..<at
      var value: [UInt8]? = nil
      var isSound = true
      if at < bytes.count, bytes[at] == 0x3d {
        at += 1
        let begin = at
        value = Self.argument(bytes, &at)
        if value == nil {
          // An unclosed quotation hides nothing: its contents are read as directives too.
          isSound = false
          at = begin + 1
          note(bytes.extracting(name), nil, isSound: false)
          continue
        }
      }
      // Nothing may follow the value. If something does, the sender meant something else.
      while at < bytes.count, bytes[at] != 0x2c {
        if !bytes[at].isBlank { isSound = false }
        at += 1
      }
      if !name.isEmpty { note(bytes.extracting(name), value, isSound: isSound) }
    }
  }

  /// A token, or a quoted string without its quotation marks; nil if the string is not closed.
  private static func argument(_ bytes: Span<UInt8>, _ at: inout Int) -> [UInt8]? {
    var value: [UInt8] = []
    guard at < bytes.count, bytes[at] == 0x22 else {
      while at < bytes.count, bytes[at] != 0x2c, !bytes[at].isBlank {
        value.append(bytes[at])
        at += 1
      }
      return value
    }
    at += 1
    while at < bytes.count, bytes[at] != 0x22 {
      if bytes[at] == 0x5c, at + 1 < bytes.count { at += 1 }
      value.append(bytes[at])
      at += 1
    }
    if at >= bytes.count { return nil }
    at += 1
    return value
  }

  private mutating func note(_ name: Span<UInt8>, _ value: [UInt8]?, isSound: Bool) {
    func named(_ text: StaticString) -> Bool { name.equals(0..<name.count, ignoringCase: text) }
    let seconds = isSound ? value.flatMap(Self.seconds) : nil
    if named("max-age") {
      Self.shorten(&maxAge, seconds)
    } else if named("s-maxage") {
      Self.shorten(&sharedMaxAge, seconds)
    } else if named("min-fresh") {
      // This is a request directive: an unreadable value counts as the most demanding one.
      minFresh = max(minFresh ?? 0, seconds ?? Self.longest)
    } else if named("max-stale") {
      Self.shorten(&maxStale, value == nil && isSound ? .max : seconds)
    } else if named("stale-while-revalidate") {
      Self.shorten(&staleWhileRevalidate, seconds)
    } else if named("stale-if-error") {
      Self.shorten(&staleIfError, seconds)
    } else {
      note(flag: name, isSound: isSound)
    }
  }

  private mutating func note(flag name: Span<UInt8>, isSound: Bool) {
    func named(_ text: StaticString) -> Bool { name.equals(0..<name.count, ignoringCase: text) }
    if named("no-store") { noStore = true }
    if named("no-cache") { noCache = true }
    if named("private") { isPrivate = true }
    if named("public"), isSound { isPublic = true }
    if named("must-revalidate") { revalidation = .byAll }
    if named("proxy-revalidate") { revalidation = max(revalidation, .byProxies) }
    if named("must-understand"), isSound { mustUnderstand = true }
    if named("only-if-cached") { onlyIfCached = true }
  }

  static func shorten(_ time: inout Int64?, _ seconds: Int64?) { time = min(time ?? .max, seconds ?? 0) }

  /// delta-seconds (RFC 9111, 1.2.2); nil if it is not a number.
  static func seconds(_ text: [UInt8]) -> Int64? {
    if text.isEmpty { return nil }
    var seconds: Int64 = 0
    for byte in text {
      guard byte.isASCIIDigit else { return nil }
      seconds = min(seconds * 10 + Int64(byte & 0xf), longest)
    }
    return seconds
  }
}

// Cache-Control (RFC 9111, 5.2), and the fields of RFC 9213 that speak to one cache and are read the same way.
//
// A value that cannot be read counts as the one that lets the least be used: an age that is no number is zero, of several the
// shortest holds (4.2.1). What a directive names in quotation marks (`private="Set-Cookie"`) is read as if it named everything,
// as 5.2.2.4 and 5.2.2.7 let a cache do. Tests: CacheDirectivesTests.

import Bytes

/// What a message asks of caches. Times are in seconds.
public struct CacheDirectives: Sendable, Equatable {
  public internal(set) var noStore = false
  public internal(set) var noCache = false
  public internal(set) var isPrivate = false
  public internal(set) var isPublic = false
  public internal(set) var mustRevalidate = false
  public internal(set) var proxyRevalidate = false
  public internal(set) var mustUnderstand = false
  public internal(set) var immutable = false
  public internal(set) var onlyIfCached = false
  public internal(set) var maxAge: Int64? = nil
  public internal(set) var sharedMaxAge: Int64? = nil
  public internal(set) var minFresh: Int64? = nil
  /// `Int64.max` where max-stale names no number: any age is taken.
  public internal(set) var maxStale: Int64? = nil
  public internal(set) var staleWhileRevalidate: Int64? = nil
  public internal(set) var staleIfError: Int64? = nil
  /// The field was there.
  public internal(set) var isPresent = false

  /// Longest time that is told apart: what is above it, or too long to read, is this (RFC 9111, 1.2.2).
  public static let longest: Int64 = 1 << 31

  public init() {}

  /// Those of the lines of Cache-Control.
  public init(_ fields: MessageFields) {
    guard let list = fields.combined("cache-control") else { return }
    read(list)
  }

  /// Those of the first of `targets`, in lower case, that the message has and that can be read (RFC 9213, 2.2); else those of
  /// Cache-Control. `isTargeted`: a targeted field was taken, and Expires does not count.
  static func ofResponse(_ fields: MessageFields, targets: [[UInt8]]) -> (directives: CacheDirectives, isTargeted: Bool)
  {
    for target in targets {
      guard let list = fields.combined(target.span), let read = TargetedField.read(list) else { continue }
      return (read, true)
    }
    return (CacheDirectives(fields), false)
  }

  mutating func read(_ list: [UInt8]) {
    isPresent = true
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
          // A quotation that nothing closes hides nothing: what stands in it is read as well.
          isSound = false
          at = begin + 1
          note(bytes.extracting(name), nil, isSound: false)
          continue
        }
      }
      // What follows is no part of a directive: with it the whole is not what its sender meant.
      while at < bytes.count, bytes[at] != 0x2c {
        if !bytes[at].isBlank { isSound = false }
        at += 1
      }
      if !name.isEmpty { note(bytes.extracting(name), value, isSound: isSound) }
    }
  }

  /// A token or a quoted string, without its quotation marks; nil where one is not closed.
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
      // Of a request: what cannot be read asks for the most.
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
    if named("must-revalidate") { mustRevalidate = true }
    if named("proxy-revalidate") { proxyRevalidate = true }
    if named("must-understand"), isSound { mustUnderstand = true }
    if named("immutable"), isSound { immutable = true }
    if named("only-if-cached") { onlyIfCached = true }
  }

  static func shorten(_ time: inout Int64?, _ seconds: Int64?) { time = min(time ?? .max, seconds ?? 0) }

  /// delta-seconds (RFC 9111, 1.2.2); nil where it is no number.
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

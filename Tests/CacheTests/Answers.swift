// Messages as the tables of these tests write them, and rows that a fault of the code makes fail.

import Bytes
import HTTP1
import Policy
import Testing

@testable import Cache

/// Sun, 01 Mar 2026 12:00:00 GMT, in seconds since 1970: when the answers of the tables arrive.
let arrival: Int64 = 1_772_366_400

/// A moment so many seconds after the arrival, in milliseconds since 1970.
func later(_ seconds: Int64) -> Int64 { (arrival + seconds) * 1000 }

/// A date so many seconds after the arrival.
func date(_ seconds: Int64) -> String {
  var text = ByteBuffer()
  CalendarTime(secondsSince1970: arrival + seconds).writeIMFFixdate(to: &text)
  return text.bytes.string
}

/// Fields of lines such as `Name: value`. Each scalar is a byte.
func fields(_ lines: [String]) -> MessageFields {
  var fields = MessageFields()
  for line in lines {
    let bytes = line.unicodeScalars.map { UInt8($0.value) }
    let colon = bytes.firstIndex(of: 0x3a) ?? bytes.count
    let name = Array(bytes[..<colon])
    let rest = Array(bytes[min(colon + 1, bytes.count)...])
    let value = Array(rest[rest.span.trimmingBlanks(0..<rest.count)])
    fields.append(name.span, value.span)
  }
  return fields
}

func request(
  _ lines: [String] = [], _ method: KnownMethod = .get, isAuthorized: Bool = false, rule: CacheRule = CacheRule(),
  policy: CachePolicy = .useProtocol
) -> CacheRequest {
  CacheRequest(method, fields(lines), isAuthorized: isAuthorized, rule: rule, policy: policy)
}

/// A rule whose answers are each user's own, as in a private cache.
let ownRule = rule { $0.share = .user }

func rule(_ change: (inout CacheRule) -> Void) -> CacheRule {
  var rule = CacheRule()
  change(&rule)
  return rule
}

/// An answer that left the moment it was asked for, `delay` milliseconds before it came.
func answer(
  _ status: Int = 200, _ lines: [String], to request: CacheRequest = request(), delay: Int64 = 0,
  targets: [String] = []
) -> StoredHead {
  StoredHead(
    status: status, reason: Array("OK".utf8), fields(lines), answering: request, requested: later(0) - delay,
    received: later(0), targets: targets.map { Array($0.utf8) })
}

/// Bytes as text.
func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

/// Chance that repeats itself (SplitMix64), for rows that a seed makes.
struct Seeded: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
    return mixed ^ mixed >> 31
  }
}

// The paths that servers may make of one spelling, for the conditions of rules.
//
// What leaves for the origin keeps its spelling, and the origin reads it in a way of its own: `/public/..%2fadmin` is
// `/admin` to nginx, Apache, Tomcat and Jetty, and something below `/public/` to Flask and Express. A rule that judged one
// of these readings would be walked around at the servers that have another. So a path has a set of readings, and a rule
// that denies matches where any of them does, one that allows only where all do.
//
// The set was measured (Tests/EndToEndTests/test_path_readings.py asks the servers again). It is made step by step, each
// step adding to what is there: dot segments removed before anything is decoded, parameters cut (Tomcat, Jetty: `..;x` is
// `..`), escapes decoded in several ways (`Escapes`), parameters and what is behind a decoded `?` cut, `\` taken for `/` (Tomcat), dots and blanks at
// the end of a segment cut (Windows), slashes merged and dot segments removed, in either order. A step that changes nothing
// adds nothing, so an ordinary path has one reading, which is the path itself: it is looked at once, and copied nowhere.
//
// Case, and a slash at the end, are no readings: Express disregards both, but a rule that allows
// `/public/` must not fail on it. Rules that deny compare so (`PathPattern`). Tests: PathReadingsTests.

import Bytes

/// The ways in which percent-encoded octets are read. Each reading of a path, and each form of a pattern, has one; they are
/// compared like with like.
struct Escapes: OptionSet, Hashable, Sendable {
  let rawValue: UInt8

  /// Escapes of `/ \ . ; %` stay as they are, for servers that match what came (Express). Other escapes are decoded in all
  /// of the ways: RFC 3986, 6.2.2.2 says that they mean the same.
  static let kept = Escapes(rawValue: 1 << 0)
  /// All are decoded but that of `/` (aiohttp, Apache with AllowEncodedSlashes NoDecode).
  static let keptSlash = Escapes(rawValue: 1 << 1)
  /// All are decoded (nginx, lighttpd, Tomcat, Jetty, Flask).
  static let decoded = Escapes(rawValue: 1 << 2)
  /// All are decoded, and `%uXXXX` too (Jetty, servers on Windows).
  static let wide = Escapes(rawValue: 1 << 3)
  /// All are decoded, and of what comes of it those of `/ \ . ;` again: with them a path climbs out where nginx hands `$uri`
  /// to another server. None of the servers that were measured decodes twice by itself.
  static let twice = Escapes(rawValue: 1 << 4)

  static let all: Escapes = [.kept, .keptSlash, .decoded, .wide, .twice]
  /// `decoded` stands before `twice`, which begins with it.
  static let ways: [Escapes] = [.kept, .keptSlash, .wide, .decoded, .twice]
}

/// What was done to a path to get to a reading, for people.
struct PathSteps: OptionSet, Hashable, Sendable {
  let rawValue: UInt16

  static let dotSegments = PathSteps(rawValue: 1 << 0)
  static let parameters = PathSteps(rawValue: 1 << 1)
  static let backslashes = PathSteps(rawValue: 1 << 2)
  static let segmentEnds = PathSteps(rawValue: 1 << 3)
  static let slashes = PathSteps(rawValue: 1 << 4)
  static let query = PathSteps(rawValue: 1 << 5)
}

/// The set of readings of one path, in storage that is used again.
public struct PathReadings: Sendable {
  struct Reading: Sendable {
    var octets: Range<Int>
    /// The ways of decoding that lead here: all of them where no escape tells them apart.
    var escapes: Escapes
    var steps: PathSteps
  }

  /// Most readings of one path. The worst of the spellings that were measured has 22; a path with more has been made to have
  /// them, and is decided the strict way.
  static let mostReadings = 64
  /// Most octets of all readings of a path together: the usual limit of a whole head, so that a path of many readings costs no
  /// more to match than a long one of one reading.
  static let mostOctets = 32 << 10

  private(set) var octets: [UInt8] = []
  /// Empty for an ordinary path, whose reading is the path itself.
  private(set) var readings: [Reading] = []
  /// More readings than are looked at: rules that deny match, others do not.
  private(set) var isUnreadable = false
  /// Where the readings begin in `octets`: behind what came, while it is decoded.
  var octetsOfReadings: [[UInt8]] { readings.map { Array(octets[$0.octets]) } }
  private var base = 0
  private var raw: [Reading] = []
  private var scratch: [UInt8] = []
  private var once: [UInt8] = []

  public init() {}

  /// Reads a path without its query. An empty one is "/".
  public mutating func set(_ path: Span<UInt8>) {
    readings.removeAll(keepingCapacity: true)
    octets.removeAll(keepingCapacity: true)
    isUnreadable = false
    if path.isEmpty {
      scratch = [0x2f]
      return add(.all, [])
    }
    if Self.isOrdinary(path) { return }
    scratch.removeAll(keepingCapacity: true)
    for index in 0..<path.count { scratch.append(path[index]) }
    add(.all, [])
    derive(.dotSegments) { Self.removeDotSegments($0, $1, &$2) }
    derive(.parameters) { Self.cutParameters($0, $1, &$2) }
    decode()
    derive(.parameters) { Self.cutParameters($0, $1, &$2) }
    derive(.query) { Self.cutQuery($0, $1, &$2) }
    derive(.backslashes) { Self.turnBackslashes($0, $1, &$2) }
    derive(.segmentEnds) { Self.cutSegmentEnds($0, $1, &$2) }
    derive(.slashes) { Self.mergeSlashes($0, $1, &$2) }
    derive(.dotSegments) { Self.removeDotSegments($0, $1, &$2) }
    derive(.slashes) { Self.mergeSlashes($0, $1, &$2) }
    if isUnreadable {
      readings.removeAll(keepingCapacity: true)
      octets.removeAll(keepingCapacity: true)
    }
  }

  /// Whether no server reads the path in more than one way: no escape, no parameter, no `//`, and no dot at the end of a
  /// segment. Raw backslashes are refused before a rule is asked.
  static func isOrdinary(_ path: Span<UInt8>) -> Bool {
    var last: UInt8 = 0
    for index in 0..<path.count {
      let octet = path[index]
      switch octet {
      case 0x25, 0x3b, 0x5c: return false
      case 0x2f: if last == 0x2f || last == 0x2e { return false }
      default: break
      }
      last = octet
    }
    return last != 0x2e
  }

  // MARK: The set

  /// Adds what stands in `scratch`, unless it is there.
  private mutating func add(_ escapes: Escapes, _ steps: PathSteps) {
    for index in readings.indices
    where readings[index].octets.count == scratch.count && octets[readings[index].octets].elementsEqual(scratch) {
      readings[index].escapes.formUnion(escapes)
      return
    }
    // The first, which is the path itself, has room in any case: the limit of the head has judged its length.
    let isFull = readings.count == Self.mostReadings || octets.count - base + scratch.count > Self.mostOctets
    if isFull, !readings.isEmpty {
      isUnreadable = true
      return
    }
    readings.append(
      Reading(octets: octets.count..<octets.count + scratch.count, escapes: escapes, steps: steps))
    octets.append(contentsOf: scratch)
  }

  /// Adds what `change` makes of each reading that is there.
  private mutating func derive(
    _ step: PathSteps, _ change: (borrowing [UInt8], Range<Int>, inout [UInt8]) -> Void
  ) {
    for index in readings.indices where !isUnreadable {
      scratch.removeAll(keepingCapacity: true)
      let reading = readings[index]
      change(octets, reading.octets, &scratch)
      add(reading.escapes, reading.steps.union(step))
    }
  }

  /// Puts the ways of reading escapes in place of what is there, which is as it came.
  private mutating func decode() {
    swap(&raw, &readings)
    readings.removeAll(keepingCapacity: true)
    base = octets.count
    for reading in raw where !isUnreadable {
      guard octets[reading.octets].contains(0x25) else {
        scratch.removeAll(keepingCapacity: true)
        scratch.append(contentsOf: octets[reading.octets])
        add(.all, reading.steps)
        continue
      }
      for way in Escapes.ways where way != .twice {
        decodeToScratch(reading.octets, way)
        add(way, reading.steps)
      }
      decodeScratch()
      add(.twice, reading.steps)
    }
    // What came is not looked at again.
    octets.removeFirst(base)
    for index in readings.indices {
      let range = readings[index].octets
      readings[index].octets = range.lowerBound - base..<range.upperBound - base
    }
    base = 0
  }
}

// MARK: Escapes

extension PathReadings {
  // What is written stands aside meanwhile, so that it may be while another part is read.

  private mutating func decodeToScratch(_ range: Range<Int>, _ way: Escapes) {
    var out: [UInt8] = []
    swap(&out, &scratch)
    out.removeAll(keepingCapacity: true)
    Self.decode(octets.span.extracting(range), way, into: &out)
    swap(&out, &scratch)
  }

  private mutating func decodeScratch() {
    var out: [UInt8] = []
    swap(&out, &once)
    out.removeAll(keepingCapacity: true)
    Self.decodeStructure(scratch.span, into: &out)
    swap(&out, &once)
    swap(&once, &scratch)
  }

  /// Octets whose escape means something else than the octet to some server.
  private static func isStructure(_ octet: UInt8) -> Bool {
    switch octet {
    case 0x25, 0x2e, 0x2f, 0x3b, 0x5c: true
    default: false
    }
  }

  /// Appends `path` as this way has it.
  static func decode(_ path: Span<UInt8>, _ way: Escapes, into out: inout [UInt8]) {
    if way == .twice {
      var once: [UInt8] = []
      decode(path, .decoded, into: &once)
      return decodeStructure(once.span, into: &out)
    }
    var index = 0
    while index < path.count {
      if path[index] == 0x25, let octet = escaped(path, index + 1) {
        index += 3
        if way == .kept && isStructure(octet) || way == .keptSlash && octet == 0x2f {
          // In upper case, as RFC 3986, 6.2.2.1 has it.
          out.append(0x25)
          out.append(digit(octet >> 4))
          out.append(digit(octet & 0xf))
        } else {
          out.append(octet)
        }
      } else if way == .wide, path[index] == 0x25, let scalar = wideEscape(path, index + 1) {
        index += 6
        for octet in UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter { out.append(octet) }
      } else {
        out.append(path[index])
        index += 1
      }
    }
  }

  /// Appends `path` with the escapes of `/ \ . ;` decoded.
  private static func decodeStructure(_ path: Span<UInt8>, into out: inout [UInt8]) {
    var index = 0
    while index < path.count {
      if path[index] == 0x25, let octet = escaped(path, index + 1), octet != 0x25, isStructure(octet) {
        out.append(octet)
        index += 3
      } else {
        out.append(path[index])
        index += 1
      }
    }
  }

  private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? value &+ 0x30 : value &+ 0x37 }

  /// The octet of the two hexadecimal digits at `index`.
  private static func escaped(_ path: Span<UInt8>, _ index: Int) -> UInt8? {
    guard index + 1 < path.count, let high = path[index].hexadecimalValue,
      let low = path[index + 1].hexadecimalValue
    else { return nil }
    return high << 4 | low
  }

  /// The character of `uXXXX` at `index`.
  private static func wideEscape(_ path: Span<UInt8>, _ index: Int) -> Unicode.Scalar? {
    guard index < path.count, path[index] | 0x20 == 0x75, let high = escaped(path, index + 1),
      let low = escaped(path, index + 3)
    else { return nil }
    return Unicode.Scalar(UInt32(high) << 8 | UInt32(low))
  }
}

// MARK: Steps

extension PathReadings {
  /// RFC 3986, 5.2.4. What ends with a dot segment is a directory.
  static func removeDotSegments(_ path: borrowing [UInt8], _ range: Range<Int>, _ out: inout [UInt8]) {
    eachSegment(path, range) { segment, isLast in
      switch dots(path, segment) {
      case 1: break
      case 2: while let last = out.popLast(), last != 0x2f {}
      default:
        out.append(0x2f)
        out.append(contentsOf: path[segment])
        return
      }
      if isLast { out.append(0x2f) }
    }
  }

  static func mergeSlashes(_ path: borrowing [UInt8], _ range: Range<Int>, _ out: inout [UInt8]) {
    for index in range where path[index] != 0x2f || out.last != 0x2f { out.append(path[index]) }
  }

  static func turnBackslashes(_ path: borrowing [UInt8], _ range: Range<Int>, _ out: inout [UInt8]) {
    for index in range { out.append(path[index] == 0x5c ? 0x2f : path[index]) }
  }

  /// RFC 3986, 3.3: what follows `;` in a segment.
  static func cutParameters(_ path: borrowing [UInt8], _ range: Range<Int>, _ out: inout [UInt8]) {
    var cuts = false
    for index in range {
      if path[index] == 0x3b { cuts = true }
      if path[index] == 0x2f { cuts = false }
      if !cuts { out.append(path[index]) }
    }
  }

  /// What follows a decoded `?` or `#` is none of the path to a server that is handed the decoded path (nginx with `$uri`).
  static func cutQuery(_ path: borrowing [UInt8], _ range: Range<Int>, _ out: inout [UInt8]) {
    for index in range {
      if path[index] == 0x3f || path[index] == 0x23 { return }
      out.append(path[index])
    }
  }

  /// Windows has no names that end with dots or blanks, and a pattern's `$` may match before a line end. `.` and `..` stay what
  /// they are.
  static func cutSegmentEnds(_ path: borrowing [UInt8], _ range: Range<Int>, _ out: inout [UInt8]) {
    eachSegment(path, range) { segment, _ in
      var end = segment.upperBound
      while end > segment.lowerBound, path[end - 1] == 0x2e || path[end - 1] <= 0x20,
        dots(path, segment.lowerBound..<end) == 0
      {
        end -= 1
      }
      out.append(0x2f)
      out.append(contentsOf: path[segment.lowerBound..<end])
    }
  }

  /// How many dots a dot segment has; 0 for a name.
  private static func dots(_ path: borrowing [UInt8], _ segment: Range<Int>) -> Int {
    if segment.isEmpty || segment.count > 2 { return 0 }
    for index in segment where path[index] != 0x2e { return 0 }
    return segment.count
  }

  /// What stands between slashes, behind the first; the last may be empty.
  private static func eachSegment(
    _ path: borrowing [UInt8], _ range: Range<Int>, _ body: (Range<Int>, Bool) -> Void
  ) {
    var begin = range.lowerBound
    if begin < range.upperBound, path[begin] == 0x2f { begin += 1 }
    while true {
      var end = begin
      while end < range.upperBound, path[end] != 0x2f { end += 1 }
      body(begin..<end, end == range.upperBound)
      if end == range.upperBound { return }
      begin = end + 1
    }
  }
}

// MARK: For people

extension PathReadings.Reading {
  /// What was done to the path, in words; empty where it is read as it came.
  var words: String {
    var words: [String] = []
    if escapes.isDisjoint(with: [.kept, .keptSlash, .decoded]) {
      words.append(escapes.contains(.wide) ? "%uXXXX decoded" : "decoded twice")
    } else if !escapes.contains(.kept) {
      words.append(escapes.contains(.decoded) ? "decoded" : "decoded but for %2F")
    }
    if steps.contains(.parameters) { words.append("parameters cut") }
    if steps.contains(.query) { words.append("cut at '?' or '#'") }
    if steps.contains(.backslashes) { words.append("'\\' as '/'") }
    if steps.contains(.segmentEnds) { words.append("dots and blanks at the end of segments cut") }
    if steps.contains(.slashes) { words.append("slashes merged") }
    if steps.contains(.dotSegments) { words.append("dot segments removed") }
    return words.joined(separator: ", ")
  }
}

// The paths that servers may read from one spelling, for the conditions of rules.
//
// A request keeps its spelling on the way to the origin, and each origin reads it in its own way: `/public/..%2fadmin`
// is `/admin` to nginx, Apache, Tomcat and Jetty, and something below `/public/` to Flask and Express. A rule that
// checked only one reading could be bypassed at servers with another. So a path has a set of readings. A rule that
// denies matches if any reading does; one that allows matches only if all do.
//
// The set comes from measurements (Tests/EndToEndTests/test_path_readings.py repeats them). It is built in steps, each
// adding to the readings so far: remove dot segments before decoding; cut parameters (Tomcat, Jetty: `..;x` is `..`);
// decode escapes in several ways (`Escapes`); cut parameters and everything after a decoded `?`; take `\` for `/`
// (Tomcat); cut dots and blanks at the end of a segment (Windows); merge slashes and remove dot segments, in either
// order. A step that changes nothing adds nothing. So an ordinary path has one reading, the path itself, which is
// checked once and never copied.
//
// Case and a trailing slash do not make readings: Express ignores both, but that must not keep a rule that allows
// `/public/` from matching. Rules that deny ignore them too (`PathPattern`). Tests: PathReadingsTests.

import Bytes

/// The ways of reading percent-encoded octets. Each reading of a path, and each form of a pattern, belongs to one of
/// them; a reading is compared only with the form that belongs to the same way.
struct Escapes: OptionSet, Hashable, Sendable {
  let rawValue: UInt8

  /// Escapes of `/ \ . ; %` stay, for servers that match the raw path (Express). All other escapes are decoded in every
  /// way: RFC 3986, 6.2.2.2 defines them as equivalent.
  static let kept = Escapes(rawValue: 1 << 0)
  /// All are decoded except that of `/` (aiohttp, Apache with AllowEncodedSlashes NoDecode).
  static let keptSlash = Escapes(rawValue: 1 << 1)
  /// All are decoded (nginx, lighttpd, Tomcat, Jetty, Flask).
  static let decoded = Escapes(rawValue: 1 << 2)
  /// All are decoded, and `%uXXXX` too (Jetty, servers on Windows).
  static let wide = Escapes(rawValue: 1 << 3)
  /// All are decoded, and then those of `/ \ . ;` in the result once more: a path can climb out this way if nginx
  /// passes `$uri` to another server. None of the measured servers decodes twice by itself.
  static let twice = Escapes(rawValue: 1 << 4)

  static let all: Escapes = [.kept, .keptSlash, .decoded, .wide, .twice]
  /// `decoded` comes before `twice`, which starts from it.
  static let ways: [Escapes] = [.kept, .keptSlash, .wide, .decoded, .twice]
}

/// The steps that lead from a path to a reading, for people.
struct PathSteps: OptionSet, Hashable, Sendable {
  let rawValue: UInt16

  static let dotSegments = PathSteps(rawValue: 1 << 0)
  static let parameters = PathSteps(rawValue: 1 << 1)
  static let backslashes = PathSteps(rawValue: 1 << 2)
  static let segmentEnds = PathSteps(rawValue: 1 << 3)
  static let slashes = PathSteps(rawValue: 1 << 4)
  static let query = PathSteps(rawValue: 1 << 5)
}

/// The set of readings of one path, in reused storage.
public struct PathReadings: Sendable {
  struct Reading: Sendable {
    var octets: Range<Int>
    /// The ways of decoding that lead here: all of them if no escape makes a difference.
    var escapes: Escapes
    var steps: PathSteps
  }

  /// Most readings of one path. The worst spelling that was measured has 22. A path with more than this was crafted,
  /// and is treated as unreadable.
  static let mostReadings = 64
  /// Most octets of all readings of a path together: the usual limit of a whole head. So matching a path with many
  /// readings costs no more than matching a long one with one reading.
  static let mostOctets = 32 << 10

  private(set) var octets: [UInt8] = []
  /// Empty for an ordinary path, whose only reading is the path itself.
  private(set) var readings: [Reading] = []
  /// More readings than are checked: rules that deny match, others do not.
  private(set) var isUnreadable = false
  var octetsOfReadings: [[UInt8]] { readings.map { Array(octets[$0.octets]) } }
  /// Where the decoded readings begin in `octets` during decoding: after the encoded ones. Otherwise 0.
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
    derive(.dotSegments) { Self.removeDotSegments($0, $1, to: &$2) }
    derive(.parameters) { Self.cutParameters($0, $1, to: &$2) }
    decode()
    derive(.parameters) { Self.cutParameters($0, $1, to: &$2) }
    derive(.query) { Self.cutQuery($0, $1, to: &$2) }
    derive(.backslashes) { Self.turnBackslashes($0, $1, to: &$2) }
    derive(.segmentEnds) { Self.cutSegmentEnds($0, $1, to: &$2) }
    derive(.slashes) { Self.mergeSlashes($0, $1, to: &$2) }
    derive(.dotSegments) { Self.removeDotSegments($0, $1, to: &$2) }
    derive(.slashes) { Self.mergeSlashes($0, $1, to: &$2) }
    if isUnreadable {
      readings.removeAll(keepingCapacity: true)
      octets.removeAll(keepingCapacity: true)
    }
  }

  /// Whether every server reads the path the same way: no escape, no parameter, no `//`, and no dot at the end of a
  /// segment. Raw backslashes are refused before any rule is tried.
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

  /// Adds the contents of `scratch`, unless that reading exists.
  private mutating func add(_ escapes: Escapes, _ steps: PathSteps) {
    for index in readings.indices
    where readings[index].octets.count == scratch.count && octets[readings[index].octets].elementsEqual(scratch) {
      readings[index].escapes.formUnion(escapes)
      return
    }
    // The first reading, the path itself, always has room: the limit of the head has bounded its length.
    let isFull = readings.count == Self.mostReadings || octets.count - base + scratch.count > Self.mostOctets
    if isFull, !readings.isEmpty {
      isUnreadable = true
      return
    }
    readings.append(
      Reading(octets: octets.count..<octets.count + scratch.count, escapes: escapes, steps: steps))
    octets.append(contentsOf: scratch)
  }

  /// Adds the result of `change` for each existing reading.
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

  /// Replaces the existing readings, which are still encoded, with their decoded forms.
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
    // The encoded ones are no longer needed.
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
  // The output is swapped out meanwhile, so that it can be written while another part is read.

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

  /// Octets that some server treats differently when they are escaped.
  private static func isStructure(_ octet: UInt8) -> Bool {
    switch octet {
    case 0x25, 0x2e, 0x2f, 0x3b, 0x5c: true
    default: false
    }
  }

  /// Appends `path` as decoded in this way.
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
          // In upper case, as RFC 3986, 6.2.2.1 recommends.
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

  /// The octet encoded by the two hexadecimal digits at `index`.
  private static func escaped(_ path: Span<UInt8>, _ index: Int) -> UInt8? {
    guard index + 1 < path.count, let high = path[index].hexadecimalValue,
      let low = path[index + 1].hexadecimalValue
    else { return nil }
    return high << 4 | low
  }

  /// The character encoded by `uXXXX` at `index`.
  private static func wideEscape(_ path: Span<UInt8>, _ index: Int) -> Unicode.Scalar? {
    guard index < path.count, path[index] | 0x20 == 0x75, let high = escaped(path, index + 1),
      let low = escaped(path, index + 3)
    else { return nil }
    return Unicode.Scalar(UInt32(high) << 8 | UInt32(low))
  }
}

// MARK: Steps

extension PathReadings {
  /// RFC 3986, 5.2.4. A path that ends with a dot segment is a directory.
  static func removeDotSegments(_ path: borrowing [UInt8], _ range: Range<Int>, to out: inout [UInt8]) {
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

  static func mergeSlashes(_ path: borrowing [UInt8], _ range: Range<Int>, to out: inout [UInt8]) {
    for index in range where path[index] != 0x2f || out.last != 0x2f { out.append(path[index]) }
  }

  static func turnBackslashes(_ path: borrowing [UInt8], _ range: Range<Int>, to out: inout [UInt8]) {
    for index in range { out.append(path[index] == 0x5c ? 0x2f : path[index]) }
  }

  /// Cuts what follows `;` in a segment (RFC 3986, 3.3).
  static func cutParameters(_ path: borrowing [UInt8], _ range: Range<Int>, to out: inout [UInt8]) {
    var cuts = false
    for index in range {
      if path[index] == 0x3b { cuts = true }
      if path[index] == 0x2f { cuts = false }
      if !cuts { out.append(path[index]) }
    }
  }

  /// Cuts what follows a decoded `?` or `#`: it is not part of the path to a server that receives the decoded path
  /// (nginx with `$uri`).
  static func cutQuery(_ path: borrowing [UInt8], _ range: Range<Int>, to out: inout [UInt8]) {
    for index in range {
      if path[index] == 0x3f || path[index] == 0x23 { return }
      out.append(path[index])
    }
  }

  /// Cuts dots and blanks at the end of segments: Windows has no such names, and `$` in a server's regular expression
  /// may match before a line end. `.` and `..` stay.
  static func cutSegmentEnds(_ path: borrowing [UInt8], _ range: Range<Int>, to out: inout [UInt8]) {
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

  /// The number of dots in a dot segment; 0 for a name.
  private static func dots(_ path: borrowing [UInt8], _ segment: Range<Int>) -> Int {
    if segment.isEmpty || segment.count > 2 { return 0 }
    for index in segment where path[index] != 0x2e { return 0 }
    return segment.count
  }

  /// Visits the parts between slashes, without the empty one before a leading slash; the last may be empty.
  private static func eachSegment(
    _ path: borrowing [UInt8], _ range: Range<Int>, body: (Range<Int>, Bool) -> Void
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
  /// What was done to the path, in words; empty if it is read unchanged.
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

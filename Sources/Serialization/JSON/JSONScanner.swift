// The strict grammar of JSON (RFC 8259), as a walk over a text. It is the only definition of it in this module.
//
// A call of `next` reads one value, including the key and the delimiters before it. Nothing is decoded. Only the kinds
// of the open containers are stored, one bit each, so there is no recursion, and a text of usual depth needs no
// allocation. Beyond the grammar, three things are rejected: nesting beyond a limit, a byte order mark (as RFC 8259,
// 8.1 permits), and an escaped surrogate that is not half of a pair, because it represents no character (8.2).
//
// How it is tested: JSONScannerTests, against simdjson in JSONCheckerTests and Tests/Fuzz/JSON, and against Python's
// reader in test_json_differences.py.

import Bytes

/// The kind of a JSON value.
enum JSONKind {
  case object, array, string, number, boolean, null

  /// With its article, for use in a sentence.
  var phrase: String {
    switch self {
    case .object: "an object"
    case .array: "an array"
    case .string: "a string"
    case .number: "a number"
    case .boolean: "a boolean"
    case .null: "null"
    }
  }
}

/// Reads a JSON text value by value. Nothing follows `.refused` or `.finished`.
public struct JSONScanner: ~Copyable, ~Escapable {
  enum Event {
    /// A string, number, boolean or null: `valueStart ..< at`.
    case scalar(JSONKind)
    /// The `{` or `[` at `valueStart`.
    case opened(JSONKind)
    /// The `}` or `]` at `valueStart`.
    case closed
    /// The text is valid to its end.
    case finished
    /// `fault` says why.
    case refused
  }

  private enum Phase {
    case beginning
    case behindOpening
    case behindValue
  }

  let bytes: Span<UInt8>
  /// The most nested arrays and objects.
  let deepest: Int
  /// Bytes that have been read.
  var at = 0
  /// Where the element or member of the last event begins: directly after the `[`, `{` or `,` before it.
  private(set) var elementStart = 0
  /// The key of the last event's member, with its quotes; meaningless outside objects.
  private(set) var key = 0..<0
  private(set) var valueStart = 0
  private var phase = Phase.beginning
  private(set) var containers = ContainerStack()
  /// What the grammar requires at `at`, and what is there, once something has been refused.
  var expected = ""
  var seen = ""
  /// What is wrong; meaningless before `.refused`. An event that carried it would cost a third of the speed.
  var fault: ContentFault {
    ContentFault("expected \(expected), found \(seen)", offset: at, place: bytes.place(of: at))
  }

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>, depth: Int) {
    self.bytes = bytes
    deepest = depth
  }

  /// The next byte. At the end it is NUL, which no grammar rule accepts.
  var current: UInt8 { at < bytes.count ? bytes[at] : 0 }

  /// Reads to the next value, or to the end of a container.
  mutating func next() -> Event {
    switch phase {
    case .beginning:
      phase = .behindValue
      return readValue()
    case .behindOpening:
      phase = .behindValue
      elementStart = at
      skipBlanks()
      return current == containers.closing ? close() : readElement()
    case .behindValue:
      skipBlanks()
      if containers.isEmpty { return at == bytes.count ? .finished : refuseTrailing() }
      if current == 0x2c {
        at &+= 1
        elementStart = at
        return readElement()
      }
      return current == containers.closing ? close() : refuseDelimiter()
    }
  }

  private mutating func close() -> Event {
    valueStart = at
    at &+= 1
    containers.close()
    return .closed
  }

  private mutating func readElement() -> Event {
    guard containers.isInObject else { return readValue() }
    skipBlanks()
    let keyStart = at
    guard current == 0x22 else { return refuseKey() }
    if case .refused = readString() { return .refused }
    key = keyStart..<at
    skipBlanks()
    guard current == 0x3a else { return refuseColon() }
    at &+= 1
    return readValue()
  }

  private mutating func readValue() -> Event {
    skipBlanks()
    valueStart = at
    let first = current
    // Most values. A branch for each is guessed right more often than one jump for all.
    if first == 0x22 { return readString() }
    if first.isASCIIDigit || first == 0x2d { return readNumber() }
    switch first {
    case 0x5b: return open(.array)
    case 0x66: return readLiteral("false", .boolean)
    case 0x6e: return readLiteral("null", .null)
    case 0x74: return readLiteral("true", .boolean)
    case 0x7b: return open(.object)
    default: return refuseValue()
    }
  }

  private mutating func open(_ kind: JSONKind) -> Event {
    guard containers.depth < deepest else { return refuseDepth() }
    at &+= 1
    containers.open(isObject: kind == .object)
    phase = .behindOpening
    return .opened(kind)
  }

  @inline(__always)
  private mutating func skipBlanks() {
    // Programs write none, mostly.
    while current <= 0x20 {
      switch current {
      case 0x20, 0x0a, 0x0d, 0x09: at &+= 1
      default: return
      }
    }
  }

  private mutating func readLiteral(_ literal: StaticString, _ kind: JSONKind) -> Event {
    let end = at &+ literal.utf8CodeUnitCount
    guard end <= bytes.count, bytes.equals(at..<end, literal) else { return refuseLiteral(literal) }
    at = end
    return .scalar(kind)
  }

  /// [ "-" ] int [ frac ] [ exp ] (RFC 8259, 6), of any length.
  private mutating func readNumber() -> Event {
    if current == 0x2d { at &+= 1 }
    if current == 0x30 {
      at &+= 1
      if current.isASCIIDigit { return refuseLeadingZero() }
    } else if !readDigits() {
      return refuseDigit()
    }
    if current == 0x2e {
      at &+= 1
      guard readDigits() else { return refuseDigit() }
    }
    if current | 0x20 == 0x65 {
      at &+= 1
      if current == 0x2b || current == 0x2d { at &+= 1 }
      guard readDigits() else { return refuseDigit() }
    }
    return .scalar(.number)
  }

  /// Whether there was a digit.
  private mutating func readDigits() -> Bool {
    let start = at
    var index = start
    while index < bytes.count, bytes[index].isASCIIDigit { index &+= 1 }
    at = index
    return index > start
  }

  /// Reads a string, including its quotes.
  private mutating func readString() -> Event {
    var index = at &+ 1
    while true {
      index = bytes.firstNotPlain(from: index)
      at = index
      guard index < bytes.count else { return refuseString() }
      switch bytes[index] {
      case 0x22:
        at = index &+ 1
        return .scalar(.string)
      case 0x5c:
        guard let escape = bytes.readJSONEscape(at: index) else { return refuseEscape() }
        index = escape.end
      case 0x80...:
        guard readSequences() else { return refuseSequence() }
        index = at
      default:
        return refuseControl()
      }
    }
  }

  /// Reads to the next ASCII byte: non-Latin scripts come in runs.
  private mutating func readSequences() -> Bool {
    while at < bytes.count, bytes[at] >= 0x80 {
      guard let length = bytes.sequenceLength(at: at) else { return false }
      at &+= length
    }
    return true
  }
}

extension JSONScanner {
  /// Reads to the end of the innermost open container. Returns its first fault, or nil.
  mutating func skipContainer() -> ContentFault? {
    let depth = containers.depth
    while true {
      switch next() {
      case .scalar, .opened, .closed: if containers.depth < depth { return nil }
      // Impossible before the container is closed.
      case .finished: return nil
      case .refused: return fault
      }
    }
  }

  /// The first fault of `bytes` as a JSON text with at most `depth` nested arrays and objects; nil if they are one.
  /// White space alone is not a JSON text.
  public static func check(_ bytes: Span<UInt8>, depth: Int) -> ContentFault? {
    var scanner = JSONScanner(bytes, depth: depth)
    return scanner.readToEnd()
  }

  /// Reads the rest of the text. Returns its first fault, or nil.
  mutating func readToEnd() -> ContentFault? {
    while true {
      switch next() {
      case .scalar, .opened, .closed: continue
      case .finished: return nil
      case .refused: return fault
      }
    }
  }
}

/// The kinds of the open containers, innermost last, one bit each.
struct ContainerStack: ~Copyable {
  private(set) var depth = 0
  /// The innermost 64 at most; the last one is the lowest bit.
  private var kinds: UInt64 = 0
  /// The others, 64 in each word; empty for a usual text.
  private var outer: [UInt64] = []

  init() {}

  var isEmpty: Bool { depth == 0 }
  var isInObject: Bool { kinds & 1 == 1 }
  /// The byte that closes the innermost container; meaningless if there is none.
  var closing: UInt8 { isInObject ? 0x7d : 0x5d }

  mutating func open(isObject: Bool) {
    if depth & 63 == 0 && depth > 0 { outer.append(kinds) }
    kinds = kinds << 1 | (isObject ? 1 : 0)
    depth &+= 1
  }

  mutating func close() {
    kinds >>= 1
    depth &-= 1
    if depth & 63 == 0 && depth > 0 { kinds = outer.removeLast() }
  }
}

// Heads of responses as servers write them, not as RFC 9112 asks for: what is unambiguous is written again as it should be,
// and the strict reader reads that. What leaves for the client is so strict by construction, and a head that needs no
// mending costs nothing of this.
//
// What is mended, with the section that lets or makes a proxy do so: lines that end with LF alone (2.2), a status line
// without the space after its status or with more than one before it (4), white space between a name and its colon (5.1),
// folded fields (5.2), control characters within a value (RFC 9110, 5.5). What is not: a bare CR and NUL, which are read in
// different ways, names that are no tokens, lines without a colon, and whatever frames the message. A fold or a space before
// the colon of such a field is refused, since some readers would not see the field. How it is tested: HeadMenderTests,
// ResponseCorpusTests, Tests/Fuzz/Heads.

import Bytes

/// What was mended in a head.
public struct HeadMendings: OptionSet, Sendable, Equatable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let bareLineFeed = HeadMendings(rawValue: 1 << 0)
  public static let statusLine = HeadMendings(rawValue: 1 << 1)
  public static let spaceBeforeColon = HeadMendings(rawValue: 1 << 2)
  public static let obsoleteLineFolding = HeadMendings(rawValue: 1 << 3)
  public static let controlCharacter = HeadMendings(rawValue: 1 << 4)

  /// The stable words of the log: those of the faults that they would have been.
  private static let words: [(HeadMendings, MessageFault)] = [
    (.bareLineFeed, .bareLineFeed), (.statusLine, .badStatusLine), (.spaceBeforeColon, .spaceBeforeColon),
    (.obsoleteLineFolding, .obsoleteLineFolding), (.controlCharacter, .controlCharacter),
  ]

  /// `bare-lf,obs-fold`; empty where nothing was mended.
  public var text: String {
    Self.words.filter { contains($0.0) }.map(\.1.rawValue).joined(separator: ",")
  }
}

extension MessageFault {
  /// Whether a head with this fault may be one that can be mended.
  var mayBeMended: Bool {
    switch self {
    case .bareLineFeed, .badStatusLine, .spaceBeforeColon, .obsoleteLineFolding, .controlCharacter: true
    default: false
    }
  }
}

extension KnownField {
  /// Whether the field says where a message ends, or what becomes of its connection: never mended.
  var isStrict: Bool {
    switch self {
    case .connection, .contentLength, .keepAlive, .proxyConnection, .te, .trailer, .transferEncoding, .upgrade: true
    default: false
    }
  }
}

/// Writes the head of a response again, mended.
struct HeadMender: ~Copyable, ~Escapable {
  private let bytes: Span<UInt8>
  private var at = 0
  private(set) var mendings: HeadMendings = []

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>) { self.bytes = bytes }

  /// Appends the head at the beginning of the bytes to `out`, up to and with its empty line. `complete`: how many bytes it
  /// took. What is said of a prefix is final, but for `incomplete`.
  mutating func mend(fields limit: Int, into out: inout ByteBuffer) -> HeadProgress {
    if let stop = mendStatusLine(&out) { return stop }
    var count = 0
    var folds: KnownField? = nil
    while true {
      guard at < bytes.count else { return .incomplete }
      switch readLine(from: at) {
      case .stopped(let progress):
        // What is wrong already is refused before the line is complete.
        if let fault = nameFault(folds) { return .invalid(fault) }
        return progress
      case .line(let content, let next):
        if content.isEmpty {
          if count > 0 { out.append("\r\n") }
          out.append("\r\n")
          return .complete(count: next)
        }
        if bytes[content.lowerBound].isBlank {
          guard let field = folds, !field.isStrict else { return .invalid(.obsoleteLineFolding) }
          let value = bytes.trimmingBlanks(content)
          // Some readers take a line of nothing but blanks for the end of the head.
          if value.isEmpty { return .invalid(.obsoleteLineFolding) }
          mendings.insert(.obsoleteLineFolding)
          out.append(0x20)
          if appendValue(value, to: &out) { mendings.insert(.controlCharacter) }
        } else {
          if let fault = nameFault(folds) { return .invalid(fault) }
          if count == limit { return .invalid(.tooManyFields) }
          if count > 0 { out.append("\r\n") }
          count += 1
          guard let field = appendField(content, to: &out) else { return .invalid(.controlCharacter) }
          folds = field
        }
        at = next
      }
    }
  }

  // MARK: Lines

  private enum Line {
    /// Without its end, and where the next one begins.
    case line(Range<Int>, next: Int)
    case stopped(HeadProgress)
  }

  /// Finds the end of a line: LF, and a CR before it.
  private mutating func readLine(from: Int) -> Line {
    var index = from
    while true {
      index = bytes.firstControl(from: index)
      guard index < bytes.count else { return .stopped(.incomplete) }
      switch bytes[index] {
      case 0x0a:
        mendings.insert(.bareLineFeed)
        return .line(from..<index, next: index + 1)
      case 0x0d:
        guard index + 1 < bytes.count else { return .stopped(.incomplete) }
        guard bytes[index + 1] == 0x0a else { return .stopped(.invalid(.bareCarriageReturn)) }
        return .line(from..<index, next: index + 2)
      case 0x00: return .stopped(.invalid(.controlCharacter))
      default: index &+= 1
      }
    }
  }

  /// "HTTP/1." DIGIT 1*SP 3DIGIT [ SP reason ], which ends at a LF.
  private mutating func mendStatusLine(_ out: inout ByteBuffer) -> HeadProgress? {
    let version = ResponseHead.versionBytes
    for index in 0..<min(bytes.count, version) where !ResponseHead.mayStand(bytes[index], at: index) {
      return breakOff(bytes, index, otherwise: .badStatusLine)
    }
    var index = version
    while index < bytes.count, bytes[index] == 0x20 { index &+= 1 }
    let status = index
    for digit in status..<min(bytes.count, status + 3) where !bytes[digit].isASCIIDigit {
      return breakOff(bytes, digit, otherwise: .badStatusLine)
    }
    guard bytes.count > status + 3 else { return .incomplete }
    if status == version { return .invalid(.badStatusLine) }
    if status > version + 1 { mendings.insert(.statusLine) }
    index = status + 3
    guard bytes[index] == 0x20 || bytes[index] == 0x0d || bytes[index] == 0x0a else {
      return breakOff(bytes, index, otherwise: .badStatusLine)
    }
    switch readLine(from: index) {
    case .stopped(let progress): return progress
    case .line(let reason, let next):
      out.append(bytes.extracting(0..<version))
      out.append(0x20)
      out.append(bytes.extracting(status..<status + 3))
      if reason.isEmpty {
        mendings.insert(.statusLine)
        out.append(0x20)
      }
      if appendValue(reason, to: &out) { mendings.insert(.controlCharacter) }
      out.append("\r\n")
      at = next
      return nil
    }
  }

  // MARK: Fields

  /// What is wrong with the name at the beginning of the line at hand, as far as the line has come; nil: nothing so far.
  private func nameFault(_ folds: KnownField?) -> MessageFault? {
    if bytes[at].isBlank { return folds.map(\.isStrict) ?? true ? .obsoleteLineFolding : nil }
    var index = at
    while index < bytes.count, bytes[index].isTokenCharacter { index &+= 1 }
    let name = at..<index
    while index < bytes.count, bytes[index].isBlank { index &+= 1 }
    guard index < bytes.count else { return nil }
    guard bytes[index] == 0x3a, !name.isEmpty else {
      if bytes[index] == 0x0d, index + 1 == bytes.count { return nil }
      return .badFieldName
    }
    return index > name.upperBound && KnownField.identify(bytes, name).isStrict ? .spaceBeforeColon : nil
  }

  /// Appends a field whose name has been looked at, without the end of its line: more of it may follow. nil: it frames the
  /// message, and its value holds a control character.
  private mutating func appendField(_ line: Range<Int>, to out: inout ByteBuffer) -> KnownField? {
    var index = line.lowerBound
    while bytes[index].isTokenCharacter { index &+= 1 }
    let name = line.lowerBound..<index
    if bytes[index] != 0x3a { mendings.insert(.spaceBeforeColon) }
    while bytes[index] != 0x3a { index &+= 1 }
    out.append(bytes.extracting(name))
    out.append(": ")
    let field = KnownField.identify(bytes, name)
    if appendValue(bytes.trimmingBlanks(index + 1..<line.upperBound), to: &out) {
      if field.isStrict { return nil }
      mendings.insert(.controlCharacter)
    }
    return field
  }

  /// Appends a value with a space in place of each control character: a tab is none here (RFC 9110, 5.5). Whether there
  /// was one.
  private func appendValue(_ value: Range<Int>, to out: inout ByteBuffer) -> Bool {
    let value = bytes.extracting(value)
    var from = 0
    var isMended = false
    while true {
      let index = value.firstControl(from: from)
      out.append(value.extracting(from..<index))
      if index == value.count { return isMended }
      if value[index] != 0x09 { isMended = true }
      out.append(value[index] == 0x09 ? 0x09 : 0x20)
      from = index + 1
    }
  }
}

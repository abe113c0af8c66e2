// Repairs heads of responses that are written as servers do and not as RFC 9112 requires. What is unambiguous is
// rewritten in the correct form, and the strict reader then reads that. So what is sent to the client is always strict.
// A correct head does not pass through here and costs nothing.
//
// These are mended, with the section that allows or requires it of a proxy: lines that end with LF alone (2.2), a
// status line without the space after its status or with more than one before it (4), white space between a name and
// its colon (5.1), folded fields (5.2), control characters within a value (RFC 9110, 5.5). These are not: a bare CR and
// NUL, which programs read in different ways, names that are not tokens, lines without a colon, and any field that
// frames the message. Such a field is rejected if it has a fold or a space before the colon, because some readers would
// not see it. How it is tested: HeadMenderTests, ResponseCorpusTests, Tests/Fuzz/Heads.

import Bytes

/// The repairs made in a head.
public struct HeadMendings: OptionSet, Sendable, Equatable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let bareLineFeed = HeadMendings(rawValue: 1 << 0)
  public static let statusLine = HeadMendings(rawValue: 1 << 1)
  public static let spaceBeforeColon = HeadMendings(rawValue: 1 << 2)
  public static let obsoleteLineFolding = HeadMendings(rawValue: 1 << 3)
  public static let controlCharacter = HeadMendings(rawValue: 1 << 4)

  /// The stable words for the log: those of the faults that would otherwise have been reported.
  private static let words: [(HeadMendings, MessageFault)] = [
    (.bareLineFeed, .bareLineFeed), (.statusLine, .badStatusLine), (.spaceBeforeColon, .spaceBeforeColon),
    (.obsoleteLineFolding, .obsoleteLineFolding), (.controlCharacter, .controlCharacter),
  ]

  /// `bare-lf,obs-fold`; empty if nothing was mended.
  public var text: String {
    Self.words.filter { contains($0.0) }.map(\.1.rawValue).joined(separator: ",")
  }
}

extension MessageFault {
  /// Whether a head with this fault may be mendable.
  var mayBeMended: Bool {
    switch self {
    case .bareLineFeed, .badStatusLine, .spaceBeforeColon, .obsoleteLineFolding, .controlCharacter: true
    default: false
    }
  }
}

extension KnownField {
  /// Whether the field determines where a message ends or what happens to its connection. Such a field is never mended.
  var isStrict: Bool {
    switch self {
    case .connection, .contentLength, .keepAlive, .proxyConnection, .te, .trailer, .transferEncoding, .upgrade: true
    default: false
    }
  }
}

/// Rewrites the head of a response, mended.
struct HeadMender: ~Copyable, ~Escapable {
  private let bytes: Span<UInt8>
  private var at = 0
  private(set) var mendings: HeadMendings = []

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>) { self.bytes = bytes }

  /// Appends the mended head to `out`, including its empty line. `complete`: how many of the bytes it used. Any result
  /// for a prefix is final, except `incomplete`.
  mutating func mend(fields limit: Int, into out: inout ByteBuffer) -> HeadProgress {
    if let stop = mendStatusLine(&out) { return stop }
    var count = 0
    var folds: KnownField? = nil
    while true {
      guard at < bytes.count else { return .incomplete }
      switch readLine(from: at) {
      case .stopped(let progress):
        // A fault is reported even before the line is complete.
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
          // Some readers treat a line of only blanks as the end of the head.
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
    /// The line without its end, and where the next one begins.
    case line(Range<Int>, next: Int)
    case stopped(HeadProgress)
  }

  /// Finds the end of a line: LF, optionally with a CR before it.
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

  /// "HTTP/1." DIGIT 1*SP 3DIGIT [ SP reason ], ended by LF.
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

  /// What is wrong with the name at the beginning of the current line, as far as it has arrived; nil: nothing so far.
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

  /// Appends a field whose name has been checked, without its line end, because a fold may follow. nil: the field
  /// frames the message and its value has a control character.
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

  /// Appends a value with a space in place of each control character; a tab does not count as one (RFC 9110, 5.5).
  /// Returns whether there was one.
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

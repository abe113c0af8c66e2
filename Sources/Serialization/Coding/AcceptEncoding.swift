// The content codings that a request accepts in its response (RFC 9110, 12.5.3).
//
// The fields are read once, value after value, into a few bits; nothing is allocated. An unreadable entry is not
// accepted: every client can read a body without a coding. How it is tested:
// Tests/SerializationTests/AcceptEncodingTests.swift.

import Bytes

/// The Accept-Encoding fields of a request. Without any, every coding is accepted.
public struct AcceptEncoding: Sendable {
  private struct Choices: OptionSet {
    let rawValue: UInt8

    static let gzip = Choices(rawValue: 1)
    static let deflate = Choices(rawValue: 2)
    static let br = Choices(rawValue: 4)
    static let zstd = Choices(rawValue: 8)
    static let identity = Choices(rawValue: 16)
    /// `*`: all codings that are not named.
    static let others = Choices(rawValue: 32)

    static func of(_ coding: ContentCoding) -> Choices {
      switch coding {
      case .gzip: .gzip
      case .deflate: .deflate
      case .br: .br
      case .zstd: .zstd
      }
    }
  }

  private enum Weight {
    case positive
    case zero
    case unreadable
  }

  private var isPresent = false
  private var accepted: Choices = []
  private var refused: Choices = []

  public init() {}

  /// Reads the value of the next field.
  public mutating func read(_ value: Span<UInt8>) {
    isPresent = true
    var elements = ListElements(0..<value.count)
    while let element = elements.next(value) { note(value, element) }
  }

  /// Whether a response may use this coding. If a coding is named twice, the refusal counts.
  public func accepts(_ coding: ContentCoding) -> Bool {
    if !isPresent { return true }
    let choice = Choices.of(coding)
    if refused.contains(choice) { return false }
    return accepted.contains(choice) || accepted.contains(.others) && !refused.contains(.others)
  }

  /// Whether a response may come without a coding. It may unless identity is refused, by name or by `*`.
  public var acceptsIdentity: Bool {
    if refused.contains(.identity) { return false }
    return accepted.contains(.identity) || !refused.contains(.others)
  }

  private mutating func note(_ value: Span<UInt8>, _ element: Range<Int>) {
    let semicolon = value.extracting(element).firstIndex(of: 0x3b).map { element.lowerBound + $0 }
    let name = value.trimmingBlanks(element.lowerBound..<(semicolon ?? element.upperBound))
    let weight = semicolon.map { Self.weight(value, value.trimmingBlanks($0 + 1..<element.upperBound)) } ?? .positive
    if value.equals(name, "*") {
      note(.others, weight)
    } else if value.equals(name, ignoringCase: "identity") {
      note(.identity, weight)
    } else if let coding = ContentCoding(value, name) {
      note(.of(coding), weight)
    }
  }

  private mutating func note(_ choice: Choices, _ weight: Weight) {
    switch weight {
    case .positive: accepted.insert(choice)
    case .zero: refused.insert(choice)
    case .unreadable:
      // A client that refuses identity could get no response at all, so only a clear refusal counts.
      if choice != .identity && choice != .others { refused.insert(choice) }
    }
  }

  /// `q=` and a number from 0 to 1 with at most three decimals (RFC 9110, 12.4.2).
  private static func weight(_ value: Span<UInt8>, _ range: Range<Int>) -> Weight {
    let text = value.extracting(range)
    guard (3...7).contains(text.count), text[0].asciiLowercased == 0x71, text[1] == 0x3d else { return .unreadable }
    guard text[2] == 0x30 || text[2] == 0x31 else { return .unreadable }
    guard text.count == 3 || text[3] == 0x2e else { return .unreadable }
    var hasDecimals = false
    for index in stride(from: 4, to: text.count, by: 1) {
      guard text[index].isASCIIDigit else { return .unreadable }
      if text[index] != 0x30 { hasDecimals = true }
    }
    if text[2] == 0x31 { return hasDecimals ? .unreadable : .positive }
    return hasDecimals ? .positive : .zero
  }
}

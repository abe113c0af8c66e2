// The value of Content-Type (RFC 9110, 8.3.1), read as ranges of its bytes: nothing is allocated before a parameter is
// asked for. What is malformed is no type at all, so that no reader takes half of it. Tests: MediaTypeTests.

import Bytes

/// A media type, as ranges of the value that it was read from. Names compare without regard to case.
public struct MediaType: Equatable, Sendable {
  /// Most parameters: types in use have one or two, and each is compared with those before it.
  public static let maximumParameters = 16

  public let type: Range<Int>
  public let subtype: Range<Int>

  /// `type/subtype`, without the parameters.
  public var essence: Range<Int> { type.lowerBound..<subtype.upperBound }

  /// What the text of a body is encoded in.
  public enum Charset: Equatable, Sendable {
    /// There is no `charset`.
    case unstated
    case utf8
    case usASCII
    case other
  }

  /// Reads a field value without the blanks around it. nil where it is malformed: no slash, something behind the type
  /// that is no parameter (another type behind a comma, too), a parameter that comes twice or too many of them.
  public init?(_ value: Span<UInt8>) {
    type = 0..<value.endOfToken(from: 0)
    guard !type.isEmpty, type.upperBound < value.count, value[type.upperBound] == UInt8(ascii: "/") else { return nil }
    let begin = type.upperBound + 1
    subtype = begin..<value.endOfToken(from: begin)
    guard !subtype.isEmpty, Self.areParameters(value, from: subtype.upperBound) else { return nil }
  }

  /// Whether it is this type, given in lower case.
  public func equals(_ type: StaticString, _ subtype: StaticString, in value: Span<UInt8>) -> Bool {
    value.equals(self.type, ignoringCase: type) && value.equals(self.subtype, ignoringCase: subtype)
  }

  /// The value of a parameter, given in lower case, without quotes and escapes.
  public func parameter(_ name: StaticString, in value: Span<UInt8>) -> [UInt8]? {
    var list = ParameterList(from: subtype.upperBound)
    while case .parameter(let parameter) = list.next(value) {
      if value.equals(parameter.name, ignoringCase: name) { return Self.unescaped(parameter, in: value) }
    }
    return nil
  }

  /// The encoding that `charset` names.
  public func charset(in value: Span<UInt8>) -> Charset {
    guard let name = parameter("charset", in: value) else { return .unstated }
    return Charset(name: name.span)
  }

  private static func areParameters(_ value: Span<UInt8>, from: Int) -> Bool {
    var list = ParameterList(from: from)
    // Room for `maximumParameters`.
    var names = InlineArray<16, Range<Int>>(repeating: 0..<0)
    var count = 0
    while true {
      switch list.next(value) {
      case .end: return true
      case .malformed: return false
      case .parameter(let parameter):
        for index in 0..<count where value.equalsIgnoringCase(names[index], parameter.name) { return false }
        if count == names.count { return false }
        names[count] = parameter.name
        count += 1
      }
    }
  }

  private static func unescaped(_ parameter: ParameterList.Parameter, in value: Span<UInt8>) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity(parameter.value.count)
    var at = parameter.value.lowerBound
    while at < parameter.value.upperBound {
      // The list has seen to it that a byte follows.
      if parameter.spelling == .quoted, value[at] == UInt8(ascii: "\\") { at += 1 }
      text.append(value[at])
      at += 1
    }
    return text
  }
}

extension MediaType {
  /// Longest part of a value that an error quotes, in bytes: longer than any type that is registered.
  private static let longestShown = 100

  /// The value of a Content-Type as an error shows it.
  static func shown(_ field: Range<Int>?, in bytes: Span<UInt8>) -> String {
    guard let field else { return "none" }
    let text = bytes.extracting(field.prefix(longestShown)).array.map { $0 < 0x20 || $0 >= 0x7f ? 0x3f : $0 }
    return text.span.string
  }

  /// Most values of a repeated Content-Type that an error quotes: two are the fault.
  private static let mostShown = 3

  /// The values of a Content-Type that comes more than once, as an error shows them.
  static func shown(repeated fields: [Range<Int>], in bytes: Span<UInt8>) -> String {
    var text = "\(fields.count) Content-Type fields"
    for (index, field) in fields.prefix(mostShown).enumerated() {
      text += (index == 0 ? ": " : ", ") + shown(field, in: bytes)
    }
    return fields.count > mostShown ? text + ", …" : text
  }
}

extension MediaType.Charset {
  /// `utf8` is registered nowhere and written everywhere.
  init(name: Span<UInt8>) {
    let whole = 0..<name.count
    if name.equals(whole, ignoringCase: "utf-8") || name.equals(whole, ignoringCase: "utf8") {
      self = .utf8
    } else if name.equals(whole, ignoringCase: "us-ascii") {
      self = .usASCII
    } else {
      self = .other
    }
  }
}

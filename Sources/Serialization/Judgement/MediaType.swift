// The value of Content-Type (RFC 9110, 8.3.1), read as ranges of its bytes. Nothing is allocated until a parameter is
// requested. A malformed value is not a type at all, so no reader uses half of it. Tests: MediaTypeTests.

import Bytes

/// A media type, as ranges of the value from which it was read. Names are compared case-insensitively.
public struct MediaType: Equatable, Sendable {
  /// The most parameters. Types in use have one or two, and each is compared with those before it.
  public static let maximumParameters = 16

  public let type: Range<Int>
  public let subtype: Range<Int>

  /// `type/subtype`, without the parameters.
  public var essence: Range<Int> { type.lowerBound..<subtype.upperBound }

  /// The encoding of a text body.
  public enum Charset: Equatable, Sendable {
    /// There is no `charset`.
    case unstated
    case utf8
    case usASCII
    case other
  }

  /// Reads a field value without the blanks around it. nil if it is malformed: it has no slash, it has something after
  /// the type that is not a parameter (such as another type after a comma), a parameter occurs twice, or there are too
  /// many.
  public init?(_ value: Span<UInt8>) {
    type = 0..<value.tokenEnd(from: 0)
    guard !type.isEmpty, type.upperBound < value.count, value[type.upperBound] == UInt8(ascii: "/") else { return nil }
    let begin = type.upperBound + 1
    subtype = begin..<value.tokenEnd(from: begin)
    guard !subtype.isEmpty, Self.areParameters(value, from: subtype.upperBound) else { return nil }
  }

  /// Whether it is this type. The arguments are in lower case.
  public func equals(_ type: StaticString, _ subtype: StaticString, in value: Span<UInt8>) -> Bool {
    value.equals(self.type, ignoringCase: type) && value.equals(self.subtype, ignoringCase: subtype)
  }

  /// The value of a parameter, without quotes and escapes. The name is in lower case.
  public func parameter(_ name: StaticString, in value: Span<UInt8>) -> [UInt8]? {
    var list = ParameterList(from: subtype.upperBound)
    while case .parameter(let parameter) = list.next(value) {
      if value.equals(parameter.name, ignoringCase: name) { return Self.unescaped(parameter, in: value) }
    }
    return nil
  }

  /// The encoding in `charset`.
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
      // The list has ensured that a byte follows.
      if parameter.spelling == .quoted, value[at] == UInt8(ascii: "\\") { at += 1 }
      text.append(value[at])
      at += 1
    }
    return text
  }
}

extension MediaType {
  /// The longest part of a value that an error quotes, in bytes: longer than any registered type.
  private static let longestShown = 100

  /// The value of a Content-Type in an error.
  static func shown(_ field: Range<Int>?, in bytes: Span<UInt8>) -> String {
    guard let field else { return "none" }
    let text = bytes.extracting(field.prefix(longestShown)).array.map { $0 < 0x20 || $0 >= 0x7f ? 0x3f : $0 }
    return text.span.string
  }

  /// The most values of a repeated Content-Type that an error quotes: two already are the fault.
  private static let mostShown = 3

  /// The values of a repeated Content-Type in an error.
  static func shown(repeated fields: [Range<Int>], in bytes: Span<UInt8>) -> String {
    var text = "\(fields.count) Content-Type fields"
    for (index, field) in fields.prefix(mostShown).enumerated() {
      text += (index == 0 ? ": " : ", ") + shown(field, in: bytes)
    }
    return fields.count > mostShown ? text + ", …" : text
  }
}

extension MediaType.Charset {
  /// `utf8` is not registered but is common.
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

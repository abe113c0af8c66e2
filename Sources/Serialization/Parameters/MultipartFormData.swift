// Converts a multipart/form-data body (RFC 7578, RFC 2046) to a tree of parameters, if it contains no file.
//
// Only what clients write is accepted: no preamble except one line end (RFC 2046 allows one at the beginning), no
// epilogue except one, and no padding after a boundary. Everything else that a reader would have to ignore is a fault,
// because it would be lost. Tests: MultipartFormDataTests; fuzzed by Transcoding.

import Bytes

/// The boundary between the parts of a multipart body.
public struct MultipartBoundary: Equatable, Sendable {
  /// The longest boundary in bytes (RFC 2046, 5.1.1).
  public static let longest = 70

  /// CR LF, two hyphens and the boundary. This ends a part.
  let delimiter: [UInt8]

  /// The boundary in a Content-Type; nil if it has none, or one that RFC 2046, 5.1.1 does not allow.
  public init?(_ type: MediaType, in value: Span<UInt8>) {
    guard let text = type.parameter("boundary", in: value) else { return nil }
    self.init(text)
  }

  init?(_ text: [UInt8]) {
    guard let last = text.last, text.count <= Self.longest, last != 0x20 else { return nil }
    guard text.allSatisfy({ $0.isBoundaryCharacter }) else { return nil }
    delimiter = Array("\r\n--".utf8) + text
  }
}

/// The contents of a multipart/form-data body.
public enum MultipartFormData: Equatable, Sendable {
  /// Only fields, as a tree with strings as values.
  case fields([ParameterEntry])
  /// The field with this name is a file: it has a `filename`, possibly empty. What follows it was not checked.
  case holdsFile(name: [UInt8])
  case invalid(ContentFault)

  /// Reads a whole body. Names in bracket syntax mean the same as in a form.
  public static func read(
    _ body: Span<UInt8>, _ boundary: MultipartBoundary, style: QueryStyle = QueryStyle(),
    encoding: TextEncoding? = nil
  ) -> MultipartFormData {
    do throws(ContentFault) {
      return try parts(body, between: boundary.delimiter.span, style, converter: try encoding?.decoderOrFault())
    } catch {
      return .invalid(error)
    }
  }

  /// The first fault in a body, with or without files; nil if there is none. The contents of the parts and their
  /// encoding are not checked.
  static func fault(in body: Span<UInt8>, _ boundary: MultipartBoundary) -> ContentFault? {
    let delimiter = boundary.delimiter.span
    do throws(ContentFault) {
      var at = try endOfFirstBoundary(body, delimiter)
      while try Self.boundary(body, endsAt: &at) == .precedesPart {
        try PartHeader.check(body, at: &at)
        at = try endOfContent(body, from: at, delimiter) + delimiter.count
      }
      return nil
    } catch {
      return error
    }
  }

  private static func parts(
    _ body: Span<UInt8>, between delimiter: Span<UInt8>, _ style: QueryStyle, converter: TextConverter?
  ) throws(ContentFault) -> MultipartFormData {
    var tree = BracketTree(arrays: style.arrays)
    var at = try endOfFirstBoundary(body, delimiter)
    while try boundary(body, endsAt: &at) == .precedesPart {
      let begin = at
      let header = try PartHeader.read(body, at: &at, converter)
      if header.content == .file { return .holdsFile(name: header.name) }
      let value = at..<(try endOfContent(body, from: at, delimiter))
      let text = try text(body, value, header: header, converter: converter)
      if let fault = tree.insert(header.name, text) { throw ContentFault(fault.reason, offset: begin) }
      at = value.upperBound + delimiter.count
    }
    return .fields(tree.entries)
  }

  // MARK: Boundaries

  private enum BoundaryPlace { case precedesPart, endsBody }

  /// The first boundary needs no line end before it.
  private static func endOfFirstBoundary(_ body: Span<UInt8>, _ delimiter: Span<UInt8>) throws(ContentFault) -> Int {
    if body.holds(delimiter, at: 0) { return delimiter.count }
    let bare = delimiter.extracting(2..<delimiter.count)
    if body.holds(bare, at: 0) { return bare.count }
    throw ContentFault("expected the boundary that the Content-Type names", offset: 0)
  }

  /// Reads what follows a boundary: a line end and a part, or two hyphens and the end of the body.
  private static func boundary(_ body: Span<UInt8>, endsAt at: inout Int) throws(ContentFault) -> BoundaryPlace {
    if body.holds("\r\n", at: at) {
      at += 2
      return .precedesPart
    }
    guard body.holds("--", at: at) else {
      let seen = Seen.byte(body, at: at, orEnd: "the end of the body")
      throw ContentFault("expected CR LF or '--' behind a boundary, found \(seen)", offset: at)
    }
    at += 2
    if body.holds("\r\n", at: at) { at += 2 }
    if at == body.count { return .endsBody }
    let seen = Seen.byte(body[at])
    throw ContentFault("expected the end of the body behind its last boundary, found \(seen)", offset: at)
  }

  /// The beginning of the delimiter that ends the content at `from`.
  private static func endOfContent(
    _ body: Span<UInt8>, from: Int, _ delimiter: Span<UInt8>
  ) throws(ContentFault) -> Int {
    // A boundary at the start of a line ends a part (RFC 2046, 5.1.1). This one would use the line end that ends the
    // header. Some readers see an empty part here, others do not see the boundary.
    if body.holds(delimiter.extracting(2..<delimiter.count), at: from) {
      throw ContentFault("expected a line end before a boundary, found none", offset: from)
    }
    var at = from
    // CR begins the delimiter and occurs nowhere else in it, so no byte is compared more than twice.
    while let next = body.firstIndex(of: 0x0d, from: at) {
      if body.holds(delimiter, at: next) { return next }
      at = next + 1
    }
    throw ContentFault("expected a boundary behind the last part, found the end of the body", offset: body.count)
  }

  // MARK: Values

  /// The value of a part in UTF-8.
  private static func text(
    _ body: Span<UInt8>, _ value: Range<Int>, header: PartHeader, converter: TextConverter?
  ) throws(ContentFault) -> [UInt8] {
    let text = body.extracting(value).array
    let own = header.content == .text ? converter : nil
    let invalid: Int
    let beyondASCII = header.content == .ascii ? text.span.firstNotASCII(from: 0) : text.count
    if beyondASCII < text.count {
      invalid = beyondASCII
    } else {
      switch TextConverter.utf8(text, by: own) {
      case .success(let read):
        try checkCharsetField(read.span, header, converter: converter, at: value.lowerBound)
        return read
      case .failure(let unfit): invalid = unfit.index
      }
    }
    let encoding = header.content == .ascii ? "US-ASCII" : own?.from ?? "UTF-8"
    let seen = Seen.byte(text.span, at: invalid, orEnd: "the end of the value")
    throw ContentFault("expected \(encoding), found \(seen)", offset: value.lowerBound + invalid)
  }

  /// A field `_charset_` gives the encoding of the other values (RFC 7578, 4.6).
  private static func checkCharsetField(
    _ text: Span<UInt8>, _ header: PartHeader, converter: TextConverter?, at: Int
  ) throws(ContentFault) {
    guard header.name == Array("_charset_".utf8) else { return }
    if let converter {
      if converter.isFrom(text) { return }
    } else if MediaType.Charset(name: text) != .other {
      return
    }
    let expected = converter?.from ?? "UTF-8 or US-ASCII"
    throw ContentFault("expected values in \(expected), found the charset \(Seen.text(text))", offset: at)
  }
}

extension UInt8 {
  /// bchars of RFC 2046, 5.1.1.
  fileprivate var isBoundaryCharacter: Bool {
    if isASCIILetter || isASCIIDigit { return true }
    return switch self {
    case UInt8(ascii: "'"), UInt8(ascii: "("), UInt8(ascii: ")"), UInt8(ascii: "+"), UInt8(ascii: "_"),
      UInt8(ascii: ","), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "/"), UInt8(ascii: ":"),
      UInt8(ascii: "="), UInt8(ascii: "?"), UInt8(ascii: " "):
      true
    default: false
    }
  }
}

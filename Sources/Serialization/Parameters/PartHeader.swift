// The header of a part of a multipart/form-data body: the name of its field and the encoding of its value.
//
// Only Content-Disposition, Content-Type and Content-Transfer-Encoding have a meaning (RFC 7578, 4.8). Other fields are
// ignored, as that section requires. Tests: MultipartFormDataTests; fuzzed by Transcoding.

import Bytes

struct PartHeader {
  /// The most bytes of a header. Clients write about 150; a name in it may be long.
  static let maximumBytes = 8 << 10
  /// The most fields of a header. Clients write one to four.
  static let maximumFields = 16

  enum Content: Equatable {
    /// In the encoding of the form.
    case text
    /// In UTF-8, as the part itself says.
    case utf8
    /// In US-ASCII.
    case ascii
    case file
  }

  /// The name of the field, UTF-8.
  let name: [UInt8]
  let content: Content

  /// Reads the header that begins at `at`, and moves `at` to the content of the part.
  static func read(
    _ body: Span<UInt8>, at: inout Int, _ converter: TextConverter? = nil
  ) throws(ContentFault) -> PartHeader {
    let begin = at
    return try header(try fields(body, at: &at), of: body, at: begin, converter)
  }

  /// Checks the header that begins at `at`, of a part that stays as it is: its lines, and that it has a name.
  static func check(_ body: Span<UInt8>, at: inout Int) throws(ContentFault) {
    let begin = at
    let fields = try fields(body, at: &at)
    let place = try disposition(fields, at: begin)
    try FormDataDisposition.check(body.extracting(place), offset: place.lowerBound)
  }

  private static func fields(_ body: Span<UInt8>, at: inout Int) throws(ContentFault) -> Fields {
    let begin = at
    let window = body.extracting(0..<min(body.count, begin + maximumBytes))
    var fields = Fields()
    for _ in 0...maximumFields {
      guard let line = try readLine(window, isCut: window.count < body.count, at: &at) else {
        return fields
      }
      try fields.note(window, line)
    }
    throw ContentFault("expected at most \(maximumFields) fields in the header of a part, found more", offset: begin)
  }

  // MARK: Lines

  private struct Line {
    let name: Range<Int>
    let value: Range<Int>
  }

  /// The field lines with a meaning. Each may occur once.
  private struct Fields {
    var disposition: Range<Int>?
    var type: Range<Int>?
    var transferEncoding: Range<Int>?

    mutating func note(_ bytes: Span<UInt8>, _ line: Line) throws(ContentFault) {
      if bytes.equals(line.name, ignoringCase: "content-disposition") {
        try Self.note(line, as: &disposition)
      } else if bytes.equals(line.name, ignoringCase: "content-type") {
        try Self.note(line, as: &type)
      } else if bytes.equals(line.name, ignoringCase: "content-transfer-encoding") {
        try Self.note(line, as: &transferEncoding)
      }
    }

    private static func note(_ line: Line, as field: inout Range<Int>?) throws(ContentFault) {
      if field != nil {
        let offset = line.name.lowerBound
        throw ContentFault("expected a field once in the header of a part, found it again", offset: offset)
      }
      field = line.value
    }
  }

  /// The next field line; nil for the empty line that ends a header. Folded lines are not supported.
  private static func readLine(_ bytes: Span<UInt8>, isCut: Bool, at: inout Int) throws(ContentFault) -> Line? {
    if bytes.holds("\r\n", at: at) {
      at += 2
      return nil
    }
    let name = at..<bytes.tokenEnd(from: at)
    let end = try endOfLine(bytes, from: name.upperBound, isCut: isCut)
    let colon = name.upperBound
    guard !name.isEmpty, bytes[colon] == UInt8(ascii: ":") else {
      let seen = Seen.byte(bytes[colon])
      throw ContentFault("expected a field name and ':' in the header of a part, found \(seen)", offset: colon)
    }
    at = end + 2
    var value = bytes.blanksEnd(from: colon + 1)..<end
    while !value.isEmpty, bytes[value.upperBound - 1].isBlank { value = value.lowerBound..<value.upperBound - 1 }
    return Line(name: name, value: value)
  }

  /// The position of the CR LF that ends a line.
  private static func endOfLine(_ bytes: Span<UInt8>, from: Int, isCut: Bool) throws(ContentFault) -> Int {
    var at = bytes.firstControl(from: from)
    while at < bytes.count, bytes[at] == 0x09 { at = bytes.firstControl(from: at + 1) }
    if bytes.holds("\r\n", at: at) { return at }
    if at < bytes.count - 1 || at == bytes.count - 1 && bytes[at] != 0x0d {
      throw ContentFault("expected CR LF at the end of a line, found \(Seen.byte(bytes[at]))", offset: at)
    }
    let reason =
      isCut
      ? "expected at most \(maximumBytes) bytes in the header of a part, found more"
      : "expected the header of a part, found the end of the body"
    throw ContentFault(reason, offset: bytes.count)
  }

  // MARK: Fields

  private static func header(
    _ fields: Fields, of body: Span<UInt8>, at begin: Int, _ converter: TextConverter?
  ) throws(ContentFault) -> PartHeader {
    let place = try disposition(fields, at: begin)
    let disposition = try FormDataDisposition.read(body.extracting(place), offset: place.lowerBound, converter)
    // A file stays as it is, with everything that describes it.
    if disposition.isFile { return PartHeader(name: disposition.name, content: .file) }
    if let place = fields.transferEncoding { try checkTransferEncoding(body, place) }
    guard let place = fields.type else { return PartHeader(name: disposition.name, content: .text) }
    return PartHeader(name: disposition.name, content: try content(body, place, converter: converter))
  }

  private static func disposition(_ fields: Fields, at begin: Int) throws(ContentFault) -> Range<Int> {
    if let place = fields.disposition { return place }
    throw ContentFault("expected a Content-Disposition in the header of a part, found none", offset: begin)
  }

  /// The three encodings that leave bytes unchanged.
  private static func checkTransferEncoding(_ body: Span<UInt8>, _ value: Range<Int>) throws(ContentFault) {
    if body.equals(value, ignoringCase: "7bit") || body.equals(value, ignoringCase: "8bit") { return }
    if body.equals(value, ignoringCase: "binary") { return }
    let seen = Seen.text(body.extracting(value))
    throw ContentFault("expected the transfer encoding 7bit, 8bit or binary, found \(seen)", offset: value.lowerBound)
  }

  private static func content(
    _ body: Span<UInt8>, _ place: Range<Int>, converter: TextConverter?
  ) throws(ContentFault) -> Content {
    let value = body.extracting(place)
    guard let type = MediaType(value) else {
      throw ContentFault("expected a media type, found \(Seen.text(value))", offset: place.lowerBound)
    }
    // Nested parts were once used to send several files of one field (RFC 7578, 4.3).
    if value.equals(type.type, ignoringCase: "multipart") {
      throw ContentFault("expected a value, found parts within a part", offset: place.lowerBound)
    }
    switch type.charset(in: value) {
    case .unstated: return .text
    case .utf8: return .utf8
    case .usASCII: return .ascii
    case .other:
      let name = type.parameter("charset", in: value) ?? []
      if let converter, converter.isFrom(name.span) { return .text }
      let expected = converter.map { "\($0.from), UTF-8 or US-ASCII" } ?? "UTF-8 or US-ASCII"
      let seen = Seen.text(name.span)
      throw ContentFault("expected the charset \(expected), found \(seen)", offset: place.lowerBound)
    }
  }
}

// Content-Disposition of a part: `form-data; name="…"`, and `filename` for a file (RFC 7578, 4.2).
//
// Clients write a name in many ways. Browsers and curl write %22, %0D and %0A for the three characters that would end
// it, and escape nothing else (the HTML standard), so other percent signs and a bare backslash are literal.
// `curl --form-escape` and mail programs put a backslash before a quotation mark and before a backslash. Both forms are
// read. A name that ends with a bare backslash looks like an escape: then the closing quotation mark is missing, which
// is a fault. Tests: MultipartFormDataTests.

import Bytes

struct FormDataDisposition {
  /// UTF-8.
  let name: [UInt8]
  let isFile: Bool

  /// Reads a field value at `offset` of the body.
  static func read(
    _ value: Span<UInt8>, offset: Int, _ converter: TextConverter? = nil
  ) throws(ContentFault) -> FormDataDisposition {
    let (name, isFile) = try parameters(value, offset: offset)
    return FormDataDisposition(name: try text(of: name, in: value, offset: offset, converter), isFile: isFile)
  }

  /// Checks everything except the encoding of the name.
  static func check(_ value: Span<UInt8>, offset: Int) throws(ContentFault) {
    _ = try parameters(value, offset: offset)
  }

  private static func parameters(
    _ value: Span<UInt8>, offset: Int
  ) throws(ContentFault) -> (name: ParameterList.Parameter, isFile: Bool) {
    let type = 0..<value.tokenEnd(from: 0)
    guard value.equals(type, ignoringCase: "form-data") else {
      throw ContentFault("expected the disposition form-data, found \(Seen.text(value))", offset: offset)
    }
    var list = ParameterList(from: type.upperBound)
    var name: ParameterList.Parameter?
    var isFile = false
    reading: while true {
      switch list.next(value) {
      case .end: break reading
      case .malformed(let index):
        let seen = Seen.byte(value, at: index, orEnd: "the end of the line")
        throw ContentFault("expected a parameter of Content-Disposition, found \(seen)", offset: offset + index)
      case .parameter(let parameter):
        switch try kind(of: parameter, in: value, offset: offset) {
        case .file: isFile = true
        case .name where name == nil: name = parameter
        case .name: throw ContentFault("expected one name, found another", offset: offset + parameter.name.lowerBound)
        }
      }
    }
    guard let name else { throw ContentFault("expected a name in Content-Disposition, found none", offset: offset) }
    return (name, isFile)
  }

  private enum Kind { case name, file }

  /// Another parameter could say more than a tree can represent. For example, some readers use `name*` as the name.
  private static func kind(
    of parameter: ParameterList.Parameter, in value: Span<UInt8>, offset: Int
  ) throws(ContentFault) -> Kind {
    if value.equals(parameter.name, ignoringCase: "name") { return .name }
    if value.equals(parameter.name, ignoringCase: "filename") { return .file }
    if value.equals(parameter.name, ignoringCase: "filename*") { return .file }
    let seen = Seen.text(value.extracting(parameter.name))
    throw ContentFault("expected 'name' or 'filename', found \(seen)", offset: offset + parameter.name.lowerBound)
  }

  private static func text(
    of name: ParameterList.Parameter, in value: Span<UInt8>, offset: Int, _ converter: TextConverter?
  ) throws(ContentFault) -> [UInt8] {
    let text = name.spelling == .token ? value.extracting(name.value).array : unescaped(value.extracting(name.value))
    switch TextConverter.utf8(text, by: converter) {
    case .success(let text): return text
    case .failure(let unfit):
      let encoding = converter?.from ?? "UTF-8"
      let seen = Seen.byte(text.span, at: unfit.index, orEnd: "its end")
      throw ContentFault("expected a name in \(encoding), found \(seen)", offset: offset + name.value.lowerBound)
    }
  }

  private static func unescaped(_ quoted: Span<UInt8>) -> [UInt8] {
    var text: [UInt8] = []
    var at = 0
    while at < quoted.count {
      let (byte, length) = character(quoted, at: at)
      text.append(byte)
      at += length
    }
    return text
  }

  /// The character at `at`, and the number of bytes that represent it.
  private static func character(_ quoted: Span<UInt8>, at: Int) -> (byte: UInt8, length: Int) {
    if quoted.holds("\\\"", at: at) || quoted.holds("\\\\", at: at) { return (quoted[at + 1], 2) }
    if quoted.holds("%22", at: at) { return (UInt8(ascii: "\""), 3) }
    if quoted.holds("%0D", at: at) { return (0x0d, 3) }
    if quoted.holds("%0A", at: at) { return (0x0a, 3) }
    return (quoted[at], 1)
  }
}

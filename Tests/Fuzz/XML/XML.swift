// Fuzzes XMLCheck: no body may crash it or hold it up, a fault lies within the body and is told in plain words, and of
// small documents Expat in its own namespace mode says the same.
//
// Run: make fuzz. The first byte of the input chooses the charset.

import Bytes
import CXML
import Serialization

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzXML_main")
public func fuzzXMLMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzXML)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

private let charsets: [[UInt8]?] =
  [nil] + ["utf-8", "iso-8859-1", "windows-1252", "utf-16", "utf-16le", "us-ascii", "x-unknown"].map { Array($0.utf8) }

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzXML(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data, count > 0 else { return 0 }
  let body = UnsafeBufferPointer(start: data + 1, count: count - 1)
  let charset = charsets[Int(data[0]) % charsets.count]
  let fault = XMLCheck.check(body.span, charset: charset)
  if let fault { expectWords(fault, body.count) }
  if charset == nil { compare(fault, body) }
  return 0
}

private func expectWords(_ fault: ContentFault, _ count: Int) {
  if fault.reason.isEmpty || fault.reason.utf8.contains(where: { !(0x20..<0x7f).contains($0) }) {
    fatalError("not printable: \(fault.reason)")
  }
  if !(0...count).contains(fault.offset) { fatalError("byte \(fault.offset) of \(count)") }
  if let place = fault.place, place.line < 1 || place.column < 1 { fatalError("place \(place)") }
}

/// Largest body in bytes that Expat's namespace mode gets: its time grows with the square.
private let largestComparison = 4096

/// Of what the check refuses although Expat does not.
private let ownReasons = [
  "external", "at most", "surrogates", "version 1.0", "no ':'", "local part", "known encoding",
]

private func compare(_ fault: ContentFault?, _ body: UnsafeBufferPointer<UInt8>) {
  // Under a mark of UTF-8 Expat obeys the declaration, the check the mark.
  if body.count > largestComparison || body.starts(with: [0xef, 0xbb, 0xbf]) { return }
  let code = codeOfExpat(body)
  if let fault {
    if code == XML_ERROR_NONE, !ownReasons.contains(where: { fault.reason.contains($0) }) {
      fatalError("only the check refuses it: \(fault.sentence)")
    }
  } else if code != XML_ERROR_NONE, code != XML_ERROR_UNKNOWN_ENCODING, !isExcused(code, body) {
    fatalError("only Expat refuses it: \(String(cString: XML_ErrorString(code)))")
  }
}

/// Names in declarations, which no element need have, are not held against the namespaces; and beyond ASCII Expat has the
/// letters of an earlier edition.
private func isExcused(_ code: XML_Error, _ body: UnsafeBufferPointer<UInt8>) -> Bool {
  guard code == XML_ERROR_INVALID_TOKEN else { return false }
  if body.contains(where: { $0 == 0 || $0 >= 0x80 }) { return true }
  return body.indices.contains { body[$0...].starts(with: Array("<!DOCTYPE".utf8)) }
}

private func codeOfExpat(_ body: UnsafeBufferPointer<UInt8>) -> XML_Error {
  guard let parser = XML_ParserCreateNS(nil, 0x0a) else { fatalError("out of memory") }
  defer { XML_ParserFree(parser) }
  XML_SetParamEntityParsing(parser, XML_PARAM_ENTITY_PARSING_ALWAYS)
  XML_SetExternalEntityRefHandler(parser) { _, _, _, _, _ in 1 }
  let start = UnsafeRawPointer(body.baseAddress)?.assumingMemoryBound(to: XML_Char.self)
  if XML_Parse(parser, start, CInt(body.count), 1) == XML_STATUS_OK { return XML_ERROR_NONE }
  return XML_GetErrorCode(parser)
}

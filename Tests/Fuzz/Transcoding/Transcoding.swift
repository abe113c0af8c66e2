// Fuzzes forms and multipart bodies on their way to a tree. Whatever becomes a tree is within its limits, in UTF-8 and
// without a key that comes twice, and holds as much when it is written as a form and read again.
//
// Run: make fuzz. The first byte of the input chooses the reader.

import Bytes
import Serialization

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzTranscoding_main")
public func fuzzTranscodingMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzTranscoding)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// The root, and the containers that may be below it.
private let deepestContainer = 65
/// The root included.
private let maximumNodes = 16_384

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzTranscoding(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data, count > 0 else { return 0 }
  // A copy of its own, so that the sanitizer sees a read behind its end.
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  switch data[0] % 3 {
  case 0: readForm(bytes)
  case 1: readParts(bytes, type: Array("multipart/form-data; boundary=b".utf8))
  default:
    // Content-Type, a line feed, the body.
    guard let end = bytes.firstIndex(of: 0x0a) else { return 0 }
    readParts(Array(bytes[(end + 1)...]), type: Array(bytes[..<end]))
  }
  return 0
}

private func readForm(_ bytes: [UInt8]) {
  switch FormDecoding.decode(bytes.span) {
  case .failure(let fault): expectFault(fault, within: bytes)
  case .success(let entries): expectTree(entries)
  }
}

private func readParts(_ bytes: [UInt8], type value: [UInt8]) {
  guard let type = MediaType(value.span), let boundary = MultipartBoundary(type, in: value.span) else { return }
  switch MultipartFormData.read(bytes.span, boundary) {
  case .invalid(let fault): expectFault(fault, within: bytes)
  case .holdsFile(let name):
    if String(validating: name, as: UTF8.self) == nil { fatalError("a name that is no UTF-8") }
  case .fields(let entries):
    expectTree(entries)
    guard case .invalid = MultipartFormData.read((bytes + [0x78]).span, boundary) else {
      fatalError("something behind a body is passed over")
    }
  }
}

private func expectFault(_ fault: ContentFault, within bytes: [UInt8]) {
  if fault.offset < 0 || fault.offset > bytes.count { fatalError("a fault beside the body") }
  if fault.reason.isEmpty || fault.reason.utf8.count > 300 { fatalError("a fault without words, or with too many") }
  if fault.reason.unicodeScalars.contains(where: { !(" "..."~").contains($0) && $0 != "…" }) {
    fatalError("not printable: \(fault.reason)")
  }
}

private func expectTree(_ entries: [ParameterEntry]) {
  var nodes = 0
  walk(.dictionary(entries), depth: 1, &nodes)
  if nodes > maximumNodes { fatalError("\(nodes) values and containers") }
  // A form reads no brackets without a name before them, as an empty name gets that comes several times.
  if entries.contains(where: { if $0.key.isEmpty, case .array = $0.value { true } else { false } }) { return }
  let form = QueryEncoding.encode(entries)
  guard case .success(let again) = FormDecoding.decode(form.span) else {
    fatalError("written as a form, it is none")
  }
  if sortedPairs(QueryEncoding.encode(again)) != sortedPairs(form) { fatalError("read again, a pair got lost") }
}

private func walk(_ value: ParameterValue, depth: Int, _ nodes: inout Int) {
  nodes += 1
  switch value {
  case .string(let text): expectText(text)
  case .array(let elements):
    if elements.isEmpty || depth > deepestContainer { fatalError("an array that is empty or too deep") }
    for element in elements { walk(element, depth: depth + 1, &nodes) }
  case .dictionary(let entries):
    if depth > deepestContainer || depth > 1 && entries.isEmpty { fatalError("a dictionary that is empty or too deep") }
    if Set(entries.map(\.key)).count != entries.count { fatalError("a key comes twice") }
    for entry in entries {
      expectText(entry.key)
      walk(entry.value, depth: depth + 1, &nodes)
    }
  case .integer, .real, .boolean: fatalError("a value that is no string")
  }
}

private func expectText(_ text: [UInt8]) {
  if String(validating: text, as: UTF8.self) == nil { fatalError("a text that is no UTF-8") }
}

private func sortedPairs(_ form: [UInt8]) -> [[UInt8]] {
  form.split(separator: UInt8(ascii: "&")).map { Array($0) }.sorted { $0.lexicographicallyPrecedes($1) }
}

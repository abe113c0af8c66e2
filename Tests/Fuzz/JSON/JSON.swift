// Fuzzes what is read as JSON: simdjson and our own grammar agree, a fault has its words and its place, and parameters
// that were merged are there.
//
// Run: make fuzz. The first byte of the input is the limit of depth.

import Bytes
import Serialization

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzJSON_main")
public func fuzzJSONMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzJSON)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzJSON(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data, count > 0 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  let depth = Int(data[0])
  let fault = JSONScanner.check(bytes.span, depth: depth)
  compare(bytes, depth: depth, fault)
  if let fault { expectWords(fault, bytes) }
  merge(bytes, depth: depth, fault)
  return 0
}

/// What simdjson takes is valid; what is valid it takes, but for what it cannot hold.
private func compare(_ bytes: [UInt8], depth: Int, _ fault: ContentFault?) {
  var checker = JSONChecker()
  var body = ByteBuffer()
  // The text once more is what a reader that goes too far would like best to find behind it.
  body.append(bytes)
  body.append(bytes)
  body.append("]}\"]}\"" as StaticString)
  body.truncate(to: bytes.count)
  let isTaken = checker.accepts(&body, depth: depth)
  if isTaken && fault != nil { fatalError("simdjson takes it: \(fault!.sentence)") }
  if !isTaken && fault == nil && !isBeyondSIMD(bytes, depth: depth) { fatalError("simdjson refuses it") }
  if checker.check(&body, depth: depth) != fault { fatalError("the checker has another opinion") }
  if body.bytes.array != bytes { fatalError("the checker changed the body") }
}

/// Whether a valid text has a number that is beyond 64 bits or a double, or is as deep as may be.
private func isBeyondSIMD(_ bytes: [UInt8], depth: Int) -> Bool {
  var open = 0
  var at = 0
  while at < bytes.count {
    switch bytes[at] {
    case 0x22:
      at += 1
      while bytes[at] != 0x22 { at += bytes[at] == 0x5c ? 2 : 1 }
    case 0x5b, 0x7b: open += 1
    case 0x5d, 0x7d: open -= 1
    case 0x2d, 0x30...0x39:
      let end = bytes[at...].firstIndex { !($0.isASCIIDigit || "+-.eE".utf8.contains($0)) } ?? bytes.count
      let text = String(decoding: bytes[at..<end], as: UTF8.self)
      let isInteger = !text.utf8.contains { ".eE".utf8.contains($0) }
      if isInteger ? Int64(text) == nil && UInt64(text) == nil : Double(text)?.isFinite != true { return true }
      at = end - 1
    default: break
    }
    if open >= depth { return true }
    at += 1
  }
  return false
}

private func expectWords(_ fault: ContentFault, _ bytes: [UInt8]) {
  if fault.offset < 0 || fault.offset > bytes.count || fault.place == nil { fatalError("no place: \(fault)") }
  if fault.reason.utf8.contains(where: { !(0x20..<0x7f).contains($0) }) { fatalError("not printable: \(fault)") }
  if !fault.reason.hasPrefix("expected ") || !fault.reason.contains(", found ") { fatalError("no words: \(fault)") }
}

/// Made anew each time: what a global holds in enums is a leak to AddressSanitizer, which cannot follow their pointers.
private func makeParameters() -> [ParameterEntry] {
  [
    ParameterEntry(key: Array("a".utf8), value: .array([.string(Array("\"é\n".utf8)), .real(0.5)])),
    ParameterEntry(key: [], value: .dictionary([])),
    ParameterEntry(key: Array("é😀/\n".utf8), value: .boolean(true)),
  ]
}

private func merge(_ bytes: [UInt8], depth: Int, _ fault: ContentFault?) {
  let parameters = makeParameters()
  var merged = ByteBuffer()
  switch JSONMerging.merge(parameters, into: bytes.span, depth: depth, to: &merged) {
  case .invalid(let seen):
    if seen != fault { fatalError("the merge has another opinion: \(seen)") }
  case .notAnObject(let phrase):
    if fault != nil || phrase == "an object" { fatalError("no object: \(phrase)") }
  case .merged:
    if fault != nil { fatalError("merged, and not valid") }
    // The deepest parameter is an array in the object.
    if let fault = JSONScanner.check(merged.bytes, depth: max(depth, 2)) { fatalError("merged to \(fault.sentence)") }
    // What is there already is not added: merged once more it is the same.
    var again = ByteBuffer()
    let outcome = JSONMerging.merge(parameters, into: merged.bytes, depth: max(depth, 2), to: &again)
    if outcome != .merged || again.bytes.array != merged.bytes.array { fatalError("merged again, it differs") }
  }
}

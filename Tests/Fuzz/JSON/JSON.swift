// Fuzzes what is read as JSON: a fault has its words and its place, and parameters that were merged are there.
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
  if let fault { expectWords(fault, bytes) }
  merge(bytes, depth: depth, fault)
  return 0
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

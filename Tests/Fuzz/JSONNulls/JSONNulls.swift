// Fuzzes null removal: what comes out is valid and holds no null, and is all that went in but for them.
//
// Run: make fuzz. The first byte of the input is the limit of depth.

import Bytes
import Serialization

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzJSONNulls_main")
public func fuzzJSONNullsMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzJSONNulls)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzJSONNulls(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data, count > 0 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  let depth = Int(data[0])
  let expected = JSONScanner.check(bytes.span, depth: depth)
  var out = ByteBuffer()
  switch JSONNulls.remove(from: bytes.span, depth: depth, to: &out) {
  case .failure(let fault):
    if fault != expected { fatalError("the removal has another opinion: \(fault.sentence)") }
  case .success(let isChanged):
    if let expected { fatalError("taken: \(expected.sentence)") }
    let essence = Essence(bytes)
    if isChanged != essence.hadNulls { fatalError("changed: \(isChanged)") }
    if isChanged { compare(out, essence, depth: depth) } else if !out.isEmpty { fatalError("written for nothing") }
  }
  return 0
}

private func compare(_ out: borrowing ByteBuffer, _ essence: Essence, depth: Int) {
  if let fault = JSONScanner.check(out.bytes, depth: depth) { fatalError("not valid any more: \(fault.sentence)") }
  var checker = JSONChecker()
  var copy = ByteBuffer()
  copy.append(contentsOf: out)
  if let fault = checker.check(&copy, depth: depth) { fatalError("the checker refuses it: \(fault.sentence)") }
  let left = Essence(out.bytes.array)
  if left.hadNulls { fatalError("a null is left") }
  if left.bytes != essence.bytes { fatalError("more or less than nulls is gone") }
  var nothing = ByteBuffer()
  if JSONNulls.remove(from: out.bytes, depth: depth, to: &nothing) != .success(false) { fatalError("done twice") }
}

/// Of a valid text all but nulls in containers, with the keys of those, and the commas and white space between values.
private struct Essence {
  var bytes: [UInt8] = []
  var hadNulls = false

  init(_ text: [UInt8]) {
    var isInContainer = false
    var stringStart = 0
    var at = 0
    while at < text.count {
      let byte = text[at]
      at += 1
      switch byte {
      case 0x20, 0x09, 0x0a, 0x0d, 0x2c: continue
      case 0x22:
        var end = at
        while text[end] != 0x22 { end += text[end] == 0x5c ? 2 : 1 }
        stringStart = bytes.count
        bytes += text[at - 1...end]
        at = end + 1
      case 0x6e where isInContainer:
        hadNulls = true
        if bytes.last == 0x3a { bytes.removeLast(bytes.count - stringStart) }
        at += 3
      default:
        if byte == 0x5b || byte == 0x7b { isInContainer = true }
        bytes.append(byte)
      }
    }
  }
}

// Fuzzes the chunked coding: content and verdict are the same however the bytes are split.
//
// Run: make fuzz. The first byte of the input seeds the splits.

import Bytes
import HTTP1

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzChunkedBodies_main")
public func fuzzChunkedBodiesMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzChunkedBodies)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzChunkedBodies(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data else { return 0 }
  guard count > 1 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  let whole = decode(bytes, pieceSeed: nil)
  let split = decode(bytes, pieceSeed: UInt64(data[0]) &* 0x9e37_79b9_7f4a_7c15 | 1)
  if whole != split { fatalError("whole: \(whole), split: \(split)") }
  return 0
}

private struct Decoded: Equatable {
  var content: [UInt8] = []
  var end: Int? = nil
  var fault: MessageFault? = nil
}

/// Decodes as a session does: what is not consumed is shown again with more behind it.
private func decode(_ bytes: [UInt8], pieceSeed: UInt64?) -> Decoded {
  var result = Decoded()
  var decoder = ChunkedDecoder()
  var consumed = 0
  var shown = 0
  var state = pieceSeed ?? 0
  while shown < bytes.count {
    state = state &* 6_364_136_223_846_793_005 &+ 1
    shown = pieceSeed == nil ? bytes.count : min(bytes.count, shown + 1 + Int(state >> 61))
    let window = bytes.span.extracting(consumed..<shown)
    var at = 0
    reading: while true {
      switch decoder.next(window, from: at) {
      case .data(let range):
        if range.isEmpty { fatalError("empty content") }
        for index in range { result.content.append(window[index]) }
        at = range.upperBound
      case .needMore(let count):
        at = count
        break reading
      case .lastChunk(let count):
        result.end = consumed + count
        return result
      case .invalid(let fault):
        result.fault = fault
        return result
      }
    }
    consumed += at
  }
  return result
}

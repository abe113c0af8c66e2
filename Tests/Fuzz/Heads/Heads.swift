// Fuzzes request heads, response heads, strict and mended, and trailer sections: no input may crash, and what a prefix says is final.
//
// Run: make fuzz. The first byte of the input chooses the reader.

import Bytes
import HTTP1

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzHeads_main")
public func fuzzHeadsMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzHeads)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzHeads(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data else { return 0 }
  guard count > 1 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  let limits = HeadLimits(bytes: 4096, fields: 32)
  let choice = data[0] % 4
  let whole = read(choice, bytes.span, limits)
  // A prefix is unfinished, or it has the verdict of the whole: nothing that follows may change it.
  var length = 0
  while length < bytes.count {
    let prefix = read(choice, bytes.span.extracting(0..<length), limits)
    if prefix != .incomplete && prefix != whole {
      fatalError("the first \(length) bytes are \(prefix), all of them are \(whole)")
    }
    length += max(1, bytes.count / 64)
  }
  return 0
}

private func read(_ choice: UInt8, _ bytes: Span<UInt8>, _ limits: HeadLimits) -> HeadProgress {
  switch choice {
  case 0:
    var head = RequestHead()
    return head.read(bytes, limits: limits)
  case 1:
    var head = ResponseHead()
    return head.read(bytes, limits: limits, toHead: false)
  case 2:
    var head = ResponseHead()
    var mended = ByteBuffer()
    let progress = head.readMending(bytes, limits: limits, toHead: false, into: &mended)
    if case .complete = progress, !head.mendings.isEmpty {
      var again = ResponseHead()
      let whole = HeadLimits(bytes: mended.count, fields: limits.fields)
      if again.read(mended.bytes, limits: whole, toHead: false) != .complete(count: mended.count) {
        fatalError("what was mended is not strict")
      }
    }
    return progress
  default:
    var fields = FieldSection()
    return TrailerReader.read(bytes, from: 0, limits: limits, into: &fields)
  }
}

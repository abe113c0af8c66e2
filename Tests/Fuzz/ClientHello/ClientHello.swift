// Fuzzes what a client sends into a tunnel that is inspected: what passes, what is read and what is refused are the same
// however the bytes are split, and the same hello is read however it is cut into records.
//
// Run: make fuzz. The first byte of the input seeds the splits.

import Bytes
import TLSWire

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzClientHello_main")
public func fuzzClientHelloMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzClientHello)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzClientHello(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data else { return 0 }
  guard count > 1 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  let seed = UInt64(data[0]) &* 0x9e37_79b9_7f4a_7c15 | 1
  let whole = inspect(bytes, seed: nil)
  let split = inspect(bytes, seed: seed)
  if whole != split { fatalError("whole: \(whole), split: \(split)") }
  if let hello = whole.hello {
    if whole.passed == 0 { fatalError("a hello that does not pass") }
    check(hello)
    let again = inspect(cutAnew(bytes, seed: seed), seed: nil)
    if again.hello != hello { fatalError("\(hello), cut anew: \(again)") }
  } else if whole.passed != 0 {
    fatalError("\(whole.passed) bytes passed without a hello")
  }
  return 0
}

private struct Inspected: Equatable {
  var passed = 0
  var hello: ClientHello? = nil
  var fault: TunnelFault? = nil
}

/// Shows the bytes as a session does: what has not passed is shown again with more behind it.
private func inspect(_ bytes: [UInt8], seed: UInt64?) -> Inspected {
  var inspection = TunnelInspection(serverNames: [Array("a.example".utf8)], for: .certificates(wantsStaple: false))
  var result = Inspected()
  var shown = 0
  var state = seed ?? 0
  while shown < bytes.count && result.fault == nil {
    state = state &* 6_364_136_223_846_793_005 &+ 1
    shown = seed == nil ? bytes.count : min(bytes.count, shown + 1 + Int(state >> 60))
    showing: while true {
      switch inspection.clientReceived(bytes.span.extracting(result.passed..<shown)) {
      case .hold: break showing
      case .forward(let count):
        if count < 1 || count > shown - result.passed { fatalError("forward \(count)") }
        result.passed += count
      case .refuse(let fault):
        if inspection.clientReceived(bytes.span) != .refuse(fault) { fatalError("\(fault) did not stay") }
        result.fault = fault
        break showing
      }
    }
  }
  result.hello = inspection.hello
  return result
}

/// What every hello that passes must be.
private func check(_ hello: ClientHello) {
  if hello.serverName != Array("a.example".utf8) { fatalError("passed with another name: \(hello)") }
  for name in hello.applicationProtocols where name.isEmpty { fatalError("an empty protocol") }
}

/// The hello at the front of `bytes`, in records of other lengths.
private func cutAnew(_ bytes: [UInt8], seed: UInt64) -> [UInt8] {
  var message: [UInt8] = []
  var at = 0
  while message.count < 4 || message.count < 4 + Int(message[1]) << 16 + Int(message[2]) << 8 + Int(message[3]) {
    let end = at + 5 + Int(bytes[at + 3]) << 8 + Int(bytes[at + 4])
    message += bytes[at + 5..<end]
    at = end
  }
  var result: [UInt8] = []
  var state = seed
  while !message.isEmpty {
    state = state &* 6_364_136_223_846_793_005 &+ 1
    let count = min(message.count, 1 + Int(state >> 54))
    result += [22, 3, 3, UInt8(count >> 8), UInt8(count & 0xff)] + message.prefix(count)
    message.removeFirst(count)
  }
  return result
}

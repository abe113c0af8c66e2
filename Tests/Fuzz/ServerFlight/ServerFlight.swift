// Fuzzes what a server answers in a tunnel that is inspected: what is evaluated, what passes and what is refused are the
// same however the bytes are split, and nothing passes before it has been decided on.
//
// Run: make fuzz. The first byte of the input seeds the splits, and says in its lowest bits what the client had offered
// and whether a stapled answer is wanted.

import Bytes
import TLSWire

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzServerFlight_main")
public func fuzzServerFlightMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzServerFlight)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzServerFlight(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data else { return 0 }
  guard count > 1 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  let whole = inspect(bytes, offers: data[0], seed: nil)
  let split = inspect(bytes, offers: data[0], seed: UInt64(data[0]) &* 0x9e37_79b9_7f4a_7c15 | 1)
  if whole != split { fatalError("whole: \(whole), split: \(split)") }
  return 0
}

private struct Inspected: Equatable {
  var decision: UpstreamStep? = nil
  var version: ProtocolVersion? = nil
}

/// Shows the bytes as a session does, until something is decided.
private func inspect(_ bytes: [UInt8], offers: UInt8, seed: UInt64?) -> Inspected {
  var inspection = TunnelInspection(serverNames: [], for: .certificates(wantsStaple: offers & 1 != 0))
  let hello = clientHello(offersTLS13: offers & 2 != 0, offersTicket: offers & 4 != 0)
  guard case .forward(hello.count) = inspection.clientReceived(hello.span) else { fatalError("the hello did not pass") }
  var shown = 0
  var state = seed ?? 0
  while shown < bytes.count {
    state = state &* 6_364_136_223_846_793_005 &+ 1
    shown = seed == nil ? bytes.count : min(bytes.count, shown + 1 + Int(state >> 60))
    let step = inspection.upstreamReceived(bytes.span.extracting(0..<shown))
    if step == .hold { continue }
    check(step, shown: shown)
    checkWhatFollows(step, &inspection, bytes)
    return Inspected(decision: step, version: inspection.version)
  }
  return Inspected(version: inspection.version)
}

private func check(_ step: UpstreamStep, shown: Int) {
  switch step {
  case .evaluate(let presented):
    let count = presented.certificates.reduce(presented.stapledResponse?.count ?? 0) { $0 + $1.count }
    if presented.certificates.isEmpty || count > shown { fatalError("\(count) bytes out of \(shown)") }
    if presented.certificates.contains([]) { fatalError("an empty certificate") }
  case .passThenClose(let count):
    if count < 7 || count > shown { fatalError("pass \(count) of \(shown)") }
  case .hold, .pass, .resumed, .refuse: break
  }
}

/// What was decided stays, and what waits for a verdict waits.
private func checkWhatFollows(_ step: UpstreamStep, _ inspection: inout TunnelInspection, _ bytes: [UInt8]) {
  let next = inspection.upstreamReceived(bytes.span)
  switch step {
  case .evaluate, .resumed:
    if next != .hold || inspection.isComplete { fatalError("\(step), and then \(next)") }
    inspection.accept()
    if inspection.upstreamReceived(bytes.span) != .pass || !inspection.isComplete { fatalError("accepted for nothing") }
  case .passThenClose:
    if next != .passThenClose(count: 0) { fatalError("\(step), and then \(next)") }
  case .pass, .refuse:
    if next != step { fatalError("\(step), and then \(next)") }
  case .hold: break
  }
}

/// A hello without a name, and with what is offered.
private func clientHello(offersTLS13: Bool, offersTicket: Bool) -> [UInt8] {
  let extensions: [UInt8] = (offersTLS13 ? [0, 43, 0, 3, 2, 3, 4] : []) + (offersTicket ? [0, 35, 0, 1, 0] : [])
  let body: [UInt8] =
    [3, 3] + [UInt8](repeating: 0, count: 33) + [0, 2, 0x13, 1, 1, 0, 0, UInt8(extensions.count)] + extensions
  return [22, 3, 1, 0, UInt8(body.count + 4), 1, 0, 0, UInt8(body.count)] + body
}

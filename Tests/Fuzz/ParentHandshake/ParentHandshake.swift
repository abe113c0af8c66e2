// Fuzzes what a parent proxy says before its connection counts as open: what is sent, what is decided and what is left for
// the destination are the same however the bytes are split, what was decided stays, and nothing crashes.
//
// Run: make fuzz. The first byte of the input says in its bits what the parent and the destination are, and seeds the
// splits.

import Bytes
import HTTP1
import Policy
import Session

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzParentHandshake_main")
public func fuzzParentHandshakeMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzParentHandshake)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzParentHandshake(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data else { return 0 }
  guard count > 0 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  let handshake = handshake(data[0])
  let whole = converse(handshake, bytes) { bytes.count }
  let bytewise = converse(handshake, bytes) { 1 }
  if whole != bytewise { fatalError("whole: \(whole), byte by byte: \(bytewise)") }
  var state = UInt64(data[0]) &* 0x9e37_79b9_7f4a_7c15 | 1
  let split = converse(handshake, bytes) {
    state = state &* 6_364_136_223_846_793_005 &+ 1
    return 1 + Int(state >> 60)
  }
  if whole != split { fatalError("whole: \(whole), split: \(split)") }
  return 0
}

private struct Outcome: Equatable {
  var sent: [UInt8] = []
  var isOpen = false
  /// Lines of challenges that are answered.
  var challenges: [[[UInt8]]] = []
  /// Why not; where the bytes decide nothing, what their end comes to.
  var refusal: ParentRefusal? = nil
  /// What is left for the destination.
  var rest: [UInt8] = []
}

private func handshake(_ choice: UInt8) -> ParentHandshake {
  let kinds: [Route.Parent.Kind] = [.http, .socks5, .https, .socks5]
  let hosts = ["a.example", "192.0.2.1", "[2001:db8::1]", "xn--bcher-kva.example"]
  let credentials = RouteCredentials(
    username: Array("kiosk".utf8), password: Array("s3cret".utf8), scheme: choice & 64 == 0 ? .basic : .digest)
  let parent = Route.Parent(
    kind: kinds[Int(choice & 3)], host: canonical("proxy.example"), port: 3128,
    credentials: choice & 4 == 0 ? nil : .password(credentials))
  return ParentHandshake(
    parent, host: canonical(hosts[Int(choice >> 3 & 3)]), port: 443, via: Array("1.1 fuzz (00000001)".utf8),
    limits: HeadLimits(bytes: choice & 32 == 0 ? 1024 : 64, fields: 8))
}

private func canonical(_ text: String) -> CanonicalHost {
  var host = CanonicalHost()
  if let fault = host.set(Array(text.utf8).span) { fatalError("\(fault)") }
  return host
}

/// Shows the bytes as a connector does, `next` more each time, until something is decided.
private func converse(_ handshake: ParentHandshake, _ bytes: [UInt8], by next: () -> Int) -> Outcome {
  var handshake = handshake
  var outcome = Outcome()
  var output = ByteBuffer()
  var consumed = 0
  var shown = 0
  var isDecided = false
  while !isDecided {
    let window = consumed..<shown
    switch handshake.received(bytes.span.extracting(window), &output) {
    case .wants(let count):
      if count > window.count { fatalError("\(count) bytes out of \(window.count)") }
      consumed += count
      if shown == bytes.count {
        outcome.refusal = handshake.ended()
        isDecided = true
      }
      shown = min(bytes.count, shown + next())
    case .open(let count):
      if count == 0 || count > window.count { fatalError("open after \(count) bytes of \(window.count)") }
      outcome.isOpen = true
      outcome.rest = Array(bytes[(consumed + count)...])
      isDecided = true
    case .challenged(let count, let lines, let isKept):
      if count == 0 || count > window.count { fatalError("challenged after \(count) bytes of \(window.count)") }
      consumed += count
      outcome.challenges.append(lines)
      if isKept {
        handshake.ask(with: Array("Digest x".utf8))
      } else {
        outcome.refusal = handshake.refused(credentials: "were refused")
        isDecided = true
      }
    case .refused(let refusal):
      outcome.refusal = refusal
      isDecided = true
    }
  }
  outcome.sent = output.bytes.array
  check(outcome, &handshake)
  return outcome
}

/// What was decided stays, and what is told can be shown to anybody.
private func check(_ outcome: Outcome, _ handshake: inout ParentHandshake) {
  var output = ByteBuffer()
  let again = handshake.received(Array("HTTP/1.1 200 OK\r\n\r\n".utf8).span, &output)
  let expected = outcome.refusal.map { ParentHandshake.Progress.refused($0) } ?? .open(consumed: 0)
  if again != expected || !output.isEmpty { fatalError("\(outcome), and then \(again)") }
  guard let refusal = outcome.refusal else { return }
  if ![.parentRefused, .parentAuthentication, .parentFailed].contains(refusal.kind) { fatalError("\(refusal)") }
  if !refusal.detail.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) { fatalError("\(refusal)") }
  if refusal.detail.utf8.count > 1024 || !refusal.detail.hasSuffix(".") { fatalError("\(refusal)") }
}

// Fuzzes what is read of rtnetlink: no datagram may crash the readers or hold them up, and whatever they say keeps what
// they promise, to the state of the network too.
//
// Run: make fuzz. The first byte of the input says which interface was asked for.

import Bytes
import Reachability

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzRouteMessages_main")
public func fuzzRouteMessagesMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzRouteMessages)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzRouteMessages(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data, count > 0 else { return 0 }
  let datagram = UnsafeBufferPointer(start: data + 1, count: count - 1)
  walk(datagram)
  news(datagram)
  let interface = data[0] == 0 ? nil : Int32(data[0])
  // The sequence of the first message, so that there is an answer to look at.
  let sequence = datagram.count < 12 ? 0 : UnsafeRawPointer(data + 1).loadUnaligned(fromByteOffset: 8, as: UInt32.self)
  if let answer = RouteAnswer.read(datagram.span, sequence: sequence, interface: interface) {
    check(answer, interface)
  }
  _ = InterfaceKind.deviceType(inUevent: datagram.span)
  return 0
}

private func walk(_ datagram: UnsafeBufferPointer<UInt8>) {
  var messages = NetlinkMessages()
  var steps = 0
  var end = 0
  while let message = messages.next(datagram.span) {
    steps += 1
    if message.payload.lowerBound < end + 16 || message.payload.upperBound > datagram.count {
      fatalError("a message at \(message.payload) behind \(end) of \(datagram.count)")
    }
    end = message.payload.upperBound
  }
  if steps > datagram.count / 16 { fatalError("\(steps) messages in \(datagram.count) bytes") }
}

private func news(_ datagram: UnsafeBufferPointer<UInt8>) {
  let old = NetworkState()
  var state = old
  var count = 0
  RouteMessages.read(datagram.span) { message in
    count += 1
    check(message)
    let before = state
    let counts = state.apply(message)
    if !counts && state != before { fatalError("\(message) changed the state and does not count") }
    // Told a second time, it is no news.
    let after = state
    if state.apply(message) && message != .routesChanged { fatalError("\(message) counts twice") }
    if state != after { fatalError("\(message) changes the state twice") }
  }
  if count > 2 * (datagram.count / 16) + 1 { fatalError("\(count) things in \(datagram.count) bytes") }
  if state.addresses.values.contains(where: \.isEmpty) { fatalError("an empty set of addresses") }
  let reasons = state.reasons(since: old)
  if reasons.utf8.count > NetworkState.longestReasonsBytes { fatalError("\(reasons.utf8.count) bytes of reasons") }
  if reasons.isEmpty != (state == old) { fatalError("reasons: \(reasons)") }
  if reasons.utf8.contains(where: { $0 < 0x20 || $0 == 0x7f }) { fatalError("not printable: \(reasons)") }
}

private func check(_ message: RouteMessage) {
  switch message {
  case .link(let link):
    // A byte that is no UTF-8 becomes a character of three.
    if link.index < 1 || link.name.isEmpty || link.name.utf8.count > 45 { fatalError("\(link)") }
  case .linkGone(let index):
    if index < 1 { fatalError("\(message)") }
  case .address(let index, let address, let network, isTentative: _), .addressGone(let index, let address, let network):
    if index < 1 || address.isIPv4 != (network != nil) { fatalError("\(message)") }
  case .failed(let error, sequence: _):
    if error < 1 { fatalError("\(message)") }
  case .routesChanged, .done, .overrun: break
  }
}

private func check(_ answer: RouteAnswer, _ asked: Int32?) {
  switch answer {
  case .by(let interface, source: _, gateway: _):
    if interface < 1 || (asked != nil && interface != asked && interface != Link.loopbackIndex) {
      fatalError("by \(interface), asked for \(asked ?? 0)")
    }
  case .unreachable(let error):
    if error < 1 { fatalError("error \(error)") }
  case .unknown: break
  }
}

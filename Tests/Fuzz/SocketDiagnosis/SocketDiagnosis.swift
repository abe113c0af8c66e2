// Fuzzes what is read of SOCK_DIAG: no datagram may crash the reader, and nobody is named whom the bytes do not name. A
// second reader, which only looks at the places where things have to stand, checks each owner.
//
// Run: make fuzz. The first byte of the input chooses the connection that was asked for.

import Bytes
import Reachability

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzSocketDiagnosis_main")
public func fuzzSocketDiagnosisMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzSocketDiagnosis)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

private let sequence: UInt32 = 9
private let clientPort: UInt16 = 50792
private let proxyPort: UInt16 = 3128
private let loopbacks = [IPAddress(ipv4: 0x7f00_0001), IPAddress(ipv6High: 0, low: 1)]

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzSocketDiagnosis(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data, count > 0 else { return 0 }
  let loopback = loopbacks[Int(data[0] & 1)]
  let datagram = UnsafeBufferPointer(start: data + 1, count: count - 1)
  let answer = SocketDiagnosis.read(
    datagram.span, sequence: sequence, local: loopback, localPort: clientPort, remote: loopback,
    remotePort: proxyPort)
  if case .owner(let userID, let cgroup, _)? = answer {
    let named = NetlinkAnswers(UnsafeRawBufferPointer(datagram)).contains { payload in
      names(payload, loopback, userID, cgroup)
    }
    if !named { fatalError("user \(userID), cgroup \(cgroup ?? 0) out of nothing") }
  }
  return 0
}

/// The payloads of the messages of type 20 with the sequence that was asked with.
private struct NetlinkAnswers: Sequence, IteratorProtocol {
  private var rest: Slice<UnsafeRawBufferPointer>

  init(_ bytes: UnsafeRawBufferPointer) { rest = bytes[...] }

  mutating func next() -> UnsafeRawBufferPointer? {
    while rest.count >= 16 {
      let message = UnsafeRawBufferPointer(rebasing: rest)
      let length = Int(message.loadUnaligned(as: UInt32.self))
      guard length >= 16, length <= message.count else { return nil }
      rest = rest.dropFirst((length + 3) / 4 * 4)
      guard message.loadUnaligned(fromByteOffset: 4, as: UInt16.self) == 20,
        message.loadUnaligned(fromByteOffset: 8, as: UInt32.self) == sequence
      else { continue }
      return UnsafeRawBufferPointer(rebasing: message[16..<length])
    }
    return nil
  }
}

/// Whether an answer speaks of the connection, its client is open, and it has this owner.
private func names(
  _ payload: UnsafeRawBufferPointer, _ loopback: IPAddress, _ userID: UInt32, _ cgroup: UInt64?
) -> Bool {
  guard payload.count >= 72, [1, 4, 5].contains(payload[1]) else { return false }
  let ipv4: [UInt8] = [127, 0, 0, 1]
  let zeros = [UInt8](repeating: 0, count: 10)
  let forms: [[UInt8]] =
    loopback.isIPv4 ? [payload[0] == 2 ? ipv4 : zeros + [255, 255] + ipv4] : [zeros + [0, 0, 0, 0, 0, 1]]
  guard payload[0] == 10 || (payload[0] == 2 && loopback.isIPv4),
    forms.contains(where: { payload[8...].starts(with: $0) && payload[24...].starts(with: $0) }),
    payload.loadUnaligned(fromByteOffset: 4, as: UInt16.self).bigEndian == clientPort,
    payload.loadUnaligned(fromByteOffset: 6, as: UInt16.self).bigEndian == proxyPort,
    payload.loadUnaligned(fromByteOffset: 68, as: UInt32.self) != 0,
    payload.loadUnaligned(fromByteOffset: 64, as: UInt32.self) == userID
  else { return false }
  guard let cgroup else { return true }
  // The number stands somewhere behind the header, at a multiple of four.
  return stride(from: 72, through: payload.count - 8, by: 4).contains {
    payload.loadUnaligned(fromByteOffset: $0, as: UInt64.self) == cgroup
  }
}

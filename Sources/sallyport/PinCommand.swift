// sallyport pin: the certificates of a server or of files, the value of pins on them, and a [pins.…] table to paste.
//
// The order in which a server sends its certificates does not show which pins a rule can rely on. So each pin is tried,
// as a set of its own, by the daemon's own evaluation. Tests: test_pin.py.

import Bytes
import Policy
import Security
import Transport

nonisolated func pinCommand(_ options: Arguments) throws -> Int32 {
  let files = options.lists["file"] ?? []
  try options.refuseOperands(after: 1)
  let host = try options.operands.first.map { try HostOperand($0, defaultPort: 443) }
  guard host != nil || !files.isEmpty else { throw UsageError(message: "HOST or HOST:PORT was expected, or --file") }
  let name = try options.values["server-name"].map { try HostOperand.read($0, of: $0) }
  let anchors = try readAnchors(options.values["anchors"])
  let source =
    files.isEmpty
    ? try host.map { try connect($0, serverName: name?.identity ?? $0.identity) } ?? Source()
    : Source(certificates: try files.flatMap(readCertificates))
  let identity = name?.identity ?? host?.identity
  let chain = PinnedChain(source.certificates, identity: identity, anchors: anchors, at: Clock.wall / 1_000)
  let report = PinReport(
    host: host, serverName: name?.host, source: source, chain: chain, anchors: anchors.origin)
  Output.answer(options.flags.contains("json") ? report.json.text + "\n" : report.text)
  return 0
}

/// Why there is nothing to report.
private struct PinFailure: Error, CustomStringConvertible {
  let description: String
}

/// Where the certificates come from.
struct Source {
  /// Leaf first.
  var certificates: [Certificate] = []
  /// The server that answered, such as `192.0.2.1:443, TLSv1.3`; nil for files.
  var server: String? = nil
  /// Why the handshake failed.
  var complaint: String? = nil
}

private func connect(_ host: HostOperand, serverName: ReferenceIdentity) throws -> Source {
  var sent: String? = nil
  if case .name(let name) = serverName { sent = name }
  switch TLSProbe.certificates(host: host.host, port: host.port, serverName: sent) {
  case .failure(let failure): throw PinFailure(description: "\(host.host):\(host.port): \(failure)")
  case .success(let found):
    let certificates = try found.certificates.flatMap { der in
      try Certificate.read(der).mapError { PinFailure(description: "\(host.host):\(host.port): \($0)") }.get()
    }
    let address = ListenAddress(address: IPAddress(found.address), port: found.address.port)
    return Source(
      certificates: certificates, server: "\(address), \(found.version)", complaint: found.complaint)
  }
}

extension IPAddress {
  fileprivate init(_ address: SocketAddress) {
    self =
      address.isIPv4
      ? IPAddress(ipv4: UInt32(truncatingIfNeeded: address.low)) : IPAddress(ipv6High: address.high, low: address.low)
  }
}

/// The largest file with certificates, in bytes; a system's bundle has 220 KB.
private let largestFileBytes = 16 << 20

private func read(_ path: String) throws -> [UInt8] {
  try Files.read(path, limit: largestFileBytes).mapError { PinFailure(description: "cannot read \(path): \($0)") }.get()
}

private func readCertificates(_ path: String) throws -> [Certificate] {
  try Certificate.read(try read(path)).mapError { PinFailure(description: "\(path): \($0)") }.get()
}

private func readAnchors(_ path: String?) throws -> TrustAnchors {
  let anchors =
    try path.map { path in TrustAnchors.read(pem: try read(path), origin: path) } ?? TrustAnchors.system()
  return try anchors.mapError { fault in PinFailure(description: path.map { "\($0): \(fault)" } ?? "\(fault)") }.get()
}

// Builds handshakes of any shape, and plays them to what reads them.

import Bytes
import TestSupport

@testable import Session
@testable import TLSWire

/// The bytes of pairs of hexadecimal digits; white space between them is ignored.
func hexadecimal(_ text: String) -> [UInt8] {
  let digits = text.utf8.filter { $0 > 0x20 }.map { digit in
    guard let value = digit.hexadecimalValue else { fatalError("no hexadecimal digit: \(digit)") }
    return value
  }
  precondition(digits.count % 2 == 0, "half a byte")
  return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

/// `value` in `count` bytes, the highest first.
func number(_ value: Int, _ count: Int) -> [UInt8] {
  (0..<count).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
}

/// `content` behind its length in `lengthBytes` bytes.
func vector(_ content: [UInt8], _ lengthBytes: Int) -> [UInt8] { number(content.count, lengthBytes) + content }

/// A handshake message.
func message(_ type: UInt8, _ body: [UInt8]) -> [UInt8] { [type] + vector(body, 3) }

/// A record.
func record(_ type: UInt8, _ content: [UInt8], version: Int = 0x0303) -> [UInt8] {
  [type] + number(version, 2) + vector(content, 2)
}

/// `content` as handshake records of at most `longest` bytes each.
func records(_ content: [UInt8], longest: Int = 1 << 14) -> [UInt8] {
  stride(from: 0, to: content.count, by: longest).flatMap { begin in
    record(22, Array(content[begin..<min(content.count, begin + longest)]))
  }
}

let changeCipherSpec = record(20, [1])

func alert(_ level: UInt8, _ description: UInt8) -> [UInt8] { record(21, [level, description]) }

/// An extension of a hello.
func extended(_ type: Int, _ content: [UInt8]) -> [UInt8] { number(type, 2) + vector(content, 2) }

/// server_name with one host_name.
func named(_ name: String) -> [UInt8] { extended(0, vector([0] + vector(octets(name), 2), 2)) }

/// supported_versions of a client.
func versions(_ versions: Int...) -> [UInt8] { extended(43, vector(versions.flatMap { number($0, 2) }, 1)) }

/// ALPN.
func protocols(_ names: String...) -> [UInt8] { extended(16, vector(names.flatMap { vector(octets($0), 1) }, 2)) }

/// A ClientHello whose parts can each be put otherwise.
struct BuiltHello {
  var version = 0x0303
  var random = [UInt8](repeating: 7, count: 32)
  var session: [UInt8] = []
  var suites: [UInt8] = [0x13, 0x01, 0xc0, 0x2f]
  var compression: [UInt8] = [0]
  /// nil: no extensions at all.
  var extensions: [UInt8]? = named("a.example")

  init() {}

  init(_ extensions: [UInt8]?) { self.extensions = extensions }

  var body: [UInt8] {
    number(version, 2) + random + vector(session, 1) + vector(suites, 2) + vector(compression, 1)
      + (extensions.map { vector($0, 2) } ?? [])
  }

  var asMessage: [UInt8] { message(1, body) }
  var asRecords: [UInt8] { records(asMessage) }

  /// With an extension of padding, so that the body is `count` bytes.
  func padded(to count: Int) -> BuiltHello {
    var hello = self
    hello.extensions = (extensions ?? []) + extended(21, [UInt8](repeating: 0, count: count - body.count - 4))
    return hello
  }
}

/// A ServerHello whose parts can each be put otherwise.
struct BuiltAnswer {
  var version = 0x0303
  var random = [UInt8](repeating: 9, count: 32)
  var session: [UInt8] = []
  var extensions: [UInt8]? = nil

  init(_ extensions: [UInt8]? = nil) { self.extensions = extensions }

  var body: [UInt8] {
    number(version, 2) + random + vector(session, 1) + [0xc0, 0x2f, 0] + (extensions.map { vector($0, 2) } ?? [])
  }

  var asMessage: [UInt8] { message(2, body) }

  static let retryRandom = hexadecimal("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
  static let tls13 = BuiltAnswer(extended(43, [3, 4]))
  static let retryRequest: BuiltAnswer = {
    var answer = tls13
    answer.random = retryRandom
    return answer
  }()
}

/// A Certificate message.
func certificates(_ certificates: [[UInt8]]) -> [UInt8] {
  message(11, vector(certificates.flatMap { vector($0, 3) }, 3))
}

/// A CertificateStatus message with one OCSP answer.
func status(_ response: [UInt8]) -> [UInt8] { message(22, [1] + vector(response, 3)) }

let serverHelloDone = message(14, [])

/// Shows a hello to its reader in pieces, each time all that has come, at the end of memory.
func readHello(_ pieces: [[UInt8]], _ memory: GuardedMemory) -> ClientHelloReading {
  var reader = ClientHelloReader()
  var shown: [UInt8] = []
  for piece in pieces {
    shown += piece
    let reading = memory.lend(shown) { reader.read($0) }
    if reading != .incomplete { return reading }
  }
  return .incomplete
}

/// The hello in `bytes`, which is all there.
func hello(_ bytes: [UInt8]) -> ClientHello {
  var reader = ClientHelloReader()
  guard case .complete(let hello, _) = reader.read(bytes.span) else { fatalError("no hello: \(shown(bytes))") }
  return hello
}

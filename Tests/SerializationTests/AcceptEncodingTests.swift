// Accept-Encoding: which codings a response may come in.

import Serialization
import TestSupport
import Testing

@Suite struct AcceptEncodingTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let values: [String]
    let accepted: Set<ContentCoding>
    var identity = true

    var testDescription: String { values.description }
  }

  private static let all = Set(ContentCoding.allCases)

  static let rows: [Row] = [
    Row(values: [], accepted: all),
    // A client that sends an empty field wants no coding.
    Row(values: [""], accepted: []),
    Row(values: [" , "], accepted: []),
    Row(values: ["gzip"], accepted: [.gzip]),
    Row(values: ["x-gzip"], accepted: [.gzip]),
    Row(values: ["GZIP, Br"], accepted: [.gzip, .br]),
    Row(values: ["gzip, deflate, br, zstd"], accepted: all),
    Row(values: ["gzip", "zstd"], accepted: [.gzip, .zstd]),
    Row(values: ["compress, gzip"], accepted: [.gzip]),
    Row(values: ["compress"], accepted: []),
    Row(values: ["*"], accepted: all),
    Row(values: ["identity"], accepted: []),
    Row(values: ["gzip;q=1.0, identity; q=0.5, *;q=0"], accepted: [.gzip]),
    Row(values: ["*;q=0"], accepted: [], identity: false),
    Row(values: ["*;q=0, identity"], accepted: []),
    Row(values: ["identity;q=0"], accepted: [], identity: false),
    Row(values: ["identity;q=0, *"], accepted: all, identity: false),
    Row(values: ["gzip;q=0, *"], accepted: [.deflate, .br, .zstd]),
    Row(values: ["*, gzip;q=0"], accepted: [.deflate, .br, .zstd]),
    Row(values: ["br;q=0.001"], accepted: [.br]),
    Row(values: ["br;q=0.000"], accepted: []),
    Row(values: ["br;q=0."], accepted: []),
    Row(values: ["br;q=1.000, gzip;q=1., zstd;q=1"], accepted: [.br, .gzip, .zstd]),
    Row(values: ["br ; q=1,gzip\t;\tQ=0.5"], accepted: [.br, .gzip]),
    // Named twice: the refusal counts, wherever it stands.
    Row(values: ["gzip, x-gzip;q=0"], accepted: []),
    Row(values: ["gzip;q=0", "gzip"], accepted: []),
    Row(values: ["*;q=0, *"], accepted: [], identity: false),
    // What cannot be read is not accepted, even if all others are.
    Row(values: ["gzip;q=2, *"], accepted: [.deflate, .br, .zstd]),
    Row(values: ["gzip;q=1.001"], accepted: []),
    Row(values: ["gzip;q=0.0001"], accepted: []),
    Row(values: ["gzip;q=.5"], accepted: []),
    Row(values: ["gzip;q=-1"], accepted: []),
    Row(values: ["gzip;q="], accepted: []),
    Row(values: ["gzip;q"], accepted: []),
    Row(values: ["gzip;"], accepted: []),
    Row(values: ["gzip;q =1"], accepted: []),
    Row(values: ["gzip;q= 1"], accepted: []),
    Row(values: ["gzip;q=1;q=1"], accepted: []),
    Row(values: ["gzip;level=9"], accepted: []),
    Row(values: ["gzip;q=0,5"], accepted: []),
    Row(values: ["gzip br"], accepted: []),
    Row(values: ["\"gzip\""], accepted: []),
    Row(values: [";q=1"], accepted: []),
    Row(values: ["identity;q=x"], accepted: []),
    Row(values: ["*;q=x"], accepted: []),
    Row(values: ["gzip, *;q=x"], accepted: [.gzip]),
  ]

  @Test(arguments: rows)
  func isRead(row: Row) {
    let memory = GuardedMemory(capacity: 4096)
    var accept = AcceptEncoding()
    for value in row.values { memory.lend(octets(value)) { accept.read($0) } }
    #expect(all.filter(accept.accepts) == row.accepted)
    #expect(accept.acceptsIdentity == row.identity)
  }

  private let all = Self.all
}

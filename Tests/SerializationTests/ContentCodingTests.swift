// Content-Encoding: which codings are on a body, in which order.

import Serialization
import TestSupport
import Testing

@Suite struct ContentCodingTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let values: [String]
    let reading: ContentEncoding.Reading

    var testDescription: String { values.description }
  }

  static let rows: [Row] = [
    Row(values: [], reading: .codings([])),
    Row(values: [""], reading: .codings([])),
    Row(values: ["gzip"], reading: .codings([.gzip])),
    Row(values: ["x-gzip"], reading: .codings([.gzip])),
    Row(values: ["X-GZIP"], reading: .codings([.gzip])),
    Row(values: ["deflate"], reading: .codings([.deflate])),
    Row(values: ["br"], reading: .codings([.br])),
    Row(values: ["zstd"], reading: .codings([.zstd])),
    Row(values: ["GZip"], reading: .codings([.gzip])),
    Row(values: ["identity"], reading: .codings([])),
    Row(values: ["Identity, br"], reading: .codings([.br])),
    Row(values: ["gzip, br"], reading: .codings([.gzip, .br])),
    Row(values: ["br,gzip"], reading: .codings([.br, .gzip])),
    Row(values: ["gzip, gzip"], reading: .codings([.gzip, .gzip])),
    Row(values: [" \t, ,gzip \t,, zstd ,"], reading: .codings([.gzip, .zstd])),
    Row(values: ["gzip", "br"], reading: .codings([.gzip, .br])),
    Row(values: ["br", "", "identity", "gzip"], reading: .codings([.br, .gzip])),
    Row(values: ["gzip, identity, br, identity"], reading: .codings([.gzip, .br])),
    Row(values: ["gzip, br, zstd"], reading: .tooMany),
    Row(values: ["gzip", "br", "zstd"], reading: .tooMany),
    Row(values: ["gzip, br, zstd, compress"], reading: .tooMany),
    Row(values: ["compress"], reading: .unknown("compress")),
    Row(values: ["x-compress"], reading: .unknown("x-compress")),
    Row(values: ["gzip, aes128gcm"], reading: .unknown("aes128gcm")),
    Row(values: ["compress", "gzip, gzip, gzip"], reading: .unknown("compress")),
    Row(values: ["dcb"], reading: .unknown("dcb")),
    Row(values: ["gzip;q=1"], reading: .unknown("gzip;q=1")),
    Row(values: ["\"gzip\""], reading: .unknown("\"gzip\"")),
    Row(values: ["gzip br"], reading: .unknown("gzip?br")),
    Row(values: ["gzi"], reading: .unknown("gzi")),
    Row(values: ["gzipp"], reading: .unknown("gzipp")),
    Row(values: ["b\u{e9}\u{0}\u{7f}"], reading: .unknown("b???")),
    Row(values: [String(repeating: "x", count: 32)], reading: .unknown(String(repeating: "x", count: 32))),
    Row(values: [String(repeating: "x", count: 33)], reading: .unknown(String(repeating: "x", count: 32) + "…")),
  ]

  @Test(arguments: rows)
  func isRead(row: Row) {
    let memory = GuardedMemory(capacity: 4096)
    var encoding = ContentEncoding()
    for value in row.values { memory.lend(octets(value)) { encoding.read($0) } }
    #expect(encoding.reading == row.reading)
  }

  @Test func theRawValueIsTheNameOfTheCoding() {
    for coding in ContentCoding.allCases {
      var encoding = ContentEncoding()
      encoding.read(octets(coding.rawValue).span)
      #expect(encoding.reading == .codings([coding]))
    }
  }
}

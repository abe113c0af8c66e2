// Fuzzes the content codings: no body comes to more than the limit, it is judged alike however it is cut, and what is
// encoded comes back as it was. The fields that name codings get the same bytes.
//
// Run: make fuzz. The first byte of the input chooses one or two codings, the second one seeds the pieces.

import Bytes
import Serialization

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzCodings_main")
public func fuzzCodingsMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzCodings)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzCodings(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data, count >= 2 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data + 2, count: count - 2))
  let codings = chosen(by: data[0])
  let seed = UInt64(data[1]) &* 0x9e37_79b9_7f4a_7c15 | 1
  compare(bytes, codings, pieceSeed: seed)
  roundTrip(bytes, codings, pieceSeed: seed)
  readFields(bytes)
  return 0
}

private func chosen(by byte: UInt8) -> [ContentCoding] {
  let all = ContentCoding.allCases
  let first = all[Int(byte & 3)]
  return byte & 4 == 0 ? [first] : [all[Int(byte >> 3 & 3)], first]
}

private enum Decoded: Equatable {
  case content([UInt8])
  case exceedsLimit
  case fault(ContentFault)

  var isContent: Bool {
    if case .content = self { return true }
    return false
  }
}

private let usualLimit = 64 << 10

private func decode(_ bytes: [UInt8], _ codings: [ContentCoding], limit: Int, pieceSeed: UInt64?) -> Decoded {
  var decoder = ContentDecoder(codings)
  var out = ByteBuffer()
  var state = pieceSeed ?? 0
  var at = 0
  while at < bytes.count {
    state = state &* 6_364_136_223_846_793_005 &+ 1
    let end = pieceSeed == nil ? bytes.count : min(bytes.count, at + 1 + Int(state >> 59))
    let progress = decoder.decode(bytes.span.extracting(at..<end), into: &out, limit: limit)
    at = end
    if out.count > limit { fatalError("\(out.count) bytes, the limit is \(limit)") }
    if out.capacity > max(BufferPool.smallestBlock, 2 * limit) { fatalError("room for \(out.capacity) bytes") }
    switch progress {
    case .needsMore: continue
    case .exceedsLimit: return .exceedsLimit
    case .fault(let fault):
      expectPrintable(fault.reason)
      return .fault(fault)
    }
  }
  if let fault = decoder.finish() { return .fault(fault) }
  return .content(out.bytes.array)
}

private func compare(_ bytes: [UInt8], _ codings: [ContentCoding], pieceSeed: UInt64) {
  let whole = decode(bytes, codings, limit: usualLimit, pieceSeed: nil)
  let split = decode(bytes, codings, limit: usualLimit, pieceSeed: pieceSeed)
  // brotli, and two codings, may see the limit or the fault first where both are there.
  let isExact = codings.count == 1 && codings != [.br]
  if isExact || whole.isContent || split.isContent, whole != split { fatalError("whole: \(whole), split: \(split)") }
  guard case .content(let content) = whole else { return }
  for seed in [nil, pieceSeed] {
    let exact = decode(bytes, codings, limit: content.count, pieceSeed: seed)
    if exact != whole { fatalError("at the limit: \(exact)") }
    if content.isEmpty { continue }
    let short = decode(bytes, codings, limit: content.count - 1, pieceSeed: seed)
    if short.isContent { fatalError("beyond the limit: \(short)") }
  }
}

private func roundTrip(_ bytes: [UInt8], _ codings: [ContentCoding], pieceSeed: UInt64) {
  var out = ByteBuffer()
  ContentEncoder.encode(bytes.span, as: codings, to: &out)
  let back = decode(out.bytes.array, codings, limit: bytes.count, pieceSeed: pieceSeed)
  if back != .content(bytes) { fatalError("\(bytes) comes back as \(back)") }
}

private func readFields(_ bytes: [UInt8]) {
  var encoding = ContentEncoding()
  encoding.read(bytes.span)
  if case .unknown(let name) = encoding.reading { expectPrintable(name.filter { $0 != "…" }) }
  if case .codings(let codings) = encoding.reading, codings.count > ContentEncoding.mostCodings {
    fatalError("\(codings.count) codings")
  }
}

private func expectPrintable(_ text: String) {
  if text.utf8.contains(where: { !(0x20..<0x7f).contains($0) }) { fatalError("not printable: \(text)") }
}

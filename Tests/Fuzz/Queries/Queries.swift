// Fuzzes media types, media ranges, and forms as queries. A type that is read is within its value and in its own
// range; a form that is read, written and read again has lost no pair, in any style, and is the same tree unless an array
// holds containers, whose ends brackets do not show; targets and forms grow by what is put behind them and nothing else.
//
// Run: make fuzz. The first byte of the input chooses what is read.

import Bytes
import Serialization

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzQueries_main")
public func fuzzQueriesMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzQueries)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzQueries(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data, count > 0 else { return 0 }
  // A copy of its own, so that the sanitizer sees a read behind its end.
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  switch data[0] % 4 {
  case 0: readMediaType(bytes)
  case 1: readMediaRange(bytes)
  case 2:
    data[0] / 4 % 3 == 0
      ? readForm(bytes) : readForm(bytes, QueryStyle(arrays: data[0] / 4 % 3 == 1 ? .repeat : .indices))
  default: appendTo(bytes)
  }
  return 0
}

private func readMediaType(_ bytes: [UInt8]) {
  let value = bytes.span
  guard let type = MediaType(value) else { return }
  if type.type.isEmpty || type.subtype.isEmpty || type.type.upperBound + 1 != type.subtype.lowerBound {
    fatalError("a type without a name")
  }
  let essence = value.extracting(type.essence)
  guard let alone = MediaType(essence), alone == type else { fatalError("without its parameters it is another") }
  if alone.charset(in: essence) != .unstated { fatalError("a charset out of nothing") }
  if let boundary = type.parameter("boundary", in: value), boundary.count > bytes.count {
    fatalError("a parameter that is longer than its value")
  }
  _ = type.charset(in: value)
  _ = MultipartBoundary(type, in: value)
  // A star or a first plus sign is a character of a name (RFC 9110), which a range reads as something else.
  if bytes[type.essence].contains(UInt8(ascii: "*")) || bytes[0] == UInt8(ascii: "+") { return }
  guard case .success(let range) = MediaRange.parse(essence.string), range.matches(type, in: value) else {
    fatalError("a type that is not in its own range")
  }
}

private func readMediaRange(_ bytes: [UInt8]) {
  switch MediaRange.parse(String(decoding: bytes, as: UTF8.self)) {
  case .failure(let fault): expectWords(fault.description)
  case .success(let range):
    if MediaRange.parse(range.description) != .success(range) { fatalError("\(range) is not read as itself") }
  }
}

private func readForm(_ bytes: [UInt8]) {
  switch FormDecoding.decode(bytes.span) {
  case .failure(let fault):
    expectWords(fault.reason)
    if fault.offset < 0 || fault.offset > bytes.count { fatalError("a fault beside the form") }
  case .success(let entries):
    let query = QueryEncoding.encode(entries)
    if pairs(query).count != pairs(bytes).count { fatalError("a pair got lost") }
    if !isReadable(entries) { return }
    guard case .success(let again) = FormDecoding.decode(query.span) else { fatalError("read again, it is no form") }
    if sorted(pairs(QueryEncoding.encode(again))) != sorted(pairs(query)) { fatalError("read again, a pair got lost") }
    let tree = ParameterValue.dictionary(entries)
    if !holdsContainersInArrays(tree), sorted(.dictionary(again)) != sorted(tree) {
      fatalError("read again, it differs")
    }
  }
}

/// A form in another style than brackets. With indices every tree comes back; a repeated field has no ends of arrays.
private func readForm(_ bytes: [UInt8], _ style: QueryStyle) {
  guard case .success(let entries) = FormDecoding.decode(bytes.span, style) else { return }
  let query = QueryEncoding.encode(entries, style)
  if pairs(query).count != pairs(bytes).count { fatalError("a pair got lost") }
  if style.arrays != .indices || !isReadable(entries) { return }
  guard case .success(let again) = FormDecoding.decode(query.span, style) else {
    fatalError("read again, it is no form")
  }
  if sorted(.dictionary(again)) != sorted(.dictionary(entries)) { fatalError("read again, it differs") }
}

/// The target or form, a form feed, the parameters.
private func appendTo(_ bytes: [UInt8]) {
  let parts = bytes.split(separator: 0x0c, maxSplits: 1, omittingEmptySubsequences: false).map { Array($0) }
  let before = parts[0]
  let query = parts.count > 1 ? parts[1] : []
  var target = ByteBuffer()
  QueryEncoding.append(query: query, to: before.span, into: &target)
  if target.count != before.count + (query.isEmpty ? 0 : query.count + 1) { fatalError("a target of another length") }
  var form = ByteBuffer()
  FormBody.merge(encoded: query, into: before.span, to: &form)
  let merged = form.bytes.array
  if !merged.starts(with: before) || Array(merged.suffix(query.count)) != query { fatalError("a form got lost") }
}

// MARK: Comparing

private func pairs(_ form: [UInt8]) -> [[UInt8]] {
  form.split(separator: UInt8(ascii: "&")).map { Array($0) }
}

private func sorted(_ pairs: [[UInt8]]) -> [[UInt8]] {
  pairs.sorted { $0.lexicographicallyPrecedes($1) }
}

/// The same tree with its keys in order.
private func sorted(_ value: ParameterValue) -> ParameterValue {
  switch value {
  case .array(let elements): .array(elements.map { sorted($0) })
  case .dictionary(let entries):
    .dictionary(
      entries.map { ParameterEntry(key: $0.key, value: sorted($0.value)) }
        .sorted { $0.key.lexicographicallyPrecedes($1.key) })
  default: value
  }
}

/// A form reads no brackets without a name before them, as an empty name gets that comes several times.
private func isReadable(_ entries: [ParameterEntry]) -> Bool {
  entries.allSatisfy { if $0.key.isEmpty, case .array = $0.value { false } else { true } }
}

private func holdsContainersInArrays(_ value: ParameterValue) -> Bool {
  switch value {
  case .array(let elements):
    elements.contains { if case .string = $0 { false } else { true } }
  case .dictionary(let entries): entries.contains { holdsContainersInArrays($0.value) }
  default: false
  }
}

private func expectWords(_ text: String) {
  if text.isEmpty || text.utf8.count > 300 { fatalError("a fault without words, or with too many") }
  if text.unicodeScalars.contains(where: { !(" "..."~").contains($0) && $0 != "…" }) {
    fatalError("not printable: \(text)")
  }
}

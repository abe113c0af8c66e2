// The fields of one head or trailer section in the form that the library needs: pointers into the text that the proxy
// wrote. The library copies them, with names in lower case (RFC 9113, 8.2). The list is reused for each message, so
// making one allocates nothing. Tests: HTTP2Tests.

import Bytes
import CNGHTTP2
import HTTP1

@safe
struct FieldList: ~Copyable {
  private var fields: [cng_field] = unsafe []

  /// Names of fields, in lower case, that no table may take.
  private var neverIndexed: [[UInt8]] = []

  mutating func begin(neverIndexed names: [[UInt8]]) {
    unsafe fields.removeAll(keepingCapacity: true)
    neverIndexed = names
  }

  mutating func add(_ name: StaticString, _ value: StaticString) {
    unsafe add(name, value.utf8Start, count: value.utf8CodeUnitCount)
  }

  /// `value` is a part of the text at `base`, which must stay there until `give`.
  @unsafe
  mutating func add(_ name: StaticString, _ value: Range<Int>, base: UnsafePointer<UInt8>) {
    unsafe add(name, base + value.lowerBound, count: value.count)
  }

  @unsafe
  private mutating func add(_ name: StaticString, _ value: UnsafePointer<UInt8>, count: Int) {
    unsafe fields.append(
      cng_field(
        name: name.utf8Start, name_length: name.utf8CodeUnitCount, value: value, value_length: count,
        never_indexed: isNeverIndexed(unsafe Span(_unsafeStart: name.utf8Start, count: name.utf8CodeUnitCount))))
  }

  /// A line of the text at `base`.
  @unsafe
  mutating func add(_ line: FieldLine, _ base: UnsafePointer<UInt8>) {
    unsafe fields.append(
      cng_field(
        name: base + line.name.lowerBound, name_length: line.name.count, value: base + line.value.lowerBound,
        value_length: line.value.count,
        never_indexed: isNeverIndexed(unsafe Span(_unsafeStart: base + line.name.lowerBound, count: line.name.count))))
  }

  private func isNeverIndexed(_ name: Span<UInt8>) -> Bool {
    if neverIndexed.isEmpty { return false }
    if neverIndexed.count >= FieldBlock.mostNeverIndexed { return true }
    return neverIndexed.contains { name.equals(0..<name.count, ignoringCase: $0.span) }
  }

  @unsafe
  func give<Result>(_ body: (UnsafePointer<cng_field>?, Int) -> Result) -> Result {
    unsafe fields.withUnsafeBufferPointer { unsafe body($0.baseAddress, $0.count) }
  }
}

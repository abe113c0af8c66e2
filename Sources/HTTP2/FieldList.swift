// The fields of one head or trailer section in the form that the library needs: pointers into the text that the proxy
// wrote, and names in lower case (RFC 9113, 8.2), which that text need not have. The list is reused for each message,
// so sending one allocates nothing. Tests: HTTP2Tests.

import Bytes
import CNGHTTP2
import HTTP1

@safe
struct FieldList: ~Copyable {
  /// Names in lower case.
  private var names = ByteBuffer()
  private var fields: [cng_field] = unsafe []

  /// `bytes`: the most that all names together can take. Names must not move while fields point to them.
  mutating func begin(_ bytes: Int) {
    unsafe fields.removeAll(keepingCapacity: true)
    names.removeAll()
    names.reserve(bytes)
  }

  mutating func add(_ name: StaticString, _ value: StaticString) {
    unsafe add(name, value.utf8Start, value.utf8CodeUnitCount)
  }

  /// `value` is a part of the text at `base`, which must stay there until `give`.
  @unsafe
  mutating func add(_ name: StaticString, _ value: Range<Int>, _ base: UnsafePointer<UInt8>) {
    unsafe add(name, base + value.lowerBound, value.count)
  }

  @unsafe
  private mutating func add(_ name: StaticString, _ value: UnsafePointer<UInt8>, _ count: Int) {
    unsafe fields.append(
      cng_field(
        name: name.utf8Start, name_length: name.utf8CodeUnitCount, value: value, value_length: count))
  }

  /// A line of the text at `base`.
  @unsafe
  mutating func add(_ line: FieldLine, _ base: UnsafePointer<UInt8>) {
    let at = names.count
    let name = unsafe UnsafeBufferPointer(start: base + line.name.lowerBound, count: line.name.count)
    names.append(lowercasing: unsafe Span(_unsafeElements: name))
    let start = unsafe names.unsafeReadable.baseAddress?.assumingMemoryBound(to: UInt8.self)
    unsafe fields.append(
      cng_field(
        name: start.map { unsafe $0 + at }, name_length: line.name.count, value: base + line.value.lowerBound,
        value_length: line.value.count))
  }

  @unsafe
  func give<Result>(_ body: (UnsafePointer<cng_field>?, Int) -> Result) -> Result {
    unsafe fields.withUnsafeBufferPointer { unsafe body($0.baseAddress, $0.count) }
  }
}

// Adds parameters to a binary property list.
//
// The objects that the new root still needs are copied in their order: values unchanged, containers with the new
// numbers of their elements. The objects of the parameters follow. Objects without a reference are left out, so a value
// that a rule replaces is not sent. Tests: PropertyListMergingTests.

import Bytes

struct BinaryPropertyListMerging: ~Copyable {
  /// An element of the new root.
  private enum Element {
    case kept(Int)
    /// The position among the new objects.
    case added(Int)
  }

  private let layout: BinaryPropertyListLayout
  private var keys: [Element] = []
  private var values: [Element] = []
  private var added = AddedObjects()
  /// The new number of each object; 0, the number of the root, if it is not needed.
  private var numbers: [UInt32]
  private var keptCount = 0
  private var offsets: [UInt32] = []
  private var referenceBytes = 1
  private var written = ByteBuffer()

  static func merge(
    _ parameters: [ParameterEntry], into body: Span<UInt8>, to out: inout ByteBuffer
  ) -> PropertyListMergeOutcome {
    let layout: BinaryPropertyListLayout
    switch BinaryPropertyListLayout.read(body) {
    case .failure(let fault): return .invalid(fault)
    case .success(let read): layout = read
    }
    if let fault = BinaryPropertyListCheck.check(body, layout) { return .invalid(fault) }
    guard case .success(let root) = layout.object(layout.topObject, in: body) else {
      return .invalid(ContentFault("expected a top object", offset: layout.tableStart))
    }
    guard root.kind == .dictionary else { return .notADictionary(root.kind) }
    var merging = BinaryPropertyListMerging(layout)
    merging.setMembers(root, parameters, body: body)
    merging.numberKeptObjects(body)
    merging.write(body)
    out.append(contentsOf: merging.written)
    return .merged
  }

  private init(_ layout: BinaryPropertyListLayout) {
    self.layout = layout
    numbers = Array(repeating: 0, count: layout.objectCount)
  }

  private mutating func setMembers(
    _ root: BinaryPropertyListObject, _ parameters: [ParameterEntry], body: Span<UInt8>
  ) {
    var new = parameters
    let count = layout.count(of: root)
    for position in 0..<count {
      let key = Int(layout.reference(position, of: root, in: body))
      keys.append(.kept(key))
      let text = layout.text(key, in: body)
      if let index = new.firstIndex(where: { $0.key == text }) {
        values.append(.added(added.append(new.remove(at: index).value)))
      } else {
        values.append(.kept(Int(layout.reference(count + position, of: root, in: body))))
      }
    }
    for entry in new {
      keys.append(.added(added.append(.string(entry.key))))
      values.append(.added(added.append(entry.value)))
    }
    added.flatten()
  }

  // MARK: Numbers

  /// Numbers the objects that are reachable from the root, in the order of the old numbers.
  private mutating func numberKeptObjects(_ body: Span<UInt8>) {
    let isNeeded: UInt32 = 1
    var path: [Int] = []
    for case .kept(let index) in keys + values where numbers[index] == 0 {
      numbers[index] = isNeeded
      path.append(index)
    }
    while let index = path.popLast() {
      guard case .success(let object) = layout.object(index, in: body), layout.count(of: object) > 0 else { continue }
      for position in 0..<object.contents.count / layout.referenceBytes {
        let element = Int(layout.reference(position, of: object, in: body))
        if numbers[element] == isNeeded { continue }
        numbers[element] = isNeeded
        path.append(element)
      }
    }
    for index in numbers.indices where numbers[index] == isNeeded {
      keptCount += 1
      numbers[index] = UInt32(keptCount)
    }
  }

  private func number(of element: Element) -> UInt64 {
    switch element {
    case .kept(let index): UInt64(numbers[index])
    case .added(let position): UInt64(1 + keptCount + position)
    }
  }

  // MARK: Writing

  private mutating func write(_ body: Span<UInt8>) {
    let count = 1 + keptCount + added.objects.count
    referenceBytes = Self.size(of: UInt64(count))
    written.append(BinaryPropertyListLayout.signature)
    begin()
    writeMarker(0xd, keys.count)
    for element in keys { writeReference(number(of: element)) }
    for element in values { writeReference(number(of: element)) }
    for index in numbers.indices where numbers[index] != 0 { copy(index, body) }
    for object in added.objects { write(object) }
    writeTable(count)
  }

  private mutating func begin() { offsets.append(UInt32(written.count)) }

  private mutating func copy(_ index: Int, _ body: Span<UInt8>) {
    guard case .success(let object) = layout.object(index, in: body) else { return }
    begin()
    guard layout.count(of: object) > 0 else {
      return written.append(body.extracting(object.start..<object.contents.upperBound))
    }
    writeMarker(object.form == .array ? 0xa : 0xd, layout.count(of: object))
    for position in 0..<object.contents.count / layout.referenceBytes {
      writeReference(UInt64(numbers[Int(layout.reference(position, of: object, in: body))]))
    }
  }

  private mutating func write(_ object: AddedObjects.Object) {
    begin()
    switch object {
    case .string(let text): write(text: text)
    case .integer(let integer): write(integer: integer)
    case .real(let real):
      written.append(0x23)
      write(real.bitPattern, bytes: 8)
    case .boolean(let boolean): written.append(boolean ? 0x09 : 0x08)
    case .array(let elements):
      writeMarker(0xa, elements.count)
      for position in elements { writeReference(number(of: .added(position))) }
    case .dictionary(let keys, let values):
      writeMarker(0xd, keys.count)
      for position in keys { writeReference(number(of: .added(position))) }
      for position in values { writeReference(number(of: .added(position))) }
    }
  }

  private mutating func write(text: [UInt8]) {
    guard text.contains(where: { $0 >= 0x80 }) else {
      writeMarker(0x5, text.count)
      return written.append(text)
    }
    let units = String(decoding: text, as: UTF8.self).utf16
    writeMarker(0x6, units.count)
    for unit in units { write(UInt64(unit), bytes: 2) }
  }

  /// Only the form of 8 bytes has a sign.
  private mutating func write(integer: Int64) {
    let exponent = integer < 0 ? 3 : Self.sizeExponent(of: UInt64(integer))
    written.append(0x10 | UInt8(exponent))
    write(UInt64(bitPattern: integer), bytes: 1 << exponent)
  }

  private mutating func writeMarker(_ high: UInt8, _ count: Int) {
    written.append(high << 4 | UInt8(min(count, 0xf)))
    if count >= 0xf { write(integer: Int64(count)) }
  }

  private mutating func writeReference(_ number: UInt64) { write(number, bytes: referenceBytes) }

  private mutating func writeTable(_ count: Int) {
    let table = written.count
    let offsetBytes = Self.size(of: UInt64(table))
    for offset in offsets { write(UInt64(offset), bytes: offsetBytes) }
    // Five bytes without a meaning, and the unused version of the sort order.
    write(0, bytes: 6)
    written.append(UInt8(offsetBytes))
    written.append(UInt8(referenceBytes))
    write(UInt64(count), bytes: 8)
    write(0, bytes: 8)
    write(UInt64(table), bytes: 8)
  }

  private mutating func write(_ number: UInt64, bytes: Int) {
    for index in 1...bytes { written.append(UInt8(truncatingIfNeeded: number >> UInt64(8 * (bytes - index)))) }
  }

  private static func size(of number: UInt64) -> Int { 1 << sizeExponent(of: number) }

  private static func sizeExponent(of number: UInt64) -> Int {
    number <= 0xff ? 0 : number <= 0xffff ? 1 : number <= 0xffff_ffff ? 2 : 3
  }
}

/// The objects for the parameters, each container with the positions of its elements.
private struct AddedObjects {
  enum Object {
    case string([UInt8])
    case integer(Int64)
    case real(Double)
    case boolean(Bool)
    case array(Range<Int>)
    case dictionary(keys: Range<Int>, values: Range<Int>)
  }

  private(set) var objects: [Object] = []
  private var pending: [ParameterValue] = []

  /// Returns the position that `value` will have.
  mutating func append(_ value: ParameterValue) -> Int {
    pending.append(value)
    return pending.count - 1
  }

  /// Makes objects of all values. The elements of a container follow it, side by side.
  mutating func flatten() {
    while objects.count < pending.count {
      switch pending[objects.count] {
      case .string(let text): objects.append(.string(text))
      case .integer(let integer): objects.append(.integer(integer))
      case .real(let real): objects.append(.real(real))
      case .boolean(let boolean): objects.append(.boolean(boolean))
      case .array(let elements):
        objects.append(.array(pending.count..<pending.count + elements.count))
        pending += elements
      case .dictionary(let entries):
        let keys = pending.count..<pending.count + entries.count
        objects.append(.dictionary(keys: keys, values: keys.upperBound..<keys.upperBound + entries.count))
        pending += entries.map { .string($0.key) }
        pending += entries.map(\.value)
      }
    }
  }
}

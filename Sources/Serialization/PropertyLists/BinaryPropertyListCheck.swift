// Checks a binary property list, in time that is linear in its bytes.
//
// There are three passes. The first checks each object once, where it lies; overlapping objects are rejected, so a
// table cannot turn one long object into many. The second compares the keys of the dictionaries, by numbers that equal
// texts share. The third follows the containers from the top, each once. It stores the height of each for later
// references, so elements that are shared at every level cost no more than their bytes. Tests: BinaryPropertyListTests.

import Bytes

struct BinaryPropertyListCheck {
  /// The state of an object in the pass from the top.
  private enum State {
    static let unseen: UInt16 = 0
    static let open: UInt16 = .max
    // Between them: the height, 1 for an object without elements.
  }

  /// A container on the path from the top.
  private struct Step {
    let index: Int
    let object: BinaryPropertyListObject
    /// The next reference to follow.
    var next: Int
    var height: UInt16 = 1
  }

  private let layout: BinaryPropertyListLayout
  private var states: [UInt16]

  static func check(_ body: Span<UInt8>) -> ContentFault? {
    switch BinaryPropertyListLayout.read(body) {
    case .failure(let fault): fault
    case .success(let layout): check(body, layout)
    }
  }

  static func check(_ body: Span<UInt8>, _ layout: BinaryPropertyListLayout) -> ContentFault? {
    var check = BinaryPropertyListCheck(layout)
    return check.faultOfObjects(body) ?? check.faultOfKeys(body) ?? check.faultOfNesting(body)
  }

  private init(_ layout: BinaryPropertyListLayout) {
    self.layout = layout
    states = Array(repeating: State.unseen, count: layout.objectCount)
  }

  // MARK: Objects

  private func faultOfObjects(_ body: Span<UInt8>) -> ContentFault? {
    var room = layout.tableStart - BinaryPropertyListLayout.signatureBytes
    for index in 0..<layout.objectCount {
      switch layout.object(index, in: body) {
      case .failure(let fault): return fault
      case .success(let object):
        room -= object.contents.upperBound - object.start
        if room < 0 { return ContentFault("expected objects that do not overlap", offset: object.start) }
        if let fault = fault(of: object, in: body) { return fault }
      }
    }
    return nil
  }

  private func fault(of object: BinaryPropertyListObject, in body: Span<UInt8>) -> ContentFault? {
    let (from, size) = (object.contents.lowerBound, object.contents.count)
    switch object.form {
    case .boolean, .data, .real: return nil
    case .integer:
      // The form of 16 bytes is for values that 8 signed bytes cannot represent: up to 2^64 - 1.
      guard size == 16 else { return nil }
      let (high, low) = (body.unsigned(at: from, bytes: 8), body.unsigned(at: from + 8, bytes: 8))
      if high == 0 || high == .max && low >> 63 == 1 { return nil }
      return ContentFault("expected an integer of 64 bits, found a larger one", offset: object.start)
    case .date:
      if Double(bitPattern: body.unsigned(at: from, bytes: 8)).isFinite { return nil }
      return ContentFault("expected a date, found what is no number", offset: object.start)
    case .uid:
      if body.unsigned(at: from, bytes: size) <= UInt64(UInt32.max) { return nil }
      return ContentFault("expected a UID of 32 bits, found a larger one", offset: object.start)
    case .asciiString:
      for index in object.contents where body[index] >= 0x80 {
        let seen = "0x\(body[index].hexadecimal)"
        return ContentFault("expected a character of ASCII, found \(seen)", offset: index)
      }
      return nil
    case .utf16String:
      let alone = Surrogates.firstAlone(body, object.contents, bigEndian: true)
      return alone.map { ContentFault(Surrogates.reason, offset: $0) }
    case .array, .dictionary: return faultOfReferences(object, in: body)
    }
  }

  private func faultOfReferences(_ object: BinaryPropertyListObject, in body: Span<UInt8>) -> ContentFault? {
    let members = layout.count(of: object)
    for position in 0..<object.contents.count / layout.referenceBytes {
      let offset = object.contents.lowerBound + position * layout.referenceBytes
      let reference = layout.reference(position, of: object, in: body)
      guard reference < UInt64(layout.objectCount) else {
        return ContentFault("expected an object below \(layout.objectCount), found \(reference)", offset: offset)
      }
      guard object.form == .dictionary, position < members else { continue }
      switch layout.object(Int(reference), in: body) {
      case .failure(let fault): return fault
      case .success(let key) where key.kind != .string:
        return ContentFault("expected a string as a key, found \(key.kind.words)", offset: offset)
      case .success: continue
      }
    }
    return nil
  }

  // MARK: Keys

  private func faultOfKeys(_ body: Span<UInt8>) -> ContentFault? {
    /// The number of the text of each object that is a key, from 1.
    var numberOfObject = [UInt32](repeating: 0, count: layout.objectCount)
    var numberOfText: [[UInt8]: UInt32] = [:]
    /// The last dictionary, from 1, that had each text as a key.
    var dictionaryOfText = [0]
    for index in 0..<layout.objectCount {
      guard case .success(let object) = layout.object(index, in: body), object.form == .dictionary else { continue }
      for position in 0..<layout.count(of: object) {
        let key = Int(layout.reference(position, of: object, in: body))
        if numberOfObject[key] == 0 {
          let text = layout.text(key, in: body)
          let number = numberOfText[text] ?? UInt32(numberOfText.count + 1)
          numberOfText[text] = number
          numberOfObject[key] = number
          if Int(number) == dictionaryOfText.count { dictionaryOfText.append(0) }
        }
        let number = Int(numberOfObject[key])
        guard dictionaryOfText[number] != index + 1 else {
          let quoted = FaultWords.quoted(layout.text(key, in: body).span)
          return ContentFault("expected each key once, found '\(quoted)' twice", offset: object.start)
        }
        dictionaryOfText[number] = index + 1
      }
    }
    return nil
  }

  // MARK: Nesting

  private mutating func faultOfNesting(_ body: Span<UInt8>) -> ContentFault? {
    var path: [Step] = []
    if let fault = enter(layout.topObject, &path, body: body) { return fault }
    while let step = path.last {
      let references = step.object.contents.count / layout.referenceBytes
      guard step.next < references else {
        path.removeLast()
        states[step.index] = step.height
        raise(&path, above: step.height)
        continue
      }
      path[path.count - 1].next += 1
      let reference = Int(layout.reference(step.next, of: step.object, in: body))
      switch states[reference] {
      case State.unseen:
        if let fault = enter(reference, &path, body: body) { return fault }
      case State.open: return ContentFault("expected containers that do not hold themselves", offset: step.object.start)
      case let height:
        guard path.count + Int(height) <= PropertyListCheck.deepestNesting else { return tooDeep(step.object) }
        raise(&path, above: height)
      }
    }
    return nil
  }

  /// Enters a container; any other object is finished.
  private mutating func enter(_ index: Int, _ path: inout [Step], body: Span<UInt8>) -> ContentFault? {
    guard case .success(let object) = layout.object(index, in: body) else { return nil }
    guard path.count < PropertyListCheck.deepestNesting else { return tooDeep(object) }
    let members = layout.count(of: object)
    if members == 0 {
      states[index] = 1
      raise(&path, above: 1)
      return nil
    }
    states[index] = State.open
    // Keys are strings, which have no elements.
    path.append(Step(index: index, object: object, next: object.form == .dictionary ? members : 0))
    return nil
  }

  /// The innermost container has an element of this height.
  private func raise(_ path: inout [Step], above height: UInt16) {
    guard let last = path.indices.last else { return }
    path[last].height = max(path[last].height, height + 1)
  }

  private func tooDeep(_ object: BinaryPropertyListObject) -> ContentFault {
    ContentFault(
      "expected at most \(PropertyListCheck.deepestNesting) objects inside one another, found more",
      offset: object.start)
  }
}

extension BinaryPropertyListLayout {
  /// The text of a string that was checked, in UTF-8.
  func text(_ index: Int, in body: Span<UInt8>) -> [UInt8] {
    guard case .success(let object) = object(index, in: body) else { return [] }
    let contents = body.extracting(object.contents)
    if object.form == .asciiString { return contents.array }
    var units: [UInt16] = []
    units.reserveCapacity(contents.count / 2)
    for at in stride(from: 0, to: contents.count, by: 2) {
      units.append(UInt16(contents[at]) << 8 | UInt16(contents[at + 1]))
    }
    return Array(String(decoding: units, as: UTF16.self).utf8)
  }
}

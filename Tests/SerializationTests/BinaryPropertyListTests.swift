// Tests PropertyListCheck over binary property lists: what is one, each kind of fault with its byte, hostile graphs.

import Bytes
import TestSupport
import Testing

@testable import Serialization

/// A binary property list put together object by object, right or wrong.
struct BuiltList {
  var objects: [[UInt8]]
  var top = 0
  var referenceBytes = 1
  var offsetBytes = 1
  /// Instead of where each object begins.
  var offsets: [Int]?
  /// Instead of the number of objects.
  var count: UInt64?
  /// Instead of where the table begins.
  var table: UInt64?

  var bytes: [UInt8] {
    var bytes = octets("bplist00")
    var begins: [Int] = []
    for object in objects {
      begins.append(bytes.count)
      bytes += object
    }
    let table = UInt64(bytes.count)
    for offset in offsets ?? begins { bytes += Self.number(UInt64(offset), bytes: offsetBytes) }
    bytes += [0, 0, 0, 0, 0, 0, UInt8(offsetBytes), UInt8(referenceBytes)]
    bytes += Self.number(count ?? UInt64((offsets ?? begins).count), bytes: 8)
    bytes += Self.number(UInt64(top), bytes: 8) + Self.number(self.table ?? table, bytes: 8)
    return bytes
  }

  static func number(_ number: UInt64, bytes: Int) -> [UInt8] {
    (0..<bytes).map { UInt8(truncatingIfNeeded: number >> UInt64(8 * (bytes - 1 - $0))) }
  }

  /// A marker with its count behind it, of 4 bytes.
  static func counted(_ high: UInt8, _ count: Int) -> [UInt8] {
    count < 15 ? [high << 4 | UInt8(count)] : [high << 4 | 0xf, 0x12] + number(UInt64(count), bytes: 4)
  }
}

@Suite struct BinaryPropertyListTests {
  private func check(_ list: BuiltList) -> String? {
    let memory = GuardedMemory(capacity: 1 << 16)
    return memory.lend(list.bytes) { PropertyListCheck.check($0, charset: nil) }?.sentence
  }

  /// What Python's plistlib writes for every kind of value: integers of each size, a UID, strings in ASCII and UTF-16.
  static let sample: [UInt8] = [
    0x62, 0x70, 0x6c, 0x69, 0x73, 0x74, 0x30, 0x30, 0xd7, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x01, 0x08,
    0x10, 0x11, 0x12, 0x1d, 0x1e, 0x50, 0x55, 0x61, 0x72, 0x72, 0x61, 0x79, 0x5b, 0x65, 0x6d, 0x70, 0x74, 0x79,
    0x20, 0x61, 0x72, 0x72, 0x61, 0x79, 0x5f, 0x10, 0x10, 0x65, 0x6d, 0x70, 0x74, 0x79, 0x20, 0x64, 0x69, 0x63,
    0x74, 0x69, 0x6f, 0x6e, 0x61, 0x72, 0x79, 0x58, 0x69, 0x6e, 0x74, 0x65, 0x67, 0x65, 0x72, 0x73, 0x54, 0x6c,
    0x6f, 0x6e, 0x67, 0x53, 0x75, 0x69, 0x64, 0xa7, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x6a, 0x00, 0x47,
    0x00, 0x72, 0x00, 0xfc, 0x00, 0xdf, 0x00, 0x65, 0x00, 0x20, 0x00, 0x26, 0x00, 0x20, 0xd8, 0x3d, 0xde, 0x00,
    0x13, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfb, 0x23, 0x3f, 0xf8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x09, 0x08, 0x33, 0x41, 0xc8, 0xd7, 0x4f, 0xfc, 0x00, 0x00, 0x00, 0x43, 0x00, 0x01, 0x02, 0xa0, 0xd0, 0xaa,
    0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x10, 0x00, 0x10, 0xff, 0x11, 0x01, 0x00, 0x12,
    0x00, 0x01, 0x00, 0x00, 0x13, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x13, 0x7f, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0x13, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x13, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x5f, 0x10, 0x14, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78,
    0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x81, 0x01, 0x2c, 0x00, 0x08, 0x00, 0x17, 0x00, 0x18, 0x00, 0x1e,
    0x00, 0x2a, 0x00, 0x3d, 0x00, 0x46, 0x00, 0x4b, 0x00, 0x4f, 0x00, 0x57, 0x00, 0x6c, 0x00, 0x75, 0x00, 0x7e,
    0x00, 0x7f, 0x00, 0x80, 0x00, 0x89, 0x00, 0x8d, 0x00, 0x8e, 0x00, 0x8f, 0x00, 0x9a, 0x00, 0x9c, 0x00, 0x9e,
    0x00, 0xa1, 0x00, 0xa6, 0x00, 0xaf, 0x00, 0xb8, 0x00, 0xc9, 0x00, 0xda, 0x00, 0xe3, 0x00, 0xec, 0x01, 0x03,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x06,
  ]

  @Test func theSampleIsTaken() {
    let memory = GuardedMemory(capacity: 1024)
    #expect(memory.lend(Self.sample) { PropertyListCheck.check($0, charset: nil) }?.sentence == nil)
    for count in 0..<Self.sample.count {
      let fault = memory.lend(Self.sample.prefix(count)) { PropertyListCheck.check($0, charset: nil) }
      #expect(fault != nil, "the first \(count) bytes")
    }
    for tail in [[0], octets("x"), Array(Self.sample.suffix(32))] as [[UInt8]] {
      #expect(PropertyListCheck.check((Self.sample + tail).span, charset: nil) != nil)
    }
  }

  /// No byte of it may be any other without an answer, and no answer is a crash.
  @Test func everyByteMayBeWrong() {
    let memory = GuardedMemory(capacity: 1024)
    for index in Self.sample.indices {
      for value in [0, 1, 0x0f, 0x10, 0x14, 0x50, 0x5f, 0x6f, 0x7f, 0x80, 0xa1, 0xaf, 0xd1, 0xdf, 0xff] as [UInt8] {
        var bytes = Self.sample
        bytes[index] = value
        let fault = memory.lend(bytes) { PropertyListCheck.check($0, charset: nil) }
        #expect((0...bytes.count).contains(fault?.offset ?? 0))
      }
    }
  }

  // MARK: Objects

  static let taken: [(sentence: String, objects: [[UInt8]])] = [
    ("false", [[0x08]]), ("true", [[0x09]]),
    ("an integer of 1 byte", [[0x10, 0xff]]),
    ("an integer of 2 bytes", [[0x11, 0xff, 0xff]]),
    ("an integer of 4 bytes", [[0x12, 0xff, 0xff, 0xff, 0xff]]),
    ("an integer of 8 bytes", [[0x13] + [UInt8](repeating: 0xff, count: 8)]),
    (
      "an integer of 16 bytes that has 64 bits",
      [[0x14] + [UInt8](repeating: 0, count: 8) + [UInt8](repeating: 0xff, count: 8)]
    ),
    ("an integer of 16 bytes below zero", [[0x14] + [UInt8](repeating: 0xff, count: 8) + [0x80, 0, 0, 0, 0, 0, 0, 0]]),
    ("a real of 4 bytes", [[0x22, 0x3f, 0xc0, 0, 0]]),
    ("a real of 8 bytes", [[0x23, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0]]),
    ("a real that is no number", [[0x23] + [UInt8](repeating: 0xff, count: 8)]),
    ("a date", [[0x33, 0x41, 0xc0, 0, 0, 0, 0, 0, 0]]),
    ("no data", [[0x40]]), ("data", [[0x42, 0, 0xff]]),
    ("data with its count in an integer", [[0x4f, 0x10, 2, 0, 0xff]]),
    ("data with its count in an integer of 8 bytes", [[0x4f, 0x13, 0, 0, 0, 0, 0, 0, 0, 1, 0xff]]),
    ("an empty string", [[0x50]]), ("a string", [[0x52, 0x61, 0x7f]]), ("a string with a NUL", [[0x51, 0]]),
    ("a string in UTF-16", [[0x61, 0x20, 0xac]]), ("a pair of surrogates", [[0x62, 0xd8, 0x3d, 0xde, 0]]),
    ("a UID of 1 byte", [[0x80, 0xff]]), ("a UID of 4 bytes", [[0x83, 0xff, 0xff, 0xff, 0xff]]),
    ("a UID of 8 bytes that has 32 bits", [[0x87, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]]),
    ("an empty array", [[0xa0]]), ("an empty dictionary", [[0xd0]]),
    ("an array", [[0xa2, 1, 1], [0x09]]),
    ("a dictionary", [[0xd2, 1, 2, 3, 1], [0x51, 0x61], [0x51, 0x62], [0x09]]),
    ("an object that nothing refers to", [[0x09], [0x08]]),
    ("a key in ASCII beside one in UTF-16", [[0xd2, 1, 2, 1, 1], [0x51, 0x61], [0x61, 0x01, 0x61]]),
  ]

  static let refused: [(sentence: String, objects: [[UInt8]], fault: String)] = [
    ("null", [[0x00]], "byte 8: expected the marker of an object, found 0x00"),
    ("fill", [[0x0f]], "byte 8: expected the marker of an object, found 0x0f"),
    (
      "an integer of 32 bytes", [[0x15] + [UInt8](repeating: 0, count: 32)],
      "byte 8: expected the marker of an object, found 0x15"
    ),
    (
      "an integer of more than 64 bits", [[0x14, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]],
      "byte 8: expected an integer of 64 bits, found a larger one"
    ),
    (
      "an integer below 64 bits", [[0x14] + [UInt8](repeating: 0xff, count: 8) + [0x7f, 0, 0, 0, 0, 0, 0, 0]],
      "byte 8: expected an integer of 64 bits, found a larger one"
    ),
    (
      "an integer that is cut", [[0x13, 0, 0]],
      "byte 8: expected an object that ends before the table, found a longer one"
    ),
    ("a real of 2 bytes", [[0x21, 0, 0]], "byte 8: expected the marker of an object, found 0x21"),
    ("a date of 4 bytes", [[0x32, 0, 0, 0, 0]], "byte 8: expected the marker of an object, found 0x32"),
    (
      "a date that is no number", [[0x33] + [UInt8](repeating: 0xff, count: 8)],
      "byte 8: expected a date, found what is no number"
    ),
    ("data that is cut", [[0x42, 0]], "byte 8: expected an object that ends before the table, found a longer one"),
    ("a count of no integer", [[0x4f, 0x51, 0x61]], "byte 9: expected an integer as the count of an object"),
    (
      "a count of 16 bytes", [[0x4f, 0x14] + [UInt8](repeating: 0, count: 16)],
      "byte 9: expected an integer as the count of an object"
    ),
    ("a count that is not there", [[0x4f]], "byte 9: expected an integer as the count of an object"),
    (
      "a count that is cut", [[0x4f, 0x11, 0]],
      "byte 8: expected an object that ends before the table, found a longer one"
    ),
    (
      "a count beyond all bytes", [[0x4f, 0x13] + [UInt8](repeating: 0xff, count: 8)],
      "byte 8: expected an object that ends before the table, found a longer one"
    ),
    (
      "an array of 2^63 elements", [[0xaf, 0x13, 0x80, 0, 0, 0, 0, 0, 0, 0]],
      "byte 8: expected an object that ends before the table, found a longer one"
    ),
    (
      "a dictionary of 2^62 members", [[0xdf, 0x13, 0x40, 0, 0, 0, 0, 0, 0, 0]],
      "byte 8: expected an object that ends before the table, found a longer one"
    ),
    (
      "a string of UTF-16 of 2^63 units", [[0x6f, 0x13, 0x80, 0, 0, 0, 0, 0, 0, 0]],
      "byte 8: expected an object that ends before the table, found a longer one"
    ),
    ("a string with a byte beyond ASCII", [[0x52, 0x61, 0xe9]], "byte 10: expected a character of ASCII, found 0xe9"),
    ("a string of UTF-8", [[0x72, 0xc3, 0xa9]], "byte 8: expected the marker of an object, found 0x72"),
    (
      "a high surrogate at the end", [[0x62, 0, 0x61, 0xd8, 0]],
      "byte 11: expected a pair of surrogates, found one alone"
    ),
    (
      "a high surrogate before a letter", [[0x62, 0xd8, 0, 0, 0x61]],
      "byte 9: expected a pair of surrogates, found one alone"
    ),
    ("a low surrogate", [[0x61, 0xdc, 0]], "byte 9: expected a pair of surrogates, found one alone"),
    ("a UID of more than 32 bits", [[0x84, 1, 0, 0, 0, 0]], "byte 8: expected a UID of 32 bits, found a larger one"),
    (
      "a UID of 9 bytes", [[0x88] + [UInt8](repeating: 0, count: 9)],
      "byte 8: expected the marker of an object, found 0x88"
    ),
    ("a set", [[0xc0]], "byte 8: expected the marker of an object, found 0xc0"),
    ("an array of what is not there", [[0xa1, 1]], "byte 9: expected an object below 1, found 1"),
    ("an array that is cut", [[0xa2, 0]], "byte 8: expected an object that ends before the table, found a longer one"),
    ("a key that is not there", [[0xd1, 2, 1], [0x51, 0x61]], "byte 9: expected an object below 2, found 2"),
    ("a value that is not there", [[0xd1, 1, 9], [0x51, 0x61]], "byte 10: expected an object below 2, found 9"),
    ("a key that is an integer", [[0xd1, 1, 1], [0x10, 1]], "byte 9: expected a string as a key, found an integer"),
    (
      "a key that is a dictionary", [[0xd1, 1, 2], [0xd0], [0x09]],
      "byte 9: expected a string as a key, found a dictionary"
    ),
    ("a key twice", [[0xd2, 1, 1, 2, 2], [0x51, 0x61], [0x09]], "byte 8: expected each key once, found 'a' twice"),
    (
      "a key twice by two objects", [[0xd2, 1, 2, 3, 3], [0x51, 0x61], [0x51, 0x61], [0x09]],
      "byte 8: expected each key once, found 'a' twice"
    ),
    (
      "a key twice, in ASCII and in UTF-16", [[0xd2, 1, 2, 3, 3], [0x51, 0x61], [0x61, 0, 0x61], [0x09]],
      "byte 8: expected each key once, found 'a' twice"
    ),
    (
      "a wrong object that nothing refers to", [[0x09], [0x00]], "byte 9: expected the marker of an object, found 0x00"
    ),
    ("an array that holds itself", [[0xa1, 0]], "byte 8: expected containers that do not hold themselves"),
    (
      "a dictionary that holds itself", [[0xd1, 1, 0], [0x51, 0x61]],
      "byte 8: expected containers that do not hold themselves"
    ),
    (
      "containers that hold each other", [[0xa1, 1], [0xa2, 2, 0], [0x09]],
      "byte 10: expected containers that do not hold themselves"
    ),
  ]

  struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let objects: [[UInt8]]
    var fault: String?
  }

  @Test(arguments: taken.map { Row(testDescription: $0.sentence, objects: $0.objects) })
  func isTaken(row: Row) {
    #expect(check(BuiltList(objects: row.objects)) == nil)
    let bytes = BuiltList(objects: row.objects).bytes
    for count in 0..<bytes.count {
      #expect(
        PropertyListCheck.check(bytes.span.extracting(0..<count), charset: nil) != nil, "the first \(count) bytes")
    }
  }

  @Test(arguments: refused.map { Row(testDescription: $0.sentence, objects: $0.objects, fault: $0.fault) })
  func isRefused(row: Row) {
    #expect(check(BuiltList(objects: row.objects)) == row.fault)
  }

  // MARK: Trailer and table

  static let trailers: [(sentence: String, list: BuiltList, fault: String?)] = [
    (
      "offsets and references of 8 bytes",
      BuiltList(objects: [[0xa1, 0, 0, 0, 0, 0, 0, 0, 1], [0x09]], referenceBytes: 8, offsetBytes: 8), nil
    ),
    (
      "offsets and references of 3 bytes",
      BuiltList(objects: [[0xa1, 0, 0, 1], [0x09]], referenceBytes: 3, offsetBytes: 3), nil
    ),
    ("another top object", BuiltList(objects: [[0x09], [0xa1, 0]], top: 1), nil),
    (
      "a top object that is not there", BuiltList(objects: [[0x09]], top: 1),
      "byte 26: expected the top object below 1, found 1"
    ),
    ("no object", BuiltList(objects: []), "byte 40: expected an object, a table and a trailer, found the end"),
    (
      "a table of nothing", BuiltList(objects: [[0x09]], offsets: []),
      "byte 33: expected the table between the objects and the trailer"
    ),
    (
      "offsets of no bytes", BuiltList(objects: [[0x09]], offsetBytes: 0),
      "byte 15: expected offsets of 1 to 8 bytes, found 0"
    ),
    (
      "offsets of 9 bytes", BuiltList(objects: [[0x09]], offsetBytes: 9),
      "byte 24: expected offsets of 1 to 8 bytes, found 9"
    ),
    (
      "references of no bytes", BuiltList(objects: [[0x09]], referenceBytes: 0),
      "byte 17: expected references of 1 to 8 bytes, found 0"
    ),
    (
      "references of 255 bytes", BuiltList(objects: [[0x09]], referenceBytes: 255),
      "byte 17: expected references of 1 to 8 bytes, found 255"
    ),
    (
      "more objects than offsets", BuiltList(objects: [[0x09]], count: 2),
      "byte 18: expected a table for 2 objects that ends at the trailer"
    ),
    (
      "fewer objects than offsets", BuiltList(objects: [[0x09], [0x09]], count: 1),
      "byte 20: expected a table for 1 objects that ends at the trailer"
    ),
    (
      "2^64 - 1 objects", BuiltList(objects: [[0x09]], count: .max),
      "byte 18: expected a table for 18446744073709551615 objects that ends at the trailer"
    ),
    (
      "objects whose table would be small by overflow",
      BuiltList(objects: [[0x09]], offsetBytes: 8, count: 1 << 61 + 1),
      "byte 25: expected a table for 2305843009213693953 objects that ends at the trailer"
    ),
    (
      "a table at the signature", BuiltList(objects: [[0x09]], table: 8),
      "byte 34: expected the table between the objects and the trailer"
    ),
    (
      "a table at the trailer", BuiltList(objects: [[0x09]], table: 10),
      "byte 34: expected the table between the objects and the trailer"
    ),
    (
      "a table beyond all bytes", BuiltList(objects: [[0x09]], table: .max),
      "byte 34: expected the table between the objects and the trailer"
    ),
    ("a gap before the table", BuiltList(objects: [[0x09], [0x09]], offsets: [8]), nil),
    (
      "a gap behind the table", BuiltList(objects: [[0x09, 0x09]], table: 9),
      "byte 19: expected a table for 1 objects that ends at the trailer"
    ),
    (
      "an offset in the signature", BuiltList(objects: [[0x09]], offsets: [7]),
      "byte 9: expected an offset within the objects, found 7"
    ),
    (
      "an offset in the table", BuiltList(objects: [[0x09]], offsets: [9]),
      "byte 9: expected an offset within the objects, found 9"
    ),
    (
      "an offset beyond all bytes", BuiltList(objects: [[0x09]], offsetBytes: 8, offsets: [.max]),
      "byte 9: expected an offset within the objects, found 9223372036854775807"
    ),
    (
      "two objects at one place", BuiltList(objects: [[0xa1, 1], [0x09]], offsets: [8, 10, 10]),
      "byte 10: expected objects that do not overlap"
    ),
    (
      "an object within another", BuiltList(objects: [[0x42, 0x09, 0x08]], offsets: [8, 9]),
      "byte 9: expected objects that do not overlap"
    ),
  ]

  struct Trailer: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let bytes: [UInt8]
    let fault: String?
  }

  @Test(arguments: trailers.map { Trailer(testDescription: $0.sentence, bytes: $0.list.bytes, fault: $0.fault) })
  func trailerAndTable(row: Trailer) {
    let memory = GuardedMemory(capacity: 1024)
    #expect(memory.lend(row.bytes) { PropertyListCheck.check($0, charset: nil) }?.sentence == row.fault)
  }

  @Test(arguments: ["bplist", "bplist0", "bplist01", "bplist10", "bplist00", "bplist00x"])
  func aSignatureAloneIsNoList(text: String) {
    let reason = PropertyListCheck.check(octets(text).span, charset: nil)?.reason
    #expect(reason?.contains(text.hasPrefix("bplist00") ? "a trailer" : "version 00") == true)
  }

  // MARK: Graphs

  /// What is said of a graph, and that it is said in the time of its bytes.
  private func expect(_ expected: String?, of list: BuiltList, location: SourceLocation = #_sourceLocation) {
    let bytes = list.bytes
    let begin = threadSeconds()
    #expect(PropertyListCheck.check(bytes.span, charset: nil)?.reason == expected, sourceLocation: location)
    #expect(threadSeconds() - begin < 10, sourceLocation: location)
  }

  private func reference(_ index: Int) -> [UInt8] { BuiltList.number(UInt64(index), bytes: 4) }

  /// Arrays of which each holds the next one twice: 2^500 values in some KiB.
  @Test func sharedElementsDoNotBlowUp() {
    var objects = (1...500).map { [0xa2] + reference($0) + reference($0) }
    objects.append([0x09])
    expect(nil, of: BuiltList(objects: objects, referenceBytes: 4, offsetBytes: 4))
    // A dictionary is no different.
    let keys: [[UInt8]] = [[0x51, 0x61], [0x51, 0x62]]
    var dictionaries = (1...500).map {
      [0xd2] + reference(501) + reference(502) + reference($0) + reference($0)
    }
    dictionaries += [[0x09]] + keys
    expect(nil, of: BuiltList(objects: dictionaries, referenceBytes: 4, offsetBytes: 4))
  }

  @Test func nestingEndsAt512() {
    func nested(_ count: Int) -> BuiltList {
      BuiltList(objects: (1..<count).map { [0xa1] + reference($0) } + [[0x09]], referenceBytes: 4, offsetBytes: 4)
    }
    let tooDeep = "expected at most 512 objects inside one another, found more"
    expect(nil, of: nested(512))
    expect(tooDeep, of: nested(513))
    expect(tooDeep, of: nested(200_000))
  }

  /// The deep part is seen first from a place where it is not too deep.
  @Test func nestingCountsAlongTheLongestWay() {
    func list(_ longWay: Int, _ shared: Int) -> BuiltList {
      // 0: the shared part, then the long way that ends in it.
      var objects: [[UInt8]] = [[0xa2] + reference(1) + reference(1 + shared)]
      objects += (1..<shared).map { [0xa1] + reference($0 + 1) } + [[0x09]]
      let begin = objects.count
      objects += (0..<longWay - 1).map { [0xa1] + reference(begin + $0 + 1) } + [[0xa1] + reference(1)]
      return BuiltList(objects: objects, referenceBytes: 4, offsetBytes: 4)
    }
    expect(nil, of: list(211, 300))
    expect("expected at most 512 objects inside one another, found more", of: list(212, 300))
  }

  @Test func aLongCycle() {
    let objects = (0..<400).map { [0xa1] + reference(($0 + 1) % 400) }
    expect(
      "expected containers that do not hold themselves",
      of: BuiltList(objects: objects, referenceBytes: 4, offsetBytes: 4))
  }

  /// A cycle that the top object does not lead to is no value.
  @Test func aCycleThatNothingLeadsTo() {
    expect(nil, of: BuiltList(objects: [[0x09], [0xa1, 1]]))
  }

  /// One long array that a table of many entries would make many.
  @Test func oneArrayAtManyNumbers() {
    let count = 30_000
    let array = BuiltList.counted(0xa, count) + (0..<count).flatMap { _ in reference(count) }
    let offsets = [Int](repeating: 8, count: count) + [8 + array.count]
    let list = BuiltList(objects: [array, [0x09]], referenceBytes: 4, offsetBytes: 4, offsets: offsets)
    expect("expected objects that do not overlap", of: list)
  }

  /// A long key that every dictionary shares is read once.
  @Test func oneLongKeyInManyDictionaries() {
    let count = 20_000
    let key = BuiltList.counted(0x5, 500_000) + [UInt8](repeating: 0x61, count: 500_000)
    let other = BuiltList.counted(0x5, 500_000) + [UInt8](repeating: 0x62, count: 500_000)
    let dictionary = [0xd2] + reference(1) + reference(2) + reference(1) + reference(2)
    let array = BuiltList.counted(0xa, count) + (0..<count).flatMap { reference(3 + $0) }
    let objects = [array, key, other] + [[UInt8]](repeating: dictionary, count: count)
    expect(nil, of: BuiltList(objects: objects, referenceBytes: 4, offsetBytes: 4))
  }
}

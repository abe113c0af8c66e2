// Searching and comparing against the plainest way to do either, in memory that ends where the bytes end.

import TestSupport
import Testing

@testable import Bytes

@Suite struct SpanSearchTests {
  private static func naiveFirstControl(_ bytes: [UInt8], from: Int) -> Int {
    bytes[from...].firstIndex { $0 < 0x20 || $0 == 0x7f } ?? bytes.count
  }

  @Test func everyByteIsFoundOrPassedOverAtEveryPlace() {
    let memory = GuardedMemory(capacity: 64)
    for count in 1...26 {
      for place in 0..<count {
        for value in 0...255 as ClosedRange<UInt8> {
          var bytes = [UInt8](repeating: 0x61, count: count)
          bytes[place] = value
          let found = memory.lend(bytes) { $0.firstControl(from: 0) }
          let expected = value < 0x20 || value == 0x7f ? place : count
          if found != expected {
            Issue.record("\(value) at \(place) of \(count): found at \(found), expected \(expected)")
          }
        }
      }
    }
  }

  /// Every value at every place of every count that has whole words, the rest of one, or both.
  private func forEachByte(_ most: Int, among filler: UInt8, _ body: ([UInt8], _ value: UInt8, _ place: Int) -> Void) {
    for count in 1...most {
      for place in 0..<count {
        for value in 0...255 as ClosedRange<UInt8> {
          var bytes = [UInt8](repeating: filler, count: count)
          bytes[place] = value
          body(bytes, value, place)
        }
      }
    }
  }

  @Test(arguments: "aZ9-".utf8) func aTokenEndsAtTheFirstByteThatIsNone(filler: UInt8) {
    let memory = GuardedMemory(capacity: 64)
    #expect(memory.lend([]) { $0.tokenEnd(from: 0) } == 0)
    let others = Set("!#$%&'*+-.^_`|~".utf8)
    forEachByte(26, among: filler) { bytes, value, place in
      let isToken = value < 0x80 && (value.isASCIILetter || value.isASCIIDigit || others.contains(value))
      for from in Set([0, place, max(0, place - 1)]) {
        let found = memory.lend(bytes) { $0.tokenEnd(from: from) }
        let expected = isToken ? bytes.count : place
        if found != expected { Issue.record("\(value) at \(place) of \(bytes.count) from \(from): \(found)") }
      }
    }
  }

  @Test func onlyLettersOfASCIIHaveACase() {
    let memory = GuardedMemory(capacity: 64)
    forEachByte(26, among: 0x61) { bytes, value, place in
      let isUpper = value >= 0x41 && value <= 0x5a
      if memory.lend(bytes, { $0.hasUppercase }) != isUpper { Issue.record("\(value) at \(place) of \(bytes.count)") }
    }
    #expect(!memory.lend([]) { $0.hasUppercase })
  }

  @Test(arguments: ["te", "trailer", "location", "connection", "content-encoding", "proxy-authentication-info"])
  func aNameIsComparedWithoutCase(name: String) {
    let memory = GuardedMemory(capacity: 64)
    let text: StaticString =
      switch name {
      case "te": "te"
      case "trailer": "trailer"
      case "location": "location"
      case "connection": "connection"
      case "content-encoding": "content-encoding"
      default: "proxy-authentication-info"
      }
    let lower = Array(name.utf8)
    for bytes in [lower, Array(name.uppercased().utf8)] {
      #expect(memory.lend(bytes) { $0.equals(0..<bytes.count, ignoringCase: text) })
      for place in bytes.indices {
        for value in 0...255 as ClosedRange<UInt8> {
          var other = bytes
          other[place] = value
          let isSame = memory.lend(other) { $0.equals(0..<other.count, ignoringCase: text) }
          if isSame != (value.asciiLowercased == lower[place]) { Issue.record("\(value) at \(place) of \(name)") }
        }
      }
      #expect(!memory.lend(bytes) { $0.equals(0..<bytes.count - 1, ignoringCase: text) })
    }
  }

  @Test func aPlainWordHasNoByteThatAReaderCouldTakeForAnother() {
    let memory = GuardedMemory(capacity: 64)
    #expect(!memory.lend([]) { $0.isPlainWord })
    for count in 1...26 {
      for place in 0..<count {
        for value in 0...255 as ClosedRange<UInt8> {
          var bytes = [UInt8](repeating: 0x61, count: count)
          bytes[place] = value
          let isPlain = memory.lend(bytes) { $0.isPlainWord }
          let expected = value > 0x20 && value < 0x7f && value != 0x22 && value != 0x5c
          if isPlain != expected { Issue.record("\(value) at \(place) of \(count)") }
        }
      }
    }
  }

  /// Neighbours are what a borrow of the subtraction could fool.
  @Test func everyPairOfNeighboursIsJudgedByItself() {
    let memory = GuardedMemory(capacity: 64)
    let edges: [UInt8] = [0, 1, 0x1e, 0x1f, 0x20, 0x21, 0x7e, 0x7f, 0x80, 0x81, 0x9f, 0xa0, 0xfe, 0xff]
    for first in edges {
      for second in edges {
        for third in edges {
          for place in 0..<6 {
            var bytes = [UInt8](repeating: 0x41, count: 9)
            bytes[place] = first
            bytes[place + 1] = second
            bytes[place + 2] = third
            let found = memory.lend(bytes) { $0.firstControl(from: 0) }
            #expect(found == Self.naiveFirstControl(bytes, from: 0), "\(bytes)")
          }
        }
      }
    }
  }

  @Test func randomBytesAreSearchedAsIfOneByOne() {
    let memory = GuardedMemory(capacity: 4096)
    var generator = SeededGenerator(seed: 1)
    for round in 0..<20_000 {
      let count = Int.random(in: 0...80, using: &generator)
      // Mostly text, so that the search goes far; now and then anything.
      let bytes = (0..<count).map { _ in
        Int.random(in: 0..<(round % 50 + 1), using: &generator) == 0
          ? UInt8.random(in: 0...255, using: &generator) : UInt8.random(in: 0x20...0x7e, using: &generator)
      }
      let from = Int.random(in: 0...count, using: &generator)
      let found = memory.lend(bytes) { $0.firstControl(from: from) }
      let expected = Self.naiveFirstControl(bytes, from: from)
      if found != expected { Issue.record("from \(from) of \(bytes): \(found), expected \(expected)") }
    }
  }

  @Test func theFirstOfSeveralEqualBytesIsFound() {
    let bytes = octets("a,b,,c")
    let span = bytes.span
    #expect([span.firstIndex(of: 0x2c), span.firstIndex(of: 0x2c, from: 1)] == [1, 1])
    #expect([span.firstIndex(of: 0x2c, from: 2), span.firstIndex(of: 0x2c, from: 4)] == [3, 4])
    #expect([span.firstIndex(of: 0x2c, from: 5), span.firstIndex(of: 0x2c, from: 6)] == [nil, nil])
    #expect([span.firstIndex(of: 0x7a), [UInt8]().span.firstIndex(of: 0x7a)] == [nil, nil])
  }

  @Test(arguments: [
    ("abc", true), ("ABC", true), ("aBc", true), ("ab", false), ("abcd", false), ("abd", false), ("", false),
    ("\u{01}bc", false), ("!bc", false), ("a\u{c2}c", false),
  ]) func aTextIsComparedWithoutCase(text: String, matches: Bool) {
    let bytes = octets("<" + text + ">")
    let range = 1..<bytes.count - 1
    let span = bytes.span
    let lower = octets("abc")
    let withStatic = span.equals(range, ignoringCase: "abc")
    let withSpan = span.equals(range, ignoringCase: lower.span)
    #expect(withStatic == matches)
    #expect(withSpan == matches)
  }

  @Test func textIsComparedExactly() {
    let bytes = octets("GET get")
    let span = bytes.span
    #expect(
      [span.equals(0..<3, "GET"), span.equals(4..<7, "get"), span.equals(4..<7, "GET")] == [
        true, true, false,
      ])
    #expect(
      [span.equals(0..<2, "GET"), span.equals(0..<4, "GET"), span.equals(2..<2, "")] == [false, false, true])
  }

  @Test func spansAreComparedWhole() {
    let left = octets("abc")
    for (right, same) in [
      ("abc", true), ("abd", false), ("ab", false), ("abcd", false), ("ABC", false), ("", false),
    ] {
      let answer = left.span.equals(octets(right).span)
      #expect(answer == same, "abc and \(right)")
    }
    let empty = [UInt8]().span.equals([UInt8]().span)
    #expect(empty)
  }

  @Test func whatIsNoUTF8IsReplaced() {
    #expect(octets("a\u{ff}b\u{c3}\u{bc}").span.string == "a\u{fffd}bü")
    #expect([UInt8]().span.string == "")
  }

  @Test func everyByteIsClassified() {
    let digits = Set("0123456789".utf8)
    let letters = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
    for byte in 0...255 as ClosedRange<UInt8> {
      #expect(byte.isASCIIDigit == digits.contains(byte))
      #expect(byte.isASCIILetter == letters.contains(byte))
      let lower = letters.contains(byte) ? byte | 0x20 : byte
      #expect(byte.asciiLowercased == lower)
      let text = String(decoding: [byte], as: UTF8.self)
      let isHexadecimal = digits.contains(byte) || "abcdefABCDEF".utf8.contains(byte)
      #expect(byte.hexadecimalValue == (isHexadecimal ? UInt8(text, radix: 16) : nil))
    }
  }

  /// Every byte, at every place of a word and behind it, alone and behind another that a borrow could come from.
  @Test func whatMustBeEscapedInJSONIsFound() {
    for byte in UInt8.min...UInt8.max {
      let isEscaped = byte < 0x20 || byte >= 0x7f || byte == 0x22 || byte == 0x5c
      for place in 0..<18 {
        var text = [UInt8](repeating: 0x61, count: 18)
        text[place] = byte
        #expect(text.span.firstJSONEscape(from: 0) == (isEscaped ? place : 18))
        text[17] = 0x22
        #expect(text.span.firstJSONEscape(from: 0) == (isEscaped ? place : 17))
      }
    }
    #expect([0x22, 0x61].span.firstJSONEscape(from: 1) == 2)
  }
}

// The grammar of JSON: what it takes, what it refuses and what it says of that, and that it never reads too far.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct JSONScannerTests {
  @Test(arguments: JSONText.accepted)
  func isAccepted(text: JSONText) {
    let memory = GuardedMemory()
    #expect(check(text.bytes, memory) == nil)
    for tail in [" ", "\n", "\r\n\t "] { #expect(check(text.bytes + octets(tail), memory) == nil) }
    for head in [" ", "\n", "\r\n\t "] { #expect(check(octets(head) + text.bytes, memory) == nil) }
    // In each other kind of place.
    for (head, tail) in [("[", "]"), ("{\"a\":", "}"), ("[0,", " ,0]"), ("{\"a\":0,\"b\": ", ",\"c\":0}")] {
      #expect(check(octets(head) + text.bytes + octets(tail), memory, depth: JSONText.depth + 1) == nil)
    }
  }

  @Test(arguments: JSONText.accepted)
  func whatStandsBehindIsRefused(text: JSONText) {
    let memory = GuardedMemory()
    for tail in ["]", "}", ",", ":", "\"", " 1", "\nnull", "{}", " []", "\u{0}", "\u{ff}", "\u{c}", "//"] {
      let fault = check(text.bytes + octets(tail), memory)
      #expect(fault != nil, "with \(shown(octets(tail))) behind it")
    }
  }

  /// Of a text that is cut short only what is a number, or followed by white space, may be one.
  @Test(arguments: JSONText.accepted)
  func whatIsCutShortIsRefused(text: JSONText) {
    let memory = GuardedMemory()
    let isNumber = text.bytes.allSatisfy { octets("-0123456789").contains($0) }
    let end = text.bytes.lastIndex { !octets(" \t\r\n").contains($0) } ?? 0
    for count in 0...end {
      let fault = check(Array(text.bytes.prefix(count)), memory)
      let isFine = isNumber && count > (text.bytes[0] == 0x2d ? 1 : 0)
      #expect((fault == nil) == isFine, "the first \(count) bytes")
      guard let fault else { continue }
      #expect(fault.offset <= count)
    }
  }

  @Test(arguments: JSONText.refused)
  func isRefused(text: JSONText) {
    let memory = GuardedMemory()
    let fault = check(text.bytes, memory)
    #expect(fault?.sentence == text.fault)
    let place = text.bytes.span.place(of: fault?.offset ?? 0)
    #expect(fault?.place == place)
  }

  /// What follows a fault changes nothing about it, where the fault was not that nothing follows.
  @Test(arguments: JSONText.refused.filter { !$0.fault.contains("the end of the body") && $0.bytes.count > 0 })
  func isRefusedWithMoreBehindIt(text: JSONText) {
    let memory = GuardedMemory()
    guard let fault = check(text.bytes, memory), fault.offset < text.bytes.count else { return }
    for tail in ["]", "}", "\"", "0", " ", "\u{80}", "\u{0}"] {
      #expect(check(text.bytes + octets(tail), memory) == fault, "with \(shown(octets(tail))) behind it")
    }
  }

  @Test(arguments: JSONText.refused)
  func isRefusedWhereverItIsCutShort(text: JSONText) {
    let memory = GuardedMemory()
    guard let fault = check(text.bytes, memory) else { return }
    for count in 0..<text.bytes.count {
      let part = check(Array(text.bytes.prefix(count)), memory)
      // A byte that is wrong is wrong with nothing behind it. What comes before it can be valid only in itself.
      if count > fault.offset { #expect(part != nil, "the first \(count) bytes") }
      #expect(part.map { $0.offset <= count } ?? true)
    }
  }

  private func check(_ bytes: [UInt8], _ memory: GuardedMemory, depth: Int = JSONText.depth) -> ContentFault? {
    memory.lend(bytes) { JSONScanner.check($0, depth: depth) }
  }

  // MARK: Depth

  @Test(arguments: [1, 2, 63, 64, 65, 127, 128, 129, 512])
  func depthHasItsLimit(depth: Int) {
    let memory = GuardedMemory()
    for (opening, closing) in [("[", "]"), ("{\"a\":", "}")] {
      func nested(_ depth: Int, _ inside: String) -> [UInt8] {
        Array((String(repeating: opening, count: depth) + inside + String(repeating: closing, count: depth)).utf8)
      }
      #expect(check(nested(depth, "0"), memory, depth: depth) == nil)
      for inside in ["[]", "{}"] {
        #expect(check(nested(depth - 1, inside), memory, depth: depth) == nil)
        let fault = check(nested(depth, inside), memory, depth: depth)
        #expect(fault?.offset == depth * opening.utf8.count)
        #expect(fault?.reason == "expected at most \(depth) arrays and objects inside one another, found one more")
      }
    }
  }

  @Test func noDepthAtAllLeavesScalars() {
    let memory = GuardedMemory()
    #expect(check(octets("1"), memory, depth: 0) == nil)
    #expect(check(octets("[]"), memory, depth: 0)?.offset == 0)
    #expect(check(octets("{}"), memory, depth: 0)?.offset == 0)
  }

  /// Every container is closed by its own kind, however many are open.
  @Test func kindsAreRememberedAtAnyDepth() {
    var generator = SeededGenerator(seed: 3)
    for depth in [1, 5, 63, 64, 65, 66, 128, 129, 200, 1000] {
      let kinds = (0..<depth).map { _ in Bool.random(using: &generator) }
      let opening = kinds.flatMap { octets($0 ? "{\"a\":" : "[") }
      let closing = kinds.reversed().flatMap { octets($0 ? "}" : "]") }
      #expect(faultByGrammar(opening + octets("0") + closing, depth: depth) == nil)
      for index in Set([0, depth - 1, depth / 2, Int.random(in: 0..<depth, using: &generator)]) {
        var crossed = closing
        crossed[index] ^= 0x5d ^ 0x7d
        let fault = faultByGrammar(opening + octets("0") + crossed, depth: depth)
        #expect(fault?.offset == opening.count + 1 + index)
      }
    }
  }

  @Test func aMillionBracketsAreRefusedAtTheLimit() {
    let brackets = [UInt8](repeating: 0x5b, count: 1_000_000)
    let fault = faultByGrammar(brackets, depth: 512)
    #expect(fault?.offset == 512)
    // Without a limit it is the end that is missing: nothing recurses.
    #expect(faultByGrammar(brackets, depth: .max)?.offset == 1_000_000)
  }

  // MARK: Every byte at every place

  /// Puts every byte in place of the byte 1 in `template`, and compares with those that should be taken.
  private func tryEveryByte(
    _ template: String, takes taken: Set<UInt8>, _ location: SourceLocation = #_sourceLocation
  ) {
    let memory = GuardedMemory(capacity: 4096)
    guard let place = octets(template).firstIndex(of: 1) else { fatalError("no place") }
    for byte in 0...255 as ClosedRange<UInt8> {
      var bytes = octets(template)
      bytes[place] = byte
      let fault = check(bytes, memory)
      #expect((fault == nil) == taken.contains(byte), "\(shown([byte]))", sourceLocation: location)
    }
  }

  @Test func everyByte() {
    let blanks = Set(octets(" \t\r\n"))
    let digits = Set(octets("0123456789"))
    tryEveryByte("\u{1}", takes: digits)
    tryEveryByte("\u{1}0", takes: blanks.union(octets("-123456789")))
    tryEveryByte("0\u{1}", takes: blanks)
    tryEveryByte("1\u{1}", takes: blanks.union(digits))
    tryEveryByte("1\u{1}1", takes: digits.union(octets(".eE")))
    tryEveryByte("1.\u{1}", takes: digits)
    tryEveryByte("1e\u{1}", takes: digits)
    tryEveryByte("1e\u{1}1", takes: digits.union(octets("+-")))
    tryEveryByte("[1\u{1}1]", takes: digits.union(octets(".eE,")))
    tryEveryByte("[1\u{1}]", takes: digits.union(blanks))
    tryEveryByte("[\u{1}]", takes: digits.union(blanks))
    tryEveryByte("[]\u{1}", takes: blanks)
    tryEveryByte("[null\u{1}]", takes: blanks)
    tryEveryByte("{\u{1}}", takes: blanks)
    tryEveryByte("{\"\"\u{1}0}", takes: [0x3a])
    tryEveryByte("{\"\":0\u{1}\"\":0}", takes: [0x2c])
    tryEveryByte("{\"\":0,\u{1}\"\":0}", takes: blanks)
  }

  @Test func everyByteInAString() {
    let plain = Set((0x20..<0x80 as Range<UInt8>)).subtracting([0x22, 0x5c])
    for length in 0...17 {
      tryEveryByte("\"" + String(repeating: "x", count: length) + "\u{1}yz\"", takes: plain)
    }
    tryEveryByte("\"\\\u{1}\"", takes: Set(octets("\"\\/bfnrt")))
    for place in 0..<4 {
      var digits = ["0", "0", "0", "0"]
      digits[place] = "\u{1}"
      tryEveryByte("\"\\u\(digits.joined())\"", takes: Set(octets("0123456789abcdefABCDEF")))
    }
    // What follows d may be anything below 8: above that it is a surrogate.
    tryEveryByte("\"\\ud\u{1}00\"", takes: Set(octets("01234567")))
    tryEveryByte("\"\\ud83d\\ud\u{1}00\"", takes: Set(octets("cdefCDEF")))
  }
}

// simdjson and our own grammar have to agree: whatever simdjson takes is valid, and whatever is valid it takes, but
// for what it cannot hold.

import Bytes
import CJSON
import TestSupport
import Testing

@testable import Serialization

@Suite struct JSONCheckerTests {
  private func buffer(_ bytes: [UInt8], behindIt junk: String = "") -> ByteBuffer {
    var buffer = ByteBuffer()
    buffer.append(bytes + octets(junk))
    buffer.truncate(to: bytes.count)
    return buffer
  }

  /// What both say of `bytes`; nil where they are valid.
  private func agreedFault(
    _ bytes: [UInt8], _ checker: inout JSONChecker, _ memory: GuardedMemory, depth: Int = 512
  ) -> ContentFault? {
    var body = buffer(bytes, behindIt: "]}\"1 null, \\u0041")
    let isTaken = checker.accepts(&body, depth: depth)
    let fault = memory.lend(bytes) { JSONScanner.check($0, depth: depth) }
    if isTaken != (fault == nil) {
      let isExpected = !isTaken && isBeyondSIMD(bytes, depth: depth)
      #expect(isExpected, "simdjson \(isTaken ? "takes" : "refuses") \(shown(bytes))")
    }
    #expect(checker.check(&body, depth: depth) == fault)
    let isUnchanged = body.array == bytes
    #expect(isUnchanged)
    return fault
  }

  /// Whether a valid text holds what simdjson does not: a number beyond 64 bits or a double, or a container at the
  /// limit of depth that is not empty.
  private func isBeyondSIMD(_ bytes: [UInt8], depth: Int) -> Bool {
    var deepest = 0
    func visit(_ tree: JSONTree, _ depth: Int) -> Bool {
      deepest = max(deepest, depth)
      switch tree {
      case .scalar(let text): return isBeyondSIMD(number: text)
      case .array(let elements): return elements.reduce(false) { visit($1, depth + 1) || $0 }
      case .object(let members): return members.reduce(false) { visit($1.value, depth + 1) || $0 }
      }
    }
    return visit(JSONTree.read(bytes), 0) || deepest >= depth
  }

  private func isBeyondSIMD(number text: String) -> Bool {
    guard let first = text.utf8.first, first == 0x2d || first.isASCIIDigit else { return false }
    if text.utf8.allSatisfy({ $0 == 0x2d || $0.isASCIIDigit }) { return Int64(text) == nil && UInt64(text) == nil }
    return Double(text)?.isInfinite ?? true
  }

  // MARK: Agreement

  @Test func bothTakeWhatIsValid() {
    var checker = JSONChecker()
    let memory = GuardedMemory()
    for text in JSONText.accepted {
      #expect(agreedFault(text.bytes, &checker, memory, depth: JSONText.depth) == nil, "\(text.sentence)")
      for count in 0..<text.bytes.count { _ = agreedFault(Array(text.bytes.prefix(count)), &checker, memory) }
    }
  }

  @Test func bothRefuseWhatIsNot() {
    var checker = JSONChecker()
    let memory = GuardedMemory()
    for text in JSONText.refused {
      let fault = agreedFault(text.bytes, &checker, memory, depth: JSONText.depth)
      #expect(fault?.sentence == text.fault, "\(text.sentence)")
      for count in 0..<text.bytes.count { _ = agreedFault(Array(text.bytes.prefix(count)), &checker, memory) }
    }
  }

  @Test func bothJudgeRandomDamageAlike() {
    var checker = JSONChecker()
    let memory = GuardedMemory()
    var generator = SeededGenerator(seed: 21)
    let telling = octets(
      "{}[]:,\"\\ \n\t\u{0}\u{1f}\u{7f}\u{80}\u{bf}\u{c3}\u{ed}\u{f4}\u{ff}0123456789-+.eEnulltruefalsud8c/")
    let specimens = JSONText.accepted.map(\.bytes).filter { $0.count < 300 }
    var valid = 0
    for round in 0..<12000 {
      var bytes = specimens[round % specimens.count]
      if round % 3 == 0 { bytes = Array(JSONTree.random(depth: 4, using: &generator).text(using: &generator).utf8) }
      for _ in 0..<Int.random(in: 0...3, using: &generator) where !bytes.isEmpty {
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: bytes[place] = telling.randomElement(using: &generator)!
        case 1: bytes.insert(telling.randomElement(using: &generator)!, at: place)
        case 2: bytes.remove(at: place)
        default:
          let end = Int.random(in: place...bytes.count, using: &generator)
          bytes.insert(contentsOf: bytes[place..<end], at: Int.random(in: 0...bytes.count, using: &generator))
        }
      }
      if agreedFault(bytes, &checker, memory, depth: Int.random(in: 1...9, using: &generator)) == nil { valid += 1 }
    }
    // Damage that always kills, or never does, would compare nothing.
    #expect(valid > 2000 && valid < 9000)
  }

  @Test func bothJudgeRandomBytesAlike() {
    var checker = JSONChecker()
    let memory = GuardedMemory()
    var generator = SeededGenerator(seed: 22)
    let alphabet = octets("[]{},:\"\\u018dDc\u{c3}\u{a9}\u{ed}\u{a0}-.e \n")
    for _ in 0..<8000 {
      let count = Int.random(in: 0...12, using: &generator)
      let bytes = (0..<count).map { _ in alphabet.randomElement(using: &generator)! }
      _ = agreedFault(bytes, &checker, memory)
      _ = agreedFault(octets("[\"") + bytes + octets("\"]"), &checker, memory)
    }
  }

  @Test(arguments: [1, 2, 3, 64, 512, 4095, 4096, 4097, 6000])
  func bothCountDepthAlike(depth: Int) {
    var checker = JSONChecker()
    for opened in max(1, depth - 1)...depth + 1 {
      let bytes = [UInt8](repeating: 0x5b, count: opened) + [UInt8](repeating: 0x5d, count: opened)
      var body = buffer(bytes)
      #expect(checker.accepts(&body, depth: depth) == (opened <= min(depth, JSONChecker.deepestNesting)))
      #expect((checker.check(&body, depth: depth) == nil) == (opened <= depth))
      #expect((faultByGrammar(bytes, depth: depth) == nil) == (opened <= depth))
    }
  }

  // MARK: The buffer

  /// simdjson reads no further than its padding, and what is there means nothing to it.
  @Test(arguments: ["\u{0}", " ", "]", "}", "\"", "1", "e]", "\\", "\u{ff}"])
  func paddingIsReadAndNotHeeded(junk: String) {
    let memory = GuardedMemory()
    guard let parser = cjson_create() as OpaquePointer? else { fatalError("no parser") }
    defer { cjson_free(parser) }
    let padding = [UInt8](repeatElement(octets(junk), count: 64).joined().prefix(JSONChecker.paddingBytes))
    for text in JSONText.accepted + JSONText.refused {
      var body = buffer(text.bytes)
      var checker = JSONChecker()
      let expected = checker.accepts(&body, depth: JSONText.depth)
      let isTaken = memory.lend(text.bytes + padding) { span in
        span.withUnsafeBufferPointer { cjson_accepts(parser, $0.baseAddress, text.bytes.count, JSONText.depth) }
      }
      #expect(isTaken == expected, "\(text.sentence)")
    }
  }

  @Test func aBodyWithRoomBehindItIsNotMoved() {
    var pool = BufferPool()
    var body = pool.take(1024)
    let room = body.capacity - JSONChecker.paddingBytes
    body.append(octets("\"" + String(repeating: "x", count: room - 2) + "\""))
    var checker = JSONChecker()
    #expect(checker.accepts(&body, depth: 1))
    #expect(body.capacity == 1024)
    body.append(0x20)
    #expect(checker.accepts(&body, depth: 1))
    #expect(body.capacity == 2048)
    #expect(body.count == room + 1)
  }

  @Test func aBufferThatWasNeverFilledIsEmpty() {
    var checker = JSONChecker()
    var body = ByteBuffer()
    #expect(checker.check(&body, depth: 512)?.reason == "expected a value, found an empty body")
  }

  @Test func oneCheckerServesTextsOfEverySizeAndDepth() {
    var checker = JSONChecker()
    for count in [1, 100_000, 3, 250_000, 2, 1000] {
      for depth in [1, 512, 7] {
        var body = buffer(octets("[\"" + String(repeating: "x", count: count) + "\", 1]"))
        #expect(checker.accepts(&body, depth: depth + 1))
        #expect(checker.check(&body, depth: depth) == nil)
        var broken = buffer(octets("[\"" + String(repeating: "x", count: count) + "\" 1]"))
        #expect(checker.check(&broken, depth: depth)?.offset == count + 4)
      }
    }
  }

  /// What simdjson would need too much memory for is not shown to it, and read all the same.
  @Test func longTextsAreReadByTheGrammar() {
    var checker = JSONChecker()
    let count = JSONChecker.longestTextBytes
    var longest = buffer(octets("\"" + String(repeating: "x", count: count - 2) + "\""))
    #expect(checker.accepts(&longest, depth: 1))
    longest.append(0x20)
    let capacity = longest.capacity
    #expect(!checker.accepts(&longest, depth: 1))
    #expect(checker.check(&longest, depth: 1) == nil)
    #expect(longest.capacity == capacity)
    longest.append(0x78)
    #expect(checker.check(&longest, depth: 1)?.offset == count + 1)
  }

  @Test func aMillionBracketsAreRefused() {
    var checker = JSONChecker()
    var body = buffer([UInt8](repeating: 0x5b, count: 1_000_000))
    #expect(checker.check(&body, depth: 512)?.offset == 512)
    var shorter = buffer([UInt8](repeating: 0x5b, count: 200_000))
    #expect(checker.check(&shorter, depth: 512)?.offset == 512)
  }
}

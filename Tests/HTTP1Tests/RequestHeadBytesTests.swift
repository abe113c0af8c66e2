// Request heads, systematically: every byte at every place, damage against the strict grammar, and the limits.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

@Suite struct RequestHeadBytesTests {
  // MARK: Every byte at every place

  /// Puts each byte where `?` stands in `text` and compares the fault, or nil, with what `expected` says.
  private static func tryEveryByte(
    _ text: String, _ location: SourceLocation = #_sourceLocation, _ expected: (UInt8) -> MessageFault?
  ) {
    let template = octets(text)
    guard let place = template.firstIndex(of: 1) else { fatalError("no place") }
    for byte in 0...255 as ClosedRange<UInt8> {
      var bytes = template
      bytes[place] = byte
      let verdict = readRequest(bytes.span)
      let fault = expected(byte)
      switch verdict {
      case .incomplete: Issue.record("\(shown([byte])): incomplete", sourceLocation: location)
      case .accepted: #expect(fault == nil, "\(shown([byte])) is taken", sourceLocation: location)
      case .refused(let seen): #expect(seen == fault, "\(shown([byte]))", sourceLocation: location)
      }
      let memory = GuardedMemory(capacity: 4096)
      examinePrefixes(bytes, verdict, memory, location) { readRequest($0) }
    }
  }

  private static let tokenBytes = Set(
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)

  /// What a byte that breaks a line is called: CR and LF, control characters, the rest.
  private static func fault(_ byte: UInt8, otherwise: MessageFault) -> MessageFault {
    switch byte {
    case 10: .bareLineFeed
    case 13: .bareCarriageReturn
    case 9: otherwise
    case 0..<32, 127: .controlCharacter
    default: otherwise
    }
  }

  @Test func everyByteInTheMethod() {
    Self.tryEveryByte(line("G\u{1}T http://a/ HTTP/1.1")) { byte in
      if byte == 0x65 { return .methodCase }
      if Self.tokenBytes.contains(byte) { return nil }
      // A space ends the method: "G", target "T", and no version.
      return byte == 32 ? .badVersion : Self.fault(byte, otherwise: .badMethod)
    }
    Self.tryEveryByte(line("\u{1}ET http://a/ HTTP/1.1")) { byte in
      if byte == 0x67 { return .methodCase }
      return Self.tokenBytes.contains(byte) ? nil : Self.fault(byte, otherwise: .badMethod)
    }
    Self.tryEveryByte(line("GET\u{1}http://a/ HTTP/1.1")) { byte in
      if byte == 32 { return nil }
      // A longer word: it breaks off at the colon behind "http".
      if Self.tokenBytes.contains(byte) { return .badMethod }
      return Self.fault(byte, otherwise: .badMethod)
    }
  }

  @Test func everyByteInTheTarget() {
    let allowed = Set(
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?[]@!$&'()*+,;=%^`{|}".utf8)
    for (target, isQuery) in [
      ("http://a/\u{1}", false), ("http://a/x\u{1}y", false), ("http://a/?\u{1}", true),
    ] {
      Self.tryEveryByte(line("GET \(target) HTTP/1.1")) { byte in
        if allowed.contains(byte) || (isQuery && byte == 0x5c) { return nil }
        return byte == 32 ? .badVersion : Self.fault(byte, otherwise: .badTarget)
      }
    }
  }

  @Test func everyByteInTheHostOfTheTarget() {
    let allowed = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/?".utf8)
    Self.tryEveryByte(line("GET http://a\u{1}b/ HTTP/1.1")) { byte in
      switch byte {
      case _ where allowed.contains(byte): nil
      case 0x20: .badVersion
      case 0x3a: .badPort
      case 0x40: .userInformationInTarget
      case 0x22, 0x23, 0x3c, 0x3e, 0x80...: .badTarget
      default: byte < 0x20 || byte == 0x7f ? Self.fault(byte, otherwise: .badTarget) : .badHost
      }
    }
  }

  @Test func everyByteInThePortOfTheTarget() {
    Self.tryEveryByte(line("GET http://a:8\u{1}/ HTTP/1.1")) { byte in
      switch byte {
      case 0x30...0x39, 0x2f, 0x3f: nil
      case 0x20: .badVersion
      case 0x40: .userInformationInTarget
      case 0x22, 0x23, 0x3c, 0x3e, 0x80...: .badTarget
      default: byte < 0x20 || byte == 0x7f ? Self.fault(byte, otherwise: .badTarget) : .badPort
      }
    }
  }

  @Test func everyByteInTheVersion() {
    let version = Array("HTTP/1.1".utf8)
    for place in version.indices {
      var bytes = version
      bytes[place] = 1
      Self.tryEveryByte(line("GET http://a/ " + String(decoding: bytes, as: UTF8.self))) { byte in
        if byte == version[place] || (place == 7 && byte.isASCIIDigit) { return nil }
        if place == 5, byte.isASCIIDigit { return .unsupportedVersion }
        return Self.fault(byte, otherwise: .badVersion)
      }
    }
    Self.tryEveryByte("GET http://a/ HTTP/1.1\u{1}\nHost: a\r\n\r\n") { byte in
      byte == 13 ? nil : Self.fault(byte, otherwise: .badVersion)
    }
    Self.tryEveryByte("GET http://a/ HTTP/1.1\r\u{1}Host: a\r\n\r\n") { byte in
      byte == 10 ? nil : .bareCarriageReturn
    }
  }

  @Test func everyByteInAFieldName() {
    Self.tryEveryByte(get("X\u{1}Y: v")) { byte in
      if Self.tokenBytes.contains(byte) || byte == 0x3a { return nil }
      return byte == 32 || byte == 9 ? .spaceBeforeColon : Self.fault(byte, otherwise: .badFieldName)
    }
    Self.tryEveryByte(get("\u{1}Y: v")) { byte in
      if Self.tokenBytes.contains(byte) { return nil }
      return byte == 32 || byte == 9 ? .obsoleteLineFolding : Self.fault(byte, otherwise: .badFieldName)
    }
    Self.tryEveryByte(get("XY\u{1} v")) { byte in
      if byte == 0x3a { return nil }
      // A longer name, and then the space.
      if Self.tokenBytes.contains(byte) || byte == 32 || byte == 9 { return .spaceBeforeColon }
      return Self.fault(byte, otherwise: .badFieldName)
    }
  }

  @Test func everyByteInAFieldValue() {
    for line in ["X: a\u{1}b", "X:\u{1}b", "X: a\u{1} ", "X:\u{1} "] {
      Self.tryEveryByte(get(line)) { byte in
        byte == 9 || (byte >= 32 && byte != 127) ? nil : Self.fault(byte, otherwise: .controlCharacter)
      }
    }
  }

  @Test func everyByteInHost() {
    let allowed = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._".utf8)
    Self.tryEveryByte("GET http://a/ HTTP/1.1\r\nHost: a\u{1}b\r\n\r\n") { byte in
      if allowed.contains(byte) { return nil }
      return byte == 9 || (byte >= 32 && byte != 127)
        ? .malformedHostField : Self.fault(byte, otherwise: .controlCharacter)
    }
  }

  @Test func everyByteInALength() {
    Self.tryEveryByte(post("Content-Length: 1\u{1}2")) { byte in
      if (0x30...0x39).contains(byte) { return nil }
      return byte == 9 || (byte >= 32 && byte != 127)
        ? .malformedContentLength : Self.fault(byte, otherwise: .controlCharacter)
    }
  }

  @Test func everyByteInTheCoding() {
    Self.tryEveryByte(post("Transfer-Encoding: chunke\u{1}")) { byte in
      if byte == 0x64 || byte == 0x44 { return nil }
      return byte == 9 || (byte >= 32 && byte != 127)
        ? .badTransferEncoding : Self.fault(byte, otherwise: .controlCharacter)
    }
  }

  // MARK: Against the strict grammar

  private static let specimens: [[UInt8]] =
    [
      "\r\n" + get("X: y"), post("Content-Length: 12"), "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n",
      "POST http://a:80/?q HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
      "CONNECT [::1]:443 HTTP/1.0\r\n\r\n",
    ].map { octets($0) }

  private static func agrees(_ bytes: [UInt8], _ location: SourceLocation = #_sourceLocation) {
    let verdict = readRequest(bytes.span)
    let isStrict = StrictGrammar.isProxyRequest(bytes)
    switch verdict {
    case .accepted(let count, _):
      if count == bytes.count {
        #expect(isStrict, "taken, against the grammar: \(shown(bytes))", sourceLocation: location)
      } else {
        #expect(
          StrictGrammar.isProxyRequest(Array(bytes.prefix(count))), "\(shown(bytes))",
          sourceLocation: location)
      }
    case .refused(let fault):
      if fault == .unsupportedScheme { return }
      #expect(!isStrict, "refused (\(fault)), against the grammar: \(shown(bytes))", sourceLocation: location)
    case .incomplete:
      #expect(!isStrict, "incomplete, against the grammar: \(shown(bytes))", sourceLocation: location)
    }
  }

  @Test(arguments: specimens) func everyByteAtEveryPlaceIsJudgedAsTheStrictGrammarDoes(specimen: [UInt8]) {
    for place in specimen.indices {
      for byte in 0...255 as ClosedRange<UInt8> {
        var bytes = specimen
        bytes[place] = byte
        Self.agrees(bytes)
      }
    }
  }

  @Test func randomDamageIsJudgedAsTheStrictGrammarDoes() {
    var generator = SeededGenerator(seed: 7)
    let memory = GuardedMemory(capacity: 8192)
    let telling = octets("\r\n \t:;,/@?[]\u{0}\u{7f}\u{80}019aAhHcC-+")
    for round in 0..<6000 {
      var bytes = Self.specimens[round % Self.specimens.count]
      for _ in 0..<Int.random(in: 1...4, using: &generator) where !bytes.isEmpty {
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        let byte = telling.randomElement(using: &generator) ?? 0
        switch Int.random(in: 0..<5, using: &generator) {
        case 0: bytes[place] = byte
        case 1: bytes.insert(byte, at: place)
        case 2: bytes.remove(at: place)
        case 3:
          let end = min(bytes.count, place + Int.random(in: 1...12, using: &generator))
          bytes.insert(contentsOf: bytes[place..<end], at: place)
        default:
          let end = min(bytes.count, place + Int.random(in: 1...6, using: &generator))
          bytes.removeSubrange(place..<end)
        }
      }
      Self.agrees(bytes)
      if round % 10 == 0 {
        let whole = memory.lend(bytes) { readRequest($0) }
        if case .accepted(let count, _) = whole {
          examinePrefixes(Array(bytes.prefix(count)), whole, memory) { readRequest($0) }
        } else {
          examinePrefixes(bytes, whole, memory) { readRequest($0) }
        }
      }
    }
  }

  // MARK: Limits

  /// A head of exactly `count` bytes.
  private static func head(bytes count: Int) -> [UInt8] {
    let begin = "GET http://a/ HTTP/1.1\r\nHost: a\r\nX: "
    return octets(begin + String(repeating: "x", count: count - begin.utf8.count - 4) + "\r\n\r\n")
  }

  @Test func aHeadOfExactlyTheLimitIsTakenAndOneByteMoreIsNot() {
    let limits = HeadLimits(bytes: 1024, fields: 128)
    let memory = GuardedMemory(capacity: 8192)
    for (count, fits) in [
      (1023, true), (1024, true), (1025, false), (1026, false), (1027, false), (4000, false),
    ] {
      let bytes = Self.head(bytes: count)
      let verdict = memory.lend(bytes) { readRequest($0, limits: limits) }
      let expected: Verdict =
        fits ? .accepted(count: count, "GET http a - '/' '/' 1.1 no body, keeps") : .refused(.headTooLarge)
      #expect(verdict == expected, "\(count) bytes")
      examinePrefixes(bytes, verdict, memory) { readRequest($0, limits: limits) }
      let longer = memory.lend(bytes + octets("GET")) { readRequest($0, limits: limits) }
      #expect(longer == expected, "\(count) bytes with more behind them")
    }
  }

  @Test func theLimitIsReachedAtEachPlaceOfAHead() {
    let limits = HeadLimits(bytes: 64, fields: 128)
    for text in [
      "GET http://a/" + String(repeating: "p", count: 80),
      "GET http://a/ HTTP/1.1\r\n" + String(repeating: "n", count: 60),
      "GET http://a/ HTTP/1.1\r\nHost: a\r\n" + String(repeating: "A: b\r\n", count: 20),
    ] {
      let bytes = octets(text)
      let cut = Array(bytes.prefix(64))
      let verdicts = [
        readRequest(Array(bytes.prefix(63)).span, limits: limits), readRequest(cut.span, limits: limits),
      ]
      #expect(verdicts == [.incomplete, .refused(.headTooLarge)], "\(text)")
      let whole = readRequest(bytes.span, limits: limits)
      #expect(whole == .refused(.headTooLarge))
    }
  }

  @Test func whatIsWrongWithinTheLimitIsSaidRatherThanTheLimit() {
    let limits = HeadLimits(bytes: 64, fields: 128)
    let bytes = octets("GET http://a/ HTTP/1.1\r\nHost : a\r\nX: " + String(repeating: "x", count: 100))
    let verdict = readRequest(bytes.span, limits: limits)
    #expect(verdict == .refused(.spaceBeforeColon))
  }

  @Test func whatIsWrongBehindTheLimitDoesNotCount() {
    let limits = HeadLimits(bytes: 64, fields: 128)
    let bytes = octets("GET http://a/ HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: 100) + "\n")
    let memory = GuardedMemory(capacity: 4096)
    let verdict = memory.lend(bytes) { readRequest($0, limits: limits) }
    #expect(verdict == .refused(.headTooLarge))
    examinePrefixes(bytes, verdict, memory) { readRequest($0, limits: limits) }
  }

  @Test func exactlyAsManyFieldsAsTheLimitAreTaken() {
    let limits = HeadLimits(bytes: 8192, fields: 10)
    let memory = GuardedMemory(capacity: 8192)
    for (count, fits) in [(9, true), (10, true), (11, false), (12, false)] {
      let fields = (1..<count).map { "F\($0): v\r\n" }.joined()
      let bytes = octets("GET http://a/ HTTP/1.1\r\nHost: a\r\n\(fields)\r\n")
      let verdict = memory.lend(bytes) { readRequest($0, limits: limits) }
      if fits {
        guard case .accepted = verdict else {
          Issue.record("\(count) fields: \(verdict)")
          continue
        }
      } else {
        #expect(verdict == .refused(.tooManyFields), "\(count) fields")
      }
      examinePrefixes(bytes, verdict, memory) { readRequest($0, limits: limits) }
    }
  }
}

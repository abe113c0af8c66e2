// Every response of Tests/Responses/corpus.txt, read as the proxy reads it: whole, as every prefix, and with something after it.
// What of it has to do with bodies is tried by test_odd_responses.py alone.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

struct CorpusCase: Sendable, CustomTestStringConvertible {
  var name = ""
  var bytes: [UInt8] = []
  var verdict = ""

  var testDescription: String { name }

  static let all: [CorpusCase] = {
    var cases: [CorpusCase] = []
    for text in sharedLines("Responses/corpus.txt") {
      guard let separator = text.firstRange(of: ": ") else { continue }
      let value = String(text[separator.upperBound...])
      switch text[..<separator.lowerBound] {
      case "case": cases.append(CorpusCase(name: value))
      case "bytes": cases[cases.count - 1].bytes = unescaped(value)
      case "verdict": cases[cases.count - 1].verdict = value
      default: continue
      }
    }
    return cases
  }()
}

@Suite struct ResponseCorpusTests {
  private static func read(_ bytes: Span<UInt8>) -> Verdict {
    var head = ResponseHead()
    var mended = ByteBuffer()
    switch head.readMending(bytes, limits: HeadLimits(bytes: 64 << 10, fields: 128), toHead: false, into: &mended) {
    case .incomplete: return .incomplete
    case .invalid(let fault): return .refused(fault)
    case .complete(let count):
      // What is mended is strict.
      if !head.mendings.isEmpty {
        var again = ResponseHead()
        let limits = HeadLimits(bytes: mended.count, fields: 128)
        #expect(again.read(mended.bytes, limits: limits, toHead: false) == .complete(count: mended.count))
      }
      return .accepted(count: count, head.mendings.text)
    }
  }

  @Test func theCorpusIsThere() { #expect(CorpusCase.all.count >= 100) }

  @Test(arguments: CorpusCase.all) func aCase(one: CorpusCase) {
    // 1xx come before.
    var bytes = one.bytes
    while bytes.starts(with: Array("HTTP/1.1 100".utf8)) {
      guard case .accepted(let count, _) = Self.read(bytes.span) else { break }
      bytes.removeFirst(count)
    }
    let verdict = Self.read(bytes.span)
    let words = one.verdict.split(separator: " ").map(String.init)
    switch (words[0], verdict) {
    case ("pass", .accepted(_, "")), ("cut", .accepted(_, "")): break
    case ("mend", .accepted(_, let mended)): #expect(mended == words[1])
    case ("refuse", .refused(let fault)): #expect(fault.rawValue == words[1])
    case ("refuse", .incomplete): #expect(words[1] == MessageFault.truncated.rawValue)
    // The fault is in the body.
    case ("refuse", .accepted): #expect(words[1].contains("chunk") || one.verdict == "refuse bare-lf")
    default: Issue.record("\(one.verdict): \(verdict)")
    }
    let memory = GuardedMemory(capacity: bytes.count + 4096)
    guard case .accepted(let count, _) = verdict else {
      return examinePrefixes(bytes, verdict, memory) { Self.read($0) }
    }
    examinePrefixes(Array(bytes.prefix(count)), verdict, memory) { Self.read($0) }
    for tail in trailingData {
      let longer = memory.lend(bytes.prefix(count) + octets(tail)) { Self.read($0) }
      #expect(longer == verdict, "with \(shown(octets(tail))) after it")
    }
  }
}

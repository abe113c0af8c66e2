// Every response of Tests/Responses/corpus.txt, read as the proxy reads it: whole, as every prefix, and with something after it.
// What of it has to do with bodies is tried by test_odd_responses.py alone.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

#if canImport(Glibc)
  import Glibc
#endif

struct CorpusCase: Sendable, CustomTestStringConvertible {
  var name = ""
  var bytes: [UInt8] = []
  var verdict = ""

  var testDescription: String { name }

  static let all: [CorpusCase] = {
    let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(2).joined(separator: "/")
    var cases: [CorpusCase] = []
    for line in contents("\(root)/Responses/corpus.txt").split(separator: 0x0a) {
      let text = String(decoding: line, as: UTF8.self)
      guard let separator = text.firstRange(of: ": "), !text.hasPrefix("#") else { continue }
      let value = String(text[separator.upperBound...])
      switch text[..<separator.lowerBound] {
      case "case": cases.append(CorpusCase(name: value))
      case "bytes": cases[cases.count - 1].bytes = unescaped(Array(value.utf8))
      case "verdict": cases[cases.count - 1].verdict = value
      default: continue
      }
    }
    return cases
  }()

  private static func contents(_ path: String) -> [UInt8] {
    guard let file = fopen(path, "r") else { return [] }
    defer { fclose(file) }
    var all: [UInt8] = []
    while case let byte = fgetc(file), byte >= 0 { all.append(UInt8(byte)) }
    return all
  }

  private static func unescaped(_ text: [UInt8]) -> [UInt8] {
    var bytes: [UInt8] = []
    var at = 0
    while at < text.count {
      guard text[at] == 0x5c else {
        bytes.append(text[at])
        at += 1
        continue
      }
      switch text[at + 1] {
      case UInt8(ascii: "r"): bytes.append(0x0d)
      case UInt8(ascii: "n"): bytes.append(0x0a)
      case UInt8(ascii: "t"): bytes.append(0x09)
      case UInt8(ascii: "x"):
        bytes.append((text[at + 2].hexadecimalValue ?? 0) << 4 | (text[at + 3].hexadecimalValue ?? 0))
        at += 2
      default: bytes.append(text[at + 1])
      }
      at += 2
    }
    return bytes
  }
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

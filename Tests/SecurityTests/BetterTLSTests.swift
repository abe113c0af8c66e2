// Netflix's BetterTLS: 81 cases of path building, 9,491 of name constraints. The chains are no part of the repository; where
// ../shared/data/bettertls is not there the tests say so and pass.

import COpenSSL
import Glibc
import Security
import Testing

@Suite struct BetterTLSTests {
  /// The chains are valid for a year from 2026-11-19; 2026-12-01T00:00:00Z.
  private static let seconds: Int64 = 1_796_083_200
  private static let directory =
    #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(4).joined(separator: "/")
    + "/shared/data/bettertls"

  private struct Case {
    let id: String
    let host: String
    let expected: String
    let certificates: [[UInt8]]
  }

  private struct Tally {
    var count = 0
    var wrong: [String] = []
    var softDeviations: [String: Int] = [:]
  }

  @Test func everyPathIsFoundThatIsThere() throws {
    guard let tally = try Self.run("pathbuilding.jsonl.gz") else { return }
    #expect(tally.count == 81)
    #expect(tally.wrong == [])
    #expect(tally.softDeviations == [:])
  }

  @Test func nameConstraintsHold() throws {
    guard let tally = try Self.run("nameconstraints.jsonl.gz") else { return }
    #expect(tally.count == 9491)
    #expect(tally.wrong == [])
    print("BetterTLS name constraints: deviations from what should be, not must: \(tally.softDeviations)")
  }

  private static func run(_ name: String) throws -> Tally? {
    guard access("\(directory)/\(name)", R_OK) == 0 else {
      print("BetterTLS: no \(directory)/\(name), nothing tested")
      return nil
    }
    let root = base64(try #require(output(of: "cat '\(directory)/root.der.b64'"))[...])
    let anchors = try TrustAnchors.read(pem: root, origin: "BetterTLS").get()
    let policy = SecurityPolicy(SecurityPolicy.Settings())
    var tally = Tally()
    for line in try #require(output(of: "gzip -dc '\(directory)/\(name)'")).split(separator: 0x0a) {
      let one = try #require(read(line))
      tally.count += 1
      let isTrusted = isTrusted(one, policy, anchors)
      switch one.expected {
      case "PASS", "FAIL":
        if isTrusted != (one.expected == "PASS") { tally.wrong.append("\(one.id) for \(one.host): \(one.expected)") }
      default:
        if isTrusted != (one.expected == "SOFT_PASS") { tally.softDeviations[one.expected, default: 0] += 1 }
      }
    }
    return tally
  }

  private static func isTrusted(_ one: Case, _ policy: SecurityPolicy, _ anchors: TrustAnchors) -> Bool {
    let identity: ReferenceIdentity = one.host == "127.0.0.1" ? .address([127, 0, 0, 1]) : .name(one.host)
    guard case .success(let chain) = PresentedChain.decode(one.certificates) else { return false }
    guard case .success = policy.evaluate(chain, for: identity, systemAnchors: anchors, at: seconds) else {
      return false
    }
    return true
  }

  /// The lines are JSON without escapes and without other strings:
  /// `{"id":0,"hostname":"…","expected":"…","certificates":["…","…"]}`
  private static func read(_ line: ArraySlice<UInt8>) -> Case? {
    let strings = strings(line)
    func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
    guard strings.count > 6, [0, 1, 3, 5].map({ text(strings[$0]) }) == ["id", "hostname", "expected", "certificates"]
    else { return nil }
    let id = line.dropFirst(6).prefix { $0 != 0x2c }
    return Case(
      id: text(id), host: text(strings[2]), expected: text(strings[4]), certificates: strings[6...].map(base64))
  }

  /// What stands between quotes.
  private static func strings(_ line: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
    var quotes: [Int] = []
    line.withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress else { return }
      var at = 0
      while let found = memchr(base + at, 0x22, bytes.count - at) {
        quotes.append(line.startIndex + (UnsafeRawPointer(found) - base))
        at = UnsafeRawPointer(found) - base + 1
      }
    }
    return stride(from: 0, to: quotes.count - 1, by: 2).map { line[quotes[$0] + 1..<quotes[$0 + 1]] }
  }

  /// OpenSSL's decoder and not the one under test.
  private static func base64(_ text: ArraySlice<UInt8>) -> [UInt8] {
    let text = Array(text.last == 0x0a ? text.dropLast() : text)
    let padding = text.suffix(2).count { $0 == 0x3d }
    var bytes = [UInt8](repeating: 0, count: text.count / 4 * 3)
    guard EVP_DecodeBlock(&bytes, text, Int32(text.count)) == bytes.count else { return [] }
    return Array(bytes.dropLast(padding))
  }

  private static func output(of command: String) -> [UInt8]? {
    guard let stream = popen(command, "r") else { return nil }
    var bytes: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = fread(&part, 1, part.count, stream)
      if count == 0 { break }
      bytes += part.prefix(count)
    }
    return pclose(stream) == 0 ? bytes : nil
  }
}

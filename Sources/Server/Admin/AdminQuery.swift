// The query of a request to the admin API: names and values (RFC 3986, 3.4), with percent-encoding. Tests:
// AdminQueryTests.

import Bytes

enum AdminQuery {
  struct Fault: Error, Equatable {
    let sentence: String
  }

  /// What is wrong with the names in a query. If a misspelt one were ignored, the answer would be about something else.
  static func fault(in query: String, expecting names: [String]) -> Fault? {
    for part in query.split(separator: "&") {
      let name = part.prefix { $0 != "=" }
      if let decoded = decoded(name), names.contains(decoded) { continue }
      let expected = names.isEmpty ? "this resource takes no query" : "expected \(alternatives(names))"
      return Fault(sentence: "unknown name '\(name.prefix(longestName))' in the query; \(expected)")
    }
    return nil
  }

  /// How much of an unknown name fits in a message.
  private static let longestName = 40

  private static func alternatives(_ names: [String]) -> String {
    names.count < 2 ? names.joined() : "\(names.dropLast().joined(separator: ", ")) or \(names[names.count - 1])"
  }

  /// What is named, as it is written.
  static func names(in query: String) -> [Substring] { query.split(separator: "&").map { $0.prefix { $0 != "=" } } }

  /// The values of a name, in order. Text without blanks and control characters: hosts may be written in their own
  /// script.
  static func values(of name: String, in query: String) -> Result<[String], Fault> {
    var values: [String] = []
    for part in query.split(separator: "&") {
      let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard decoded(pair[0]) == name else { continue }
      guard let value = decoded(pair.count == 2 ? pair[1] : "") else {
        return .failure(
          Fault(sentence: "expected text without blanks and control characters as the value of '\(name)' in the query"))
      }
      values.append(value)
    }
    return .success(values)
  }

  private static func decoded(_ text: Substring) -> String? {
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let first = rest.popFirst() {
      guard first == 0x25 else {
        bytes.append(first)
        continue
      }
      guard let high = rest.popFirst()?.hexadecimalValue, let low = rest.popFirst()?.hexadecimalValue
      else { return nil }
      bytes.append(high << 4 | low)
    }
    guard bytes.allSatisfy({ $0 > 0x20 && $0 != 0x7f }) else { return nil }
    return String(validating: bytes, as: UTF8.self)
  }
}

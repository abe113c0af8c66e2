// The query of a request to the admin API: names and values (RFC 3986, 3.4), with percent-encoding. Tests: AdminQueryTests.

import Bytes

enum AdminQuery {
  struct Fault: Error, Equatable {
    let sentence: String
  }

  /// The values of a name, in order. They are printable ASCII: kinds of events and hosts are nothing else. Other names are
  /// passed over.
  static func values(of name: String, in query: String) -> Result<[String], Fault> {
    var values: [String] = []
    for part in query.split(separator: "&") {
      let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard decoded(pair[0]) == name else { continue }
      guard let value = decoded(pair.count == 2 ? pair[1] : "") else {
        return .failure(Fault(sentence: "expected printable ASCII as the value of '\(name)' in the query"))
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
    return bytes.allSatisfy { $0 > 0x20 && $0 < 0x7f } ? String(decoding: bytes, as: UTF8.self) : nil
  }
}

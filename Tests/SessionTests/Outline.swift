// A transcript in outline. What every head has, and what every answer of the proxy itself has, is one line: a start line
// with `…` behind it. It is left out only if it is there to the letter, so an outline asserts as much as what it stands
// for. Where heads and answers are the subject, a play shows everything.
//
//   > GET /x HTTP/1.1 to b.example …     Host first and our Via last; without a host, it is a.example
//   < HTTP/1.1 200 OK …                  Date: today first and our Via last
//   < HTTP/1.1 100 Continue …            our Via last
//   < HTTP/1.1 403 denied ref=REF001 …   an answer of the proxy, complete and consistent
//   < problem: DETAIL {…}                its detail, and the members that not every answer has

import Testing

@testable import Session

enum Outline {
  static func of(_ lines: [String]) -> [String] {
    var result: [String] = []
    var rest = lines[...]
    while let line = rest.popFirst() {
      guard let arrow = line.first, isStartLine(line), let end = rest.firstIndex(of: String(arrow)) else {
        result.append(line)
        continue
      }
      var fields = Array(rest[..<end])
      let next = end + 1 < rest.endIndex ? rest[end + 1] : ""
      if let text = problem(line, fields, next) {
        result.append("\(line) …")
        result += fields.dropFirst(5)
        result.append(text)
        rest = rest[(end + 2)...]
      } else if let host = usual(line, &fields) {
        result.append("\(line)\(host) …")
        result += fields
        rest = rest[(end + 1)...]
      } else {
        result.append(line)
      }
    }
    return result
  }

  private static func isStartLine(_ line: String) -> Bool {
    line.hasPrefix("< HTTP/1.1 ") || line.hasPrefix("> ") && line.hasSuffix(" HTTP/1.1")
  }

  /// Takes out of `fields` what all messages on this way have, and answers how an unusual host is shown; nil: they have
  /// not all of it.
  private static func usual(_ line: String, _ fields: inout [String]) -> String? {
    if line.hasPrefix("<") {
      guard fields.last == "< Via: 1.1 sallyport" else { return nil }
      if !line.hasPrefix("< HTTP/1.1 1") {
        guard fields.first == "< Date: today" else { return nil }
        fields.removeFirst()
      }
      fields.removeLast()
      return ""
    }
    guard let host = fields.first, host.hasPrefix("> Host: "), fields.last == "> Via: 1.1 sallyport (7F3K2A9Q)" else {
      return nil
    }
    fields = Array(fields.dropFirst().dropLast())
    return host == "> Host: a.example" ? "" : " to \(host.dropFirst("> Host: ".count))"
  }

  /// What an answer of the proxy says; nil: it is none, or not as all of them are. ProblemTests has the rows of the
  /// kinds.
  private static func problem(_ line: String, _ fields: [String], _ content: String) -> String? {
    let words = line.dropFirst("< HTTP/1.1 ".count).split(separator: " ")
    guard words.count >= 3, let kind = Problem.Kind.allCases.first(where: { "\($0.token)" == words[1] }),
      "\(kind.status)" == words[0], let reference = words.last?.dropFirst("ref=".count)
    else { return nil }
    var body = content[...]
    let begin =
      "< content: {\"type\":\"urn:sallyport:problem:\(kind.token)\",\"title\":\"\(kind.title)\",\"status\":\(kind.status),\"detail\":\""
    guard body.trimPrefix(begin, and: ",\"ref\":\"\(reference)\"}\\n"), let detail = body.popText() else { return nil }
    let rule = words.count > 3 ? words[2].dropFirst("rule=".count) : nil
    if let rule, !body.trimPrefix(",\"rule\":\"\(rule)\"", and: "") { return nil }
    guard body.trimPrefix(",\"error\":\"\(kind.errorType)\",\"nsurlError\":\(kind.row.nsurlError)", and: "") else {
      return nil
    }
    let status =
      "< Proxy-Status: sallyport; error=\(kind.errorType); details=\"\(detail)\"\(rule.map { "; rule=\"\($0)\"" } ?? "")"
    let head = [
      "< Date: Sun, 06 Nov 1994 08:49:37 GMT", "< Content-Type: application/problem+json", nil,
      "< Cache-Control: no-store", status,
    ]
    guard fields.count >= 5, zip(fields, head).allSatisfy({ $1 == nil || $0 == $1 }),
      fields[2].hasPrefix("< Content-Length: ")
    else { return nil }
    // Advice is the same for the same decision: AdviceTests.
    if let advice = body.firstRange(of: ",\"allow\":\"") {
      var text = body[advice.upperBound...]
      guard text.popText() != nil else { return nil }
      body = body[..<advice.lowerBound] + text
    }
    return "< problem: \(detail)" + (body.isEmpty ? "" : " {\(body.dropFirst())}")
  }
}

extension Substring {
  /// Takes both away if they are there.
  fileprivate mutating func trimPrefix(_ prefix: String, and suffix: String) -> Bool {
    guard hasPrefix(prefix), hasSuffix(suffix) else { return false }
    self = dropFirst(prefix.count).dropLast(suffix.count)
    return true
  }

  /// Takes the rest of a JSON string, as the transcript shows it, with its closing quote.
  fileprivate mutating func popText() -> Substring? {
    var at = startIndex
    while at < endIndex, self[at] != "\"" {
      // `shown` writes a backslash as two.
      let isEscape = self[at...].hasPrefix("\\\\\"")
      at = index(at, offsetBy: isEscape ? 3 : 1)
    }
    guard at < endIndex else { return nil }
    defer { self = self[index(after: at)...] }
    return self[..<at]
  }
}

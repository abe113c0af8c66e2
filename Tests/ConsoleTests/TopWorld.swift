// What the tests of `sallyport top` share: answers of the daemon as text, and a model that has had them.

import Testing

@testable import Console

func json(_ text: String) -> JSONValue {
  guard let value = JSONValue(Array(text.utf8)) else {
    Issue.record("no JSON: \(text)")
    return .null
  }
  return value
}

/// 2026-11-20T15:23:56Z
let testWall: Int64 = 1_795_188_236_000

func moment(_ milliseconds: Int64) -> TopMoment { TopMoment(monotonic: milliseconds, wall: testWall + milliseconds) }

func statusText(total: Int = 0, failed: String = "{}", bytes: Int = 0, more: String = "") -> String {
  """
  {"version": "1.2", "started": "2026-11-20T15:00:00.000Z", "uptime_seconds": 3700, "reachability": "wired",
   "policy": {"rules": 2, "loaded": "2026-11-20T15:23:00.000Z", "failure": null},
   "connections": {"clients": 3, "tunnels": 1}, "exchanges": {"total": \(total), "done": 0, "failed": \(failed)},
   "bytes": {"in": 0, "out": \(bytes)}, "warnings": []\(more)}
  """
}

func decisionText(
  _ reference: String, host: String = "a.test", user: String = "ci", rule: String = "r", outcome: String = "done",
  bytes: Int = 100, second: Int = 50
) -> String {
  """
  {"time": "2026-11-20T15:23:\(second).000Z", "ref": "\(reference)", "client": "127.0.0.1:9", "method": "GET",
   "target": "http://\(host)/x", "user": "\(user)", "unit": null, "program": "/usr/bin/curl", "rule": "\(rule)",
   "outcome": "\(outcome)", "reason": "rule-denies", "total_ms": 500, "bytes_in": 0, "bytes_out": \(bytes)}
  """
}

func connectionText(_ reference: String, host: String = "a.test", bytes: Int = 100) -> String {
  """
  {"client": "127.0.0.1:9", "state": "tunnel", "request": "CONNECT \(host):443", "ref": "\(reference)", "rule": "r",
   "user": "ci", "unit": null, "program": "/usr/bin/curl", "host": "\(host)", "port": 443, "bytes_in": 0,
   "bytes_out": \(bytes), "age_ms": 5000}
  """
}

func list(_ texts: [String]) -> String { "[" + texts.joined(separator: ",") + "]" }

extension TopModel {
  mutating func take(_ resource: TopResource, _ text: String, at milliseconds: Int64 = 0, status: Int = 200) {
    take(resource, status: status, content: Array(text.utf8), at: moment(milliseconds))
  }

  mutating func type(_ keys: String) {
    for scalar in keys.unicodeScalars { _ = press(.character(scalar)) }
  }

  var text: [String] { screen.map { line in line.map(\.text).joined() } }

  /// Cells of a column.
  func column(_ index: Int) -> [String] { rows.map { $0.cells[index].text } }
}

// Requests of a made-up past, and policies in a made-up file.

import Policy

@testable import History

/// Users of the made-up machine.
let people: [String: UInt32] = ["ada": 1001, "bob": 1002, "ci": 1003, "dora": 1004, "eve": 1005]

/// What an asker does.
struct Asker {
  let user: String
  var unit: String? = nil

  /// `GET https://a.example/x`, or `CONNECT a.example:443`.
  func asks(_ text: String, denied: Bool = false, count: Int = 1, last: Int64 = 1_795_000_000_000) -> HistoryRequest {
    let parts = text.split(separator: " ", maxSplits: 1).map(String.init)
    var kind = HistoryKind()
    kind[.known] = "known"
    kind[.user] = user
    kind[.uid] = people[user].map { "\($0)" }
    kind[.unit] = unit
    kind[.cgroup] = unit.map { "system.slice/\($0)" }
    kind[.method] = parts[0]
    kind[.decision] = denied ? "deny" : "allow"
    kind[.reason] = denied ? "default-denies" : "default"
    var path = ""
    var authority = parts[1]
    kind[.scheme] = "https"
    if let scheme = authority.firstRange(of: "://") {
      kind[.scheme] = String(authority[..<scheme.lowerBound])
      authority = String(authority[scheme.upperBound...])
      if let slash = authority.firstIndex(of: "/") {
        path = String(authority[slash...])
        authority = String(authority[..<slash])
      }
    }
    let host = authority.split(separator: ":")
    kind[.host] = String(host[0])
    kind[.port] = host.count > 1 ? String(host[1]) : kind[.scheme] == "http" ? "80" : "443"
    return HistoryRequest(kind: kind, path: path, count: count, last: last)
  }
}

struct MadeUpFiles: PolicyFiles {
  let text: String

  func read(_ path: String, limit: Int) -> Result<[UInt8], FileFault> { .success(Array(text.utf8)) }
  func expand(_ pattern: String, in directory: String) -> Result<[String], FileFault> { .success([]) }
  func isReadableByOthers(_ path: String) -> Bool { false }
  func environment(_ name: String) -> [UInt8]? { nil }
  var credentialsDirectory: String? { nil }
  func userID(named name: String) -> Result<UInt32?, FileFault> { .success(people[name]) }

  static func load(_ text: String) -> LoadResult { PolicyLoader.load(path: "p.toml", files: MadeUpFiles(text: text)) }
}

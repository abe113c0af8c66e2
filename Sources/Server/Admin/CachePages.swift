// The admin API's pages about stored answers, and how answers are purged. Tests: CachePagesTests,
// Tests/EndToEndTests/test_cache_admin.py.

import Bytes
import Cache
import Policy
import Session
import Transport

/// Which stored answers a request is about.
struct CacheSelection: Sendable {
  var url: ComparableURL? = nil
  var host: String? = nil
  var rule: String? = nil
  /// Stored longer ago than this, in seconds.
  var older: Int64? = nil

  /// What can be decided before an entry of the list is made.
  func mayInclude(_ answer: StoredAnswer) -> Bool {
    if let host = host ?? url?.host, answer.host != host { return false }
    if let rule, answer.rule != rule { return false }
    return true
  }

  /// The values that the columns of a table must have.
  var columns: [(column: String, value: String)] {
    [host ?? url?.host, rule].enumerated().compactMap { index, value in
      value.map { (index == 0 ? "host" : "rule", $0) }
    }
  }

  /// `now`: milliseconds since 1970.
  func includes(_ answer: ListedAnswer, at now: Int64) -> Bool {
    if let url, ComparableURL(answer.url) != url { return false }
    if let host, answer.host != host { return false }
    if let rule, answer.rule != rule { return false }
    if let older, (now - answer.head.received) / 1000 < older { return false }
    return true
  }
}

/// The store in numbers.
struct CacheFacts {
  var answers = 0
  var bytes = 0
  var limit = 0
  var evictions: UInt64 = 0
  /// nil: everything is in memory.
  var disk: (answers: Int, bytes: UInt64, limit: Int, evictions: UInt64, fault: String?)?
  /// Requests by how the cache took part in them.
  var results: [(result: CacheResult, count: UInt64)] = []
  var servedBytes: UInt64 = 0

  init(_ cache: SharedCache) {
    (bytes, answers, evictions) = cache.with { ($0.bytes, $0.count, $0.evictions) }
    limit = cache.storage.memoryBytes
    disk = cache.disk.map { disk in
      let facts = disk.facts
      return (facts.answers, facts.bytes, cache.storage.diskBytes, facts.evictions, facts.fault)
    }
    results = CacheResult.allCases.map { ($0, cache.count(of: $0)) }
    servedBytes = cache.servedBytes.load(ordering: .relaxed)
  }

  /// Requests that the origin sent no content for, and all requests.
  var served: UInt64 { results.reduce(0) { $0 + ($1.result.isServedFromStore ? $1.count : 0) } }
  var requests: UInt64 { results.reduce(0) { $0 + $1.count } }
}

enum CachePages {
  /// The most answers on one page: some megabytes.
  static let mostListed = 10_000
  /// Takes the place of a value that may be a secret.
  private static let unshown = "(not shown)"

  // MARK: The store

  static func status(_ facts: CacheFacts) -> JSONText {
    .object([
      ("answers", .number(facts.answers)), ("bytes", .number(facts.bytes)), ("limit", .number(facts.limit)),
      ("evictions", .number(Int(clamping: facts.evictions))),
      (
        "disk",
        facts.disk.map { disk in
          .object([
            ("answers", .number(disk.answers)), ("bytes", .number(Int(clamping: disk.bytes))),
            ("limit", .number(disk.limit)), ("evictions", .number(Int(clamping: disk.evictions))),
            ("fault", disk.fault.map { .string($0) } ?? .null),
          ])
        } ?? .null
      ),
      ("results", .object(facts.results.map { ($0.result.rawValue, .number(Int(clamping: $0.count))) })),
      ("served_bytes", .number(Int(clamping: facts.servedBytes))),
    ])
  }

  static func statusText(_ facts: CacheFacts) -> String {
    let results = facts.results.filter { $0.count > 0 }.map { "\($0.count) \($0.result.rawValue)" }
    let ratio = facts.requests == 0 ? "" : ": " + results.joined(separator: ", ")
    let disk = facts.disk.map { disk in
      "on disk   \(String.counted(disk.answers, "answer")), \(StatusPage.size(disk.bytes)) of "
        + "\(StatusPage.size(UInt64(disk.limit))); \(disk.evictions) evicted"
        + (disk.fault.map { "\n          nothing is written: \($0)" } ?? "")
    }
    var lines = [
      "stored    \(String.counted(facts.answers, "answer")), \(StatusPage.size(UInt64(facts.bytes))) of "
        + "\(StatusPage.size(UInt64(facts.limit))); \(facts.evictions) evicted"
    ]
    if let disk { lines.append(disk) }
    lines.append("requests  \(facts.requests)\(ratio)")
    if facts.requests > 0 {
      lines.append(
        "from it   \(facts.served * 100 / facts.requests) % of the requests, \(StatusPage.size(facts.servedBytes))")
    }
    return lines.joined(separator: "\n") + "\n"
  }

  // MARK: Answers

  static func list(_ cache: SharedCache, _ selection: CacheSelection, at now: Int64) -> (
    answers: [ListedAnswer], more: Int
  ) {
    var listed: [ListedAnswer] = []
    var more = 0
    for answer in cache.list(selection, at: now) {
      if listed.count < mostListed { listed.append(answer) } else { more += 1 }
    }
    return (listed, more)
  }

  /// `withQueries`: for operators. A query may hold another user's token.
  static func json(
    _ found: (answers: [ListedAnswer], more: Int), withQueries: Bool, at now: Int64
  ) -> JSONText {
    .object([
      ("answers", .array(found.answers.map { json($0, withQueries, at: now) })), ("more", .number(found.more)),
    ])
  }

  private static func json(_ answer: ListedAnswer, _ withQueries: Bool, at now: Int64) -> JSONText {
    let head = answer.head
    return .object([
      ("url", .string(url(answer, withQueries))), ("host", .string(answer.host)), ("rule", .string(answer.rule)),
      ("status", .number(head.status)), ("bytes", .number(Int(clamping: answer.bytes))),
      ("complete", .boolean(answer.isComplete)), ("part", answer.part.map(json) ?? .null),
      ("stored", .string(AdminResources.time(head.received))),
      ("age_seconds", head.age(at: now).map { .number(Int(clamping: $0)) } ?? .null),
      ("ttl_seconds", head.age(at: now) == nil ? .null : .number(Int(clamping: head.timeToLive(at: now)))),
      ("lifetime_seconds", .number(Int(clamping: head.lifetime))), ("because", .string(head.lifetimeSource.rawValue)),
      ("etag", head.entityTag.map { .string(text($0.text)) } ?? .null),
      (
        "vary",
        .object(head.selecting.map { field in (text(field.name), value(field).map { .string($0) } ?? .null) })
      ),
    ])
  }

  private static func json(_ part: StoredPart) -> JSONText {
    .object([("offset", .number(Int(clamping: part.offset))), ("of", .number(Int(clamping: part.total)))])
  }

  static func text(
    _ found: (answers: [ListedAnswer], more: Int), withQueries: Bool, at now: Int64
  ) -> String {
    if found.answers.isEmpty { return "nothing is stored\n" }
    var lines = found.answers.map { answer in
      let size = StatusPage.size(answer.bytes)
      return "\(answer.head.status)  \(pad(size, 10))  \(pad(freshness(answer.head, at: now), 18))  "
        + url(answer, withQueries)
    }
    if found.more > 0 { lines.append("and \(found.more) more") }
    return lines.joined(separator: "\n") + "\n"
  }

  /// One URL, in full.
  static func showText(_ answers: [ListedAnswer], withQueries: Bool, at now: Int64) -> String {
    if answers.isEmpty { return "nothing is stored for this URL\n" }
    return answers.map { answer in
      let head = answer.head
      var lines = [url(answer, withQueries)]
      lines.append(
        "  status   \(head.status), \(StatusPage.size(answer.bytes))\(answer.isComplete ? "" : " so far")"
          + (answer.part.map { ", from byte \($0.offset) of \($0.total)" } ?? "")
      )
      lines.append("  stored   \(AdminResources.time(head.received)), by rule \(answer.rule)")
      lines.append(
        "  age      \(head.age(at: now).map { String.duration(seconds: $0) } ?? "not known: the clock was set back")")
      let lifetime =
        head.lifetimeSource == .none
        ? "" : ": \(String.duration(seconds: head.lifetime)) by \(head.lifetimeSource.rawValue)"
      lines.append("  fresh    \(freshness(head, at: now))\(lifetime)")
      if head.isNeverServedStale { lines.append("  stale    never served: the origin forbids it") }
      if let tag = head.entityTag { lines.append("  etag     \(text(tag.text))") }
      for field in head.selecting {
        lines.append("  varies   \(text(field.name)): \(value(field) ?? "(absent)")")
      }
      return lines.joined(separator: "\n") + "\n"
    }.joined(separator: "\n")
  }

  private static func freshness(_ head: StoredHead, at now: Int64) -> String {
    if head.age(at: now) == nil { return "not used: the clock was set back" }
    let left = head.timeToLive(at: now)
    return left > 0 ? "for \(String.duration(seconds: left))" : "stale for \(String.duration(seconds: -left))"
  }

  private static func pad(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.utf8.count))
  }

  private static func url(_ answer: ListedAnswer, _ withQuery: Bool) -> String {
    guard !withQuery, let mark = answer.url.firstIndex(of: 0x3f) else { return text(answer.url) }
    return text(Array(answer.url[...mark])) + "…"
  }

  /// The value of a request field that Vary names; nil: there was none. An origin may name any, and with it what the
  /// policy has added: credentials, cookies, keys. What is negotiated is no secret.
  private static func value(_ field: StoredHead.SelectingField) -> String? {
    field.value.map { field.name.starts(with: "accept".utf8) ? text($0) : unshown }
  }

  /// URLs and tags come from origins and clients: characters that are not printable are replaced.
  private static func text(_ bytes: [UInt8]) -> String {
    String(decoding: bytes.map { $0 > 0x20 && $0 < 0x7f ? $0 : 0x3f }, as: UTF8.self)
  }
}

extension CacheResult {
  /// The origin sent no content for the request.
  var isServedFromStore: Bool {
    switch self {
    case .hit, .stale, .offline, .revalidated, .collapsed: true
    case .stored, .miss: false
    }
  }
}

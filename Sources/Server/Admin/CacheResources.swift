// The admin API's resources about stored answers: /v1/cache, /v1/cache/answers, /v1/cache/purge. CachePages writes the
// pages. Tests: Tests/EndToEndTests/test_cache_admin.py.

import Bytes
import Cache
import Transport

struct CacheResources {
  let shared: SharedState

  /// GET /v1/cache, GET /v1/cache?url=…, GET /v1/cache/answers.
  func show(_ call: AdminCall) {
    guard let cache = shared.cache else { return refuse(call) }
    let now = cache.time
    switch selection(call.request.query) {
    case .failure(let fault): call.refuse(400, fault.sentence)
    case .success(let selection) where call.request.path == "/v1/cache" && selection.url == nil:
      call.write(
        call.wantsText
          ? .text(CachePages.statusText(CacheFacts(cache))) : .json(CachePages.status(CacheFacts(cache))))
    case .success(let selection):
      let found = CachePages.list(cache, selection, at: now)
      let isShown = selection.url != nil
      let status = isShown && found.answers.isEmpty ? 404 : 200
      if !call.wantsText {
        return call.write(.json(CachePages.json(found, withQueries: call.mayAct, at: now), status: status))
      }
      let text =
        isShown
        ? CachePages.showText(found.answers, withQueries: call.mayAct, at: now)
        : CachePages.text(found, withQueries: call.mayAct, at: now)
      call.write(.text(text, status: status))
    }
  }

  /// POST /v1/cache/purge?…
  func purge(_ call: AdminCall) {
    guard let cache = shared.cache else { return refuse(call) }
    let now = cache.time
    switch selection(call.request.query) {
    case .failure(let fault): call.refuse(400, fault.sentence)
    case .success(let selection):
      let names = AdminQuery.names(in: call.request.query)
      if names.contains("all"), names.count > 1 {
        return call.refuse(400, "expected 'all=yes' alone in the query")
      }
      if names.isEmpty {
        return call.refuse(
          400, "expected what to purge: 'url', 'host', 'rule', 'older' or 'all=yes' in the query")
      }
      let removed = cache.purge(selection, at: now)
      call.write(
        call.wantsText
          ? .text("purged \(String.counted(removed, "answer"))\n") : .json(.object([("purged", .number(removed))])))
    }
  }

  private func refuse(_ call: AdminCall) {
    call.refuse(404, "nothing is stored: the configuration has no [cache]")
  }

  private func selection(_ query: String) -> Result<CacheSelection, AdminQuery.Fault> {
    var selection = CacheSelection()
    for name in ["url", "host", "rule", "older", "all"] {
      let given: String
      switch AdminQuery.values(of: name, in: query) {
      case .failure(let fault): return .failure(fault)
      case .success(let values):
        if values.count > 1 { return .failure(AdminQuery.Fault(sentence: "expected one '\(name)' in the query")) }
        guard let value = values.first else { continue }
        given = value
      }
      switch name {
      case "url": selection.url = ComparableURL(Array(given.utf8))
      case "host": selection.host = given.lowercased()
      case "rule": selection.rule = given
      case "older":
        guard let seconds = Int64(given), seconds >= 0 else {
          return .failure(AdminQuery.Fault(sentence: "expected a number of seconds as 'older', found '\(given)'"))
        }
        selection.older = seconds
      default:
        if given != "yes" { return .failure(AdminQuery.Fault(sentence: "expected 'all=yes', found '\(given)'")) }
      }
    }
    return .success(selection)
  }
}

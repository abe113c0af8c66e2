// `[cache]`, `[rule.cache]` and `cache_policy`: how they are read, what is wrong or does nothing in them, what is inherited, and
// what `explain` says.

import Testing

@testable import Policy

@Suite struct CachingTests {
  private static let rule = "[[rule]]\nname = \"a\"\nschemes = [\"http\"]\n"

  // MARK: [cache]

  @Test func withoutTheTableNothingIsStored() throws {
    #expect(try loaded("").configuration.cache == nil)
    #expect(try loaded("[cache]").configuration.cache == CacheStorage())
    let storage = CacheStorage()
    #expect(storage.memoryBytes == 64 << 20 && storage.purgeTo == 0.6)
    #expect(storage.objectBytes == 1 << 30 && storage.targets == [])
  }

  @Test(arguments: [
    ("1MiB", "1KiB", "0.1"), ("1024GiB", "1024GiB", "0.95"), ("3MiB", "2MiB", "0.5"),
  ]) func theStoreIsAsLargeAsItIsSaidToBe(memory: String, object: String, part: String) throws {
    let storage = try #require(
      try loaded("[cache]\nmemory = \"\(memory)\"\nobject = \"\(object)\"\npurge_to = \(part)").configuration.cache)
    #expect(storage.memoryBytes == Quantity.size.parse(memory).map { Int($0) })
    #expect(storage.objectBytes == Quantity.size.parse(object).map { Int($0) })
    #expect(storage.purgeTo == Double(part))
  }

  @Test func targetedFieldsAreKeptInTheirOrderAndInLowerCase() throws {
    let policy = try loaded("[cache]\ntargets = [\"Sallyport-Cache-Control\", \"CDN-Cache-Control\"]")
    #expect(policy.configuration.cache?.targets == ["sallyport-cache-control", "cdn-cache-control"])
  }

  static let storageRows = [
    LoadRow(
      "a memory that holds no page", "[cache]\nmemory = \"1KiB\"",
      "2:10: error: 'memory' in [cache]: expected a size from 1MiB to 1024GiB, found '1KiB'"),
    LoadRow(
      "an object without a unit", "[cache]\nobject = 5",
      "2:10: error: 'object' in [cache]: expected a size such as \"64KiB\" (units B, KiB, MiB, GiB), found an integer"),
    LoadRow(
      "an object of a few bytes", "[cache]\nobject = \"1023B\"",
      "2:10: error: 'object' in [cache]: expected a size from 1KiB to 1024GiB, found '1023B'"),
    LoadRow(
      "a store that is purged to all of it", "[cache]\npurge_to = 1.0",
      "2:12: error: 'purge_to' in [cache]: expected a number from 0.1 to 0.95, found 1.0"),
    LoadRow(
      "a store that is emptied", "[cache]\npurge_to = 0.05",
      "2:12: error: 'purge_to' in [cache]: expected a number from 0.1 to 0.95, found 0.05"),
    LoadRow(
      "Cache-Control speaks to all", "[cache]\ntargets = [\"Cache-Control\"]",
      "2:12: error: 'targets' in [cache]: expected the name of a targeted field (RFC 9213) such as "
        + "\"CDN-Cache-Control\", found 'Cache-Control'"),
    LoadRow(
      "what is no name of a field", "[cache]\ntargets = [\"a b-cache-control\"]",
      "2:12: error: 'targets' in [cache]: expected the name of a targeted field (RFC 9213) such as "
        + "\"CDN-Cache-Control\", found 'a b-cache-control'"),
    LoadRow(
      "a target that is there already", "[cache]\ntargets = [\"CDN-Cache-Control\", \"cdn-cache-control\"]",
      "2:33: warning: 'targets' in [cache]: 'cdn-cache-control' stands in the list twice"),
    LoadRow(
      "more targets than anybody has",
      "[cache]\ntargets = [\n" + (1...9).map { "\"c\($0)-Cache-Control\",\n" }.joined() + "]",
      "2:11: error: 'targets' in [cache]: expected at most 8 names, found 9"),
    LoadRow(
      "a key that there is not", "[cache]\nmemmory = \"1MiB\"",
      "2:1: error: unknown key 'memmory' in [cache]; did you mean 'memory'?"),
  ]

  @Test(arguments: storageRows) func whatIsWrongOfTheStoreIsSaid(row: LoadRow) { row.check() }

  // MARK: [rule.cache]

  @Test func aRuleStoresWhereItHasTheTable() throws {
    #expect(try loaded("[cache]\n\(Self.rule)").rules[0].cache == nil)
    let silent = try loaded("[cache]\n\(Self.rule)[rule.cache]").rules[0].cache
    #expect(silent == CacheRule())
    #expect(silent?.share == .machine && silent?.collapse == .auto && silent?.offline == 0)
    #expect(silent?.freshFor == nil && silent?.staleIfError == nil)
  }

  @Test func aRuleSaysWhoGetsItAndForHowLong() throws {
    let rule = try loaded(
      """
      [cache]
      \(Self.rule)[rule.cache]
      share = "unit"
      fresh_for = "30d"
      stale_if_error = "0s"
      offline = "2h"
      collapse = "never"
      """
    ).rules[0].cache
    #expect(rule?.share == .unit && rule?.collapse == .never)
    #expect(rule?.freshFor == 30 * 86_400 && rule?.staleIfError == 0 && rule?.offline == 7200)
  }

  static let ruleRows = [
    LoadRow(
      "nobody shares with a host", "[cache]\n\(rule)[rule.cache]\nshare = \"host\"",
      "6:9: error: 'share' in [rule.cache]: expected \"machine\", \"user\" or \"unit\", found 'host'"),
    LoadRow(
      "ages are whole seconds", "[cache]\n\(rule)[rule.cache]\nfresh_for = \"1500ms\"",
      "6:13: error: 'fresh_for' in [rule.cache]: expected whole seconds, found '1500ms'"),
    LoadRow(
      "a duration that is none", "[cache]\n\(rule)[rule.cache]\nstale_if_error = \"x\"",
      "6:18: error: 'stale_if_error' in [rule.cache]: expected a duration such as \"10s\" (units ms, s, m, h, d), found 'x'"
    ),
    LoadRow(
      "a duration without a unit", "[cache]\n\(rule)[rule.cache]\noffline = 7",
      "6:11: error: 'offline' in [rule.cache]: expected a duration such as \"10s\" (units ms, s, m, h, d), found an integer"
    ),
    LoadRow(
      "there is no third way to collapse", "[cache]\n\(rule)[rule.cache]\ncollapse = \"yes\"",
      "6:12: error: 'collapse' in [rule.cache]: expected \"auto\", \"always\" or \"never\", found 'yes'"),
    LoadRow(
      "a key that there is not", "[cache]\n\(rule)[rule.cache]\nfresh = \"1d\"",
      "6:1: error: unknown key 'fresh' in [rule.cache]; did you mean 'fresh_for'?"),
    LoadRow(
      "a word in place of the table", "[cache]\n\(rule)cache = true",
      "5:9: error: 'cache' in [rule]: expected a table, found a boolean"),
    LoadRow(
      "a policy that there is not", "[cache]\n\(rule)[rule.cache]\n[rule.request]\ncache_policy = \"use\"",
      "7:16: error: 'cache_policy' in [rule.request]: expected \"use-protocol\", \"reload-ignoring-cache\", "
        + "\"return-cache-else-load\", \"return-cache-dont-load\" or \"reload-revalidating\", found 'use'; "
        + "did you mean 'use-protocol'?"),
  ]

  @Test(arguments: ruleRows) func whatIsWrongOfARuleIsSaid(row: LoadRow) { row.check() }

  // MARK: What does nothing

  private static func idle(_ table: String, _ request: String = "", action: String = "allow") -> [String] {
    let text = "\(table)\n\(rule)action = \"\(action)\"\n\(request)"
    return PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text])).diagnostics.map(\.message)
  }

  /// What each says is for people and may be put in other words; which key it is about, and what of it, may not.
  @Test func whatDoesNothingIsWarnedOf() {
    func holds(_ seen: [String], _ parts: [String]...) {
      let areAllSaid = zip(seen, parts).allSatisfy { message, parts in parts.allSatisfy { message.contains($0) } }
      #expect(seen.count == parts.count && areAllSaid, "\(seen)")
    }
    holds(Self.idle("[cache]", "[rule.cache]\nshare = \"user\"\n[rule.request]\ncache_policy = \"use-protocol\""))
    holds(Self.idle("", "[rule.cache]"), ["[rule.cache] does nothing", "no [cache]"])
    holds(
      Self.idle("[cache]", "request.cache_policy = \"reload-revalidating\""),
      ["'cache_policy' in [rule.request]", "it does nothing", "no [rule.cache]"])
    holds(
      Self.idle("", "[rule.cache]\n[rule.request]\ncache_policy = \"reload-ignoring-cache\""),
      ["[rule.cache] does nothing", "no [cache]"],
      ["'cache_policy' in [rule.request]", "it does nothing", "no [cache]"])
    holds(
      Self.idle("[cache]", "request.resume = true"),
      ["'resume' in [rule.request]", "it does nothing", "no [rule.cache]"])
    holds(Self.idle("[cache]", "request.resume = false"))
    holds(Self.idle("[cache]", "[rule.cache]\n[rule.request]\nresume = true"))
    holds(Self.idle("", "[rule.cache]", action: "deny"), ["[rule.cache] has no effect in a rule that denies"])
    holds(
      Self.idle("[cache]", "[rule.cache]", action: "deny"), ["[rule.cache] has no effect in a rule that denies"])
  }

  /// It does something without a store: it refuses everything.
  @Test func aRuleThatMayAskNobodyAndHasNothingStoredIsWarnedOf() {
    for (table, missing) in [("[cache]", "no [rule.cache]"), ("", "no [rule.cache]")] {
      let seen = Self.idle(table, "request.cache_policy = \"return-cache-dont-load\"")
      #expect(seen.count == 1 && seen[0].contains("every request of this rule is refused (504)"), "\(seen)")
      #expect(seen.allSatisfy { $0.contains(missing) }, "\(seen)")
    }
    #expect(Self.idle("[cache]", "[rule.cache]\n[rule.request]\ncache_policy = \"return-cache-dont-load\"") == [])
  }

  /// [defaults.request] is every rule's.
  @Test func defaultsThatDoNothingOrRefuseEverythingAreWarnedOf() {
    func seen(_ store: String, _ defaults: String, _ rule: String) -> [String] {
      Self.idle("\(store)\n[defaults.request]\n\(defaults)", rule)
    }
    let never = "cache_policy = \"return-cache-dont-load\""
    let one = seen("[cache]", "resume = true", "")
    #expect(one.count == 1 && one[0].contains("'resume' in [defaults.request]"), "\(one)")
    #expect(one.allSatisfy { $0.contains("no rule has [rule.cache]") }, "\(one)")
    #expect(seen("[cache]", "resume = true\n\(never)", "[rule.cache]") == [])
    let all = seen("[cache]", never, "")
    #expect(all.count == 2, "\(all)")
    #expect(all.contains { $0.contains("every request is refused (504): no rule has [rule.cache]") }, "\(all)")
    #expect(all.contains { $0.contains("every request of rule 'a' is refused (504)") }, "\(all)")
  }

  @Test func aTunnelThatIsNotOpenedPassesItBy() {
    let text = "[cache]\n[[rule]]\nname = \"a\"\n[rule.cache]"
    let seen = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text])).diagnostics
    #expect(seen.map(\.message).contains { $0.hasPrefix("[rule.cache] has no effect on https") }, "\(seen)")
  }

  // MARK: What is inherited

  @Test(arguments: CachePolicy.allCases) func aRuleInheritsWhatItDoesNotSay(policy: CachePolicy) throws {
    let defaults = "[defaults.request]\ncache_policy = \"\(policy.rawValue)\"\n"
    let silent = try loaded("[cache]\n\(defaults)\(Self.rule)[rule.cache]")
    let decision = Decision(verdict: .allow, reason: .rule, rule: 0)
    #expect(silent.request(of: decision).cachePolicy == policy)
    let own = "request.cache_policy = \"reload-revalidating\"\n[rule.cache]"
    #expect(
      try loaded("[cache]\n\(defaults)\(Self.rule)\(own)").request(of: decision).cachePolicy == .reloadRevalidating)
    #expect(try loaded("[cache]\n\(Self.rule)[rule.cache]").request(of: decision).cachePolicy == .useProtocol)
  }

  @Test func whatIsStoredIsARulesAndNeedsTheStore() throws {
    let matched = Decision(verdict: .allow, reason: .rule, rule: 0)
    let unmatched = Decision(verdict: .allow, reason: .defaultAllow, rule: nil)
    let stores = try loaded("[cache]\n\(Self.rule)[rule.cache]\noffline = \"1d\"")
    #expect(stores.cache(of: matched)?.offline == 86_400)
    #expect(stores.cache(of: unmatched) == nil)
    #expect(try loaded("[cache]\n\(Self.rule)").cache(of: matched) == nil)
    let text = "\(Self.rule)[rule.cache]"
    let storeless = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text])).policy
    #expect(try #require(storeless).cache(of: matched) == nil)
  }

  // MARK: explain

  private func explain(_ more: String, _ method: String = "GET", store: String = "[cache]") throws -> Explanation {
    let text = "\(store)\n\(Self.rule)\(more)"
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]))
    return try Explanation(
      by: #require(result.policy), method: method, scheme: .http, host: canonical("a.example"), port: 80, path: "/",
      isTunnel: false)
  }

  private func lines(_ explanation: Explanation) -> [String] {
    explanation.description.split(separator: "\n").drop { $0 != "what will be done:" }.dropFirst().map {
      String($0.dropFirst(2))
    }
  }

  private func said(_ more: String, _ method: String = "GET") throws -> [String] { try lines(explain(more, method)) }

  @Test func explainSaysWhoGetsItAndForHowLong() throws {
    #expect(
      try said("[rule.cache]") == [
        "cache: answers are stored and used as RFC 9111 has it, for every program of the machine",
        "fresh: as the origin says", "equal requests: share a fetch where its answer can be stored",
      ])
    #expect(try said("[rule.cache]", "HEAD") == said("[rule.cache]"))
    let all = """
      [rule.cache]
      share = "user"
      fresh_for = "30d"
      stale_if_error = "1d"
      offline = "2h"
      collapse = "never"
      """
    #expect(
      try said(all) == [
        "cache: answers are stored and used as RFC 9111 has it, for programs of the same user",
        "fresh: for 30d, instead of the origin's word", "on error: a stored answer up to 1d stale",
        "offline: a stored answer up to 2h old", "equal requests: are fetched each",
      ])
    #expect(
      try explain("request = { cache_policy = \"reload-revalidating\", resume = true }\n\(all)").json.contains(
        #""cache": {"policy": "reload-revalidating", "stores": true, "share": "user", "fresh_for_s": 2592000, "#
          + #""stale_if_error_s": 86400, "offline_s": 7200, "resume": true, "collapse": "never"}"#))
    #expect(
      try said("[rule.cache]\nshare = \"unit\"\ncollapse = \"always\"")[0].hasSuffix("for programs of the same unit"))
    #expect(try said("[rule.cache]\ncollapse = \"always\"").last == "equal requests: wait for one another")
  }

  @Test(arguments: [
    (CachePolicy.useProtocol, "as RFC 9111 has it"), (.reloadIgnoringCache, "the origin is asked each time"),
    (.returnCacheElseLoad, "however old; else the origin is asked"),
    (.returnCacheDontLoad, "however old; else 504, and no origin is asked"),
    (.reloadRevalidating, "once the origin has said that it holds"),
  ]) func explainSaysWhenItIsUsed(policy: CachePolicy, expected: String) throws {
    let first = try said("request.cache_policy = \"\(policy.rawValue)\"\n[rule.cache]").first ?? ""
    #expect(first.hasPrefix("cache: ") && first.contains(expected), "\(first)")
  }

  /// RFC 9111, 4.4: what a request changes is not stored any more.
  @Test(arguments: ["POST", "DELETE", "PURGE"]) func explainSaysWhatAChangeDoes(method: String) throws {
    let seen = try said("[rule.cache]", method)
    #expect(seen.count == 1 && seen[0].hasPrefix("cache: \(method) is passed on; "), "\(seen)")
    let refused = try said("request.cache_policy = \"return-cache-dont-load\"\n[rule.cache]", method)
    #expect(refused.count == 1 && refused[0].contains("refused (504)"), "\(refused)")
  }

  @Test func explainIsSilentWhereNothingIsStored() throws {
    for (store, more) in [
      ("[cache]", ""), ("", "[rule.cache]"), ("[cache]", "request.cache_policy = \"use-protocol\""),
    ] {
      let explanation = try explain(more, store: store)
      #expect(lines(explanation) == ["the request is forwarded as it came"])
      #expect(!explanation.json.contains("\"cache\""))
    }
    let silent = try explain("request.cache_policy = \"return-cache-dont-load\"")
    #expect(lines(silent).count == 1 && lines(silent)[0].hasSuffix("504"), "\(silent)")
    #expect(
      silent.json.contains(
        #""cache": {"policy": "return-cache-dont-load", "stores": false, "share": null, "fresh_for_s": null, "#
          + #""stale_if_error_s": null, "offline_s": null, "resume": false, "collapse": null}"#), "\(silent.json)")
  }
}

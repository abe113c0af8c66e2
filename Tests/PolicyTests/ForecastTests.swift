// A forecast is what `explain` says, of any policy and any request.

import Reachability
import TestSupport
import Testing

@testable import Policy

@Suite struct ForecastTests {
  @Test func itIsWhatExplainSays() throws {
    var generator = SeededGenerator(seed: 20_261_124)
    for _ in 0..<60 {
      let policy = try loadedRegardless(RandomPolicy.text(&generator))
      for _ in 0..<60 {
        let request = RandomPolicy.request(&generator)
        let asker = RandomPolicy.asker(&generator)
        let absolute = Bool.random(using: &generator)
        let forecast = Forecast(by: policy, of: request, asker, absolute: absolute)
        let isInside = request.needsTunnel(absolute: absolute)
        let outer = Explanation(by: policy, of: isInside ? request.tunnel : request, asker)
        let inner =
          isInside && outer.isYes && outer.security?.treatment == .intercept
          ? Explanation(by: policy, of: request, asker) : nil
        let last = inner ?? outer
        #expect(forecast.last.decision == last.decision && (forecast.verdict == .allow) == last.isYes)
        #expect((forecast.request == nil) == (last.isTunnel))
        #expect(forecast.tunnel?.connect == (isInside || request.isTunnel ? outer.security?.treatment ?? .deny : nil))
      }
    }
  }
}

extension Explanation {
  fileprivate var isYes: Bool { decision.verdict == .allow && address?.block == nil }
}

/// Small policies and requests that meet, so that every condition of a rule matters now and then.
enum RandomPolicy {
  private static let hosts = ["a.example", "*.a.example", "**.b.example", "b.example", "192.0.2.0/24", "*", "10.0.0.1"]
  private static let names = [
    "a.example", "x.a.example", "x.y.b.example", "b.example", "192.0.2.9", "c.example", "10.0.0.1",
  ]
  private static let paths = ["/x/*", "/x/y", "*.html", "/*/z"]
  private static let pathsAsked = ["/x/y", "/x/y/z", "/", "/a.html", "/x//y", "/a/z"]

  static func text(_ generator: inout SeededGenerator) -> String {
    var text = "[proxy]\ndefault = '\(pick(["allow", "deny"], &generator))'\n"
    if chance(3, &generator) { text += "deny_addresses = ['private']\n" }
    text += "[routes.office]\nvia = 'http://proxy.example:3128'\n"
    for number in 0..<Int.random(in: 1...5, using: &generator) {
      text += "[[rule]]\nname = 'r\(number)'\n"
      if !chance(4, &generator) { text += "hosts = ['\(pick(hosts, &generator))']\n" }
      if chance(4, &generator) { text += "ports = [443, 8080]\n" }
      if chance(4, &generator) { text += "methods = ['\(pick(["GET", "POST"], &generator))']\n" }
      if chance(3, &generator) { text += "paths = ['\(pick(paths, &generator))']\n" }
      if chance(5, &generator) { text += "schemes = ['\(pick(["http", "https"], &generator))']\n" }
      if chance(5, &generator) { text += "users = ['\(pick(["kiosk", "till"], &generator))']\n" }
      if chance(6, &generator) { text += "units = ['kiosk.service']\n" }
      if chance(6, &generator) { text += "when = ['wwan']\n" }
      if chance(2, &generator) { text += "action = '\(pick(["deny", "deny", "ask"], &generator))'\n" }
      if chance(8, &generator) { text += "enforce = false\n" }
      if chance(2, &generator) {
        text += "connect = '\(pick(["tunnel", "verify", "intercept", "deny"], &generator))'\n"
      }
      if chance(6, &generator) { text += "route = ['office']\n" }
      if chance(9, &generator) { text += "target = 'http://10.0.0.1/v2/'\n" }
    }
    return text
  }

  static func request(_ generator: inout SeededGenerator) -> NamedRequest {
    let host = pick(names, &generator)
    let port = pick(["", ":443", ":8080"], &generator)
    let url =
      chance(4, &generator)
      ? "CONNECT \(host)\(port.isEmpty ? ":443" : port)"
      : "\(pick(["GET", "POST", "TRACE"], &generator)) \(pick(["http", "https"], &generator))://\(host)\(port)"
        + pick(pathsAsked, &generator)
    let parts = url.split(separator: " ").map(String.init)
    guard case .success(let request) = NamedRequest.read(method: parts[0], url: parts[1]) else { fatalError(url) }
    return request
  }

  static func asker(_ generator: inout SeededGenerator) -> Asker {
    let users: [(UInt32, String)] = [(1001, "kiosk"), (1002, "till")]
    let (number, name) = users[Int.random(in: 0..<2, using: &generator)]
    let cgroup = chance(2, &generator) ? ["kiosk.service"] : []
    return Asker(
      Sender(client: chance(3, &generator) ? nil : LocalClient(userID: number, user: name, cgroup: cgroup)),
      link: chance(3, &generator) ? .wwan : nil)
  }

  static func pick<Value>(_ values: [Value], _ generator: inout SeededGenerator) -> Value {
    values[Int.random(in: 0..<values.count, using: &generator)]
  }

  /// One time in `count`.
  static func chance(_ count: Int, _ generator: inout SeededGenerator) -> Bool {
    Int.random(in: 0..<count, using: &generator) == 0
  }
}

/// A policy whose rules may do nothing or stand in each other's shadow: only errors matter.
func loadedRegardless(_ text: String) throws -> Policy {
  let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]))
  #expect(result.diagnostics.filter { $0.severity == .error }.map(\.description) == [])
  return try #require(result.policy)
}

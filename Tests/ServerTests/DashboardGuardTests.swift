// Which requests to the dashboard come from its own page.

import Bytes
import Policy
import Testing

@testable import Server

@Suite struct DashboardGuardTests {
  private static let checks = DashboardGuard(ListenAddress(address: IPAddress("127.0.0.1")!, port: 3129))

  private func fields(_ lines: [(String, String)], hasBody: Bool = false) -> WebFields {
    var fields = WebFields()
    fields.hasBody = hasBody
    for (name, value) in lines { fields.take(name, value) }
    return fields
  }

  private func status(_ method: String, _ lines: [(String, String)], hasBody: Bool = false) -> Int? {
    Self.checks.refusal(fields(lines, hasBody: hasBody), method: method)?.status
  }

  private static let host = ("host", "127.0.0.1:3129")
  private static let own = [host, ("origin", "http://127.0.0.1:3129"), ("sallyport-dashboard", "1")]

  @Test(
    arguments: [
      ("127.0.0.1:3129", nil), ("localhost:3129", nil), ("LocalHost:3129", nil), ("127.0.0.1", 421),
      ("127.0.0.1:3128", 421), ("evil.test:3129", 421), ("localhost.:3129", 421), ("", 421), ("[::1]:3129", 421),
    ] as [(String, Int?)])
  func hostIsTheListenersOwn(_ host: String, _ expected: Int?) {
    #expect(status("GET", [("host", host)]) == expected)
  }

  @Test func aTargetWithAHostIsForAProxy() {
    var fields = fields([Self.host])
    fields.isForProxy = true
    #expect(Self.checks.refusal(fields, method: "GET")?.status == 421)
  }

  @Test func aRequestWithoutAHostIsRefused() { #expect(status("GET", []) == 421) }

  @Test func onTheSchemesPortBrowsersLeaveItOut() {
    let checks = DashboardGuard(ListenAddress(address: IPAddress("::1")!, port: 80))
    #expect(checks.hosts == ["[::1]:80", "localhost:80", "[::1]", "localhost"])
  }

  @Test(
    arguments: [
      ("http://127.0.0.1:3129", nil), ("HTTP://127.0.0.1:3129", nil), ("https://127.0.0.1:3129", 403),
      ("http://localhost:3129", 403), ("null", 403), ("http://127.0.0.1:3129.evil.test", 403), ("", 403),
    ] as [(String, Int?)])
  func originIsThatOfTheHost(_ origin: String, _ expected: Int?) {
    #expect(status("GET", [Self.host, ("origin", origin)]) == expected)
    #expect(status("POST", [Self.host, ("origin", origin), ("sallyport-dashboard", "1")]) == expected)
  }

  @Test(
    arguments: [("same-origin", nil), ("none", nil), ("same-site", 403), ("cross-site", 403), ("", 403)]
      as [(String, Int?)])
  func otherSitesAreRefused(_ site: String, _ expected: Int?) {
    #expect(status("GET", [Self.host, ("sec-fetch-site", site)]) == expected)
    #expect(status("POST", Self.own + [("sec-fetch-site", site)]) == expected)
  }

  @Test func whatChangesSomethingShowsThatAScriptOfOursSentIt() {
    #expect(status("POST", Self.own) == nil)
    for missing in 1...2 {
      var lines = Self.own
      lines.remove(at: missing)
      #expect(status("POST", lines) == 403)
    }
    // Every method but GET counts as one.
    #expect(status("DELETE", [Self.host]) == 403)
  }

  @Test(
    arguments: [
      ("application/json", nil), ("Application/JSON; charset=utf-8", nil), ("text/plain", 415),
      ("application/x-www-form-urlencoded", 415), ("multipart/form-data; boundary=a", 415), ("application/jsonp", 415),
      ("", 415),
    ] as [(String, Int?)])
  func contentIsJSON(_ type: String, _ expected: Int?) {
    #expect(status("POST", Self.own + [("content-type", type)], hasBody: true) == expected)
  }

  @Test func contentWithoutATypeIsRefused() {
    #expect(status("POST", Self.own, hasBody: true) == 415)
  }

  @Test func fieldsThatComeTwiceAreRefused() {
    for name in ["host", "origin", "sec-fetch-site", "content-type", "sallyport-dashboard"] {
      #expect(status("GET", [Self.host, (name, "a"), (name, "a")]) == 400)
    }
  }

  @Test func cookiesAreFoundByTheirWholeName() {
    let fields = fields([
      ("cookie", "a=1; sallyport-3129=one;sallyport-3129=two"), ("cookie", "xsallyport-3129=no; sallyport-31290=no"),
    ])
    #expect(fields.cookies(named: "sallyport-3129") == ["one", "two"])
  }

  @Test func answersAllowNothingThatIsNotOurs() {
    let lines = DashboardGuard.answerFields
    #expect(lines.hasSuffix("\r\n") && !lines.contains("unsafe") && !lines.contains("*"))
  }
}

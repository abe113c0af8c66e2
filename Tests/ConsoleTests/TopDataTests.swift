// Rates out of counters and samples, and what a daemon that has started again does to them.

import Session
import Testing

@testable import Console

@Suite struct TopDataTests {
  @Test func ratesAreOfTheTimeBetweenTwoAnswers() {
    var data = TopData()
    data.take(.status, json(statusText(total: 100, failed: #"{"denied": 4}"#, bytes: 1000)), at: moment(0))
    #expect(data.rates == TopData.Rates())
    data.take(
      .status, json(statusText(total: 300, failed: #"{"denied": 5, "name-not-found": 90}"#, bytes: 5000)),
      at: moment(2000))
    #expect(data.rates == TopData.Rates(requests: 100, refusals: 0.5, bytes: 2000))
    // It counts from the beginning again.
    data.take(.status, json(statusText(total: 5)), at: moment(3000))
    #expect(data.rates == TopData.Rates())
  }

  @Test func rulesHaveRates() {
    var data = TopData()
    let before = #"[{"name": "a", "hits": 10}, {"name": null, "hits": 5}]"#
    let after = #"[{"name": "b", "hits": 7}, {"name": "a", "hits": 30}, {"name": null, "hits": 5}]"#
    data.take(.rules, json(before), at: moment(0))
    #expect(data.ruleRates == [0, 0])
    data.take(.rules, json(after), at: moment(1000))
    #expect(data.ruleRates == [0, 20, 0])
  }

  @Test func whatIsUnderWayHasARateOfBytes() {
    var data = TopData()
    data.take(.connections, json(list([connectionText("A", bytes: 100)])), at: moment(0))
    #expect(data.byteRates.isEmpty)
    data.take(
      .connections, json(list([connectionText("A", bytes: 600), connectionText("B", bytes: 50)])), at: moment(500))
    #expect(data.byteRates == ["A": 1000, "B": 100])
  }

  @Test func noMoreConnectionsAreKeptThanCanBeShown() {
    var data = TopData()
    data.take(.connections, json(list((0..<3000).map { connectionText("R\($0)") })), at: moment(0))
    #expect(data.connections.count == TopData.mostConnections)
  }

  /// The words of Session, so both say the same of each; `cancelled` and `stalled` are words of two outcomes.
  @Test func whatIsARefusalSessionSays() {
    for kind in Problem.Kind.allCases where kind != .cancelled && kind != .stalled {
      var record = ExchangeRecord()
      record.outcome = .problem(kind)
      #expect(Outcomes.isRefusal(kind.token.description) == record.isRefusal, "\(kind)")
    }
    for outcome: Outcome in [
      .done, .clientLeft, .upstreamBrokeOff, .malformedBody, .tunnelIdle, .exchangeTimeout, .shutDown, .displaced,
    ] {
      #expect(!Outcomes.isRefusal(outcome.word), "\(outcome)")
    }
  }

  @Test func whoItIs() {
    for (text, who) in [
      (#"{"user": "ci", "unit": null, "client": "127.0.0.1:1"}"#, "ci"),
      (#"{"user": "www-data", "unit": "nginx.service"}"#, "www-data/nginx"),
      (#"{"user": "anna", "unit": "user@1000.service"}"#, "anna"),
      (#"{"user": "anna", "unit": "session-1.scope"}"#, "anna"), (#"{"user": null, "client": "[::1]:80"}"#, "[::1]"),
      (#"{"proxy_user": "p", "client": "10.0.0.1:80"}"#, "p"),
    ] {
      #expect(TopData.who(json(text)) == who)
    }
    #expect(TopData.host(ofTarget: "https://a.test:8443/x") == "a.test:8443")
    #expect(TopData.host(ofTarget: "a.test:443") == "a.test" && TopData.host(ofTarget: "*") == "*")
    #expect(TopData.host(ofTarget: "") == "-")
  }
}

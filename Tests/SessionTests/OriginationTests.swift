// TLS that the proxy begins: https targets, and http targets that a rule upgrades.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct OriginationTests {
  static let upgrading = policy(
    """
    [[rule]]
    name = "up"
    hosts = ["a.example", "2001:db8::7"]
    upgrade = true
    """)

  struct Asking: Sendable, CustomTestStringConvertible {
    let target: String
    /// The connection, and Host as it leaves.
    let connects: String
    let host: String

    init(_ target: String, _ connects: String, _ host: String) {
      self.target = target
      self.connects = connects
      self.host = host
    }

    var testDescription: String { target }
  }

  static let targets = [
    Asking("https://b.example/", "b.example:443 under TLS", "b.example"),
    Asking("HTTPS://B.example/", "b.example:443 under TLS", "B.example"),
    Asking("https://b.example:443/", "b.example:443 under TLS", "b.example:443"),
    Asking("https://b.example:8443/", "b.example:8443 under TLS", "b.example:8443"),
    Asking("https://b.example:80/", "b.example:80 under TLS", "b.example:80"),
    Asking("https://192.0.2.7/", "192.0.2.7:443 under TLS", "192.0.2.7"),
    // What a rule upgrades: the port goes with the scheme, where it is the scheme's.
    Asking("http://a.example/", "a.example:443 under TLS", "a.example"),
    Asking("http://a.example:80/", "a.example:443 under TLS", "a.example"),
    Asking("http://A.EXAMPLE.:80/", "a.example:443 under TLS", "A.EXAMPLE."),
    Asking("http://[2001:db8::7]:80/", "2001:db8::7:443 under TLS", "[2001:db8::7]"),
    Asking("http://a.example:8080/", "a.example:8080 under TLS", "a.example:8080"),
    Asking("http://a.example:443/", "a.example:443 under TLS", "a.example:443"),
    // What is https already stays at its port.
    Asking("https://a.example/", "a.example:443 under TLS", "a.example"),
    Asking("https://a.example:80/", "a.example:80 under TLS", "a.example:80"),
    // What the rule does not match.
    Asking("http://b.example/", "b.example:80", "b.example"),
    Asking("http://b.example:80/", "b.example:80", "b.example:80"),
    Asking("http://b.example:443/", "b.example:443", "b.example:443"),
  ]

  @Test(arguments: targets) func whereATargetIsAsked(asking: Asking) {
    let lines = outline(
      [.client(head("GET \(asking.target) HTTP/1.1", "Host: any.example")), .opened, .upstream(ok)],
      policy: Self.upgrading)
    #expect(
      lines == [
        "connect \(asking.connects)", "> GET / HTTP/1.1", "> Host: \(asking.host)", "< HTTP/1.1 200 OK",
        "end (200): client keep, upstream kept" + (asking.connects.contains("TLS") ? ", assurance exact" : ""),
      ])
  }

  @Test func oneConnectionAsksForAllOfThem() {
    let targets = ["http://b.example/", "https://b.example/", "http://a.example:80/", "http://b.example/"]
    let lines = outline(
      targets.flatMap {
        [.client(head("GET \($0) HTTP/1.1", "Host: any.example")), .opened, .upstream(ok)] as [Happening]
      }, policy: Self.upgrading)
    #expect(
      lines.filter { $0.hasPrefix("connect") } == [
        "connect b.example:80", "connect b.example:443 under TLS", "connect a.example:443 under TLS",
        "connect b.example:80",
      ])
    #expect(lines.filter { $0.hasPrefix("end (200): client keep, upstream kept") }.count == 4)
  }

  @Test func whatTheAccessLogSays() {
    let stage = Stage(Self.upgrading, .whole)
    _ = stage.play([
      .client(head("GET http://a.example:80/x?s3cret HTTP/1.1", "Host: a.example")), .opened, .upstream(ok),
      .client(head("GET https://b.example/y HTTP/1.1", "Host: b.example")), .opened, .upstream(ok),
    ])
    #expect(stage.entries.map(\.text) == ["GET http://a.example:80/x", "GET https://b.example/y"])
    #expect(stage.entries.map(\.record.way.upstreamPort) == [443, 443])
    #expect(stage.entries.map(\.record.way.assurance) == [.exact, .exact])
  }

  @Test func aKeptConnectionThatIsDeadIsReplacedByOneUnderTLS() {
    let lines = outline(
      [
        .client(head("GET http://a.example:80/ HTTP/1.1", "Host: a.example")), .reused, .upstreamEnds, .opened,
        .upstream(ok),
      ], policy: Self.upgrading)
    let request = ["> GET / HTTP/1.1", "> Host: a.example"]
    #expect(
      lines == ["connect a.example:443 under TLS"] + request + ["connect a.example:443 under TLS once more"] + request
        + ["< HTTP/1.1 200 OK", "end (200): client keep, upstream kept, assurance exact"])
  }

  @Test func whatIsRefusedIsAnAnswer() {
    let asks = head("GET http://a.example/ HTTP/1.1", "Host: a.example")
    for kind in [Problem.Kind.pinMismatch, .certificateExpired, .tlsAlert, .tlsTimeout, .hostBusy] {
      let lines = outline([.client(asks), .failed(kind, "It went wrong.")], policy: Self.upgrading)
      #expect(
        lines == [
          "connect a.example:443 under TLS", "< HTTP/1.1 \(kind.status) \(kind.token) rule=up",
          "end (\(kind.status) \(kind.token)): client keep",
        ])
    }
  }

  @Test func rulesSeeTheSchemeThatTheClientWrote() {
    let schemes = policy(
      """
      [[rule]]
      name = "up"
      hosts = ["a.example"]
      schemes = ["http"]
      upgrade = true
      [[rule]]
      name = "shut"
      schemes = ["https"]
      action = "deny"
      """)
    let lines = { (target: String) in
      outline([.client(head("GET \(target) HTTP/1.1", "Host: a.example"))], policy: schemes).first
    }
    #expect(lines("http://a.example/") == "connect a.example:443 under TLS")
    #expect(lines("https://a.example/") == "< HTTP/1.1 403 denied rule=shut")
    #expect(lines("http://b.example/") == "connect b.example:80")
  }

  @Test func aTunnelIsNotUpgraded() {
    #expect(
      outline([.client(head("CONNECT a.example:80 HTTP/1.1", "Host: a.example:80"))], policy: Self.upgrading)
        == ["connect a.example:80 for a tunnel"])
  }
}

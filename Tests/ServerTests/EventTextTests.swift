// Events as lines for people, and the lines of begun and progress.

import Bytes
import Policy
import Testing
import Transport

@testable import Server
@testable import Session

@Suite struct EventTextTests {
  private static let lines: [(String, [(String, JSONText)], String)] = [
    (
      "finished",
      [
        ("time", .string("T")), ("ref", .string("7F3K2A")), ("method", .string("GET")),
        ("target", .string("http://a/?b=c")),
        ("status", .number(403)), ("rule", .string("no-ads")),
      ],
      "finished     T 7F3K2A GET http://a/?b=c 403 rule=no-ads"
    ),
    (
      "finished",
      [("reused", .boolean(false)), ("retried", .boolean(true)), ("error", .null), ("total_ms", .thousandths(412))],
      "finished     retried=true total_ms=0.412"
    ),
    (
      "reload", [("done", .boolean(false)), ("rules", .number(2)), ("errors", .array([]))],
      "reload       done=false rules=2"
    ),
    (
      "reload", [("done", .boolean(false)), ("errors", .strings(["a.toml:1:1: error: no", "b"]))],
      #"reload       done=false errors="a.toml:1:1: error: no",b"#
    ),
    (
      "reachability",
      [
        ("status", .string("wifi")), ("ipv4", path("wifi", "wlan0", "10.0.0.1")),
        ("ipv6", path("not-reachable", nil, nil)),
        ("interfaces", .array([interface("eth0", false), interface("wlan0", true)])),
        ("reason", .string("link eth0 down")),
      ],
      #"reachability wifi ipv4=wifi/wlan0/10.0.0.1 ipv6=not-reachable interfaces=eth0,wlan0 reason="link eth0 down""#
    ),
    (
      "wait",
      [
        ("ref", .string("7F3K2A")), ("rule", .string("r")), ("host", .string("a.test")), ("state", .string("began")),
        ("reason", .string("no path")), ("waited_ms", .number(0)),
      ],
      #"wait         7F3K2A rule=r a.test began reason="no path" waited_ms=0"#
    ),
    (
      "x",
      [
        ("a", .string("b c=d")), ("rule", .string("e\"f")), ("g", .string("h\\")), ("i", .string("é")),
        ("j", .object([])), ("k", .string("")),
      ],
      #"x            a="b c=d" rule="e\"f" g="h\\" i="é""#
    ),
    (
      "x",
      [
        ("method", .string("\u{1b}[2J")), ("target", .string("httpx y")), ("b", .string("rule=x")),
        ("c", .string("http\u{202e}")),
      ],
      #"x            "\u001b[2J" "httpx y" b="rule=x" c="http\u202e""#
    ),
    ("x", [], "x           "), ("pin-mismatch", [("ref", .string("A"))], "pin-mismatch A"),
    ("lost", [("count", .number(3))], "lost         count=3"),
  ]

  private static func path(_ status: String, _ interface: String?, _ gateway: String?) -> JSONText {
    .object([
      ("status", .string(status)), ("interface", interface.map { .string($0) } ?? .null),
      ("gateway", gateway.map { .string($0) } ?? .null),
    ])
  }

  private static func interface(_ name: String, _ isUp: Bool) -> JSONText {
    .object([("name", .string(name)), ("up", .boolean(isUp))])
  }

  @Test(arguments: lines.indices) func eventsReadAsALine(_ index: Int) {
    let (kind, members, line) = Self.lines[index]
    #expect(EventText.line(kind, members) == line)
  }

  private static let client = SocketAddress(high: 0, low: 0x7f00_0001, port: 4711, isIPv4: true)

  @Test func whatBegins() {
    var text = ByteBuffer()
    text.append("GEThttp://a.example/\"")
    var record = ExchangeRecord()
    record.text.method = 0..<3
    record.text.target = 3..<text.count
    record.ruled.decision = Decision(verdict: .deny, reason: .ruleDenies, rule: 0)
    let line = AccessLine(rule: "no\"ads", client: Self.client, totalMicroseconds: 0, place: "/p.toml:3")
    let members = line.valuesOfBeginning(record, text.bytes)
    var written = ByteBuffer()
    line.writeBeginning(record, text.bytes, to: &written)
    let time = ("time", JSONText.string("1970-01-01T00:00:00.000Z"))
    #expect(written.bytes.string + "}" == JSONText.object([time] + members).compactText)
    #expect(
      JSONText.object(members).text
        == #"{"ref": "000000", "client": "127.0.0.1:4711", "method": "GET", "target": "http://a.example/\"", "#
        + #""protocol": "http/1.1", "user": null, "unit": null, "program": null, "proxy_user": null, "#
        + #""rule": "no\"ads", "place": "/p.toml:3", "decision": "deny", "reason": "rule-denies", "answered_by": null}"#
    )
  }

  @Test func whatBeginsWithoutARule() {
    let line = AccessLine(rule: nil, client: Self.client, totalMicroseconds: 0)
    let nothing: [UInt8] = []
    let members = line.valuesOfBeginning(ExchangeRecord(), nothing.span)
    #expect(
      members.suffix(5).map { "\($0.0)=\($0.1.text)" }
        == ["rule", "place", "decision", "reason", "answered_by"].map { "\($0)=null" })
  }

  /// An event has the members of the API, whose line is written without values.
  @Test func theValuesAreThoseOfTheLine() throws {
    var text = ByteBuffer()
    text.append("GEThttp://a.example/application/json")
    text.append(0xff)
    var record = ExchangeRecord()
    record.text.method = 0..<3
    record.text.target = 3..<20
    record.text.upstreamType = 20..<text.count
    record.times.connectMicroseconds = 12_345
    record.way.isRetried = true
    record.answer.status = 200
    let line = AccessLine(rule: "r", client: Self.client, totalMicroseconds: 1_000_007, pins: "p")
    var written = ByteBuffer()
    line.writeMembers(record, text.bytes, to: &written)
    let members = [("time", JSONText.string("1970-01-01T00:00:00.000Z"))] + line.values(record, text.bytes)
    #expect(written.bytes.string + "}" == JSONText.object(members).compactText)
  }

  @Test(
    arguments: [(nil, nil), (7, nil), (7, 1 << 40)] as [(UInt64?, UInt64?)])
  func howFarItIs(_ expectedIn: UInt64?, _ expectedOut: UInt64?) {
    var record = ExchangeRecord()
    record.traffic.bytesIn = 5
    record.traffic.bytesOut = 6
    let members = AdminResources.progress(
      record, rule: "r", expectedIn: expectedIn, expectedOut: expectedOut, ageMilliseconds: 501)
    func text(_ value: UInt64?) -> String { value.map { "\($0)" } ?? "null" }
    #expect(
      JSONText.object(members).text == #"{"ref": "000000", "rule": "r", "bytes_in": 5, "bytes_out": 6, "#
        + #""expected_in": \#(text(expectedIn)), "expected_out": \#(text(expectedOut)), "age_ms": 501}"#)
  }
}

// Events as lines for people, and the lines of begun and progress.

import Bytes
import Policy
import Testing
import Transport

@testable import Server
@testable import Session

@Suite struct EventTextTests {
  @Test(
    "events read as a line",
    arguments: [
      (
        "finished",
        #"{"time":"T","ref":"7F3K2A","method":"GET","target":"http://a/?b=c","status":403,"rule":"no-ads"}"#,
        "finished     T 7F3K2A GET http://a/?b=c 403 rule=no-ads"
      ),
      (
        "finished", #"{"reused":false,"retried":true,"error":null,"total_ms":0.412}"#,
        "finished     retried=true total_ms=0.412"
      ),
      ("reload", #"{"done": false, "rules": 2, "errors": []}"#, "reload       done=false rules=2"),
      (
        "reload", #"{"done": false, "errors": ["a.toml:1:1: error: no", "b"]}"#,
        #"reload       done=false errors="a.toml:1:1: error: no",b"#
      ),
      (
        "reachability",
        #"{"status":"wifi","ipv4":{"status":"wifi","interface":"wlan0","gateway":"10.0.0.1"},"#
          + #""ipv6":{"status":"not-reachable","interface":null,"gateway":null},"#
          + #""interfaces":[{"name":"eth0","up":false},{"name":"wlan0","up":true}],"reason":"link eth0 down"}"#,
        #"reachability wifi ipv4=wifi/wlan0/10.0.0.1 ipv6=not-reachable interfaces=eth0,wlan0 reason="link eth0 down""#
      ),
      (
        "wait", #"{"ref":"7F3K2A","rule":"r","host":"a.test","state":"began","reason":"no path","waited_ms":0}"#,
        #"wait         7F3K2A rule=r a.test began reason="no path" waited_ms=0"#
      ),
      (
        "x", #"{"a":"b c=d","rule":"e\"f","g":"h\\","i":"é","j":{}}"#,
        #"x            a="b c=d" rule="e\"f" g="h\\" i="é""#
      ),
      (
        "x", #"{"method":"\u001b[2J","target":"httpx y","b":"rule=x"}"#,
        #"x            "\u001b[2J" "httpx y" b="rule=x""#
      ),
      ("x", "{}", "x           "), ("x", "no object", "x            no object"), ("x", #"{"a""#, #"x            {"a""#),
      ("x", #"{"a" 1}"#, #"x            {"a" 1}"#), ("x", #"{a:1}"#, "x            {a:1}"),
      ("pin-mismatch", #"{"ref":"A"}"#, "pin-mismatch A"), ("lost", #"{"count":3}"#, "lost         count=3"),
    ] as [(String, String, String)])
  func eventsReadAsALine(_ kind: String, _ json: String, _ line: String) {
    #expect(EventText.line(kind, json) == line)
  }

  @Test func anyTextIsALine() {
    // Every beginning, and every text with one byte replaced: nothing of it may be taken for what it is not and trap.
    let text = Array(#"{"a": {"b": ["c", "d\"e"]}, "f": [{"g": 1}], "h": "i\\"}"#.utf8)
    for count in 0...text.count { _ = EventText.line("x", String(decoding: text[..<count], as: UTF8.self)) }
    for place in text.indices {
      for byte in [
        UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "{"), UInt8(ascii: "]"), UInt8(ascii: ","), 0x20,
      ] {
        var other = text
        other[place] = byte
        #expect(EventText.line("x", String(decoding: other, as: UTF8.self)).hasPrefix("x"))
      }
    }
  }

  private static let client = SocketAddress(high: 0, low: 0x7f00_0001, port: 4711, isIPv4: true)

  @Test func whatBegins() {
    var text = ByteBuffer()
    text.append("GEThttp://a.example/\"")
    var record = ExchangeRecord()
    record.method = 0..<3
    record.target = 3..<text.count
    record.decision = Decision(verdict: .deny, reason: .ruleDenies, rule: 0)
    var out = ByteBuffer()
    AccessLine(rule: "no\"ads", client: Self.client, totalMicroseconds: 0, place: "/p.toml:3")
      .writeBeginning(record, text, to: &out)
    #expect(
      out.bytes.string
        == #"{"time":"1970-01-01T00:00:00.000Z","ref":"000000","client":"127.0.0.1:4711","method":"GET","#
        + #""target":"http://a.example/\"","protocol":"http/1.1","user":null,"unit":null,"program":null,"proxy_user":null,"#
        + #""rule":"no\"ads","place":"/p.toml:3","decision":"deny","reason":"rule-denies","answered_by":null}"#)
  }

  @Test func whatBeginsWithoutARule() {
    let text = ByteBuffer()
    var out = ByteBuffer()
    AccessLine(rule: nil, client: Self.client, totalMicroseconds: 0)
      .writeBeginning(ExchangeRecord(), text, to: &out)
    #expect(out.bytes.string.hasSuffix(#","rule":null,"place":null,"decision":null,"reason":null,"answered_by":null}"#))
  }

  @Test(
    arguments: [
      (nil, nil, #""expected_in":null,"expected_out":null"#), (7, nil, #""expected_in":7,"expected_out":null"#),
      (7, 1 << 40, #""expected_in":7,"expected_out":1099511627776"#),
    ] as [(UInt64?, UInt64?, String)])
  func howFarItIs(_ expectedIn: UInt64?, _ expectedOut: UInt64?, _ members: String) {
    var out = ByteBuffer()
    ProgressLine(
      wall: 0, reference: Reference(value: 0), rule: "r", bytesIn: 5, bytesOut: 6, expectedIn: expectedIn,
      expectedOut: expectedOut, ageMilliseconds: 501
    ).write(to: &out)
    #expect(
      out.bytes.string == #"{"time":"1970-01-01T00:00:00.000Z","ref":"000000","rule":"r","bytes_in":5,"bytes_out":6,"#
        + members + #","age_ms":501}"#)
  }
}

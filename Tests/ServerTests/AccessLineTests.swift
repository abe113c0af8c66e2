// The facts of an exchange in each of their three forms.

import Bytes
import HTTP1
import Policy
import Security
@testable import Session
import Testing
import Transport

@testable import Server

@Suite struct AccessLineTests {
  private static func write(_ format: LineFormat, _ change: (inout ExchangeRecord) -> Void) -> String {
    var text = ByteBuffer()
    text.append("GEThttps://a.example/xapplication/json; charset=\"utf-8\"")
    var record = ExchangeRecord()
    record.reference = Reference(value: 0)
    record.text.method = 0..<3
    record.text.target = 3..<22
    record.answer.status = 502
    change(&record)
    let client = SocketAddress(high: 0, low: 0x7f00_0001, port: 4711, isIPv4: true)
    let line = AccessLine(
      rule: "the \"api\"", client: client, totalMicroseconds: 12_345, place: "/etc/s.toml:4", pins: "bank")
    var out = ByteBuffer()
    line.write(record, format, text: text, to: &out)
    return out.bytes.string
  }

  private static func everything(_ record: inout ExchangeRecord) {
    record.sender.client = LocalClient(userID: 1001, user: "kiosk", cgroup: ["system.slice", "till.service"])
    record.sender.program = "/usr/bin/odd name"
    record.sender.credential = ProxyCredential(userAndPassword: Array("ci:secret".utf8))
    record.ruled.decision = Decision(verdict: .allow, reason: .rule, rule: 0)
    record.outcome = .problem(.unacceptableContentType)
    record.found.finding = Finding(
      "expected content type application/json, seen text/html",
      Difference(expected: "application/json", seen: "text/html"))
    record.answer.serializer = "json"
    record.way.route = "direct"
    record.way.upstream = IPAddress(ipv4: 0xc000_0201)
    record.way.upstreamPort = 443
    record.sender.wire = .http2
    record.way.upstreamWire = .http11
    record.answer.cache = .revalidated
    record.way.isReused = true
    record.way.assurance = .exact
    record.answer.upstreamStatus = 200
    record.text.upstreamType = 22..<55
    record.traffic.bytesIn = 7
    record.traffic.bytesOut = 8
    record.times.tlsMicroseconds = 3_007
  }

  @Test func everyFactIsAMember() {
    #expect(
      Self.write(.json, Self.everything)
        == #"{"time":"1970-01-01T00:00:00.000Z","ref":"000000","client":"127.0.0.1:4711","method":"GET","#
        + #""target":"https://a.example/x","status":502,"protocol":"h2","user":"kiosk","unit":"till.service","#
        + #""program":"/usr/bin/odd name","proxy_user":"ci","rule":"the \"api\"","place":"/etc/s.toml:4","#
        + #""decision":"allow","reason":"rule","outcome":"unacceptable-content-type","#
        + #""detail":"expected content type application/json, seen text/html","expected":"application/json","#
        + #""seen":"text/html","serializer":"json","route":"direct","#
        + #""upstream":"192.0.2.1:443","upstream_protocol":"http/1.1","cache":"revalidated","#
        + #""reused":true,"retried":false,"assurance":"exact","pins":"bank","#
        + #""upstream_status":200,"upstream_type":"application/json; charset=\"utf-8\"","bytes_in":7,"bytes_out":8,"#
        + #""tls_ms":3.007,"total_ms":12.345}"# + "\n")
  }

  /// The API has them all.
  @Test func whatThereIsNotIsNullToAReaderOfTheAPI() {
    var out = ByteBuffer()
    let client = SocketAddress(high: 0, low: 0x7f00_0001, port: 4711, isIPv4: true)
    let nothing: [UInt8] = []
    AccessLine(rule: nil, client: client, totalMicroseconds: 12_000).writeMembers(
      ExchangeRecord(), nothing.span, to: &out)
    #expect(
      out.bytes.string
        == #"{"time":"1970-01-01T00:00:00.000Z","ref":"000000","client":"127.0.0.1:4711","method":null,"target":null,"#
        + #""status":0,"protocol":"http/1.1","user":null,"unit":null,"program":null,"proxy_user":null,"rule":null,"place":null,"#
        + #""decision":null,"reason":null,"answered_by":null,"outcome":"done","detail":null,"expected":null,"seen":null,"report":null,"#
        + #""violation":null,"serializer":null,"mended":null,"route":null,"upstream":null,"upstream_protocol":null,"cache":null,"#
        + #""reused":false,"retried":false,"assurance":null,"pins":null,"upstream_status":null,"upstream_type":null,"bytes_in":0,"#
        + #""bytes_out":0,"name_ms":null,"connect_ms":null,"tls_ms":null,"first_byte_ms":null,"total_ms":12.000"#)
  }

  @Test func whatIsNotSaidInALineForPeopleIsLeftOutAndWhatCouldMisleadIsQuoted() {
    #expect(
      Self.write(.text, Self.everything)
        == #"1970-01-01T00:00:00.000Z 000000 127.0.0.1:4711 GET https://a.example/x 502 protocol=h2 user=kiosk "#
        + #"unit=till.service program="/usr/bin/odd name" proxy_user=ci rule="the \"api\"" place=/etc/s.toml:4 "#
        + #"decision=allow reason=rule outcome=unacceptable-content-type "#
        + #"detail="expected content type application/json, seen text/html" expected=application/json "#
        + #"seen=text/html serializer=json route=direct upstream=192.0.2.1:443 cache=revalidated reused assurance=exact "#
        + #"pins=bank upstream_status=200 upstream_type="application/json; charset=\"utf-8\"" bytes_in=7 bytes_out=8 tls_ms=3.007 "#
        + "total_ms=12.345\n")
  }

  @Test func aFieldOfTheJournalHasTheSameName() {
    let fields = Self.write(.journal, Self.everything)
    for field in [
      "SALLYPORT_PROGRAM=/usr/bin/odd name", "SALLYPORT_PROXY_USER=ci", "SALLYPORT_PLACE=/etc/s.toml:4",
      "SALLYPORT_DECISION=allow", "SALLYPORT_OUTCOME=unacceptable-content-type", "SALLYPORT_EXPECTED=application/json",
      "SALLYPORT_SEEN=text/html", "SALLYPORT_CACHE=revalidated", "SALLYPORT_SERIALIZER=json", "SALLYPORT_PINS=bank",
      "SALLYPORT_UPSTREAM_STATUS=200",
      "SALLYPORT_UPSTREAM_TYPE=application/json; charset=\"utf-8\"",
    ] { #expect(fields.contains("\n\(field)\n"), "\(field)") }
  }

  /// Pins say something only of a certificate that was looked at.
  @Test(arguments: [(nil, nil), (.exact, "bank")] as [(Assurance?, String?)])
  func inTheClearNothingIsHeldToPins(_ assurance: Assurance?, _ pins: String?) {
    var settings = SecurityPolicy.Settings()
    settings.pinSet = PinSet(name: "bank")
    var record = ExchangeRecord()
    record.ruled.decision = Decision(verdict: .allow, reason: .defaultAllow, rule: nil)
    record.way.assurance = assurance
    let line = AccessLine(
      of: record, rule: nil, by: Policy(defaultSecurity: SecurityPolicy(settings)),
      client: SocketAddress(high: 0, low: 1, port: 2, isIPv4: true), totalMicroseconds: 0)
    #expect(line.pins == pins)
  }

  @Test func anExchangeThatWentWellSaysSo() {
    #expect(Self.write(.text) { _ in }.contains(" outcome=done "))
  }
}

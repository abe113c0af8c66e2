// What Connection may name, in requests and in responses, and methods that are known but for their case.

import TestSupport
import Testing

@testable import HTTP1

@Suite struct ConnectionOptionsTests {
  private func request(_ option: String, as field: String = "Connection") -> HeadProgress {
    let bytes = octets("GET http://a/ HTTP/1.1\r\nHost: a\r\n\(field): x-mine, \(option)\r\n\r\n")
    var head = RequestHead()
    return head.read(bytes.span, limits: usualLimits)
  }

  private func response(_ option: String, status: Int = 200) -> HeadProgress {
    let bytes = octets("HTTP/1.1 \(status) OK\r\nConnection: \(option) , close\r\nContent-Length: 0\r\n\r\n")
    var head = ResponseHead()
    return head.read(bytes.span, limits: usualLimits, toHead: false)
  }

  static let forbidden = [
    "content-encoding", "content-type", "content-range", "content-length", "transfer-encoding", "trailer", "host",
    "authorization", "cookie", "set-cookie", "Content-Encoding", "CONTENT-TYPE", "expect", "max-forwards",
    "cache-control", "location", "www-authenticate", "accept-encoding", "range", "etag", "vary", "content-language",
    "content-disposition", "date", "expires", "user-agent",
  ]

  @Test(arguments: forbidden) func aFieldThatIsMeantForEveryRecipientIsNotNamed(option: String) {
    #expect(request(option) == .invalid(.connectionNamesContent))
    #expect(response(option) == .invalid(.connectionNamesContent))
    #expect(response(option, status: 103) == .invalid(.connectionNamesContent))
  }

  @Test(arguments: [
    "close", "keep-alive", "upgrade", "Keep-Alive", "via", "x-other", "http2-settings", "proxy-authorization",
    "proxy-connection", "connection", "content-typ", "content-type2",
  ]) func otherOptionsAreRight(option: String) {
    guard case .complete = request(option), case .complete = response(option) else {
      Issue.record("\(option): \(request(option)), \(response(option))")
      return
    }
  }

  /// RFC 9110, 10.1.4.
  @Test func teIsRightInRequestsOnly() {
    guard case .complete = request("TE") else { return #expect(Bool(false), "TE in a request") }
    #expect(response("TE") == .invalid(.connectionNamesContent))
    #expect(response("te") == .invalid(.connectionNamesContent))
  }

  /// It is no field of the RFC, and nothing that it names is dropped.
  @Test func proxyConnectionNamesNothing() {
    guard case .complete = request("content-type", as: "Proxy-Connection") else {
      return #expect(Bool(false), "Proxy-Connection was heeded")
    }
  }

  // MARK: Methods

  @Test(arguments: [
    "get", "Get", "gEt", "head", "Post", "put", "delete", "Delete", "dELETE", "patch", "options", "Options", "trace",
    "Trace", "track", "connect", "Connect",
  ]) func aMethodThatIsKnownButForItsCaseIsMalformed(method: String) {
    for target in ["http://a/", "a:443", "/x"] {
      let bytes = octets("\(method) \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
      for isInTunnel in [false, true] {
        var head = RequestHead()
        let seen = head.read(bytes.span, limits: usualLimits, isInTunnel: isInTunnel)
        #expect(seen == .invalid(.methodCase), "\(method) \(target)")
      }
    }
  }

  @Test(arguments: ["GET", "PATCH", "TRACK", "propfind", "Search", "gets", "ge", "deletes", "mkcol"])
  func otherMethodsAreWhatTheyAre(method: String) {
    let bytes = octets("\(method) http://a/ HTTP/1.1\r\nHost: a\r\n\r\n")
    var head = RequestHead()
    let seen = head.read(bytes.span, limits: usualLimits)
    #expect(seen == .complete(count: bytes.count))
  }
}

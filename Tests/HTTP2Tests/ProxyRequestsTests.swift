// Requests to a proxy that speaks HTTP/2: tunnels as streams (RFC 9113, 8.5), and requests for another scheme.

import Bytes
import HTTP1
import Testing

@testable import HTTP2

@Suite struct ProxyRequests {
  private static let connect = "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nVia: 1.1 sallyport\r\n\r\n"

  private func pair() throws -> Pair {
    let pair = try #require(Pair())
    pair.run()
    return pair
  }

  /// What the server reads of this request.
  private func asked(_ text: String, step: Int = .max) throws -> String {
    let pair = try pair()
    #expect(pair.write(text, to: pair.client.open(), step: step))
    pair.run()
    return pair.read(try #require(pair.served.first))
  }

  @Test(arguments: [
    ("GET http://a.test/x?y HTTP/1.1", "GET http://a.test/x?y HTTP/1.1"),
    ("GET http://a.test HTTP/1.1", "GET http://a.test/ HTTP/1.1"),
    ("OPTIONS http://a.test HTTP/1.1", "OPTIONS http://a.test* HTTP/1.1"),
    ("OPTIONS http://a.test/ HTTP/1.1", "OPTIONS http://a.test/ HTTP/1.1"),
    ("OPTIONS * HTTP/1.1", "OPTIONS * HTTP/1.1"),
    ("GET /x HTTP/1.1", "GET /x HTTP/1.1"),
    ("GET https://a.test/x HTTP/1.1", "GET /x HTTP/1.1"),
  ])
  func schemesAndPaths(line: String, read: String) throws {
    #expect(try asked("\(line)\r\nHost: a.test\r\n\r\n") == "\(read)\r\nhost: a.test\r\n\r\n")
  }

  @Test func credentialsForAParentAreSent() throws {
    let text =
      "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nProxy-Authorization: Basic eDp5\r\nConnection: keep-alive\r\n\r\n"
    #expect(
      try asked(text) == "GET http://a.test/ HTTP/1.1\r\nhost: a.test\r\nproxy-authorization: Basic eDp5\r\n\r\n")
  }

  @Test(arguments: [Int.max, 1])
  func aTunnelIsAStream(step: Int) throws {
    let pair = try pair()
    let tunnel = pair.client.open()
    #expect(pair.write(Self.connect, to: tunnel, step: step))
    pair.run(step: step)
    let served = try #require(pair.served.first)
    #expect(
      pair.read(served)
        == "CONNECT a.test:443 HTTP/1.1\r\nhost: a.test:443\r\nvia: 1.1 sallyport\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    // The length of an answer that grants a tunnel means nothing.
    #expect(
      pair.write("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nx-a: b\r\n\r\nhello", to: served, step: step))
    pair.run(step: step)
    #expect(pair.read(tunnel) == "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nx-a: b\r\n\r\nhello")
    #expect(pair.write("ping", to: tunnel, step: step))
    pair.run(step: step)
    #expect(!pair.read(served).isEmpty && !tunnel.isEnded)
    served.endTunnel()
    pair.run()
    #expect(tunnel.isEnded && !tunnel.isBroken && !tunnel.isClosed)
    // The other direction goes on.
    #expect(pair.write("last", to: tunnel))
    pair.run()
    #expect(pair.read(served).contains("last"))
  }

  @Test func whatIsLeftOfATunnelIsSentBeforeItEnds() throws {
    let pair = try pair()
    let tunnel = pair.client.open()
    #expect(pair.write(Self.connect, to: tunnel))
    pair.run()
    let served = try #require(pair.served.first)
    #expect(pair.write("HTTP/1.1 200 OK\r\n\r\n", to: served))
    pair.run()
    _ = pair.read(tunnel)
    _ = pair.read(served)
    #expect(pair.write("goodbye", to: tunnel))
    tunnel.leave()
    pair.run()
    #expect(pair.read(served).contains("goodbye"))
    #expect(tunnel.isClosed && served.isBroken && pair.client.openStreams == 0)
  }

  @Test func aRefusalIsAnAnswerWithContent() throws {
    let pair = try pair()
    let tunnel = pair.client.open()
    #expect(pair.write(Self.connect, to: tunnel))
    pair.run()
    let refusal = "HTTP/1.1 403 Forbidden\r\nx-why: rules\r\ncontent-length: 2\r\n\r\nno"
    #expect(pair.write(refusal, to: try #require(pair.served.first)))
    pair.run()
    #expect(pair.read(tunnel) == refusal && !tunnel.isEnded)
    tunnel.leave()
    pair.run()
    #expect(pair.client.openStreams == 0)
  }

  @Test func aPeerMayAskForTheOtherProtocol() throws {
    let pair = try pair()
    let tunnel = pair.client.open()
    #expect(pair.write(Self.connect, to: tunnel))
    pair.run()
    try #require(pair.served.first).reset(.http11Required)
    pair.run()
    #expect(tunnel.asksForHTTP11 && tunnel.wasRefused && tunnel.isBroken)
  }
}

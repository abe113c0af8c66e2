// Requests above the peer's limit of streams: who waits, whose turn comes, and what becomes of those that wait when the peer leaves.

import Bytes
import HTTP1
import Testing

@testable import HTTP2

@Suite struct WaitingStreams {
  private static let get = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"
  private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

  private func pair(streams: Int) throws -> Pair {
    let pair = try #require(Pair(streams: streams))
    pair.run()
    return pair
  }

  private func ask(_ pair: Pair, _ path: String) -> HTTP2Stream {
    let stream = pair.client.open()
    #expect(pair.write("GET \(path) HTTP/1.1\r\nHost: a.example\r\n\r\n", to: stream))
    return stream
  }

  /// The path that was asked for.
  @discardableResult
  private func answer(_ pair: Pair, _ stream: HTTP2Stream) -> String {
    let words = pair.read(stream).split(separator: " ")
    #expect(pair.write(Self.ok, to: stream))
    stream.leave()
    pair.run()
    return words.count > 1 ? String(words[1]) : ""
  }

  @Test func eachTurnComesInItsOrder() throws {
    let pair = try pair(streams: 2)
    let asked = (0..<5).map { ask(pair, "/\($0)") }
    pair.run()
    #expect(pair.served.count == 2 && pair.client.openStreams == 5)
    for index in asked.indices {
      #expect(answer(pair, pair.served[index]) == "/\(index)")
      #expect(pair.served.count == min(5, index + 3))
      #expect(pair.read(asked[index]).hasSuffix("ok"))
    }
    #expect(pair.client.openStreams == 0)
  }

  /// Were they given to the library, a place that is not there would be waited for where nobody could call it off.
  @Test func oneRequestGoesBeforeTheLimitIsKnown() throws {
    let pair = try #require(Pair(streams: 2))
    let asked = (0..<3).map { ask(pair, "/\($0)") }
    #expect(asked.map(\.number) == [1, 0, 0])
    pair.run()
    #expect(asked.map { $0.number > 0 } == [true, true, false])
    #expect(pair.served.count == 2 && asked.allSatisfy { !$0.isBroken })
  }

  /// Tunnels stay for days.
  @Test func aTunnelWithoutAPlaceGoesElsewhereAndARequestWaits() throws {
    let pair = try #require(Pair(streams: 1))
    let first = ask(pair, "/0")
    let tunnel = pair.client.open()
    #expect(pair.write("CONNECT b.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n", to: tunnel))
    let second = ask(pair, "/1")
    #expect(!tunnel.isBroken, "nothing is known of a limit")
    pair.run()
    #expect(tunnel.wasRefused && tunnel.isClosed && tunnel.number == 0)
    #expect(pair.client.takeTouched().contains { $0 === tunnel }, "whoever asked is told")
    #expect(!second.isBroken && pair.client.openStreams == 2)
    #expect(answer(pair, pair.served[0]) == "/0" && pair.read(first).hasSuffix("ok"))
    #expect(answer(pair, pair.served[1]) == "/1")
  }

  @Test func oneThatIsCancelledIsNeverSent() throws {
    let pair = try pair(streams: 1)
    let asked = (0..<3).map { ask(pair, "/\($0)") }
    pair.run()
    asked[1].leave()
    #expect(asked[1].isClosed && pair.client.openStreams == 2)
    answer(pair, pair.served[0])
    #expect(pair.served.count == 2 && answer(pair, pair.served[1]) == "/2")
  }

  @Test func contentWaitsWithItsRequestAndNoMoreOfItIsTaken() throws {
    let pair = try pair(streams: 1)
    _ = ask(pair, "/0")
    let upload = pair.client.open()
    let body = String(repeating: "#", count: 3 * ConnectionLimits.waitingContentOfFew)
    #expect(pair.write("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: \(body.utf8.count)\r\n\r\n", to: upload))
    var sent = 0
    func goOn() {
      while sent < body.utf8.count, upload.room > 0 {
        let count = min(upload.room, body.utf8.count - sent)
        #expect(pair.write(String(repeating: "#", count: count), to: upload))
        sent += count
      }
    }
    goOn()
    #expect(upload.room == 0 && sent < ConnectionLimits.waitingContentOfFew)
    pair.run()
    answer(pair, pair.served[0])
    var received = ""
    while pair.served.count < 2 || received.utf8.count < body.utf8.count {
      goOn()
      pair.run()
      let more = pair.read(pair.served[1])
      #expect(!more.isEmpty)
      if more.isEmpty { return }
      received += received.isEmpty ? String(more.drop { $0 != "#" }) : more
    }
    #expect(received == body)
  }

  /// Each may be sent elsewhere, as nothing of it was done.
  @Test func thoseThatWaitAreRefusedWhenThePeerLeaves() throws {
    let pair = try pair(streams: 1)
    let asked = (0..<3).map { ask(pair, "/\($0)") }
    let unwritten = pair.client.open()
    pair.run()
    pair.server.announceEnd()
    pair.run()
    #expect(!asked[0].isBroken)
    for stream in [asked[1], asked[2], unwritten] { #expect(stream.wasRefused) }
    #expect(!pair.write(Self.get, to: unwritten) && !pair.client.mayOpen)
    answer(pair, pair.served[0])
    #expect(pair.read(asked[0]).hasSuffix("ok") && pair.client.openStreams == 0)
  }

  @Test func noMoreWaitThanIsAllowed() throws {
    let pair = try pair(streams: 1)
    _ = ask(pair, "/first")
    var waiting = 0
    while pair.client.mayOpen, waiting <= ConnectionLimits.waitingStreams {
      _ = ask(pair, "/\(waiting)")
      waiting += 1
    }
    #expect(waiting == ConnectionLimits.waitingStreams)
  }
}

// Uploads at a pace: what leaves when, of content that is forwarded, chunked, or made here.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct UploadPaceTests {
  static let rules = policy(
    """
    [[rule]]
    name = "paced"
    hosts = ["a.example"]
    request.throttle = { packet = "1KiB", delay = "200ms" }
    [[rule]]
    name = "made"
    hosts = ["made.example"]
    [rule.request]
    throttle = { packet = "1KiB", delay = "200ms" }
    parameters = { k = "v" }
    [[rule]]
    name = "wireless"
    hosts = ["wireless.example"]
    request.throttle = { packet = "1KiB", delay = "200ms", when = ["wifi"] }
    """)

  @Test func aPacketIsFollowedByARest() {
    var pace = UploadPace(Throttle.Upload(packetBytes: 10, delayMilliseconds: 5))
    #expect(pace.allowance(of: 100) == 10)
    pace.spent(4, now: 0)
    #expect(pace.allowance(of: 100) == 6)
    #expect(pace.resumesAt == nil)
    pace.spent(6, now: 1)
    #expect(pace.allowance(of: 100) == 0)
    #expect(pace.resumesAt == 6)
    let early = pace.resume(now: 5)
    let due = pace.resume(now: 6)
    #expect(!early && due)
    #expect(pace.allowance(of: 3) == 3)
  }

  /// A rate is kept by packets that are due at fixed times; what is late does not make the next one later.
  @Test func aRateIsKeptHoweverLateItsPacketsAre() {
    var pace = UploadPace(Throttle.Upload(packetBytes: 10, delayMilliseconds: 5, keepsRate: true))
    var now: Int64 = 100
    var sent = 0
    for _ in 0..<100 {
      pace.spent(10, now: now)
      sent += 10
      now = (pace.resumesAt ?? now) + 2
      _ = pace.resume(now: now)
    }
    #expect(sent == 1000 && now - 100 <= 100 * 5 + 2)
    pace.spent(10, now: now + 1000)
    #expect(pace.resumesAt == now + 1000, "the pause was long enough for one packet")
    _ = pace.resume(now: now + 1000)
    pace.spent(10, now: now + 1000)
    #expect(pace.resumesAt == now + 1005, "and for one only")
  }

  @Test func whatLeavesAtOnceIsPaidForPacketByPacket() {
    for (count, pause, left) in [(9, nil, 1), (10, 5, 10), (15, 5, 5), (20, 10, 10), (39, 15, 1)]
      as [(Int, Int64?, Int)]
    {
      var pace = UploadPace(Throttle.Upload(packetBytes: 10, delayMilliseconds: 5))
      pace.spent(count, now: 100)
      #expect(pace.resumesAt == pause.map { 100 + $0 }, "\(count)")
      _ = pace.resume(now: 200)
      #expect(pace.allowance(of: 100) == left, "\(count)")
    }
  }

  /// Plays an upload, lets the pauses pass, and answers how many there were.
  private func pauses(_ upload: String, host: String) -> Int {
    let stage = Stage(Self.rules, .whole)
    var happenings: [Happening] = [.client(upload), .opened]
    happenings += [.timeOut, .timeOut]
    let transcript = stage.play(happenings + [.upstream(ok)])
    #expect(stage.faults.isEmpty, "\(stage.faults)")
    #expect(transcript.contains("end (200)"), "\(transcript)")
    return transcript.split(separator: "\n").count { $0 == "after 200 ms" }
  }

  private let content = String(repeating: "x", count: 2500)

  @Test func contentOfKnownLengthIsPaced() {
    let upload = head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 2500") + content
    #expect(pauses(upload, host: "a.example") == 2)
  }

  @Test func chunksArePaced() {
    let upload =
      head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + "9c4\r\n" + content
      + "\r\n0\r\n\r\n"
    #expect(pauses(upload, host: "a.example") == 2)
  }

  @Test func aBodyThatIsWrittenAnewIsPaced() {
    let upload =
      head(
        "POST http://made.example/ HTTP/1.1", "Host: made.example", "Content-Type: application/x-www-form-urlencoded",
        "Content-Length: 2500") + content
    #expect(pauses(upload, host: "made.example") == 2)
  }
}

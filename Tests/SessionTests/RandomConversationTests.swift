// Conversations that chance writes: good ones come out the same however they are cut, and say what went in; damaged ones
// never make a byte leave that is against the grammar, and never leave a client without an answer.

import Policy
import TestSupport
import Testing

@testable import Session
@testable import TLSWire

@Suite struct RandomConversationTests {
  /// By what way requests reach their origin.
  private enum Way: CaseIterable {
    case plain, https, upgraded, intercepted

    var policy: Policy {
      switch self {
      case .plain, .https: plainPolicy
      case .upgraded: RandomConversationTests.upgrading
      case .intercepted: RandomConversationTests.intercepting
      }
    }

    /// What a client says before its first request.
    var begin: String {
      self == .intercepted ? head("CONNECT h1.example:443 HTTP/1.1", "Host: h1.example:443") : ""
    }

    /// What a request line names for `path`, and Host.
    func target(_ path: String, _ generator: inout SeededGenerator) -> (target: String, host: String) {
      switch self {
      case .plain, .upgraded:
        return ("http://h\(Int.random(in: 0..<3, using: &generator)).example\(path)", "h")
      case .https: return ("https://h\(Int.random(in: 0..<3, using: &generator)).example\(path)", "h")
      case .intercepted:
        return (Bool.random(using: &generator) ? path : "https://h1.example\(path)", "h1.example")
      }
    }
  }

  private static let upgrading = policy("[[rule]]\nname = \"up\"\nupgrade = true")
  private static let intercepting = policy("[[rule]]\nname = \"open\"\nconnect = \"intercept\"")
  private static let verifying = policy("[[rule]]\nname = \"seen\"\nconnect = \"verify\"")
  private static let reporting = policy("[[rule]]\nname = \"told\"\nconnect = \"verify\"\nenforce = false")
  private static let matching = policy("proxy.default = \"deny\"\n[[rule]]\nname = \"plain\"")
  private static let speaking = policy("[[rule]]\nname = \"speaks\"\npaths = [\"/x\"]")

  /// One exchange, as its two sides say it, and what the other side is to read.
  private struct Exchange {
    var request = ""
    var response = ""
    var requestContent = ""
    var responseContent = ""
  }

  private static func content(_ generator: inout SeededGenerator) -> String {
    let longest = [0, 3, 40, 900][Int.random(in: 0..<4, using: &generator)]
    let letters = ["a", "\r\n", "0", "\u{0}", "\u{ff}", "HTTP/1.1 200 OK\r\n\r\n", "GET / HTTP/1.1\r\n"]
    var text = ""
    for _ in 0..<Int.random(in: 0...longest, using: &generator) / 3 {
      text += letters.randomElement(using: &generator) ?? ""
    }
    return text
  }

  private static func chunked(_ content: String, _ generator: inout SeededGenerator) -> String {
    var rest = octets(content)[...]
    var text = ""
    while !rest.isEmpty {
      let part = rest.prefix(
        Int.random(in: 1...(Bool.random(using: &generator) ? 3 : 200), using: &generator))
      rest = rest.dropFirst(part.count)
      text += String(part.count, radix: 16) + (Bool.random(using: &generator) ? ";x=\"y;z\"" : "") + "\r\n"
      for byte in part { text.unicodeScalars.append(Unicode.Scalar(byte)) }
      text += "\r\n"
    }
    return text + (Bool.random(using: &generator) ? "0\r\n\r\n" : "00;a\r\nX-Sum: 1\r\n\r\n")
  }

  private static func exchange(_ number: Int, _ way: Way, _ generator: inout SeededGenerator) -> Exchange {
    var exchange = Exchange()
    let method =
      ["GET", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"].randomElement(using: &generator) ?? "GET"
    let (target, host) = way.target("/\(number)", &generator)
    var begin = "\(method) \(target) HTTP/1.1\r\nHost: \(host)\r\n"
    if Bool.random(using: &generator) { begin += "X-Mine: \(number)\r\nConnection: x-mine\r\n" }
    switch Int.random(in: 0..<3, using: &generator) {
    case 0 where method != "HEAD":
      exchange.requestContent = content(&generator)
      begin += "Content-Length: \(octets(exchange.requestContent).count)\r\n\r\n"
      exchange.request = begin + exchange.requestContent
    case 1 where method != "HEAD":
      exchange.requestContent = content(&generator)
      exchange.request =
        begin + "Transfer-Encoding: chunked\r\n\r\n" + chunked(exchange.requestContent, &generator)
    default: exchange.request = begin + "\r\n"
    }
    if Int.random(in: 0..<4, using: &generator) == 0 {
      exchange.response = head("HTTP/1.1 103 Early Hints", "Link: </\(number)>")
    }
    let isBare = method == "HEAD"
    switch Int.random(in: 0..<5, using: &generator) {
    case 0: exchange.response += head("HTTP/1.1 204 No Content", "Date: today")
    case 1: exchange.response += head("HTTP/1.1 304 Not Modified", "Date: today", "Content-Length: 77")
    case 2:
      exchange.responseContent = isBare ? "" : content(&generator)
      exchange.response += head("HTTP/1.1 200 OK", "Date: today", "Transfer-Encoding: chunked")
      if !isBare { exchange.response += chunked(exchange.responseContent, &generator) }
    default:
      exchange.responseContent = content(&generator)
      let length = octets(exchange.responseContent).count
      exchange.response += head("HTTP/1.1 200 OK", "Date: today", "Content-Length: \(length)")
      if isBare { exchange.responseContent = "" } else { exchange.response += exchange.responseContent }
    }
    return exchange
  }

  /// What stands behind `> content: ` and its like, all lines together.
  private static func contents(_ transcript: String, _ arrow: String) -> String {
    var text = ""
    for line in transcript.split(separator: "\n") {
      for kind in ["content", "chunked"] where line.hasPrefix("\(arrow) \(kind): ") {
        text += line.dropFirst(arrow.utf8.count + kind.utf8.count + 3)
      }
    }
    return text
  }

  @Test(arguments: 1...60 as ClosedRange<UInt64>) func goodConversationsAreTheSameHoweverTheyAreCut(
    seed: UInt64
  ) {
    var generator = SeededGenerator(seed: seed)
    let way = Way.allCases[Int(seed % 4)]
    let exchanges = (0..<Int.random(in: 1...5, using: &generator)).map { Self.exchange($0, way, &generator) }
    var happenings: [Happening] = []
    let isPipelined = Bool.random(using: &generator)
    happenings.append(.client(way.begin + (isPipelined ? exchanges.map(\.request).joined() : "")))
    for exchange in exchanges {
      if !isPipelined { happenings.append(.client(exchange.request)) }
      happenings += [Bool.random(using: &generator) ? .opened : .reused, .upstream(exchange.response)]
    }
    let whole = Stage(way.policy, .whole, isWrapped: false)
    let transcript = whole.play(happenings)
    #expect(whole.faults.isEmpty, "\(whole.faults)\n\(transcript)")
    let count = exchanges.count + (way == .intercepted ? 1 : 0)
    #expect(whole.entries.map(\.record.outcome) == Array(repeating: .done, count: count), "\(transcript)")
    #expect(whole.entries.filter { $0.record.way.assurance == .exact }.count == (way == .plain ? 0 : exchanges.count))
    #expect(
      Self.contents(transcript, ">")
        == exchanges.map { shown(octets($0.requestContent), atMost: 9999) }.joined())
    #expect(
      Self.contents(transcript, "<")
        == exchanges.map { shown(octets($0.responseContent), atMost: 9999) }.joined())
    let random = (1...6).map { Split.random(seed: $0 &+ seed, longest: $0 % 2 == 0 ? 5 : 300) }
    for split in [.bytewise] + random {
      let stage = Stage(way.policy, split, isWrapped: false)
      let other = stage.play(happenings)
      #expect(stage.faults.isEmpty, "\(split): \(stage.faults)")
      if other != transcript { Issue.record("\(split):\n\(difference(other, transcript))") }
    }
  }

  private static func damaged(_ text: String, _ generator: inout SeededGenerator) -> String {
    var bytes = octets(text)
    let telling = octets("\r\n \t:;,/@\u{0}\u{7f}\u{80}019afgTCx-+")
    for _ in 0..<Int.random(in: 1...3, using: &generator) where !bytes.isEmpty {
      let place = Int.random(in: 0..<bytes.count, using: &generator)
      switch Int.random(in: 0..<4, using: &generator) {
      case 0: bytes[place] = telling.randomElement(using: &generator) ?? 0
      case 1: bytes.insert(telling.randomElement(using: &generator) ?? 0, at: place)
      case 2: bytes.remove(at: place)
      default: bytes.removeSubrange(place..<min(bytes.count, place + 7))
      }
    }
    var damaged = ""
    for byte in bytes { damaged.unicodeScalars.append(Unicode.Scalar(byte)) }
    return damaged
  }

  @Test(arguments: 1...60 as ClosedRange<UInt64>) func damageNeverMakesAnInvalidStream(seed: UInt64) {
    var generator = SeededGenerator(seed: seed &* 7919)
    for _ in 0..<12 {
      let way = Way.allCases.randomElement(using: &generator) ?? .plain
      let exchanges = (0..<3).map { Self.exchange($0, way, &generator) }
      let hitsClient = Bool.random(using: &generator)
      let requests = way.begin + exchanges.map(\.request).joined()
      var happenings: [Happening] = [.client(hitsClient ? Self.damaged(requests, &generator) : requests)]
      for exchange in exchanges {
        let response = hitsClient ? exchange.response : Self.damaged(exchange.response, &generator)
        happenings += [.opened, .upstream(response)]
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: happenings.append(.upstreamEnds)
        case 1: happenings.append(.upstreamBreaks)
        default: break
        }
      }
      happenings += [.clientEnds, .timeOut, .timeOut]
      for split in [Split.whole, .random(seed: seed, longest: 11)] {
        let stage = Stage(way.policy, split, isLenient: true)
        let transcript = stage.play(happenings)
        #expect(stage.faults.isEmpty, "\(split): \(stage.faults)\n\(transcript)")
        // Whoever was not answered has left, or was broken off within an answer.
        for entry in stage.entries where entry.record.answer.status == 0 {
          #expect(entry.record.outcome == .clientLeft, "\(split)\n\(transcript)")
        }
      }
    }
  }

  // MARK: Tunnels that are verified

  private static let hellos = [
    CapturedHello.openssl12, CapturedHello.openssl12Ticket, CapturedHello.openssl13EarlyData, CapturedHello.curl,
    BuiltHello(named("a.example") + versions(0x0304)).asRecords,
    records(BuiltHello(named("a.example")).asMessage, longest: 20),
  ]
  private static let answers = [
    CapturedFlight.p256Staple, CapturedFlight.resumesTicket, CapturedFlight.tls13, CapturedFlight.versionAlert,
    records(BuiltAnswer().asMessage + certificates([[1], [2, 3]]) + serverHelloDone, longest: 9),
  ]

  /// What left for one side in a tunnel, as it is shown.
  private static func raw(_ transcript: String, _ arrow: String) -> String {
    transcript.split(separator: "\n").filter { $0.hasPrefix("\(arrow) raw: ") }.map { $0.dropFirst(7) }.joined()
  }

  /// Whatever is said in a tunnel, each side gets what the other said, from its beginning, or an alert in its place; and
  /// where the hello is refused, nothing has left.
  @Test(arguments: 1...60 as ClosedRange<UInt64>) func aTunnelPassesWhatItGetsOrNothing(seed: UInt64) {
    var generator = SeededGenerator(seed: seed &* 104_729)
    for _ in 0..<8 {
      var client = characters(Self.hellos.randomElement(using: &generator) ?? []) + Self.content(&generator)
      var server = characters(Self.answers.randomElement(using: &generator) ?? []) + Self.content(&generator)
      if Bool.random(using: &generator) { client = Self.damaged(client, &generator) }
      if Bool.random(using: &generator) { server = Self.damaged(server, &generator) }
      var happenings: [Happening] = [.client(connect), .opened]
      if Bool.random(using: &generator) { happenings.append(.refusesCertificates(.pinMismatch)) }
      happenings += [.client(client), .upstream(server)]
      happenings += Bool.random(using: &generator) ? [.clientEnds, .upstreamEnds] : [.upstreamEnds, .clientEnds]
      let policies = [Self.verifying, Self.verifying, Self.reporting, Self.matching, Self.matching, Self.speaking]
      let policy = policies.randomElement(using: &generator) ?? Self.verifying
      var transcripts: [String] = []
      for split in [Split.whole, .bytewise, .random(seed: seed, longest: 40)] {
        let stage = Stage(policy, split, isWrapped: false)
        let transcript = stage.play(happenings)
        transcripts.append(transcript)
        #expect(stage.faults.isEmpty, "\(split): \(stage.faults)\n\(transcript)")
        let record = stage.entries.first?.record
        #expect(stage.entries.count == 1, "\(transcript)")
        #expect(shown(octets(client), atMost: 9999).hasPrefix(Self.raw(transcript, ">")), "\(transcript)")
        var toClient = Self.raw(transcript, "<")
        if case .tunnelFault(let fault) = record?.outcome {
          toClient = Self.withoutAlert(toClient)
          switch fault {
          case .missingServerName, .unexpectedServerName, .otherServerName, .clearRequest:
            #expect(Self.raw(transcript, ">").isEmpty && toClient.isEmpty, "\(transcript)")
          case .client, .server, .versionNotAllowed, .cipherNotAllowed, .changedServerName: break
          }
        }
        if case .tunnelRefused = record?.outcome { toClient = Self.withoutAlert(toClient) }
        #expect(shown(octets(server), atMost: 9999).hasPrefix(toClient), "\(split)\n\(transcript)")
      }
      #expect(Set(transcripts).count == 1, "\(difference(transcripts.last ?? "", transcripts[0]))")
    }
  }

  /// An alert that the proxy says itself is the last thing that a client hears.
  private static func withoutAlert(_ text: String) -> String {
    for description in [40, 42, 112] as [UInt8] {
      let alert = shown(alert(2, description))
      if text.hasSuffix(alert) { return String(text.dropLast(alert.count)) }
    }
    return text
  }
}

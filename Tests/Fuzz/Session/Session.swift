// Fuzzes a whole conversation: what the client and the upstream get is the same, however their bytes are split, and
// nothing that happens crashes.
//
// Run: make fuzz. The first byte of the input seeds the splits; the rest is what the client sends, then 0xff 0xff, then
// what the upstream sends. The driver plays the server: the client's bytes first, as far as they are wanted, then the
// upstream's, until nothing moves. Chunks may be cut differently, so that chunked content is compared unchunked.

import Bytes
import HTTP1
import Policy
import Serialization
import Session

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzSession_main")
public func fuzzSessionMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzSession)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzSession(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data else { return 0 }
  guard count > 2 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  var divide = bytes.count
  for index in 0..<bytes.count - 1 where bytes[index] == 0xff && bytes[index + 1] == 0xff {
    divide = index
    break
  }
  let client = Array(bytes[..<divide])
  let upstream = Array(bytes[min(bytes.count, divide + 2)...])
  let whole = Driver(client, upstream, seed: nil).run()
  let split = Driver(client, upstream, seed: UInt64(data[0]) &* 0x9e37_79b9_7f4a_7c15 | 1).run()
  if whole != split { fatalError("whole:\n\(whole)\nsplit:\n\(split)") }
  return 0
}

/// What became of one exchange.
private struct Outcome: Equatable {
  var toClient: [UInt8] = []
  var toUpstream: [UInt8] = []
  /// What a tunnel carries is no message, whatever it looks like.
  var isTunnel = false
  /// Whether the upstream is kept depends on how much of it was seen when the response ended, and is not compared.
  var client: Ending.ClientFate?
}

private struct Driver: ~Copyable {
  private var session: Session
  private var workspace: Workspace
  private var outputs = Outputs()
  private let policy = fuzzPolicy
  private let client: Stream
  private let upstream: Stream
  private var now: Int64 = 0
  private var outcomes: [Outcome] = [Outcome()]
  private var hasUpstream = false
  private var isOver = false
  private var upstreamEnded = false

  /// Bytes of one side, shown in pieces.
  final class Stream {
    let bytes: [UInt8]
    var consumed = 0
    var shown = 0
    var state: UInt64?

    init(_ bytes: [UInt8], seed: UInt64?) {
      self.bytes = bytes
      state = seed
    }

    /// Shows some more; false where all has been shown.
    func showMore() -> Bool {
      if shown == bytes.count { return false }
      guard var state else {
        shown = bytes.count
        return true
      }
      state = state &* 6_364_136_223_846_793_005 &+ 1
      self.state = state
      shown = min(bytes.count, shown + 1 + Int(state >> 60))
      return true
    }

    var window: Range<Int> { consumed..<shown }
  }

  init(_ client: [UInt8], _ upstream: [UInt8], seed: UInt64?) {
    session = Session(policy: fuzzPolicy, in: ExchangeRooms(), now: 0)
    workspace = Workspace(
      name: "fuzz", mark: ViaMark(random: 1), references: ReferenceSource(seed: 0, index: 0, of: 1))
    workspace.setWallClock(milliseconds: 0)
    self.client = Stream(client, seed: seed)
    self.upstream = Stream(upstream, seed: seed.map { $0 ^ 0xff })
  }

  consuming func run() -> [Outcome] {
    var moved = true
    while moved && !isOver {
      moved = runClient()
      if hasUpstream && !isOver { moved = runUpstream() || moved }
    }
    if !isOver { perform(session.clientEnded(now: now, &workspace, &outputs)) }
    if !isOver { perform(session.timedOut(now: session.deadline, &workspace, &outputs)) }
    return outcomes.map { outcome in
      if outcome.isTunnel { return outcome }
      return Outcome(
        toClient: unchunked(outcome.toClient), toUpstream: unchunked(outcome.toUpstream), client: outcome.client)
    }
  }

  private mutating func runClient() -> Bool {
    var moved = false
    while !isOver, session.wantsClientBytes {
      let shown = client.bytes
      let step = session.clientReceived(
        shown.span.extracting(client.window), now: now, policy: policy, &workspace, &outputs)
      client.consumed += step.consumed
      moved = moved || step.consumed > 0
      switch step.action {
      case .read:
        if client.window.isEmpty || step.consumed == 0 { if !client.showMore() { return moved } }
      case .hold: return moved
      case .forward(let count):
        collect()
        outcomes[outcomes.count - 1].toUpstream += client.bytes[client.consumed..<client.consumed + count]
        client.consumed += count
        session.exchange.clientForwarded(count, now: now)
        moved = true
      default:
        perform(step.action)
        moved = true
      }
    }
    collect()
    return moved
  }

  private mutating func runUpstream() -> Bool {
    var moved = false
    while !isOver, hasUpstream, !upstreamEnded {
      let shown = upstream.bytes
      let step = session.exchange.upstreamReceived(
        shown.span.extracting(upstream.window), now: now, &workspace, &outputs)
      upstream.consumed += step.consumed
      moved = moved || step.consumed > 0
      switch step.action {
      case .read:
        if upstream.window.isEmpty || step.consumed == 0 {
          if !upstream.showMore() {
            collect()
            upstreamEnded = true
            perform(session.exchange.upstreamEnded(.closed, now: now, &workspace, &outputs))
            return true
          }
        }
      case .hold: return moved
      case .forward(let count):
        collect()
        outcomes[outcomes.count - 1].toClient += upstream.bytes[upstream.consumed..<upstream.consumed + count]
        upstream.consumed += count
        session.exchange.upstreamForwarded(count, now: now)
        if let action = session.exchange.endIfComplete() { perform(action) }
        moved = true
      default:
        perform(step.action)
        moved = true
      }
    }
    collect()
    return moved
  }

  private mutating func perform(_ action: Action) {
    collect()
    switch action {
    case .read, .hold, .closeOtherWrite: break
    case .tunnel: outcomes[outcomes.count - 1].isTunnel = true
    case .forward: fatalError("bytes to forward, of nobody")
    case .intercept: perform(session.exchange.interiorOpened(&workspace, &outputs))
    case .judge: perform(session.exchange.tunnelJudged(nil, &workspace, &outputs))
    case .connect, .reconnect:
      if action == .reconnect { hasUpstream = false }
      let opened = session.exchange.upstreamOpened(
        reused: false, address: IPAddress(ipv4: 1), port: 80, now: now, &workspace, &outputs)
      hasUpstream = true
      upstreamEnded = false
      perform(opened)
    case .end(let ending):
      outcomes[outcomes.count - 1].client = ending.client
      hasUpstream = false
      outputs.replay.removeAll()
      session.exchangeEnded(now: now, keeps: [.keep, .intercept].contains(ending.client))
      if [.keep, .intercept].contains(ending.client) { outcomes.append(Outcome()) } else { isOver = true }
    case .close: isOver = true
    }
  }

  private mutating func collect() {
    let last = outcomes.count - 1
    for index in 0..<outputs.toClient.count {
      let byte = outputs.toClient.bytes[index]
      outcomes[last].toClient.append(byte)
    }
    for index in 0..<outputs.toUpstream.count {
      let byte = outputs.toUpstream.bytes[index]
      outcomes[last].toUpstream.append(byte)
    }
    outputs.toClient.removeAll()
    outputs.toUpstream.removeAll()
  }
}

/// The message with its chunks joined; as it is where it is not chunked.
private func unchunked(_ message: [UInt8]) -> [UInt8] {
  var head = 0
  while head + 3 < message.count,
    !(message[head] == 13 && message[head + 1] == 10 && message[head + 2] == 13 && message[head + 3] == 10)
  { head += 1 }
  guard head + 4 <= message.count else { return message }
  let text = String(decoding: message[..<head], as: UTF8.self)
  if text.hasPrefix("HTTP/1.1 1") { return Array(message[..<(head + 4)]) + unchunked(Array(message[(head + 4)...])) }
  guard text.contains("\r\nTransfer-Encoding: chunked") else { return message }
  var result = Array(message[..<(head + 4)])
  var decoder = ChunkedDecoder()
  var at = head + 4
  while true {
    switch decoder.next(message.span, from: at) {
    case .data(let range):
      result += message[range]
      at = range.upperBound
    case .needMore: return result
    case .lastChunk(let consumed): return result + Array("<end>".utf8) + message[consumed...]
    case .invalid(let fault): fatalError("the session wrote a bad chunk: \(fault)")
    }
  }
}

/// A policy in which every part of the request path has something to do.
private let fuzzPolicy: Policy = {
  var configuration = Configuration()
  configuration.limits.headerBytes = 2048
  configuration.limits.headers = 24
  configuration.limits.bufferedBodyBytes = 512
  var edits = RequestPolicy()
  edits.cookies = false
  edits.timeoutMilliseconds = 1000
  edits.fields.set("User-Agent", Array("fuzz".utf8))
  edits.fields.setDefault("Accept-Language", Array("en".utf8))
  edits.fields.remove("X-Remove")
  var conditions = Rule.Conditions()
  conditions.hosts = [.atOrBelow("a.example")]
  var denied = Rule.Conditions()
  denied.hosts = [.name("b.example")]
  var upgraded = Rule.Conditions()
  upgraded.hosts = [.name("u.example")]
  var verified = Rule.Conditions()
  verified.hosts = [.name("v.example")]
  var intercepted = Rule.Conditions()
  intercepted.hosts = [.name("i.example")]
  var serialized = Rule.Conditions()
  serialized.hosts = [.name("s.example")]
  var rewriting = edits
  rewriting.serialization = RequestSerialization(
    format: .json, parameters: [ParameterEntry(key: Array("k".utf8), value: .string(Array("v".utf8)))], transcodes: true
  )
  var passed = Rule.Conditions()
  passed.hosts = [.name("p.example")]
  var passing = edits
  passing.serialization = RequestSerialization(
    parameters: [ParameterEntry(key: Array("k".utf8), value: .integer(1))], onConflict: .pass)
  passing.throttle = Throttle(
    upload: Throttle.Upload(packetBytes: 1 << 20, delayMilliseconds: 1), downloadBytesPerSecond: 1 << 20)
  let place = SourceLocation(file: "fuzz", line: 1, column: 1)
  return Policy(
    configuration: configuration,
    rules: [
      Rule(name: "edit", location: place, conditions: conditions, request: edits),
      Rule(name: "deny", location: place, conditions: denied, action: .deny, reason: "no"),
      Rule(name: "upgrade", location: place, conditions: upgraded, upgrade: true),
      Rule(name: "verify", location: place, conditions: verified, connect: .verify),
      Rule(
        name: "reject", location: place, conditions: serialized, request: rewriting,
        response: ResponseSerialization(
          kinds: [.json], removesNulls: true, onStatus: .reject, onOversize: .reject)),
      Rule(
        name: "annotate", location: place, conditions: passed, request: passing,
        response: ResponseSerialization(
          kinds: [.xml, .plist, .image, .json], onContentType: .annotate, onBody: .annotate)),
      Rule(name: "intercept", location: place, conditions: intercepted, connect: .intercept, request: edits),
    ])
}()

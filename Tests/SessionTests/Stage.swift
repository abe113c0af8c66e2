// Plays the server around a session, in memory, and writes the whole conversation down.
//
// A play is a list of things that happen, in order. What the client or the upstream says is shown to the session in
// pieces; between two happenings everything that can move has moved. The transcript must be the same however the bytes
// were cut: that is what `play` asserts, besides that it is the expected one and that no byte left against the grammar.

import Bytes
import HTTP1
import Policy
import TestSupport
import Testing

@testable import Session

/// One thing that happens.
enum Happening: Sendable {
  /// Bytes of the client, of the upstream.
  case client(String)
  case upstream(String)
  /// A new connection is there, or a kept one.
  case opened, reused
  case failed(Problem.Kind, String)
  /// The end of what this side has to say; its connection is gone.
  case clientEnds, clientBreaks, upstreamEnds, upstreamBreaks
  case upstreamTakesNoMore
  /// From here what is sent to the upstream waits in the kernel.
  case upstreamReadsNothing
  /// So many milliseconds pass in which nothing is due.
  case pass(Int64)
  /// As much time passes as it takes for something to be due.
  case timeOut
  case drain, shutDown
  /// Another policy is in force from here, as after a reload.
  case reload(Policy)
  /// From here the certificates in a tunnel are refused, and for what.
  case refusesCertificates(Problem.Kind)
  /// From here no leaf can be had for a tunnel that is to be intercepted.
  case cannotIntercept(String)
}

/// The lines of a head, with the empty line that ends it.
func head(_ lines: String...) -> String { lines.map { $0 + "\r\n" }.joined() + "\r\n" }

/// What most plays ask for, and what most origins answer.
let get = head("GET http://a.example/x HTTP/1.1", "Host: a.example")
let post = head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5")
let connect = head("CONNECT a.example:443 HTTP/1.1", "Host: a.example:443")
let ok = head("HTTP/1.1 200 OK", "Date: today", "Content-Length: 2") + "ok"

final class Stage {
  private var session: Session
  private var workspace: Workspace
  private var outputs = Outputs()
  private var policy: Policy
  private let split: Split
  private let isLenient: Bool
  private let isWrapped: Bool
  private var now: Int64 = 1000
  private var clientInput: [UInt8] = []
  private var upstreamInput: [UInt8] = []
  private var sawClientInput = false
  private var sawUpstreamInput = false
  private var awaitsUpstream = false
  private var upstreamIsFull = false
  private var toClient = StreamReader(.response)
  private var toUpstream: StreamReader?
  /// The client has closed its sending direction: not told yet, told while an answer was awaited, told.
  private var clientEnd: ClientEnd?
  private var isClosed = false
  private var upstreamHasEnded = false
  private var references: [String] = []
  /// Bytes that went to and came from the client within the exchange.
  private var sent = 0
  private var taken = 0
  private(set) var lines: [String] = []
  /// What must never happen, whatever the play.
  private(set) var faults: [String] = []
  /// What is recorded of each exchange that has ended.
  private(set) var entries: [Entry] = []
  private var certificateRefusal: Problem.Kind?
  private var interceptionFailure: String?

  struct Entry {
    let record: ExchangeRecord
    /// Method and target.
    let text: String
  }

  private enum ClientEnd { case pending, announced, told }

  /// Bytes that the transcript calls by a name.
  struct Named: Sendable {
    let name: String
    let bytes: [UInt8]
  }

  private let names: [Named]

  /// Written 7F3K2A9Q.
  static let mark = ViaMark(random: 0x3bc7312937)

  /// `isLenient`: what happens may come at a time when nobody waits for it. `isWrapped`: long lines go on further in.
  init(_ policy: Policy, _ split: Split, isLenient: Bool = false, isWrapped: Bool = true, names: [Named] = []) {
    self.policy = policy
    self.names = names
    self.isWrapped = isWrapped
    self.isLenient = isLenient
    self.split = split
    session = Session(policy: policy, in: ExchangeRooms(), now: now)
    workspace = Workspace(
      name: "sallyport", mark: Self.mark, references: ReferenceSource(seed: 0, index: 0, of: 1))
    workspace.setWallClock(milliseconds: 784_111_777_000)
    workspace.nonces.chance = { 0 }
  }

  /// What the exchange under way is expected to come to, of the client and to it.
  var expectedBytes: [UInt64?] { [session.exchange.expectedBytesIn, session.exchange.expectedBytesOut] }

  /// Plays everything and answers the transcript.
  func play(_ happenings: [Happening]) -> String {
    for happening in happenings { play(happening) }
    write()
    faults += (toUpstream?.breaches ?? []) + toClient.breaches
    if toUpstream?.isWithinMessage ?? false { lines.append("(the upstream waits for the rest of a request)") }
    if toClient.isWithinMessage, !isClosed { lines.append("(the client waits for the rest of a response)") }
    let named = lines.map { line in
      names.reduce(masked(line)) { $0.replacing(shown($1.bytes, atMost: 9999), with: "{\($1.name)}") }
    }
    return (isWrapped ? named.map(Self.wrapped) : named).joined(separator: "\n")
  }

  /// A long line goes on, further in, before a space where there is one.
  static func wrapped(_ line: String) -> String {
    let longest = 96
    guard line.utf8.count > longest else { return line }
    let limit = line.index(line.startIndex, offsetBy: longest)
    let space = line[..<limit].lastIndex(of: " ") ?? limit
    let isNearBegin = line[..<space].utf8.count < longest / 2
    let end = isNearBegin ? limit : space
    return line[..<end] + "\n" + wrapped("    " + line[end...])
  }

  /// Plays on and answers what the session says of itself then, in words.
  func state(after happenings: Happening...) -> String {
    for happening in happenings { play(happening) }
    return Self.state(session)
  }

  private static func state(_ session: borrowing Session) -> String {
    var words: [String] = []
    if session.isIdle { words.append("idle") }
    if session.isInExchange { words.append("in-exchange") }
    if session.exchange.isConnecting { words.append("connecting") }
    if session.exchange.isTunnel { words.append("tunnel") }
    if session.exchange.isInTunnel { words.append("in-tunnel") }
    if session.exchange.upstream.carrier.contains(.mayRetry) { words.append("may-retry") }
    if session.exchange.keepsReplay { words.append("keeps-replay") }
    if session.exchange.awaitsOnlyUpstream { words.append("awaits-only-upstream") }
    if session.exchange.awaitsResponseHead { words.append("awaits-response-head") }
    if session.wantsClientBytes { words.append("wants-client-bytes") }
    if session.exchange.unchangedRequestBytes > 0 { words.append("request:\(session.exchange.unchangedRequestBytes)") }
    if session.exchange.unchangedResponseBytes == .max { words.append("response:until-close") }
    if (1..<UInt64.max).contains(session.exchange.unchangedResponseBytes) {
      words.append("response:\(session.exchange.unchangedResponseBytes)")
    }
    return words.joined(separator: " ")
  }

  private func play(_ happening: Happening) {
    switch happening {
    case .client(let text):
      for piece in split.pieces(octets(text)) {
        if isClosed { return }
        if clientEnd != nil { faults.append("the client spoke after its end") }
        clientInput += piece
        sawClientInput = false
        settle()
      }
    case .upstream(let text):
      for piece in split.pieces(octets(text)) where toUpstream != nil {
        upstreamInput += piece
        sawUpstreamInput = false
        settle()
      }
    case .opened: open(reused: false)
    case .reused: open(reused: true)
    case .failed(let kind, let detail):
      guard awaitsUpstream else { return faults.append("an upstream failed that nobody waits for") }
      awaitsUpstream = false
      perform(session.exchange.upstreamFailed(UpstreamFailure(kind, detail), in: &workspace, to: &outputs))
    case .clientEnds: clientEnd = .pending
    case .clientBreaks: perform(session.clientFailed())
    case .upstreamEnds: endUpstream(broken: false)
    case .upstreamBreaks: endUpstream(broken: true)
    case .upstreamTakesNoMore:
      if toUpstream != nil { perform(session.exchange.upstreamWriteFailed(in: &workspace, to: &outputs)) }
    case .upstreamReadsNothing: upstreamIsFull = true
    case .pass(let milliseconds):
      now += milliseconds
      if session.deadline <= now { faults.append("something was due \(now - session.deadline) ms ago") }
    case .timeOut:
      guard session.deadline != .max else { return lines.append("nothing is ever due") }
      lines.append("after \(session.deadline - now) ms")
      now = session.deadline
      perform(session.timedOut(now: now, upstreamIsFull: upstreamIsFull, in: &workspace, to: &outputs))
    case .drain:
      lines.append("the proxy drains")
      perform(session.drain())
    case .shutDown:
      lines.append("the proxy shuts down")
      perform(session.shutDown(in: &workspace, to: &outputs))
    case .reload(let policy): self.policy = policy
    case .refusesCertificates(let kind): certificateRefusal = kind
    case .cannotIntercept(let detail): interceptionFailure = detail
    }
    settle()
  }

  private func open(reused: Bool) {
    guard awaitsUpstream else {
      if !isLenient { faults.append("an upstream was opened that nobody waits for") }
      return
    }
    awaitsUpstream = false
    let reader = StreamReader(.request)
    toUpstream = reader
    upstreamHasEnded = false
    upstreamInput = []
    let action = session.exchange.upstreamOpened(
      reused: reused, address: IPAddress(ipv4: 0xc000_0201), port: session.exchange.upstream.port, assurance: assurance,
      now: now,
      in: &workspace, to: &outputs)
    perform(action)
  }

  /// What a server says of a connection whose certificate it has looked at.
  private var assurance: Assurance? {
    session.exchange.verifiesTunnel ? .probe : session.exchange.usesTLS ? .exact : nil
  }

  private func endUpstream(broken: Bool) {
    // A server hears of it only where it has a connection.
    guard toUpstream != nil else { return }
    upstreamHasEnded = true
    perform(
      session.exchange.upstreamEnded(broken ? .broken : .closed, now: now, in: &workspace, to: &outputs),
      ofUpstream: true)
  }

  // MARK: Moving

  /// Goes on until nothing moves.
  private func settle() {
    flush()
    while !isClosed {
      if !clientInput.isEmpty, !sawClientInput, session.wantsClientBytes {
        pumpClient()
      } else if !upstreamInput.isEmpty, !sawUpstreamInput, toUpstream != nil {
        pumpUpstream()
      } else if clientEnd == nil || clientEnd == .told || !tellOfClientEnd() {
        return
      }
    }
  }

  /// The end of the client's bytes is read where bytes would be, and announced where only an answer is awaited.
  private func tellOfClientEnd() -> Bool {
    if session.wantsClientBytes {
      clientEnd = .told
    } else if clientEnd == .pending, session.exchange.awaitsOnlyUpstream {
      clientEnd = .announced
    } else {
      return false
    }
    if !clientInput.isEmpty, session.exchange.clientSaidAll() {
      pumpClient()
      if isClosed || !session.exchange.isInTunnel { return true }
    }
    perform(session.clientEnded(now: now, in: &workspace, to: &outputs))
    return true
  }

  private func pumpClient() {
    var goesOn = true
    while goesOn, !isClosed {
      let input = clientInput
      let step = session.clientReceived(input.span, now: now, policy: policy, in: &workspace, to: &outputs)
      note()
      taken += step.consumed
      clientInput.removeFirst(step.consumed)
      switch step.action {
      case .read:
        sawClientInput = true
        goesOn = false
      case .hold: goesOn = false
      case .forward(let count):
        flush()
        if session.exchange.keepsReplay { outputs.replay.append(Array(clientInput.prefix(count))) }
        toUpstream?.feed(clientInput.prefix(count))
        taken += count
        clientInput.removeFirst(count)
        session.exchange.clientForwarded(count, now: now)
        goesOn = !clientInput.isEmpty
      default:
        perform(step.action)
        goesOn = !clientInput.isEmpty && session.wantsClientBytes
      }
    }
    flush()
  }

  private func pumpUpstream() {
    var goesOn = true
    while goesOn, !isClosed, toUpstream != nil {
      let input = upstreamInput
      let step = session.exchange.upstreamReceived(input.span, now: now, in: &workspace, to: &outputs)
      upstreamInput.removeFirst(step.consumed)
      switch step.action {
      case .read:
        goesOn = step.consumed > 0 && !upstreamInput.isEmpty
        sawUpstreamInput = !goesOn
      case .hold: goesOn = false
      case .forward(let count):
        flush()
        toClient.feed(upstreamInput.prefix(count))
        sent += count
        upstreamInput.removeFirst(count)
        session.exchange.upstreamForwarded(count, now: now)
        if let action = session.exchange.endIfComplete() { perform(action) }
        goesOn = !upstreamInput.isEmpty
      default:
        perform(step.action)
        goesOn = !upstreamInput.isEmpty
      }
    }
    flush()
  }

  /// Remembers what the exchange is called.
  private func note() {
    var buffer = ByteBuffer()
    session.exchange.record.reference.write(to: &buffer)
    let reference = buffer.bytes.string
    if session.exchange.record.times.begun != 0, !references.contains(reference) {
      references.append(reference)
      let text = outputs.text.array
      toClient.method = String(decoding: text[session.exchange.record.text.method], as: UTF8.self)
    }
  }

  /// Hands over what the session wants sent.
  private func flush() {
    note()
    if !outputs.toClient.isEmpty {
      toClient.feed(outputs.toClient.array)
      sent += outputs.toClient.count
      outputs.toClient.removeAll()
      session.exchange.progressed(now: now)
    }
    // Without a connection it waits.
    if let toUpstream, !outputs.toUpstream.isEmpty {
      toUpstream.feed(outputs.toUpstream.array)
      outputs.toUpstream.removeAll()
      session.exchange.progressed(now: now)
    }
    write()
  }

  // MARK: Actions

  private func perform(_ action: Action, ofUpstream: Bool = false) {
    if action == .reconnect {
      // What stands in the outputs now is for the next connection.
      toUpstream = nil
      upstreamInput = []
    }
    flush()
    switch action {
    case .read, .hold: break
    case .forward: faults.append("bytes to forward where none were shown")
    case .connect, .reconnect:
      let host = workspace.decisions.host.bytes
      var what = session.exchange.usesTLS ? " under TLS" : ""
      if session.exchange.isTunnel {
        what += session.exchange.verifiesTunnel ? " for a tunnel that is verified" : " for a tunnel"
      }
      if action == .reconnect { what += " once more" }
      lines.append("connect \(String(decoding: host, as: UTF8.self)):\(session.exchange.upstream.port)\(what)")
      awaitsUpstream = true
    case .intercept:
      lines.append(
        "intercept \(String(decoding: session.interior?.host ?? [], as: UTF8.self)):\(session.exchange.upstream.port)")
      if let interceptionFailure {
        let failure = UpstreamFailure(.interceptionFailed, interceptionFailure)
        perform(session.exchange.upstreamFailed(failure, in: &workspace, to: &outputs))
      } else {
        perform(session.exchange.interiorOpened(in: &workspace, to: &outputs))
      }
    case .judge:
      lines.append("judge \(session.exchange.presentedCertificates?.certificates.count ?? 0) certificates")
      perform(
        session.exchange.tunnelJudged(certificateRefusal.map { Problem($0, "refused") }, in: &workspace, to: &outputs))
    case .tunnel:
      toClient.becomeRaw()
      toUpstream?.becomeRaw()
      lines.append("tunnel")
    case .closeOtherWrite:
      lines.append(
        ofUpstream
          ? "the client is told that no more will come" : "the upstream is told that no more will come")
    case .end(let ending): end(ending)
    case .close:
      lines.append("close")
      isClosed = true
    }
  }

  private func end(_ ending: Ending) {
    let isClean = ending.keepsUpstream && upstreamInput.isEmpty && !upstreamHasEnded
    var outcome = session.exchange.record.outcome.token.map { " \($0)" } ?? ""
    if case .tunnelFaultReported = session.exchange.record.outcome { outcome += ", reported" }
    var line = "end (\(session.exchange.record.answer.status)\(outcome)): client \(ending.client)"
    if let toUpstream {
      line += isClean ? ", upstream kept" : ", upstream closed"
      if toUpstream.isWithinMessage {
        line += " within the request"
        if isClean { faults.append("an upstream is kept that waits for the rest of a request") }
      }
      faults += toUpstream.breaches
    }
    if let assurance = session.exchange.record.way.assurance, assurance != .none { line += ", assurance \(assurance)" }
    lines.append(line)
    let text = outputs.text.array
    let method = String(decoding: text[session.exchange.record.text.method], as: UTF8.self)
    let target = String(decoding: text[session.exchange.record.text.target], as: UTF8.self)
    session.exchange.noteWhole(now: now)
    entries.append(Entry(record: session.exchange.record, text: method.isEmpty ? "" : "\(method) \(target)"))
    checkBoundary(ending)
    checkRecord()
    toUpstream = nil
    upstreamInput = []
    awaitsUpstream = false
    outputs.toUpstream.removeAll()
    outputs.replay.removeAll()
    sent = 0
    taken = 0
    let keeps = [.keep, .intercept].contains(ending.client) && (clientEnd != .told || !clientInput.isEmpty)
    session.exchangeEnded(now: now, keeps: keeps)
    if clientEnd == .announced { clientEnd = .pending }
    sawClientInput = false
    switch ending.client {
    case .keep: isClosed = !keeps
    case .intercept:
      // What follows is inside, and HTTP again.
      toClient = StreamReader(.response)
      isClosed = !keeps
    case .close, .cut, .abort: isClosed = true
    case .linger: clientInput = []
    }
  }

  /// A client that is kept, or that is closed on in peace, has got whole responses.
  private func checkBoundary(_ ending: Ending) {
    faults += toClient.breaches
    guard toClient.isWithinMessage else { return }
    switch ending.client {
    case .keep, .intercept: faults.append("the client is kept within a response")
    case .close, .linger:
      if !toClient.endsWithConnection && !session.exchange.isTunnel {
        faults.append("the client is closed on within a response")
      }
    case .abort: break
    case .cut:
      if toClient.endsWithConnection { faults.append("the client is cut off where nothing shows it") }
    }
  }

  private func checkRecord() {
    if session.exchange.record.traffic.bytesOut != UInt64(sent) {
      faults.append(
        "the record counts \(session.exchange.record.traffic.bytesOut) bytes to the client, \(sent) were sent")
    }
    // A head that was refused for what is missing has been looked at and not taken.
    if session.exchange.record.traffic.bytesIn != UInt64(taken),
      session.exchange.record.traffic.bytesIn != UInt64(taken + clientInput.count)
    {
      faults.append(
        "the record counts \(session.exchange.record.traffic.bytesIn) bytes of the client, \(taken) were taken")
    }
  }

  // MARK: The transcript

  /// Writes down what the peers have read.
  private func write() {
    if let toUpstream { write(toUpstream.takeItems(), ">") }
    write(toClient.takeItems(), "<")
  }

  private func write(_ items: [StreamReader.Item], _ arrow: String) {
    for item in items {
      switch item {
      case .line(let text): lines.append(text.isEmpty ? arrow : "\(arrow) \(text)")
      case .content(let bytes): append(bytes, arrow, "content")
      case .chunkedContent(let bytes): append(bytes, arrow, "chunked")
      case .raw(let bytes): append(bytes, arrow, "raw")
      case .lastChunk: lines.append("\(arrow) last chunk")
      case .trailer(let text): lines.append("\(arrow) trailer \(text)")
      }
    }
  }

  /// Content that goes on is written as one line.
  private func append(_ bytes: [UInt8], _ arrow: String, _ kind: String) {
    let prefix = "\(arrow) \(kind): "
    let text = shown(bytes, atMost: 9999)
    if lines.last?.hasPrefix(prefix) ?? false {
      lines[lines.count - 1] += text
    } else {
      lines.append(prefix + text)
    }
  }

  /// Each reference by its number, in as many characters as it has.
  private func masked(_ text: String) -> String {
    var text = text
    for (index, reference) in references.enumerated() {
      text = text.replacing(reference, with: "REF00\(index + 1)")
    }
    return text
  }
}

/// What a play is compared on.
enum Comparison: Sendable {
  /// The outline, which is the same in all splits.
  case outline
  /// The whole transcript.
  case everything
  /// The outline of what the client got and the ends: how much of a request that turned out bad has left depends on the
  /// splits.
  case client
}

/// Plays in every split, and holds each transcript against the expected one.
func play(
  _ happenings: Happening..., policy: Policy = plainPolicy, comparing: Comparison = .outline,
  gives expected: String, _ location: Testing.SourceLocation = #_sourceLocation
) {
  func compared(_ text: String) -> String {
    var lines = text.split(separator: "\n").map(String.init)
    if comparing != .everything { lines = Outline.of(lines) }
    if comparing == .client {
      lines = lines.filter { !$0.hasPrefix(">") && !$0.hasPrefix("(the upstream waits") }
        .map { $0.replacing(" within the request", with: "") }
    }
    return lines.map(Stage.wrapped).joined(separator: "\n")
  }
  for split in Split.usual {
    let stage = Stage(policy, split, isWrapped: false)
    let transcript = compared(stage.play(happenings))
    if transcript != expected {
      Issue.record("\(split):\n\(difference(transcript, expected))", sourceLocation: location)
      break
    }
    if !stage.faults.isEmpty {
      Issue.record(
        "\(split): \(stage.faults.joined(separator: "; "))\n\(transcript)", sourceLocation: location)
      break
    }
  }
}

/// The lines side by side: `  ` in both, `- ` expected and missing, `+ ` seen and not expected.
func difference(_ seen: String, _ expected: String) -> String {
  let seenLines = seen.split(separator: "\n", omittingEmptySubsequences: false)
  let expectedLines = expected.split(separator: "\n", omittingEmptySubsequences: false)
  let change = seenLines.difference(from: expectedLines)
  var lines: [(mark: String, text: Substring)] = expectedLines.map { ("  ", $0) }
  for case .remove(let offset, _, _) in change.removals { lines[offset].mark = "- " }
  var result: [String] = []
  var insertions = change.insertions[...]
  var position = 0
  for line in lines + [("end", "")] {
    while case .insert(let offset, let text, _)? = insertions.first, offset == position {
      result.append("+ " + text)
      insertions.removeFirst()
      position += 1
    }
    if line.mark == "end" { break }
    result.append(line.mark + line.text)
    if line.mark == "  " { position += 1 }
  }
  return result.joined(separator: "\n")
}

/// Plays in every split and answers what all of them come to, in few lines: without fields, but for Host, and without
/// content. Faults, and a split in which it comes out otherwise, are issues.
func outline(
  _ happenings: [Happening], policy: Policy = plainPolicy, names: [Stage.Named] = [],
  _ location: Testing.SourceLocation = #_sourceLocation
) -> [String] {
  var first: String?
  for split in Split.usual {
    let stage = Stage(policy, split, isWrapped: false, names: names)
    let transcript = stage.play(happenings)
    if !stage.faults.isEmpty || (first ?? transcript) != transcript {
      Issue.record(
        "\(split): \(stage.faults.joined(separator: "; "))\n\(difference(transcript, first ?? transcript))",
        sourceLocation: location)
      break
    }
    first = transcript
  }
  return (first ?? "").split(separator: "\n").filter(isOfOutline).map { line in
    line.firstRange(of: " ref=REF").map { String(line[..<$0.lowerBound]) } ?? String(line)
  }
}

private func isOfOutline(_ line: Substring) -> Bool {
  guard line.hasPrefix("> ") || line.hasPrefix("< ") else { return !["<", ">"].contains(line) }
  let text = line.dropFirst(2)
  return text.hasSuffix(" HTTP/1.1") || ["HTTP/1.1 ", "Host: ", "raw: "].contains { text.hasPrefix($0) }
}

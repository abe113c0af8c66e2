// Conversations with a parent proxy as tables have them, and every way in which each of them is played.

import Bytes
import HTTP1
import Policy
import TestSupport
import Testing

@testable import Session

/// A host as a request names it.
func canonical(_ text: String) -> CanonicalHost {
  var host = CanonicalHost()
  if let fault = host.set(octets(text).span) { fatalError("'\(text)' is no host: \(fault)") }
  return host
}

extension RouteCredentials {
  init(_ username: String, _ password: String) {
    self.init(username: octets(username), password: octets(password))
  }
}

/// What the parent says, message by message, and what becomes of it.
struct ParentScript: Sendable, CustomTestStringConvertible {
  /// What came of it.
  enum Outcome: Equatable, Sendable {
    /// The parent's last message opens the way; what stands behind it is the destination's.
    case open
    case refused(ParentRefusal)
  }

  let sentence: String
  let parent: Route.Parent
  var host = "a.example"
  var port: UInt16 = 443
  var limits = HeadLimits(bytes: 1024, fields: 8)
  let says: [[UInt8]]
  /// All that is sent to the parent.
  let sends: [UInt8]
  let outcome: Outcome

  var testDescription: String { sentence }

  var handshake: ParentHandshake {
    ParentHandshake(
      parent, host: canonical(host), port: port, via: octets("1.1 sallyport (7F3K2A9Q)"), limits: limits)
  }
}

/// One handshake, as the connection that drives it does: bytes that were not consumed are shown again.
struct ParentRehearsal {
  private(set) var handshake: ParentHandshake
  private(set) var sent: [UInt8] = []
  private(set) var pending: [UInt8] = []
  private(set) var outcome: ParentScript.Outcome? = nil
  private let memory = GuardedMemory(capacity: 16 << 10)

  init(_ script: ParentScript) {
    handshake = script.handshake
    hear([])
  }

  /// Shows the handshake what has come, until it is decided: from then on bytes are the destination's, or nobody's.
  mutating func hear(_ piece: [UInt8]) {
    pending += piece
    if outcome != nil { return }
    var handshake = self.handshake
    var output = ByteBuffer()
    let progress = memory.lend(pending) { handshake.received($0, &output) }
    self.handshake = handshake
    sent += output.array
    switch progress {
    case .wants(let consumed): pending.removeFirst(consumed)
    case .open(let consumed):
      pending.removeFirst(consumed)
      outcome = .open
    case .challenged: preconditionFailure("ConnectChallengeTests has those")
    case .refused(let refusal): outcome = .refused(refusal)
    }
  }
}

/// Plays a script whole, byte by byte and cut at random, with bytes behind it, and broken off at each byte.
func rehearse(_ script: ParentScript, _ location: Testing.SourceLocation = #_sourceLocation) {
  let whole = script.says.reduce([], +)
  for split in Split.usual {
    for tail in [[], octets("\u{0}"), octets("HTTP/1.1 200 OK\r\n\r\n"), [5, 0, 0, 1, 1, 2, 3, 4, 5, 6]] {
      var rehearsal = ParentRehearsal(script)
      for piece in split.pieces(whole + tail) { rehearsal.hear(piece) }
      #expect(rehearsal.outcome == script.outcome, "\(split), with \(shown(tail))", sourceLocation: location)
      #expect(rehearsal.sent == script.sends, "\(split): \(shown(rehearsal.sent))", sourceLocation: location)
      if script.outcome == .open { #expect(rehearsal.pending == tail, "\(split)", sourceLocation: location) }
      checkThatItStays(rehearsal, location)
    }
  }
  var rehearsal = ParentRehearsal(script)
  for count in 0..<whole.count {
    breakOff(script, rehearsal, after: count, location)
    rehearsal.hear([whole[count]])
  }
}

/// What was decided is decided, whatever comes.
private func checkThatItStays(_ rehearsal: ParentRehearsal, _ location: Testing.SourceLocation) {
  var handshake = rehearsal.handshake
  var output = ByteBuffer()
  for bytes in [[], octets("HTTP/1.1 200 OK\r\n\r\n"), [5, 0, 0, 1, 1, 2, 3, 4, 5, 6]] {
    let progress = handshake.received(bytes.span, &output)
    switch rehearsal.outcome {
    case .open: #expect(progress == .open(consumed: 0), sourceLocation: location)
    case .refused(let refusal): #expect(progress == .refused(refusal), sourceLocation: location)
    case nil: Issue.record("nothing was decided", sourceLocation: location)
    }
  }
  #expect(output.array == [], sourceLocation: location)
  if case .refused(let refusal) = rehearsal.outcome {
    let ended = handshake.ended()
    #expect(ended == refusal, sourceLocation: location)
  }
}

/// The parent has said a part and closes: that is a refusal, and the next route may be tried where nothing of an answer was
/// there, but for one to credentials.
private func breakOff(
  _ script: ParentScript, _ rehearsal: ParentRehearsal, after count: Int, _ location: Testing.SourceLocation
) {
  guard rehearsal.outcome == nil else {
    #expect(rehearsal.outcome == script.outcome, "the first \(count) bytes", sourceLocation: location)
    #expect(script.outcome != .open, "open after \(count) bytes", sourceLocation: location)
    return
  }
  var begins = 0
  var messages = 0
  for message in script.says {
    if begins + message.count > count { break }
    begins += message.count
    messages += 1
  }
  let isWithin = begins < count
  let awaitsVerdict = script.parent.kind == .socks5 && messages == 1 && script.says[0] == [5, 2]
  var handshake = rehearsal.handshake
  let refusal = handshake.ended()
  #expect(refusal.kind == .parentFailed, sourceLocation: location)
  #expect(refusal.allowsNext == (!isWithin && !awaitsVerdict), "after \(count) bytes", sourceLocation: location)
  #expect(refusal.status == nil, sourceLocation: location)
  #expect(refusal.detail.contains(isWithin ? " within its " : " before its "), "\(refusal)", sourceLocation: location)
  let again = handshake.ended()
  #expect(again == refusal, sourceLocation: location)
}

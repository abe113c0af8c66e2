// A race of connections to the addresses of one host (RFC 8305, "Happy Eyeballs"): the next is begun when the one before it
// has failed, or has not answered for a while, and the first that is there is taken.

import Bytes
import Transport

/// An address that may be connected to, and by what it is reached.
struct Candidate {
  let address: SocketAddress
  let path: NetworkPath
}

/// A connection on its way from a socket to an upstream.
final class Line {
  let slot: Int
  let candidate: Candidate
  var stream: ByteStream
  /// What is registered with the poller.
  var interest: Interest?
  let begunAt: Int64
  /// What a parent has said that is not for the proxy.
  var early = ByteBuffer()
  /// What a parent has yet to be told.
  var toParent = ByteBuffer()

  init(slot: Int, _ candidate: Candidate, _ descriptor: Descriptor, interest: Interest, at now: Int64) {
    self.slot = slot
    self.candidate = candidate
    stream = ByteStream(descriptor)
    self.interest = interest
    begunAt = now
  }

  var address: SocketAddress { candidate.address }

  func close(_ worker: Worker) {
    stream.close()
    worker.vacate(slot)
  }
}

struct ConnectionRace {
  /// RFC 8305, 5: the next address is tried when the one before it has not answered for this long.
  static let attemptDelayMilliseconds: Int64 = 250
  /// Addresses of one name that are tried, so that a name with hundreds cannot make the proxy knock at all of them.
  static let longestCandidates = 16

  /// How a connection is opened.
  struct Manner {
    let codePoint: UInt8
    let interface: String?
  }

  private struct Attempt {
    let slot: Int
    let descriptor: Descriptor
    let candidate: Candidate
  }

  private let candidates: [Candidate]
  private let manner: Manner
  let begunAt: Int64
  let deadline: Int64
  private var next = 0
  private var attempts: [Attempt] = []
  /// Why the last one failed.
  private(set) var lastError: SystemError? = nil

  init(_ candidates: [Candidate], _ manner: Manner, at now: Int64, within milliseconds: Int64) {
    self.candidates = candidates
    self.manner = manner
    begunAt = now
    deadline = now + milliseconds
  }

  /// Whether no address is left that could answer.
  var isLost: Bool { attempts.isEmpty && next >= candidates.count }

  /// When something is to be done if nothing happens before.
  func due(now: Int64) -> Int64 {
    min(deadline, next < candidates.count ? now + Self.attemptDelayMilliseconds : .max)
  }

  /// Begins with the next address that can be begun with; answers a connection that is there at once.
  mutating func attemptNext(for connector: Connector, _ worker: Worker) -> Line? {
    while next < candidates.count {
      let candidate = candidates[next]
      next += 1
      switch Outgoing.open(candidate.address, codePoint: manner.codePoint, interface: manner.interface) {
      case .failure(let error):
        lastError = error
        if error.isExhaustion, worker.closeIdleUpstreams() { next -= 1 }
      case .success(let outgoing):
        let slot = worker.occupy(.attempt(connector))
        let interest: Interest = outgoing.isConnected ? .read : .write
        guard worker.register(outgoing.descriptor, interest, slot) else {
          outgoing.descriptor.close()
          worker.vacate(slot)
          lastError = SystemError.noMemory
          continue
        }
        if outgoing.isConnected {
          return Line(slot: slot, candidate, outgoing.descriptor, interest: interest, at: worker.now)
        }
        attempts.append(Attempt(slot: slot, descriptor: outgoing.descriptor, candidate: candidate))
        return nil
      }
    }
    return nil
  }

  /// The descriptor of `slot` is connected, or is not: answers the connection, or begins with the next.
  mutating func ready(_ slot: Int, for connector: Connector, _ worker: Worker) -> Line? {
    guard let index = attempts.firstIndex(where: { $0.slot == slot }) else { return nil }
    let attempt = attempts.remove(at: index)
    let error = attempt.descriptor.connectError
    if error == 0 {
      return Line(slot: slot, attempt.candidate, attempt.descriptor, interest: .write, at: worker.now)
    }
    drop(attempt, because: SystemError(error), worker)
    return attemptNext(for: connector, worker)
  }

  /// Gives up the connections that come from addresses which this machine has lost.
  mutating func networkChanged(for connector: Connector, _ worker: Worker) -> Line? {
    let lost = attempts.filter { worker.hasLost($0.descriptor) }
    if lost.isEmpty { return nil }
    attempts.removeAll { attempt in lost.contains { $0.slot == attempt.slot } }
    for attempt in lost { drop(attempt, because: .networkUnreachable, worker) }
    return attempts.isEmpty ? attemptNext(for: connector, worker) : nil
  }

  /// Closes what has not won.
  mutating func abandon(_ worker: Worker) {
    for attempt in attempts {
      attempt.descriptor.close()
      worker.vacate(attempt.slot)
    }
    attempts = []
    next = candidates.count
  }

  private mutating func drop(_ attempt: Attempt, because error: SystemError, _ worker: Worker) {
    lastError = error
    attempt.descriptor.close()
    worker.vacate(attempt.slot)
  }
}

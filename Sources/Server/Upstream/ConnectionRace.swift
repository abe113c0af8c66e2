// The connections of a race to the addresses of one host: opens those that `AddressRace` asks for, and reports the
// outcome.

import Bytes
import Transport
import Upstream

/// An address that may be connected to, and the path to it.
struct Candidate {
  let address: SocketAddress
  let path: NetworkPath
}

/// A connection on its way from a socket to an upstream.
final class Line {
  let slot: Int
  let candidate: Candidate
  var stream: ByteStream
  /// The interest registered with the poller.
  var interest: Interest?
  /// The ticket for the parent.
  var token: [UInt8]? = nil
  /// Bytes from a parent that are not for the proxy.
  var early = ByteBuffer()
  /// Bytes still to be sent to a parent.
  var toParent = ByteBuffer()
  /// About the certificate of a parent.
  var report: CertificateReport? = nil

  init(slot: Int, _ candidate: Candidate, _ descriptor: Descriptor, interest: Interest) {
    self.slot = slot
    self.candidate = candidate
    stream = ByteStream(descriptor)
    self.interest = interest
  }

  /// A stream of a connection that is open.
  init(slot: Int, _ candidate: Candidate, _ stream: ByteStream) {
    self.slot = slot
    self.candidate = candidate
    self.stream = stream
    interest = .read
  }

  var address: SocketAddress { candidate.address }

  /// Whether both ends have the same address, as in a connection of a machine to itself. This finds even an address
  /// that the machine got a moment ago.
  var comesFromItself: Bool { stream.descriptor.localAddress.map { IPAddress($0) == IPAddress(address) } ?? false }

  /// The size of a read of a parent's answer.
  private static let answerBytes = 4 << 10

  /// Sends what waits for a parent, and reads what it says.
  func sendAndRead() -> Transfer {
    if !toParent.isEmpty {
      switch stream.write(toParent) {
      case .moved(let count): toParent.consume(count)
      case .wouldBlock: break
      case .ended: return .ended
      case .failed(let error): return .failed(error)
      }
    }
    early.reserve(Self.answerBytes)
    return stream.read(into: &early)
  }

  func close(_ worker: Worker) {
    stream.close()
    worker.vacate(slot)
  }
}

struct ConnectionRace {
  /// The most addresses of one name that are tried. A name with hundreds cannot make the proxy knock at all of them.
  static let longestCandidates = 16

  /// How a connection is opened.
  struct Manner {
    let codePoint: UInt8
    let interface: String?
  }

  enum Outcome {
    case won(Line)
    case rest(until: Int64)
    case lost
    case timedOut
  }

  private struct Attempt {
    let slot: Int
    let descriptor: Descriptor
    let candidate: Candidate
  }

  private enum Opening {
    case connected(Line)
    case underWay
    case failed
  }

  private let candidates: [Candidate]
  private let manner: Manner
  private var order: AddressRace
  private var attempts: [Attempt] = []
  /// Why the last attempt failed.
  private(set) var lastError: SystemError? = nil

  init(_ candidates: [Candidate], _ manner: Manner, at now: Int64, within milliseconds: Int64) {
    self.candidates = candidates
    self.manner = manner
    order = AddressRace(of: candidates.count, now: now, within: milliseconds)
  }

  mutating func begin(for connector: Connector, _ worker: Worker) -> Outcome {
    proceed(order.begin(now: worker.now), for: connector, worker)
  }

  mutating func timePassed(for connector: Connector, _ worker: Worker) -> Outcome {
    proceed(order.timePassed(now: worker.now), for: connector, worker)
  }

  /// The descriptor of `slot` is connected, or has failed; nil: the attempt was given up.
  mutating func ready(_ slot: Int, for connector: Connector, _ worker: Worker) -> Outcome? {
    guard let index = attempts.firstIndex(where: { $0.slot == slot }) else { return nil }
    let attempt = attempts.remove(at: index)
    let error = attempt.descriptor.connectError
    if error == 0 {
      return .won(Line(slot: slot, attempt.candidate, attempt.descriptor, interest: .write))
    }
    drop(attempt, because: SystemError(error), worker)
    return proceed(order.failed(now: worker.now), for: connector, worker)
  }

  /// Gives up attempts from addresses that this machine has lost.
  mutating func networkChanged(for connector: Connector, _ worker: Worker) -> Outcome {
    let lost = attempts.filter { worker.network.hasLost($0.descriptor) }
    attempts.removeAll { attempt in lost.contains { $0.slot == attempt.slot } }
    for attempt in lost { drop(attempt, because: .networkUnreachable, worker) }
    return proceed(order.lost(lost.count, now: worker.now), for: connector, worker)
  }

  /// Closes the attempts that have not won.
  mutating func abandon(_ worker: Worker) {
    for attempt in attempts {
      attempt.descriptor.close()
      worker.vacate(attempt.slot)
    }
    attempts = []
  }

  private mutating func proceed(_ action: AddressRace.Action, for connector: Connector, _ worker: Worker) -> Outcome {
    var action = action
    while true {
      switch action {
      case .attempt(let address):
        switch open(candidates[address], for: connector, worker) {
        case .connected(let line): return .won(line)
        case .underWay: action = order.begun(now: worker.now)
        case .failed: action = order.couldNotBegin(now: worker.now)
        }
      case .rest(let until): return .rest(until: until)
      case .lost: return .lost
      case .timedOut: return .timedOut
      }
    }
  }

  private mutating func open(_ candidate: Candidate, for connector: Connector, _ worker: Worker) -> Opening {
    var opened = Outgoing.open(candidate.address, codePoint: manner.codePoint, interface: manner.interface)
    // Each connection that is closed makes room for another attempt.
    while case .failure(let error) = opened, error.isExhaustion, worker.upstreams.closeIdle(worker) {
      opened = Outgoing.open(candidate.address, codePoint: manner.codePoint, interface: manner.interface)
    }
    switch opened {
    case .failure(let error):
      lastError = error
      return .failed
    case .success(let outgoing):
      let slot = worker.occupy(.attempt(connector))
      let interest: Interest = outgoing.isConnected ? .read : .write
      guard worker.register(outgoing.descriptor, interest, slot: slot) else {
        outgoing.descriptor.close()
        worker.vacate(slot)
        lastError = SystemError.noMemory
        return .failed
      }
      if outgoing.isConnected {
        return .connected(Line(slot: slot, candidate, outgoing.descriptor, interest: interest))
      }
      attempts.append(Attempt(slot: slot, descriptor: outgoing.descriptor, candidate: candidate))
      return .underWay
    }
  }

  private mutating func drop(_ attempt: Attempt, because error: SystemError, _ worker: Worker) {
    lastError = error
    attempt.descriptor.close()
    worker.vacate(attempt.slot)
  }
}

// A fetch whose answer is stored: it reads the upstream from behind the head on, as fast as that sends, and writes to the content
// that the first client and every other read from. No client holds it up, and none that leaves ends it, but the last.

import Bytes
import Cache
import HTTP1
import Session
import Transport

final class CacheFetch {
  /// Where the content of the message is.
  private enum Phase {
    case length(remaining: UInt64)
    case chunked(ChunkedDecoder)
    case trailers
    case untilClose
  }

  let line: Upstream
  let answer: StoredAnswer
  private let cache: SharedCache
  private let replaced: ReplacedAnswers
  private unowned let worker: Worker
  private var phase: Phase
  private var input = ByteBuffer()
  private let mayKeep: Bool
  private let idleMilliseconds: Int64?
  private let stallMilliseconds: Int64
  private let limits: HeadLimits
  private var lastProgress: Int64
  /// Readers hold it up, for the content is not stored any more.
  private var waits = false
  private var isOver = false
  private var isCounted = true
  private var isTooLong = false
  /// How much of it the disk has been told of.
  private var spilled: UInt64 = 0
  /// What the disk is told of at once, in bytes.
  private static let spillBytes: UInt64 = 256 << 10

  /// What it is to know of the exchange that asked first.
  struct Terms {
    let framing: BodyFraming
    let mayKeep: Bool
    let idleMilliseconds: Int64?
    let stallMilliseconds: Int64
    let limits: HeadLimits
  }

  /// `line`: a connection of which the head of the answer has been read.
  init(
    _ line: Upstream, _ answer: StoredAnswer, replacing replaced: ReplacedAnswers, of cache: SharedCache,
    _ terms: Terms,
    _ worker: Worker
  ) {
    self.replaced = replaced
    self.line = line
    self.answer = answer
    self.cache = cache
    self.worker = worker
    mayKeep = terms.mayKeep
    idleMilliseconds = terms.idleMilliseconds
    stallMilliseconds = terms.stallMilliseconds
    limits = terms.limits
    lastProgress = worker.now
    phase =
      switch terms.framing {
      case .none: .length(remaining: 0)
      case .length(let length): .length(remaining: length)
      case .chunked: .chunked(ChunkedDecoder())
      case .untilClose: .untilClose
      }
  }

  /// What has been read already comes first. From here it is the line's only user.
  func begin(with early: inout ByteBuffer) {
    line.owner = nil
    swap(&input, &early)
    worker.reoccupy(line.slot, .fetch(self))
    answer.content.fetch = Content.Reader(
      worker: worker.index, slot: line.slot, generation: worker.generation(line.slot))
    take()
    settle()
  }

  func ready(_ readiness: Readiness) {
    if readiness.isReadable { read() }
    settle()
  }

  /// A reader has left, or has caught up.
  func readersMoved() {
    if isOver { return }
    if !answer.content.hasReaders { return fail() }
    waits = false
    read()
    settle()
  }

  func timerFired() {
    if isOver { return }
    if worker.now < deadline { return settle() }
    if waits {
      // Who reads nothing for so long holds up nobody else.
      tell(answer.content.leaveBehind())
      lastProgress = worker.now
      waits = answer.content.holdsFetchUp
      if !waits { read() }
      return settle()
    }
    fail()
  }

  /// Of a connection that no event announces the bytes of.
  func readMore() {
    read()
    settle()
  }

  /// Reads of one turn: no fetch keeps the others of its loop waiting for more than some hundred microseconds.
  private static let readsPerTurn = 2

  private func read() {
    for _ in 0..<Self.readsPerTurn where !isOver && !waits {
      if input.isEmpty { input = worker.workspace.pool.take(Worker.readBytes) } else { input.reserve(4 << 10) }
      switch line.stream.read(into: &input) {
      case .moved:
        lastProgress = worker.now
        take()
      case .wouldBlock: return reclaim()
      case .ended: return ended(isBroken: false)
      case .failed: return ended(isBroken: true)
      }
    }
    reclaim()
  }

  private func reclaim() { if input.isEmpty { worker.workspace.pool.reclaim(&input) } }

  /// Takes what of the input is content, as far as it is all there.
  private func take() {
    while !isOver {
      switch phase {
      case .length(let remaining):
        let count = Int(min(remaining, UInt64(input.count)))
        store(count)
        phase = .length(remaining: remaining - UInt64(count))
        if remaining == UInt64(count) { complete() }
        return
      case .untilClose: return store(input.count)
      case .chunked(var decoder):
        let goesOn = takeChunks(&decoder)
        if case .chunked = phase { phase = .chunked(decoder) }
        if !goesOn { return }
      case .trailers: return takeTrailers()
      }
    }
  }

  private func store(_ count: Int) {
    if count == 0 { return }
    append(input.bytes.extracting(0..<count))
    input.consume(count)
  }

  private func append(_ bytes: Span<UInt8>) {
    let appended = answer.content.append(bytes)
    let count = answer.content.count
    let spills = answer.content.spills
    if isCounted {
      // Of what is in a file a part is in memory.
      let before = count - UInt64(bytes.count)
      let counted =
        spills ? min(count, Content.residentBytes) - min(before, Content.residentBytes) : UInt64(bytes.count)
      if counted > 0, !cache.with({ $0.grow(answer, by: Int(counted)) }) { isCounted = false }
    }
    if !isTooLong, count > cache.longestContent(spills: spills) {
      isTooLong = true
      cache.remove(answer)
      // Nobody waits for the disk any more.
      _ = answer.content.fileFailed(mayStay: false)
    }
    if spills, count - spilled >= Self.spillBytes {
      spilled = count
      cache.disk?.write(answer)
    }
    waits = appended.waits
    tell(appended.readers)
  }

  private func takeChunks(_ decoder: inout ChunkedDecoder) -> Bool {
    var at = 0
    while true {
      switch decoder.next(input.bytes, from: at) {
      case .data(let range):
        append(input.bytes.extracting(range))
        at = range.upperBound
      case .needMore(let consumed):
        input.consume(consumed)
        return false
      case .lastChunk(let consumed):
        input.consume(consumed)
        phase = .trailers
        return true
      case .invalid:
        fail()
        return false
      }
    }
  }

  private func takeTrailers() {
    switch TrailerReader.read(input.bytes, from: 0, limits: limits, into: &worker.workspace.trailers) {
    case .incomplete: return
    case .invalid: fail()
    case .complete(let end):
      var lines = ByteBuffer()
      worker.workspace.trailers.write(input.bytes, to: &lines)
      input.consume(end)
      complete(trailers: lines.bytes.array)
    }
  }

  private func ended(isBroken: Bool) {
    if case .untilClose = phase, !isBroken { return complete() }
    fail()
  }

  // MARK: Ends

  private func complete(trailers: [UInt8] = []) {
    isOver = true
    tell(answer.content.finish(trailers: trailers))
    if answer.content.isComplete { replaced.accept() } else { replaced.refuse() }
    if answer.file != nil { cache.disk?.write(answer) }
    letGo(keeps: mayKeep && input.isEmpty)
  }

  /// What came is not the whole, or breaks the framing: nobody gets it as an answer any more.
  private func fail() {
    isOver = true
    replaced.refuse()
    tell(answer.content.breakOff())
    if answer.file != nil { cache.disk?.write(answer) }
    letGo(keeps: false)
  }

  private func letGo(keeps: Bool) {
    answer.content.fetch = nil
    worker.workspace.pool.reclaim(&input)
    worker.timers.clear(line.slot)
    worker.reoccupy(line.slot, .upstream(line))
    if keeps { worker.keep(line, idle: idleMilliseconds) } else { worker.close(line) }
  }

  /// The loop ends.
  func abandon() { if !isOver { fail() } }

  private func tell(_ readers: [Content.Reader]) {
    for reader in readers {
      worker.shared.mailboxes[reader.worker].post(.storedContent(slot: reader.slot, generation: reader.generation))
    }
  }

  private func settle() {
    if isOver { return }
    worker.watch(line.stream, &line.interest, waits ? [] : .read, line.slot)
    if !waits, line.stream.hasMore { worker.readAgain(line.slot) }
    worker.timers.set(line.slot, deadline)
  }

  private var deadline: Int64 { lastProgress + (waits ? Self.patienceMilliseconds : stallMilliseconds) }

  /// How long readers may hold up others of what cannot be stored, in milliseconds: longer than any pause of one that reads.
  private static let patienceMilliseconds: Int64 = 2000
}

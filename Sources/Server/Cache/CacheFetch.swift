// A fetch whose answer is stored. After the head, it reads the upstream as fast as that sends, and writes to the
// content that the first client and all others read. No client holds it up, and only the departure of the last one ends
// it.

import Bytes
import Cache
import HTTP1
import Policy
import Session
import Transport

final class CacheFetch {
  /// The position in the message's content.
  private enum Phase {
    case length(remaining: UInt64)
    case chunked(ChunkedDecoder)
    case trailers
    case untilClose
  }

  let answer: StoredAnswer
  private let cache: SharedCache
  private let replaced: ReplacedAnswers
  private unowned let worker: Worker
  /// The connection that it reads; nil while it pauses, and while the rest is being asked for.
  private(set) var line: Upstream?
  /// Its slot: that of the line, or its own.
  private var slot = -1
  private var terms: Terms
  private var phase = Phase.untilClose
  private var input = ByteBuffer()
  /// Bytes still to come that are already stored.
  private var known: UInt64 = 0
  private var lastProgress: Int64
  /// Readers hold it up, because the content is no longer stored.
  private var waits = false
  private(set) var isOver = false
  private var isCounted = true
  private var isTooLong = false
  /// How many of its bytes have been posted to the disk.
  private var spilled: UInt64 = 0
  /// How many bytes are posted to the disk at once.
  private static let spillBytes: UInt64 = 256 << 10

  /// What asks for the rest if the origin breaks off; nil: nothing does.
  var repetition: Repetition?
  /// The conversation that asks for it.
  private weak var asking: Conversation?
  private var tries = 0
  private var resumesAt = Int64.max

  /// What the fetch needs from the exchange that asked.
  struct Terms {
    let framing: BodyFraming
    /// This many of the bytes that come are already stored.
    private(set) var known: UInt64 = 0
    let mayKeep: Bool
    let idleMilliseconds: Int64?
    let stallMilliseconds: Int64
    let limits: HeadLimits

    /// `response`: the head of the answer.
    init(_ response: ResponseHead, _ timeouts: Timeouts, limits: HeadLimits) {
      framing = response.framing
      mayKeep = response.isPersistent
      idleMilliseconds = timeouts.upstreamIdleMilliseconds
      stallMilliseconds = timeouts.bodyStallMilliseconds
      self.limits = limits
    }

    fileprivate init() {
      framing = .none
      mayKeep = false
      idleMilliseconds = nil
      stallMilliseconds = 0
      limits = HeadLimits(bytes: 0, fields: 0)
    }

    func skipping(_ known: UInt64) -> Terms {
      var terms = self
      terms.known = known
      return terms
    }
  }

  init(_ answer: StoredAnswer, replacing replaced: ReplacedAnswers, of cache: SharedCache, _ worker: Worker) {
    self.replaced = replaced
    self.answer = answer
    self.cache = cache
    self.worker = worker
    terms = Terms()
    lastProgress = worker.now
  }

  /// `line`: a connection whose answer's head has been read. `early`: bytes read after the head; they come first. From
  /// here on, the fetch is the only user of the line.
  func begin(_ line: Upstream, _ terms: Terms, with early: inout ByteBuffer) {
    self.line = line
    self.terms = terms
    known = terms.known
    lastProgress = worker.now
    phase =
      switch terms.framing {
      case .none: .length(remaining: 0)
      case .length(let length): .length(remaining: length)
      case .chunked: .chunked(ChunkedDecoder())
      case .untilClose: .untilClose
      }
    line.owner = nil
    swap(&input, &early)
    take(slot: line.slot)
    takeContent()
    settle()
  }

  private func take(slot: Int) {
    self.slot = slot
    worker.reoccupy(slot, .fetch(self))
    answer.content.fetch = Content.Reader(worker: worker.index, slot: slot, generation: worker.generation(slot))
  }

  func ready(_ readiness: Readiness) {
    if readiness.isReadable { read() }
    settle()
  }

  /// A reader has left, or has caught up.
  func readersMoved() {
    if isOver { return }
    if !answer.content.hasReaders { return giveUp() }
    guard line != nil else { return }
    waits = false
    read()
    settle()
  }

  func timerFired() {
    if isOver { return }
    if worker.now < deadline { return settle() }
    if line == nil { return ask() }
    if waits {
      // A client that reads nothing for so long no longer holds up others.
      tell(answer.content.leaveBehind())
      lastProgress = worker.now
      waits = answer.content.holdsFetchUp
      if !waits { read() }
      return settle()
    }
    broke()
  }

  /// Reads from a connection whose bytes no event announces.
  func readMore() {
    read()
    settle()
  }

  /// Reads in one turn: no fetch keeps the others of its loop waiting for more than some hundred microseconds.
  private static let readsPerTurn = 2

  private func read() {
    for _ in 0..<Self.readsPerTurn where !isOver && !waits {
      guard let line else { break }
      if input.isEmpty { input = worker.workspace.pool.take(Worker.readBytes) } else { input.reserve(4 << 10) }
      switch line.stream.read(into: &input) {
      case .moved:
        lastProgress = worker.now
        takeContent()
      case .wouldBlock: return reclaim()
      case .ended: return ended(isBroken: false)
      case .failed: return ended(isBroken: true)
      }
    }
    reclaim()
  }

  private func reclaim() { if input.isEmpty { worker.workspace.pool.reclaim(&input) } }

  /// Takes the content from the input, as far as it is complete.
  private func takeContent() {
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
    let skipped = Int(min(UInt64(count), known))
    known -= UInt64(skipped)
    if skipped < count { append(input.bytes.extracting(skipped..<count)) }
    input.consume(count)
  }

  private func append(_ bytes: Span<UInt8>) {
    let appended = answer.content.append(bytes)
    let count = answer.content.count
    let spills = answer.content.spills
    if isCounted {
      // Only a part of what is in a file is also in memory.
      let before = count - UInt64(bytes.count)
      let counted =
        spills ? min(count, Content.residentBytes) - min(before, Content.residentBytes) : UInt64(bytes.count)
      if counted > 0, !cache.with({ $0.grow(answer, by: Int(counted)) }) { isCounted = false }
    }
    if !isTooLong, count > cache.longestContent(spills: spills) {
      isTooLong = true
      cache.remove(answer)
      // No reader waits for the disk any more.
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
    switch TrailerReader.read(input.bytes, from: 0, limits: terms.limits, into: &worker.workspace.trailers) {
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
    broke()
  }

  // MARK: Ends

  private func complete(trailers: [UInt8] = []) {
    isOver = true
    tell(answer.content.finish(trailers: trailers))
    if answer.content.isComplete { replaced.accept() } else { replaced.refuse() }
    if answer.file != nil { cache.disk?.write(answer) }
    letGo(keeps: terms.mayKeep && input.isEmpty)
  }

  /// The bytes break the framing: no one gets the answer any more.
  private func fail() {
    isOver = true
    replaced.refuse()
    tell(answer.content.breakOff())
    if answer.file != nil { cache.disk?.write(answer) }
    letGo(keeps: false)
  }

  /// No more will come. What is stored is kept, so that it can be continued, unless it replaced another answer.
  private func giveUp() {
    guard !isTooLong, !replaced.areAny, let kept = answer.salvaged() else { return fail() }
    isOver = true
    tell(answer.content.breakOff())
    cache.with { $0.replace(answer, by: kept) }
    cache.disk?.write(kept)
    letGo(keeps: false)
  }

  private func letGo(keeps: Bool) {
    answer.content.fetch = nil
    asking?.endErrand(worker)
    releaseLine(keeps: keeps)
  }

  private func releaseLine(keeps: Bool) {
    worker.workspace.pool.reclaim(&input)
    worker.timers.clear(slot)
    guard let line else { return worker.vacate(slot) }
    self.line = nil
    worker.reoccupy(slot, .upstream(line))
    if keeps {
      worker.upstreams.keep(line, idle: terms.idleMilliseconds, worker)
    } else {
      worker.upstreams.close(line, worker)
    }
  }

  /// The loop ends, or the path is gone.
  func abandon() { if !isOver { giveUp() } }

  // MARK: Going on

  /// How long after each break the rest is asked for, in milliseconds, and so how often: an origin that restarts is
  /// back after a second or a few.
  private static let pauses: [Int64] = [0, 1000, 4000]

  /// The origin ended too early, or is silent.
  private func broke() {
    guard mayGoOn else { return giveUp() }
    releaseLine(keeps: false)
    take(slot: worker.occupy(.fetch(self)))
    pause()
  }

  private var mayGoOn: Bool {
    if tries >= Self.pauses.count || repetition == nil || worker.isDraining { return false }
    return answer.head.status == 200 && answer.head.strongValidator != nil && answer.head.acceptsRanges
      && answer.content.hasReaders
  }

  private func pause() {
    resumesAt = worker.now + Self.pauses[tries]
    tries += 1
    settle()
  }

  /// An exchange of its own asks for the rest.
  private func ask() {
    guard let repetition else { return giveUp() }
    resumesAt = .max
    worker.timers.clear(slot)
    let conversation = repetition.conversation(for: .resumption(self), worker)
    asking = conversation
    conversation.begin(worker)
  }

  private var firstMissing: UInt64 { (answer.part?.offset ?? 0) + answer.content.count }
  /// The position after the last byte that is wanted; nil: the end of the representation.
  private var end: UInt64? { answer.part.flatMap { part in answer.content.announced.map { part.offset + $0 } } }

  /// The fields that ask for the rest.
  var conditions: [UInt8] { answer.head.conditions(forBytesFrom: firstMissing, to: end) }

  /// Whether an answer with content of this length is the missing rest.
  func isContinued(by head: OriginAnswer, length: UInt64?) -> Bool {
    guard head.status == 206, !head.isDoubtful, let range = ContentRange(head.fields),
      length == UInt64(range.bytes.count)
    else { return false }
    return isContinued(by: range) && answer.head.isSameRepresentation(as: head.fields)
  }

  private func isContinued(by range: ContentRange) -> Bool {
    guard !isOver, line == nil, range.bytes.lowerBound == firstMissing, let total = range.total else { return false }
    if let part = answer.part { return total == part.total && range.bytes.upperBound == end }
    return range.bytes.upperBound == total && answer.content.announced.map { $0 == total } ?? true
  }

  /// The rest arrives on `line`.
  func goOn(_ line: Upstream, _ terms: Terms, with early: inout ByteBuffer) {
    asking = nil
    worker.vacate(slot)
    begin(line, terms, with: &early)
  }

  /// The request for the rest led to nothing.
  func couldNotGoOn(mayTryAgain: Bool) {
    asking = nil
    if isOver { return }
    if mayTryAgain, mayGoOn { pause() } else { giveUp() }
  }

  private func tell(_ readers: [Content.Reader]) {
    for reader in readers {
      worker.shared.mailboxes[reader.worker].post(.storedContent(slot: reader.slot, generation: reader.generation))
    }
  }

  private func settle() {
    if isOver { return }
    if let line {
      worker.watch(line.stream, &line.interest, wanted: waits ? [] : .read, slot: line.slot)
      if !waits, line.stream.hasMore { worker.readAgain(line.slot) }
    }
    worker.timers.set(slot, deadline)
  }

  private var deadline: Int64 {
    if line == nil { return resumesAt }
    return lastProgress + (waits ? Self.patienceMilliseconds : terms.stallMilliseconds)
  }

  /// How long readers may hold up others if content cannot be stored, in milliseconds: longer than any pause of a
  /// client that reads.
  private static let patienceMilliseconds: Int64 = 2000
}

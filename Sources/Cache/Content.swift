// The content of a stored answer: written by the one loop that fetches it, read by any, also while it is still coming.
//
// It is kept in chunks, under a lock that is held for the copying of one of them. A reader that has come to the end of what there
// is stands in a list, and whoever writes tells it. Where more comes than may be stored, the content is kept no longer than its
// readers need, and the slowest of them holds the fetch up. Tests: ContentTests.

import Bytes

public final class Content: Sendable {
  /// Bytes of a chunk: what one write to a client's socket takes.
  public static let chunkBytes = 64 << 10
  /// How far a fetch may run ahead of the slowest reader of what is not stored, in bytes.
  static let windowBytes: UInt64 = 1 << 20

  /// Who reads, and how it is told that there is more.
  public struct Reader: Sendable, Equatable {
    /// The loop that it belongs to, its slot there, and the generation of that.
    public let worker: Int
    public let slot: Int
    public let generation: UInt32

    public init(worker: Int, slot: Int, generation: UInt32) {
      self.worker = worker
      self.slot = slot
      self.generation = generation
    }
  }

  public enum End: Sendable, Equatable {
    case growing, complete
    /// What there is will not be the whole.
    case broken
  }

  public enum Read: Sendable, Equatable {
    /// So many bytes were appended.
    case bytes(Int)
    /// Nothing is there yet: the reader is told when there is.
    case wait
    /// The same, and these chunks are to be read from the file.
    case load(Range<Int>)
    case complete
    case broken
  }

  private struct Attendance: Sendable {
    let reader: Reader
    var offset: UInt64
    var waits = false
    /// The fetch goes on without it: what it has not read is given up.
    var isLeftBehind = false
  }

  private struct State: Sendable {
    /// Empty where a chunk is not in memory.
    var chunks: [[UInt8]] = []
    var count: UInt64 = 0
    var end = End.growing
    var trailers: [UInt8] = []
    var readers: [Attendance] = []
    /// false: it is kept no longer than its readers need.
    var isStored = true
    /// Bytes from the beginning on that are in a file, and whether more go there.
    var written: UInt64 = 0
    var spills = false
    /// Chunks that are being read from the file.
    var loading: Set<Int> = []
    /// Who fetches it; nil: nobody, or nobody any more.
    var fetch: Reader?
    /// All of it is in the file, and its row is there, or was.
    var isFiled = false
    /// What there is of it goes on as another's: the file as well.
    var isSalvaged = false
    /// The fetch has been told to wait for its readers, or for the file.
    var fetchWaits = false
  }

  private let state = Locked(State())
  /// In bytes, where the origin said so at the beginning.
  public let announced: UInt64?

  /// `spills`: what comes is written to a file too, by whoever asks `nextToWrite`.
  public init(announced: UInt64?, spills: Bool = false) {
    self.announced = announced
    state.withLock { $0.spills = spills }
  }

  /// What is in a file whole.
  public init(inFile count: UInt64, trailers: [UInt8]) {
    announced = count
    state.withLock { state in
      state.chunks = Array(repeating: [], count: Int((count + UInt64(Self.chunkBytes) - 1) / UInt64(Self.chunkBytes)))
      state.count = count
      state.end = .complete
      state.trailers = trailers
      state.written = count
      state.spills = true
      state.isFiled = true
    }
  }

  /// What goes on from a part of another. `announced`: of both together, in bytes.
  public init(_ beginning: Beginning, announced: UInt64?, spills: Bool) {
    self.announced = announced
    state.withLock { state in
      state.chunks = beginning.chunks
      state.count = beginning.count
      state.written = spills ? beginning.written : 0
      state.spills = spills
    }
  }

  /// What is there of a fetch that ended too early, as an answer of its own has it.
  private init(_ chunks: [[UInt8]], count: UInt64, written: UInt64, spills: Bool) {
    announced = count
    state.withLock { state in
      state.chunks = chunks
      state.count = count
      state.end = .complete
      state.written = written
      state.spills = spills
    }
  }

  /// Of content that is in a file, no more than this stays in memory where nobody reads it, in bytes.
  public static let residentBytes: UInt64 = 1 << 20
  /// How far a fetch may run ahead of the file, in bytes.
  static let unwrittenBytes: UInt64 = 4 << 20

  /// Bytes that are there.
  public var count: UInt64 { state.withLock { $0.count } }
  public var end: End { state.withLock { $0.end } }
  public var isComplete: Bool { end == .complete }
  /// Whether all of it that there is can be read from its beginning.
  public var isWhole: Bool { state.withLock { $0.isStored && $0.end != .broken } }
  /// Whether it goes to a file.
  public var spills: Bool { state.withLock { $0.spills } }
  public var hasReaders: Bool { state.withLock { !$0.readers.isEmpty } }
  /// Of the whole, in bytes; nil where it is not known yet.
  public var length: UInt64? { announced ?? state.withLock { $0.end == .complete ? $0.count : nil } }
  /// Lines behind the content, each with its line end.
  public var trailers: [UInt8] { state.withLock { $0.trailers } }

  /// Who fetches it, and is told where readers leave.
  public var fetch: Reader? {
    get { state.withLock { $0.fetch } }
    set { state.withLock { $0.fetch = newValue } }
  }

  // MARK: Writing

  /// What comes of an append: whom to tell, and whether the fetch is to wait for its readers.
  public struct Appended: Sendable {
    public let readers: [Reader]
    public let waits: Bool
  }

  public func append(_ bytes: Span<UInt8>) -> Appended {
    state.withLock { state in
      var at = 0
      // Not by the last chunk: one that is in the file may be in memory no more.
      var filled = Int(state.count % UInt64(Self.chunkBytes))
      while at < bytes.count {
        if filled == 0 {
          state.chunks.append([])
          state.chunks[state.chunks.count - 1].reserveCapacity(min(Self.chunkBytes, capacity(state, bytes.count - at)))
        }
        let last = state.chunks.count - 1
        let part = min(bytes.count - at, Self.chunkBytes - filled)
        unsafe bytes.extracting(at..<at + part).withUnsafeBufferPointer {
          unsafe state.chunks[last].append(contentsOf: $0)
        }
        at += part
        filled = (filled + part) % Self.chunkBytes
      }
      state.count += UInt64(bytes.count)
      Self.giveUpRead(&state)
      state.fetchWaits = Self.isFull(state)
      return Appended(readers: Self.takeWaiting(&state), waits: state.fetchWaits)
    }
  }

  /// What the next chunk is made for.
  private func capacity(_ state: State, _ now: Int) -> Int {
    guard let announced, announced > state.count else { return now }
    return max(now, Int(min(announced - state.count, UInt64(Self.chunkBytes))))
  }

  /// All of it is there. Whom to tell.
  public func finish(trailers: [UInt8] = []) -> [Reader] {
    state.withLock { state in
      // Less than was announced is not the whole (RFC 9111, 3.3).
      let isAll = announced.map { $0 == state.count } ?? true
      state.end = isAll ? .complete : .broken
      state.trailers = trailers
      return Self.takeWaiting(&state)
    }
  }

  /// No more will come.
  public func breakOff() -> [Reader] {
    state.withLock { state in
      if state.end == .growing { state.end = .broken }
      return Self.takeWaiting(&state)
    }
  }

  /// It is not stored any more: what all readers have had is given up from here on.
  public func giveUp() {
    state.withLock { state in
      // What is in a file is read from there.
      if !state.spills { state.isStored = false }
      Self.giveUpRead(&state)
    }
  }

  private static func takeWaiting(_ state: inout State) -> [Reader] {
    var waiting: [Reader] = []
    for index in state.readers.indices where state.readers[index].waits {
      state.readers[index].waits = false
      waiting.append(state.readers[index].reader)
    }
    return waiting
  }

  private static func slowest(_ state: State) -> UInt64 {
    var slowest = state.count
    for reader in state.readers where !reader.isLeftBehind { slowest = min(slowest, reader.offset) }
    return slowest
  }

  /// Of what is not stored, goes on without those that hold the others up. Whom to tell; none where nobody else reads.
  public func leaveBehind() -> [Reader] {
    state.withLock { state in
      guard Self.isFull(state), !state.isStored else { return [] }
      let limit = state.count - Self.windowBytes
      guard state.readers.contains(where: { !$0.isLeftBehind && $0.offset > limit }) else { return [] }
      for index in state.readers.indices where state.readers[index].offset <= limit {
        state.readers[index].isLeftBehind = true
        state.readers[index].waits = true
      }
      _ = Self.release(&state)
      return Self.takeWaiting(&state)
    }
  }

  private static func giveUpRead(_ state: inout State) {
    if !state.isStored, state.end == .complete, state.readers.isEmpty { return }
    let isSpilled = state.spills && state.count > residentBytes
    if state.isStored && !isSpilled { return }
    let passed = state.isStored ? min(slowest(state), state.written) : slowest(state)
    // The one that is written to stays.
    let whole = min(Int(passed / UInt64(chunkBytes)), state.chunks.count - (state.end == .growing ? 1 : 0))
    for index in 0..<max(0, whole) where !state.chunks[index].isEmpty { state.chunks[index] = [] }
  }

  private static func isFull(_ state: State) -> Bool {
    if state.end != .growing { return false }
    if !state.isStored { return state.count - slowest(state) >= windowBytes }
    return state.spills && state.count - state.written >= unwrittenBytes
  }

  /// Whether the fetch is to wait.
  public var holdsFetchUp: Bool { state.withLock { Self.isFull($0) } }

  // MARK: The file

  /// The next bytes for the file, from `offset` on; nil: there are none yet, or no more.
  public func nextToWrite() -> (offset: UInt64, bytes: [UInt8])? {
    state.withLock { state in
      guard state.spills, state.end != .broken, state.written < state.count else { return nil }
      let chunk = state.chunks[Int(state.written / UInt64(Self.chunkBytes))]
      if chunk.count < Self.chunkBytes, state.end == .growing { return nil }
      return (state.written, chunk)
    }
  }

  /// So many more bytes are in the file. Whether the fetch, which waited for that, has room now.
  public func wrote(_ count: Int) -> Bool {
    state.withLock { state in
      state.written += UInt64(count)
      return Self.release(&state)
    }
  }

  /// The file takes no more: what is there of it is still read. What is small, and all in memory, is kept there where `mayStay`.
  /// Whether the fetch has room now.
  public func fileFailed(mayStay: Bool) -> Bool {
    state.withLock { state in
      state.spills = false
      let isInMemory = state.count <= Self.residentBytes && !state.chunks.contains(where: \.isEmpty)
      if !mayStay || !isInMemory { state.isStored = false }
      return Self.release(&state)
    }
  }

  /// A chunk has been read from the file, or could not be. Whom to tell.
  public func loaded(_ index: Int, _ bytes: [UInt8]?) -> [Reader] {
    state.withLock { state in
      state.loading.remove(index)
      if let bytes { state.chunks[index] = bytes } else { state.end = .broken }
      return Self.takeWaiting(&state)
    }
  }

  // MARK: Parts

  /// Bytes from the first on that others may follow.
  public struct Beginning: Sendable {
    fileprivate let chunks: [[UInt8]]
    public let count: UInt64
    /// So many of them are in the file alone, or in both.
    public let written: UInt64
  }

  /// nil: not all of it that came is there.
  public func beginning() -> Beginning? {
    state.withLock { state in
      guard state.isStored, state.end == .complete else { return nil }
      let size = UInt64(Self.chunkBytes)
      var count = state.count
      var chunks = state.chunks
      // Bytes can be put behind a chunk in memory alone. One that is in the file is fetched once more.
      if count % size != 0, let last = chunks.last, last.isEmpty {
        chunks.removeLast()
        count -= count % size
      }
      let written = state.written - state.written % size
      for (index, chunk) in chunks.enumerated() where chunk.isEmpty && UInt64(index) * size >= written { return nil }
      return Beginning(chunks: chunks, count: count, written: min(written, count - count % size))
    }
  }

  /// What is there of a fetch that has ended too early; nil: nothing, or not from its beginning on.
  public func salvaged() -> Content? {
    state.withLock { state in
      guard state.isStored, state.end != .complete, state.count > 0 else { return nil }
      state.isSalvaged = true
      return Content(state.chunks, count: state.count, written: state.written, spills: state.spills)
    }
  }

  /// How far its file is.
  public enum Filing: Sendable { case growing, whole, broken }

  /// Of one moment: what was complete a moment after its file was looked at is not whole there.
  public var filing: Filing {
    state.withLock { state in
      switch state.end {
      case .growing: .growing
      case .broken: .broken
      case .complete: state.written == state.count ? .whole : .growing
      }
    }
  }

  /// Its row is about to be written: once, whatever has become of that since.
  public func isFiledNow() -> Bool {
    state.withLock { state in
      defer { state.isFiled = true }
      return !state.isFiled
    }
  }
  public var isFiled: Bool { state.withLock { $0.isFiled } }

  /// Whether its file is another's now.
  public var isSalvaged: Bool { state.withLock { $0.isSalvaged } }

  // MARK: Reading

  /// These are about to read from the beginning: nothing of it is given up before they do, or leave.
  public func expect(_ readers: [Reader]) {
    state.withLock { state in state.readers += readers.map { Attendance(reader: $0, offset: 0) } }
  }

  /// One more reads, from `offset` on. false: what it needs has been given up.
  public func attend(_ reader: Reader, from offset: UInt64) -> Bool {
    state.withLock { state in
      let index = Int(offset / UInt64(Self.chunkBytes))
      if index < state.chunks.count, state.chunks[index].isEmpty, offset >= state.written { return false }
      if state.end == .broken { return false }
      state.readers.append(Attendance(reader: reader, offset: offset))
      return true
    }
  }

  /// What comes of a read: how it went, and whether the fetch, which waited, has room now.
  public struct Progress: Sendable, Equatable {
    public let read: Read
    public let wakesFetch: Bool
  }

  /// Appends what is there from `offset` on, at most `most` bytes, and no more than a chunk.
  public func read(_ reader: Reader, from offset: UInt64, most: Int, into buffer: inout ByteBuffer) -> Progress {
    switch look(reader, offset) {
    case .ended(let read): return Progress(read: read, wakesFetch: false)
    case .load(let chunks): return Progress(read: .load(chunks), wakesFetch: false)
    case .chunk(let bytes, let from):
      let count = min(most, bytes.count - from)
      buffer.append(bytes.span.extracting(from..<from + count))
      return Progress(read: .bytes(count), wakesFetch: advance(reader, to: offset + UInt64(count)))
    }
  }

  /// What is there for a reader.
  public enum Look: Sendable {
    /// A chunk, and where in it the reader stands.
    case chunk([UInt8], from: Int)
    /// Nothing yet: the reader is told when there is, and these chunks are to be read from the file.
    case load(Range<Int>)
    case ended(Read)
  }

  /// The bytes from `offset` on as they are kept, up to the end of a chunk. Who has used them says so by `advance`.
  public func look(_ reader: Reader, _ offset: UInt64) -> Look {
    state.withLock { state in
      if offset < state.count {
        let index = Int(offset / UInt64(Self.chunkBytes))
        if !state.chunks[index].isEmpty {
          return .chunk(state.chunks[index], from: Int(offset % UInt64(Self.chunkBytes)))
        }
        if state.end == .broken || offset >= state.written { return .ended(.broken) }
        Self.wait(reader, &state)
        if state.loading.contains(index) { return .ended(.wait) }
        return .load(Self.ahead(from: index, &state))
      }
      switch state.end {
      case .complete: return .ended(.complete)
      case .broken: return .ended(.broken)
      case .growing:
        Self.wait(reader, &state)
        return .ended(.wait)
      }
    }
  }

  /// Chunks that are read from the file at once: a reader goes on while the next are read.
  static let readAhead = 4

  /// The chunks from `index` on that are to be read now.
  private static func ahead(from index: Int, _ state: inout State) -> Range<Int> {
    let inFile = Int((state.written + UInt64(chunkBytes) - 1) / UInt64(chunkBytes))
    var end = index
    while end < min(inFile, state.chunks.count, index + readAhead), state.chunks[end].isEmpty,
      state.loading.insert(end).inserted
    { end += 1 }
    return index..<end
  }

  private static func wait(_ reader: Reader, _ state: inout State) {
    for index in state.readers.indices where state.readers[index].reader == reader { state.readers[index].waits = true }
  }

  /// Whether the fetch, which waited, has room now.
  public func advance(_ reader: Reader, to offset: UInt64) -> Bool {
    state.withLock { state in
      for index in state.readers.indices where state.readers[index].reader == reader {
        state.readers[index].offset = offset
      }
      return Self.release(&state)
    }
  }

  private static func release(_ state: inout State) -> Bool {
    giveUpRead(&state)
    if state.fetchWaits, !isFull(state) {
      state.fetchWaits = false
      return true
    }
    return false
  }

  /// Whether a reader has found nothing, and will be told when to look again. One that was told and has not looked since is not: what
  /// it was told of may have been for another.
  public func waits(_ reader: Reader) -> Bool {
    state.withLock { state in state.readers.contains { $0.reader == reader && $0.waits } }
  }

  /// Reads no more. `isLast`: nobody does, and the rest is still to come; `wakesFetch`: it was the one that held the fetch up.
  public func leave(_ reader: Reader) -> (isLast: Bool, wakesFetch: Bool) {
    state.withLock { state in
      state.readers.removeAll { $0.reader == reader }
      return (state.readers.isEmpty && state.end == .growing, Self.release(&state))
    }
  }
}

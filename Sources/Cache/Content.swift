// The content of a stored answer. The one loop that fetches it writes it; any loop reads it, even while it is still
// arriving.
//
// It is kept in chunks. A lock is held while one chunk is copied. A reader that has reached the end of the available
// bytes is put in a list, and the writer notifies it. If more arrives than may be stored, the content is only kept as
// long as its readers need it, and the slowest reader delays the fetch. Tests: ContentTests.

import Bytes

public final class Content: Sendable {
  /// Bytes of a chunk: as much as one write to a client's socket accepts.
  public static let chunkBytes = 64 << 10
  /// How far a fetch may be ahead of the slowest reader if the content is not stored, in bytes.
  static let windowBytes: UInt64 = 1 << 20

  /// A reader, and how it is notified of more.
  public struct Reader: Sendable, Equatable {
    /// The loop that it belongs to, its slot there, and the generation of that slot.
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
    /// What is here will not become the whole.
    case broken
  }

  public enum Read: Sendable, Equatable {
    /// So many bytes were appended.
    case bytes(Int)
    /// Nothing is here yet. The reader will be notified.
    case wait
    /// As `wait`, and these chunks must be read from the file.
    case load(Range<Int>)
    case complete
    case broken
  }

  private struct Attendance: Sendable {
    let reader: Reader
    var offset: UInt64
    var waits = false
    /// The fetch continues without this reader: what it has not read is discarded.
    var isLeftBehind = false
  }

  private struct State: Sendable {
    /// A chunk that is not in memory is empty.
    var chunks: [[UInt8]] = []
    var count: UInt64 = 0
    var end = End.growing
    var trailers: [UInt8] = []
    var readers: [Attendance] = []
    /// false: only kept as long as its readers need it.
    var isStored = true
    /// How many bytes from the beginning are in a file, and whether more go there.
    var written: UInt64 = 0
    var spills = false
    /// Chunks that are being read from the file.
    var loading: Set<Int> = []
    /// The reader that fetches it; nil: none, or no longer one.
    var fetch: Reader?
    /// All of it is in the file, and its row was written at some time.
    var isFiled = false
    /// Another content continues with what is here, including the file.
    var isSalvaged = false
    /// The fetch has been told to wait for its readers or for the file.
    var fetchWaits = false
  }

  private let state = Locked(State())
  /// In bytes, if the origin announced it at the beginning.
  public let announced: UInt64?

  /// `spills`: the content is also written to a file, by the caller of `nextToWrite`.
  public init(announced: UInt64?, spills: Bool = false) {
    self.announced = announced
    state.withLock { $0.spills = spills }
  }

  /// Content that is completely in a file.
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

  /// Continues a part of another content. `announced`: the bytes of both together.
  public init(_ beginning: Beginning, announced: UInt64?, spills: Bool) {
    self.announced = announced
    state.withLock { state in
      state.chunks = beginning.chunks
      state.count = beginning.count
      state.written = spills ? beginning.written : 0
      state.spills = spills
    }
  }

  /// What is left of a fetch that ended early, as an answer of its own.
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

  /// How much of a content that is in a file stays in memory while it is not being read, in bytes.
  public static let residentBytes: UInt64 = 1 << 20
  /// How far a fetch may be ahead of the file, in bytes.
  static let unwrittenBytes: UInt64 = 4 << 20

  /// Bytes that have arrived.
  public var count: UInt64 { state.withLock { $0.count } }
  public var end: End { state.withLock { $0.end } }
  public var isComplete: Bool { end == .complete }
  /// Whether everything that has arrived can be read from the beginning.
  public var isWhole: Bool { state.withLock { $0.isStored && $0.end != .broken } }
  /// Whether it goes to a file.
  public var spills: Bool { state.withLock { $0.spills } }
  public var hasReaders: Bool { state.withLock { !$0.readers.isEmpty } }
  /// The length of the whole, in bytes; nil if it is not known yet.
  public var length: UInt64? { announced ?? state.withLock { $0.end == .complete ? $0.count : nil } }
  /// The trailer lines, each with its line end.
  public var trailers: [UInt8] { state.withLock { $0.trailers } }

  /// The reader that fetches it. It is notified when readers leave.
  public var fetch: Reader? {
    get { state.withLock { $0.fetch } }
    set { state.withLock { $0.fetch = newValue } }
  }

  // MARK: Writing

  /// The result of an append: which readers to notify, and whether the fetch must wait for its readers.
  public struct Appended: Sendable {
    public let readers: [Reader]
    public let waits: Bool
  }

  public func append(_ bytes: Span<UInt8>) -> Appended {
    state.withLock { state in
      var at = 0
      // Not from the last chunk's size: a chunk that is in the file may have left memory.
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

  /// The capacity of the next chunk.
  private func capacity(_ state: State, _ now: Int) -> Int {
    guard let announced, announced > state.count else { return now }
    return max(now, Int(min(announced - state.count, UInt64(Self.chunkBytes))))
  }

  /// All of it has arrived. Returns the readers to notify.
  public func finish(trailers: [UInt8] = []) -> [Reader] {
    state.withLock { state in
      // Less than was announced is not the whole (RFC 9111, 3.3).
      let isAll = announced.map { $0 == state.count } ?? true
      state.end = isAll ? .complete : .broken
      state.trailers = trailers
      return Self.takeWaiting(&state)
    }
  }

  /// No more will arrive. Returns the readers to notify.
  public func breakOff() -> [Reader] {
    state.withLock { state in
      if state.end == .growing { state.end = .broken }
      return Self.takeWaiting(&state)
    }
  }

  /// It is no longer stored: from here on, what all readers have read is discarded.
  public func giveUp() {
    state.withLock { state in
      // What is in a file is still read from there.
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

  /// For content that is not stored: continues without the readers that delay the others. Returns the readers to
  /// notify; none if there are no others.
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
    // The chunk that is being written stays.
    let whole = min(Int(passed / UInt64(chunkBytes)), state.chunks.count - (state.end == .growing ? 1 : 0))
    for index in 0..<max(0, whole) where !state.chunks[index].isEmpty { state.chunks[index] = [] }
  }

  private static func isFull(_ state: State) -> Bool {
    if state.end != .growing { return false }
    if !state.isStored { return state.count - slowest(state) >= windowBytes }
    return state.spills && state.count - state.written >= unwrittenBytes
  }

  /// Whether the fetch must wait.
  public var holdsFetchUp: Bool { state.withLock { Self.isFull($0) } }

  // MARK: The file

  /// The next bytes to write to the file, and their offset; nil if there are none yet, or no more.
  public func nextToWrite() -> (offset: UInt64, bytes: [UInt8])? {
    state.withLock { state in
      guard state.spills, state.end != .broken, state.written < state.count else { return nil }
      let chunk = state.chunks[Int(state.written / UInt64(Self.chunkBytes))]
      if chunk.count < Self.chunkBytes, state.end == .growing { return nil }
      return (state.written, chunk)
    }
  }

  /// So many more bytes are in the file. Returns whether the fetch was waiting for that and may continue.
  public func wrote(_ count: Int) -> Bool {
    state.withLock { state in
      state.written += UInt64(count)
      return Self.release(&state)
    }
  }

  /// The file accepts no more. What is in it is still read. If `mayStay`, content that is small and entirely in memory
  /// stays there. Returns whether the fetch was waiting and may continue.
  public func fileFailed(mayStay: Bool) -> Bool {
    state.withLock { state in
      state.spills = false
      let isInMemory = state.count <= Self.residentBytes && !state.chunks.contains(where: \.isEmpty)
      if !mayStay || !isInMemory { state.isStored = false }
      return Self.release(&state)
    }
  }

  /// A chunk has been read from the file, or could not be. Returns the readers to notify.
  public func loaded(_ index: Int, _ bytes: [UInt8]?) -> [Reader] {
    state.withLock { state in
      state.loading.remove(index)
      if let bytes { state.chunks[index] = bytes } else { state.end = .broken }
      return Self.takeWaiting(&state)
    }
  }

  // MARK: Parts

  /// Bytes from the first one on, to which more can be added.
  public struct Beginning: Sendable {
    fileprivate let chunks: [[UInt8]]
    public let count: UInt64
    /// How many of them are in the file, perhaps also in memory.
    public let written: UInt64
  }

  /// nil if something that arrived is missing.
  public func beginning() -> Beginning? {
    state.withLock { state in
      guard state.isStored, state.end == .complete else { return nil }
      let size = UInt64(Self.chunkBytes)
      var count = state.count
      var chunks = state.chunks
      // Bytes can only be appended to a chunk in memory. If the last chunk is only in the file, it is fetched again.
      if count % size != 0, let last = chunks.last, last.isEmpty {
        chunks.removeLast()
        count -= count % size
      }
      let written = state.written - state.written % size
      for (index, chunk) in chunks.enumerated() where chunk.isEmpty && UInt64(index) * size >= written { return nil }
      return Beginning(chunks: chunks, count: count, written: min(written, count - count % size))
    }
  }

  /// What remains of a fetch that ended early; nil if nothing does, or the beginning is missing.
  public func salvaged() -> Content? {
    state.withLock { state in
      guard state.isStored, state.end != .complete, state.count > 0 else { return nil }
      state.isSalvaged = true
      return Content(state.chunks, count: state.count, written: state.written, spills: state.spills)
    }
  }

  /// The progress of its file.
  public enum Filing: Sendable { case growing, whole, broken }

  /// Taken in one moment: a content that completes just after its file was checked is not yet whole in the file.
  public var filing: Filing {
    state.withLock { state in
      switch state.end {
      case .growing: .growing
      case .broken: .broken
      case .complete: state.written == state.count ? .whole : .growing
      }
    }
  }

  /// Its row is about to be written: true once, whatever has happened to the content since.
  public func isFiledNow() -> Bool {
    state.withLock { state in
      defer { state.isFiled = true }
      return !state.isFiled
    }
  }
  public var isFiled: Bool { state.withLock { $0.isFiled } }

  /// Whether another content owns its file now.
  public var isSalvaged: Bool { state.withLock { $0.isSalvaged } }

  // MARK: Reading

  /// These readers will read from the beginning. Nothing is discarded until they have read it, or leave.
  public func expect(_ readers: [Reader]) {
    state.withLock { state in state.readers += readers.map { Attendance(reader: $0, offset: 0) } }
  }

  /// Adds a reader that starts at `offset`. false: what it needs has been discarded.
  public func attend(_ reader: Reader, from offset: UInt64) -> Bool {
    state.withLock { state in
      let index = Int(offset / UInt64(Self.chunkBytes))
      if index < state.chunks.count, state.chunks[index].isEmpty, offset >= state.written { return false }
      if state.end == .broken { return false }
      state.readers.append(Attendance(reader: reader, offset: offset))
      return true
    }
  }

  /// The result of a read, and whether the fetch was waiting and may continue.
  public struct Progress: Sendable, Equatable {
    public let read: Read
    public let wakesFetch: Bool
  }

  /// Appends what is available from `offset` on: at most `most` bytes, and at most a chunk.
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

  /// What a reader finds.
  public enum Look: Sendable {
    /// A chunk, and the reader's position in it.
    case chunk([UInt8], from: Int)
    /// Nothing yet. The reader will be notified, and these chunks must be read from the file.
    case load(Range<Int>)
    case ended(Read)
  }

  /// The bytes from `offset` to the end of the chunk, without copying. The reader reports by `advance` what it has
  /// used.
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

  /// How many chunks are read from the file at once, so that a reader can continue while the next are read.
  static let readAhead = 4

  /// The chunks from `index` on that must be read now.
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

  /// Returns whether the fetch was waiting and may continue.
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

  /// Whether a reader found nothing and will be notified when to look again. A reader that has been notified but has
  /// not looked since does not count: the notification may have been for another one.
  public func waits(_ reader: Reader) -> Bool {
    state.withLock { state in state.readers.contains { $0.reader == reader && $0.waits } }
  }

  /// Removes a reader. `isLast`: no reader is left and the content is incomplete. `wakesFetch`: this reader was the one
  /// that delayed the fetch.
  public func leave(_ reader: Reader) -> (isLast: Bool, wakesFetch: Bool) {
    state.withLock { state in
      state.readers.removeAll { $0.reader == reader }
      return (state.readers.isEmpty && state.end == .growing, Self.release(&state))
    }
  }
}

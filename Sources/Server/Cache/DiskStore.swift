// Stored answers on a disk: content in files, one an answer, and everything else in a table of SQLite. A thread of its own does all
// of it; loops ask by posting jobs and hear of them by their mailboxes.
//
// A file is written while its answer is fetched, and its row when it is whole: whatever ends the daemon, an answer that has a row has
// all of its content, and a file without a row is removed at the next start. Numbers of files are never used again. What a
// table says and a file does not hold (another size, an error of the disk) is no answer: it goes, and the origin is asked.
//
// One process has the directory. Another one stores in memory alone, and takes it over once it is free.
// Tests: Tests/EndToEndTests/test_cache_disk.py.

import Bytes
import Cache
import Policy
import Synchronization
import Transport

final class DiskStore: Sendable {
  fileprivate enum Job: Sendable {
    /// More of the content of an answer is there, or all.
    case write(StoredAnswer)
    case load(StoredAnswer, chunks: Range<Int>)
    /// The file of an answer begins with what another holds.
    case adopt(StoredAnswer, from: UInt64, count: UInt64)
    /// Makes answers again of what is in the files for a key.
    case restore(CacheKey, reply: @Sendable () -> Void)
    case freshen(StoredAnswer)
    case remove([UInt64])
    case touch([UInt64])
    /// What somebody waits for who is no loop; nil: there are no files.
    case operate(@Sendable (DiskFiles?) -> Void)
    /// The store is not used any more: others may have the directory.
    case stop
  }

  /// What the other threads see of it.
  private struct Shared: Sendable {
    var table: DiskTable
    /// The directory is ours, and its table is read.
    var isOpen = false
    var next: UInt64 = 1
    /// Answers that were removed while they were written.
    var discarded: Set<UInt64> = []
    /// Why nothing is written just now.
    var fault: String?
  }

  let directory: String
  private let storage: CacheStorage
  private let shared: Locked<Shared>
  private let jobs = Mailbox<Job>()
  private let removed = RemovedFiles(path: DiskFiles.name)
  private let unreadable = Locked(RepeatedEvent())
  private let tell: @Sendable (String) -> Void
  private let wake: @Sendable ([Content.Reader], StoreEvent) -> Void
  private let insert: @Sendable (StoredAnswer, UInt64) -> Bool
  private let isCurrent: @Sendable (StoredAnswer) -> Bool
  private let targets: [[UInt8]]

  enum StoreEvent: Sendable { case content, fetch }

  /// How often a directory that another process holds is tried again, and for how long nothing is written after a fault, in
  /// milliseconds.
  private static let retryMilliseconds: Int32 = 1000
  private static let pauseMilliseconds: Int64 = 30_000

  /// `tell`: a sentence for the log. `wake`: readers and fetches are told by their loops. `insert`: an answer was made again of its
  /// file; false: there is a newer one. `isCurrent`: its URL was not changed since it was asked for.
  init(
    _ storage: CacheStorage, directory: String, tell: @escaping @Sendable (String) -> Void,
    wake: @escaping @Sendable ([Content.Reader], StoreEvent) -> Void,
    insert: @escaping @Sendable (StoredAnswer, UInt64) -> Bool, isCurrent: @escaping @Sendable (StoredAnswer) -> Bool
  ) {
    self.isCurrent = isCurrent
    self.storage = storage
    self.directory = directory
    self.tell = tell
    self.wake = wake
    self.insert = insert
    targets = storage.targets.map { Array($0.utf8) }
    shared = Locked(Shared(table: DiskTable(limit: storage.diskBytes, purgeTo: storage.purgeTo)))
    // What was there before is known before the first request.
    let opened = DiskFiles.open(directory, removed)
    switch opened {
    case .success(let files): take(files)
    case .failure(let fault): shared.withLock { $0.fault = fault.sentence }
    }
    let first: Result<DiskFiles, DiskFiles.Fault> = opened
    startThread(named: "cache") { [self] in run(first) }
  }

  // MARK: For loops

  /// The number of a new file; nil where nothing is written just now.
  func newFile() -> UInt64? {
    shared.withLock { shared in
      guard shared.isOpen, shared.fault == nil else { return nil }
      defer { shared.next += 1 }
      return shared.next
    }
  }

  /// Whether new answers go to files.
  var isWriting: Bool { shared.withLock { $0.isOpen && $0.fault == nil } }

  /// Whether an answer in a file may be used. Whoever removes one says so here first.
  func holds(_ file: UInt64) -> Bool { shared.withLock { $0.table.contains(file) } }

  /// Whether a file may hold an answer to a request of this key.
  func mayHave(_ key: CacheKey) -> Bool { shared.withLock { $0.isOpen && !$0.table.files(of: key).isEmpty } }

  func write(_ answer: StoredAnswer) { jobs.post(.write(answer)) }
  /// `count`: of the first bytes of file `from`.
  func adopt(_ answer: StoredAnswer, from file: UInt64, count: UInt64) {
    jobs.post(.adopt(answer, from: file, count: count))
  }
  func load(_ answer: StoredAnswer, chunks: Range<Int>) { jobs.post(.load(answer, chunks: chunks)) }
  func restore(_ key: CacheKey, reply: @escaping @Sendable () -> Void) { jobs.post(.restore(key, reply: reply)) }
  func freshen(_ answer: StoredAnswer) { if answer.file != nil { jobs.post(.freshen(answer)) } }

  /// It was used.
  func touch(_ answer: StoredAnswer) {
    guard let file = answer.file else { return }
    let batch = touched.withLock { touched -> [UInt64] in
      touched.append(file)
      if touched.count < Self.touchedAtOnce { return [] }
      defer { touched = [] }
      return touched
    }
    if !batch.isEmpty { jobs.post(.touch(batch)) }
  }

  /// Uses that the thread is told of at once: a hit wakes nobody.
  private static let touchedAtOnce = 512
  private let touched = Locked<[UInt64]>([])

  /// It is not to be found from here on, whether it is written already or still being so.
  func discard(_ answer: StoredAnswer) {
    guard let file = answer.file else { return }
    shared.withLock { shared in
      // What has no row yet is being written.
      if !answer.content.isFiled { shared.discarded.insert(file) }
      shared.table.remove(file)
    }
    removed.note([file])
    jobs.post(.remove([file]))
  }

  func discardAll(ofURL key: CacheKey) {
    let files = shared.withLock { shared in
      let files = shared.table.files(ofURL: key)
      for file in files { shared.table.remove(file) }
      return files
    }
    if files.isEmpty { return }
    removed.note(files)
    jobs.post(.remove(files))
  }

  // MARK: For the daemon's thread

  /// Does something with the files, behind all that was asked for before, and waits for it; at most so long.
  func operate(milliseconds: Int32, _ body: @escaping @Sendable (DiskFiles?) -> Void) {
    let done = Wake()
    jobs.post(
      .operate { files in
        body(files)
        done.signal()
      })
    _ = Poll.readable(done.descriptor, milliseconds: milliseconds)
  }

  /// Gives the directory back.
  func stop() { jobs.post(.stop) }

  /// Removes the rows that are meant, and their files. Which.
  func purge(
    _ files: DiskFiles, narrowed: [(column: String, value: String)], where isMeant: (DiskFiles.Listed) -> Bool
  ) -> Set<UInt64> {
    var meant: [UInt64] = []
    try? files.forEachRow(narrowed: narrowed) { row in if isMeant(row) { meant.append(row.file) } }
    if meant.isEmpty { return [] }
    shared.withLock { shared in for file in meant { shared.table.remove(file) } }
    removed.note(meant)
    var isDone = true
    func attempt(_ body: () throws(DatabaseFault) -> Void) { do { try body() } catch { isDone = false } }
    attempt(files.begin)
    for file in meant { attempt { () throws(DatabaseFault) in try files.remove(file) } }
    attempt(files.commit)
    // Else they are tried again, and until then their notes stay.
    if isDone { removed.removed(meant.count) } else { jobs.post(.remove(meant)) }
    return Set(meant)
  }

  var facts: (answers: Int, bytes: UInt64, evictions: UInt64, fault: String?) {
    shared.withLock {
      ($0.table.count, $0.table.bytes, $0.table.evictions, $0.isOpen ? $0.fault : $0.fault ?? "not open")
    }
  }

  // MARK: The thread

  private func take(_ files: DiskFiles) {
    shared.withLock { shared in
      for row in files.rows { shared.table.insert(row.file, row.key, content: row.bytes) }
      // Of who had a number from the directory before, some may still write.
      shared.next = max(shared.next, files.nextFile)
      shared.isOpen = true
      shared.fault = nil
    }
    files.rows = []
  }

  private func run(_ first: Result<DiskFiles, DiskFiles.Fault>) {
    var opened = first
    var said = ""
    while true {
      switch opened {
      case .success(let files):
        files.removeOrphans(besides: shared.withLock { $0.table.files })
        let stopped = work(files)
        shared.withLock { shared in
          shared.isOpen = false
          shared.table = DiskTable(limit: storage.diskBytes, purgeTo: storage.purgeTo)
        }
        removed.close()
        opened = .failure(DiskFiles.Fault(sentence: "\(directory) is gone"))
        if stopped { return refuseForEver() }
      case .failure(let fault):
        if fault.sentence != said { tell("cache: \(fault.sentence); answers are stored in memory alone") }
        said = fault.sentence
        shared.withLock { $0.fault = fault.sentence }
        if !refuseJobs(milliseconds: Self.retryMilliseconds) { return refuseForEver() }
        opened = DiskFiles.open(directory, removed)
        if case .success(let files) = opened {
          take(files)
          tell("cache: \(directory) is in use now")
        }
      }
    }
  }

  /// Nothing can be done on a disk that is not there.
  private func refuseForEver() {
    while true { _ = refuseJobs(milliseconds: -1) }
  }

  /// false: the store is not used any more.
  private func refuseJobs(milliseconds: Int32) -> Bool {
    _ = Poll.readable(jobs.descriptor, milliseconds: milliseconds)
    var goesOn = true
    for job in jobs.takeAll() {
      switch job {
      case .write(let answer): fail(answer)
      case .load(let answer, let chunks): wake(answer.content.loaded(chunks.lowerBound, nil), .content)
      case .restore(_, let reply): reply()
      case .adopt(let answer, _, _): fail(answer)
      case .operate(let body): body(nil)
      case .stop: goesOn = false
      case .freshen, .remove, .touch: break
      }
    }
    return goesOn
  }

  private func fail(_ answer: StoredAnswer) {
    let wakes = answer.content.fileFailed(mayStay: true)
    if wakes, let fetch = answer.content.fetch { wake([fetch], .fetch) }
  }

  /// false: the directory is not there any more, or is another.
  private func work(_ files: DiskFiles) -> Bool {
    var resumes: Int64 = .max
    // Files whose rows have to go and could not. Their notes stay until then.
    var owed: [UInt64] = []
    while true {
      let wait = resumes == .max ? -1 : Int32(clamping: max(0, resumes - Clock.monotonic))
      _ = Poll.readable(jobs.descriptor, milliseconds: wait)
      var isLost = false
      if Clock.monotonic >= resumes {
        resumes = .max
        isLost = !files.isThere
        shared.withLock { $0.fault = nil }
      }
      var batch = jobs.takeAll()
      // Who waits for an answer comes before what is only kept.
      batch = batch.filter(\.isAwaited) + batch.filter { !$0.isAwaited }
      let stops = batch.contains { if case .stop = $0 { true } else { false } }
      let retried = resumes == .max ? owed : []
      let (fault, unremoved) = perform(batch, removing: retried, files)
      owed = (resumes == .max ? [] : owed) + unremoved
      if let fault {
        let isNew = shared.withLock { shared in
          defer { shared.fault = fault }
          return shared.fault == nil
        }
        // Once: what is being written meets it as well.
        if isNew {
          tell("cache: \(directory): \(fault); nothing is stored there for \(Self.pauseMilliseconds / 1000) s")
          resumes = Clock.monotonic + Self.pauseMilliseconds
        }
      }
      if stops { return true }
      if isLost { return false }
    }
  }

  /// Does the jobs of one turn in one transaction, and removes what an earlier one could not. Why something could not be written,
  /// nil: nothing; and what of the removals is to be tried again.
  private func perform(
    _ batch: [Job], removing owed: [UInt64], _ files: DiskFiles
  ) -> (fault: String?, unremoved: [UInt64]) {
    if batch.isEmpty, owed.isEmpty { return (nil, []) }
    var fault: String? = nil
    var noted = owed
    func attempt(_ body: () throws(DatabaseFault) -> Void) {
      do { try body() } catch { fault = fault ?? error.description }
    }
    attempt(files.begin)
    for job in batch {
      switch job {
      case .write(let answer): if let reason = write(answer, files) { fault = fault ?? reason }
      case .load(let answer, let chunks): load(answer, chunks, files)
      case .adopt(let answer, let file, let count):
        if let number = answer.file, let error = files.copy(count, of: file, to: number) {
          abandon(number, files)
          fail(answer)
          fault = fault ?? "\(error)"
        }
      case .restore(let key, let reply):
        restore(key, files)
        reply()
      case .freshen(let answer): attempt { () throws(DatabaseFault) in try files.update(answer) }
      case .remove(let numbers): noted += numbers
      case .touch(let used): shared.withLock { shared in for file in used { shared.table.touch(file) } }
      case .operate, .stop: break
      }
    }
    let purged = shared.withLock { $0.table.purge() }
    for number in noted + purged { attempt { () throws(DatabaseFault) in try files.remove(number) } }
    attempt(files.commit)
    if fault == nil { removed.removed(noted.count) }
    files.sweep()
    for case .operate(let body) in batch { body(files) }
    return (fault, fault == nil ? [] : noted)
  }

  /// It is not written to its end.
  private func abandon(_ number: UInt64, _ files: DiskFiles) {
    shared.withLock { _ = $0.discarded.remove(number) }
    files.abandon(number)
  }

  private func write(_ answer: StoredAnswer, _ files: DiskFiles) -> String? {
    guard let number = answer.file else { return nil }
    while let part = answer.content.nextToWrite() {
      if let error = files.write(part.bytes, to: number, at: part.offset) {
        abandon(number, files)
        fail(answer)
        return "\(error)"
      }
      if answer.content.wrote(part.bytes.count), let fetch = answer.content.fetch { wake([fetch], .fetch) }
    }
    switch answer.content.filing {
    // What comes is told of by another job.
    case .growing: return nil
    case .broken:
      if !answer.content.isSalvaged { abandon(number, files) }
      return nil
    // Of the last jobs of an answer the first finds it whole.
    case .whole: if !answer.content.isFiledNow() { return nil }
    }
    // Who reads it goes on; nobody else gets it.
    if shared.withLock({ $0.discarded.remove(number) }) != nil || !isCurrent(answer) {
      files.forget(number, answer.content)
      return nil
    }
    do {
      try files.insert(answer, number)
      shared.withLock { $0.table.insert(number, answer.key, content: answer.content.count) }
      return nil
    } catch {
      abandon(number, files)
      return error.description
    }
  }

  private func load(_ answer: StoredAnswer, _ chunks: Range<Int>, _ files: DiskFiles) {
    guard let number = answer.file else { return }
    for chunk in chunks {
      let offset = UInt64(chunk * Content.chunkBytes)
      let count = Int(min(UInt64(Content.chunkBytes), answer.content.count - offset))
      let bytes = files.read(count, of: number, at: offset)
      wake(answer.content.loaded(chunk, bytes), .content)
      if bytes == nil {
        if let unsaid = unreadable.withLock({ $0.happened(now: Clock.monotonic) }) {
          let more = unsaid > 0 ? ", as \(unsaid) others were" : ""
          tell("cache: \(directory): the content of an answer cannot be read; it is dropped\(more)")
        }
        return discard(answer)
      }
    }
  }

  private func restore(_ key: CacheKey, _ files: DiskFiles) {
    // The newest first: of two answers to the same request it is the one that holds.
    for number in shared.withLock({ $0.table.files(of: key) }).reversed() {
      guard let found = try? files.answer(number, key, targets: targets) else {
        shared.withLock { $0.table.remove(number) }
        try? files.remove(number)
        continue
      }
      if let answer = found.answer, !insert(answer, number) {
        shared.withLock { $0.table.remove(number) }
        try? files.remove(number)
      }
    }
  }
}

extension DiskStore.Job {
  /// Whether a client waits for it.
  fileprivate var isAwaited: Bool {
    switch self {
    case .load, .restore, .adopt: true
    case .write, .freshen, .remove, .touch, .operate, .stop: false
    }
  }
}

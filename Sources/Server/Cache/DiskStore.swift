// Stored answers on a disk: content in files, one for each answer, and everything else in a table of SQLite. A separate
// thread does all of it. Loops post jobs to it and get the results through their mailboxes.
//
// A file is written while its answer is fetched; its row, once it is complete. So however the daemon ends, an answer
// with a row has all of its content, and a file without a row is removed at the next start. File numbers are never
// reused. If the disk does not deliver what the table promises (another size, a read error), there is no answer: it is
// removed, and the origin is asked.
//
// One process owns the directory. Another one stores only in memory, and takes the directory over once it is free.
// Tests: Tests/EndToEndTests/test_cache_disk.py.

import Bytes
import Cache
import Policy
import Synchronization
import Transport

final class DiskStore: Sendable {
  fileprivate enum Job: Sendable {
    /// More of an answer's content is there, or all of it.
    case write(StoredAnswer)
    case load(StoredAnswer, chunks: Range<Int>)
    /// The file of an answer begins with bytes of another file.
    case adopt(StoredAnswer, from: UInt64, count: UInt64)
    /// Rebuilds answers from the files for a key.
    case restore(CacheKey, reply: @Sendable () -> Void)
    case freshen(StoredAnswer)
    case remove([UInt64])
    case touch([UInt64])
    /// Work that a thread other than a loop waits for; nil: there are no files.
    case operate(@Sendable (DiskFiles?) -> Void)
    /// The directory may be free now.
    case retry
    /// The store is no longer used: others may have the directory. `released` is called when they can.
    case stop(released: @Sendable () -> Void)
  }

  /// The part that other threads see.
  private struct Shared: Sendable {
    var table: DiskTable
    /// The directory is ours, and its table has been read.
    var isOpen = false
    var next: UInt64 = 1
    /// Answers that were removed while they were being written.
    var discarded: Set<UInt64> = []
    /// Why nothing is written just now.
    var fault: String?
    /// The thread has ended: jobs of those that still use the store are refused where they are posted.
    var isOver = false
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
  private let changed: @Sendable ([DiskFiles.Row]) -> [UInt64]
  private let targets: [[UInt8]]

  enum StoreEvent: Sendable { case content, fetch }

  /// How often a directory that another process owns is tried again, and how long nothing is written after a fault, in
  /// milliseconds.
  private static let retryMilliseconds: Int32 = 1000
  private static let pauseMilliseconds: Int64 = 30_000

  /// `tell` logs a sentence. `wake` informs readers and fetches through their loops. `insert`: an answer was rebuilt
  /// from its file; false: there is a newer one. `changed`: those of some answers whose URL has changed since they were
  /// asked for.
  init(
    _ storage: CacheStorage, directory: String, tell: @escaping @Sendable (String) -> Void,
    wake: @escaping @Sendable ([Content.Reader], StoreEvent) -> Void,
    insert: @escaping @Sendable (StoredAnswer, UInt64) -> Bool,
    changed: @escaping @Sendable ([DiskFiles.Row]) -> [UInt64]
  ) {
    self.changed = changed
    self.storage = storage
    self.directory = directory
    self.tell = tell
    self.wake = wake
    self.insert = insert
    targets = storage.targets.map { Array($0.utf8) }
    shared = Locked(Shared(table: DiskTable(limit: storage.diskBytes, purgeTo: storage.purgeTo)))
    // Earlier answers are known before the first request.
    let opened = open()
    if case .failure(let fault) = opened { shared.withLock { $0.fault = fault.sentence } }
    // Taken from here, because what a thread is started with lives as long as the thread, and the directory with it.
    let first = Locked<Result<DiskFiles, DiskFiles.Fault>?>(opened)
    startThread(named: "cache") { [self] in run { first.withLock { $0.take() } } }
  }

  // MARK: For loops

  /// The number of a new file; nil if nothing is written just now.
  func newFile() -> UInt64? {
    shared.withLock { shared in
      guard shared.isOpen, shared.fault == nil else { return nil }
      defer { shared.next += 1 }
      return shared.next
    }
  }

  /// Whether new answers go to files.
  var isWriting: Bool { shared.withLock { $0.isOpen && $0.fault == nil } }

  /// Whether an answer in a file may be used. A caller that removes one marks it here first.
  func holds(_ file: UInt64) -> Bool { shared.withLock { $0.table.contains(file) } }

  /// Whether a file may contain an answer to a request with this key.
  func mayHave(_ key: CacheKey) -> Bool { shared.withLock { $0.isOpen && !$0.table.files(of: key).isEmpty } }

  /// A stopped store refuses at once.
  private func post(_ job: Job) {
    let isPosted = shared.withLock { shared in
      if !shared.isOver { jobs.post(job) }
      return !shared.isOver
    }
    if !isPosted { refuse(job) }
  }

  func write(_ answer: StoredAnswer) { post(.write(answer)) }
  /// `count`: how many of the first bytes of file `from`.
  func adopt(_ answer: StoredAnswer, from file: UInt64, count: UInt64) {
    post(.adopt(answer, from: file, count: count))
  }
  func load(_ answer: StoredAnswer, chunks: Range<Int>) { post(.load(answer, chunks: chunks)) }
  func restore(_ key: CacheKey, reply: @escaping @Sendable () -> Void) { post(.restore(key, reply: reply)) }
  func freshen(_ answer: StoredAnswer) { if answer.file != nil { post(.freshen(answer)) } }

  /// Notes that it was used.
  func touch(_ answer: StoredAnswer) {
    guard let file = answer.file else { return }
    let batch = touched.withLock { touched -> [UInt64] in
      touched.append(file)
      if touched.count < Self.touchedAtOnce { return [] }
      defer { touched = [] }
      return touched
    }
    if !batch.isEmpty { post(.touch(batch)) }
  }

  /// How many uses are reported to the thread at once: a hit wakes no thread.
  private static let touchedAtOnce = 512
  private let touched = Locked<[UInt64]>([])

  /// From here on it cannot be found, whether it is already written or still being written.
  func discard(_ answer: StoredAnswer) {
    guard let file = answer.file else { return }
    shared.withLock { shared in
      // An answer without a row is still being written.
      if !answer.content.isFiled { shared.discarded.insert(file) }
      shared.table.remove(file)
    }
    withdraw([file])
  }

  func discardAll(ofResource key: CacheKey) {
    let files = shared.withLock { shared in
      let files = shared.table.files(ofResource: key)
      for file in files { shared.table.remove(file) }
      return files
    }
    withdraw(files)
  }

  /// Files that are no longer in the table: with a note each, until the thread has removed them.
  private func withdraw(_ files: [UInt64]) {
    if files.isEmpty { return }
    removed.note(files)
    post(.remove(files))
  }

  // MARK: For the daemon's thread

  /// Runs `body` on the files, after all earlier jobs, and waits for it; at most this long. Returns whether it is done.
  @discardableResult
  func operate(milliseconds: Int32, _ body: @escaping @Sendable (DiskFiles?) -> Void) -> Bool {
    let done = Completion()
    post(
      .operate { files in
        body(files)
        done.signal()
      })
    return done.wait(milliseconds: milliseconds)
  }

  /// Gives the directory back; `released` is called once others can have it.
  func stop(released: @escaping @Sendable () -> Void) { post(.stop(released: released)) }

  /// The directory may be free now.
  func retry() { post(.retry) }

  /// Removes the rows that are meant and their files. Returns which.
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
    // Otherwise they are tried again, and until then their notes stay.
    if isDone { removed.removed(meant.count) } else { post(.remove(meant)) }
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
      // Those that got a number from an earlier directory may still be writing.
      shared.next = max(shared.next, files.nextFile)
      shared.isOpen = true
      shared.fault = nil
    }
    // After a reload, the store before this one had the directory until now: a change that only this one was told of is
    // still to be made there. From here on, changes find the rows in the table.
    let outdated = changed(files.rows)
    files.rows = []
    shared.withLock { shared in for file in outdated { shared.table.remove(file) } }
    withdraw(outdated)
  }

  /// Opens the directory and learns what is in it.
  private func open() -> Result<DiskFiles, DiskFiles.Fault> {
    let opened = DiskFiles.open(directory, removed)
    if case .success(let files) = opened { take(files) }
    return opened
  }

  /// Until the store is stopped.
  private func run(first: () -> Result<DiskFiles, DiskFiles.Fault>?) {
    var said = ""
    var attempt = first() ?? open()
    // After a reload, the store before this one has the directory for another moment: no warning.
    var isFirst = true
    while true {
      let released: (@Sendable () -> Void)?
      switch attempt {
      case .success(let files):
        released = serve(files)
        attempt = .failure(DiskFiles.Fault(sentence: "\(directory) is gone"))
      case .failure(let fault):
        if fault.sentence != said, !(isFirst && fault.isHeld) {
          tell("cache: \(fault.sentence); answers are stored in memory alone")
          said = fault.sentence
        }
        isFirst = false
        shared.withLock { $0.fault = fault.sentence }
        _ = Poll.readable(jobs.descriptor, milliseconds: Self.retryMilliseconds)
        released = refuseJobs()
        if released == nil { attempt = open() }
        if case .success = attempt { tell("cache: \(directory) is in use now") }
      }
      // Nothing of the directory is held any more.
      if let released {
        end()
        return released()
      }
    }
  }

  /// Does the jobs until the store is stopped, whose answer is returned, or until the directory is gone.
  private func serve(_ files: DiskFiles) -> (@Sendable () -> Void)? {
    files.removeOrphans(besides: shared.withLock { $0.table.files })
    let released = work(files)
    shared.withLock { shared in
      shared.isOpen = false
      shared.table = DiskTable(limit: storage.diskBytes, purgeTo: storage.purgeTo)
    }
    removed.close()
    return released
  }

  /// From here on there is no thread.
  private func end() {
    shared.withLock { $0.isOver = true }
    _ = refuseJobs()
  }

  /// Without a disk, nothing can be done. If the store is no longer used, returns whom to tell.
  private func refuseJobs() -> (@Sendable () -> Void)? {
    var stops: (@Sendable () -> Void)? = nil
    for job in jobs.takeAll() {
      refuse(job)
      if case .stop(let released) = job { stops = released }
    }
    return stops
  }

  private func refuse(_ job: Job) {
    switch job {
    case .write(let answer): fail(answer)
    case .load(let answer, let chunks): wake(answer.content.loaded(chunks.lowerBound, nil), .content)
    case .restore(_, let reply): reply()
    case .adopt(let answer, _, _): fail(answer)
    case .operate(let body): body(nil)
    case .freshen, .remove, .touch, .retry, .stop: break
    }
  }

  private func fail(_ answer: StoredAnswer) {
    let wakes = answer.content.fileFailed(mayStay: true)
    if wakes, let fetch = answer.content.fetch { wake([fetch], .fetch) }
  }

  /// Until the store is stopped: returns whom to tell; or until the directory is gone, or is another one: nil.
  private func work(_ files: DiskFiles) -> (@Sendable () -> Void)? {
    var resumes: Int64 = .max
    // Files whose rows should have been removed and could not be. Their notes stay until then.
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
      // Jobs that a client waits for come before those that only keep things.
      batch = batch.filter(\.isAwaited) + batch.filter { !$0.isAwaited }
      var stops: (@Sendable () -> Void)? = nil
      for case .stop(let released) in batch { stops = released }
      let retried = resumes == .max ? owed : []
      let (fault, unremoved) = perform(batch, removing: retried, files)
      owed = (resumes == .max ? [] : owed) + unremoved
      if let fault {
        let isNew = shared.withLock { shared in
          defer { shared.fault = fault }
          return shared.fault == nil
        }
        // Logged once: other writes meet the same fault.
        if isNew {
          tell("cache: \(directory): \(fault); nothing is stored there for \(Self.pauseMilliseconds / 1000) s")
          resumes = Clock.monotonic + Self.pauseMilliseconds
        }
      }
      if let stops { return stops }
      if isLost { return nil }
    }
  }

  /// Does the jobs of one turn in one transaction, and removes what an earlier one could not. Returns why something
  /// could not be written (nil: everything was), and the removals to try again.
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
      case .load(let answer, let chunks): load(answer, chunks, files: files)
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
      case .operate, .retry, .stop: break
      }
    }
    // With a note each: until they are gone, a change of their URLs no longer finds them in the table.
    noted += shared.withLock { shared in
      let purged = shared.table.purge()
      if !purged.isEmpty { removed.note(purged) }
      return purged
    }
    for number in noted { attempt { () throws(DatabaseFault) in try files.remove(number) } }
    attempt(files.commit)
    if fault == nil { removed.removed(noted.count) }
    files.sweep()
    for case .operate(let body) in batch { body(files) }
    return (fault, fault == nil ? [] : noted)
  }

  /// The file will not be written to its end.
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
    // Another job reports the rest, unless it turned out to be too long: then nobody writes it.
    case .growing:
      if !answer.content.spills { forget(number, answer, in: files) }
      return nil
    case .broken:
      if !answer.content.isSalvaged { abandon(number, files) }
      return nil
    // An answer may have several last jobs; the first finds it complete.
    case .whole: break
    }
    // In the table before anything else: whoever removes the answer from here on finds it there, and notes its number.
    let isWanted = shared.withLock { shared -> Bool? in
      // An answer may have several last jobs; the first finds it complete.
      guard answer.content.isFiledNow() else { return nil }
      if shared.discarded.remove(number) != nil { return false }
      shared.table.insert(number, answer.key, content: answer.content.count)
      return true
    }
    guard let isWanted else { return nil }
    // A change is recorded before it looks into the table, so it is seen here or sees the answer there.
    let row = DiskFiles.Row(
      file: number, key: answer.key, bytes: answer.content.count, requested: answer.head.requested)
    guard isWanted, changed([row]).isEmpty else {
      forget(number, answer, in: files)
      return nil
    }
    do {
      try files.insert(answer, number)
      return nil
    } catch {
      shared.withLock { $0.table.remove(number) }
      abandon(number, files)
      return error.description
    }
  }

  /// Present readers continue; no one else gets it.
  private func forget(_ number: UInt64, _ answer: StoredAnswer, in files: DiskFiles) {
    shared.withLock { shared in
      shared.table.remove(number)
      shared.discarded.remove(number)
    }
    files.forget(number, answer.content)
  }

  private func load(_ answer: StoredAnswer, _ chunks: Range<Int>, files: DiskFiles) {
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
    // The newest first: of two answers to the same request, the newer one is valid.
    for number in shared.withLock({ $0.table.files(of: key) }).reversed() {
      guard let found = try? files.answer(number, key, targets: targets) else {
        drop(number, files)
        continue
      }
      if let answer = found.answer, !insert(answer, number) { drop(number, files) }
    }
  }

  /// The file goes first: from then on it is no answer, whatever becomes of its row.
  private func drop(_ number: UInt64, _ files: DiskFiles) {
    try? files.remove(number)
    shared.withLock { $0.table.remove(number) }
  }
}

extension DiskStore.Job {
  /// Whether a client waits for it.
  fileprivate var isAwaited: Bool {
    switch self {
    case .load, .restore, .adopt: true
    case .write, .freshen, .remove, .touch, .operate, .retry, .stop: false
    }
  }
}

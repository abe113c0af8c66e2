// The files and the table of a disk store, used by the one thread that owns them. Tests: test_cache_disk.py.

import Bytes
import Cache
import Policy
import Transport

/// Only one thread uses it. The thread that opens it hands it over.
final class DiskFiles: @unchecked Sendable {
  struct Fault: Error {
    let sentence: String
    /// Another store has the directory: it may be free in a moment.
    var isHeld = false
  }

  /// The part of a row that is known from the start, or before there is one.
  struct Row {
    let file: UInt64
    let key: CacheKey
    let bytes: UInt64
    /// When the request was sent, in milliseconds since 1970.
    let requested: Int64
  }

  private let directory: StoreDirectory
  private let database: Database
  /// The rows found at the start, the least recently used first.
  var rows: [Row] = []
  private(set) var nextFile: UInt64 = 1
  /// Files that are being written, and those read most recently.
  private var writing: [UInt64: Descriptor] = [:]
  private var reading: [(file: UInt64, descriptor: Descriptor)] = []
  /// Removed files whose content someone still has.
  private var held: [UInt64: Descriptor] = [:]
  private var contents: [UInt64: [WeakContent]] = [:]
  private var contentsToSweep = leastContentsToSweep

  private struct WeakContent {
    weak var content: Content?
  }

  /// How many contents are remembered before the dead ones are swept.
  private static let leastContentsToSweep = 1024

  /// Marks a database as ours ("Spct"), and the version of its table.
  private static let applicationID = 0x5370_6374
  private static let form = 3
  /// How many files are kept open for reading: as many as busy clients read at one time.
  private static let mostReading = 64
  /// How many directories the files are spread over: some thousand files in each if the store is large.
  private static let directories = 256
  private static let objects = "objects"
  private static let removed = "removed"

  static func open(_ path: String, _ notes: RemovedFiles) -> Result<DiskFiles, Fault> {
    do {
      let files = try DiskFiles(path)
      try files.forget(notedBy: notes)
      return .success(files)
    } catch {
      return .failure(error)
    }
  }

  private init(_ path: String) throws(Fault) {
    do {
      directory = try StoreDirectory(path: path, lockName: "lock")
    } catch {
      switch error {
      case .held: throw Fault(sentence: "another store has \(path) open", isHeld: true)
      case .foreign(let name):
        throw Fault(
          sentence: "\(name) belongs to another user, or others may write in it; it must be the daemon's alone")
      case .system(let error): throw Fault(sentence: "cannot use \(path): \(error)")
      }
    }
    if let error = directory.createDirectory(Self.objects) {
      throw Fault(sentence: "cannot write in \(path): \(error)")
    }
    for number in 0..<Self.directories { _ = directory.createDirectory(Self.folder(UInt64(number))) }
    for name in ["index.db", "index.db-wal", "index.db-shm", Self.removed, Self.objects] where !directory.isOurs(name) {
      throw Fault(sentence: "\(path)/\(name) belongs to another user, or others may write in it")
    }
    do {
      // SQLite gives the files that it adds the mode of the first.
      if case .success(let table) = directory.touch("index.db") { table.close() }
      database = try Database(path: "\(path)/index.db")
      try prepare()
      try readRows()
    } catch let fault as DatabaseFault {
      throw Fault(sentence: "cannot use \(path)/index.db: \(fault)")
    } catch {
      throw Fault(
        sentence: "\(path)/index.db is no table of stored answers of this version; remove it, or name another directory"
      )
    }
  }

  deinit {
    for descriptor in writing.values { descriptor.close() }
    for (_, descriptor) in reading { descriptor.close() }
    for descriptor in held.values { descriptor.close() }
  }

  /// Whether the directory is still where it was opened.
  var isThere: Bool { directory.isThere }

  /// Applies the notes of the previous owner of the store: their rows are removed before anyone is told of them.
  func forget(notedBy notes: RemovedFiles) throws(Fault) {
    switch notes.open(directory, name: Self.removed) {
    case .failure(let error): throw Fault(sentence: "cannot use \(directory.path)/\(Self.removed): \(error)")
    case .success(let numbers):
      if numbers.isEmpty { return }
      let gone = Set(numbers)
      do {
        try begin()
        for number in numbers { try remove(number) }
        try commit()
      } catch {
        throw Fault(sentence: "cannot use \(directory.path)/index.db: \(error)")
      }
      rows.removeAll { gone.contains($0.file) }
      notes.removed(numbers.count)
    }
  }

  // MARK: Who reads

  private func note(_ content: Content, of file: UInt64) {
    contents[file, default: []].removeAll { $0.content == nil }
    contents[file, default: []].append(WeakContent(content: content))
    if contents.count < contentsToSweep { return }
    contents = contents.filter { isHad($0.key) }
    contentsToSweep = max(Self.leastContentsToSweep, 2 * contents.count)
  }

  /// Whether someone has the content of a file.
  private func isHad(_ file: UInt64) -> Bool { contents[file]?.contains { $0.content != nil } ?? false }

  /// A file about to be removed stays open for those that have its content.
  private func hold(_ file: UInt64) {
    guard writing[file] == nil, held[file] == nil else { return }
    let index = reading.firstIndex { $0.file == file }
    let open = index.map { reading.remove(at: $0).descriptor }
    // An open file keeps its space on the disk.
    guard isHad(file) else { return open?.close() ?? () }
    if let open {
      held[file] = open
    } else if case .success(let descriptor) = directory.open(Self.name(file)) {
      held[file] = descriptor
    }
  }

  /// Closes removed files whose content no one has any more.
  func sweep() {
    for (file, descriptor) in held where !isHad(file) {
      descriptor.close()
      held[file] = nil
      contents[file] = nil
    }
  }

  private struct Foreign: Error {}

  private func prepare() throws {
    var application = 0
    var version = 0
    var tables = 0
    try database.run("PRAGMA application_id") { row in
      application = Int(row[0].integer)
      return true
    }
    try database.run("PRAGMA user_version") { row in
      version = Int(row[0].integer)
      return true
    }
    try database.run("SELECT count(*) FROM sqlite_schema") { row in
      tables = Int(row[0].integer)
      return true
    }
    if tables > 0, application != Self.applicationID { throw Foreign() }
    // What is lost with the machine is fetched again; what is there after a crash of the daemon is complete.
    for pragma in ["journal_mode = WAL", "synchronous = OFF", "temp_store = MEMORY"] {
      try database.run("PRAGMA \(pragma)")
    }
    if tables > 0, version == Self.form { return }
    // What another version has stored is fetched again.
    try database.run("DROP TABLE IF EXISTS answers")
    try database.run("PRAGMA application_id = \(Self.applicationID)")
    try database.run("PRAGMA user_version = \(Self.form)")
    try database.run(
      """
      CREATE TABLE answers (
        file INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL, url TEXT NOT NULL, host TEXT NOT NULL,
        rule TEXT NOT NULL, status INTEGER NOT NULL, reason BLOB NOT NULL, fields BLOB NOT NULL,
        trailers BLOB NOT NULL, requested INTEGER NOT NULL, received INTEGER NOT NULL,
        initial_age INTEGER NOT NULL, lifetime INTEGER NOT NULL, lifetime_source TEXT NOT NULL,
        selecting BLOB NOT NULL, names_lifetime INTEGER NOT NULL, is_private INTEGER NOT NULL,
        bytes INTEGER NOT NULL, part_offset INTEGER, part_total INTEGER)
      """)
    try database.run("CREATE INDEX answers_of_hosts ON answers (host)")
  }

  /// What the numbers of a row can be: times in milliseconds since 1970, ages in seconds, sizes. Sums of them are
  /// numbers too.
  private static let plausible =
    ["file", "bytes", "requested", "received", "initial_age", "lifetime"]
    .map { "\($0) BETWEEN 0 AND \(1 << 53)" }.joined(separator: " AND ")

  private func readRows() throws {
    try database.run("SELECT file, key, bytes, requested FROM answers WHERE \(Self.plausible) ORDER BY file") { row in
      rows.append(
        Row(
          file: UInt64(row[0].integer), key: CacheKey(bytes: row[1].blob), bytes: UInt64(row[2].integer),
          requested: row[3].integer))
      return true
    }
    // Nothing of ours has written the others.
    try database.run("DELETE FROM answers WHERE NOT (\(Self.plausible))")
    try database.run("SELECT seq FROM sqlite_sequence WHERE name = 'answers'") { row in
      nextFile = UInt64(max(0, row[0].integer)) + 1
      return true
    }
    // Files without a row may have higher numbers.
    for number in 0..<Self.directories {
      for name in directory.names(in: Self.folder(UInt64(number))) {
        if let file = Self.number(of: name) { nextFile = max(nextFile, file + 1) }
      }
    }
  }

  // MARK: Names

  private static func folder(_ file: UInt64) -> String {
    let text = String(file % UInt64(directories), radix: 16)
    return "\(objects)/\(text.utf8.count < 2 ? "0" : "")\(text)"
  }

  static func name(_ file: UInt64) -> String { "\(folder(file))/\(leaf(file))" }

  private static func leaf(_ file: UInt64) -> String {
    let text = String(file, radix: 16)
    return String(repeating: "0", count: max(0, 16 - text.utf8.count)) + text
  }

  private static func number(of leaf: String) -> UInt64? {
    leaf.utf8.count == 16 ? UInt64(leaf, radix: 16).flatMap { self.leaf($0) == leaf ? $0 : nil } : nil
  }

  /// Removes files with our names that no row has: they were being written when the daemon ended.
  func removeOrphans(besides known: Set<UInt64>) {
    let end = nextFile
    for number in 0..<Self.directories {
      for name in directory.names(in: Self.folder(UInt64(number))) {
        guard let file = Self.number(of: name), file < end, !known.contains(file), writing[file] == nil else {
          continue
        }
        directory.remove(Self.name(file))
      }
    }
  }

  // MARK: Content

  func write(_ bytes: [UInt8], to file: UInt64, at offset: UInt64) -> SystemError? {
    let descriptor: Descriptor
    if let open = writing[file] {
      descriptor = open
    } else {
      switch directory.create(Self.name(file)) {
      case .failure(let error): return error
      case .success(let made): descriptor = made
      }
      writing[file] = descriptor
    }
    return descriptor.write(bytes, at: offset)
  }

  /// Copies the first bytes of a file to a new one.
  func copy(_ count: UInt64, of file: UInt64, to new: UInt64) -> SystemError? {
    var offset: UInt64 = 0
    while offset < count {
      let size = Int(min(UInt64(Content.chunkBytes), count - offset))
      guard let bytes = read(size, of: file, at: offset) else { return .inputOutput }
      if let error = write(bytes, to: new, at: offset) { return error }
      offset += UInt64(size)
    }
    return nil
  }

  /// The file will not be written to its end.
  func abandon(_ file: UInt64) {
    writing.removeValue(forKey: file)?.close()
    directory.remove(Self.name(file))
  }

  /// From here on, only those that already read it use it.
  func forget(_ file: UInt64, _ content: Content) {
    if let descriptor = writing.removeValue(forKey: file) { held[file] = descriptor }
    note(content, of: file)
    directory.remove(Self.name(file))
  }

  private func keepReading(_ file: UInt64, _ descriptor: Descriptor) {
    if reading.count >= Self.mostReading { reading.removeFirst().descriptor.close() }
    reading.append((file, descriptor))
  }

  /// nil if the file does not contain what it should.
  func read(_ count: Int, of file: UInt64, at offset: UInt64) -> [UInt8]? {
    if let open = writing[file] ?? held[file] { return open.read(count, at: offset) }
    if let known = reading.first(where: { $0.file == file }) { return known.descriptor.read(count, at: offset) }
    guard case .success(let descriptor) = directory.open(Self.name(file)) else { return nil }
    keepReading(file, descriptor)
    return descriptor.read(count, at: offset)
  }

  // MARK: The table

  func begin() throws(DatabaseFault) { try database.run("BEGIN IMMEDIATE") }
  func commit() throws(DatabaseFault) { try database.run("COMMIT") }

  /// The answer is complete.
  func insert(_ answer: StoredAnswer, _ file: UInt64) throws(DatabaseFault) {
    // An answer without content has no file yet.
    if writing[file] == nil, write([], to: file, at: 0) != nil {
      throw DatabaseFault(description: "no file can be made", code: 0)
    }
    if let descriptor = writing.removeValue(forKey: file) { keepReading(file, descriptor) }
    note(answer.content, of: file)
    let record = StoredRecord(answer.head)
    try database.run(
      "INSERT INTO answers VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      [
        .integer(Int64(file)), .blob(answer.key.bytes), .text(String(decoding: answer.url, as: UTF8.self)),
        .text(answer.host), .text(answer.rule), .integer(Int64(record.status)), .blob(record.reason),
        .blob(record.fields), .blob(answer.content.trailers), .integer(record.requested), .integer(record.received),
        .integer(record.initialAge), .integer(record.lifetime), .text(record.lifetimeSource),
        .blob(record.selecting), .integer(record.namesLifetime ? 1 : 0), .integer(record.isPrivate ? 1 : 0),
        .integer(Int64(answer.content.count)), answer.part.map { .integer(Int64($0.offset)) } ?? .null,
        answer.part.map { .integer(Int64($0.total)) } ?? .null,
      ])
  }

  /// Its head has been freshened.
  func update(_ answer: StoredAnswer) throws(DatabaseFault) {
    guard let file = answer.file else { return }
    let record = StoredRecord(answer.head)
    try database.run(
      """
      UPDATE answers SET status = ?, reason = ?, fields = ?, requested = ?, received = ?, initial_age = ?, lifetime = ?,
        lifetime_source = ?, selecting = ?, names_lifetime = ?, is_private = ? WHERE file = ?
      """,
      [
        .integer(Int64(record.status)), .blob(record.reason), .blob(record.fields), .integer(record.requested),
        .integer(record.received), .integer(record.initialAge), .integer(record.lifetime),
        .text(record.lifetimeSource), .blob(record.selecting), .integer(record.namesLifetime ? 1 : 0),
        .integer(record.isPrivate ? 1 : 0), .integer(Int64(file)),
      ])
  }

  func remove(_ file: UInt64) throws(DatabaseFault) {
    hold(file)
    // If the row stays, it is no answer without its file.
    directory.remove(Self.name(file))
    try database.run("DELETE FROM answers WHERE file = ?", [.integer(Int64(file))])
  }

  /// nil inside: the row has another key. Throws if row and file do not agree.
  func answer(_ file: UInt64, _ key: CacheKey, targets: [[UInt8]]) throws -> (answer: StoredAnswer?, Void) {
    var found: [DatabaseValue] = []
    try database.run("SELECT * FROM answers WHERE file = ?", [.integer(Int64(file))]) { row in
      found = row
      return false
    }
    guard found.count == 20 else { throw Foreign() }
    if found[1].blob != key.bytes { return (nil, ()) }
    guard case .success(let descriptor) = directory.open(Self.name(file)) else { throw Foreign() }
    defer { descriptor.close() }
    guard let bytes = UInt64(exactly: found[17].integer) else { throw Foreign() }
    guard descriptor.fileSize == bytes else { throw Foreign() }
    let content = Content(inFile: bytes, trailers: found[8].blob)
    // The beginning is read before anyone is told that the answer is there: a disk that cannot read it shows here.
    if bytes > 0 {
      let count = Int(min(bytes, UInt64(Content.chunkBytes)))
      guard let first = descriptor.read(count, at: 0) else { throw Foreign() }
      _ = content.loaded(0, first)
    }
    note(content, of: file)
    return (
      StoredAnswer(
        key: key, url: Array(found[2].text.utf8), host: found[3].text, rule: found[4].text,
        StoredHead(Self.record(found), targets: targets), content, part: Self.part(found), file: file), ()
    )
  }

  // MARK: For operators

  /// A row in a list.
  struct Listed {
    let file: UInt64
    let url: [UInt8]
    let host: String
    let rule: String
    let head: StoredHead
    let bytes: UInt64
    let part: StoredPart?
  }

  /// `narrowed`: only rows whose columns have these values.
  func forEachRow(
    targets: [[UInt8]] = [], narrowed: [(column: String, value: String)] = [], _ body: (Listed) -> Void
  ) throws(DatabaseFault) {
    let conditions = narrowed.map { "\($0.column) = ?" }.joined(separator: " AND ")
    try database.run(
      "SELECT * FROM answers" + (conditions.isEmpty ? "" : " WHERE " + conditions), narrowed.map { .text($0.value) }
    ) { row in
      body(
        Listed(
          file: UInt64(clamping: row[0].integer), url: Array(row[2].text.utf8), host: row[3].text, rule: row[4].text,
          head: StoredHead(Self.record(row), targets: targets), bytes: UInt64(clamping: row[17].integer),
          part: Self.part(row)))
      return true
    }
  }

  private static func part(_ row: [DatabaseValue]) -> StoredPart? {
    guard case .integer(let offset) = row[18], case .integer(let total) = row[19] else { return nil }
    return StoredPart(offset: UInt64(offset), total: UInt64(total))
  }

  private static func record(_ row: [DatabaseValue]) -> StoredRecord {
    StoredRecord(
      status: Int(row[5].integer), reason: row[6].blob, fields: row[7].blob, requested: row[9].integer,
      received: row[10].integer, initialAge: row[11].integer, lifetime: row[12].integer,
      lifetimeSource: row[13].text, selecting: row[14].blob, namesLifetime: row[15].integer != 0,
      isPrivate: row[16].integer != 0)
  }
}

// Files and the environment, for reading the configuration and writing the local authority. For commands, start and
// reload only: no loop calls these.
//
// A file is written completely or not at all: first under another name in the same directory; then, once it is on the
// disk, it gets its own name in one step.

import CLinux
import Glibc

public enum Files {
  /// The bytes of a file, at most `limit`; a larger file is an error. So is a pipe: whoever reads one waits for its
  /// writer, and the daemon would not even stop meanwhile. Only what the process was started with may be one:
  /// `/dev/stdin`, and `/dev/fd/63` of a shell's `<(…)`. A device is asked for what it has: `/dev/null` is empty.
  ///
  /// `isBelieved`: its contents are the daemon's own, so it is an error if another user may have written it.
  public static func read(_ path: String, limit: Int, isBelieved: Bool = false) -> Result<[UInt8], SystemError> {
    let number = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
    guard number >= 0 else { return .failure(SystemError(errno)) }
    defer { Glibc.close(number) }
    var status = stat()
    guard fstat(number, &status) == 0 else { return .failure(SystemError(errno)) }
    switch status.st_mode & S_IFMT {
    case S_IFDIR: return .failure(SystemError(EISDIR))
    case S_IFIFO, S_IFSOCK:
      let own = ["/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"]
      guard path == "/dev/stdin" || own.contains(where: path.hasPrefix), fcntl(number, F_SETFL, O_RDONLY) == 0 else {
        return .failure(.notRegular)
      }
    default: break
    }
    if isBelieved, !FileOwner.isPlausible(status, at: path) { return .failure(.foreign) }
    return readAll(number, limit: limit)
  }

  /// A process may be started with its standard streams closed. What it opens first would take their numbers, and get
  /// what is meant for people.
  public static func fillStandardDescriptors() {
    var number = open("/dev/null", O_RDWR)
    while number >= 0, number <= 2 { number = open("/dev/null", O_RDWR) }
    if number > 2 { Glibc.close(number) }
  }

  /// Whether there is a file that another user may have prepared.
  public static func isForeign(_ path: String) -> Bool {
    var status = stat()
    return lstat(path, &status) == 0 && !FileOwner.isPlausible(status, at: path)
  }

  private static func readAll(_ number: Int32, limit: Int) -> Result<[UInt8], SystemError> {
    withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 16) { part in
      var bytes: [UInt8] = []
      while true {
        let count = cl_read(number, part.baseAddress, part.count)
        if count < 0 { return .failure(SystemError(Int32(-count))) }
        if count == 0 { return .success(bytes) }
        bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: part[..<count]))
        if bytes.count > limit { return .failure(SystemError(EFBIG)) }
      }
    }
  }

  /// The paths that match a shell pattern, in lexical order.
  public static func expand(_ pattern: String) -> Result<[String], SystemError> {
    var found = glob_t()
    defer { globfree(&found) }
    switch glob(pattern, GLOB_ERR, nil, &found) {
    case 0: break
    case GLOB_NOMATCH: return .success([])
    case GLOB_NOSPACE: return .failure(SystemError(ENOMEM))
    default: return .failure(SystemError(errno == 0 ? EIO : errno))
    }
    var paths: [String] = []
    for index in 0..<Int(found.gl_pathc) {
      if let path = found.gl_pathv[index] { paths.append(String(cString: path)) }
    }
    return .success(paths.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) })
  }

  /// The permission bits of a file; nil if it cannot be examined.
  public static func mode(_ path: String) -> UInt32? {
    var status = stat()
    return stat(path, &status) == 0 ? status.st_mode & 0o7777 : nil
  }

  /// The inode number of a file; nil if it cannot be examined.
  public static func inode(_ path: String) -> UInt64? {
    var status = stat()
    return stat(path, &status) == 0 ? UInt64(status.st_ino) : nil
  }

  /// Whether it is a file with content of its own. To open another may take for ever.
  public static func isRegular(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
  }

  public static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

  /// Whether the name exists, even if only as a link that leads nowhere.
  public static func isThere(_ path: String) -> Bool {
    var status = stat()
    return lstat(path, &status) == 0
  }

  /// Whether the name certainly does not exist: something that cannot be examined, or a link that leads nowhere, does
  /// exist.
  public static func isAbsent(_ path: String) -> Bool {
    var status = stat()
    return lstat(path, &status) != 0 && errno == ENOENT
  }

  /// The path without links; nil if there is no such file, or it cannot be examined.
  public static func realPath(_ path: String) -> String? {
    guard let real = realpath(path, nil) else { return nil }
    defer { free(real) }
    return String(cString: real)
  }

  /// The path from the root directory.
  public static func absolute(_ path: String) -> String {
    if path.hasPrefix("/") { return path }
    guard let directory = getcwd(nil, 0) else { return path }
    defer { free(directory) }
    return "\(String(cString: directory))/\(path)"
  }

  /// The value of an environment variable.
  public static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

  /// nil if it has been removed.
  public static var workingDirectory: String? {
    guard let path = getcwd(nil, 0) else { return nil }
    defer { free(path) }
    return String(cString: path)
  }

  public static func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

  /// Writes all of a text to standard output (1) or standard error (2).
  public static func write(_ text: String, to descriptor: Int32) { write(Array(text.utf8), to: descriptor) }

  public static func write(_ bytes: [UInt8], to descriptor: Int32) { _ = writeAll(bytes, to: descriptor) }

  /// Writes all of it.
  public static func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Result<Void, SystemError> {
    var sent = 0
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes { cl_write(descriptor, $0.baseAddress.map { $0 + sent }, bytes.count - sent) }
      if count < 0 { return .failure(SystemError(Int32(-count))) }
      sent += count
    }
    return .success(())
  }

  /// Ends the process with this status.
  public static func exit(_ status: Int32) -> Never { Glibc.exit(status) }
}

// MARK: Writing

extension Files {
  /// What happens to an existing file with the name.
  private enum Existing { case stays, goes }

  /// Creates a file with these bytes and permission bits. An existing one stays, and is an error (`isPresence`).
  public static func create(_ path: String, _ bytes: [UInt8], mode: UInt32) -> Result<Void, SystemError> {
    write(path, bytes, mode: mode, existing: .stays)
  }

  /// Creates a file with these bytes and permission bits in place of anything that has the name.
  public static func replace(_ path: String, _ bytes: [UInt8], mode: UInt32) -> Result<Void, SystemError> {
    write(path, bytes, mode: mode, existing: .goes)
  }

  /// Gives a file a second name; the first one stays. An existing file with the second name is replaced.
  public static func copyName(_ path: String, to other: String) -> Result<Void, SystemError> {
    inDirectory(of: path, and: other) { directory, from, to in
      let draft = draftName(for: to)
      guard linkat(directory.number, from, directory.number, draft, 0) == 0 else { return failure() }
      // renameat(2) does nothing if both are already names of one file.
      defer { unlinkat(directory.number, draft, 0) }
      return renameat(directory.number, draft, directory.number, to) == 0 ? synchronize(directory) : failure()
    }
  }

  /// In one step, within one directory; an existing file with the name is replaced.
  public static func move(_ path: String, to other: String) -> Result<Void, SystemError> {
    inDirectory(of: path, and: other) { directory, from, to in
      renameat(directory.number, from, directory.number, to) == 0 ? synchronize(directory) : failure()
    }
  }

  public static func remove(_ path: String) -> Result<Void, SystemError> {
    inDirectory(of: path, and: path) { directory, name, _ in
      unlinkat(directory.number, name, 0) == 0 ? synchronize(directory) : failure()
    }
  }

  /// Creates a directory, and missing ones above it; an existing one is not changed. What root creates in another
  /// user's directory belongs to that user.
  public static func createDirectory(_ path: String, mode: UInt32) -> Result<Void, SystemError> {
    switch GuardedPath.open(directory: path, making: mode) {
    case .success: .success(())
    case .failure(let error): .failure(error)
    }
  }

  /// The bytes of a file that may be in another user's directory, and its permission bits. See `GuardedPath`.
  public static func readGuarded(_ path: String, limit: Int) -> Result<(bytes: [UInt8], mode: UInt32), SystemError> {
    switch GuardedPath.open(file: path) {
    case .failure(let error): return .failure(error)
    case .success(let (number, mode)):
      defer { Glibc.close(number) }
      return readAll(number, limit: limit).map { ($0, mode) }
    }
  }

  public static func isReadable(_ path: String) -> Bool { access(path, R_OK) == 0 }

  /// Whether files can be created and replaced in this directory.
  public static func isWritable(directory path: String) -> Bool { access(path, W_OK | X_OK) == 0 }

  private static func write(
    _ path: String, _ bytes: [UInt8], mode: UInt32, existing: Existing
  ) -> Result<Void, SystemError> {
    inDirectory(of: path, and: path) { directory, name, _ in
      let draft = draftName(for: name)
      let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
      let number = openat(directory.number, draft, flags, 0o600)
      guard number >= 0 else { return failure() }
      defer { unlinkat(directory.number, draft, 0) }
      let written = fill(number, bytes, mode: mode, in: directory)
      Glibc.close(number)
      if case .failure = written { return written }
      switch existing {
      // linkat(2) does not replace.
      case .stays: guard linkat(directory.number, draft, directory.number, name, 0) == 0 else { return failure() }
      case .goes: guard renameat(directory.number, draft, directory.number, name) == 0 else { return failure() }
      }
      return synchronize(directory)
    }
  }

  /// What root creates in another user's directory belongs to that user, so that the daemon can read what an
  /// administrator makes for it. Other users cannot give files away.
  private static func fill(
    _ number: Int32, _ bytes: [UInt8], mode: UInt32, in directory: borrowing OpenDirectory
  ) -> Result<Void, SystemError> {
    if case .failure(let error) = writeAll(bytes, to: number) { return .failure(error) }
    if geteuid() == 0, fchown(number, directory.owner, directory.group) != 0 { return failure() }
    return fchmod(number, mode) == 0 && fsync(number) == 0 ? .success(()) : failure()
  }

  /// Opens the directory of both paths, and calls `body` with it and their names in it.
  private static func inDirectory(
    of path: String, and other: String,
    _ body: (borrowing OpenDirectory, String, String) -> Result<Void, SystemError>
  ) -> Result<Void, SystemError> {
    let (directory, name) = GuardedPath.parent(of: path)
    let (second, otherName) = GuardedPath.parent(of: other)
    guard directory == second else { return .failure(SystemError(EXDEV)) }
    switch GuardedPath.open(directory: directory) {
    case .failure(let error): return .failure(error)
    case .success(let opened): return body(opened, name, otherName)
    }
  }

  private static func synchronize(_ directory: borrowing OpenDirectory) -> Result<Void, SystemError> {
    fsync(directory.number) == 0 || errno == EINVAL ? .success(()) : failure()
  }

  private static func draftName(for name: String) -> String { ".\(name).\(String(Process.random, radix: 36))" }

  private static func failure() -> Result<Void, SystemError> { .failure(SystemError(errno)) }
}

extension SystemError {
  /// There is no such file.
  public var isAbsence: Bool { number == ENOENT }
  /// Nobody reads from the other end.
  public var isBrokenPipe: Bool { number == EPIPE }
  /// The user lacks the right; another one may have it.
  public var isDenial: Bool { number == EACCES || number == EPERM }
  /// The address already has a socket.
  public var isInUse: Bool { number == EADDRINUSE }
  /// Such a file already exists.
  public var isPresence: Bool { number == EEXIST }
  /// The path contains a symbolic link that is not followed, see `GuardedPath`.
  public var isForeignLink: Bool { number == ELOOP }
}

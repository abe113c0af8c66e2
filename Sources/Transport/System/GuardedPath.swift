// Paths through directories of other users, and how files there are read, created and replaced.
//
// Root runs `sallyport ca init` for a daemon that owns its directory. The owner of a directory can replace anything in
// it by a symbolic link, a pipe or a hard link, at any moment. So a path is walked one component at a time, from one
// open directory to the next, and operations on a file use the directory that was reached and not the path. A symbolic
// link is followed only if root or the caller has put it there: both the link and its directory are theirs. In another
// user's directory, only files of that user are read, or files of root with no other name: a hard link to a file that
// only root may read is not.
//
// Tests: test_ca_of_root.py.

import CLinux
import Glibc

/// A directory that is kept open.
struct OpenDirectory: ~Copyable {
  let number: Int32
  let owner: uid_t
  let group: gid_t

  fileprivate init(number: Int32, _ status: stat) {
    self.number = number
    owner = status.st_uid
    group = status.st_gid
  }

  deinit { Glibc.close(number) }

  /// Whether it belongs to root or the caller: then only they put things there.
  fileprivate var isOurs: Bool { GuardedPath.isOurs(owner) }
}

enum GuardedPath {
  /// How many links are followed in one path, as in the kernel (path_resolution(7)).
  private static let mostLinks = 40

  fileprivate static func isOurs(_ owner: uid_t) -> Bool { owner == 0 || owner == geteuid() }

  // MARK: Directories

  /// Opens a directory. With `mode`, missing ones are created, each with the owner of its parent.
  static func open(directory path: String, making mode: UInt32? = nil) -> Result<OpenDirectory, SystemError> {
    var walk = Walk(path, making: mode)
    return walk.directory()
  }

  /// The directory of a path, and the name in it.
  static func parent(of path: String) -> (directory: String, name: String) {
    var trimmed = path[...]
    while trimmed.count > 1, trimmed.last == "/" { trimmed.removeLast() }
    guard let slash = trimmed.lastIndex(of: "/") else { return (".", String(trimmed)) }
    let directory = slash == trimmed.startIndex ? "/" : String(trimmed[..<slash])
    return (directory, String(trimmed[trimmed.index(after: slash)...]))
  }

  // MARK: Reading

  /// Opens a file for reading: a regular one that the owner of its directory could have put there.
  static func open(file path: String) -> Result<(number: Int32, mode: UInt32), SystemError> {
    var (directory, name) = parent(of: path)
    var walk = Walk(directory, making: nil)
    while true {
      let holder: OpenDirectory
      switch walk.directory() {
      case .success(let reached): holder = reached
      case .failure(let error): return .failure(error)
      }
      // A pipe without a writer must not block.
      let number = openat(holder.number, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
      if number >= 0 { return judge(number, in: holder) }
      guard errno == ELOOP else { return .failure(SystemError(errno)) }
      guard let target = walk.follow(name, in: holder) else { return .failure(SystemError(errno)) }
      (directory, name) = parent(of: target)
      walk.enter(directory, from: holder)
    }
  }

  private static func judge(
    _ number: Int32, in holder: borrowing OpenDirectory
  ) -> Result<(number: Int32, mode: UInt32), SystemError> {
    var status = stat()
    func refuse(_ error: SystemError) -> Result<(number: Int32, mode: UInt32), SystemError> {
      Glibc.close(number)
      return .failure(error)
    }
    guard fstat(number, &status) == 0 else { return refuse(SystemError(errno)) }
    guard status.st_mode & S_IFMT == S_IFREG else {
      return refuse(status.st_mode & S_IFMT == S_IFDIR ? SystemError(EISDIR) : .notRegular)
    }
    let isPlausible = holder.isOurs || status.st_uid == holder.owner || (isOurs(status.st_uid) && status.st_nlink == 1)
    return isPlausible ? .success((number, status.st_mode & 0o7777)) : refuse(SystemError(EPERM))
  }

  // MARK: The walk

  /// A path being walked.
  private struct Walk {
    /// The rest of it, the next component last.
    private var pending: [String]
    private var start: Start
    private var links = 0
    private let mode: UInt32?

    private enum Start {
      case root, current
      /// The descriptor belongs to the walk.
      case at(Int32)
    }

    /// O_PATH (fcntl(2)), the same on all machines that Swift supports: glibc's headers define it only for C.
    private static let pathOnly: Int32 = 0o10_000_000

    init(_ path: String, making mode: UInt32?) {
      pending = Self.components(path)
      start = path.hasPrefix("/") ? .root : .current
      self.mode = mode
    }

    private static func components(_ path: String) -> [String] {
      path.split(separator: "/").filter { $0 != "." }.reversed().map(String.init)
    }

    /// Continues with another path, relative to `holder` unless it begins at the root.
    mutating func enter(_ path: String, from holder: borrowing OpenDirectory) {
      pending = Self.components(path)
      start = path.hasPrefix("/") ? .root : .at(fcntl(holder.number, F_DUPFD_CLOEXEC, 0))
    }

    /// The target of the link; nil, with errno, if it is not followed.
    mutating func follow(_ name: String, in holder: borrowing OpenDirectory) -> String? {
      let number = openat(holder.number, name, Self.pathOnly | O_NOFOLLOW | O_CLOEXEC)
      guard number >= 0 else { return nil }
      defer { Glibc.close(number) }
      return follow(link: number, in: holder)
    }

    private mutating func follow(link number: Int32, in holder: borrowing OpenDirectory) -> String? {
      var status = stat()
      guard fstat(number, &status) == 0 else { return nil }
      links += 1
      guard links <= GuardedPath.mostLinks, holder.isOurs, GuardedPath.isOurs(status.st_uid) else {
        errno = ELOOP
        return nil
      }
      var bytes = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
      let count = readlinkat(number, "", &bytes, Int(PATH_MAX))
      guard count > 0 else { return nil }
      return String(decoding: bytes[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    mutating func directory() -> Result<OpenDirectory, SystemError> {
      let flags = Self.pathOnly | O_DIRECTORY | O_CLOEXEC
      var current: Int32
      switch start {
      case .root: current = Glibc.open("/", flags)
      case .current: current = Glibc.open(".", flags)
      case .at(let number): current = number
      }
      while true {
        let here: OpenDirectory
        switch Self.held(current) {
        case .success(let opened): here = opened
        case .failure(let error): return .failure(error)
        }
        guard let name = pending.popLast() else { return Self.readable(here) }
        var next = openat(here.number, name, Self.pathOnly | O_NOFOLLOW | O_CLOEXEC)
        if next < 0, errno == ENOENT, let mode { next = Self.make(name, in: here, mode: mode) }
        guard next >= 0 else { return .failure(SystemError(errno)) }
        var status = stat()
        guard fstat(next, &status) == 0, status.st_mode & S_IFMT == S_IFLNK else {
          current = next
          continue
        }
        let target = follow(link: next, in: here)
        let error = errno
        Glibc.close(next)
        guard let target else { return .failure(SystemError(error)) }
        pending += Self.components(target)
        current = target.hasPrefix("/") ? Glibc.open("/", flags) : fcntl(here.number, F_DUPFD_CLOEXEC, 0)
      }
    }

    /// Takes over a directory's descriptor.
    private static func held(_ number: Int32) -> Result<OpenDirectory, SystemError> {
      var status = stat()
      guard number >= 0 else { return .failure(SystemError(errno)) }
      guard fstat(number, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
        Glibc.close(number)
        return .failure(SystemError(ENOTDIR))
      }
      return .success(OpenDirectory(number: number, status))
    }

    /// The same directory, with a descriptor that can be synchronized.
    private static func readable(_ directory: borrowing OpenDirectory) -> Result<OpenDirectory, SystemError> {
      held(openat(directory.number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC))
    }

    /// Creates a directory and opens it. Its owner is changed only if it is certainly the new one: it is empty, and not
    /// on another file system.
    private static func make(_ name: String, in holder: borrowing OpenDirectory, mode: UInt32) -> Int32 {
      guard mkdirat(holder.number, name, mode) == 0 || errno == EEXIST else { return -1 }
      let number = openat(holder.number, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
      guard number >= 0 else { return -1 }
      var status = stat()
      var above = stat()
      guard fstat(number, &status) == 0, fstat(holder.number, &above) == 0 else { return fail(number) }
      guard status.st_uid == geteuid(), status.st_dev == above.st_dev, isEmpty(number) else { return number }
      if geteuid() == 0, fchown(number, holder.owner, holder.group) != 0 { return fail(number) }
      return number
    }

    private static func fail(_ number: Int32) -> Int32 {
      let error = errno
      Glibc.close(number)
      errno = error
      return -1
    }

    private static func isEmpty(_ number: Int32) -> Bool {
      let copy = openat(number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      guard copy >= 0, let stream = fdopendir(copy) else { return false }
      defer { closedir(stream) }
      var count = 0
      while readdir(stream) != nil { count += 1 }
      // "." and "..", so it is empty.
      return count == 2
    }
  }
}

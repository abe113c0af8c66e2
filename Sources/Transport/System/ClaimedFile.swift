// A file that one process writes: while it is claimed, no other process can claim it. Every call may wait for the disk.
// Tests: ClaimedFileTests.

import Glibc

public enum ClaimFault: Error, Sendable, Equatable, CustomStringConvertible {
  /// Another process has claimed it.
  case held
  /// It is a directory, a pipe or a link.
  case notRegular
  /// Another user may have prepared it, and may read what is written to it.
  case foreign
  case system(SystemError)

  public var description: String {
    switch self {
    case .held: "another process has it open"
    case .notRegular: "it is no regular file"
    case .foreign: "it belongs to another user"
    case .system(let error): error.number == ELOOP ? "it is a symbolic link" : "\(error)"
    }
  }
}

/// The file stays open: closing it would drop the locks that SQLite has on it (fcntl(2), "Record locking"). So it has
/// to outlive the database that is opened by its path.
public final class ClaimedFile {
  private let number: Int32

  /// Claims the file at `path`, or creates it with these permission bits, whatever the umask.
  public init(path: String, mode: UInt32) throws(ClaimFault) {
    let number = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode_t(0o600))
    guard number >= 0 else {
      throw errno == EISDIR ? .notRegular : .system(SystemError(errno))
    }
    var status = stat()
    guard fstat(number, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      Glibc.close(number)
      throw .notRegular
    }
    guard FileOwner.isPlausible(status, at: path) else {
      Glibc.close(number)
      throw .foreign
    }
    guard flock(number, LOCK_EX | LOCK_NB) == 0 else {
      let error = errno
      Glibc.close(number)
      throw error == EWOULDBLOCK ? .held : .system(SystemError(error))
    }
    if status.st_size == 0 { _ = fchmod(number, mode_t(mode)) }
    self.number = number
  }

  deinit { Glibc.close(number) }
}

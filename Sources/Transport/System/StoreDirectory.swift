// A directory where one process keeps its own files. It is locked while it is open, and files that others put there are
// not touched. Its files are for this user only. Every call may wait for the disk. Tests: StoreDirectoryTests.

import CLinux
import Glibc

public enum StoreDirectoryFault: Error, Sendable, Equatable {
  /// Another process has it.
  case held
  /// It, or a file in it, belongs to another user, or others may write there.
  case foreign(String)
  case system(SystemError)
}

public final class StoreDirectory: Sendable {
  public let path: String
  private let lockName: String
  private let lock: Int32

  /// `lockName`: the lock file. The directory is created if only its last component is missing.
  public init(path: String, lockName: String) throws(StoreDirectoryFault) {
    self.path = path
    self.lockName = lockName
    if mkdir(path, 0o700) != 0, errno != EEXIST { throw .system(SystemError(errno)) }
    var status = stat()
    guard stat(path, &status) == 0 else { throw .system(SystemError(errno)) }
    if !Self.isOurs(status) { throw .foreign(path) }
    let number = Glibc.open("\(path)/\(lockName)", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard number >= 0 else { throw .system(SystemError(errno)) }
    guard flock(number, LOCK_EX | LOCK_NB) == 0 else {
      let fault = errno
      Glibc.close(number)
      throw fault == EWOULDBLOCK ? .held : .system(SystemError(fault))
    }
    lock = number
  }

  deinit { Glibc.close(lock) }

  public func createDirectory(_ name: String) -> SystemError? {
    mkdir("\(path)/\(name)", 0o700) == 0 || errno == EEXIST ? nil : SystemError(errno)
  }

  /// A new file, open for reading and writing; an error if the name exists.
  public func create(_ name: String) -> Result<Descriptor, SystemError> {
    opened(Glibc.open("\(path)/\(name)", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600))
  }

  /// The same, but an existing file is opened with its contents.
  public func touch(_ name: String) -> Result<Descriptor, SystemError> {
    opened(Glibc.open("\(path)/\(name)", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600))
  }

  public func open(_ name: String) -> Result<Descriptor, SystemError> {
    let number = Glibc.open("\(path)/\(name)", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    var status = stat()
    // A file that another user put there is not ours.
    if number >= 0, fstat(number, &status) != 0 || status.st_uid != geteuid() {
      Glibc.close(number)
      return .failure(SystemError(EPERM))
    }
    return opened(number)
  }

  /// Whether a file belongs to this user, or does not exist.
  public func isOurs(_ name: String) -> Bool {
    var status = stat()
    guard lstat("\(path)/\(name)", &status) == 0 else { return errno == ENOENT }
    return Self.isOurs(status)
  }

  /// If others may create files there but not remove existing ones (the sticky bit), each file is checked by itself.
  private static func isOurs(_ status: stat) -> Bool {
    status.st_uid == geteuid() && (status.st_mode & 0o022 == 0 || status.st_mode & S_ISVTX != 0)
  }

  /// Whether it is still where it was opened.
  public var isThere: Bool {
    var (named, opened) = (stat(), stat())
    guard stat("\(path)/\(lockName)", &named) == 0, fstat(lock, &opened) == 0 else { return false }
    return named.st_ino == opened.st_ino && named.st_dev == opened.st_dev
  }

  private func opened(_ number: Int32) -> Result<Descriptor, SystemError> {
    number >= 0 ? .success(Descriptor(number: number)) : .failure(SystemError(errno))
  }

  /// A file that does not exist counts as removed.
  public func remove(_ name: String) { _ = unlink("\(path)/\(name)") }

  /// Names in a directory below it; empty if that cannot be read.
  public func names(in directory: String) -> [String] {
    guard let stream = opendir("\(path)/\(directory)") else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }
}

extension Descriptor {
  /// Empties the file.
  public func truncate() -> SystemError? { ftruncate(number, 0) == 0 ? nil : SystemError(errno) }

  /// The size of a file in bytes; nil if unknown.
  public var fileSize: UInt64? {
    var status = stat()
    return fstat(number, &status) == 0 ? UInt64(max(0, status.st_size)) : nil
  }

  /// Writes all of `bytes` at an offset of a file.
  public func write(_ bytes: [UInt8], at offset: UInt64) -> SystemError? {
    var done = 0
    while done < bytes.count {
      let count = bytes.withUnsafeBytes {
        cl_write_at(number, $0.baseAddress.map { $0 + done }, bytes.count - done, Int(offset) + done)
      }
      if count < 0 { return SystemError(Int32(-count)) }
      if count == 0 { return SystemError(ENOSPC) }
      done += count
    }
    return nil
  }

  /// As many bytes as asked for; nil if there are fewer, or they cannot be read.
  public func read(_ count: Int, at offset: UInt64) -> [UInt8]? {
    // The storage of all empty arrays is one: filling it would be a write that other threads see.
    if count == 0 { return [] }
    var done = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      while done < count {
        let moved = cl_read_at(number, buffer.baseAddress.map { $0 + done }, count - done, Int(offset) + done)
        if moved <= 0 { break }
        done += moved
      }
      initialized = done
    }
    return done == count ? bytes : nil
  }
}

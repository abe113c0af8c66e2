// Which executable holds a socket: the kernel says the number of a socket's inode (sock_diag(7)), and each process shows
// what its descriptors are (proc(5), /proc/PID/fd) and what it executes (/proc/PID/exe), to its own user and to those who
// may trace it (ptrace(2), PTRACE_MODE_READ_FSCREDS). To others it is hidden, and so is the program.
//
// Reading all of /proc takes milliseconds where thousands of processes run, so that the ones that had a socket of this
// user lately are asked first, then the youngest of its processes: who has just been started to fetch something is among
// them. Tests: ProgramsTests.

import Glibc

/// Finds programs. Of one thread.
public struct ProgramFinder {
  /// What one search may cost, in microseconds of the processor: a request waits for it. Of the processor, as a machine that
  /// is busy with other things would have nothing found.
  public static let longestMicroseconds: Int64 = 10_000
  /// The same where a rule asks, and what is not found is refused.
  public static let longestNeededMicroseconds: Int64 = 100_000
  /// Processes of each user that are asked first, and users that they are kept of.
  static let mostRecent = 8
  static let mostUsers = 256
  /// Descriptors between two looks at the clock: a tenth of a millisecond's worth.
  static let descriptorsPerLook = 128

  private var recent: [UInt32: [Int32]] = [:]

  public init() {}

  /// The path of the executable as the kernel has it, with ` (deleted)` behind it where the file is gone, and
  /// ` (another file)` where this process finds another file there, or none: whoever has a view of the file system of his own
  /// (mount_namespaces(7)) puts there what he likes. nil where it is hidden, or no process was found in time. A socket that
  /// several processes hold is that of the first that is found.
  public mutating func program(
    holding inode: UInt32, of userID: UInt32, within microseconds: Int64 = longestMicroseconds
  ) -> String? {
    if inode == 0 { return nil }
    let wanted = Wanted(
      name: Array("socket:[\(inode)]".utf8), until: Self.ownMicroseconds + microseconds)
    let known = recent[userID] ?? []
    for process in known where !wanted.isOverdue && Self.holds(process, wanted) { return remember(process, userID) }
    for process in Self.processes() where !known.contains(process) {
      if wanted.isOverdue { return nil }
      if Self.isOf(userID, process), Self.holds(process, wanted) { return remember(process, userID) }
    }
    return nil
  }

  /// What is searched for, and until when.
  private struct Wanted {
    let name: [UInt8]
    let until: Int64

    var isOverdue: Bool { ProgramFinder.ownMicroseconds > until }
  }

  /// What this thread has had of the processor.
  private static var ownMicroseconds: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
  }

  private mutating func remember(_ process: Int32, _ userID: UInt32) -> String? {
    if recent.count >= Self.mostUsers, recent[userID] == nil { recent = [:] }
    var known = recent[userID, default: []]
    known.removeAll { $0 == process }
    known.insert(process, at: 0)
    recent[userID] = Array(known.prefix(Self.mostRecent))
    let executable = "/proc/\(process)/exe"
    guard let path = Self.link(executable) else { return nil }
    return path.hasSuffix(Self.deleted) || Self.isOneFile(executable, path) ? path : path + Self.other
  }

  /// The kernel's word.
  private static let deleted = " (deleted)"
  private static let other = " (another file)"

  private static func isOneFile(_ one: String, _ other: String) -> Bool {
    var first = stat()
    var second = stat()
    return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_ino == second.st_ino
      && first.st_dev == second.st_dev
  }

  /// The youngest first, as far as their numbers tell.
  private static func processes() -> [Int32] {
    guard let stream = opendir("/proc") else { return [] }
    defer { closedir(stream) }
    var found: [Int32] = []
    while let entry = readdir(stream) {
      if let number = number(entry) { found.append(number) }
    }
    return found.sorted(by: >)
  }

  private static func number(_ entry: UnsafeMutablePointer<dirent>) -> Int32? {
    withUnsafePointer(to: &entry.pointee.d_name) {
      $0.withMemoryRebound(to: CChar.self, capacity: 256) { name in
        guard name[0] >= 0x30, name[0] <= 0x39 else { return nil }
        return Int32(String(cString: name))
      }
    }
  }

  /// Whether a process belongs to the user. One that may not be dumped belongs to root there, and is not found.
  private static func isOf(_ userID: UInt32, _ process: Int32) -> Bool {
    var status = stat()
    return stat("/proc/\(process)", &status) == 0 && status.st_uid == userID
  }

  /// A process may hold hundreds of thousands of descriptors.
  private static func holds(_ process: Int32, _ wanted: Wanted) -> Bool {
    guard let stream = opendir("/proc/\(process)/fd") else { return false }
    defer { closedir(stream) }
    var descriptors: [Int32] = []
    while let entry = readdir(stream) {
      if let number = number(entry) { descriptors.append(number) }
      if descriptors.count.isMultiple(of: descriptorsPerLook), wanted.isOverdue { return false }
    }
    let directory = dirfd(stream)
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { room in
      guard let target = room.baseAddress else { return false }
      // Of a process that has many the highest number is the youngest, more often than not.
      for (index, descriptor) in descriptors.sorted(by: >).enumerated() {
        if index.isMultiple(of: descriptorsPerLook), wanted.isOverdue { return false }
        let count = readlinkat(directory, "\(descriptor)", target, room.count)
        guard count == wanted.name.count else { continue }
        if (0..<count).allSatisfy({ UInt8(bitPattern: room[$0]) == wanted.name[$0] }) { return true }
      }
      return false
    }
  }

  private static func link(_ path: String) -> String? {
    let capacity = Int(PATH_MAX)
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: capacity) { room in
      guard let target = room.baseAddress else { return nil }
      let count = readlink(path, target, capacity)
      guard count > 0 else { return nil }
      return String(decoding: UnsafeRawBufferPointer(start: target, count: count), as: UTF8.self)
    }
  }
}

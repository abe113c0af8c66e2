// Which executable has a socket open. The kernel gives the inode number of a socket (sock_diag(7)). Each process shows
// its descriptors (proc(5), /proc/PID/fd) and its executable (/proc/PID/exe), to its own user and to those who may
// trace it (ptrace(2), PTRACE_MODE_READ_FSCREDS). From others they are hidden, and so is the program.
//
// Reading all of /proc takes milliseconds if thousands of processes run. So the processes that recently had a socket of
// this user are tried first, then the user's youngest processes: one that has just been started to fetch something is
// among them. Tests: ProgramsTests.

import Glibc

/// Finds programs. For one thread.
public struct ProgramFinder {
  /// The most processor time of one search, in microseconds: a request waits for it. Processor time, because on a
  /// machine that is busy with other things nothing would be found otherwise.
  public static let longestMicroseconds: Int64 = 10_000
  /// The same if a rule asks, and a program that is not found means a refusal.
  public static let longestNeededMicroseconds: Int64 = 100_000
  /// How many processes of each user are tried first, and for how many users they are remembered.
  static let mostRecent = 8
  static let mostUsers = 256
  /// How many descriptors are read between two looks at the clock: a tenth of a millisecond's worth.
  static let descriptorsPerLook = 128

  private var recent: [UInt32: [Int32]] = [:]

  public init() {}

  /// The path of the executable as the kernel has it, followed by ` (deleted)` if the file is gone, and by ` (another
  /// file)` if this process finds another file there, or none: a user with his own view of the file system
  /// (mount_namespaces(7)) can put anything there. nil if it is hidden, or no process was found in time. If several
  /// processes have the socket, the first that is found counts.
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

  /// What is searched for, and the time limit.
  private struct Wanted {
    let name: [UInt8]
    let until: Int64

    var isOverdue: Bool { ProgramFinder.ownMicroseconds > until }
  }

  /// The processor time that this thread has used.
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

  /// The kernel's suffix.
  private static let deleted = " (deleted)"
  private static let other = " (another file)"

  private static func isOneFile(_ one: String, _ other: String) -> Bool {
    var first = stat()
    var second = stat()
    return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_ino == second.st_ino
      && first.st_dev == second.st_dev
  }

  /// The youngest first, as far as their numbers show.
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
      // In a process with many descriptors, the highest number is usually the youngest.
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

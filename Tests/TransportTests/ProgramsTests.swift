// Which executable holds a socket, by the real /proc.

import Glibc
import Testing

@testable import Transport

@Suite struct ProgramsTests {
  private static func inode(_ descriptor: Int32) -> UInt32 {
    var status = stat()
    fstat(descriptor, &status)
    return UInt32(truncatingIfNeeded: status.st_ino)
  }

  private static var ownPath: String {
    var room = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink("/proc/self/exe", &room, room.count)
    return String(decoding: room.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  @Test func aSocketOfThisProcessIsFoundAgainAndAgain() {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var finder = ProgramFinder()
    for _ in 0..<3 {
      #expect(finder.program(holding: Self.inode(descriptor), of: geteuid()) == Self.ownPath)
    }
  }

  @Test func whatNobodyHoldsIsNotFound() {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    let inode = Self.inode(descriptor)
    close(descriptor)
    var finder = ProgramFinder()
    #expect(finder.program(holding: inode, of: geteuid()) == nil)
    #expect(finder.program(holding: 0, of: geteuid()) == nil)
  }

  /// Only processes of the user that the kernel named are looked into.
  @Test func anotherUserHasIt() {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var finder = ProgramFinder()
    #expect(finder.program(holding: Self.inode(descriptor), of: geteuid() &+ 4_000_000) == nil)
  }

  /// Neither among the processes that had a socket lately nor among all.
  @Test func nothingIsFoundWhenTheTimeIsOver() {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    let inode = Self.inode(descriptor)
    var finder = ProgramFinder()
    #expect(finder.program(holding: inode, of: geteuid(), within: -1) == nil)
    #expect(finder.program(holding: inode, of: geteuid()) == Self.ownPath)
    #expect(finder.program(holding: inode, of: geteuid(), within: -1) == nil)
  }
}

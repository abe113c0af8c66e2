// One holds a directory, and files in it are read as they were written.

import Glibc
import TestSupport
import Testing

@testable import Transport

@Suite struct StoreDirectoryTests {
  private func temporary() throws -> String {
    var template = Array("/tmp/sallyport-store-XXXXXX".utf8CString)
    return String(cString: try #require(mkdtemp(&template)))
  }

  @Test func oneHoldsIt() throws {
    let path = try temporary()
    defer { remove("\(path)/lock"); rmdir(path) }
    do {
      let first = try StoreDirectory(path: path, lockName: "lock")
      #expect(throws: StoreDirectoryFault.held) { _ = try StoreDirectory(path: path, lockName: "lock") }
      withExtendedLifetime(first) {}
    }
    _ = try StoreDirectory(path: path, lockName: "lock")
    #expect(throws: StoreDirectoryFault.self) { _ = try StoreDirectory(path: "/nowhere/at/all", lockName: "lock") }
  }

  @Test func filesAreReadAsTheyWereWritten() throws {
    let path = try temporary()
    defer { remove("\(path)/lock"); rmdir(path) }
    let directory = try StoreDirectory(path: path, lockName: "lock")
    let file = try directory.create("a").get()
    #expect(file.write([1, 2, 3, 4], at: 2) == nil && file.fileSize == 6)
    #expect(file.read(4, at: 2) == [1, 2, 3, 4] && file.read(5, at: 2) == nil)
    file.close()
    #expect(directory.names(in: ".").sorted() == ["a", "lock"])
    directory.remove("a")
    #expect(directory.names(in: ".") == ["lock"])
    guard case .failure = directory.open("a") else {
      Issue.record("a file that was removed is there")
      return
    }
  }
}

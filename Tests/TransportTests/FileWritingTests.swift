// Files that are written whole or not at all, with the permissions that were asked for.

import Glibc
import Testing
import Transport

@Suite struct FileWritingTests {
  /// A directory for one test, gone with it.
  final class Scratch {
    let path: String

    init() throws {
      var template = Array("/tmp/sallyport-files-XXXXXX".utf8CString)
      path = try #require(mkdtemp(&template).map { String(cString: $0) })
    }

    deinit {
      for name in names { unlink("\(path)/\(name)") }
      rmdir(path)
    }

    var names: [String] {
      let visible = (try? Files.expand("\(path)/*").get()) ?? []
      let hidden = (try? Files.expand("\(path)/.[!.]*").get()) ?? []
      return (visible + hidden).map { String($0.dropFirst(path.count + 1)) }
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }
    func text(_ name: String) -> String? {
      (try? Files.read(file(name), limit: 1 << 20).get()).map { String(decoding: $0, as: UTF8.self) }
    }
  }

  static func error(_ result: Result<Void, SystemError>) -> SystemError? {
    switch result {
    case .success: nil
    case .failure(let error): error
    }
  }

  static let first = Array("first".utf8)
  static let second = Array("second".utf8)

  @Test(arguments: [0o600, 0o644, 0o640, 0o400] as [UInt32])
  func aNewFileHasItsModeWhateverTheMask(_ mode: UInt32) throws {
    let scratch = try Scratch()
    #expect(Self.error(Files.create(scratch.file("a"), Self.first, mode: mode)) == nil)
    #expect(Files.mode(scratch.file("a")) == mode)
    #expect(scratch.text("a") == "first")
    #expect(scratch.names == ["a"])
  }

  @Test func aFileThatIsThereStays() throws {
    let scratch = try Scratch()
    _ = Files.create(scratch.file("a"), Self.first, mode: 0o600)
    let error = try #require(Self.error(Files.create(scratch.file("a"), Self.second, mode: 0o644)))
    #expect(error.isPresence && !error.isAbsence)
    #expect(scratch.text("a") == "first")
    #expect(Files.mode(scratch.file("a")) == 0o600)
    #expect(scratch.names == ["a"])
  }

  @Test func aLinkThatLeadsNowhereIsAFileThatIsThere() throws {
    let scratch = try Scratch()
    symlink(scratch.file("elsewhere"), scratch.file("a"))
    #expect(Self.error(Files.create(scratch.file("a"), Self.first, mode: 0o600))?.isPresence == true)
    #expect(scratch.text("elsewhere") == nil)
  }

  @Test func replacingTakesTheNameAndNotTheFileBehindALink() throws {
    let scratch = try Scratch()
    _ = Files.create(scratch.file("target"), Self.first, mode: 0o600)
    symlink(scratch.file("target"), scratch.file("a"))
    #expect(Self.error(Files.replace(scratch.file("a"), Self.second, mode: 0o644)) == nil)
    #expect(scratch.text("a") == "second")
    #expect(scratch.text("target") == "first")
    #expect(Files.mode(scratch.file("a")) == 0o644)
  }

  @Test func aReaderOfTheOldFileKeepsIt() throws {
    let scratch = try Scratch()
    _ = Files.create(scratch.file("a"), Self.first, mode: 0o600)
    let reader = open(scratch.file("a"), O_RDONLY)
    defer { close(reader) }
    _ = Files.replace(scratch.file("a"), Self.second, mode: 0o600)
    var bytes = [UInt8](repeating: 0, count: 16)
    #expect(read(reader, &bytes, 16) == 5)
  }

  @Test func aDirectoryInThePlaceOfAFileIsNoFile() throws {
    let scratch = try Scratch()
    #expect(Self.error(Files.createDirectory(scratch.file("a"), mode: 0o755)) == nil)
    defer { rmdir(scratch.file("a")) }
    #expect(Self.error(Files.replace(scratch.file("a"), Self.first, mode: 0o600)) != nil)
    #expect(Self.error(Files.create(scratch.file("a"), Self.first, mode: 0o600))?.isPresence == true)
    #expect(scratch.names == ["a"])
  }

  @Test func whereThereIsNoDirectoryNothingIsWritten() throws {
    let scratch = try Scratch()
    #expect(Self.error(Files.create(scratch.file("none/a"), Self.first, mode: 0o600))?.isAbsence == true)
    #expect(Self.error(Files.replace(scratch.file("none/a"), Self.first, mode: 0o600))?.isAbsence == true)
  }

  @Test func aSecondNameIsOneFileUntilOneIsReplaced() throws {
    let scratch = try Scratch()
    _ = Files.create(scratch.file("a"), Self.first, mode: 0o600)
    _ = Files.create(scratch.file("b"), Self.second, mode: 0o600)
    for _ in 0..<2 { #expect(Self.error(Files.copyName(scratch.file("a"), to: scratch.file("b"))) == nil) }
    #expect(scratch.text("b") == "first")
    _ = Files.replace(scratch.file("a"), Self.second, mode: 0o600)
    #expect(scratch.text("b") == "first")
    #expect(scratch.names.sorted() == ["a", "b"])
  }

  @Test func whatIsNotThereHasNoSecondName() throws {
    let scratch = try Scratch()
    _ = Files.create(scratch.file("b"), Self.second, mode: 0o600)
    #expect(Self.error(Files.copyName(scratch.file("a"), to: scratch.file("b")))?.isAbsence == true)
    #expect(Self.error(Files.move(scratch.file("a"), to: scratch.file("b")))?.isAbsence == true)
    #expect(Self.error(Files.remove(scratch.file("a")))?.isAbsence == true)
    #expect(scratch.text("b") == "second")
  }

  @Test func movingReplaces() throws {
    let scratch = try Scratch()
    _ = Files.create(scratch.file("a"), Self.first, mode: 0o600)
    _ = Files.create(scratch.file("b"), Self.second, mode: 0o600)
    #expect(Self.error(Files.move(scratch.file("a"), to: scratch.file("b"))) == nil)
    #expect(scratch.names == ["b"])
    #expect(scratch.text("b") == "first")
    #expect(Self.error(Files.remove(scratch.file("b"))) == nil)
    #expect(scratch.names == [])
  }

  @Test func directoriesAreMadeWithThoseAboveThem() throws {
    let scratch = try Scratch()
    let deep = scratch.file("a/b/c")
    #expect(Self.error(Files.createDirectory(deep + "/", mode: 0o755)) == nil)
    #expect(Self.error(Files.createDirectory(deep, mode: 0o700)) == nil)
    #expect(Files.exists(deep))
    #expect(Files.mode(deep).map { $0 & 0o700 } == 0o700)
    for path in ["a/b/c", "a/b", "a"] { rmdir(scratch.file(path)) }
    _ = Files.create(scratch.file("f"), Self.first, mode: 0o600)
    #expect(Self.error(Files.createDirectory(scratch.file("f/below"), mode: 0o755)) != nil)
  }

  @Test func bytesLeaveWhole() throws {
    var ends: [Int32] = [0, 0]
    try #require(pipe(&ends) == 0)
    Files.write([0x00, 0xff, 0x0a], to: ends[1])
    close(ends[1])
    defer { close(ends[0]) }
    var bytes = [UInt8](repeating: 1, count: 8)
    #expect(read(ends[0], &bytes, 8) == 3)
    #expect(bytes.prefix(3) == [0x00, 0xff, 0x0a])
  }
}

// Clocks, signals, threads, files and addresses: the small doors to the system.

import Glibc
import TestSupport
import Testing

@testable import Transport

@Suite struct ClockTests {
  @Test func theMonotonicClockNeverGoesBack() {
    var before = Clock.monotonic
    for _ in 0..<10_000 {
      let now = Clock.monotonic
      #expect(now >= before)
      before = now
    }
  }

  @Test func theWallClockTellsTheTimeOfDay() {
    // Later than when this was written, and in milliseconds.
    #expect(Clock.wall > 1_700_000_000_000)
    #expect(Clock.wall < 10_000_000_000_000)
    let difference = Clock.wall - Int64(time(nil)) * 1000
    #expect(difference > -2_000 && difference < 2_000)
  }

  @Test func theProcessKnowsItsMachine() {
    #expect(Transport.Process.processors >= 1)
    #expect(Transport.Process.raiseDescriptorLimit() >= 256)
    #expect(Set((0..<100).map { _ in Transport.Process.random }).count == 100)
  }

  @Test func whatWasUsedOnceIsGivenBack() {
    let before = Transport.Process.residentBytes
    Transport.Process.releaseUnused()
    #expect(Transport.Process.residentBytes < before - (1 << 20), "of \(before) bytes")
    #expect(Set((0..<100).map { _ in Transport.Process.random }).count == 100, "and what is needed comes back")
  }
}

@Suite struct SignalsTests {
  /// In a thread of its own, for the mask is the thread's.
  @Test func signalsAreRead() throws {
    let seen = Mailbox<[Signals.Signal?]>()
    startThread(named: "signals") {
      let signals = Signals()
      var list = [signals.next()]
      for number in [SIGHUP, SIGTERM, SIGINT] {
        pthread_kill(pthread_self(), number)
        _ = ready(signals.descriptor, .read)
        list.append(signals.next())
      }
      list.append(signals.next())
      signals.descriptor.close()
      seen.post(list)
    }
    _ = try #require(ready(seen.descriptor, .read))
    #expect(seen.takeAll() == [[nil, .hangUp, .terminate, .terminate, nil]])
  }
}

@Suite struct ThreadTests {
  @Test(arguments: [("short", "short"), ("a-name-that-is-too-long", "a-name-that-is-")])
  func aThreadRunsUnderItsName(name: String, shownAs: String) throws {
    let told = Mailbox<String>()
    startThread(named: name) {
      // The name is given by whoever starts the thread, which may be a moment after it has begun.
      let begun = Clock.monotonic
      var seen = ""
      while seen != shownAs, Clock.monotonic - begun < Int64(patienceMilliseconds) {
        let bytes = try? Files.read("/proc/thread-self/comm", limit: 100).get()
        seen = String(decoding: (bytes ?? []).prefix { $0 != 0x0a }, as: UTF8.self)
        sched_yield()
      }
      told.post(seen)
    }
    _ = try #require(ready(told.descriptor, .read))
    #expect(told.takeAll() == [shownAs])
  }
}

@Suite struct FilesTests {
  /// A directory that is gone with the test.
  private final class Directory {
    let path: String

    init() throws {
      var template = Array("/tmp/sallyport-files-XXXXXX".utf8CString)
      path = try #require(
        template.withUnsafeMutableBufferPointer { buffer in
          buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        })
    }

    func write(_ name: String, _ text: String, mode: mode_t = 0o600) throws {
      let file = try #require(fopen("\(path)/\(name)", "w"))
      fputs(text, file)
      fclose(file)
      chmod("\(path)/\(name)", mode)
    }

    deinit {
      if case .success(let paths) = Files.expand(path + "/*") { for file in paths { unlink(file) } }
      rmdir(path)
    }
  }

  @Test func aFileIsReadWhole() throws {
    let directory = try Directory()
    for count in [0, 1, 65_535, 65_536, 65_537, 200_000] {
      let text = String(repeating: "x", count: count)
      try directory.write("a", text)
      #expect(try Files.read(directory.path + "/a", limit: 200_000).get() == Array(text.utf8))
    }
  }

  @Test func aFileOfExactlyTheLimitIsReadAndALargerOneIsNot() throws {
    let directory = try Directory()
    try directory.write("a", "12345")
    #expect(try Files.read(directory.path + "/a", limit: 5).get() == Array("12345".utf8))
    #expect(Files.read(directory.path + "/a", limit: 4) == .failure(SystemError(EFBIG)))
  }

  @Test func whatCannotBeReadSaysWhy() throws {
    let directory = try Directory()
    #expect(Files.read(directory.path + "/none", limit: 5) == .failure(SystemError(ENOENT)))
    #expect(Files.read(directory.path, limit: 5) == .failure(SystemError(EISDIR)))
  }

  @Test func aPatternIsExpandedInLexicalOrder() throws {
    let directory = try Directory()
    for name in ["b.toml", "a.toml", "B.toml", "10.toml", "9.toml", "c.txt", ".d.toml"] {
      try directory.write(name, "")
    }
    let paths = try Files.expand(directory.path + "/*.toml").get()
    #expect(paths == ["10.toml", "9.toml", "B.toml", "a.toml", "b.toml"].map { "\(directory.path)/\($0)" })
    #expect(try Files.expand(directory.path + "/*.json").get() == [])
    #expect(try Files.expand(directory.path + "/c.txt").get() == [directory.path + "/c.txt"])
  }

  @Test func theModeOfAFileIsRead() throws {
    let directory = try Directory()
    try directory.write("a", "", mode: 0o640)
    #expect(Files.mode(directory.path + "/a") == 0o640)
    #expect(Files.mode(directory.path + "/none") == nil)
    #expect(Files.exists(directory.path + "/a"))
    #expect(!Files.exists(directory.path + "/none"))
  }

  @Test func theEnvironmentIsRead() {
    setenv("SALLYPORT_TEST_VARIABLE", "value ü", 1)
    #expect(Files.environment("SALLYPORT_TEST_VARIABLE") == "value ü")
    #expect(Files.environment("SALLYPORT_TEST_NO_SUCH_VARIABLE") == nil)
  }

  @Test func textIsWrittenWhole() throws {
    let pipe = try #require(Pipe.open())
    defer { pipe.close() }
    Files.write("a line\n", to: pipe.writeEnd.number)
    #expect(try pipe.readEnd.readOnce().bytes == octets("a line\n"))
    #expect(!Files.isTerminal(pipe.readEnd.number))
  }
}

@Suite struct SocketAddressTests {
  @Test func anAddressSurvivesTheSystem() {
    for address in [
      SocketAddress(high: 0, low: 0x7f00_0001, port: 80, isIPv4: true),
      SocketAddress(high: 0x2001_0db8_0102_0304, low: 0x0506_0708_090a_0b0c, port: 65535, isIPv4: false),
    ] {
      #expect(SocketAddress(address.raw) == address)
    }
  }

  @Test func addressesThatDifferAreNotEqual() {
    let base = SocketAddress(high: 0, low: 1, port: 2, isIPv4: false)
    for other in [
      SocketAddress(high: 1, low: 1, port: 2, isIPv4: false),
      SocketAddress(high: 0, low: 2, port: 2, isIPv4: false),
      SocketAddress(high: 0, low: 1, port: 3, isIPv4: false),
      SocketAddress(high: 0, low: 1, port: 2, isIPv4: true),
    ] {
      #expect(base != other)
    }
  }
}

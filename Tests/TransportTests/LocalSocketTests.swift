// Sockets of the file system: their mode, their name, and what a killed process leaves behind.

import Bytes
import Glibc
import Testing

@testable import Transport

@Suite struct LocalSocketTests {
  private func path() -> String { "/tmp/sallyport-test-\(getpid())-\(Process.random).sock" }

  @Test func bytesGoThrough() throws {
    let path = path()
    let listener = try LocalListener.open(path, mode: 0o600).get()
    defer { LocalListener.remove(path) }
    let client = try LocalConnection.open(path).get()
    let server = try listener.descriptor.accept().get()
    #expect(client.send("hello"))
    var buffer = ByteBuffer()
    buffer.reserve(16)
    #expect(server.read(into: &buffer) == .moved(5))
    #expect(server.write(buffer) == .moved(5))
    server.close()
    var answer = ByteBuffer()
    let came = client.receive(into: &answer)
    let ended = !client.receive(into: &answer)
    #expect(came && ended && answer.count == 5)
    client.close()
  }

  @Test func theModeIsTheOneThatWasAskedFor() throws {
    let path = path()
    _ = try LocalListener.open(path, mode: 0o660).get()
    defer { LocalListener.remove(path) }
    #expect((Files.mode(path) ?? 0) & 0o777 == 0o660)
  }

  /// A umask would be that of all threads: a directory of the store could be one that nobody may enter.
  @Test func whatOtherThreadsMakeMeanwhileHasItsOwnMode() async throws {
    let socket = path()
    let listening = Task.detached {
      while !Task.isCancelled {
        guard case .success(let listener) = LocalListener.open(socket, mode: 0o600) else { continue }
        LocalListener.remove(socket)
        listener.descriptor.close()
      }
    }
    for number in 0..<5_000 {
      let directory = "\(socket).\(number)"
      defer { rmdir(directory) }
      _ = try Files.createDirectory(directory, mode: 0o700).get()
      let mode = Files.mode(directory)
      if mode.map({ $0 & 0o700 }) != 0o700 { Issue.record("directory \(number): \(String(describing: mode))") }
    }
    listening.cancel()
    await listening.value
  }

  @Test func aNameThatNobodyAnswersToMakesWay() throws {
    let path = path()
    let first = try LocalListener.open(path, mode: 0o600).get()
    defer { LocalListener.remove(path) }
    guard case .failure = LocalListener.open(path, mode: 0o600) else {
      Issue.record("two listen under one name")
      return
    }
    // As after a kill: the name stays.
    first.descriptor.close()
    let second = try LocalListener.open(path, mode: 0o600).get()
    let client = try LocalConnection.open(path).get()
    #expect(throws: Never.self) { try second.descriptor.accept().get() }
    client.close()
  }

  @Test func aFileUnderTheNameStays() throws {
    let path = path()
    let file = try #require(fopen(path, "w"))
    fclose(file)
    guard case .failure = LocalListener.open(path, mode: 0o600) else {
      Issue.record("a file was taken for a socket")
      return
    }
    #expect(Files.exists(path))
    LocalListener.remove(path)
    #expect(Files.exists(path))
    unlink(path)
  }

  @Test func whatIsNotThereIsAnError() {
    guard case .failure(let error) = LocalConnection.open(path()) else {
      Issue.record("nobody listens there")
      return
    }
    #expect(error.description.contains("No such file"))
    guard case .failure = LocalListener.open("\(path()).d/x.sock", mode: 0o600) else {
      Issue.record("the directory is not there")
      return
    }
  }
}

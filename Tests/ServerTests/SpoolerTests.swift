// The files of bodies: what was written is read again, nothing has a name, and what cannot be is said.

import Synchronization
import Testing
import Transport

@testable import Server

@Suite struct SpoolerTests {
  /// Does one step and waits for its end.
  private static func run(_ step: Spooler.Step, _ file: SpoolFile, _ spooler: Spooler) -> Spooler.Outcome {
    let replies = Mailbox<Spooler.Outcome>()
    spooler.post(step, of: file) { replies.post($0) }
    _ = Poll.readable(replies.descriptor, milliseconds: -1)
    return replies.takeAll().first ?? .failed("no reply")
  }

  private static func text(_ outcome: Spooler.Outcome) -> String {
    switch outcome {
    case .written: "written"
    case .read(let bytes): String(decoding: bytes, as: UTF8.self)
    case .failed(let reason): "failed: \(reason)"
    }
  }

  @Test func whatIsWrittenIsReadAgain() {
    let (spooler, file, other) = (Spooler(directory: "/var/tmp"), SpoolFile(), SpoolFile())
    #expect(Self.text(Self.run(.write(Array("hello ".utf8), at: 0), file, spooler)) == "written")
    #expect(Self.text(Self.run(.write(Array("other".utf8), at: 0), other, spooler)) == "written")
    #expect(Self.text(Self.run(.write(Array("world".utf8), at: 6), file, spooler)) == "written")
    #expect(Self.text(Self.run(.read(count: 7, at: 3), file, spooler)) == "lo worl")
    #expect(
      Self.text(Self.run(.read(count: 6, at: 0), other, spooler))
        == "failed: the file is shorter than what was written to it")
    spooler.close(file)
    #expect(Self.text(Self.run(.read(count: 1, at: 0), file, spooler)).hasPrefix("failed: "))
    spooler.close(other)
  }

  @Test func aDirectoryThatIsNotThereIsSaid() {
    let outcome = Self.run(.write([1], at: 0), SpoolFile(), Spooler(directory: "/nonexistent/x"))
    #expect(Self.text(outcome) == "failed: No such file or directory")
  }

  @Test func aPathThatIsNoDirectoryIsSaid() {
    let outcome = Self.run(.write([1], at: 0), SpoolFile(), Spooler(directory: "/dev/full"))
    #expect(Self.text(outcome) == "failed: Not a directory")
  }
}

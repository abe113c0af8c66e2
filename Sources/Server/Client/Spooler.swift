// Files in which bodies wait until they are whole, written and read by a thread that may wait for the disk, so that no loop
// does. They have no names: whatever becomes of the daemon, nothing is left of them.
//
// A loop posts one step of a file at a time and hears of it by its mailbox; until then it reads no more of the client. The
// thread starts with the first step. Tests: SpoolerTests, Tests/EndToEndTests/test_buffer_uploads.py.

import Bytes
import CLinux
import Transport

/// One file. It is there from its first write on, and is closed by `Spooler.close`.
final class SpoolFile: Sendable {
  fileprivate enum State: Sendable { case none, open(Int32), closed }

  fileprivate let state = Locked(State.none)
}

final class Spooler: Sendable {
  enum Step: Sendable {
    case write([UInt8], at: UInt64)
    case read(count: Int, at: UInt64)
  }

  enum Outcome: Sendable {
    case written
    /// As many as were asked for.
    case read([UInt8])
    /// What the kernel says, for people.
    case failed(String)
  }

  private enum Job: Sendable {
    case step(SpoolFile, Step, @Sendable (Outcome) -> Void)
    case close(SpoolFile)
  }

  /// Where the files are.
  let directory: String
  private let jobs = Mailbox<Job>()
  private let hasThread = Locked(false)

  init(directory: String) { self.directory = directory }

  /// Where the service manager gives a directory for what can be lost, there; else where the environment, or the system, has
  /// temporary files that are on a disk: /tmp is often memory, which a body would fill.
  static var usualDirectory: String {
    let given = Files.environment("CACHE_DIRECTORY")?.split(separator: ":").first.map { String($0) }
    return given ?? Files.environment("TMPDIR").flatMap { $0.isEmpty ? nil : $0 } ?? "/var/tmp"
  }

  /// Does a step of a file. `reply` is called by the thread; steps of one file are done in their order.
  func post(_ step: Step, of file: SpoolFile, reply: @escaping @Sendable (Outcome) -> Void) {
    hasThread.withLock { hasThread in
      if hasThread { return }
      hasThread = true
      startThread(named: "spool") { [self] in
        while true { workOnce() }
      }
    }
    jobs.post(.step(file, step, reply))
  }

  /// Closes a file, and with it frees what it takes, which is work as well. No step may follow.
  func close(_ file: SpoolFile) { jobs.post(.close(file)) }

  @inline(never)
  private func workOnce() {
    _ = Poll.readable(jobs.descriptor, milliseconds: -1)
    for job in jobs.takeAll() {
      switch job {
      case .step(let file, let step, let reply): reply(work(step, file))
      case .close(let file):
        file.state.withLock { state in
          if case .open(let number) = state { Descriptor(number: number).close() }
          state = .closed
        }
      }
    }
  }

  private func work(_ step: Step, _ file: SpoolFile) -> Outcome {
    let number: Int32
    switch opened(file) {
    case .success(let open): number = open
    case .failure(let fault): return .failed(fault.reason)
    }
    switch step {
    case .write(let bytes, let offset): return write(bytes, number, offset)
    case .read(let count, let offset): return read(count, number, offset)
    }
  }

  private struct Unavailable: Error {
    let reason: String
  }

  private func opened(_ file: SpoolFile) -> Result<Int32, Unavailable> {
    file.state.withLock { state in
      switch state {
      case .open(let number): return .success(number)
      case .closed: return .failure(Unavailable(reason: "the file is closed"))
      case .none:
        let number = cl_nameless_file(directory)
        if number < 0 { return .failure(Unavailable(reason: "\(SystemError(-number))")) }
        state = .open(number)
        return .success(number)
      }
    }
  }

  private func write(_ bytes: [UInt8], _ number: Int32, _ offset: UInt64) -> Outcome {
    var done = 0
    while done < bytes.count {
      let count = bytes.withUnsafeBytes {
        cl_write_at(number, $0.baseAddress.map { $0 + done }, bytes.count - done, Int(offset) + done)
      }
      if count < 0 { return .failed("\(SystemError(Int32(-count)))") }
      if count == 0 { return .failed("the file takes no more") }
      done += count
    }
    return .written
  }

  private func read(_ count: Int, _ number: Int32, _ offset: UInt64) -> Outcome {
    var bytes = [UInt8](repeating: 0, count: count)
    var done = 0
    while done < count {
      let moved = bytes.withUnsafeMutableBytes {
        cl_read_at(number, $0.baseAddress.map { $0 + done }, count - done, Int(offset) + done)
      }
      if moved < 0 { return .failed("\(SystemError(Int32(-moved)))") }
      if moved == 0 { return .failed("the file is shorter than what was written to it") }
      done += moved
    }
    return .read(bytes)
  }
}

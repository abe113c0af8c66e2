// Files where bodies wait until they are whole. A thread that may wait for the disk writes and reads them, so no loop
// waits. The files have no names: nothing is left of them, however the daemon ends.
//
// A loop posts one step of a file at a time and gets the outcome through its mailbox. Until then it reads no more of
// the client. The thread starts with the first step. Tests: SpoolerTests, Tests/EndToEndTests/test_buffer_uploads.py.

import Bytes
import CLinux
import Transport

/// One file. It exists from its first write on, and `Spooler.close` closes it.
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
    /// As many bytes as were asked for.
    case read([UInt8])
    /// The kernel's error, for people.
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

  /// The service manager's directory for what may be lost, if it gives one. Otherwise the directory of the environment
  /// or of the system for temporary files on a disk: /tmp is often memory, and a body would fill it.
  static var usualDirectory: String {
    let given = Files.environment("CACHE_DIRECTORY")?.split(separator: ":").first.map { String($0) }
    return given ?? Files.environment("TMPDIR").flatMap { $0.isEmpty ? nil : $0 } ?? "/var/tmp"
  }

  /// Does a step of a file. The thread calls `reply`; the steps of one file are done in order.
  func post(_ step: Step, of file: SpoolFile, reply: @escaping @Sendable (Outcome) -> Void) {
    let error: SystemError? = hasThread.withLock { hasThread in
      if hasThread { return nil }
      let error = tryStartThread(named: "spool") { [self] in
        while true { workOnce() }
      }
      hasThread = error == nil
      return error
    }
    if let error { return reply(.failed("no thread can be started: \(error)")) }
    jobs.post(.step(file, step, reply))
  }

  /// Closes a file and so frees its space, which also takes time. No step may follow.
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
    case .write(let bytes, let offset): return write(bytes, number, offset: offset)
    case .read(let count, let offset): return read(count, number, offset: offset)
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

  private func write(_ bytes: [UInt8], _ number: Int32, offset: UInt64) -> Outcome {
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

  private func read(_ count: Int, _ number: Int32, offset: UInt64) -> Outcome {
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

// Numbers of files whose answers no one gets any more, until their rows are gone. The remover of an answer notes it
// here before it reports the removal, so a daemon that is killed in between does not find the answer again.
//
// A note is eight bytes at the end of a file that is already open: some microseconds in the page cache, so a loop may
// write it. If the disk refuses it, the file itself is unlinked at once.
// Tests: Tests/EndToEndTests/test_cache_kills.py.

import Bytes
import Transport

final class RemovedFiles: Sendable {
  private struct State: Sendable {
    var file: Descriptor?
    var directory: StoreDirectory?
    /// Bytes in the file.
    var end: UInt64 = 0
    /// Notes whose rows are still there.
    var pending = 0
  }

  private let state = Locked(State())
  private let path: @Sendable (UInt64) -> String

  /// `path`: the path of a file in the directory, by its number.
  init(path: @escaping @Sendable (UInt64) -> String) { self.path = path }

  /// From here on, notes go to that file. Returns what the previous owner of the store had noted.
  func open(_ directory: StoreDirectory, name: String) -> Result<[UInt64], SystemError> {
    switch directory.touch(name) {
    case .failure(let error): return .failure(error)
    case .success(let file):
      let size = file.fileSize ?? 0
      let bytes = file.read(Int(size - size % 8), at: 0) ?? []
      let numbers = stride(from: 0, to: bytes.count, by: 8).map { at in
        bytes[at..<at + 8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
      }
      state.withLock { state in
        state.file?.close()
        state = State(file: file, directory: directory, end: UInt64(bytes.count), pending: numbers.count)
      }
      return .success(numbers)
    }
  }

  func note(_ numbers: [UInt64]) {
    let bytes = numbers.flatMap { number in (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * UInt64($0))) } }
    state.withLock { state in
      guard let file = state.file else { return }
      state.pending += numbers.count
      if file.write(bytes, at: state.end) == nil {
        state.end += UInt64(bytes.count)
      } else {
        // Its readers may be cut off; no one gets it as an answer again.
        for number in numbers { state.directory?.remove(path(number)) }
      }
    }
  }

  /// The rows of this many are gone.
  func removed(_ count: Int) {
    state.withLock { state in
      state.pending = max(0, state.pending - count)
      guard state.pending == 0, state.end > 0, let file = state.file, file.truncate() == nil else { return }
      state.end = 0
    }
  }

  func close() {
    state.withLock { state in
      state.file?.close()
      state.file = nil
      state.directory = nil
    }
  }
}

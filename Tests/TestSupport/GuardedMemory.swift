// Memory that ends at a page which may not be touched: a reader that looks one byte too far ends the process.

import Glibc

/// Lends bytes so that their last one is the last one of a page, and the next page is not there.
public final class GuardedMemory {
  private let base: UnsafeMutableRawPointer
  private let size: Int
  private let pageBytes = 4096

  /// Room for `capacity` bytes.
  public init(capacity: Int = 256 << 10) {
    size = (capacity + pageBytes - 1) / pageBytes * pageBytes
    guard
      let memory = mmap(
        nil, size + pageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
      memory != MAP_FAILED, mprotect(memory + size, pageBytes, PROT_NONE) == 0
    else { fatalError("no guarded memory") }
    base = memory
  }

  deinit { munmap(base, size + pageBytes) }

  /// Calls `body` with `bytes`, copied to the end.
  public func lend<Outcome>(_ bytes: some Collection<UInt8>, _ body: (Span<UInt8>) -> Outcome) -> Outcome {
    precondition(bytes.count <= size, "more than the memory holds")
    let start = base + (size - bytes.count)
    UnsafeMutableRawBufferPointer(start: start, count: bytes.count).copyBytes(from: bytes)
    let elements = UnsafeBufferPointer(start: start.assumingMemoryBound(to: UInt8.self), count: bytes.count)
    return body(elements.span)
  }
}

// Blocks of memory that one event loop lends to its connections.
//
// Blocks come in powers of two. What comes back is kept on a list of its size up to a limit, so that a steady
// load allocates nothing and a burst does not stay resident for ever. Not shared between threads.

#if canImport(Glibc)
  import Glibc
#endif

/// Lends and takes back the memory of `ByteBuffer`s.
@safe
public struct BufferPool: ~Copyable {
  /// Smallest block in bytes: the text of a log line, or a head of the usual size, fits.
  public static let smallestBlock = 1024
  /// Number of sizes that are kept: 1 KiB, 2 KiB … 512 KiB.
  static let classes = 10
  /// Most bytes kept on one list: enough for a burst on every connection of a busy loop, and small beside
  /// the memory that the kernel holds for the same sockets.
  static let bytesKeptPerClass = 2 << 20

  private var heads: [UnsafeMutableRawPointer?]
  private var counts: [Int]
  /// Blocks of each size that are out. One that comes back where none is out has grown on its own: nobody would take it
  /// again, so that keeping it would only fill the list.
  private var lent: [Int]

  public init() {
    unsafe heads = Array(repeating: nil, count: Self.classes)
    counts = Array(repeating: 0, count: Self.classes)
    lent = Array(repeating: 0, count: Self.classes)
  }

  deinit {
    for index in 0..<Self.classes {
      var next = unsafe heads[index]
      while let block = unsafe next {
        unsafe next = block.load(as: UnsafeMutableRawPointer?.self)
        unsafe free(block)
      }
    }
  }

  private static func index(for size: Int) -> Int {
    if size <= smallestBlock { return 0 }
    return (size - 1).bitWidth - (size - 1).leadingZeroBitCount - smallestBlock.trailingZeroBitCount
  }

  /// An empty buffer with room for at least `capacity` bytes.
  public mutating func take(_ capacity: Int) -> ByteBuffer {
    let index = Self.index(for: capacity)
    if index < Self.classes { lent[index] += 1 }
    if index < Self.classes, let block = unsafe heads[index] {
      unsafe heads[index] = block.load(as: UnsafeMutableRawPointer?.self)
      counts[index] -= 1
      return unsafe ByteBuffer(block: block, size: UInt32(Self.smallestBlock << index))
    }
    let size = Self.smallestBlock << index
    guard let block = unsafe malloc(size) else { fatalError("out of memory for a block of \(size) bytes") }
    return unsafe ByteBuffer(block: block, size: UInt32(size))
  }

  /// Bytes that are kept for the next who asks.
  public var keptBytes: Int {
    counts.indices.reduce(0) { $0 + counts[$1] * Self.smallestBlock << $1 }
  }

  /// Gives `buffer` memory if it has none.
  @inlinable
  public mutating func lend(_ buffer: inout ByteBuffer, _ capacity: Int) {
    if buffer.capacity == 0 { buffer = take(capacity) }
  }

  /// Moves what is in `buffer` into a block that just holds it, and takes the larger one back: for what is kept for long.
  public mutating func compact(_ buffer: inout ByteBuffer) {
    guard buffer.count <= Self.smallestBlock / 2, var exact = ByteBuffer(exactly: buffer.bytes) else { return }
    swap(&buffer, &exact)
    reclaim(&exact)
  }

  /// Takes the memory of `buffer` back; the buffer is empty afterwards.
  public mutating func reclaim(_ buffer: inout ByteBuffer) {
    guard let (block, size) = unsafe buffer.surrender() else { return }
    // Compacted: no block of the pool's.
    if Int(size) < Self.smallestBlock { return unsafe free(block) }
    let index = Self.index(for: Int(size))
    guard index < Self.classes, Int(size) == Self.smallestBlock << index,
      lent[index] > 0, (counts[index] + 1) * Int(size) <= Self.bytesKeptPerClass
    else {
      if index < Self.classes, lent[index] > 0 { lent[index] -= 1 }
      unsafe free(block)
      return
    }
    unsafe block.storeBytes(of: heads[index], as: UnsafeMutableRawPointer?.self)
    unsafe heads[index] = block
    counts[index] += 1
    lent[index] -= 1
  }
}

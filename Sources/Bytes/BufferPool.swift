// Blocks of memory that one event loop lends to its connections.
//
// The sizes of blocks are powers of two. Returned blocks are kept in a list for their size, up to a limit. So a steady
// load allocates nothing, and a burst does not stay resident for ever. Not shared between threads.

#if canImport(Glibc)
  import Glibc
#endif

/// Lends the memory of `ByteBuffer`s and takes it back.
@safe
public struct BufferPool: ~Copyable {
  /// The smallest block in bytes: enough for the text of a log line or a head of the usual size.
  public static let smallestBlock = 1024
  /// The number of sizes that are kept: 1 KiB, 2 KiB … 512 KiB.
  static let classes = 10
  private typealias PerClass<Element> = InlineArray<10, Element>
  /// The most bytes kept in one list: enough for a burst on every connection of a busy loop, and little compared with
  /// the kernel's memory for the same sockets.
  static let bytesKeptPerClass = 2 << 20

  private var heads: PerClass<UnsafeMutableRawPointer?>
  private var counts: PerClass<Int>
  /// How many blocks of each size are lent. If a block returns when none of its size is lent, its buffer has grown on
  /// its own. It would not be needed again, so keeping it would only fill the list.
  private var lent: PerClass<Int>

  public init() {
    unsafe heads = PerClass(repeating: nil)
    counts = PerClass(repeating: 0)
    lent = PerClass(repeating: 0)
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

  /// Bytes kept for later use.
  public var keptBytes: Int {
    counts.indices.reduce(0) { $0 + counts[$1] * Self.smallestBlock << $1 }
  }

  /// Gives `buffer` memory if it has none.
  @inlinable
  public mutating func lend(_ buffer: inout ByteBuffer, _ capacity: Int) {
    if buffer.capacity == 0 { buffer = take(capacity) }
  }

  /// Moves the contents of `buffer` into a block of exactly their size and takes the larger one back. For buffers that
  /// are kept for long.
  public mutating func compact(_ buffer: inout ByteBuffer) {
    guard buffer.count <= Self.smallestBlock / 2, var exact = ByteBuffer(exactly: buffer.bytes) else { return }
    swap(&buffer, &exact)
    reclaim(&exact)
  }

  /// Takes the memory of `buffer` back; the buffer is empty afterwards.
  public mutating func reclaim(_ buffer: inout ByteBuffer) {
    guard let (block, size) = unsafe buffer.surrender() else { return }
    // A compacted buffer: not a block of the pool.
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

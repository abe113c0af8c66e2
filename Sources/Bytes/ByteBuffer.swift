// The one owner of memory for bytes in transit.
//
// A buffer is a contiguous run of readable bytes (`start ..< end`) inside an allocation (`0 ..< capacity`). It is
// unsafe inside and checked outside: every append reserves what it needs, and every read is a bounds-checked `Span`. An
// empty buffer owns no memory, so an idle connection only costs three words for each of its buffers. Blocks come from a
// `BufferPool` of the event loop and go back to it. A buffer that must grow beyond its block reallocates on its own,
// and the pool may still recycle the larger block.

#if canImport(Glibc)
  import Glibc
#endif

/// A growable run of bytes with one owner. Counts are bytes. It is Sendable because there is never a second owner.
@safe
public struct ByteBuffer: ~Copyable, @unchecked Sendable {
  @usableFromInline var base: UnsafeMutableRawPointer?
  @usableFromInline var size: UInt32
  @usableFromInline var start: UInt32
  @usableFromInline var end: UInt32

  /// A buffer that owns no memory yet.
  @inlinable
  public init() {
    unsafe base = nil
    size = 0
    start = 0
    end = 0
  }

  /// A buffer over a block from a pool.
  @inlinable
  init(block: UnsafeMutableRawPointer, size: UInt32) {
    unsafe base = block
    self.size = size
    start = 0
    end = 0
  }

  /// A copy of `span` in a block of exactly its size; nil if it is empty or there is no memory.
  init?(exactly span: Span<UInt8>) {
    guard span.count > 0, let block = unsafe malloc(span.count) else { return nil }
    unsafe self.init(block: block, size: UInt32(span.count))
    append(span)
  }

  deinit { unsafe free(base) }

  @inlinable public var count: Int { Int(end &- start) }
  @inlinable public var isEmpty: Bool { end == start }
  @inlinable public var capacity: Int { Int(size) }
  /// Bytes that can be appended without growing or moving anything.
  @inlinable public var tailRoom: Int { Int(size &- end) }

  /// The readable bytes.
  @inlinable
  public var bytes: Span<UInt8> {
    @_lifetime(borrow self)
    get {
      let elements = unsafe UnsafeBufferPointer(
        start: (base?.advanced(by: Int(start)))?.assumingMemoryBound(to: UInt8.self), count: count)
      let span = unsafe Span<UInt8>(_unsafeElements: elements)
      return unsafe _overrideLifetime(span, borrowing: self)
    }
  }

  public func begins(with text: StaticString) -> Bool {
    count >= text.utf8CodeUnitCount && bytes.equals(0..<text.utf8CodeUnitCount, text)
  }

  /// A part of the readable bytes as text; invalid UTF-8 is replaced.
  public func string(_ range: Range<Int>) -> String { bytes.extracting(range).string }

  /// Makes room for `count` more bytes after the readable ones. Moves them to the front of the block, or grows it.
  @inlinable
  public mutating func reserve(_ count: Int) {
    if tailRoom < count { makeRoom(count) }
  }

  @usableFromInline
  mutating func makeRoom(_ count: Int) {
    let held = self.count
    if Int(size) >= held + count, let base = unsafe self.base {
      unsafe memmove(base, base + Int(start), held)
    } else {
      var wanted = max(Int(size), BufferPool.smallestBlock)
      while wanted < held + count { wanted *= 2 }
      precondition(wanted <= Int(UInt32.max), "a buffer of more than 4 GiB")
      guard let block = unsafe malloc(wanted) else { fatalError("out of memory for a buffer of \(wanted) bytes") }
      if let old = unsafe base {
        unsafe memcpy(block, old + Int(start), held)
        unsafe free(old)
      }
      unsafe base = block
      size = UInt32(wanted)
    }
    start = 0
    end = UInt32(held)
  }

  @inlinable
  public mutating func append(_ byte: UInt8) {
    if end == size { reserve(1) }
    unsafe base.unsafelyUnwrapped.storeBytes(of: byte, toByteOffset: Int(end), as: UInt8.self)
    end &+= 1
  }

  @inlinable
  public mutating func append(_ span: Span<UInt8>) {
    unsafe span.withUnsafeBufferPointer { source in
      guard let from = source.baseAddress, source.count > 0 else { return }
      unsafe append(from, count: source.count)
    }
  }

  @inlinable
  public mutating func append(_ text: StaticString) {
    // An empty buffer has no memory to copy to.
    if text.utf8CodeUnitCount == 0 { return }
    unsafe append(text.utf8Start, count: text.utf8CodeUnitCount)
  }

  /// `,"name":`, before the value of a further member of a JSON object.
  public mutating func append(member name: StaticString) {
    let count = name.utf8CodeUnitCount
    reserve(count + 4)
    let place = unsafe base.unsafelyUnwrapped + Int(end)
    unsafe place.storeBytes(of: (0x2c | 0x22 << 8 as UInt16).littleEndian, as: UInt16.self)
    unsafe memcpy(place + 2, name.utf8Start, count)
    unsafe (place + 2 + count).storeBytes(of: (0x22 | 0x3a << 8 as UInt16).littleEndian, as: UInt16.self)
    end &+= UInt32(truncatingIfNeeded: count + 4)
  }

  /// Disfavored, because otherwise a literal would be a `String`, which costs reference counting and a lookup of its
  /// bytes.
  @_disfavoredOverload
  public mutating func append(_ text: String) {
    var text = text
    text.withUTF8 { source in
      guard let from = source.baseAddress, source.count > 0 else { return }
      unsafe append(from, count: source.count)
    }
  }

  @inlinable
  @unsafe
  public mutating func append(_ source: UnsafePointer<UInt8>, count: Int) {
    reserve(count)
    unsafe memcpy(base.unsafelyUnwrapped + Int(end), source, count)
    end &+= UInt32(truncatingIfNeeded: count)
  }

  public mutating func append(_ array: [UInt8]) { append(array.span) }

  /// Appends the readable bytes of another buffer.
  public mutating func append(contentsOf other: borrowing ByteBuffer) { append(other.bytes) }

  /// The number in decimal digits.
  public mutating func append(decimal value: UInt64) {
    if value < 10 { return append(UInt8(truncatingIfNeeded: value) &+ 0x30) }
    var count = 2
    var bound: UInt64 = 100
    // 20 digits are the most, and their bound would not fit.
    while count < 20, value >= bound {
      count &+= 1
      bound &*= 10
    }
    reserve(count)
    end &+= UInt32(truncatingIfNeeded: count)
    var place = Int(end)
    var rest = value
    repeat {
      place &-= 1
      unsafe base.unsafelyUnwrapped.storeBytes(
        of: UInt8(truncatingIfNeeded: rest % 10) &+ 0x30, toByteOffset: place, as: UInt8.self)
      rest /= 10
    } while rest > 0
  }

  /// The same, with a sign if it is negative.
  public mutating func append(integer value: Int) {
    if value < 0 { append(0x2d) }
    append(decimal: UInt64(value.magnitude))
  }

  /// The number in decimal digits, at least `width` of them.
  public mutating func append(decimal value: UInt64, width: Int) {
    var bound: UInt64 = 10
    var digits = 1
    while digits < width {
      if value < bound { append(0x30) }
      bound &*= 10
      digits += 1
    }
    // The padding above is the leading zeros; the number's own digits follow.
    append(decimal: value)
  }

  /// A number of thousandths, with three places: `12.345`.
  public mutating func append(thousandths value: UInt64) {
    append(decimal: value / 1000)
    appendPlaces(ofThousandth: value % 1000)
  }

  /// `.045`
  public mutating func appendPlaces(ofThousandth value: UInt64) {
    let value = UInt32(truncatingIfNeeded: value)
    let digits = value / 100 | (value / 10 % 10) << 8 | (value % 10) << 16
    reserve(4)
    unsafe base.unsafelyUnwrapped.storeBytes(
      of: (0x2e | (digits &+ 0x30_3030) << 8).littleEndian, toByteOffset: Int(end), as: UInt32.self)
    end &+= 4
  }

  /// The number in lower-case hexadecimal digits, as a chunk size is written (RFC 9112, 7.1).
  public mutating func append(hexadecimal value: UInt64) {
    var shift = max(0, (63 - value.leadingZeroBitCount) / 4 * 4)
    if value == 0 { shift = 0 }
    while shift >= 0 {
      let digit = UInt8(truncatingIfNeeded: value >> UInt64(shift)) & 0xf
      append(digit < 10 ? digit &+ 0x30 : digit &+ 0x57)
      shift -= 4
    }
  }

  /// Drops `count` readable bytes from the front.
  @inlinable
  public mutating func consume(_ count: Int) {
    precondition(count >= 0 && count <= self.count, "consumed more than there is")
    start &+= UInt32(truncatingIfNeeded: count)
    if start == end {
      start = 0
      end = 0
    }
  }

  /// Drops readable bytes from the back until `count` are left.
  @inlinable
  public mutating func truncate(to count: Int) {
    precondition(count >= 0 && count <= self.count, "truncated to more than there is")
    end = start &+ UInt32(truncatingIfNeeded: count)
  }

  /// Drops every readable byte and keeps the memory.
  @inlinable
  public mutating func removeAll() {
    start = 0
    end = 0
  }

  /// Lets a system call fill the tail: `body` gets the free memory and returns how many bytes it wrote there.
  @inlinable
  @unsafe
  public mutating func fillTail(_ body: (UnsafeMutableRawBufferPointer) -> Int) -> Int {
    let tail = unsafe UnsafeMutableRawBufferPointer(start: base.map { unsafe $0 + Int(end) }, count: tailRoom)
    let written = unsafe body(tail)
    precondition(written <= tailRoom, "wrote more than there is room for")
    if written > 0 { end &+= UInt32(truncatingIfNeeded: written) }
    return written
  }

  /// The readable memory, for a system call that sends it.
  @inlinable
  @unsafe
  public var unsafeReadable: UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(start: base.map { unsafe UnsafeRawPointer($0 + Int(start)) }, count: count)
  }

  /// Gives the allocation away and leaves the buffer empty.
  @inlinable
  mutating func surrender() -> (block: UnsafeMutableRawPointer, size: UInt32)? {
    guard let block = unsafe base else { return nil }
    let size = self.size
    unsafe base = nil
    self.size = 0
    start = 0
    end = 0
    return unsafe (block, size)
  }
}

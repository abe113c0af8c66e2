// The pool: what sizes it lends, what it keeps, and that no two buffers ever share memory.

import TestSupport
import Testing

@testable import Bytes

/// A place for a buffer in an array.
private final class Place {
  var buffer = ByteBuffer()

  /// Where the memory begins.
  var address: UInt {
    if buffer.count == 0 { buffer.append(0) }
    return UInt(bitPattern: buffer.unsafeReadable.baseAddress)
  }
}

@Suite struct BufferPoolTests {
  @Test(arguments: [
    (0, 1024), (1, 1024), (1023, 1024), (1024, 1024), (1025, 2048), (2048, 2048), (2049, 4096), (4096, 4096),
    (4097, 8192), (65_536, 65_536), (65_537, 131_072), (524_288, 524_288), (524_289, 1_048_576),
    (3_000_000, 4_194_304),
  ]) func aBlockIsTheNextPowerOfTwo(wanted: Int, lent: Int) {
    var pool = BufferPool()
    let buffer = pool.take(wanted)
    #expect(buffer.capacity == lent)
    #expect(buffer.count == 0)
  }

  @Test func whatComesBackIsLentAgain() {
    for size in [1, 2000, 4096, 100_000, 524_288] {
      var pool = BufferPool()
      let place = Place()
      place.buffer = pool.take(size)
      let address = place.address
      pool.reclaim(&place.buffer)
      #expect(place.buffer.capacity == 0)
      #expect(place.buffer.count == 0)
      place.buffer = pool.take(size)
      #expect(place.buffer.count == 0)
      #expect(place.address == address, "a block for \(size) bytes")
    }
  }

  @Test func aBlockIsNotLentForAnotherSize() {
    var pool = BufferPool()
    var small = pool.take(1024)
    pool.reclaim(&small)
    let large = pool.take(1025)
    #expect(large.capacity == 2048)
    let again = pool.take(1)
    #expect(again.capacity == 1024)
  }

  @Test func theLastThatCameBackIsTheFirstThatIsLent() {
    var pool = BufferPool()
    let places = (0..<5).map { _ in Place() }
    for place in places { place.buffer = pool.take(1024) }
    let addresses = places.map(\.address)
    for place in places { pool.reclaim(&place.buffer) }
    for place in places { place.buffer = pool.take(1024) }
    #expect(places.map(\.address) == addresses.reversed())
  }

  @Test func aSizeKeepsAtMostTwoMebibytes() {
    var pool = BufferPool()
    let places = (0..<6).map { _ in Place() }
    for place in places { place.buffer = pool.take(524_288) }
    let addresses = places.map(\.address)
    for place in places { pool.reclaim(&place.buffer) }
    // The first four were kept; the last two were given back to the system.
    for place in places.prefix(4) { place.buffer = pool.take(524_288) }
    #expect(places.prefix(4).map(\.address) == addresses.prefix(4).reversed())
  }

  @Test func aBlockBeyondTheLargestSizeIsLentAndNotKept() {
    var pool = BufferPool()
    var buffer = pool.take(600_000)
    buffer.append([UInt8](repeating: 7, count: 600_000))
    pool.reclaim(&buffer)
    #expect(buffer.capacity == 0)
    let other = pool.take(524_288)
    #expect(other.capacity == 524_288)
  }

  @Test func aBufferThatGrewIsNotKeptForASizeThatNobodyHasOut() {
    var pool = BufferPool()
    var buffer = pool.take(1024)
    buffer.append([UInt8](repeating: 1, count: 3000))
    pool.reclaim(&buffer)
    #expect(buffer.capacity == 0)
    #expect(pool.keptBytes == 0)
  }

  @Test func aBufferThatGrewIsKeptInPlaceOfOneThatIsOut() {
    var pool = BufferPool()
    var grown = pool.take(1024)
    grown.append([UInt8](repeating: 1, count: 3000))
    var other = pool.take(4096)
    pool.reclaim(&grown)
    #expect(pool.keptBytes == 4096)
    pool.reclaim(&other)
    #expect(pool.keptBytes == 4096)
  }

  @Test func memoryIsLentOnlyToABufferThatHasNone() {
    var pool = BufferPool()
    var buffer = ByteBuffer()
    pool.lend(&buffer, 1500)
    #expect(buffer.capacity == 2048)
    buffer.append([1, 2, 3])
    pool.lend(&buffer, 100_000)
    #expect(buffer.capacity == 2048)
    #expect(buffer.array == [1, 2, 3])
  }

  @Test func whatIsCompactedStandsInABlockThatJustHoldsItAndItsOldOneIsLentAgain() {
    var pool = BufferPool()
    var buffer = pool.take(1024)
    buffer.append([1, 2, 3, 4])
    buffer.consume(1)
    pool.compact(&buffer)
    #expect(buffer.capacity == 3)
    #expect(buffer.array == [2, 3, 4])
    #expect(pool.keptBytes == 1024)
    buffer.append([5])
    #expect(buffer.array == [2, 3, 4, 5])
  }

  @Test func aCompactedBlockIsNoneOfThePools() {
    var pool = BufferPool()
    var other = pool.take(1024)
    var buffer = pool.take(1024)
    buffer.append([1])
    pool.compact(&buffer)
    pool.reclaim(&buffer)
    #expect(buffer.capacity == 0)
    #expect(pool.keptBytes == 1024)
    // The one that is out still is, and is kept when it comes back.
    pool.reclaim(&other)
    #expect(pool.keptBytes == 2048)
  }

  @Test(arguments: [0, 513, 2000])
  func whatIsEmptyOrLargeStaysWhereItIs(_ count: Int) {
    var pool = BufferPool()
    var buffer = pool.take(2048)
    buffer.append([UInt8](repeating: 7, count: count))
    pool.compact(&buffer)
    #expect(buffer.capacity == 2048)
    #expect(buffer.count == count)
  }

  @Test func anEmptyBufferComesBackAsNothing() {
    var pool = BufferPool()
    var buffer = ByteBuffer()
    pool.reclaim(&buffer)
    #expect(buffer.capacity == 0)
    #expect(pool.take(1).capacity == 1024)
  }

  @Test func noTwoBuffersShareMemory() {
    for seed in 1...10 as ClosedRange<UInt64> {
      var generator = SeededGenerator(seed: seed)
      var pool = BufferPool()
      let places = (0..<40).map { _ in Place() }
      var models = [[UInt8]](repeating: [], count: places.count)
      for _ in 0..<2000 {
        let index = Int.random(in: 0..<places.count, using: &generator)
        if Int.random(in: 0..<3, using: &generator) == 0 {
          #expect(places[index].buffer.array == models[index])
          pool.reclaim(&places[index].buffer)
          models[index] = []
        } else {
          let count = Int.random(in: 0..<(index == 0 ? 20_000 : 900), using: &generator)
          let bytes = [UInt8](repeating: UInt8.random(in: 0...255, using: &generator), count: count)
          pool.lend(&places[index].buffer, count)
          places[index].buffer.append(bytes)
          models[index] += bytes
        }
      }
      for index in places.indices { #expect(places[index].buffer.array == models[index]) }
    }
  }
}

// The buffer against an array that does the same, and the numbers it writes against those of the standard library.

import TestSupport
import Testing

@testable import Bytes

@Suite struct ByteBufferTests {
  @Test func anEmptyBufferOwnsNoMemory() {
    let buffer = ByteBuffer()
    #expect(buffer.capacity == 0)
    #expect(buffer.count == 0)
    #expect(buffer.tailRoom == 0)
    #expect(buffer.array == [])
  }

  @Test func appendingNothingToAnEmptyBufferIsNothing() {
    var buffer = ByteBuffer()
    buffer.append("" as String)
    buffer.append([])
    buffer.append([UInt8]().span)
    buffer.append(contentsOf: ByteBuffer())
    buffer.append("" as StaticString)
    #expect(buffer.array == [])
    #expect(buffer.capacity == 0)
  }

  @Test func everyKindOfTextIsAppended() {
    var other = ByteBuffer()
    other.append(octets("five"))
    other.consume(1)
    var buffer = ByteBuffer()
    buffer.append(0x31)
    buffer.append(" two " as StaticString)
    buffer.append("drei ü " as String)
    buffer.append([0, 255])
    buffer.append([7].span)
    buffer.append(contentsOf: other)
    #expect(buffer.array == octets("1 two drei \u{c3}\u{bc} \u{0}\u{ff}\u{7}ive"))
    #expect(buffer.count == 20)
  }

  @Test func consumingEverythingBeginsAnew() {
    var buffer = ByteBuffer()
    buffer.append(octets("abc"))
    buffer.consume(2)
    #expect(buffer.tailRoom == buffer.capacity - 3)
    buffer.consume(1)
    #expect(buffer.tailRoom == buffer.capacity)
    #expect(buffer.count == 0)
  }

  @Test func roomIsMadeByMovingBeforeGrowing() {
    var buffer = ByteBuffer()
    buffer.append([UInt8](repeating: 1, count: 1000))
    buffer.append([2, 3])
    buffer.consume(1000)
    #expect(buffer.capacity == 1024)
    buffer.reserve(1022)
    #expect(buffer.capacity == 1024)
    #expect(buffer.tailRoom == 1022)
    #expect(buffer.array == [2, 3])
    buffer.reserve(1023)
    #expect(buffer.capacity == 2048)
    #expect(buffer.array == [2, 3])
  }

  @Test func reservingWhatThereIsChangesNothing() {
    var buffer = ByteBuffer()
    buffer.append([1, 2, 3])
    buffer.consume(1)
    buffer.reserve(1021)
    #expect(buffer.capacity == 1024)
    #expect(buffer.tailRoom == 1021)
  }

  @Test func aBufferGrowsInPowersOfTwo() {
    for count in [1, 1023, 1024, 1025, 5000, 70_000] {
      var buffer = ByteBuffer()
      buffer.append([UInt8](repeating: 9, count: count))
      let fits = buffer.capacity >= count && buffer.capacity < max(2 * count, 1025)
      #expect(fits, "\(count) bytes in \(buffer.capacity)")
      #expect(buffer.capacity & (buffer.capacity - 1) == 0)
    }
  }

  @Test func aSystemCallFillsTheTail() {
    var buffer = ByteBuffer()
    buffer.append([1, 2])
    buffer.consume(1)
    let answered = buffer.fillTail { tail in
      tail.copyBytes(from: [3, 4, 5])
      return 3
    }
    #expect(answered == 3)
    #expect(buffer.array == [2, 3, 4, 5])
    // A call that fails answers a negative number, which is no count.
    #expect(buffer.fillTail { _ in -11 } == -11)
    #expect(buffer.array == [2, 3, 4, 5])
  }

  @Test func theReadableMemoryIsWhatIsRead() {
    var buffer = ByteBuffer()
    buffer.append([1, 2, 3])
    buffer.consume(1)
    #expect(Array(buffer.unsafeReadable) == [2, 3])
  }

  @Test func randomOperationsAreThoseOfAnArray() {
    for seed in 1...40 as ClosedRange<UInt64> {
      var generator = SeededGenerator(seed: seed)
      var buffer = ByteBuffer()
      var model: [UInt8] = []
      for _ in 0..<400 {
        let count = Int.random(in: 0...(seed % 4 == 0 ? 3000 : 200), using: &generator)
        let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
        switch Int.random(in: 0..<12, using: &generator) {
        case 0:
          buffer.append(UInt8(truncatingIfNeeded: count))
          model.append(UInt8(truncatingIfNeeded: count))
        case 1, 2:
          buffer.append(bytes.span)
          model += bytes
        case 3:
          buffer.append(bytes)
          model += bytes
        case 4:
          buffer.append(decimal: UInt64(count))
          model += Array(String(count).utf8)
        case 5:
          buffer.append(hexadecimal: UInt64(count))
          model += Array(String(count, radix: 16).utf8)
        case 6, 7:
          let taken = Int.random(in: 0...model.count, using: &generator)
          buffer.consume(taken)
          model.removeFirst(taken)
        case 8:
          let kept = Int.random(in: 0...model.count, using: &generator)
          buffer.truncate(to: kept)
          model.removeLast(model.count - kept)
        case 9:
          buffer.reserve(count)
          #expect(buffer.tailRoom >= count)
        case 10:
          if count % 16 == 0 {
            buffer.removeAll()
            model = []
          }
        default:
          _ = buffer.fillTail { tail in
            let part = bytes.prefix(tail.count)
            tail.copyBytes(from: part)
            model += part
            return part.count
          }
        }
        #expect(buffer.count == model.count)
        #expect(buffer.capacity >= buffer.count)
      }
      #expect(buffer.array == model, "seed \(seed)")
    }
  }

  // MARK: Numbers

  /// The powers of ten and of two with their neighbours.
  static let numbers: [UInt64] = {
    var numbers: [UInt64] = [.max, .max - 1]
    var power: UInt64 = 1
    for _ in 0...18 {
      numbers += [power - 1, power, power + 1]
      power *= 10
    }
    numbers += [power - 1, power, power + 1]
    for shift in 0..<64 as Range<UInt64> {
      let bit: UInt64 = 1 << shift
      numbers += [bit, bit - 1, bit | 1]
    }
    return numbers
  }()

  @Test func decimalsAreThoseOfTheStandardLibrary() {
    for number in Self.numbers {
      var buffer = ByteBuffer()
      buffer.append(decimal: number)
      #expect(buffer.bytes.string == String(number))
    }
  }

  @Test func decimalsArePaddedWithZeros() {
    for number in Self.numbers {
      for width in 0...19 {
        var buffer = ByteBuffer()
        buffer.append(decimal: number, width: width)
        let plain = String(number)
        let expected = String(repeating: "0", count: max(0, width - plain.utf8.count)) + plain
        #expect(buffer.bytes.string == expected, "\(number) in \(width) digits")
      }
    }
  }

  @Test(arguments: [
    (0, "0.000"), (7, "0.007"), (412, "0.412"), (1000, "1.000"), (12_045, "12.045"), (9_999_999, "9999.999"),
  ])
  func thousandthsHaveThreePlaces(value: Int, expected: String) {
    var buffer = ByteBuffer()
    buffer.append(thousandths: UInt64(value))
    #expect(buffer.bytes.string == expected)
  }

  @Test func decimalsOfEveryLengthAreWhole() {
    var bound: UInt64 = 1
    while true {
      for value in [bound - 1, bound, bound + 1] {
        var buffer = ByteBuffer()
        buffer.append(decimal: value)
        #expect(buffer.bytes.string == "\(value)")
      }
      let (next, isOver) = bound.multipliedReportingOverflow(by: 10)
      if isOver { break }
      bound = next
    }
  }

  @Test func hexadecimalsAreThoseOfTheStandardLibrary() {
    for number in Self.numbers {
      var buffer = ByteBuffer()
      buffer.append(hexadecimal: number)
      #expect(buffer.bytes.string == String(number, radix: 16))
    }
  }

  // MARK: What is a mistake of the caller

  @Test func consumingMoreThanThereIsEndsTheProcess() async {
    await #expect(processExitsWith: .failure) {
      var buffer = ByteBuffer()
      buffer.append([1, 2])
      buffer.consume(3)
    }
    await #expect(processExitsWith: .failure) {
      var buffer = ByteBuffer()
      buffer.append([1, 2])
      buffer.consume(-1)
    }
  }

  @Test func truncatingToMoreThanThereIsEndsTheProcess() async {
    await #expect(processExitsWith: .failure) {
      var buffer = ByteBuffer()
      buffer.append([1, 2])
      buffer.truncate(to: 3)
    }
  }

  @Test func aSystemCallThatSaysItWroteTooMuchEndsTheProcess() async {
    await #expect(processExitsWith: .failure) {
      var buffer = ByteBuffer()
      buffer.append([1])
      _ = buffer.fillTail { $0.count + 1 }
    }
  }
}

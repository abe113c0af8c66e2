// The content of a stored answer: what readers see while it grows, who is told, what is given up where it is not stored, and
// who holds up the fetch.

import Bytes
import Testing

@testable import Cache

@Suite struct ContentTests {
  private static let chunk = Content.chunkBytes

  /// Bytes that tell where they stand.
  private static let all: [UInt8] = (0..<40 * chunk).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
  private static func bytes(_ range: Range<Int>) -> [UInt8] { Array(all[range]) }

  private static func reader(_ number: Int) -> Content.Reader {
    Content.Reader(worker: number % 2, slot: number, generation: UInt32(truncatingIfNeeded: number))
  }

  /// Reads from `offset` to where there is no more.
  private static func drain(
    _ content: Content, _ reader: Content.Reader, from: UInt64 = 0, most: Int = .max
  ) -> (bytes: [UInt8], end: Content.Read) {
    var buffer = ByteBuffer()
    var offset = from
    while true {
      let read = content.read(reader, from: offset, most: most, into: &buffer).read
      guard case .bytes(let count) = read, count > 0 else { return (buffer.bytes.array, read) }
      offset += UInt64(count)
    }
  }

  private static func write(_ content: Content, _ range: Range<Int>) -> Content.Appended {
    let bytes = bytes(range)
    return content.append(bytes.span)
  }

  // MARK: Whole

  @Test(arguments: [0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk, 3 * chunk + 17])
  func whatIsWrittenIsRead(_ count: Int) {
    for announced in [nil, UInt64(count)] {
      for step in [1000, Self.chunk, count + 1] {
        let content = Content(announced: announced)
        var at = 0
        while at < count {
          _ = Self.write(content, at..<min(at + step, count))
          at += step
        }
        #expect(!content.isComplete)
        #expect(content.length == announced, "its end is not known before it is there")
        _ = content.finish(trailers: Array("A: b\r\n".utf8))
        #expect(content.isComplete)
        #expect(content.length == UInt64(count))
        #expect(content.count == UInt64(count))
        #expect(text(content.trailers) == "A: b\r\n")
        for most in [777, Self.chunk, .max] {
          let reader = Self.reader(most)
          #expect(content.attend(reader, from: 0))
          let (seen, end) = Self.drain(content, reader, most: most)
          #expect(seen == Self.bytes(0..<count))
          #expect(end == .complete)
          #expect(content.leave(reader) == (false, false))
        }
      }
    }
  }

  @Test func aPartIsReadFromWhereItBegins() {
    let content = Content(announced: nil)
    _ = Self.write(content, 0..<3 * Self.chunk)
    _ = content.finish()
    for from in [1, Self.chunk - 1, Self.chunk, Self.chunk + 1, 3 * Self.chunk - 1, 3 * Self.chunk] {
      #expect(content.attend(Self.reader(1), from: UInt64(from)))
      let (seen, end) = Self.drain(content, Self.reader(1), from: UInt64(from))
      #expect(seen == Self.bytes(from..<3 * Self.chunk))
      #expect(end == .complete)
      _ = content.leave(Self.reader(1))
    }
  }

  @Test func aReadIsNoLongerThanAskedForNorThanAChunk() {
    let content = Content(announced: nil)
    _ = Self.write(content, 0..<2 * Self.chunk)
    var buffer = ByteBuffer()
    #expect(content.attend(Self.reader(1), from: 0))
    func read(_ from: Int, _ most: Int) -> Content.Read {
      content.read(Self.reader(1), from: UInt64(from), most: most, into: &buffer).read
    }
    #expect(read(0, 10) == .bytes(10))
    #expect(read(10, .max) == .bytes(Self.chunk - 10))
    #expect(read(Self.chunk, .max) == .bytes(Self.chunk))
    #expect(read(2 * Self.chunk, .max) == .wait)
    #expect(buffer.bytes.array == Self.bytes(0..<2 * Self.chunk))
  }

  // MARK: Growing

  @Test func whoeverWaitsIsToldOnce() {
    let content = Content(announced: nil)
    for number in 1...3 { #expect(content.attend(Self.reader(number), from: 0)) }
    #expect(content.hasReaders)
    #expect(Self.drain(content, Self.reader(1)).end == .wait)
    #expect(Self.drain(content, Self.reader(3)).end == .wait)
    #expect(content.waits(Self.reader(1)) && !content.waits(Self.reader(2)))
    #expect(Self.write(content, 0..<5).readers == [Self.reader(1), Self.reader(3)])
    #expect(!content.waits(Self.reader(1)))
    // Who was told and has not read yet does not wait.
    #expect(Self.write(content, 5..<9).readers.isEmpty)
    #expect(Self.drain(content, Self.reader(1)) == (Self.bytes(0..<9), .wait))
    #expect(Self.drain(content, Self.reader(2)).end == .wait)
    _ = content.leave(Self.reader(2))
    #expect(content.finish() == [Self.reader(1)], "who has left is told nothing")
    #expect(!content.waits(Self.reader(1)))
    #expect(Self.drain(content, Self.reader(1), from: 9).end == .complete)
    #expect(Self.drain(content, Self.reader(3)) == (Self.bytes(0..<9), .complete))
  }

  /// What is complete a moment after the file was looked at is not whole there: its row would name bytes that are not in it.
  @Test func aFileIsWholeOnceAllOfItIsWritten() {
    let content = Content(announced: nil, spills: true)
    _ = Self.write(content, 0..<Self.chunk + 5)
    #expect(content.nextToWrite()?.bytes.count == Self.chunk)
    _ = content.wrote(Self.chunk)
    #expect(content.nextToWrite() == nil && content.filing == .growing, "the rest is no whole chunk yet")
    _ = content.finish()
    #expect(content.filing == .growing, "five bytes are missing in the file")
    #expect(content.nextToWrite()?.bytes.count == 5)
    _ = content.wrote(5)
    #expect(content.filing == .whole)
    #expect(content.isFiledNow() && !content.isFiledNow(), "its row is written once")
    let broken = Content(announced: nil, spills: true)
    _ = broken.breakOff()
    #expect(broken.filing == .broken)
  }

  /// Chunks of a file come for one reader and wake others too. Whoever was woken for nothing, and has not looked again, must do so:
  /// nobody tells it a second time.
  @Test func whoeverWasToldForNothingDoesNotWait() {
    let content = Content(inFile: UInt64(20 * Self.chunk), trailers: [])
    let (first, second) = (Self.reader(1), Self.reader(2))
    #expect(content.attend(first, from: 0) && content.attend(second, from: 0))
    var buffer = ByteBuffer()
    #expect(content.read(first, from: 0, most: .max, into: &buffer).read == .load(0..<4))
    #expect(content.read(second, from: UInt64(10 * Self.chunk), most: .max, into: &buffer).read == .load(10..<14))
    #expect(content.waits(first) && content.waits(second))
    #expect(content.loaded(0, Self.bytes(0..<Self.chunk)) == [first, second])
    #expect(!content.waits(second))
    #expect(content.loaded(10, Self.bytes(0..<Self.chunk)).isEmpty)
    #expect(!content.waits(second), "it has to look")
    #expect(
      content.read(second, from: UInt64(10 * Self.chunk), most: .max, into: &buffer).read == .bytes(Self.chunk))
  }

  /// RFC 9111, 3.3: what is broken off is never taken for the whole.
  @Test func whatIsBrokenOff() {
    let content = Content(announced: nil)
    #expect(content.attend(Self.reader(1), from: 0))
    _ = Self.write(content, 0..<5)
    #expect(Self.drain(content, Self.reader(1)).end == .wait)
    #expect(content.breakOff() == [Self.reader(1)])
    #expect(content.end == .broken)
    #expect(content.length == nil)
    #expect(!content.isComplete)
    #expect(!content.waits(Self.reader(1)))
    #expect(Self.drain(content, Self.reader(1)) == (Self.bytes(0..<5), .broken), "what there was is still read")
    #expect(content.leave(Self.reader(1)) == (false, false))
  }

  @Test func whatIsCompleteIsNotBrokenOff() {
    let content = Content(announced: nil)
    _ = content.finish()
    #expect(content.breakOff().isEmpty)
    #expect(content.end == .complete)
  }

  /// RFC 9111, 3.3, and RFC 9112, 8.
  @Test func whatIsShorterThanAnnouncedIsNotComplete() {
    let content = Content(announced: 10)
    _ = Self.write(content, 0..<5)
    _ = content.finish()
    #expect(!content.isComplete)
  }

  @Test func theLastReaderIsTheOneThatLeavesWhileItGrows() {
    let content = Content(announced: nil)
    #expect(content.attend(Self.reader(1), from: 0))
    #expect(content.attend(Self.reader(2), from: 0))
    #expect(content.leave(Self.reader(1)) == (false, false))
    #expect(content.leave(Self.reader(2)) == (true, false))
    #expect(!content.hasReaders)
  }

  // MARK: Not stored

  /// Longest that a fetch runs ahead, in chunks.
  private static let window = Int(Content.windowBytes) / chunk

  @Test func whatAllHaveReadIsGivenUp() {
    let content = Content(announced: nil)
    #expect(content.attend(Self.reader(1), from: 0))
    #expect(content.attend(Self.reader(2), from: 0))
    _ = Self.write(content, 0..<4 * Self.chunk)
    content.giveUp()
    #expect(Self.drain(content, Self.reader(1)).bytes == Self.bytes(0..<4 * Self.chunk))
    // The slower one still needs all of it.
    #expect(content.attend(Self.reader(3), from: 0))
    _ = content.leave(Self.reader(3))
    #expect(Self.drain(content, Self.reader(2)).bytes == Self.bytes(0..<4 * Self.chunk))
    #expect(!content.attend(Self.reader(4), from: 0), "its beginning is gone")
    #expect(!content.attend(Self.reader(4), from: UInt64(Self.chunk)))
    #expect(content.attend(Self.reader(4), from: UInt64(4 * Self.chunk)))
    _ = Self.write(content, 4 * Self.chunk..<6 * Self.chunk)
    _ = content.finish()
    let rest = Self.bytes(4 * Self.chunk..<6 * Self.chunk)
    #expect(Self.drain(content, Self.reader(1), from: UInt64(4 * Self.chunk)) == (rest, .complete))
    #expect(Self.drain(content, Self.reader(2), from: UInt64(4 * Self.chunk)) == (rest, .complete))
    #expect(Self.drain(content, Self.reader(4), from: UInt64(4 * Self.chunk)) == (rest, .complete))
  }

  @Test func whatIsStoredIsKeptWhoeverHasReadIt() {
    let content = Content(announced: nil)
    #expect(content.attend(Self.reader(1), from: 0))
    let appended = Self.write(content, 0..<2 * Self.window * Self.chunk)
    #expect(!appended.waits, "a fetch that is stored waits for nobody")
    #expect(Self.drain(content, Self.reader(1)).end == .wait)
    #expect(content.attend(Self.reader(2), from: 0))
    #expect(Self.drain(content, Self.reader(2)).bytes == Self.bytes(0..<2 * Self.window * Self.chunk))
  }

  @Test func theSlowestHoldsTheFetchUp() {
    let content = Content(announced: nil)
    content.giveUp()
    #expect(content.attend(Self.reader(1), from: 0))
    #expect(content.attend(Self.reader(2), from: 0))
    #expect(!Self.write(content, 0..<Int(Content.windowBytes) - 1).waits)
    #expect(Self.write(content, Int(Content.windowBytes) - 1..<Int(Content.windowBytes)).waits)
    var buffer = ByteBuffer()
    // The faster one makes no room.
    #expect(!content.read(Self.reader(1), from: 0, most: 10, into: &buffer).wakesFetch)
    let first = content.read(Self.reader(2), from: 0, most: 5, into: &buffer)
    #expect(first == Content.Progress(read: .bytes(5), wakesFetch: true))
    #expect(!content.read(Self.reader(2), from: 5, most: 5, into: &buffer).wakesFetch, "it is woken once")
  }

  @Test func aFetchIsWokenWhereTheSlowestLeaves() {
    let content = Content(announced: nil)
    content.giveUp()
    #expect(content.attend(Self.reader(1), from: 0))
    #expect(content.attend(Self.reader(2), from: 0))
    #expect(Self.write(content, 0..<Int(Content.windowBytes)).waits)
    #expect(Self.drain(content, Self.reader(1)).bytes.count == Int(Content.windowBytes))
    #expect(content.leave(Self.reader(2)) == (false, true))
    #expect(content.leave(Self.reader(1)) == (true, false))
  }

  @Test func nobodyHoldsUpWhatIsComplete() {
    let content = Content(announced: nil)
    #expect(content.attend(Self.reader(1), from: 0))
    _ = Self.write(content, 0..<2 * Int(Content.windowBytes))
    _ = content.finish()
    content.giveUp()
    #expect(Self.drain(content, Self.reader(1)) == (Self.bytes(0..<2 * Int(Content.windowBytes)), .complete))
    #expect(content.leave(Self.reader(1)) == (false, false))
  }

  // MARK: Chance

  /// Readers that come, read and leave as chance has it see the bytes that were written, in their order.
  @Test(arguments: 1...16) func everyReaderSeesTheSame(_ seed: Int) {
    var chance = Seeded(state: UInt64(seed))
    let length = Int.random(in: 0...(8 * Self.chunk), using: &chance)
    let whole = Self.bytes(0..<length)
    let content = Content(announced: Bool.random(using: &chance) ? UInt64(length) : nil)
    struct Place {
      var offset: Int
      var waits = false
    }
    var places: [Int: Place] = [:]
    var written = 0
    var turns = 0
    while turns < 3000 {
      turns += 1
      switch Int.random(in: 0..<10, using: &chance) {
      case 0 where places.count < 5 && turns < 2000:
        let from = Int.random(in: 0...written, using: &chance)
        if content.attend(Self.reader(turns), from: UInt64(from)) { places[turns] = Place(offset: from) }
      case 1 where written < length:
        let count = Int.random(in: 1...min(length - written, 50_000), using: &chance)
        let told = Self.write(content, written..<written + count).readers
        let waiting = places.filter(\.value.waits).keys.sorted()
        #expect(told.map(\.slot).sorted() == waiting)
        for number in waiting { places[number]?.waits = false }
        written += count
        if written == length { _ = content.finish() }
      case 2 where turns % 50 == 0: content.giveUp()
      case 3 where turns % 20 == 0:
        if let number = places.keys.min() {
          places[number] = nil
          _ = content.leave(Self.reader(number))
        }
      default:
        guard let number = places.keys.randomElement(using: &chance), let place = places[number] else { continue }
        var buffer = ByteBuffer()
        let most = Int.random(in: 1...70_000, using: &chance)
        switch content.read(Self.reader(number), from: UInt64(place.offset), most: most, into: &buffer).read {
        case .bytes(let count):
          #expect(count > 0 && count <= most)
          #expect(buffer.bytes.array == Array(whole[place.offset..<place.offset + count]))
          places[number] = Place(offset: place.offset + count)
        case .wait:
          #expect(place.offset == written)
          places[number]?.waits = true
        case .complete: #expect(place.offset == length)
        case .load: Issue.record("seed \(seed), turn \(turns): there is no file")
        case .broken: Issue.record("seed \(seed), turn \(turns): bytes are gone that a reader needs")
        }
      }
    }
  }
}

// A stored answer in the role of an upstream that has already answered, or is about to. It is written as HTTP/1.1, so
// the rules, the checks and the writing of responses are the same as for any other upstream.

import Bytes
import Cache
import Session
import Transport

final class StoredStream: CarriedStream {
  let answer: StoredAnswer
  private let cache: SharedCache
  private let shared: SharedState
  private let reader: Content.Reader
  private var head = ByteBuffer()
  /// The next byte of the content, which may begin after the first byte of the representation.
  private var offset: UInt64
  /// The position after the last byte to send; nil: the end of the content.
  private let end: UInt64?
  private let isChunked: Bool
  private var isDone: Bool
  private var isClosed = false

  /// `slot`: that of the upstream in this role. nil if its content has been given up.
  init?(
    _ answer: StoredAnswer, for request: CacheRequest, of cache: SharedCache, slot: Int, _ worker: Worker
  ) {
    let length = answer.length
    let presentation = Presentation(of: answer.head, for: request, length: length)
    let isBodyless = request.method == .head || answer.head.status == 204
    self.answer = answer
    self.cache = cache
    shared = worker.shared
    reader = Content.Reader(worker: worker.index, slot: slot, generation: worker.generation(slot))
    guard answer.holds(presentation, for: request) else { return nil }
    let origin = answer.part?.offset ?? 0
    switch presentation {
    case .whole:
      offset = 0
      end = length
      isDone = isBodyless
    case .part(let range, _):
      offset = range.lowerBound - origin
      end = range.upperBound - origin
      isDone = false
    case .notModified, .unsatisfiable:
      offset = 0
      end = 0
      isDone = true
    }
    isChunked = presentation == .whole && length == nil && !isDone
    guard isDone || answer.content.attend(reader, from: offset) else { return nil }
    presentation.write(
      answer.head,
      age: answer.head.age(at: cache.time(wall: worker.workspace.wallMilliseconds, monotonic: worker.now)) ?? 0,
      length: length, to: &head)
  }

  var isOfThisProcess: Bool { true }

  func read(into buffer: inout ByteBuffer, atMost _: Int) -> Transfer {
    let before = buffer.count
    if !head.isEmpty {
      buffer.append(contentsOf: head)
      head = ByteBuffer()
    }
    while !isDone, buffer.tailRoom > Self.chunkOverhead, readPart(into: &buffer) {}
    let count = buffer.count - before
    cache.servedBytes.add(UInt64(count), ordering: .relaxed)
    if count > 0 { return .moved(count) }
    return breaks ? .failed(SystemError.connectionReset.number) : .wouldBlock
  }

  /// The content ends here without being complete.
  private var breaks = false

  /// Whether there may be more just now.
  private func readPart(into buffer: inout ByteBuffer) -> Bool {
    let end = self.end ?? .max
    if offset >= end {
      isDone = true
      return false
    }
    let room = min(buffer.tailRoom - Self.chunkOverhead, Content.chunkBytes)
    switch readContent(most: Int(min(UInt64(room), end - offset)), into: &buffer) {
    case .bytes(let count):
      offset += UInt64(count)
      return true
    case .wait: return false
    case .load(let chunks):
      cache.disk?.load(answer, chunks: chunks)
      return false
    case .complete:
      if isChunked {
        buffer.append("0\r\n")
        buffer.append(answer.content.trailers)
        buffer.append("\r\n")
      }
    case .broken: breaks = true
    }
    isDone = true
    return false
  }

  private func readContent(most: Int, into buffer: inout ByteBuffer) -> Content.Read {
    if !isChunked { return note(answer.content.read(reader, from: offset, most: most, into: &buffer)) }
    var chunk = ByteBuffer()
    let read = note(answer.content.read(reader, from: offset, most: most, into: &chunk))
    if case .bytes(let count) = read {
      buffer.append(hexadecimal: UInt64(count))
      buffer.append("\r\n")
      buffer.append(contentsOf: chunk)
      buffer.append("\r\n")
    }
    return read
  }

  // MARK: Without a copy

  /// The next bytes of the content as they are stored; nil: none are ready, or they are framed.
  func nextContent() -> (chunk: [UInt8], range: Range<Int>)? {
    guard head.isEmpty, !isDone, !isChunked, !isClosed, offset < end ?? .max else { return nil }
    switch answer.content.look(reader, offset) {
    case .chunk(let chunk, let from):
      return (chunk, from..<from + Int(min(UInt64(chunk.count - from), (end ?? .max) - offset)))
    case .load(let chunks):
      cache.disk?.load(answer, chunks: chunks)
      return nil
    case .ended: return nil
    }
  }

  /// This many of them have been sent.
  func took(_ count: Int) {
    offset += UInt64(count)
    if offset == end { isDone = true }
    cache.servedBytes.add(UInt64(count), ordering: .relaxed)
    if answer.content.advance(reader, to: offset) { answer.wakeFetch(shared.mailboxes) }
  }

  private func note(_ progress: Content.Progress) -> Content.Read {
    if progress.wakesFetch { answer.wakeFetch(shared.mailboxes) }
    return progress.read
  }

  /// The size line of a chunk, and the ends of its lines.
  private static let chunkOverhead = 24

  var hasMore: Bool {
    !isClosed && (!head.isEmpty || breaks || !isDone && (offset == end || !answer.content.waits(reader)))
  }

  func write(_ first: borrowing ByteBuffer, then second: Span<UInt8>) -> Transfer { .moved(first.count + second.count) }
  /// The fetch reports new bytes, and `hasMore` shows those that are there.
  func watch(_ interest: Interest?) {}
  var room: Int { .max }
  var isSilent: Bool { true }
  var wasRefused: Bool { false }
  var wasUnsent: Bool { false }
  func shutdownWrite() {}

  func close() {
    if isClosed { return }
    isClosed = true
    let left = answer.content.leave(reader)
    if left.isLast || left.wakesFetch { answer.wakeFetch(shared.mailboxes) }
  }

  func abort() { close() }
}

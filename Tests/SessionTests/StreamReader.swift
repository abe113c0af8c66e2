// What a peer that reads by the letter makes of the bytes that a session sends it: lines of heads, content, and every
// breach of the grammar. Chunks are put together again, for how they are cut depends on how bytes arrived.

import TestSupport

/// Reads one direction of one connection.
final class StreamReader {
  enum Side { case request, response }

  enum Item: Equatable {
    /// A line of a head, without CR LF.
    case line(String)
    case content([UInt8])
    case chunkedContent([UInt8])
    case trailer(String)
    case lastChunk
    /// Bytes of a tunnel.
    case raw([UInt8])
  }

  private enum State: Equatable {
    case head
    case length(Int)
    case chunkSize
    case chunk(Int)
    case chunkEnd
    case trailers
    case untilClose
    case raw
    case broken
  }

  private let side: Side
  private var state = State.head
  private var held: [UInt8] = []
  private(set) var items: [Item] = []
  private(set) var breaches: [String] = []
  /// Method of the request that a response answers.
  var method = "GET"

  init(_ side: Side) { self.side = side }

  func takeItems() -> [Item] {
    defer { items = [] }
    return items
  }

  /// Whether a message that has begun is not complete.
  var isWithinMessage: Bool { state != .raw && (state != .head || !held.isEmpty) }
  /// Whether the end of the connection is the end of the message.
  var endsWithConnection: Bool { state == .untilClose }

  /// From here the bytes are no HTTP any more.
  func becomeRaw() {
    if isWithinMessage, state != .raw { breach("the tunnel begins within a message") }
    state = .raw
  }

  private func breach(_ what: String) {
    breaches.append("\(side): \(what)")
    state = .broken
  }

  func feed(_ bytes: some Collection<UInt8>) {
    held += bytes
    while !held.isEmpty, step() {}
  }

  /// Takes one thing from the bytes; false where more is needed.
  private func step() -> Bool {
    switch state {
    case .head: return readHead()
    case .length(let left):
      let count = min(left, held.count)
      items.append(.content(take(count)))
      state = left == count ? .head : .length(left - count)
    case .untilClose: items.append(.content(take(held.count)))
    case .raw: items.append(.raw(take(held.count)))
    case .broken: held = []
    case .chunkSize: return readChunkSize()
    case .chunk(let left):
      let count = min(left, held.count)
      items.append(.chunkedContent(take(count)))
      state = left == count ? .chunkEnd : .chunk(left - count)
    case .chunkEnd:
      guard held.count >= 2 else { return false }
      if take(2) == [13, 10] { state = .chunkSize } else { breach("a chunk without CR LF behind it") }
    case .trailers: return readTrailers()
    }
    return true
  }

  private func take(_ count: Int) -> [UInt8] {
    let part = Array(held.prefix(count))
    held.removeFirst(count)
    return part
  }

  private func readHead() -> Bool {
    guard let end = StrictGrammar.endOfHead(held, from: 0) else {
      if held.count > 64 << 10 { breach("a head without an end") }
      return state == .broken
    }
    let bytes = take(end)
    guard let head = StrictGrammar.head(bytes) else {
      breach("a malformed head: \(shown(bytes))")
      return true
    }
    for line in bytes.split(separator: 10).dropLast() { items.append(.line(shown(Array(line.dropLast())))) }
    items.append(.line(""))
    if side == .request { begin(request: head) } else { begin(response: head) }
    return true
  }

  private func begin(request head: StrictHead) {
    let parts = head.startLine.split(separator: 32, omittingEmptySubsequences: false).map {
      String(decoding: $0, as: UTF8.self)
    }
    guard parts.count == 3, StrictGrammar.isToken(Array(parts[0].utf8)), parts[2] == "HTTP/1.1" else {
      return breach("a malformed request line")
    }
    let isAsterisk = parts[1] == "*" && parts[0] == "OPTIONS"
    if parts[1].utf8.first != 0x2f && !isAsterisk { breach("a target that no origin takes: \(parts[1])") }
    if head.values("host").count != 1 { breach("not one Host") }
    if head.values("via").isEmpty { breach("no Via") }
    checkHops(head)
    switch StrictGrammar.framing(head, isCurrent: true) {
    case nil: breach("a framing that contradicts itself")
    case "none", "0": return
    case "chunked": state = .chunkSize
    case let length?: state = Int(length).map { .length($0) } ?? .broken
    }
    if head.values("content-length").count > 1 { breach("more than one length") }
  }

  private func begin(response head: StrictHead) {
    let line = String(decoding: head.startLine, as: UTF8.self)
    let parts = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0] == "HTTP/1.1", parts[1].utf8.count == 3, let status = Int(parts[1]),
      status >= 100
    else { return breach("a malformed status line: \(line)") }
    checkHops(head)
    let framing = StrictGrammar.framing(head, isCurrent: true)
    if framing == nil { return breach("a framing that contradicts itself") }
    if head.values("content-length").count > 1 { return breach("more than one length") }
    if status == 101 || (method == "CONNECT" && status / 100 == 2) {
      state = .raw
      return
    }
    if status < 200 { return }
    if method == "HEAD" || status == 204 || status == 304 { return }
    switch framing {
    case "chunked": state = .chunkSize
    case "0": return
    case let length? where length != "none": state = Int(length).map { .length($0) } ?? .broken
    default:
      state = .untilClose
      if !head.values("connection").contains("close") {
        breach("a body until close, and no Connection: close")
      }
    }
  }

  /// Fields that may not pass a hop, but for those that the proxy writes for its own.
  private func checkHops(_ head: StrictHead) {
    for name in ["keep-alive", "proxy-connection", "proxy-authorization"] where !head.values(name).isEmpty {
      breach("\(name) passed the hop")
    }
    if head.values("connection").count > 1 { breach("more than one Connection") }
  }

  private func readChunkSize() -> Bool {
    guard let end = held.firstIndex(of: 10) else {
      if held.count > 20 { breach("a chunk size without an end") }
      return state == .broken
    }
    let line = take(end + 1).dropLast(2)
    guard !line.isEmpty, line.count <= 16,
      line.allSatisfy({ "0123456789abcdef".utf8.contains($0) }),
      let size = Int(String(decoding: line, as: UTF8.self), radix: 16)
    else {
      breach("a malformed chunk size: \(shown(Array(line)))")
      return true
    }
    state = size == 0 ? .trailers : .chunk(size)
    return true
  }

  private func readTrailers() -> Bool {
    guard let end = StrictGrammar.endOfHead(held, from: 0) else { return false }
    let bytes = take(end)
    guard StrictGrammar.trailers(bytes) != nil else {
      breach("malformed trailers: \(shown(bytes))")
      return true
    }
    items.append(.lastChunk)
    for line in bytes.split(separator: 10).dropLast() {
      items.append(.trailer(shown(Array(line.dropLast()))))
    }
    state = .head
    return true
  }
}

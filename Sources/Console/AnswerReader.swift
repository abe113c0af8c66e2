// Reads answers of the admin API from one kept connection as their bytes arrive (RFC 9112): status and content.
// Tests: AnswerReaderTests.

public struct AnswerReader: Sendable {
  /// One whole answer.
  public struct Answer: Equatable, Sendable {
    public let status: Int
    public let content: [UInt8]
    /// The daemon closes the connection after it.
    public let isLast: Bool
  }

  public enum Progress: Equatable, Sendable {
    case incomplete
    case answer(Answer)
    /// What arrived is not an answer of the daemon.
    case fault(String)
  }

  /// The most bytes of one answer. A page of a thousand connections for each of sixteen loops has about a third of
  /// that.
  public static let mostBytes = 24 << 20
  /// The daemon's heads have a few lines.
  static let mostHeadBytes = 8 << 10

  private var bytes: [UInt8] = []
  /// From the head that has been read.
  private var head: (status: Int, length: Int, isLast: Bool)?

  public init() {}

  public mutating func take(_ more: [UInt8]) { bytes += more }

  /// The next complete answer.
  public mutating func next() -> Progress {
    if head == nil {
      guard let end = endOfHead else {
        return bytes.count > Self.mostHeadBytes ? .fault("the head of its answer does not end") : .incomplete
      }
      guard let read = Self.read(String(decoding: bytes[..<end], as: UTF8.self)) else {
        return .fault("its answer is no HTTP")
      }
      head = read
      bytes.removeFirst(end)
    }
    guard let head else { return .incomplete }
    if head.length > Self.mostBytes { return .fault("its answer has more than \(Self.mostBytes >> 20) MiB") }
    guard bytes.count >= head.length else { return .incomplete }
    let answer = Answer(status: head.status, content: Array(bytes[..<head.length]), isLast: head.isLast)
    bytes.removeFirst(head.length)
    self.head = nil
    return .answer(answer)
  }

  private var endOfHead: Int? {
    let end: [UInt8] = [0x0d, 0x0a, 0x0d, 0x0a]
    guard bytes.count >= end.count else { return nil }
    let last = min(bytes.count, Self.mostHeadBytes) - end.count
    return (0...max(0, last)).first { bytes[$0..<$0 + end.count].elementsEqual(end) }.map { $0 + end.count }
  }

  private static func read(_ head: String) -> (status: Int, length: Int, isLast: Bool)? {
    let lines = head.split(separator: "\r\n")
    guard let first = lines.first, first.hasPrefix("HTTP/1.1 "), let status = Int(first.dropFirst(9).prefix(3)) else {
      return nil
    }
    var length: Int? = nil
    var isLast = false
    for line in lines.dropFirst() {
      let parts = line.split(separator: ":", maxSplits: 1)
      guard parts.count == 2 else { continue }
      let value = parts[1].drop { $0 == " " }
      switch parts[0].lowercased() {
      case "content-length": length = Int(value)
      case "connection": isLast = value.lowercased() == "close"
      default: break
      }
    }
    return length.map { (status, max(0, $0), isLast) }
  }
}

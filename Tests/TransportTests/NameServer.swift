// A name server for tests: it hears what the resolver asks, on UDP and loopback, and answers as the test says.

import Glibc
import TestSupport
import Testing

@testable import Transport

/// A question as it arrived.
struct Question: Equatable, Sendable {
  enum Kind: UInt16, Sendable { case a = 1, aaaa = 28 }

  let id: UInt16
  let name: String
  let kind: Kind
  /// The question section, for the reply repeats it.
  fileprivate let section: [UInt8]
  fileprivate let port: UInt16
}

/// One record of a reply. Its name is that of the question, or of the alias before it.
enum ResourceRecord: Sendable {
  case a(UInt32, ttl: UInt32)
  case aaaa(high: UInt64, low: UInt64, ttl: UInt32)
  /// What follows belongs to `name`.
  case cname(String, ttl: UInt32)
}

enum Reply: Sendable {
  case records([ResourceRecord])
  /// NOERROR with nothing in it.
  case noData
  case code(UInt8)
  /// As a spoofer would: another id, another address.
  case wrongID
  case silence

  static let notFound = Reply.code(3)
  static let serverFailure = Reply.code(2)
  static let refused = Reply.code(5)
}

final class NameServer {
  private let socket: Int32
  let port: UInt16
  private(set) var questions: [Question] = []

  var descriptor: Descriptor { Descriptor(number: socket) }
  /// As `[dns] servers` has it.
  var address: String { "127.0.0.1:\(port)" }

  init() throws {
    let socket = Glibc.socket(AF_INET, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    try #require(socket >= 0)
    var address = Self.loopback(port: 0)
    let bound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    try #require(bound == 0)
    port = try #require(Descriptor(number: socket).localAddress).port
    self.socket = socket
  }

  deinit { Glibc.close(socket) }

  private static func loopback(port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    return address
  }

  /// How often `name` was asked for.
  func count(of name: String, _ kind: Question.Kind? = nil) -> Int {
    questions.filter { $0.name == name && (kind == nil || $0.kind == kind) }.count
  }

  /// The next question that has arrived.
  func receive() -> Question? {
    var bytes = [UInt8](repeating: 0, count: 2048)
    var from = sockaddr_in()
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let count = withUnsafeMutablePointer(to: &from) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        recvfrom(socket, &bytes, bytes.count, 0, $0, &length)
      }
    }
    guard count >= 12 else { return nil }
    var at = 12
    var labels: [String] = []
    while at < count, bytes[at] != 0 {
      let size = Int(bytes[at])
      labels.append(String(decoding: bytes[at + 1..<at + 1 + size], as: UTF8.self))
      at += size + 1
    }
    let type = UInt16(bytes[at + 1]) << 8 | UInt16(bytes[at + 2])
    guard let kind = Question.Kind(rawValue: type) else { return nil }
    let question = Question(
      id: UInt16(bytes[0]) << 8 | UInt16(bytes[1]), name: labels.joined(separator: "."), kind: kind,
      section: Array(bytes[12..<at + 5]), port: UInt16(bigEndian: from.sin_port))
    questions.append(question)
    return question
  }

  func answer(_ question: Question, _ reply: Reply) {
    switch reply {
    case .silence: return
    case .records(let records): send(question, code: 0, records)
    case .noData: send(question, code: 0, [])
    case .code(let code): send(question, code: code, [])
    case .wrongID: send(question, code: 0, [.a(0x0606_0606, ttl: 60)], id: question.id ^ 1)
    }
  }

  private func send(_ question: Question, code: UInt8, _ records: [ResourceRecord], id: UInt16? = nil) {
    func pair(_ value: UInt16) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xff)] }
    func quad(_ value: UInt32) -> [UInt8] { pair(UInt16(value >> 16)) + pair(UInt16(value & 0xffff)) }
    func octad(_ value: UInt64) -> [UInt8] { quad(UInt32(value >> 32)) + quad(UInt32(value & 0xffff_ffff)) }
    func encoded(_ name: String) -> [UInt8] {
      name.split(separator: ".").flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) } + [0]
    }
    var bytes =
      pair(id ?? question.id) + [0x81, 0x80 | code] + pair(1) + pair(UInt16(records.count)) + pair(0)
      + pair(0)
    bytes += question.section
    var owner = encoded(question.name)
    for record in records {
      bytes += owner
      switch record {
      case .a(let address, let ttl): bytes += pair(1) + pair(1) + quad(ttl) + pair(4) + quad(address)
      case .aaaa(let high, let low, let ttl):
        bytes += pair(28) + pair(1) + quad(ttl) + pair(16) + octad(high) + octad(low)
      case .cname(let name, let ttl):
        let target = encoded(name)
        bytes += pair(5) + pair(1) + quad(ttl) + pair(UInt16(target.count)) + target
        owner = target
      }
    }
    var to = Self.loopback(port: question.port)
    _ = withUnsafePointer(to: &to) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        sendto(socket, bytes, bytes.count, 0, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }

  /// Serves until `answers` have come, and answers them; fewer where they do not come.
  func serve(_ mailbox: Mailbox<NameAnswer>, answers: Int = 1, _ reply: (Question) -> Reply) -> [NameAnswer] {
    let poller = Poller()
    guard poller.add(descriptor, .read, data: 1), poller.add(mailbox.descriptor, .read, data: 2) else {
      return []
    }
    var seen: [NameAnswer] = []
    while seen.count < answers, poller.wait(milliseconds: patienceMilliseconds) > 0 {
      while let question = receive() { answer(question, reply(question)) }
      seen += mailbox.takeAll()
    }
    return seen
  }
}

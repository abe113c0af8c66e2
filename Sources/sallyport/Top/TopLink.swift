// The connection of `sallyport top` to the daemon. There is one, kept open, with one request at a time, and it is
// opened again if it was lost. Only `waits` waits. Tests: test_top.py.

import Bytes
import Console
import Transport

struct TopLink {
  /// What is asked: for the view, or by the person at the keyboard.
  enum Question: Equatable {
    case poll(TopResource)
    case person(TopRequest)
  }

  enum Happening {
    case answer(Question, AnswerReader.Answer)
    case lost(String)
  }

  private struct Sent {
    let question: Question
    let deadline: Int64
    /// The connection has carried an answer before, so the daemon may have closed it while it was idle.
    let isOnKept: Bool
  }

  /// How many requests a person may make before the first is answered: keys repeat.
  private static let mostWaiting = 16

  private let socket: String
  private var connection: LocalConnection?
  private var hasAnswered = false
  private var reader = AnswerReader()
  private var waiting: [Question] = []
  private var sent: Sent?

  init(_ socket: String) { self.socket = socket }

  var isIdle: Bool { sent == nil && waiting.isEmpty }
  var deadline: Int64? { sent?.deadline }

  /// Opens the connection. Returns the error, if any.
  mutating func open() -> SystemError? {
    switch LocalConnection.open(socket) {
    case .failure(let error): return error
    case .success(let opened):
      connection = opened
      reader = AnswerReader()
      hasAnswered = false
      return nil
    }
  }

  /// Closes the connection and forgets what was asked.
  mutating func drop() {
    close()
    waiting = []
    sent = nil
  }

  private mutating func close() {
    connection?.close()
    connection = nil
  }

  /// What a person asks comes first.
  mutating func add(_ question: Question) {
    if case .person = question {
      let persons = waiting.prefix { if case .person = $0 { true } else { false } }.count
      if persons < Self.mostWaiting { waiting.insert(question, at: persons) }
    } else {
      waiting.append(question)
    }
  }

  /// The view has changed: what was still to be asked for the previous one is not needed.
  mutating func forgetPolls() { waiting.removeAll { if case .poll = $0 { true } else { false } } }

  /// Sends the next question if none is under way. Returns why that was not possible.
  mutating func sendNext() -> String? {
    guard sent == nil, let question = waiting.first else { return nil }
    waiting.removeFirst()
    return send(question)
  }

  private mutating func send(_ question: Question) -> String? {
    if connection == nil, let error = open() { return "cannot reach the daemon at \(socket): \(error)" }
    guard let connection else { return nil }
    let (method, path, form) =
      switch question {
      case .poll(let resource): ("GET", resource.path, "application/json")
      case .person(let request): (request.method, request.path, "text/plain")
      }
    sent = Sent(
      question: question, deadline: Clock.monotonic + Int64(AdminExchange.answerMilliseconds), isOnKept: hasAnswered)
    if connection.send("\(method) \(path) HTTP/1.1\r\nHost: sallyport\r\nAccept: \(form)\r\n\r\n") { return nil }
    return retried() ? nil : "the daemon closed the connection"
  }

  /// If the daemon had already closed the connection, asks again over a new one. Requests that change something are not
  /// repeated.
  private mutating func retried() -> Bool {
    guard let lost = sent, lost.isOnKept else { return false }
    if case .person(let request) = lost.question, request.method != "GET" { return false }
    close()
    sent = nil
    hasAnswered = false
    return send(lost.question) == nil
  }

  /// Waits for an answer, or until `input` can be read, at most this long.
  func waits(for input: Descriptor, milliseconds: Int32) -> (connection: Bool, other: Bool) {
    connection?.waits(orFor: input, milliseconds: milliseconds)
      ?? (false, Poll.readable(input, milliseconds: milliseconds))
  }

  /// Processes what has arrived.
  mutating func receive() -> [Happening] {
    guard let connection else { return [] }
    var buffer = ByteBuffer()
    guard connection.receive(into: &buffer) else {
      if sent == nil {
        close()
        return []
      }
      return retried() ? [] : [.lost("the daemon closed the connection")]
    }
    reader.take(buffer.bytes.array)
    switch reader.next() {
    case .incomplete: return []
    case .fault(let fault): return [.lost(fault)]
    case .answer(let answer):
      guard let question = sent?.question else { return [.lost("the daemon answered what was not asked")] }
      sent = nil
      hasAnswered = true
      if answer.isLast { close() }
      return [.answer(question, answer)]
    }
  }

  func timeOuts(_ now: Int64) -> [Happening] {
    guard let deadline, deadline <= now else { return [] }
    return [.lost("no answer within \(AdminExchange.answerMilliseconds / 1000) s")]
  }
}

// Answers on a kept connection, in any pieces.

import Testing

@testable import Console

@Suite struct AnswerReaderTests {
  private let two =
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 404 No\r\ncontent-length:0\r\nConnection: close\r\n\r\n"

  @Test func answersComeInAnyPieces() {
    for size in [1, 2, 7, 1000] {
      var reader = AnswerReader()
      var answers: [AnswerReader.Answer] = []
      var rest = Array(two.utf8)[...]
      while !rest.isEmpty {
        reader.take(Array(rest.prefix(size)))
        rest = rest.dropFirst(size)
        while case .answer(let answer) = reader.next() { answers.append(answer) }
      }
      #expect(
        answers == [
          AnswerReader.Answer(status: 200, content: Array("hello".utf8), isLast: false),
          AnswerReader.Answer(status: 404, content: [], isLast: true),
        ], "\(size)")
    }
  }

  @Test func whatIsNoAnswerIsAFault() {
    for text in [
      "SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    ] {
      var reader = AnswerReader()
      reader.take(Array(text.utf8))
      if case .fault = reader.next() { continue }
      Issue.record("\(text) was taken")
    }
  }

  @Test func aHeadThatDoesNotEndIsAFault() {
    var reader = AnswerReader()
    reader.take([UInt8](repeating: 0x41, count: AnswerReader.mostHeadBytes))
    #expect(reader.next() == .incomplete)
    reader.take([0x41])
    if case .fault = reader.next() { return }
    Issue.record("it was taken")
  }
}

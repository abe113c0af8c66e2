// Questions are put once for all who ask the same, and go with the last of them.

import Bytes
import Policy
import Sharing
import Testing

@testable import Asking

@Suite struct QuestionBoardTests {
  private func request(_ path: String, user: UInt32 = 1000, host: String = "a.example") -> AskedRequest {
    let method = Array("GET".utf8)
    let bytes = Array(path.utf8)
    var workspace = DecisionWorkspace()
    _ = workspace.host.set(Array(host.utf8).span)
    return AskedRequest(
      RequestFacts(
        scheme: .https, port: 443, method: method.span, path: bytes.span, isTunnel: false,
        sender: Sender(client: LocalClient(userID: user, user: "u\(user)", cgroup: ["x.service"]))), in: workspace)
  }

  private func question(_ reference: String, _ request: AskedRequest, wall: Int64 = 0) -> OpenQuestion {
    OpenQuestion(
      reference: reference, request: request, program: nil, rule: "ask", place: "p:1", connect: nil, terms: AskTerms(),
      asker: .user(request.userID ?? 0), wall: wall)
  }

  private func waiter(_ slot: Int) -> QuestionWaiter {
    QuestionWaiter(worker: 0, slot: slot, generation: 1, exchange: 1)
  }

  @Test func whoAsksTheSameJoins() {
    var board = QuestionBoard()
    #expect(board.ask(question("AAAAAA", request("/users/17")), waiter(1)) == .put)
    #expect(board.ask(question("BBBBBB", request("/users/18"), wall: 500), waiter(2)) == .joined)
    #expect(board.ask(question("CCCCCC", request("/other")), waiter(3)) == .put)
    #expect(board.ask(question("DDDDDD", request("/users/17", user: 1001)), waiter(4)) == .put)
    #expect(board.all.map(\.reference) == ["AAAAAA", "CCCCCC", "DDDDDD"])
    #expect(board.question("AAAAAA")?.waiting == 2)
    #expect(board.question("AAAAAA")?.until == 30_500)
    #expect(board.question("BBBBBB") == nil)
  }

  @Test func answersReleaseInTheOrderOfArrival() throws {
    var board = QuestionBoard()
    for slot in 0..<1000 { _ = board.ask(question("AAAAA\(slot % 10)", request("/x")), waiter(slot)) }
    #expect(board.all.count == 1)
    let found = board.take("AAAAA0")
    let taken = try #require(found)
    #expect(taken.waiters.map(\.slot) == Array(0..<1000))
    #expect(board.waiting == 0 && board.all.isEmpty)
    #expect(board.take("AAAAA0") == nil)
    #expect(board.leave(waiter(5)) == nil)
  }

  @Test func theQuestionGoesWithTheLastWhoLeaves() {
    var board = QuestionBoard()
    _ = board.ask(question("AAAAAA", request("/x")), waiter(1))
    _ = board.ask(question("BBBBBB", request("/x")), waiter(2))
    #expect(board.leave(waiter(1)) == nil)
    #expect(board.question("AAAAAA")?.waiting == 1)
    #expect(board.leave(waiter(2))?.reference == "AAAAAA")
    #expect(board.all.isEmpty)
    #expect(board.ask(question("BBBBBB", request("/x")), waiter(1)) == .put)
  }

  @Test func oneClientLeavesRoomForOthers() {
    var board = QuestionBoard()
    for number in 0..<QuestionBoard.mostOfOneClient {
      #expect(board.ask(question("R\(number)", request("/p", host: "h\(number).example")), waiter(number)) == .put)
    }
    #expect(board.ask(question("X", request("/p", host: "z.example")), waiter(9999)) == .full(ofClient: true))
    #expect(board.ask(question("Y", request("/p", user: 7, host: "z.example")), waiter(9998)) == .put)
    _ = board.leave(waiter(0))
    #expect(board.ask(question("X", request("/p", host: "z2.example")), waiter(9999)) == .put)
  }
}

@Suite struct AnswerBookTests {
  private func rule(_ id: Int, host: String = "a.example", until: Int64 = 100) -> TemporaryRule {
    guard case .success(let host) = HostPattern.parse(host) else { fatalError(host) }
    return TemporaryRule(id: id, verdict: .allow, host: host, since: 0, until: until, by: "root")
  }

  @Test func rulesEndByThemselves() {
    var book = AnswerBook()
    _ = book.add(isRemembered: false, at: 0) { rule($0, host: "a.example", until: 10) }
    _ = book.add(isRemembered: false, at: 0) { rule($0, host: "b.example", until: 20) }
    #expect(book.all(at: 5).map(\.id) == [1, 2])
    #expect(book.all(at: 10).map(\.id) == [2])
    #expect(book.revoke(1, at: 15) == nil)
    #expect(book.revoke(2, at: 15)?.id == 2)
    #expect(book.all(at: 0).isEmpty)
  }

  @Test func theNewerAnswerTakesThePlaceOfTheOlder() {
    var book = AnswerBook()
    _ = book.add(isRemembered: true, at: 0) { rule($0) }
    _ = book.add(isRemembered: false, at: 0) { rule($0, until: 500) }
    #expect(book.all(at: 0).map(\.id) == [2])
  }

  @Test func rememberedAnswersMakeWay() {
    var book = AnswerBook()
    _ = book.add(isRemembered: true, at: 0) { rule($0, host: "first.example") }
    for number in 1..<AnswerBook.mostRules {
      _ = book.add(isRemembered: false, at: 0) { rule($0, host: "h\(number).example") }
    }
    #expect(book.add(isRemembered: false, at: 0) { rule($0, host: "more.example") } != nil)
    #expect(book.add(isRemembered: false, at: 0) { rule($0, host: "evenmore.example") } == nil)
    #expect(book.all(at: 0).count == AnswerBook.mostRules)
  }

  @Test func numbersGoOnAfterARestart() {
    var book = AnswerBook(TemporaryRuleFile.Content(rules: [rule(7)], next: 8))
    #expect(book.add(isRemembered: false, at: 0) { rule($0, host: "b.example") }?.id == 8)
  }
}

// The questions that wait for an operator, and who waits for each: requests that ask the same are one question. Without I/O;
// time is handed in. The server keeps one board for all loops (Server/Asking). Tests: QuestionBoardTests.

import Bytes
import Policy
import Sharing

/// A request that waits, by its place in a loop.
public struct QuestionWaiter: Hashable, Sendable {
  public let worker: Int
  public let slot: Int
  public let generation: UInt32
  /// Value of the reference of the exchange: a connection carries one after another.
  public let exchange: UInt32

  public init(worker: Int, slot: Int, generation: UInt32, exchange: UInt32) {
    self.worker = worker
    self.slot = slot
    self.generation = generation
    self.exchange = exchange
  }
}

/// What an operator is asked.
public struct OpenQuestion: Sendable {
  /// Of the request that asked first.
  public let reference: String
  public let request: AskedRequest
  /// Path of the program that asked first; nil: not known.
  public let program: String?
  /// The rule that asks, and its place.
  public let rule: String
  public let place: String
  /// How the rule treats a tunnel; nil: it does not say.
  public let connect: ConnectTreatment?
  /// How long an answer of "once" holds for the same question.
  public let rememberMilliseconds: Int64
  /// Milliseconds since 1970.
  public let since: Int64
  /// When the last of those who wait gives up, if nobody else comes.
  public fileprivate(set) var until: Int64
  /// Those who wait, by when they came.
  fileprivate var waiters: [QuestionWaiter: Int] = [:]
  fileprivate let asker: Claimant
  /// What has to be known of the question before it is put.
  public init(
    reference: String, request: AskedRequest, program: String?, rule: String, place: String,
    connect: ConnectTreatment?, terms: AskTerms, asker: Claimant, wall: Int64
  ) {
    self.reference = reference
    self.request = request
    self.program = program
    self.rule = rule
    self.place = place
    self.connect = connect
    self.asker = asker
    rememberMilliseconds = terms.rememberMilliseconds
    since = wall
    until = wall + terms.waitMilliseconds
  }

  public var waiting: Int { waiters.count }
}

public struct QuestionBoard: Sendable {
  /// Questions at once: as many as a person can look through. Each is a few KiB at most, by the longest path of a rule.
  public static let mostQuestions = 1024
  /// Of these, those of one client: it leaves room for the others.
  public static let mostOfOneClient = 256

  /// What came of asking.
  public enum Asked: Equatable, Sendable {
    /// Another request asks the same already.
    case joined
    case put
    /// There are as many as may be.
    case full(ofClient: Bool)
  }

  private var questions: [AskedRequest: OpenQuestion] = [:]
  private var references: [String: AskedRequest] = [:]
  private var asked: [QuestionWaiter: AskedRequest] = [:]
  private var shares = Shares<Claimant>()
  private var arrivals = 0

  public init() {}

  public var waiting: Int { asked.count }
  /// The oldest first.
  public var all: [OpenQuestion] { questions.values.sorted { ($0.since, $0.reference) < ($1.since, $1.reference) } }

  /// A request asks, and waits.
  public mutating func ask(_ question: OpenQuestion, _ waiter: QuestionWaiter) -> Asked {
    precondition(asked[waiter] == nil, "a request asks two questions")
    arrivals += 1
    if let until = questions[question.request]?.until {
      questions[question.request]?.waiters[waiter] = arrivals
      questions[question.request]?.until = max(until, question.until)
      asked[waiter] = question.request
      return .joined
    }
    if questions.count >= Self.mostQuestions { return .full(ofClient: false) }
    if shares.held(by: question.asker) >= Self.mostOfOneClient { return .full(ofClient: true) }
    shares.take(for: question.asker)
    var question = question
    question.waiters = [waiter: arrivals]
    questions[question.request] = question
    references[question.reference] = question.request
    asked[waiter] = question.request
    return .put
  }

  /// The request waits no more: it is answered, its time is over, or its client has left. The question that ends with it, for
  /// nobody else asks it.
  public mutating func leave(_ waiter: QuestionWaiter) -> OpenQuestion? {
    guard let request = asked.removeValue(forKey: waiter) else { return nil }
    questions[request]?.waiters[waiter] = nil
    guard let question = questions[request], question.waiters.isEmpty else { return nil }
    return end(request)
  }

  /// The question that is named by the reference of the request that asked first.
  public func question(_ reference: String) -> OpenQuestion? { references[reference].flatMap { questions[$0] } }

  /// A question that was answered, and those who waited for it, in the order in which they came.
  public typealias Taken = (question: OpenQuestion, waiters: [QuestionWaiter])

  /// Answered: the question goes, with all who wait for it.
  public mutating func take(_ reference: String) -> Taken? {
    guard let request = references[reference], let question = end(request) else { return nil }
    let waiters = question.waiters.sorted { $0.value < $1.value }.map(\.key)
    for waiter in waiters { asked[waiter] = nil }
    return (question, waiters)
  }

  private mutating func end(_ request: AskedRequest) -> OpenQuestion? {
    guard let question = questions.removeValue(forKey: request) else { return nil }
    references[question.reference] = nil
    shares.giveBack(of: question.asker)
    return question
  }
}

// The questions that wait for an operator, and the requests that wait for each. Requests that ask the same are one
// question. No I/O; the caller passes the time. The server keeps one board for all loops (Server/Asking).
// Tests: QuestionBoardTests.

import Bytes
import Policy
import Sharing

/// A waiting request, by its place in a loop.
public struct QuestionWaiter: Hashable, Sendable {
  public let worker: Int
  public let slot: Int
  public let generation: UInt32
  /// The value of the exchange's reference: a connection carries one exchange after another.
  public let exchange: UInt32

  public init(worker: Int, slot: Int, generation: UInt32, exchange: UInt32) {
    self.worker = worker
    self.slot = slot
    self.generation = generation
    self.exchange = exchange
  }
}

/// The question for an operator.
public struct OpenQuestion: Sendable {
  /// The reference of the request that asked first.
  public let reference: String
  public let request: AskedRequest
  /// The path of the program that asked first; nil: not known.
  public let program: String?
  /// The rule that asks, and its place.
  public let rule: String
  public let place: String
  /// How the rule treats a tunnel; nil: not specified.
  public let connect: ConnectTreatment?
  /// How long an answer of "once" also applies to the same question.
  public let rememberMilliseconds: Int64
  /// Milliseconds since 1970.
  public let since: Int64
  /// When the last of the waiting requests gives up, if no other joins.
  public fileprivate(set) var until: Int64
  /// How many requests wait for the answer.
  public fileprivate(set) var waiting = 0
  fileprivate let asker: Claimant
  /// Everything that must be known before the question is put.
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
}

public struct QuestionBoard: Sendable {
  /// The most questions at once: as many as a person can read through. The longest path of a rule limits each to a few
  /// KiB.
  public static let mostQuestions = 1024
  /// The most questions of one client, which leaves room for the others.
  public static let mostOfOneClient = 256

  /// The result of asking.
  public enum Asked: Equatable, Sendable {
    /// Another request already asks the same.
    case joined
    case put
    /// There is no room for another one.
    case full(ofClient: Bool)
  }

  /// A question with those who wait for it. Whoever is shown the question gets no share of the table of waiters.
  private struct Open: Sendable {
    var question: OpenQuestion
    /// By order of arrival.
    private var arrivals: [QuestionWaiter: Int] = [:]

    init(_ question: OpenQuestion) { self.question = question }

    mutating func join(_ waiter: QuestionWaiter, as arrival: Int) {
      arrivals[waiter] = arrival
      question.waiting = arrivals.count
    }

    mutating func leave(_ waiter: QuestionWaiter) {
      arrivals[waiter] = nil
      question.waiting = arrivals.count
    }

    var waiters: [QuestionWaiter] { arrivals.sorted { $0.value < $1.value }.map(\.key) }
  }

  private var questions: [AskedRequest: Open] = [:]
  private var references: [String: AskedRequest] = [:]
  private var asked: [QuestionWaiter: AskedRequest] = [:]
  private var shares = Shares<Claimant>()
  private var arrivals = 0

  public init() {}

  public var waiting: Int { asked.count }
  /// The oldest first.
  public var all: [OpenQuestion] {
    questions.values.map(\.question).sorted { ($0.since, $0.reference) < ($1.since, $1.reference) }
  }

  /// A request asks and waits.
  public mutating func ask(_ question: OpenQuestion, _ waiter: QuestionWaiter) -> Asked {
    precondition(asked[waiter] == nil, "a request asks two questions")
    arrivals += 1
    if let until = questions[question.request]?.question.until {
      questions[question.request]?.join(waiter, as: arrivals)
      questions[question.request]?.question.until = max(until, question.until)
      asked[waiter] = question.request
      return .joined
    }
    if questions.count >= Self.mostQuestions { return .full(ofClient: false) }
    if shares.held(by: question.asker) >= Self.mostOfOneClient { return .full(ofClient: true) }
    shares.take(for: question.asker)
    var open = Open(question)
    open.join(waiter, as: arrivals)
    questions[question.request] = open
    references[question.reference] = question.request
    asked[waiter] = question.request
    return .put
  }

  /// The request no longer waits: it is answered, its time is over, or its client has left. Returns the question if
  /// this ends it, because no other request asks it.
  public mutating func leave(_ waiter: QuestionWaiter) -> OpenQuestion? {
    guard let request = asked.removeValue(forKey: waiter) else { return nil }
    questions[request]?.leave(waiter)
    return questions[request]?.question.waiting == 0 ? end(request)?.question : nil
  }

  /// The question with the reference of the request that asked first.
  public func question(_ reference: String) -> OpenQuestion? {
    references[reference].flatMap { questions[$0]?.question }
  }

  /// A question that was answered, and the requests that waited for it, in order of arrival.
  public typealias Taken = (question: OpenQuestion, waiters: [QuestionWaiter])

  /// The question is answered: removes it with all waiting requests.
  public mutating func take(_ reference: String) -> Taken? {
    guard let request = references[reference], let open = end(request) else { return nil }
    let waiters = open.waiters
    for waiter in waiters { asked[waiter] = nil }
    return (open.question, waiters)
  }

  private mutating func end(_ request: AskedRequest) -> Open? {
    guard let open = questions.removeValue(forKey: request) else { return nil }
    references[open.question.reference] = nil
    shares.giveBack(of: open.question.asker)
    return open
  }
}

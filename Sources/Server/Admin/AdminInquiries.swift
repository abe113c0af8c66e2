// The questions that wait for answers, each for one client of the admin API: to the loops, whose page is made once the
// last has answered, and to the daemon, which may have to look up a name first. Tests: test_admin_*.py.

final class AdminInquiries {
  private struct Inquiry {
    let connection: AdminConnection
    let page: Page
    var answers: [Answer] = []
    /// Workers that have yet to answer.
    var awaited: Set<Int> = []
  }

  private enum Page {
    case ofAnswers(([Answer]) -> AdminPage)
    case ofReport((ReachabilityReport) -> AdminPage)
  }

  /// A page that is ready, and whose it is.
  typealias Outcome = (connection: AdminConnection, page: AdminPage)

  private unowned let host: any AdminHost
  private var inquiries: [UInt64: Inquiry] = [:]
  private var lastNumber: UInt64 = 0
  /// Workers whose loop runs, and the counts of those that have ended.
  private(set) var workers: Set<Int>
  private(set) var counted: Statistics? = nil

  init(host: any AdminHost, workers: Int) {
    self.host = host
    self.workers = Set(0..<workers)
  }

  /// Asks every loop. `page` is called with their answers.
  func ask(_ question: Question, for connection: AdminConnection, page: @escaping ([Answer]) -> AdminPage) {
    if workers.isEmpty { return connection.write(page([])) }
    lastNumber += 1
    inquiries[lastNumber] = Inquiry(connection: connection, page: .ofAnswers(page), awaited: workers)
    connection.await()
    host.ask(question, inquiry: lastNumber)
  }

  /// Asks the daemon how the machine is reached, and the host `name` if given.
  func askReachability(
    of name: String?, for connection: AdminConnection, page: @escaping (ReachabilityReport) -> AdminPage
  ) {
    lastNumber += 1
    if let report = host.reachability(of: name, inquiry: lastNumber) { return connection.write(page(report)) }
    inquiries[lastNumber] = Inquiry(connection: connection, page: .ofReport(page))
    connection.await()
  }

  /// A loop has answered.
  func answered(_ worker: Int, _ answer: Answer, inquiry number: UInt64) -> Outcome? {
    inquiries[number]?.answers.append(answer)
    inquiries[number]?.awaited.remove(worker)
    guard let inquiry = inquiries[number], inquiry.awaited.isEmpty, case .ofAnswers(let page) = inquiry.page else {
      return nil
    }
    inquiries[number] = nil
    return (inquiry.connection, page(inquiry.answers))
  }

  /// The daemon has found out what it could not say at once.
  func answered(_ report: ReachabilityReport, inquiry number: UInt64) -> Outcome? {
    guard let inquiry = inquiries.removeValue(forKey: number), case .ofReport(let page) = inquiry.page else {
      return nil
    }
    return (inquiry.connection, page(report))
  }

  /// A loop has ended. Its counts are its answer to every question that waits for one.
  func workerLeft(_ worker: Int, _ statistics: Statistics) -> [Outcome] {
    workers.remove(worker)
    if counted == nil { counted = statistics } else { counted?.add(statistics) }
    return inquiries.keys.sorted().filter { inquiries[$0]?.awaited.contains(worker) ?? false }
      .compactMap { answered(worker, .statistics(statistics), inquiry: $0) }
  }
}

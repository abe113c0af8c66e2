// sallyport top: handles the terminal and the daemon's socket at once. One thread waits for a key, an answer or the
// next time to ask. Console decides what is shown and what a key does. Tests: test_top.py.

import CNcurses
import Console
import Policy
import Transport

nonisolated func topCommand(_ arguments: Arguments) throws -> Int32 {
  try arguments.refuseOperands()
  let interval = try TopInterval.read(arguments.values["interval"])
  guard cn_is_terminal() else {
    Output.complain(
      "sallyport: 'top' needs a terminal for its input and output; 'sallyport status' prints a page, and 'sallyport events' "
        + "what happens\n")
    return 1
  }
  let options = AdminOptions(arguments)
  let socket = options.socketPath
  var link = TopLink(socket)
  if let error = link.open() {
    Output.complain("sallyport: \(options.absence(error, at: socket))\n")
    return 1
  }
  guard cn_start() else {
    Output.complain(
      "sallyport: the terminal that TERM names cannot show it: it is not known here, or cannot place the cursor; set TERM "
        + "to what it is, such as xterm, or use 'sallyport status'\n")
    return 1
  }
  defer { cn_stop() }
  var session = TopSession(link, intervalMilliseconds: interval)
  return session.run()
}

enum TopInterval {
  static let usual: Int64 = 1000
  /// Below this range, a view costs the daemon more than it is worth; above it, the view shows the past.
  static let bounds: ClosedRange<Int64> = 200...60_000

  nonisolated static func read(_ text: String?) throws -> Int64 {
    guard let text else { return usual }
    guard let milliseconds = Quantity.milliseconds(text), bounds.contains(milliseconds) else {
      throw UsageError(message: "'--interval': expected a duration from 200ms to 60s, found '\(text.printable)'")
    }
    return milliseconds
  }
}

struct TopSession {
  /// Wake-ups without a key, after which the terminal is considered gone.
  private static let mostVainWakes = 100

  private var link: TopLink
  private var model: TopModel
  private let interval: Int64
  private var nextRound: Int64 = 0
  private var vainWakes = 0

  init(_ link: TopLink, intervalMilliseconds: Int64) {
    self.link = link
    interval = intervalMilliseconds
    model = TopModel(Glyphs(isUnicode: cn_is_unicode()) { Int(cn_columns_of($0.value)) })
  }

  mutating func run() -> Int32 {
    model.resize(columns: Int(cn_columns()), lines: Int(cn_lines()))
    draw()
    while true {
      ask()
      let ready = link.waits(for: .input, milliseconds: Int32(clamping: max(0, wakeTime - Clock.monotonic)))
      let heard = (ready.connection ? link.receive() : []) + link.timeOuts(Clock.monotonic)
      for happening in heard { take(happening) }
      let keys = readKeys()
      if keys.quits { return 0 }
      if ready.other, keys.count == 0 {
        vainWakes += 1
        if vainWakes > Self.mostVainWakes { return 1 }
      } else {
        vainWakes = 0
      }
      let isResized = cn_follow_size()
      if isResized { model.resize(columns: Int(cn_columns()), lines: Int(cn_lines())) }
      if keys.count > 0 || !heard.isEmpty || isResized { draw() }
    }
  }

  /// When there is something to do without a key or an answer.
  private var wakeTime: Int64 {
    if let deadline = link.deadline { return deadline }
    return model.isPaused ? Clock.monotonic + interval : nextRound
  }

  /// Begins the next round if it is time, and sends what is waiting.
  private mutating func ask() {
    let now = Clock.monotonic
    if link.isIdle, !model.isPaused, now >= nextRound {
      for resource in model.view.resources { link.add(.poll(resource)) }
      nextRound = now + interval
    }
    if let reason = link.sendNext() { lose(reason) }
  }

  private mutating func lose(_ reason: String) {
    link.drop()
    nextRound = Clock.monotonic + interval
    model.lose(reason)
    draw()
  }

  private mutating func take(_ happening: TopLink.Happening) {
    switch happening {
    case .lost(let reason): lose(reason)
    case .answer(let question, let answer):
      model.regain()
      switch question {
      case .poll(let resource):
        let moment = TopMoment(monotonic: Clock.monotonic, wall: Clock.wall)
        model.take(resource, status: answer.status, content: answer.content, at: moment)
        // A slow daemon is not asked faster than it answers.
        if link.isIdle { nextRound = max(nextRound, Clock.monotonic + interval / 2) }
      case .person(let request):
        model.take(request, status: answer.status, content: answer.content)
        nextRound = 0
      }
    }
  }

  private mutating func readKeys() -> (count: Int, quits: Bool) {
    var count = 0
    while true {
      let code = cn_key()
      if code == CN_NONE.rawValue { return (count, false) }
      count += 1
      if code == CN_RESIZE.rawValue {
        model.resize(columns: Int(cn_columns()), lines: Int(cn_lines()))
        continue
      }
      guard let key = Self.key(code) else { continue }
      switch model.press(key) {
      case .quit?: return (count, true)
      case .refresh?:
        link.forgetPolls()
        nextRound = 0
      case .ask(let request)?: link.add(.person(request))
      case nil: break
      }
    }
  }

  private static func key(_ code: Int32) -> TopKey? {
    switch code {
    case CN_UP.rawValue: .up
    case CN_DOWN.rawValue: .down
    case CN_LEFT.rawValue: .left
    case CN_RIGHT.rawValue: .right
    case CN_PAGE_UP.rawValue: .pageUp
    case CN_PAGE_DOWN.rawValue: .pageDown
    case CN_HOME.rawValue: .home
    case CN_END.rawValue: .end
    case CN_ENTER.rawValue: .enter
    case CN_ESCAPE.rawValue: .escape
    case CN_BACKSPACE.rawValue: .backspace
    case CN_TAB.rawValue: .tab
    case CN_BACK_TAB.rawValue: .backTab
    default: code > 0 ? Unicode.Scalar(UInt32(code)).map { .character($0) } : nil
    }
  }

  private func draw() {
    cn_clear()
    for (index, line) in model.screen.enumerated() {
      cn_begin_line(Int32(index))
      for span in line { unsafe cn_put(span.text, span.style.rawValue) }
    }
    cn_show()
  }
}

extension Descriptor {
  fileprivate static let input = Descriptor(number: 0)
}

// Keys and answers in, rows and actions out.

import Testing

@testable import Console

@Suite struct TopModelTests {
  private func model() -> TopModel {
    var model = TopModel(testGlyphs)
    model.resize(columns: 80, lines: 24)
    model.take(.status, statusText())
    model.take(
      .connections,
      list([
        connectionText("AAAAAA", host: "a.test", bytes: 1), connectionText("BBBBBB", host: "b.test", bytes: 3),
        connectionText("CCCCCC", host: "c.test", bytes: 2),
      ]))
    _ = model.press(.character("2"))
    return model
  }

  @Test func viewsChangeAndAreAskedForAtOnce() {
    var model = model()
    #expect(model.view == .connections && model.press(.tab) == .refresh && model.view == .rules)
    #expect(model.press(.backTab) == .refresh && model.view == .connections)
    #expect(model.press(.character("5")) == .refresh && model.view == .questions)
    #expect(model.press(.tab) == .refresh && model.view == .traffic)
    #expect(model.press(.character("q")) == .quit)
  }

  @Test func rowsAreSortedByAnyColumn() {
    var model = model()
    // By bytes a second, and where these are equal by bytes.
    #expect(model.column(0) == ["BBBBBB", "CCCCCC", "AAAAAA"])
    model.type("s")
    #expect(model.place.sort == TopSort(column: 7, isDescending: true) && model.column(0).first == "BBBBBB")
    model.type("r")
    #expect(model.column(0) == ["AAAAAA", "CCCCCC", "BBBBBB"])
    model.type("<<<<")
    #expect(model.place.sort == TopSort(column: 3, isDescending: false))
    #expect(model.column(3) == ["a.test", "b.test", "c.test"])
    model.type("<<<<")
    #expect(model.place.sort.column == 8)
  }

  @Test func aFilterHoldsForAnyColumn() {
    var model = model()
    model.type("/B.TeS")
    #expect(model.mode == .filter && model.column(0) == ["BBBBBB"])
    _ = model.press(.backspace)
    _ = model.press(.enter)
    #expect(model.mode == .table && model.place.filter == "B.Te")
    _ = model.press(.escape)
    #expect(model.rows.count == 3 && model.place.filter.isEmpty)
    model.type("/" + String(repeating: "x", count: 500))
    #expect(model.place.filter.count == TopModel.longestFilter && model.rows.isEmpty && model.selected == nil)
  }

  @Test func theSelectionStaysWithItsRow() {
    var model = model()
    _ = model.press(.down)
    #expect(model.selected?.reference == "CCCCCC")
    model.take(
      .connections,
      list([
        connectionText("DDDDDD", bytes: 900), connectionText("CCCCCC", bytes: 2), connectionText("BBBBBB", bytes: 3),
      ]),
      at: 1000)
    #expect(model.selected?.reference == "CCCCCC" && model.place.index == 2)
    model.take(.connections, list([connectionText("DDDDDD", bytes: 900)]), at: 2000)
    #expect(model.selected?.reference == "DDDDDD")
    model.take(.connections, "[]", at: 3000)
    #expect(model.selected == nil && model.press(.enter) == nil && model.press(.down) == nil)
  }

  @Test func aCancellationIsAskedBefore() {
    var model = model()
    #expect(model.press(.character("c")) == nil)
    let request = TopRequest(method: "POST", path: "/v1/cancel?ref=BBBBBB", purpose: .act)
    #expect(model.mode == .confirm(request, question: "cancel BBBBBB, ci to b.test? y/n"))
    #expect(model.press(.enter) == nil && model.mode == .table && model.message == "nothing was done")
    model.type("c")
    #expect(model.press(.character("y")) == .ask(request))
    model.take(request, status: 403, content: Array(#"{"status": 403, "detail": "may read only"}"#.utf8))
    #expect(model.message == "may read only")
    model.type("1")
    #expect(model.press(.character("c")) == nil && model.mode == .table)
  }

  @Test func nothingOfAReferenceLeavesThePath() {
    var model = model()
    model.take(.connections, list([connectionText("A B/../?x=1&é")]), at: 1000)
    model.type("c")
    #expect(
      model.press(.character("y")) == .ask(TopRequest(method: "POST", path: "/v1/cancel?ref=ABx1", purpose: .act)))
  }

  @Test func enterSaysMore() {
    var model = model()
    #expect(model.press(.enter) == nil)
    guard case .page(_, let text, 0) = model.mode else {
      Issue.record("\(model.mode)")
      return
    }
    #expect(text.contains("request    CONNECT b.test:443") && text.contains("unit       -"))
    _ = model.press(.enter)
    _ = model.press(.character("4"))
    model.take(.refusals, list([decisionText("RRRRRR", outcome: "pin-mismatch")]))
    #expect(model.column(5) == ["pin-mismatch"])
    let request = TopRequest(method: "GET", path: "/v1/decisions/RRRRRR", purpose: .page("Request RRRRRR"))
    #expect(model.press(.enter) == .ask(request))
    model.take(request, status: 200, content: Array((0..<100).map { "line \($0)\n" }.joined().utf8))
    #expect(model.text[3].hasPrefix("line 0 "))
    _ = model.press(.pageDown)
    #expect(model.text[3].hasPrefix("line 20 "))
    _ = model.press(.end)
    #expect(model.text[22].trimmed.isEmpty && model.text[21].hasPrefix("line 99 "))
    _ = model.press(.up)
    _ = model.press(.character("q"))
    #expect(model.mode == .table)
  }

  @Test func questionsAreAnswered() {
    var model = model()
    model.take(
      .asks,
      #"""
      {"asks": [{"ref": "QQQQQQ", "since": "2026-11-20T15:23:50Z", "until": "2026-11-20T15:25:00Z", "waiting": 2,
                 "user": "ci", "method": "GET", "url": "https://h.test/*"}],
       "temporary": [{"id": 4, "verdict": "allow", "host": "t.test", "port": 443, "until": null}]}
      """#)
    #expect(model.text[1].hasPrefix("1 QUESTION  ") && model.text[2].contains("5 Questions (1)"))
    #expect(model.press(.character("a")) == nil && model.message?.contains("(5)") == true)
    model.type("5")
    for (key, path): (Unicode.Scalar, String) in [
      ("a", "/v1/allow?ref=QQQQQQ"), ("A", "/v1/allow?ref=QQQQQQ&for=1h"), ("d", "/v1/deny?ref=QQQQQQ"),
    ] {
      model.type("/QQ")
      _ = model.press(.enter)
      #expect(model.press(.character(key)) == .ask(TopRequest(method: "POST", path: path, purpose: .act)))
      _ = model.press(.escape)
    }
    #expect(model.rows.map(\.id).sorted() == ["#4", "QQQQQQ"])
    model.type("/t.test")
    _ = model.press(.enter)
    #expect(model.press(.character("a")) == nil)
    #expect(
      model.press(.character("x")) == .ask(TopRequest(method: "POST", path: "/v1/revoke?id=4", purpose: .act)))
    model.take(.asks, #"{"status": 404}"#, status: 404)
    _ = model.press(.escape)
    #expect(model.rows.isEmpty && model.text[4].contains("asks no questions"))
  }

  /// The rows move while a person reads: what is pressed then is not done to the row that has come there.
  @Test func anAnswerIsForTheRowThatWasChosen() {
    func asks(_ references: String...) -> String {
      let rows = references.map {
        #"{"ref": "\#($0)", "since": "2026-11-20T15:23:50Z", "until": "2026-11-20T15:25:00Z", "waiting": 1, "#
          + #""user": "ci", "method": "GET", "host": "\#($0.lowercased()).test", "url": "https://h.test/*"}"#
      }
      return #"{"asks": [\#(rows.joined(separator: ","))], "temporary": []}"#
    }
    var model = model()
    model.take(.asks, asks("GGGGGG", "EEEEEE"))
    model.type("5")
    let first = model.rows[0].id
    let other = model.rows[1].id
    model.take(.asks, asks(other))
    #expect(model.press(.character("a")) == nil)
    guard case .confirm(let request, let question) = model.mode else {
      Issue.record("\(model.mode)")
      return
    }
    #expect(request.path == "/v1/allow?ref=\(other)" && question.contains("the rows have moved: allow \(other)"))
    #expect(model.press(.character("n")) == nil)
    _ = model.press(.home)
    #expect(model.press(.character("a")) == .ask(request), "it has been chosen")
    #expect(first != other)
  }

  @Test func aDaemonThatIsGoneIsSaid() {
    var model = model()
    model.lose("cannot reach it")
    #expect(model.text[0].hasPrefix("sallyport: trying again; cannot reach it") && model.rows.count == 3)
    model.regain()
    #expect(model.rows.isEmpty && model.text[0].hasPrefix("sallyport: asking the daemon"))
  }

  @Test func aPauseIsSeen() {
    var model = model()
    #expect(model.press(.character("p")) == nil && model.isPaused && model.text[0].hasPrefix("PAUSED"))
    #expect(model.press(.character("p")) == .refresh && !model.isPaused)
  }

  @Test func anAnswerThatIsNoneIsSaid() {
    var model = model()
    model.take(.connections, "nonsense")
    #expect(model.message == "/v1/connections: nonsense" && model.rows.count == 3)
  }
}

extension String {
  var trimmed: Substring { drop { $0 == " " } }
}

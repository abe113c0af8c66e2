// What a table keeps of a head makes the same head again.

import Testing

@testable import Cache

@Suite struct StoredRecordTests {
  @Test(arguments: [
    ["Cache-Control: max-age=60", "ETag: \"1\"", "Age: 7"],
    [
      "Cache-Control: s-maxage=5, must-revalidate", "Vary: Accept-Language, X",
      "Last-Modified: Sun, 01 Mar 2026 11:00:00 GMT",
    ],
    ["Expires: Sun, 01 Mar 2099 11:00:00 GMT", "X-Empty:"],
  ])
  func aHeadIsMadeAgain(_ lines: [String]) {
    let head = answer(200, lines, to: request(["Accept-Language: de, en"]), delay: 2000)
    let again = StoredHead(StoredRecord(head), targets: [])
    #expect(StoredRecord(again) == StoredRecord(head))
    #expect(again.selecting == head.selecting)
    #expect(again.directives == head.directives)
    #expect(again.entityTag == head.entityTag)
    #expect(again.lastModified == head.lastModified)
    #expect(again.date == head.date)
    for seconds: Int64 in [0, 30, 61, 4000] {
      #expect(again.age(at: later(seconds)) == head.age(at: later(seconds)))
      #expect(again.timeToLive(at: later(seconds)) == head.timeToLive(at: later(seconds)))
    }
  }
}
